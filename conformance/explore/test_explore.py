"""Exploring finds planted races, prints what reproduces them, and leaves correct tests alone."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import finish, start
from tests.forked_python import ForkedPython

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
FOLDER = "conformance/explore"
PLANTED = (
    f"{FOLDER}/planted_tests.py::test_same_name_again",
    f"{FOLDER}/planted_operator.py::test_operator[stale_owner]",
    f"{FOLDER}/planted_operator.py::test_operator[refused_request]",
)
CORRECT = tuple(
    test.replace("planted_tests", "test_repaired_tests").replace(
        "planted_operator", "test_repaired_operator"
    )
    for test in PLANTED
)
OUTCOME = re.compile(rf"^({FOLDER}/\S+): (\d+) of (\d+) passed$", re.MULTILINE)


def environment(**more: str) -> dict[str, str]:
    """Return this environment without settings of the outer run."""
    names = [name for name in os.environ if not name.startswith(("KWAIT_", "PYTEST_"))]
    return {name: os.environ[name] for name in names} | more


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run pytest in a process of its own, with an embedded cluster of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return finish(start(command, ROOT, environment()))


def run_on_a_terminal(*arguments: str) -> tuple[int, str]:
    """Run pytest on a terminal."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    process = ForkedPython(
        command, cwd=ROOT, env=environment(TERM="xterm"), stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    parts: list[bytes] = []
    try:
        while part := os.read(ours, 65536):
            parts.append(part)
    except OSError:
        pass  # the other side is closed
    finally:
        os.close(ours)
    return process.wait(60), b"".join(parts).decode().replace("\r\n", "\n")


def reproduces(command: str) -> bool:
    """Return whether the printed command fails, in one of three tries."""
    program, *arguments = shlex.split(command)
    assert program == "pytest"
    return any(run(arguments)[0] == 1 for _ in range(3))


@pytest.fixture
def _alone(request: pytest.FixtureRequest) -> None:
    """Skip on other clusters: these tests start embedded ones."""
    if request.getfixturevalue("kwait_cluster").provider != "embedded":
        pytest.skip("only the embedded cluster explores")


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize("race", PLANTED)
def test_planted_races_are_found_and_reproduced(race: str) -> None:
    """Each race has its verdict with the seed, and the smallest set with its command."""
    # How an operator is scheduled decides too, so it may pass in some runs.
    limits = ["--kwait-explore=20", "-x"]
    if "refused_request" not in race:
        # Two workers find two failures, and each shrinks its own; one race is met without.
        limits.append("-n=2")
    status, said = run([*limits, "--kwait-explore-level=harsh", "--kwait-seed=1", race])
    verdict = said[said.index(" kwait: explored ") :]

    assert status == 1, said
    assert re.search(r"^seed 1, level harsh: \d+ runs in \S+, [12] failed, ", verdict, re.MULTILINE)
    assert [test for test, passed, runs in OUTCOME.findall(verdict) if passed != runs] == [race]
    commands = re.findall(r"^ +(pytest .+)$", verdict, re.MULTILINE)
    assert commands
    assert all("--kwait-explore 1 --kwait-seed " in command for command in commands)
    if "refused_request" in race:
        # Whatever else runs, the operator's own request has its own number.
        assert re.search("@request .+ by kubernetes-admin/site-operator 1$", verdict, re.MULTILINE)
    if "test_same_name_again" in race:
        assert reproduces(commands[0]), commands[0]


@pytest.mark.usefixtures("_alone")
def test_correct_tests_pass_until_the_time_is_up() -> None:
    """A line shows the progress meanwhile."""
    arguments = ("-p", "conformance.explore.moved_time", "-n=2", "--kwait-explore=10m")
    status, said = run_on_a_terminal(*arguments, "--kwait-seed=1", *CORRECT)
    outcomes = {test: passed == runs for test, passed, runs in OUTCOME.findall(said)}

    assert status == 0, said
    assert "kwait: exploring [" in said
    assert "seed 1, level usual: " in said
    assert outcomes == dict.fromkeys(CORRECT, True)

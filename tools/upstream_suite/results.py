"""What ginkgo's report says, beside the list of tests that are not expected to pass."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOT_PASSING = Path(__file__).with_name("not_passing.toml")
_SIG = re.compile(r"\[sig-([a-z-]+)\]")
_MESSAGE_LINES = 6


@dataclass(frozen=True)
class Result:
    """A test that has run.

    Args:
        state: `passed`, `skipped`, `failed`, or another of ginkgo's.
        message: why it failed or was skipped.
    """

    name: str
    state: str
    seconds: float
    message: str

    @property
    def sig(self) -> str:
        """The group of upstream's that owns the test."""
        return get_sig(self.name)


def get_sig(name: str) -> str:
    """Return the group that owns a test."""
    found = _SIG.search(name)
    return found.group(1) if found else "-"


def read_report(path: Path) -> list[Result]:
    """Return the tests that have run, from ginkgo's JSON report."""
    results = []
    for suite in json.loads(path.read_text()):
        for spec in suite["SpecReports"] or ():
            failure = spec.get("Failure") or {}
            message = failure.get("Message") or ""
            # What the filters leave out is skipped without a reason.
            if spec["LeafNodeType"] == "It" and (spec["State"] != "skipped" or message):
                texts = [*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]
                seconds = spec["RunTime"] / 1e9
                results.append(Result(" ".join(texts), spec["State"], seconds, message))
    return sorted(results, key=lambda result: result.name)


def read_not_passing(path: Path = NOT_PASSING) -> dict[str, str]:
    """Return the tests that are not expected to pass, each with its reason."""
    groups = tomllib.loads(path.read_text())["group"]
    return {test: group["reason"] for group in groups for test in group["tests"]}


def count_tests(path: Path = NOT_PASSING) -> dict[str, int]:
    """Return how many tests each SIG has, passing or not."""
    tests: dict[str, int] = tomllib.loads(path.read_text())["tests"]
    return tests


def format_table(results: Iterable[Result]) -> str:
    """Return the counts of each SIG as a table."""
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        state = result.state if result.state in ("passed", "skipped") else "failed"
        counts[result.sig, state] += 1
        counts["all", state] += 1
    sigs = sorted({sig for sig, _ in counts} - {"all"})
    lines = [f"{'':20}{'passed':>8}{'failed':>8}{'skipped':>8}"]
    lines += [
        f"{sig:20}"
        + "".join(f"{counts[sig, state]:8}" for state in ("passed", "failed", "skipped"))
        for sig in [*sigs, "all"]
    ]
    return "\n".join(lines)


def list_differences(
    results: Iterable[Result], not_passing: Mapping[str, str], asked: Iterable[str] = ()
) -> list[str]:
    """Return what differs from the list, a text for each test.

    Args:
        asked: tests that must have run.
    """
    found = []
    ran = set()
    for result in results:
        ran.add(result.name)
        is_listed = result.name in not_passing
        if result.state == "passed" and is_listed:
            found.append(f"passed, remove it from {NOT_PASSING.name}: {result.name}")
        elif result.state not in ("passed", "skipped") and not is_listed:
            lines = [line for line in result.message.strip().splitlines() if line.strip()]
            said = "".join(f"\n    {line}" for line in lines[:_MESSAGE_LINES])
            found.append(f"{result.state}: {result.name}{said}")
    found += [f"did not run: {name}" for name in asked if name not in ran]
    return found

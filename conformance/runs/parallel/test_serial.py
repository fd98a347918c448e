"""Serial tests: alone on the cluster, among other workers and other jobs."""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from conformance.runs.inner_runs import finish, start
from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait import Kwait
    from tests.forked_python import ForkedPython

SUITE = """
import json
import os
import time
from contextlib import contextmanager

import pytest


@contextmanager
def noted(name):
    begun = time.monotonic()
    with open(f"{os.environ['RUN']}.begun", "a") as file:
        file.write(f"{name}\\n")
    yield
    with open(f"{os.environ['RUN']}.json", "a") as file:
        file.write(json.dumps([name, begun, time.monotonic()]) + "\\n")


@pytest.mark.parametrize("number", range(4))
def test_ordinary(kwait_namespace, number):
    with noted("ordinary"):
        time.sleep(0.3)


@pytest.mark.kwait_serial
@pytest.mark.parametrize("number", range(2))
def test_serial(kwait_namespace, number):
    with noted("serial"):
        time.sleep(0.3)


@pytest.mark.kwait_disruptive
def test_long(kwait_namespace):
    with noted("long"):
        time.sleep(60)
"""


class Jobs:
    """CI jobs that share a namespace and its lock.

    Args:
        kwait: the object of the test.
        folder: where their suite is.
    """

    def __init__(self, kwait: Kwait, folder: Path) -> None:
        self._kwait = kwait
        self._folder = folder
        self._started: list[ForkedPython] = []
        (folder / "test_suite.py").write_text(SUITE)
        (folder / "pytest.ini").write_text("[pytest]\n")

    def start(self, name: str, *options: str) -> ForkedPython:
        """Start a job."""
        cluster = self._kwait.cluster
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"--kwait-kubeconfig={cluster.kubeconfig}", f"--kwait-run-id={name}"]
        command += [f"--kwait-namespace={self._kwait.namespace}", "--kwait-heartbeat=2s"]
        command += ["--kwait-no-janitor", *options]
        if cluster.context:
            command.append(f"--kwait-context={cluster.context}")
        hidden = ("KWAIT_", "PYTEST_")
        environ = {k: v for k, v in os.environ.items() if not k.startswith(hidden)} | {"RUN": name}
        job = start(command, self._folder, environ, new_session=True)
        self._started.append(job)
        return job

    def begun(self, name: str) -> None:
        """Return once a job runs a test."""
        file = self._folder / f"{name}.begun"
        wait.poll_immediate("50ms", "4m", file.exists)

    def spans(self, *names: str) -> list[tuple[str, float, float]]:
        """Return start and end of each test."""
        texts = [(self._folder / f"{name}.json").read_text() for name in names]
        return [tuple(json.loads(line)) for text in texts for line in text.splitlines()]

    def leases(self) -> list[dict[str, Any]]:
        """Return the Leases of the lock."""
        everything = self._kwait.list("leases")
        return [each for each in everything if "pytest-kwait/lock" in each["metadata"]["labels"]]

    def end(self) -> None:
        """Kill all that still run."""
        for job in self._started:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.communicate()


@pytest.fixture
def jobs(kwait: Kwait, tmp_path: Path) -> Iterator[Jobs]:
    """Jobs in parallel to this run."""
    made = Jobs(kwait, tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_serial_test_runs_alone(jobs: Jobs) -> None:
    """Two jobs, one with two workers."""
    started = [jobs.start("one", "-n2", "-k", "not long"), jobs.start("two", "-k", "not long")]
    output = [finish(job)[1] for job in started]

    assert [job.returncode for job in started] == [0, 0], "\n".join(output)
    spans = jobs.spans("one", "two")
    assert sorted(name for name, _, _ in spans) == ["ordinary"] * 8 + ["serial"] * 4
    beside = [
        (one, other)
        for one, other in combinations(spans, 2)
        if "serial" in (one[0], other[0]) and max(one[1], other[1]) < min(one[2], other[2])
    ]
    assert beside == []
    assert jobs.leases() == []


def test_a_killed_holder_is_followed(jobs: Jobs) -> None:
    """The others detect the expired Lease of the killed holder."""
    killed = jobs.start("killed", "-k", "long")
    jobs.begun("killed")
    following = jobs.start("following", "-k", "serial")
    wait.poll_immediate("50ms", "4m", lambda: "following" in str(jobs.leases()))
    os.killpg(killed.pid, signal.SIGKILL)
    output = finish(following)[1]

    assert following.returncode == 0, output
    assert len(jobs.spans("following")) == 2
    assert jobs.leases() == []


def test_lock_of_a_killed_holder_expires_with_its_lease(jobs: Jobs, kwait: Kwait) -> None:
    """The janitor deletes the run's Lease, which owns those of the lock."""
    killed = jobs.start("killed", "-k", "long")
    jobs.begun("killed")
    os.killpg(killed.pid, signal.SIGKILL)
    assert len(jobs.leases()) == 2

    (sign,) = {
        owner["name"]
        for lease in jobs.leases()
        for owner in lease["metadata"]["ownerReferences"]
        if owner["name"].startswith("kwait-killed-")
    }
    kwait.delete(f"lease/{sign}")
    wait.poll_immediate("50ms", "4m", lambda: jobs.leases() == [])

"""A runner of Jobs, in the process of the tests: results, retries, cancelling, faults."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import WaitFailed, wait

from .runner import Result

if TYPE_CHECKING:
    from pytest_kwait import Kwait

    from .runner import Runner


def test_a_command_that_ends(runner: Runner) -> None:
    """The result has what the command wrote."""
    runner.submit("greeting", ["echo", "hello"])

    assert runner.follow("greeting") == Result("Complete", 1, "hello\n")


def test_a_command_is_tried_again(runner: Runner) -> None:
    """Each attempt is a pod of its own."""
    runner.submit("never", ["sh", "-c", "echo no; exit 3"], retries=1)

    assert runner.follow("never") == Result("Failed", 2, "no\n")


def test_a_cancelled_command(kwait: Kwait, runner: Runner) -> None:
    """It ends for who follows it, and its pod is gone."""
    runner.submit("long", ["sleep", "300"])
    kwait.wait_for_job_pods_running("long", 1)

    with ThreadPoolExecutor() as threads:
        result = threads.submit(runner.follow, "long")
        runner.cancel("long")
        assert result.result(60) == Result("Cancelled", 0, "")

    kwait.wait_for("job/long", "delete")
    assert kwait.list("pods") == []


def test_the_wait_says_why_a_command_failed(kwait: Kwait, runner: Runner) -> None:
    """By the end of its log, where the runner's result has only `Failed`."""
    runner.submit("broken", ["sh", "-c", "echo no space left on /data; exit 1"])

    with pytest.raises(WaitFailed, match="no space left on /data"):
        kwait.wait_for_job_complete("broken")


# Faults on demand are the embedded cluster's.
@pytest.mark.kwait_skip_unless_provider_is("embedded")
def test_a_broken_watch(kwait: Kwait, runner: Runner) -> None:
    """The connection of the runner's watch ends, as when a proxy restarts."""
    faults = kwait.cluster.faults
    runner.submit("long", ["sh", "-c", "until test -e /tmp/go; do sleep 0.1; done; echo done"])

    with ThreadPoolExecutor() as threads:
        result = threads.submit(runner.follow, "long")
        # The first that watches Jobs in this namespace is the runner.
        wait.poll_immediate("100ms", "60s", lambda: faults.cut_watches(resources=["jobs"]).hits > 0)
        kwait.wait_for_job_pods_running("long", 1)
        kwait.exec("job/long", "touch", "/tmp/go")
        assert result.result(60) == Result("Complete", 1, "done\n")

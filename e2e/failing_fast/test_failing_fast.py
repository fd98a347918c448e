"""Waits that cannot succeed fail within seconds and say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.objects import TYPO, container, job
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed, WaitTimeout

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_a_failed_job_never_completes(kwait: Kwait) -> None:
    """The message has the reason, the pod's exit code and its last words."""
    kwait.create(job("broken", container(script="echo cannot go on; exit 3"), backoffLimit=0))

    with pytest.raises(WaitFailed) as caught:
        kwait.wait_for_job_complete("broken", timeout="4m")

    text = str(caught.value)
    assert "BackoffLimitExceeded" in text
    assert "exit code 3" in text
    assert "cannot go on" in text


def test_an_image_that_does_not_exist(kwait: Kwait) -> None:
    """The name alone tells that no retry will help; no need to wait for the whole limit."""
    kwait.create(job("typo", container(**TYPO)))

    with raises(WaitFailed, "InvalidImageName"):
        kwait.wait_for_job_pods_running("typo", 1, timeout="4m")


def test_pods_that_ended_will_not_run(kwait: Kwait) -> None:
    """Running is awaited, but the job is over."""
    kwait.create(job("over", container(script="true")))
    kwait.wait_for_job_finish("over")

    with raises(WaitFailed, "over"):
        kwait.wait_for_job_pods_running("over", 1, timeout="4m")


def test_a_job_deleted_while_it_is_awaited(kwait: Kwait) -> None:
    """Gone is gone: after it has been seen, a missing object is an answer."""
    kwait.create(job("short-lived"))
    kwait.wait_for_job_pods_running("short-lived", 1)
    kwait.delete("job/short-lived", propagation="Background")
    kwait.wait_for("job/short-lived", "delete")

    times_out("short-lived", kwait.wait_for_job_pods_running, "short-lived", 1)


def test_a_timeout_reports_the_last_state(kwait: Kwait) -> None:
    """At the limit the message tells what was awaited and what was there instead."""
    kwait.create(job("one", parallelism=1))
    kwait.wait_for_job_pods_running("one", 1)

    with pytest.raises(WaitTimeout) as caught:
        kwait.wait_for_job_pods_running("one", 2, timeout="1s")

    assert "one" in str(caught.value)
    assert "2" in str(caught.value)


def test_failing_fast_is_a_setting(kwait: Kwait) -> None:
    """`fail_fast=False` waits to the limit whatever the signs are."""
    kwait.create(job("typo", container(**TYPO)))

    with pytest.raises(WaitTimeout):
        kwait.wait_for_job_pods_running("typo", 1, timeout="2s", fail_fast=False)

"""Tests of test/e2e/apps/job.go, with upstream's names of tests and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait

COMMANDS = {"succeed": "exit 0", "fail": "exit 1", "notTerminate": "sleep 3600"}


def new_test_job(
    behavior: str, name: str, parallelism: int, completions: int, backoff_limit: int = 6
) -> dict[str, Any]:
    """Return a Job whose pods behave as told, as `e2ejob.NewTestJob`."""
    container = {
        "name": "c",
        "image": "busybox:1.36",
        "command": ["sh", "-c", COMMANDS[behavior]],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": parallelism,
            "completions": completions,
            "backoffLimit": backoff_limit,
            "template": {"spec": pod},
        },
    }


def test_run_a_job_to_completion_when_tasks_succeed(kwait: Kwait) -> None:
    """`WaitForJobComplete` with the reason and the number of completions."""
    kwait.create(new_test_job("succeed", "all-succeed", 2, 4))
    kwait.wait_for_job_complete("all-succeed", "CompletionsReached", 4)
    pods = kwait.wait_for_job_pods_succeeded("all-succeed", 4)
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}


def test_fail_to_exceed_backoff_limit(kwait: Kwait) -> None:
    """`WaitForJobFailed`; afterwards the pods are there to be counted."""
    kwait.create(new_test_job("fail", "backofflimit", 1, 1, backoff_limit=1))
    kwait.wait_for_job_failed("backofflimit")
    pods = kwait.list("pods", selector="job-name=backofflimit")
    assert [pod["status"]["phase"] for pod in pods] == ["Failed", "Failed"]


def test_a_failed_job_does_not_complete(kwait: Kwait) -> None:
    """Where the wait in Go would last its whole limit, this one ends with the Job."""
    kwait.create(new_test_job("fail", "fails", 1, 1, backoff_limit=0))
    with pytest.raises(WaitFailed, match="BackoffLimitExceeded"):
        kwait.wait_for_job_complete("fails")


def test_delete_a_job(kwait: Kwait) -> None:
    """`WaitForJobPodsRunning`, then `WaitForJobGone` and `WaitForAllJobPodsGone`."""
    (job,) = kwait.create(new_test_job("notTerminate", "foo", 2, 2))
    kwait.wait_for_job_pods_running("foo", 2)
    kwait.delete(job)
    kwait.wait_for_job_gone("foo", job["metadata"]["uid"])
    kwait.wait_for_all_job_pods_gone("foo", job["metadata"]["uid"])


def test_not_create_pods_when_created_in_suspend_state(kwait: Kwait) -> None:
    """`WaitForJobSuspend`; the pods come once the Job is resumed."""
    job = new_test_job("notTerminate", "suspended", 1, 1)
    job["spec"]["suspend"] = True
    kwait.create(job)
    kwait.wait_for_job_suspend("suspended")
    assert kwait.list("pods", selector="job-name=suspended") == []
    kwait.patch("job/suspended", {"spec": {"suspend": False}})
    kwait.wait_for_job_pods_running("suspended", 1)


def test_update_the_status_ready_field(kwait: Kwait) -> None:
    """`WaitForJobReady`, and `UpdateJob` by a strategic patch."""
    kwait.create(new_test_job("notTerminate", "all-ready", 2, 4))
    kwait.wait_for_job_ready("all-ready", 2)
    kwait.patch("job/all-ready", {"spec": {"parallelism": 0}})
    kwait.wait_for_job_ready("all-ready", 0)

"""Waiting for conditions of a job, and for its deletion."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest

from e2e.objects import container, job
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed, wait_for_job_complete

if TYPE_CHECKING:
    from pytest_kwait import Kwait, Mode


def test_job_ready(kwait: Kwait) -> None:
    """The Job's own count of ready pods, exactly."""
    kwait.create(job("two", parallelism=2, completions=2))

    assert kwait.wait_for_job_ready("two", 2)["status"]["ready"] == 2
    with raises(WaitFailed, "the job keeps 2 pods active at most"):
        kwait.wait_for_job_ready("two", 3, timeout="4m", grace="500ms")


def test_ready_of_a_job_that_is_over(kwait: Kwait) -> None:
    kwait.create(job("short", container(script="true")))
    kwait.wait_for_job_finish("short")

    with raises(WaitFailed, "the job is complete"):
        kwait.wait_for_job_ready("short", 1, timeout="4m", grace="500ms")


def test_namespace_that_does_not_exist(kwait: Kwait) -> None:
    nowhere = "never-was"

    with raises(WaitFailed, f"namespace {nowhere} does not exist"):
        wait_for_job_complete(kwait.client, nowhere, "pi", grace="1s", timeout="4m")


def test_hook_job_created_anew_under_its_name(kwait: Kwait) -> None:
    """Helm and Argo CD delete a hook Job and create the next one under the same name."""
    kwait.create(job("hook"))
    kwait.wait_for_job_ready("hook", 1)

    def replace() -> None:
        kwait.delete("job/hook")
        kwait.create(job("hook", container(script="true")))

    replaced = threading.Timer(0.5, replace)
    replaced.start()
    done = kwait.wait_for_job_complete("hook", follow_name=True, timeout="4m")
    replaced.join()

    assert done["status"]["succeeded"] == 1


def test_job_suspended(kwait: Kwait) -> None:
    """A suspended Job has no pods."""
    kwait.apply(job("paused"))
    kwait.wait_for_job_ready("paused", 1)
    times_out("spec.suspend is not true: 1 Running", kwait.wait_for_job_suspend, "paused")
    kwait.apply(job("paused", suspend=True))

    assert kwait.wait_for_job_suspend("paused")["spec"]["suspend"] is True
    kwait.wait_for_job_condition("paused", "Suspended", "JobSuspended")
    kwait.wait_for_all_job_pods_gone("paused", timeout="4m")
    with raises(WaitFailed, "the job is suspended"):
        kwait.wait_for_job_condition("paused", "Complete", timeout="4m", grace="500ms")


def test_job_conditions(kwait: Kwait) -> None:
    """Conditions with reasons; a contrary condition fails the wait early."""
    kwait.create(
        job("good", container(script="true")),
        job("bad", container(script="exit 3"), backoffLimit=0),
    )

    kwait.wait_for_job_condition("good", "Complete", "CompletionsReached")
    kwait.wait_for_job_condition("bad", "Failed", "BackoffLimitExceeded")
    with raises(WaitFailed, "the job is failed with reason 'BackoffLimitExceeded'"):
        kwait.wait_for_job_condition("bad", "Failed", "DeadlineExceeded", timeout="4m")
    with raises(WaitFailed, "the job is complete"):
        kwait.wait_for_job_condition("good", "FailureTarget", timeout="4m")
    with raises(WaitFailed, "the job failed: BackoffLimitExceeded"):
        kwait.wait_for_job_condition("bad", "SuccessCriteriaMet", timeout="4m")


def test_job_state(kwait: Kwait) -> None:
    """The condition is a callable, which may return a text for the pending state."""

    def two_active(each: dict[str, Any]) -> str:
        active = each["status"].get("active", 0)
        return "" if active == 2 else f"{active} pods are active"

    kwait.create(job("two", parallelism=2, completions=2), job("one"))

    assert kwait.wait_for_job_state("two", two_active)["status"]["active"] == 2
    kwait.wait_for_job_state("one", lambda each: each["status"].get("active") == 1)
    times_out(
        "did not satisfy two_active within LIMIT: 1 pods are active",
        kwait.wait_for_job_state,
        "one",
        two_active,
    )


def test_deleted_job_by_uid(kwait: Kwait) -> None:
    """A recreated Job of the same name is another one."""
    before = kwait.create(job("again", suspend=True))[0]["metadata"]["uid"]
    times_out("still there, not being deleted", kwait.wait_for_job_gone, "again")
    kwait.delete("job/again", propagation="Background")

    kwait.wait_for_job_gone("again", before)
    kwait.create(job("again", suspend=True))
    kwait.wait_for_job_gone("again", before, timeout="1m")


def test_finalizers_that_hold_a_job(kwait: Kwait) -> None:
    """A deletion in the foreground waits for the pods, and those for their finalizers."""
    held = job("held")
    held["spec"]["template"]["metadata"] = {"finalizers": ["kwait.example/held"]}
    kwait.create(held)
    kwait.wait_for_job_ready("held", 1)
    kwait.delete("job/held", propagation="Foreground")

    times_out(
        r"held by foregroundDeletion \(1 pod: 1 being deleted, held by .*kwait",
        kwait.wait_for_job_gone,
        "held",
    )
    times_out(
        "1 pod still there: 1 being deleted, held by .*kwait.example/held",
        kwait.wait_for_all_job_pods_gone,
        "held",
    )
    (pod,) = kwait.list("pod")
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_pod(
        pod["metadata"]["name"], kwait.namespace, {"metadata": {"finalizers": None}}
    )
    kwait.wait_for_job_gone("held", timeout="4m")
    kwait.wait_for_all_job_pods_gone("held", timeout="4m")


def test_pods_of_a_deleted_job(kwait: Kwait) -> None:
    """Pods are found by the Job's name; finished pods of an existing Job stay."""
    kwait.create(job("short-lived"))
    kwait.wait_for_job_ready("short-lived", 1)
    times_out(
        "1 pod still there: 1 Running; the job is at work, and makes pods",
        kwait.wait_for_all_job_pods_gone,
        "short-lived",
    )
    kwait.delete("job/short-lived", propagation="Background")

    kwait.wait_for_all_job_pods_gone("short-lived", timeout="4m")
    assert kwait.list("pod") == []


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_job_waits_in_watch_and_poll_mode(kwait: Kwait, mode: Mode) -> None:
    kwait.create(job("brief"))

    kwait.wait_for_job_ready("brief", 1, mode=mode, poll="200ms")
    kwait.delete("job/brief", propagation="Background")
    kwait.wait_for_job_gone("brief", mode=mode, poll="200ms")

"""Verdicts on a raw Job and its pods, one row per case."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.engine.condition import Failed, Grace, Met, Pending
from pytest_kwait.framework.job.wait import (
    wait_for_job_complete,
    wait_for_job_failed,
    wait_for_job_finish,
    wait_for_job_pods_running,
    wait_for_job_pods_succeeded,
)
from pytest_kwait.framework.registry import condition_of
from tests.framework.job.rows import Row, enter_job
from tests.objects import condition, created_job, job_pod

SHORT, LONG = Grace.SHORT, Grace.LONG
BACKOFF = {"reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
STUCK = ("ErrImagePull", "manifest unknown")


def running(count: int) -> Any:
    return condition_of(wait_for_job_pods_running)("ci-1", "sleepers", count)


def succeeded(count: int) -> Any:
    return condition_of(wait_for_job_pods_succeeded)("ci-1", "sleepers", count)


def complete(**options: Any) -> Any:
    return condition_of(wait_for_job_complete)("ci-1", "sleepers", **options)


def failed() -> Any:
    return condition_of(wait_for_job_failed)("ci-1", "sleepers")


def finish() -> Any:
    return condition_of(wait_for_job_finish)("ci-1", "sleepers")


def stuck(name: str) -> Any:
    return job_pod(name, "Pending", waiting=STUCK)


def ended(kind: str, **more: Any) -> Any:
    return created_job(status={"conditions": [condition(kind, **more)]})


def stuck_verdict(text: str) -> Failed:
    return Failed(f"{text}: ErrImagePull: manifest unknown", SHORT, 0.0)


ROWS = {
    "no job": Row(running(3), Pending("not found yet"), None),
    "no pods": Row(running(3), Pending("0 of 3 pods Running")),
    "none awaited": Row(running(0), Met()),
    "too few": Row(running(2), Pending("1 of 2 pods Running: 1 Running"), pods=[job_pod("a")]),
    "just right": Row(
        running(2),
        Met(),
        pods=[job_pod("a"), job_pod("b"), job_pod("c", "Pending"), job_pod("d", "Failed")],
    ),
    "one too many": Row(
        running(1),
        Pending("2 pods Running, 1 more than awaited: 2 Running"),
        pods=[job_pod("a"), job_pod("b")],
    ),
    "a terminating pod is Running still": Row(
        running(1), Met(), pods=[job_pod("a", metadata={"deletionTimestamp": "now"})]
    ),
    "a pod of another owner": Row(
        running(1),
        Pending("0 of 1 pod Running: 1 of another owner"),
        pods=[job_pod("a", metadata={"ownerReferences": [{"uid": "x", "controller": True}]})],
    ),
    "stuck pod": Row(running(3), stuck_verdict("pod a"), pods=[stuck("a"), job_pod("b")]),
    "two stuck pods": Row(
        running(3), stuck_verdict("pod a (and 1 more pod)"), pods=[stuck("a"), stuck("b")]
    ),
    "stuck pod that can be spared": Row(
        running(2),
        Pending("1 of 2 pods Running: 1 Pending (ErrImagePull), 1 Running"),
        pods=[stuck("a"), job_pod("b")],
    ),
    "more stuck pods than can be spared": Row(
        running(2), stuck_verdict("pod a (and 1 more pod)"), pods=[stuck("a"), stuck("b")]
    ),
    "parallelism too small": Row(
        running(5),
        Failed(
            "the job comes to 3 pods Running at most (parallelism 3, 3 completions, 0 succeeded)",
            LONG,
        ),
    ),
    "too many have succeeded": Row(
        running(3),
        Failed(
            "the job comes to 1 pod Running at most (parallelism 3, 3 completions, 2 succeeded)",
            SHORT,
        ),
        created_job(status={"succeeded": 2}),
    ),
    "work queue before the first success": Row(
        running(3), Pending("0 of 3 pods Running"), created_job(spec={"completions": None})
    ),
    "work queue after it": Row(
        running(3),
        Failed(
            "the job comes to 1 pod Running at most (parallelism 3, no completions, 1 succeeded)",
            SHORT,
        ),
        created_job(spec={"completions": None}, status={"succeeded": 1}),
        [job_pod("a", "Pending"), job_pod("b", "Succeeded")],
    ),
    "Running awaited of a complete job": Row(
        running(1), Failed("the job is complete, with 0 pods Running"), ended("Complete")
    ),
    "the same, a pod not seen to end yet": Row(
        running(1),
        Failed("the job is complete, with 0 pods Running", SHORT),
        ended("Complete"),
        [job_pod("a", "Pending")],
    ),
    "Running awaited of a failed job": Row(
        running(1),
        Failed(
            "the job failed: BackoffLimitExceeded: Job has reached the limit, with 0 pods Running"
        ),
        ended("Failed", **BACKOFF),
        [job_pod("a", "Failed")],
    ),
    "Running awaited of a job about to fail": Row(
        running(2),
        Failed("the job is about to fail: PodFailurePolicy, with 1 pod Running", SHORT),
        ended("FailureTarget", reason="PodFailurePolicy"),
        [job_pod("a")],
    ),
    "a condition that is not True": Row(
        running(1),
        Pending("0 of 1 pod Running"),
        created_job(status={"conditions": [condition("Failed", "False")]}),
    ),
    "suspended": Row(
        running(1), Failed("the job is suspended", LONG), created_job(spec={"suspend": True})
    ),
    "suspended, none awaited": Row(running(0), Met(), created_job(spec={"suspend": True})),
    "being deleted": Row(
        running(1), Failed("the job is being deleted", SHORT), created_job(deletionTimestamp="now")
    ),
    "succeeded": Row(succeeded(1), Met(), pods=[job_pod("a", "Succeeded"), job_pod("b")]),
    "too few succeeded": Row(
        succeeded(3),
        Pending("1 of 3 pods Succeeded: 1 Succeeded, 1 Failed"),
        pods=[job_pod("a", "Succeeded"), job_pod("b", "Failed")],
    ),
    "too many succeeded": Row(
        succeeded(1),
        Failed("2 pods Succeeded, more than awaited", LONG),
        pods=[job_pod("a", "Succeeded"), job_pod("b", "Succeeded")],
    ),
    "more awaited than completions": Row(
        succeeded(4),
        Failed(
            "the job comes to 3 pods Succeeded at most (parallelism 3, 3 completions, 0 succeeded)",
            LONG,
        ),
    ),
    "stuck pod of a success that is needed": Row(
        succeeded(3), stuck_verdict("pod a"), pods=[stuck("a")]
    ),
    "stuck pod of a success that can be spared": Row(
        succeeded(2), Pending("0 of 2 pods Succeeded: 1 Pending (ErrImagePull)"), pods=[stuck("a")]
    ),
    "complete with a success lost": Row(
        succeeded(2),
        Failed("the job is complete, with 1 pod Succeeded"),
        ended("Complete"),
        [job_pod("a", "Succeeded")],
    ),
    "complete": Row(complete(), Met(), ended("Complete")),
    "complete in progress": Row(
        complete(),
        Pending("1 of 3 succeeded: 1 Running, 1 Succeeded"),
        created_job(status={"succeeded": 1}),
        [job_pod("a"), job_pod("b", "Succeeded")],
    ),
    "a job that retries is pending": Row(
        complete(),
        Pending("0 of 3 succeeded: 2 Failed"),
        pods=[job_pod("a", "Failed"), job_pod("b", "Failed")],
    ),
    "complete for the reason": Row(
        complete(reason="SuccessPolicy"), Met(), ended("Complete", reason="SuccessPolicy")
    ),
    "complete for another reason": Row(
        complete(reason="SuccessPolicy"),
        Failed("the job is complete with reason 'CompletionsReached'"),
        ended("Complete", reason="CompletionsReached"),
    ),
    "complete with the completions": Row(
        complete(completions=3),
        Met(),
        created_job(status={"conditions": [condition("Complete")], "succeeded": 3}),
    ),
    "complete with other completions": Row(
        complete(completions=3),
        Failed("the job is complete with 2 pods succeeded"),
        created_job(status={"conditions": [condition("Complete")], "succeeded": 2}),
    ),
    "complete awaited, failed": Row(
        complete(),
        Failed("the job failed: BackoffLimitExceeded: Job has reached the limit"),
        ended("Failed", **BACKOFF),
    ),
    "complete awaited, about to fail": Row(
        complete(), Failed("the job is about to fail"), ended("FailureTarget")
    ),
    "complete awaited, suspended": Row(
        complete(), Failed("the job is suspended", LONG), created_job(spec={"suspend": True})
    ),
    "complete awaited, one pod stuck": Row(
        complete(), stuck_verdict("pod b"), pods=[job_pod("a"), stuck("b")]
    ),
    "one pod stuck under a success policy": Row(
        complete(),
        Pending("0 of 3 succeeded: 1 Running, 1 Pending (ErrImagePull)"),
        created_job(spec={"successPolicy": {"rules": []}}),
        [job_pod("a"), stuck("b")],
    ),
    "failed": Row(failed(), Met(), ended("Failed", **BACKOFF)),
    "failed awaited, complete": Row(failed(), Failed("the job is complete"), ended("Complete")),
    "failed awaited, about to be complete": Row(
        failed(), Failed("the job has met its success criteria"), ended("SuccessCriteriaMet")
    ),
    "failed awaited, one pod stuck": Row(
        failed(), Pending("0 of 3 succeeded: 1 Pending (ErrImagePull)"), pods=[stuck("a")]
    ),
    "failed awaited, every slot stuck": Row(
        failed(),
        stuck_verdict("pod a (and 2 more pods)"),
        pods=[stuck("a"), stuck("b"), stuck("c")],
    ),
    "failed awaited, every slot stuck, but a deadline will come": Row(
        failed(),
        Pending("0 of 1 succeeded: 1 Pending (ErrImagePull)"),
        created_job(spec={"activeDeadlineSeconds": 30, "completions": 1}),
        [stuck("a")],
    ),
    "finish by success": Row(finish(), Met(), ended("Complete")),
    "finish by failure": Row(finish(), Met(), ended("Failed")),
    "finish awaited, one pod stuck": Row(
        finish(), Pending("0 of 3 succeeded: 1 Pending (ErrImagePull)"), pods=[stuck("a")]
    ),
    "finish awaited, every slot stuck": Row(
        finish(), stuck_verdict("pod a"), created_job(spec={"parallelism": 1}), [stuck("a")]
    ),
    "finish awaited, about to fail": Row(
        finish(), Pending("0 of 3 succeeded"), ended("FailureTarget")
    ),
    "null everywhere": Row(
        complete(),
        Pending("0 succeeded: 1 Pending"),
        {
            "metadata": {"name": "sleepers", "uid": "u", "ownerReferences": None},
            "spec": {"completions": None, "parallelism": None, "selector": None},
            "status": {"conditions": None, "succeeded": None},
        },
        [{"metadata": {"name": "a", "ownerReferences": None}, "spec": None, "status": None}],
    ),
    "no spec and no status": Row(
        running(1),
        Pending("0 of 1 pod Running"),
        {"metadata": {"name": "sleepers", "uid": "u"}},
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    row = ROWS[name]
    enter_job(row.awaited, row.job, row.pods)

    assert row.awaited.verdict() == row.verdict


def test_selector_is_the_jobs_own() -> None:
    awaited = running(1)
    selector = {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "k", "operator": "Exists"}],
    }
    enter_job(awaited, created_job(spec={"selector": selector}), [])

    assert [source.selector for source in awaited.sources()] == [None, "app=x,k"]
    assert [source.field_selector for source in awaited.sources()] == [
        "metadata.name=sleepers",
        None,
    ]


def test_a_job_without_selector_never_selects_every_pod() -> None:
    awaited = running(1)
    enter_job(awaited, {"metadata": {"name": "sleepers", "uid": "u"}, "spec": {}}, [])

    assert awaited.sources()[1].selector == "batch.kubernetes.io/controller-uid=u"

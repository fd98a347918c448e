"""Waits on a Job's status and deletion: verdicts, and from call to message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.job.wait import (
    wait_for_all_job_pods_gone,
    wait_for_job_condition,
    wait_for_job_gone,
    wait_for_job_ready,
    wait_for_job_state,
    wait_for_job_suspend,
)
from pytest_kwait.framework.registry import condition_of
from tests.framework.job.rows import Row, enter_job
from tests.objects import condition, created_job, job_pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
NAMED = {"batch.kubernetes.io/job-name": "sleepers"}


def ready(count: int) -> Any:
    return condition_of(wait_for_job_ready)("ci-1", "sleepers", count)


def suspend() -> Any:
    return condition_of(wait_for_job_suspend)("ci-1", "sleepers")


def conditioned(kind: str, reason: str | None = None) -> Any:
    return condition_of(wait_for_job_condition)("ci-1", "sleepers", kind, reason)


def gone(uid: str | None = None) -> Any:
    return condition_of(wait_for_job_gone)("ci-1", "sleepers", uid)


def pods_gone(uid: str | None = None) -> Any:
    return condition_of(wait_for_all_job_pods_gone)("ci-1", "sleepers", uid)


def holding(kind: str, **more: Any) -> Any:
    return created_job(status={"conditions": [condition(kind, **more)]})


def stuck(name: str) -> Any:
    return job_pod(name, "Pending", waiting=("ErrImagePull", "manifest unknown"))


def deleting(*finalizers: str, **more: Any) -> Any:
    return created_job(deletionTimestamp="now", finalizers=list(finalizers), **more)


def owned(name: str, uid: str, **more: Any) -> Any:
    owners = [{"uid": uid, "controller": True}]
    return job_pod(name, metadata={"ownerReferences": owners, **more})


STUCK = Failed("pod a: ErrImagePull: manifest unknown", SHORT, 0.0)
ROWS = {
    "no job": Row(ready(1), Pending("not found yet"), None),
    "ready": Row(ready(2), Met(), created_job(status={"ready": 2})),
    "none ready awaited, not counted yet": Row(
        ready(0), Pending("0 ready pods counted by the job")
    ),
    "none ready": Row(ready(0), Met(), created_job(status={"ready": 0})),
    "too few ready": Row(
        ready(2),
        Pending("1 ready pod counted by the job: 2 Running"),
        created_job(status={"ready": 1}),
        [job_pod("a"), job_pod("b")],
    ),
    "too many ready": Row(
        ready(1), Pending("2 ready pods counted by the job"), created_job(status={"ready": 2})
    ),
    "ready awaited of a failed job": Row(
        ready(1),
        Failed("the job failed: DeadlineExceeded", SHORT),
        holding("Failed", reason="DeadlineExceeded"),
    ),
    "none ready awaited of a complete job": Row(
        ready(0), Failed("the job is complete", SHORT), holding("Complete")
    ),
    "ready awaited of a job about to fail": Row(
        ready(1), Failed("the job is about to fail", SHORT), holding("FailureTarget")
    ),
    "none ready awaited of a job about to fail": Row(
        ready(0), Pending("0 ready pods counted by the job"), holding("FailureTarget")
    ),
    "ready awaited of a suspended job": Row(
        ready(1), Failed("the job is suspended", LONG), created_job(spec={"suspend": True})
    ),
    "ready awaited of a job being deleted": Row(
        ready(1), Failed("the job is being deleted", SHORT), deleting()
    ),
    "more ready than parallelism": Row(
        ready(4), Failed("the job keeps 3 pods active at most", LONG)
    ),
    "more ready than still to come": Row(
        ready(3),
        Failed("the job keeps 1 pod active at most", SHORT),
        created_job(status={"succeeded": 2}),
    ),
    "ready awaited of a work queue that winds down": Row(
        ready(1),
        Pending("0 ready pods counted by the job"),
        created_job(spec={"completions": None}, status={"succeeded": 1}),
    ),
    "ready awaited, one pod too many stuck": Row(ready(3), STUCK, pods=[stuck("a"), job_pod("b")]),
    "ready awaited, a stuck pod to spare": Row(
        ready(2),
        Pending("0 ready pods counted by the job: 1 Pending (ErrImagePull)"),
        pods=[stuck("a")],
    ),
    "ready awaited of a pod that crashes": Row(
        ready(3),
        Failed(
            "pod a: CrashLoopBackOff: container main was restarted 3 times, exit code 1", LONG, 0.0
        ),
        pods=[
            job_pod(
                "a",
                containerStatuses=[
                    {
                        "name": "main",
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"exitCode": 1}},
                    }
                ],
            )
        ],
    ),
    "suspended": Row(suspend(), Met(), holding("Suspended", reason="JobSuspended")),
    "not suspended": Row(
        suspend(), Pending("no condition Suspended yet, spec.suspend is not true")
    ),
    "resumed": Row(
        suspend(),
        Pending("Suspended is False, spec.suspend is not true: 1 Running"),
        created_job(status={"conditions": [condition("Suspended", "False")]}),
        [job_pod("a")],
    ),
    "asked to be suspended": Row(
        suspend(), Pending("no condition Suspended yet"), created_job(spec={"suspend": True})
    ),
    "suspension awaited of a complete job": Row(
        suspend(), Failed("the job is complete"), holding("Complete")
    ),
    "suspension awaited of a job being deleted": Row(
        suspend(), Failed("the job is being deleted", SHORT), deleting()
    ),
    "suspension awaited, a pod stuck": Row(
        suspend(),
        Pending("no condition Suspended yet: 1 Pending (ErrImagePull)"),
        created_job(spec={"suspend": True}),
        [stuck("a")],
    ),
    "complete": Row(conditioned("Complete"), Met(), holding("Complete")),
    "failed for the reason": Row(
        conditioned("Failed", "PodFailurePolicy"),
        Met(),
        holding("Failed", reason="PodFailurePolicy"),
    ),
    "failed for another reason": Row(
        conditioned("Failed", "PodFailurePolicy"),
        Failed("the job is failed with reason 'DeadlineExceeded'"),
        holding("Failed", reason="DeadlineExceeded"),
    ),
    "failure target": Row(conditioned("FailureTarget"), Met(), holding("FailureTarget")),
    "failure target for another reason": Row(
        conditioned("FailureTarget", "X"),
        Pending("FailureTarget is True with reason 'Y'"),
        holding("FailureTarget", reason="Y"),
    ),
    "failure target of a job that failed without": Row(
        conditioned("FailureTarget"), Failed("the job failed"), holding("Failed")
    ),
    "failure target of a successful job": Row(
        conditioned("FailureTarget"),
        Failed("the job has met its success criteria"),
        holding("SuccessCriteriaMet"),
    ),
    "failure target, every slot stuck": Row(
        conditioned("FailureTarget"), STUCK, created_job(spec={"parallelism": 1}), [stuck("a")]
    ),
    "failure target, every slot stuck, a deadline to come": Row(
        conditioned("FailureTarget"),
        Pending("no condition FailureTarget yet: 1 Pending (ErrImagePull)"),
        created_job(spec={"parallelism": 1, "activeDeadlineSeconds": 9}),
        [stuck("a")],
    ),
    "success criteria, a pod stuck": Row(
        conditioned("SuccessCriteriaMet"), STUCK, pods=[stuck("a")]
    ),
    "success criteria of a policy, a pod stuck": Row(
        conditioned("SuccessCriteriaMet"),
        Pending("no condition SuccessCriteriaMet yet: 1 Pending (ErrImagePull)"),
        created_job(spec={"successPolicy": {"rules": []}}),
        [stuck("a")],
    ),
    "success criteria of a suspended job": Row(
        conditioned("SuccessCriteriaMet"),
        Failed("the job is suspended", LONG),
        created_job(spec={"suspend": True}),
    ),
    "another controller's condition": Row(
        conditioned("example.com/Queued"), Met(), holding("example.com/Queued")
    ),
    "another controller's condition of a job that is over": Row(
        conditioned("example.com/Queued"),
        Pending("no condition example.com/Queued yet"),
        holding("Complete"),
    ),
    "never there": Row(gone(), Met(), None),
    "there": Row(gone(), Pending("still there, not being deleted")),
    "there, with a time to live": Row(
        gone(),
        Pending("still there, to be deleted 5s after its end, which has not come"),
        created_job(spec={"ttlSecondsAfterFinished": 5}),
    ),
    "over, with a time to live": Row(
        gone(),
        Pending("still there, to be deleted 0s after its end"),
        created_job(
            spec={"ttlSecondsAfterFinished": 0}, status={"conditions": [condition("Complete")]}
        ),
    ),
    "being deleted": Row(gone(), Pending("being deleted"), created_job(deletionTimestamp="now")),
    "held": Row(
        gone(),
        Pending("being deleted, held by a.example/b and orphan"),
        deleting("a.example/b", "orphan"),
        [job_pod("a")],
    ),
    "held by its pods": Row(
        gone(),
        Pending(
            "being deleted, held by foregroundDeletion (2 pods: 1 being deleted, held by"
            " batch.kubernetes.io/job-tracking, 1 Running)"
        ),
        deleting("foregroundDeletion"),
        [
            job_pod(
                "a",
                metadata={
                    "deletionTimestamp": "now",
                    "finalizers": ["batch.kubernetes.io/job-tracking"],
                },
            ),
            job_pod("b"),
        ],
    ),
    "held by pods that are gone": Row(
        gone(), Pending("being deleted, held by foregroundDeletion"), deleting("foregroundDeletion")
    ),
    "another of the same name": Row(gone("uid-before"), Met()),
    "the one that is meant": Row(gone("uid-sleepers"), Pending("still there, not being deleted")),
    "no pods": Row(pods_gone(), Met()),
    "pods": Row(
        pods_gone(),
        Pending("2 pods still there: 1 Running, 1 Succeeded; the job is at work, and makes pods"),
        pods=[owned("a", "uid-sleepers"), job_pod("b", "Succeeded")],
    ),
    "pods of a job that is over": Row(
        pods_gone(),
        Pending(
            "1 pod still there: 1 Running; those of a job that is over stay until it is deleted"
        ),
        holding("Complete"),
        [job_pod("a")],
    ),
    "pods of a suspended job": Row(
        pods_gone(),
        Pending("1 pod still there: 1 being deleted"),
        created_job(spec={"suspend": True}),
        [job_pod("a", metadata={"deletionTimestamp": "now"})],
    ),
    "pods of another job of that name": Row(pods_gone(), Met(), pods=[owned("a", "uid-before")]),
    "pods of that job and of another": Row(
        pods_gone("uid-before"),
        Pending("1 pod still there: 2 Running (1 of them of another job of that name)"),
        pods=[owned("a", "uid-before"), owned("b", "uid-sleepers")],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    row = ROWS[name]
    enter_job(row.awaited, row.job, row.pods)

    assert row.awaited.verdict() == row.verdict


def test_nulls_are_no_crash() -> None:
    broken = {"metadata": {"name": "sleepers", "uid": "u"}, "spec": None, "status": None}
    for awaited in (ready(1), suspend(), conditioned("FailureTarget"), gone(), pods_gone()):
        enter_job(awaited, broken, [{"metadata": {"name": "a"}, "status": None}])
        assert isinstance(awaited.verdict(), Pending)


def test_pods_of_a_selector_made_by_hand() -> None:
    awaited = pods_gone()
    assert awaited.sources()[1].selector == "batch.kubernetes.io/job-name=sleepers"
    by_hand = {"manualSelector": True, "selector": {"matchLabels": {"app": "x"}}}
    enter_job(awaited, created_job(spec=by_hand), [])

    assert awaited.sources()[1].selector == "app=x"
    assert awaited.sources() is awaited.sources()


@MODES
def test_ready(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(JOBS, created_job())
    session.at(2, session.put, JOBS, created_job(status={"ready": 3}))

    found = kw.wait_for_job_ready(client, "ci-1", "sleepers", 3, mode=mode)

    assert found["kind"] == "Job"
    assert session.clock.monotonic() == 2.0


def test_suspend_and_condition(client: ApiClient, session: FakeSession) -> None:
    session.put(JOBS, holding("Suspended", reason="JobSuspended"))

    kw.wait_for_job_suspend(client, "ci-1", "sleepers")
    found = kw.wait_for_job_condition(client, "ci-1", "sleepers", "Suspended", "JobSuspended")

    assert found["metadata"]["name"] == "sleepers"


@pytest.mark.parametrize("answers", [("2 of 3", ""), (False, True), (kw.Pending("x"), kw.Met())])
@MODES
def test_state(client: ApiClient, session: FakeSession, answers: Any, mode: Any) -> None:
    session.put(JOBS, created_job(status={"ready": 2}))
    session.at(2, session.put, JOBS, created_job(status={"ready": 3}))

    def three(each: dict[str, Any]) -> Any:
        return answers[each["status"]["ready"] == 3]

    found = kw.wait_for_job_state(client, "ci-1", "sleepers", three, mode=mode)

    assert found["status"] == {"ready": 3}
    if mode == "watch":
        assert len(session.requests) == 2


def test_state_that_does_not_come(client: ApiClient, session: FakeSession) -> None:
    session.put(JOBS, created_job(status={"ready": 2}))
    session.put(PODS, job_pod("a"))

    def three(each: dict[str, Any]) -> str:
        return f"{each['status']['ready']} of 3 are there"

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_job_state(client, "ci-1", "sleepers", three, timeout=3)

    assert str(caught.value) == (
        "job ci-1/sleepers did not satisfy three within 3s: 2 of 3 are there\n"
        "  awaited   job ci-1/sleepers to satisfy three\n"
        "  limit     3s, ended after 3s (watch mode)\n"
        "  seen      2 ready, 0 succeeded of 3\n"
        "  pods\n"
        "    a Running on node-1\n"
        "  try: kubectl --namespace ci-1 describe jobs.batch/sleepers"
    )


def test_state_of_a_test_that_is_broken(client: ApiClient, session: FakeSession) -> None:
    def missing(each: dict[str, Any]) -> Any:
        return 1 // (each["status"] is None)

    def odd(each: dict[str, Any]) -> Any:
        return 3

    session.put(JOBS, created_job())

    with pytest.raises(ZeroDivisionError):
        kw.wait_for_job_state(client, "ci-1", "sleepers", missing)
    with pytest.raises(InvalidArgument) as caught:
        kw.wait_for_job_state(client, "ci-1", "sleepers", odd)
    assert str(caught.value) == (
        "what odd returned=3 is not valid: use a text (empty if nothing is missing), True, False, "
        "Met, Pending or Failed"
    )


@MODES
def test_gone(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(JOBS, deleting("foregroundDeletion"))
    session.at(4, session.drop, JOBS, "sleepers")

    assert kw.wait_for_job_gone(client, "ci-1", "sleepers", mode=mode) is None

    assert session.clock.monotonic() == 4.0


@MODES
def test_made_anew_is_gone(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(JOBS, created_job())
    session.at(2, session.drop, JOBS, "sleepers")
    session.at(2, session.put, JOBS, created_job(uid="another"))

    kw.wait_for_job_gone(client, "ci-1", "sleepers", mode=mode)

    assert session.clock.monotonic() == 2.0


@MODES
def test_all_pods_gone(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PODS, job_pod("a", labels=NAMED))
    session.put(PODS, job_pod("stranger", labels={"app": "web"}))
    session.at(2, session.drop, PODS, "a")

    kw.wait_for_all_job_pods_gone(client, "ci-1", "sleepers", mode=mode)

    assert session.clock.monotonic() == 2.0


HEADLINES = [
    (
        "wait_for_job_ready",
        (1,),
        "job ci-1/sleepers did not count 1 ready pod within 2s: 0 ready pods counted by the job",
    ),
    (
        "wait_for_job_suspend",
        (),
        "job ci-1/sleepers did not become suspended within 2s: no condition Suspended yet, "
        "spec.suspend is not true",
    ),
    (
        "wait_for_job_condition",
        ("Complete",),
        "job ci-1/sleepers did not become complete within 2s: 0 of 3 succeeded",
    ),
    (
        "wait_for_job_condition",
        ("FailureTarget", "X"),
        "job ci-1/sleepers did not have condition FailureTarget True with reason X within 2s: no "
        "condition FailureTarget yet",
    ),
    (
        "wait_for_job_gone",
        (),
        "job ci-1/sleepers did not go away within 2s: still there, not being deleted",
    ),
    (
        "wait_for_all_job_pods_gone",
        (),
        "job ci-1/sleepers did not lose its last pod within 2s: 1 pod still there: 1 Running; the "
        "job is at work, and makes pods",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "headline"), HEADLINES)
def test_headlines(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, headline: str
) -> None:
    session.put(JOBS, created_job())
    if name == "wait_for_all_job_pods_gone":
        session.put(PODS, job_pod("a", labels=NAMED))

    with pytest.raises(WaitTimeout) as caught:
        getattr(kw, name)(client, "ci-1", "sleepers", *arguments, timeout=2)

    assert caught.value.args == (headline,)


def test_a_job_deleted_while_a_condition_is_awaited(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(JOBS, created_job())
    session.at(2, session.drop, JOBS, "sleepers")

    with pytest.raises(WaitFailed, match="the job was deleted"):
        kw.wait_for_job_suspend(client, "ci-1", "sleepers")
    assert session.clock.monotonic() == 2.0


VALID = "Complete, Failed, FailureTarget, SuccessCriteriaMet, Suspended"
BAD = [
    ("wait_for_job_ready", (-1,), "count=-1 is not valid: use a whole number, 0 or more"),
    ("wait_for_job_ready", (True,), "count=True is not valid: use a whole number, 0 or more"),
    (
        "wait_for_job_condition",
        ("complete",),
        f"condition='complete' is not valid: use {VALID}, or a type with its domain: "
        "'example.com/Type'",
    ),
    (
        "wait_for_job_condition",
        (None,),
        f"condition=None is not valid: use {VALID}, or a type with its domain: 'example.com/Type'",
    ),
    (
        "wait_for_job_condition",
        ("Failed", ""),
        "reason='' is not valid: use the reason of a condition, or None",
    ),
    (
        "wait_for_job_state",
        ("ready",),
        "state='ready' is not valid: use a callable that is given the Job",
    ),
    ("wait_for_job_gone", ("",), "uid='' is not valid: use a text"),
    ("wait_for_all_job_pods_gone", (7,), "uid=7 is not valid: use a text"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), BAD)
def test_bad_input(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        getattr(kw, name)(client, "ci-1", "sleepers", *arguments)

    assert str(caught.value) == text
    assert session.requests == []


def test_a_state_is_checked_before_it_is_called() -> None:
    assert condition_of(wait_for_job_state)("ci-1", "sleepers", bool).goal == "satisfy bool"

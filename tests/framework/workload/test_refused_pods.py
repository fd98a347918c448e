"""Pods refused by the server, reported by events alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import DAEMON_SETS, EVENTS, JOBS, PODS, STATEFUL_SETS
from pytest_kwait.engine.condition import Grace, TerminalState
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.framework.daemonset import (
    wait_for_daemon_set_running_on_all_nodes,
    wait_for_daemon_set_status,
)
from pytest_kwait.framework.job.wait import (
    wait_for_job_complete,
    wait_for_job_condition,
    wait_for_job_failed,
    wait_for_job_finish,
    wait_for_job_pods_running,
    wait_for_job_pods_succeeded,
    wait_for_job_ready,
    wait_for_job_state,
    wait_for_job_suspend,
)
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.statefulset import (
    wait_for_stateful_set_pod_ready,
    wait_for_stateful_set_running_and_ready,
    wait_for_stateful_set_status_ready_replicas,
)
from pytest_kwait.framework.terminal_states.workloads import detect_creation_failure
from pytest_kwait.wait.context import DeadlineExceeded
from tests.engine.fake_session import FakeSession
from tests.objects import created_job, event, job_pod, workload

if TYPE_CHECKING:
    from collections.abc import Callable

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
QUOTA = (
    'Error creating: pods "sleepers-abcde" is forbidden: exceeded quota: few, requested: pods=1,'
    " used: pods=0, limited: pods=0"
)
SECURITY = (
    'Error creating: pods "sleepers-abcde" is forbidden: violates PodSecurity "restricted:latest"'
)


def job_event(
    name: str, second: int, message: str = QUOTA, reason: str | None = "FailedCreate", **more: Any
) -> dict[str, Any]:
    at = f"2026-01-01T00:00:{second:02}Z"
    return event(reason, message, "Job/sleepers", name=name, lastTimestamp=at, **more)


def made(name: str, second: int, phase: str = "Running") -> dict[str, Any]:
    stamp = f"2026-01-01T00:00:{second:02}Z"
    return job_pod(name, phase, metadata={"creationTimestamp": stamp})


def session(*events: dict[str, Any], **of_job: Any) -> FakeSession:
    found = FakeSession()
    found.put(JOBS, created_job(**of_job))
    for each in events:
        found.put(EVENTS, each)
    return found


def running(count: int = 3) -> Any:
    return condition_of(wait_for_job_pods_running)("ci-1", "sleepers", count)


def wait(found: FakeSession, awaited: Any = None, **options: Any) -> Any:
    options = {"timeout": 300.0, **options}
    return wait_for_condition(found, awaited or running(), WaitSettings(**options))


@MODES
def test_refusals_that_are_permanent(mode: Any) -> None:
    found = session(job_event("e1", 0, SECURITY))

    with pytest.raises(WaitFailed) as caught:
        wait(found, mode=mode, poll=1.0)

    assert caught.value.evidence["reason"] == SECURITY.replace("Error creating", "FailedCreate")
    assert found.clock.monotonic() == 5.0
    # In watch mode once more before it is believed, with everything else.
    asked = found.count("list events involvedObject.uid=uid-sleepers")
    assert asked == (2 if mode == "watch" else 1)
    assert found.count("watch events") == 0


@MODES
def test_refusals_that_may_pass(mode: Any) -> None:
    """The grace counts from when the pods were missing, as the events do."""
    found = session(job_event("e1", 0))

    with pytest.raises(WaitFailed, match=r"FailedCreate: pods .* exceeded quota: few"):
        wait(found, mode=mode, poll=1.0)

    assert found.clock.monotonic() == 45.0
    if mode == "watch":
        assert found.count("list events involvedObject.uid=uid-sleepers") == 2


@MODES
def test_pods_refused_after_they_existed(mode: Any) -> None:
    """The pods were there, not Running, for 20 s."""
    found = session(job_event("e1", 25))
    for name in ("a", "b", "c"):
        found.put(PODS, made(name, 0, "Pending"))
        found.at(20, found.drop, PODS, name)

    with pytest.raises(WaitFailed, match=r"FailedCreate: pods .* exceeded quota: few"):
        wait(found, mode=mode, poll=1.0)

    assert found.clock.monotonic() == 65.0


@MODES
def test_a_quota_that_is_freed(mode: Any) -> None:
    found = session(job_event("e1", 0))
    for name in ("a", "b", "c"):
        found.at(31, found.put, PODS, made(name, 31))

    assert len(wait(found, mode=mode, poll=1.0)) == 3
    assert found.clock.monotonic() == 31.0


def test_pods_that_come_by_themselves_cost_no_more() -> None:
    found = session(job_event("e1", 0))
    for name in ("a", "b", "c"):
        found.at(4, found.put, PODS, made(name, 4))

    wait(found)

    asked = sorted(" ".join(request.split()[:2]) for request in found.requests)
    assert asked == ["list jobs", "list pods", "watch jobs", "watch pods"]


def test_events_of_a_job_without_pods_are_listed_ever_more_rarely() -> None:
    """The watched objects are not listed again for that."""
    found = session()

    with pytest.raises(WaitTimeout):
        wait(found)

    # After 5, 10, 20, 40, 80, and then every 60 seconds.
    assert found.count("list events involvedObject.uid") == 8
    # Watched once, and listed once more when the time is up.
    assert (found.count("list jobs"), found.count("list pods")) == (2, 3)


def test_some_pods_and_no_more() -> None:
    """One more pod is needed than the quota allows."""
    found = session(
        job_event("e1", 0), job_event("e2", 1, reason="SuccessfulCreate"), job_event("e3", 1)
    )
    found.put(PODS, made("a", 1))

    with pytest.raises(WaitFailed, match="exceeded quota"):
        wait(found)


def refused(*events: dict[str, Any], pods: tuple[dict[str, Any], ...] = ()) -> FakeSession:
    found = session(*(events or (job_event("e1", 0),)))
    for each in pods:
        found.put(PODS, each)
    return found


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(lambda: session(), id="no events"),
        pytest.param(
            lambda: refused(job_event("e1", 0), job_event("e2", 3, reason="SuccessfulCreate")),
            id="one was made since",
        ),
        pytest.param(
            lambda: refused(job_event("e1", 3), job_event("e2", 3, reason="SuccessfulCreate")),
            id="one was made in the same second",
        ),
        pytest.param(
            lambda: refused(pods=(made("a", 1, "Failed"),)), id="a pod is younger, and has failed"
        ),
        pytest.param(
            lambda: refused(job_event("e1", 0, involvedObject={"uid": "uid-other"})),
            id="of another",
        ),
        pytest.param(
            lambda: refused(job_event("e1", 0, reason="Suspended")), id="of something else"
        ),
        pytest.param(lambda: refused(job_event("e1", 0, reason=None)), id="without a reason"),
    ],
)
def test_events_that_are_no_refusal(found: Callable[[], FakeSession]) -> None:
    with pytest.raises(WaitTimeout):
        wait(found())


def test_events_that_may_not_be_read() -> None:
    """A source that only explains may be forbidden or fail: the wait continues without it."""
    found = session(job_event("e1", 0))
    forbidden = ApiError("no", status=403)
    found.fail("list", EVENTS, *(forbidden for _ in range(20)))

    with pytest.raises(WaitTimeout, match="0 of 3 pods Running"):
        wait(found)
    assert found.count("list events involvedObject.uid") <= 10


class Silent(FakeSession):
    """Answers no list of events."""

    def list(self, resource: Any, namespace: str | None = None, **options: Any) -> Any:
        if resource == EVENTS:
            self.given.append(options["deadline"].remaining)
            raise DeadlineExceeded("no answer")
        return super().list(resource, namespace, **options)

    def __init__(self) -> None:
        super().__init__()
        self.given: list[float] = []


def test_events_that_are_not_answered_hold_up_no_wait() -> None:
    """Each time for five seconds at most, and never past the wait's own limit."""
    found = Silent()
    found.put(JOBS, created_job())

    with pytest.raises(WaitTimeout, match="0 of 3 pods Running"):
        wait(found, timeout=6.0)
    with pytest.raises(WaitTimeout, match="0 of 3 pods Running"):
        wait(found, timeout=60.0)
    assert found.given[0] == 1.0
    # The evidence leaves a second for the Secrets.
    assert set(found.given[1:]) == {5.0, 4.0}


def test_graces_and_fail_fast_hold_for_it() -> None:
    found = session(job_event("e1", 0))

    with pytest.raises(WaitFailed):
        wait(found, grace=1.0)
    assert found.clock.monotonic() == 1.0
    asked = found.count("list events involved")
    with pytest.raises(WaitTimeout):
        wait(found, fail_fast=False)
    assert found.count("list events involvedObject.uid=uid-sleepers") == asked


RUNS = made("a", 0)


@pytest.mark.parametrize(
    ("awaited", "of_job", "pods", "fails_early"),
    [
        (lambda: condition_of(wait_for_job_pods_succeeded)("ci-1", "sleepers", 3), {}, (), True),
        (
            lambda: condition_of(wait_for_job_pods_succeeded)("ci-1", "sleepers", 1),
            {},
            (RUNS,),
            False,
        ),
        (lambda: running(1), {}, (RUNS, made("b", 0)), False),
        (lambda: condition_of(wait_for_job_complete)("ci-1", "sleepers"), {}, (RUNS,), True),
        (
            lambda: condition_of(wait_for_job_complete)("ci-1", "sleepers"),
            {"spec": {"completions": None}},
            (RUNS,),
            False,
        ),
        (
            lambda: condition_of(wait_for_job_complete)("ci-1", "sleepers"),
            {"status": {"succeeded": 2}},
            (RUNS,),
            False,
        ),
        (
            lambda: condition_of(wait_for_job_complete)("ci-1", "sleepers"),
            {"spec": {"activeDeadlineSeconds": 900}},
            (),
            True,
        ),
        (lambda: condition_of(wait_for_job_finish)("ci-1", "sleepers"), {}, (), True),
        (lambda: condition_of(wait_for_job_finish)("ci-1", "sleepers"), {}, (RUNS,), False),
        (
            lambda: condition_of(wait_for_job_finish)("ci-1", "sleepers"),
            {"spec": {"activeDeadlineSeconds": 900}},
            (),
            False,
        ),
        (lambda: condition_of(wait_for_job_failed)("ci-1", "sleepers"), {}, (), True),
        (lambda: condition_of(wait_for_job_ready)("ci-1", "sleepers", 2), {}, (RUNS,), True),
        (lambda: condition_of(wait_for_job_ready)("ci-1", "sleepers", 1), {}, (RUNS,), False),
        (
            lambda: condition_of(wait_for_job_condition)("ci-1", "sleepers", "SuccessCriteriaMet"),
            {},
            (),
            True,
        ),
        (
            lambda: condition_of(wait_for_job_condition)("ci-1", "sleepers", "example.com/Queued"),
            {},
            (),
            False,
        ),
        (lambda: condition_of(wait_for_job_suspend)("ci-1", "sleepers"), {}, (), False),
        (
            lambda: condition_of(wait_for_job_state)("ci-1", "sleepers", lambda _: "not yet"),
            {},
            (),
            False,
        ),
    ],
)
def test_whatever_needs_pods(
    awaited: Callable[[], Any], of_job: dict[str, Any], pods: Any, fails_early: bool
) -> None:
    """Only those end early that cannot come with the pods that there are."""
    found = session(job_event("e1", 0), **of_job)
    for each in pods:
        found.put(PODS, each)

    with pytest.raises(WaitFailed if fails_early else WaitTimeout) as caught:
        wait(found, awaited())
    assert ("exceeded quota" in caught.value.evidence["reason"]) is fails_early


def of_set(resource: Any, status: dict[str, Any], *events: dict[str, Any]) -> FakeSession:
    found = FakeSession()
    found.put(resource, workload(resource.kind, uid="uid-sleepers", status=status))
    for each in events:
        found.put(EVENTS, each)
    return found


@MODES
@pytest.mark.parametrize(
    ("awaited", "fails_early"),
    [
        (lambda: condition_of(wait_for_stateful_set_running_and_ready)("ci-1", "web", 2), True),
        (lambda: condition_of(wait_for_stateful_set_status_ready_replicas)("ci-1", "web", 2), True),
        (lambda: condition_of(wait_for_stateful_set_pod_ready)("ci-1", "web", "web-1"), True),
        (lambda: condition_of(wait_for_stateful_set_pod_ready)("ci-1", "web", "web-0"), False),
        (lambda: condition_of(wait_for_stateful_set_running_and_ready)("ci-1", "web", 1), False),
    ],
)
def test_pods_of_a_stateful_set(mode: Any, awaited: Callable[[], Any], fails_early: bool) -> None:
    """Those that it has may still become ready; what it is refused is missing for good."""
    found = of_set(STATEFUL_SETS, {"replicas": 1}, job_event("e1", 0))

    with pytest.raises(WaitFailed if fails_early else WaitTimeout) as caught:
        wait(found, awaited(), mode=mode, poll=1.0, timeout=100.0)
    assert ("exceeded quota" in caught.value.evidence["reason"]) is fails_early
    assert found.clock.monotonic() == (45.0 if fails_early else 100.0)


def test_a_younger_pod_of_a_stateful_set() -> None:
    found = of_set(STATEFUL_SETS, {"replicas": 1}, job_event("e1", 0))
    owner = [{"controller": True, "uid": "uid-sleepers"}]
    more = {"creationTimestamp": "2026-01-01T00:00:01Z", "ownerReferences": owner}
    found.put(PODS, job_pod("web-0", labels={"app": "web"}, metadata=more))

    with pytest.raises(WaitTimeout):
        wait(found, condition_of(wait_for_stateful_set_running_and_ready)("ci-1", "web", 2))


@pytest.mark.parametrize(
    "awaited",
    [
        condition_of(wait_for_daemon_set_running_on_all_nodes),
        condition_of(wait_for_daemon_set_status),
    ],
    ids=["pods", "status"],
)
@pytest.mark.parametrize("there", [0, 1])
def test_pods_of_a_daemon_set(awaited: Callable[..., Any], there: int) -> None:
    counts = {"desiredNumberScheduled": 1, "currentNumberScheduled": there}
    found = of_set(DAEMON_SETS, counts, job_event("e1", 0, SECURITY))

    with pytest.raises(WaitTimeout if there else WaitFailed) as caught:
        wait(found, awaited("ci-1", "web"))
    assert ("violates PodSecurity" in caught.value.evidence["reason"]) is (not there)


@pytest.mark.parametrize(
    ("message", "text", "grace"),
    [
        (QUOTA, QUOTA.removeprefix("Error creating: "), Grace.LONG),
        (SECURITY, SECURITY.removeprefix("Error creating: "), Grace.SHORT),
        (f"(combined from similar events): {QUOTA}", QUOTA[16:], Grace.LONG),
        ("Error creating:  a\n b", "a b", Grace.LONG),
    ],
)
def test_the_words_of_a_refusal(message: str, text: str, grace: Grace) -> None:
    assert detect_creation_failure(message) == TerminalState(f"FailedCreate: {text}", grace)


def test_a_refusal_without_words() -> None:
    assert detect_creation_failure("") == TerminalState("FailedCreate", Grace.LONG)

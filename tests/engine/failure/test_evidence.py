from __future__ import annotations

import threading
from typing import Any

import pytest

from pytest_kwait.client.resource import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from pytest_kwait.engine.condition import EvidenceScope, ObjectReference, Source
from pytest_kwait.engine.failure.evidence import (
    EventGroup,
    ExistingObjects,
    LogTail,
    UnboundClaim,
    gather_evidence,
)
from pytest_kwait.engine.failure.operators import OperatedObjects
from pytest_kwait.engine.object_sinks import SingleObject
from pytest_kwait.engine.pod_fields import report_containers
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded
from tests.engine.fake_session import FakeSession
from tests.objects import event, job_pod

SELECTOR = "batch.kubernetes.io/controller-uid=uid-sleepers"
SCOPE = EvidenceScope(
    "ci-1", (ObjectReference("Job", "sleepers", "uid-sleepers", "jobs.batch"),), SELECTOR
)


WIDGET = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)
WIDGETS = OperatedObjects(WIDGET, "ci-1", ("hello", "uid-hello"))


def warning(name: str, about: str, reason: str, message: str, **fields: Any) -> dict[str, Any]:
    return event(reason, message, about, name=name, type="Warning", **fields)


def crashed(name: str, **state: Any) -> dict[str, Any]:
    container = {"name": "main", "restartCount": 2, **state}
    return job_pod(name, containerStatuses=[container])


class SlowSession(FakeSession):
    """Lists that have no answer within their deadlines, which they note."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: dict[str, float] = {}
        self._turn = threading.Lock()

    def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Any:
        with self._turn:
            self.limits[resource.plural] = options["deadline"].at
            self.script_clock.advance(options["deadline"].remaining)
        raise DeadlineExceeded


def test_all_of_it_ends_within_the_limit() -> None:
    """The list of Secrets, which comes last, has its part of it."""
    session = SlowSession()
    gather_evidence(session, SCOPE)
    assert session.limits["secrets"] == 5.0
    assert {session.limits[plural] for plural in ("pods", "events")} == {4.0}
    assert session.clock.monotonic() == 5.0


def test_pods_that_decided_come_first_then_those_that_fail() -> None:
    session = FakeSession()
    session.put(PODS, job_pod("a", conditions=[{"type": "Ready", "status": "True"}]))
    session.put(PODS, job_pod("b"))
    session.put(PODS, job_pod("c", "Failed", reason="Evicted", message="no memory"))
    session.put(PODS, job_pod("d"))
    session.put(PODS, job_pod("other", owner="uid-other"))
    scope = EvidenceScope("ci-1", pods=SELECTOR, suspects=["d"])

    findings = gather_evidence(session, scope)

    assert [p.name for p in findings.pods] == ["d", "c", "b", "a"]
    assert findings.pods[1].note == "Evicted: no memory"
    assert findings.pods[3].ready


def test_why_a_pod_is_not_scheduled_is_its_note() -> None:
    session = FakeSession()
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    session.put(
        PODS, job_pod("a", "Pending", nodeName=None, conditions=[unscheduled | {"message": "0/2"}])
    )

    (found,) = gather_evidence(session, SCOPE).pods

    assert (found.node, found.note) == ("", "Unschedulable: 0/2")


def test_warnings_of_the_object_and_of_its_pods_are_grouped() -> None:
    session = FakeSession()
    session.put(PODS, job_pod("sleepers-a"))
    session.put(PODS, job_pod("sleepers-b"))
    session.put(EVENTS, warning("1", "Pod/sleepers-a", "Failed", "no image", count=3))
    session.put(EVENTS, warning("2", "Pod/sleepers-b", "Failed", "no\n image", series={"count": 2}))
    refused = 'pods "sleepers-{}" is forbidden'
    session.put(EVENTS, warning("3", "Job/sleepers", "FailedCreate", refused.format("abcde")))
    session.put(EVENTS, warning("4", "Job/sleepers", "FailedCreate", refused.format("fghij")))
    for number, container in ((7, "0a" * 32), (8, "b1" * 32)):
        about = f"task {container} of 0fc2a5b0-1111-2222-3333-{number:012} is gone"
        session.put(EVENTS, warning(str(number), "Pod/sleepers-a", "Unhealthy", about))
    session.put(EVENTS, warning("5", "Pod/stranger", "Failed", "not ours"))
    session.put(EVENTS, warning("6", "Pod/sleepers-a", "Pulled", "fine") | {"type": "Normal"})

    assert gather_evidence(session, SCOPE).events == (
        EventGroup("pod/sleepers-a", 1, "Failed", "no image", 5),
        EventGroup("job/sleepers", 0, "FailedCreate", 'pods "sleepers-abcde" is forbidden', 2),
        EventGroup(
            "pod/sleepers-a",
            0,
            "Unhealthy",
            f"task {'0a' * 32} of 0fc2a5b0-1111-2222-3333-000000000007 is gone",
            2,
        ),
    )


ENDED = {"terminated": {"exitCode": 3, "reason": "Error"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}


def test_logs_of_failing_containers_that_have_run() -> None:
    session = FakeSession()
    session.put(PODS, crashed("a", state=ENDED))
    session.put(PODS, crashed("b", state={"running": {}}, lastState=ENDED, ready=True))
    session.put(PODS, job_pod("c", "Pending", waiting=("ErrImagePull", "")))
    session.log_texts = {"a/main": "\n".join(map(str, range(30))), "b/main previous": "boom\n"}

    findings = gather_evidence(session, SCOPE)

    assert findings.logs == (
        LogTail("a", "main", False, tuple(map(str, range(20, 30)))),
        LogTail("b", "main", True, ("boom",)),
    )
    assert findings.errors == ()


def test_logs_of_running_containers_that_are_not_ready() -> None:
    session = FakeSession()
    running: dict[str, Any] = {"state": {"running": {}}}
    session.put(PODS, crashed("a", ready=False, lastState=ENDED, **running))
    session.put(PODS, crashed("b", ready=True, **running))
    session.put(PODS, crashed("c", ready=False, **running))
    session.put(PODS, crashed("d", ready=False, **running))
    session.log_texts = {
        "a/main previous": "no database\n",
        "a/main": "serving\n",
        "b/main": "ready\n",
        "c/main": "",
        "d/main": "the fourth\n",
    }

    findings = gather_evidence(session, SCOPE)

    assert findings.logs == (
        LogTail("a", "main", True, ("no database",)),
        LogTail("a", "main", False, ("serving",)),
        LogTail("c", "main", False, ()),
    )
    assert findings.errors == ()


@pytest.mark.parametrize(
    "lost",
    [
        "",
        "Unable to retrieve container logs for docker://0a1b",
        ApiError("the container is gone", status=400, reason="BadRequest"),
    ],
)
@pytest.mark.parametrize("previous", [False, True])
def test_a_run_that_is_replaced_is_found_as_the_previous_or_the_current_one(
    lost: str | Exception, previous: bool
) -> None:
    session = FakeSession()
    state = {"running": {}} if previous else BACK_OFF
    session.put(PODS, crashed("a", state=state, lastState=ENDED, ready=True))
    first, second = ("a/main", "a/main previous")[:: -1 if previous else 1]
    session.log_texts = {first: lost if isinstance(lost, str) else "", second: "boom\n"}
    if isinstance(lost, Exception):
        session.fail_logs(first, lost)

    findings = gather_evidence(session, SCOPE)

    assert findings.logs == (LogTail("a", "main", not previous, ("boom",)),)
    assert findings.errors == ()
    assert session.clock.monotonic() == 0.0


def test_a_refused_log_is_requested_once_more() -> None:
    session = FakeSession()
    for name in ("a", "b", "c"):
        session.put(PODS, crashed(name, state=BACK_OFF, lastState=ENDED))
    busy = ApiError("the kubelet is busy", status=500, reason="InternalError")
    forbidden = ApiError("forbidden", status=403, reason="Forbidden")
    session.fail_logs("a/main", busy)
    session.fail_logs("a/main previous", busy)
    session.fail_logs("b/main", busy, busy)
    session.fail_logs("b/main previous", busy, busy)
    session.fail_logs("c/main", forbidden)
    session.fail_logs("c/main previous", forbidden)
    session.log_texts = {"a/main": "boom\n", "b/main": "lost\n", "c/main": "secret\n"}

    findings = gather_evidence(session, SCOPE)

    assert findings.logs == (LogTail("a", "main", False, ("boom",)),)
    assert findings.errors == (
        "logs of b/main: 500 InternalError: the kubelet is busy",
        "logs of c/main: 403 Forbidden: forbidden",
    )
    assert session.clock.monotonic() == 0.5
    assert (session.count("logs a/main"), session.count("logs c/main")) == (3, 2)


def test_failed_parts_of_evidence_are_lines() -> None:
    session = FakeSession()
    session.put(PODS, crashed("a", state={"terminated": {"exitCode": 1}}))
    session.fail("list", EVENTS, ApiError("events is forbidden", status=403, reason="Forbidden"))

    findings = gather_evidence(session, SCOPE)

    assert [p.name for p in findings.pods] == ["a"]
    assert findings.errors == (
        "events: 403 Forbidden: events is forbidden",
        "logs of a/main: 400 BadRequest: no logs here",
    )

    session.fail("list", PODS, DeadlineExceeded())
    assert gather_evidence(session, SCOPE).errors == ("pods: context deadline exceeded",)


def test_subject_without_pods_and_namespace_sends_no_requests() -> None:
    session = FakeSession()

    gather_evidence(session, EvidenceScope(None))

    assert session.requests == []


@pytest.mark.parametrize(
    ("status", "facts"),
    [
        ({}, ("waiting", "", None, False)),
        ({"state": None, "lastState": None}, ("waiting", "", None, False)),
        (
            {"state": {"waiting": {"reason": "ContainerCreating"}}},
            ("waiting", "ContainerCreating", None, False),
        ),
        ({"state": {"waiting": {"reason": "X"}}}, ("waiting", "X", None, True)),
        ({"state": {"running": {}}}, ("running", "", None, False)),
        (
            {"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137}}},
            ("running", "", 137, True),
        ),
        (
            {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            ("terminated", "Completed", 0, False),
        ),
    ],
)
def test_container_states(status: dict[str, Any], facts: tuple[object, ...]) -> None:
    (report,) = report_containers([status])

    assert (report.state, report.reason, report.exit_code, report.failing) == facts


def test_existing_objects_are_listed_for_a_missing_name() -> None:
    session = FakeSession()
    for number in range(12):
        session.put(PODS, job_pod(f"p-{number:02}"))
    session.put(PODS, job_pod("wed"))
    web = Source(PODS, "ci-1", SingleObject(PODS, "web"), name="web")
    there = Source(PODS, "ci-1", SingleObject(PODS, "p-00"), name="p-00")

    assert gather_evidence(session, SCOPE, [web, there]).existing == (
        ExistingObjects(
            "pods", "ci-1", "web", ("wed", *(f"p-{number:02}" for number in range(9))), 13
        ),
    )


def test_refused_list_of_existing_objects_is_an_error_line() -> None:
    session = FakeSession()
    web = Source(PODS, "ci-1", SingleObject(PODS, "web"), name="web")
    session.fail("list", PODS, ApiError("pods is forbidden", status=403, reason="Forbidden"))

    findings = gather_evidence(session, EvidenceScope(None), [web])

    assert (findings.existing, findings.errors) == ((), ("pods: 403 Forbidden: pods is forbidden",))


def test_labels_are_listed_for_a_selector_that_matches_nothing() -> None:
    session = FakeSession()
    for name, labels in (("a", {"app": "web"}), ("b", {"app": "web"}), ("c", {"app": "db"})):
        session.put(PODS, job_pod(name, labels={**labels, "pod-template-hash": name}))
    source = Source(PODS, "ci-1", SingleObject(PODS, "x"), selector="app=wbe")

    assert gather_evidence(session, EvidenceScope("ci-1"), [source]).existing == (
        ExistingObjects("pods", "ci-1", "app=wbe", ("app=web", "app=db"), 3, labels=True),
    )


def test_unbound_claims_of_unscheduled_pods_are_named_with_their_event_and_the_classes() -> None:
    session = FakeSession()
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    why["message"] = "pod has unbound immediate PersistentVolumeClaims"
    waiting = job_pod("a", "Pending", nodeName=None, conditions=[why])
    named = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("d", "no")]
    waiting["spec"]["volumes"] = named
    session.put(PODS, waiting)
    spec = {"storageClassName": "fast"}
    session.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "d", "uid": "uid-d"}, "spec": spec})
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    session.put(STORAGE_CLASSES, {"metadata": {"name": "standard", "annotations": notes}})
    about = "PersistentVolumeClaim/d"
    session.put(EVENTS, warning("1", about, "ProvisioningFailed", "no class"))

    assert gather_evidence(session, SCOPE).claims == (
        UnboundClaim("d", "fast", "ProvisioningFailed: no class", ("standard (default)",)),
        UnboundClaim("no", "", "it does not exist", ()),
    )


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_refused_log_is_not_replaced_by_that_of_the_other_run(refusals: int) -> None:
    """Both are requested: the refused one once more."""
    session = FakeSession()
    session.put(PODS, crashed("a", ready=False, state={"running": {}}, lastState=ENDED))
    busy = ApiError("the kubelet is busy", status=500, reason="InternalError")
    session.fail_logs("a/main previous", *[busy] * refusals)
    session.log_texts = {"a/main previous": "boom\n", "a/main": "up\n"}

    findings = gather_evidence(session, SCOPE)

    before, now = LogTail("a", "main", True, ("boom",)), LogTail("a", "main", False, ("up",))
    text = "logs of a/main, the run before: 500 InternalError: the kubelet is busy"
    assert findings.logs == ((before, now) if refusals == 1 else (now,))
    assert findings.errors == (() if refusals == 1 else (text,))


def test_logs_of_pods_that_are_being_stopped() -> None:
    """The Job controller deletes the pods of a Job past its deadline."""
    session = FakeSession()
    stopped = crashed("a", state={"running": {}})
    stopped["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    session.put(PODS, stopped)
    session.log_texts = {"a/main": "still at work\n"}

    assert gather_evidence(session, SCOPE).logs == (
        LogTail("a", "main", False, ("still at work",)),
    )


def refusal(verb: str, name: str = "") -> str:
    return (
        f'configmaps {name}is forbidden: User "system:serviceaccount:ci-1:greeter" cannot {verb} '
        'resource "configmaps" in API group "" in the namespace "ci-1"'
    )


def operator(name: str, account: str = "default") -> dict[str, Any]:
    made = crashed(name, state={"running": {}}, ready=True)
    return {**made, "spec": {"nodeName": "node-1", "serviceAccountName": account}}


def test_refusals_in_the_logs_of_an_operated_namespace() -> None:
    session = FakeSession()
    for name in ("a", "b", "c"):
        session.put(PODS, operator(name))
    session.put(PODS, operator("greeter", "greeter"))
    session.put(PODS, operator("helper", "helper"))
    session.put(PODS, job_pod("pending", "Pending", waiting=("ContainerCreating", "")))
    quoted = refusal("patch", '"hello" ').replace('"', '\\"')
    session.log_texts = {
        "greeter/main": "\n".join(
            [
                "starting",
                f"E 07:00:01 {refusal('list')}",
                f"E 07:00:02 {refusal('watch')}",
                f"E 07:00:03 {refusal('get')}",
                f'(403) Reason: Forbidden: {{"message":"{quoted}","code":403}}',
                f'(403) Reason: Forbidden: {{"message":"{quoted}","code":403}}',
                "E 07:00:04 " + refusal("list"),
            ]
        ),
        "a/main": "status: 403\n  Forbidden by a proxy  \n403 items\nforbiddenness\n",
        "b/main": "nothing\n",
        "c/main": "ApiException: (403)\n",
    }

    findings = gather_evidence(session, EvidenceScope("ci-1"), (), WIDGETS)

    assert findings.refusals == (
        LogTail(
            "greeter",
            "main",
            False,
            (refusal("get"), refusal("patch", '"hello" '), refusal("list")),
        ),
        LogTail("a", "main", False, ("status: 403", "Forbidden by a proxy")),
        LogTail("c", "main", False, ("ApiException: (403)",)),
    )
    assert (findings.errors, findings.logs) == ((), ())


def test_logs_that_are_searched_are_bounded() -> None:
    session = FakeSession()
    for number in range(12):
        session.put(PODS, operator(f"p-{number:02}"))
        session.log_texts[f"p-{number:02}/main"] = refusal("list")

    findings = gather_evidence(session, EvidenceScope("ci-1"), (), WIDGETS)

    assert [tail.pod for tail in findings.refusals] == ["p-00", "p-01", "p-02"]
    assert session.count("logs ") == 10
    # Roles and their bindings, then the pods of the namespace, and those of the object.
    assert [session.count(f"list {kind}") for kind in ("cluster", "role", "pods")] == [2, 2, 2]
    forbidden = ApiError("pods is forbidden", status=403, reason="Forbidden")
    session.fail("list", PODS, forbidden, forbidden)
    findings = gather_evidence(session, EvidenceScope("ci-1"), (), WIDGETS)
    assert (findings.refusals, findings.errors) == ((), ())
    assert gather_evidence(session, EvidenceScope("ci-1")).refusals == ()

"""Objects that nobody can create: their namespace is being deleted."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
)
from pytest_kwait.engine.condition import Condition, EvidenceScope, Met, Pending, Source, Verdict
from pytest_kwait.engine.failure.wait_report import WaitReport
from pytest_kwait.engine.object_sinks import SingleObject
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.framework.endpoints import wait_for_endpoint_count
from pytest_kwait.framework.events import wait_for_event
from pytest_kwait.framework.job.wait import wait_for_job_complete, wait_for_job_pods_running
from pytest_kwait.framework.objects.wait import general_condition
from pytest_kwait.framework.pod.list_wait import wait_for_number_of_pods, wait_for_pods_running
from pytest_kwait.framework.pod.wait import wait_for_pod_ready
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.replicaset import wait_for_ready_replica_set
from pytest_kwait.framework.storage.claims import wait_for_persistent_volume_claim_phase
from tests.engine.fake_session import FakeSession, Obj
from tests.objects import created_job, event, job_pod

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
GOING = {"metadata": {"name": "ci-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
STAYS = {"metadata": {"name": "ci-1"}}


class There(Condition):
    """A pod is there, or gone."""

    subject = "pod ci-1/web"
    goal: str

    def __init__(self, *, gone: bool = False, namespace: str | None = "ci-1") -> None:
        self.pod = SingleObject(PODS, "web")
        self.gone = gone
        self._sources = (Source(PODS, namespace, self.pod, "web"),)
        self.goal = "go away" if gone else "come"

    def sources(self) -> Any:
        return self._sources

    def verdict(self) -> Verdict:
        absent = self.pod.missing_verdict()
        if self.gone:
            return Met() if absent else Pending("still there")
        return absent or Met()

    def summarize(self) -> str:
        return ""

    def result(self) -> Any:
        return "result"

    def scope(self) -> EvidenceScope:
        return EvidenceScope(None)


def wait(session: FakeSession, condition: Any = None, **options: Any) -> Any:
    return wait_for_condition(session, condition or There(), WaitSettings(**options))


@MODES
def test_a_namespace_that_goes(mode: Any) -> None:
    """It is read after 5 s, and believed 5 s later."""
    session = FakeSession()
    session.put(NAMESPACES, GOING)

    with pytest.raises(WaitFailed) as caught:
        wait(session, timeout=60, mode=mode, poll=1.0)

    assert str(caught.value) == (
        "pod ci-1/web can no longer come: namespace ci-1 is being deleted: nothing can be "
        "created in\n"
        "    it\n"
        "  awaited   pod ci-1/web to come\n"
        f"  limit     1m0s, ended after 10s ({mode} mode)\n"
        "  timeline\n"
        "       0.0s  not found yet\n"
        "       5.0s  final if it holds for 5s: namespace ci-1 is being deleted: nothing can be "
        "cr...\n"
        "      10.0s  namespace ci-1 is being deleted: nothing can be created in it\n"
        "  try: kubectl get events"
    )
    report = caught.value.report
    assert isinstance(report, WaitReport)
    assert [change.is_provisional for change in report.timeline.first] == [False, True, False]
    if mode == "watch":
        assert session.count("get namespaces ci-1") == 2
        assert session.count("list pods") == 3
        assert session.count("watch") <= 3


@MODES
def test_an_object_that_comes_in_time(mode: Any) -> None:
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.at(4, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=60, mode=mode) == "result"
    assert session.count("get") == 0


@MODES
def test_an_object_that_comes_after_all(mode: Any) -> None:
    """What is there was not kept out, whatever the namespace says."""
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.at(8, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=60, mode=mode) == "result"
    assert session.clock.monotonic() == 8.0


def test_recreated_namespace() -> None:
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.at(7, session.put, NAMESPACES, STAYS)
    session.at(70, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=100) == "result"
    assert session.clock.monotonic() == 70.0


def test_namespace_recreated_between_two_checks() -> None:
    """It is read again before it is believed."""
    session = FakeSession()
    session.put(NAMESPACES, STAYS)
    session.at(12, session.put, NAMESPACES, GOING)
    session.at(22, session.put, NAMESPACES, STAYS)
    session.at(70, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=100) == "result"
    assert session.clock.monotonic() == 70.0


def test_a_namespace_that_stays_is_read_ever_more_seldom() -> None:
    session = FakeSession()
    session.put(NAMESPACES, STAYS)

    with pytest.raises(WaitTimeout):
        wait(session, timeout=300)

    # After 5, 10, 20, 40, 80, and then every 60 seconds.
    assert session.count("get namespaces") == 8
    assert session.count("list pods") <= 12


def test_a_namespace_that_goes_in_the_middle() -> None:
    session = FakeSession()
    session.put(NAMESPACES, STAYS)
    session.at(12, session.put, NAMESPACES, GOING)

    with pytest.raises(WaitFailed):
        wait(session, timeout=300)
    assert session.clock.monotonic() == 25.0


@MODES
def test_a_namespace_that_does_not_exist(mode: Any) -> None:
    """It is read after 5 s, and believed once the long grace has passed."""
    session = FakeSession()
    session.namespace_there = ""

    with pytest.raises(WaitFailed) as caught:
        wait(session, timeout=900, mode=mode, poll=1.0)

    assert caught.value.args == ("pod ci-1/web can no longer come: namespace ci-1 does not exist",)
    assert session.clock.monotonic() == 50.0


def test_a_missing_namespace_is_awaited_as_long_on_a_fast_cluster() -> None:
    """Who creates it is as slow there."""
    session = FakeSession()
    session.time_scale = 0.1
    session.namespace_there = ""
    session.at(40, setattr, session, "namespace_there", "ci-1")
    session.at(41, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=900) == "result"


@MODES
@pytest.mark.parametrize(("first_answer", "ended"), [(0.1, 1.0), (1.0, 10.0)])
def test_a_cluster_that_says_its_time_in_its_first_answer(
    mode: Any, first_answer: float, ended: float
) -> None:
    """A client of the user's own does not know it before."""
    session = FakeSession()
    session.namespace_there = "ci-1"
    session.put(NAMESPACES, GOING)
    session.at_step("list", 1, lambda: setattr(session, "time_scale", first_answer))

    with pytest.raises(WaitFailed):
        wait(session, timeout=900, mode=mode, poll=0.5)

    assert session.clock.monotonic() == ended


@MODES
def test_a_namespace_that_is_created_meanwhile(mode: Any) -> None:
    session = FakeSession()
    session.namespace_there = ""
    session.at(45, setattr, session, "namespace_there", "ci-1")
    session.at(300, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=900, mode=mode, poll=1.0) == "result"


@pytest.mark.parametrize(
    "condition",
    [
        condition_of(wait_for_number_of_pods)("ci-1", 1),
        condition_of(wait_for_job_complete)("ci-1", "pi"),
        condition_of(wait_for_endpoint_count)("ci-1", "web", 1),
        condition_of(wait_for_event)("ci-1", "Killing"),
        condition_of(wait_for_persistent_volume_claim_phase)("ci-1", "data", "Bound"),
        general_condition("ci-1", "pods", "condition=Ready", selector="app=web").on([PODS]),
        general_condition("ci-1", "pods", lambda pods: bool(pods), selector="a=b").on([PODS]),
        general_condition("ci-1", ["pod/a", "pod/b"], "create").on([PODS, PODS]),
    ],
)
def test_waits_of_all_families_name_a_missing_namespace(condition: Any) -> None:
    session = FakeSession()
    session.namespace_there = ""
    with pytest.raises(WaitFailed, match="namespace ci-1 does not exist"):
        wait(session, condition, timeout=900)


@pytest.mark.parametrize("status", [403, 500])
def test_a_namespace_that_cannot_be_read(status: int) -> None:
    """Not every user may."""
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.fail("get", NAMESPACES, *(ApiError("no", status=status) for _ in range(9)))

    with pytest.raises(WaitTimeout, match="not found yet"):
        wait(session, timeout=60)


def test_graces_and_fail_fast_hold_for_it_too() -> None:
    session = FakeSession()
    session.put(NAMESPACES, GOING)

    with pytest.raises(WaitFailed):
        wait(session, timeout=60, grace=1.0)
    assert session.clock.monotonic() == 2.0
    with pytest.raises(WaitTimeout):
        wait(session, timeout=60, fail_fast=False)
    assert session.count("get") == 2


def test_waits_for_deletion_ignore_a_terminating_namespace() -> None:
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.put(CONFIG_MAPS, {"metadata": {"name": "web"}})
    session.put(PODS, {"metadata": {"name": "web"}})
    session.at(30, session.drop, PODS, "web")

    assert wait(session, There(gone=True), timeout=60) == "result"
    assert session.count("get") == 0


def test_cluster_scoped_kinds_have_no_namespace_check() -> None:
    session = FakeSession()

    with pytest.raises(WaitTimeout):
        wait(session, There(namespace=None), timeout=60)
    # The second list is that of the last round, when the time is up.
    assert (session.count("get"), session.count("list pods metadata.name=web")) == (0, 2)


CREATING = ("ContainerCreating", "")
MOUNT = 'MountVolume.SetUp failed for volume "cfg" : '
NO_CONFIG = f'{MOUNT}configmap "web-cfg" not found'


def creating(name: str = "a", **more: Any) -> Obj:
    obj = job_pod(name, "Pending", waiting=CREATING, **more)
    obj["metadata"] |= {"uid": f"uid-{name}", "labels": {**obj["metadata"]["labels"], "app": "web"}}
    obj["metadata"].setdefault("ownerReferences", [])
    return obj


def timed_event(
    subject: str, reason: str, message: str, second: int = 0, kind: str = "Pod", **fields: Any
) -> Obj:
    made = event(reason, message, f"{kind}/{subject}", name=f"{subject}.{reason}.{message[:40]}")
    return {**made, "lastTimestamp": f"2026-01-01T00:00:{second:02}Z", "count": 1, **fields}


def pod_ready() -> Any:
    return condition_of(wait_for_pod_ready)("ci-1", "a")


@MODES
@pytest.mark.parametrize(
    ("make", "subject"),
    [
        (pod_ready, ""),
        (lambda: condition_of(wait_for_pods_running)("ci-1", 1), "pod a: "),
        (lambda: condition_of(wait_for_job_pods_running)("ci-1", "sleepers", 3), "pod a: "),
        (lambda: condition_of(wait_for_ready_replica_set)("ci-1", "web"), "pod a: "),
        (lambda: general_condition("ci-1", "pod/a", "condition=Ready").on([PODS]), ""),
        (
            lambda: general_condition("ci-1", "pods", "condition=Ready", selector="app=web").on(
                [PODS]
            ),
            "a: ",
        ),
    ],
)
def test_pods_whose_volume_cannot_be_mounted(make: Any, subject: str, mode: Any) -> None:
    session = FakeSession()
    session.put(JOBS, created_job())
    selector = {"matchLabels": {"app": "web"}}
    web = {"metadata": {"name": "web", "uid": "uid-sleepers", "generation": 1}}
    session.put(
        REPLICA_SETS,
        {**web, "spec": {"replicas": 1, "selector": selector}, "status": {"observedGeneration": 1}},
    )
    owner = [{"kind": "ReplicaSet", "uid": "uid-sleepers", "controller": True}]
    session.put(PODS, creating(metadata={"ownerReferences": owner}))
    session.put(CONFIG_MAPS, {"metadata": {"name": "web-config"}})
    session.put(CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt"}})
    session.put(EVENTS, timed_event("a", "Scheduled", "assigned", 1))
    session.put(EVENTS, timed_event("a", "FailedMount", NO_CONFIG, 2, count=50))
    late = "Unable to attach or mount volumes: timed out"
    session.put(EVENTS, timed_event("a", "FailedMount", late, 3))

    with pytest.raises(WaitFailed) as caught:
        wait(session, make(), timeout=300, mode=mode, poll=1.0)

    reason = 'FailedMount (50x): configmap "web-cfg" not found (there is: web-config)'
    assert caught.value.evidence["reason"] == f"{subject}{reason}"
    assert 50.0 <= session.clock.monotonic() <= 51.0


@MODES
def test_pods_whose_volume_is_mounted_in_time(mode: Any) -> None:
    """An image may take longer than the grace, with the same status of the containers."""
    session = FakeSession()
    session.put(PODS, creating())
    session.put(EVENTS, timed_event("a", "FailedMount", NO_CONFIG, 2))
    session.at(30, session.put, EVENTS, timed_event("a", "Pulling", "an image", 30))
    ready = job_pod("a", conditions=[{"type": "Ready", "status": "True"}])
    session.at(200, session.put, PODS, {**ready, "metadata": creating()["metadata"]})

    wait(session, pod_ready(), timeout=300, mode=mode, poll=1.0)

    assert session.clock.monotonic() == 200.0


@pytest.mark.parametrize(
    "why",
    [
        "failed to sync configmap cache: timed out waiting for the condition",
        "failed to sync secret cache: timed out waiting for the condition",
        'failed to fetch token: serviceaccounts "default" is forbidden: User "system:node:node-1" '
        'cannot create resource "serviceaccounts/token" in API group "" in the namespace "shop": '
        "no relationship found between node 'node-1' and this object",
    ],
)
def test_late_cache_of_the_kubelet_or_server_is_no_failed_mount(why: str) -> None:
    session = FakeSession()
    session.put(PODS, creating())
    late = f"{MOUNT}{why}"
    session.put(EVENTS, timed_event("a", "FailedMount", late, 2))

    with pytest.raises(WaitTimeout, match="ContainerCreating"):
        wait(session, pod_ready(), timeout=300, grace=0.0)
    # At once, then after 1, 2, 4, 8, 16, 32, and then every 60 seconds.
    assert session.count("list events involvedObject.kind=Pod") == 10


def test_each_pod_has_its_own_grace() -> None:
    """A pod that fails to mount later is not judged by when the wait got stuck."""
    session = FakeSession()
    session.put(PODS, creating())
    session.at(100, session.put, EVENTS, timed_event("a", "FailedMount", NO_CONFIG, 2))

    with pytest.raises(WaitFailed):
        wait(session, pod_ready(), timeout=600)

    assert session.clock.monotonic() >= 100.0 + 45.0


def test_pods_that_are_created_without_failing_mounts_are_awaited() -> None:
    session = FakeSession()
    session.put(PODS, creating())
    session.put(EVENTS, timed_event("a", "Pulling", "an image", 2))

    with pytest.raises(WaitTimeout, match="ContainerCreating"):
        wait(session, pod_ready(), timeout=300)
    # After 5, 10, 20, 40, 80, and then every 60 seconds.
    assert session.count("list events involvedObject.kind=Pod") == 8


def test_other_tests_of_pods_do_not_depend_on_mounts() -> None:
    session = FakeSession()
    session.put(PODS, creating())
    session.put(EVENTS, timed_event("a", "FailedMount", NO_CONFIG, 2))
    labelled = general_condition(
        "ci-1", "pods", "jsonpath={.metadata.annotations.x}=y", selector="app=web"
    )
    with pytest.raises(WaitTimeout):
        wait(session, labelled.on([PODS]), timeout=300)
    assert session.count("list events involvedObject.kind=Pod") == 0


@MODES
def test_a_claim_whose_class_is_missing(mode: Any) -> None:
    session = FakeSession()
    claim = {
        "metadata": {"name": "data", "uid": "uid-data"},
        "spec": {"storageClassName": "fast"},
        "status": {"phase": "Pending"},
    }
    session.put(PERSISTENT_VOLUME_CLAIMS, claim)
    text = 'storageclass.storage.k8s.io "fast" not found'
    session.put(
        EVENTS, timed_event("data", "ProvisioningFailed", text, kind=PERSISTENT_VOLUME_CLAIMS.kind)
    )
    bound = general_condition("ci-1", "pvc/data", "jsonpath={.status.phase}=Bound")

    with pytest.raises(WaitFailed) as caught:
        wait(session, bound.on([PERSISTENT_VOLUME_CLAIMS]), timeout=300, mode=mode, poll=1.0)

    assert caught.value.evidence["reason"] == f"ProvisioningFailed: {text}"
    assert 45.0 <= session.clock.monotonic() <= 51.0

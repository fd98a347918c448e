from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.controllers.garbage_collector import EventTTL
from tests.simulator.cluster import NAMESPACE, Cluster, new_cluster, pod_spec
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
Obj = dict[str, Any]


def _owner(obj: Obj, *, block: bool = False) -> Obj:
    metadata = obj["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {**reference, "blockOwnerDeletion": True} if block else reference


def _map(cluster: Cluster, name: str, *owners: Obj) -> Obj:
    metadata: Obj = {"name": name}
    if owners:
        metadata["ownerReferences"] = list(owners)
    return cluster.api.create("configmaps", {"metadata": metadata}, NAMESPACE)


def _names(cluster: Cluster) -> list[str]:
    found = [one["metadata"]["name"] for one in cluster.every("configmaps")]
    return [name for name in found if name != "kube-root-ca.crt"]


def test_dependents_are_deleted_transitively(cluster: Cluster) -> None:
    owner = _map(cluster, "a")
    child = _map(cluster, "b", _owner(owner))
    _map(cluster, "c", _owner(child))
    _map(cluster, "other")
    cluster.run(1)
    cluster.delete("configmaps", "a")
    cluster.run(1)
    assert _names(cluster) == ["other"]


def test_dependent_of_a_missing_owner_is_deleted(cluster: Cluster) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "no-such"}
    _map(cluster, "b", ghost)
    cluster.run(1)
    assert _names(cluster) == []


def test_owner_of_another_uid_is_another_owner(cluster: Cluster) -> None:
    owner = _map(cluster, "a")
    _map(cluster, "b", {**_owner(owner), "uid": "an-older-one"})
    cluster.run(1)
    assert _names(cluster) == ["a"]


def test_owner_of_an_unknown_kind_counts_as_existing(cluster: Cluster) -> None:
    _map(cluster, "b", {"apiVersion": "example.org/v1", "kind": "Thing", "name": "x", "uid": "u"})
    cluster.run(1)
    assert _names(cluster) == ["b"]


def test_dependent_of_two_owners_keeps_the_other(cluster: Cluster) -> None:
    first, second = _map(cluster, "a"), _map(cluster, "b")
    _map(cluster, "c", _owner(first), _owner(second))
    cluster.run(1)
    cluster.delete("configmaps", "a")
    cluster.run(1)
    assert cluster.get("configmaps", "c")["metadata"]["ownerReferences"] == [_owner(second)]


def test_foreground_deletion_waits_for_blocking_dependents(cluster: Cluster) -> None:
    owner = _map(cluster, "a")
    blocking = _map(cluster, "b", _owner(owner, block=True))
    cluster.change(
        "configmaps", "b", lambda one: one["metadata"].update(finalizers=["example.org/x"])
    )
    _map(cluster, "c", _owner(owner))
    _map(cluster, "d", _owner(blocking, block=True))
    cluster.run(1)
    cluster.delete("configmaps", "a", propagation="Foreground")
    cluster.run(1)
    kept = cluster.get("configmaps", "a")
    assert kept["metadata"]["finalizers"] == ["foregroundDeletion"]
    # `d` is deleted before `b`, which waits for it; `c` does not block.
    assert "d" not in _names(cluster)
    cluster.change("configmaps", "b", lambda one: one["metadata"].update(finalizers=[]))
    cluster.run(1)
    assert _names(cluster) == []


@pytest.mark.parametrize("policy", ["Foreground", "Background"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("block", [True, False])
def test_a_circle_of_owners_is_deleted(
    cluster: Cluster, policy: str, size: int, *, block: bool
) -> None:
    every = [_map(cluster, f"m{index}") for index in range(size)]
    _map(cluster, "beside", _owner(every[-1], block=block))
    for index, owner in enumerate(every):
        references = [_owner(owner, block=block)]
        name = f"m{(index + 1) % size}"
        found = cluster.get("configmaps", name)
        metadata = {**found["metadata"], "ownerReferences": references}
        cluster.api.update("configmaps", {**found, "metadata": metadata})
    cluster.run(1)
    assert len(_names(cluster)) == size + 1
    cluster.delete("configmaps", "m0", propagation=policy)
    cluster.run(1)
    assert _names(cluster) == []


def test_orphaned_dependents_lose_the_owner_and_stay(cluster: Cluster) -> None:
    owner = _map(cluster, "a")
    _map(cluster, "b", _owner(owner))
    cluster.run(1)
    cluster.delete("configmaps", "a", propagation="Orphan")
    cluster.run(1)
    assert _names(cluster) == ["b"]
    assert "ownerReferences" not in cluster.get("configmaps", "b")["metadata"]


def test_owner_without_dependents_is_deleted_at_once(cluster: Cluster) -> None:
    _map(cluster, "a")
    cluster.delete("configmaps", "a", propagation="Foreground")
    cluster.run(0)
    assert _names(cluster) == []


def test_pods_of_a_deleted_job_lose_finalizers_first(cluster: Cluster) -> None:
    spec = pod_spec("sleep", "99", restartPolicy="Never", terminationGracePeriodSeconds=1)
    cluster.create("jobs.batch", "j", {"template": {"spec": spec}})
    owner = _map(cluster, "a")
    _map(cluster, "b", _owner(owner))
    cluster.run(5)
    (pod,) = cluster.every("pods")
    # Another object is queued already.
    cluster.delete("configmaps", "a")
    cluster.delete("jobs.batch", "j", propagation="Background")
    cluster.run(5)
    kept = cluster.states(
        "pods",
        pod["metadata"]["name"],
        lambda one: ("deletionTimestamp" in one["metadata"], "finalizers" in one["metadata"]),
    )
    assert kept == [(False, True), (False, False), (True, False), "DELETED"]


def tell(api: SimulatedCluster, name: str) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    api.create("events", {"metadata": {"name": name}, "involvedObject": about}, "default")


def told(api: SimulatedCluster) -> list[str]:
    return [event["metadata"]["name"] for event in api.list("events", "default")]


def clock_of(api: SimulatedCluster) -> ManualClock:
    assert isinstance(api.clock, ManualClock)
    return api.clock


def test_oldest_events_beyond_limit_are_deleted() -> None:
    api = new_cluster()
    EventTTL(api, most=2)
    for name in ("a", "b", "c"):
        tell(api, name)
    api.modify("events", "a", "default", lambda event: event.update(count=2))
    tell(api, "d")
    clock_of(api).advance(0)
    assert told(api) == ["a", "d"]


def test_event_stays_for_an_hour_after_it_was_last_written() -> None:
    api = new_cluster()
    EventTTL(api)
    tell(api, "a")
    tell(api, "b")
    clock_of(api).advance(3000)
    api.modify("events", "a", "default", lambda event: event.update(count=2))
    clock_of(api).advance(1000)
    assert told(api) == ["a"]
    clock_of(api).advance(3600)
    assert told(api) == []

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.controllers.deployment import (
    MAX_REPLICAS,
    calculate_new_replicas,
    calculate_proportions,
    get_revision,
    resolve_fenceposts,
    set_condition,
)
from pytest_kwait.simulator.controllers.pod_control import compute_template_hash
from tests.simulator.cluster import Cluster, conditions, set_spec, template

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_DEPLOYMENTS = "deployments.apps"
_SETS = "replicasets.apps"


def _deployment_spec(replicas: int = 3, *command: str, **fields: Any) -> Obj:
    pod = {"terminationGracePeriodSeconds": 1}
    return set_spec(*(command or ("sleep", "999")), pod=pod, replicas=replicas, **fields)


def _told(obj: Obj) -> tuple[Any, ...]:
    status = obj["status"]
    names = (
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    )
    return (
        status.get("observedGeneration"),
        tuple(status.get(name, 0) for name in names),
        conditions(obj).get("Progressing"),
        conditions(obj).get("Available"),
    )


_UNAVAILABLE = "False MinimumReplicasUnavailable"
_AVAILABLE = "True MinimumReplicasAvailable"


def test_rollout_is_reported_step_by_step(cluster: Cluster) -> None:
    cluster.create(_DEPLOYMENTS, "web", _deployment_spec())
    cluster.run(5)
    assert cluster.states(_DEPLOYMENTS, "web", _told) == [
        (None, (0, 0, 0, 0, 0), None, None),
        (None, (0, 0, 0, 0, 0), "True NewReplicaSetCreated", None),
        (1, (0, 0, 0, 0, 3), "True NewReplicaSetCreated", _UNAVAILABLE),
        (1, (3, 3, 0, 0, 3), "True ReplicaSetUpdated", _UNAVAILABLE),
        (1, (3, 3, 3, 3, 0), "True NewReplicaSetAvailable", _AVAILABLE),
    ]
    (made,) = cluster.every(_SETS)
    name, digest = made["metadata"]["name"], made["metadata"]["labels"]["pod-template-hash"]
    assert name == f"web-{digest}"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert made["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
        "deployment.kubernetes.io/revision": "1",
    }
    assert cluster.events("web") == [
        f"ScalingReplicaSet x1: Scaled up replica set {name} from 0 to 3"
    ]
    deployment = cluster.get(_DEPLOYMENTS, "web")
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    messages = [one["message"] for one in deployment["status"]["conditions"]]
    assert messages == [
        "Deployment has minimum availability.",
        f'ReplicaSet "{name}" has successfully progressed.',
    ]


def _touch(cluster: Cluster, value: str = "1") -> None:
    def touch(deployment: Obj) -> None:
        metadata = deployment["spec"]["template"]["metadata"]
        metadata["annotations"] = {"touched": value}

    cluster.change(_DEPLOYMENTS, "web", touch)


def test_update_first_shows_the_old_status(cluster: Cluster) -> None:
    cluster.create(_DEPLOYMENTS, "web", _deployment_spec(2))
    cluster.run(5)
    _touch(cluster)
    cluster.run(10)

    def trap(obj: Obj) -> tuple[Any, ...]:
        return (obj["metadata"]["generation"], *_told(obj)[:3])

    seen = cluster.states(_DEPLOYMENTS, "web", trap)
    start = seen.index((2, 1, (2, 2, 2, 2, 0), "True NewReplicaSetAvailable"))
    assert seen[start + 1 : start + 3] == [
        (2, 1, (2, 2, 2, 2, 0), "True NewReplicaSetCreated"),
        (2, 2, (2, 0, 2, 2, 1), "True NewReplicaSetCreated"),
    ]
    assert seen[-1] == (2, 2, (2, 2, 2, 2, 0), "True NewReplicaSetAvailable")
    most = max(counts[0] for *_, counts, _ in seen[start:])
    fewest = min(counts[3] for *_, counts, _ in seen[start:])
    assert (most, fewest) == (3, 2)
    old, new = sorted(cluster.every(_SETS), key=lambda one: one["spec"]["replicas"])
    assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (0, 2)
    assert new["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


def test_rollback_reuses_the_old_replica_set(cluster: Cluster) -> None:
    cluster.create(_DEPLOYMENTS, "web", _deployment_spec(1))
    cluster.run(5)
    first = cluster.every(_SETS)[0]["metadata"]["name"]
    _touch(cluster)
    cluster.run(10)
    cluster.change(
        _DEPLOYMENTS, "web", lambda obj: obj["spec"]["template"]["metadata"].pop("annotations")
    )
    cluster.run(10)
    again = cluster.get(_SETS, first)
    assert again["spec"]["replicas"] == 1
    assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
    assert len(cluster.every(_SETS)) == 2


def test_recreate_waits_for_the_last_old_pod(cluster: Cluster) -> None:
    cluster.create(_DEPLOYMENTS, "web", _deployment_spec(2, strategy={"type": "Recreate"}))
    cluster.run(5)
    _touch(cluster)
    cluster.run(15)
    alive: set[str] = set()
    seen: list[int] = []
    for kind, change, obj in cluster.history:
        if kind == "pods":
            over = change == "DELETED" or obj["status"]["phase"] in ("Succeeded", "Failed")
            (alive.discard if over else alive.add)(obj["metadata"]["name"])
            if not seen or seen[-1] != len(alive):
                seen.append(len(alive))
    assert seen == [1, 2, 1, 0, 1, 2]
    assert _told(cluster.get(_DEPLOYMENTS, "web"))[1] == (2, 2, 2, 2, 0)


def test_stuck_rollout_exceeds_its_deadline(cluster: Cluster) -> None:
    spec = _deployment_spec(1, progressDeadlineSeconds=3)
    spec["template"]["spec"]["containers"][0]["image"] = "example.invalid/x:1"
    cluster.create(_DEPLOYMENTS, "web", spec)
    cluster.run(3)
    assert conditions(cluster.get(_DEPLOYMENTS, "web"))["Progressing"] == "True ReplicaSetUpdated"
    cluster.run(2)
    stuck = cluster.get(_DEPLOYMENTS, "web")
    assert conditions(stuck) == {
        "Available": _UNAVAILABLE,
        "Progressing": "False ProgressDeadlineExceeded",
    }
    name = cluster.every(_SETS)[0]["metadata"]["name"]
    assert (
        stuck["status"]["conditions"][1]["message"]
        == f'ReplicaSet "{name}" has timed out progressing.'
    )


def test_paused_deployment_scales_but_does_not_roll(cluster: Cluster) -> None:
    cluster.create(_DEPLOYMENTS, "web", _deployment_spec(1))
    cluster.run(5)
    cluster.change(_DEPLOYMENTS, "web", lambda obj: obj["spec"].update(paused=True))
    _touch(cluster)
    cluster.run(5)
    assert len(cluster.every(_SETS)) == 1
    assert conditions(cluster.get(_DEPLOYMENTS, "web"))["Progressing"] == "Unknown DeploymentPaused"
    cluster.change(_DEPLOYMENTS, "web", lambda obj: obj["spec"].update(replicas=3))
    cluster.run(5)
    assert cluster.every(_SETS)[0]["spec"]["replicas"] == 3
    cluster.change(_DEPLOYMENTS, "web", lambda obj: obj["spec"].update(paused=False))
    cluster.run(15)
    assert len(cluster.every(_SETS)) == 2
    assert (
        conditions(cluster.get(_DEPLOYMENTS, "web"))["Progressing"] == "True NewReplicaSetAvailable"
    )


def test_scaling_does_not_make_a_new_revision(cluster: Cluster) -> None:
    cluster.create(_DEPLOYMENTS, "web", _deployment_spec(1))
    cluster.run(5)
    cluster.change(_DEPLOYMENTS, "web", lambda obj: obj["spec"].update(replicas=0))
    cluster.run(5)
    assert _told(cluster.get(_DEPLOYMENTS, "web"))[1] == (0, 0, 0, 0, 0)
    cluster.change(_DEPLOYMENTS, "web", lambda obj: obj["spec"].update(replicas=2))
    cluster.run(5)
    (only,) = cluster.every(_SETS)
    assert only["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"] == "2"
    name = only["metadata"]["name"]
    assert [event.partition(": ")[2] for event in cluster.events("web")] == [
        f"Scaled up replica set {name} from 0 to 1",
        f"Scaled down replica set {name} from 1 to 0",
        f"Scaled up replica set {name} from 0 to 2",
    ]


def test_oldest_replica_sets_are_deleted(cluster: Cluster) -> None:
    cluster.create(_DEPLOYMENTS, "web", _deployment_spec(1, revisionHistoryLimit=1))
    cluster.run(5)
    for value in "123":
        _touch(cluster, value)
        cluster.run(15)
    revisions = sorted(get_revision(one) for one in cluster.every(_SETS))
    assert revisions == [3, 4]


def test_refused_pod_shows_in_the_deployment(cluster: Cluster) -> None:
    spec = _deployment_spec(1)
    spec["template"]["spec"]["serviceAccountName"] = "nobody"
    cluster.create(_DEPLOYMENTS, "web", spec)
    cluster.run(2)
    assert conditions(cluster.get(_DEPLOYMENTS, "web"))["ReplicaFailure"] == "True FailedCreate"


# -- the arithmetic


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (2, "25%", "25%", (1, 0)),
        (10, "25%", "25%", (3, 2)),
        (4, "25%", "25%", (1, 1)),
        (3, 0, "10%", (0, 1)),
        (3, 2, 1, (2, 1)),
        (1, 0, 5, (0, 1)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_surge_rounds_up_and_unavailability_down(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    assert resolve_fenceposts({"spec": spec}) == expected


def _set(
    name: str, replicas: int, *, created: int = 0, most: int | None = None, **status: int
) -> Obj:
    annotations = {} if most is None else {MAX_REPLICAS: str(most)}
    metadata = {
        "name": name,
        "creationTimestamp": f"2026-01-01T00:00:0{created}Z",
        "annotations": annotations,
    }
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}


def _rolling(replicas: int, surge: int = 0) -> Obj:
    rolling = {"maxSurge": surge, "maxUnavailable": 1}
    return {"spec": {"replicas": replicas, "strategy": {"rollingUpdate": rolling}}}


@pytest.mark.parametrize(
    ("replicas", "surge", "old", "own", "expected"),
    [(10, 3, 10, 0, 3), (10, 3, 13, 0, 0), (10, 3, 8, 5, 5), (10, 3, 0, 0, 10), (10, 3, 5, 5, 8)],
)
def test_new_replica_set_grows_within_the_surge(
    replicas: int, surge: int, old: int, own: int, expected: int
) -> None:
    newest = _set("new", own)
    sets = [_set("old", old), newest]
    assert calculate_new_replicas(_rolling(replicas, surge), sets, newest) == expected


@pytest.mark.parametrize(
    ("replicas", "surge", "sets", "sizes"),
    [
        (15, 0, [_set("a", 5, most=10), _set("b", 5, most=10, created=1)], {"a": 7, "b": 8}),
        (5, 0, [_set("a", 5, most=10), _set("b", 5, most=10, created=1)], {"a": 2, "b": 3}),
        (10, 0, [_set("a", 4, most=10), _set("b", 6, most=10)], {"a": 4, "b": 6}),
        (0, 2, [_set("a", 4, most=10), _set("b", 6, most=10)], {"a": 0, "b": 0}),
        (20, 0, [_set("a", 2, most=10), _set("b", 8, most=10)], {"a": 4, "b": 16}),
    ],
)
def test_scaling_in_mid_rollout_is_proportional(
    replicas: int, surge: int, sets: list[Obj], sizes: dict[str, int]
) -> None:
    assert calculate_proportions(_rolling(replicas, surge), sets) == sizes


def test_equal_templates_have_equal_hashes_and_collisions_others() -> None:
    one, other = template("sleep", "1"), template("sleep", "2")
    reordered = dict(reversed(one.items()))
    assert compute_template_hash(one) == compute_template_hash(reordered)
    assert compute_template_hash(one) != compute_template_hash(other)
    assert compute_template_hash(one, 1) != compute_template_hash(one)
    assert set(compute_template_hash(one)) <= set("bcdfghjklmnpqrstvwxz2456789")


def _condition(status: str, reason: str, since: str) -> Obj:
    return {"type": "A", "status": status, "reason": reason, "lastTransitionTime": since}


def test_condition_moves_to_the_end_when_it_changes() -> None:
    before = [_condition("True", "x", "then"), {"type": "B"}]
    assert set_condition(before, _condition("True", "x", "now")) == before
    assert set_condition(before, _condition("True", "y", "now")) == [
        {"type": "B"},
        _condition("True", "y", "then"),
    ]
    assert set_condition(before, _condition("False", "y", "now"))[1]["lastTransitionTime"] == "now"

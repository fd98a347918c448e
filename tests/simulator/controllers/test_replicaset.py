from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.controllers.pod_control import rank_for_deletion
from pytest_kwait.simulator.objects import owner_of
from tests.objects import condition, pod
from tests.simulator.cluster import NAMESPACE, Cluster, conditions, pod_spec, set_spec, template

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_SETS = "replicasets.apps"


def _replica_spec(replicas: int = 2, **fields: Any) -> Obj:
    return set_spec(pod={"terminationGracePeriodSeconds": 30}, replicas=replicas, **fields)


def _counts(obj: Obj) -> tuple[int, ...]:
    status = obj["status"]
    names = ("replicas", "readyReplicas", "availableReplicas", "terminatingReplicas")
    return tuple(status.get(name, 0) for name in names)


def test_replica_set_creates_pods_and_updates_status(cluster: Cluster) -> None:
    cluster.create(_SETS, "r", _replica_spec())
    cluster.run(5)
    seen = cluster.states(
        _SETS, "r", lambda obj: (obj["status"].get("observedGeneration"), _counts(obj))
    )
    assert seen == [
        (None, (0, 0, 0, 0)),
        (1, (0, 0, 0, 0)),
        (1, (2, 0, 0, 0)),
        (1, (2, 2, 2, 0)),
    ]
    names = [pod["metadata"]["name"] for pod in cluster.every("pods")]
    assert cluster.events("r") == [
        f"SuccessfulCreate x1: Created pod: {name}" for name in _made(cluster)
    ]
    assert all(name.startswith("r-") for name in names)
    reference = owner_of(cluster.every("pods")[0])
    assert reference is not None
    assert (reference["kind"], reference["name"], reference["blockOwnerDeletion"]) == (
        "ReplicaSet",
        "r",
        True,
    )


def _made(cluster: Cluster) -> list[str]:
    return [
        obj["metadata"]["name"]
        for kind, change, obj in cluster.history
        if kind == "pods" and change == "ADDED"
    ]


def test_replication_controller_does_not_count_terminating_pods(cluster: Cluster) -> None:
    spec = {"replicas": 1, "selector": {"app": "web"}, "template": template("sleep", "99")}
    cluster.create("replicationcontrollers", "r", spec)
    cluster.run(5)
    assert cluster.get("replicationcontrollers", "r")["status"] == {
        "replicas": 1,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "observedGeneration": 1,
    }


def test_terminating_pod_is_replaced_and_counted(cluster: Cluster) -> None:
    cluster.create(_SETS, "r", _replica_spec(1))
    cluster.run(5)
    cluster.delete("pods", _made(cluster)[0])
    cluster.run(1)
    assert _counts(cluster.get(_SETS, "r"))[3] == 1
    cluster.run(40)
    assert _counts(cluster.get(_SETS, "r")) == (1, 1, 1, 0)
    assert len(_made(cluster)) == 2


def test_scale_down_deletes_the_youngest(cluster: Cluster) -> None:
    cluster.create(_SETS, "r", _replica_spec(1))
    cluster.run(5)
    cluster.change(_SETS, "r", lambda obj: obj["spec"].update(replicas=3))
    cluster.run(5)
    first, *younger = _made(cluster)
    cluster.change(_SETS, "r", lambda obj: obj["spec"].update(replicas=1))
    cluster.run(1)
    going = {
        pod["metadata"]["name"]
        for pod in cluster.every("pods")
        if "deletionTimestamp" in pod["metadata"]
    }
    assert going == set(younger)
    deleted = [event for event in cluster.events("r") if event.startswith("SuccessfulDelete")]
    assert sorted(deleted) == sorted(
        f"SuccessfulDelete x1: Deleted pod: {name}" for name in younger
    )
    assert first not in going


def test_pods_are_available_after_a_while(cluster: Cluster) -> None:
    cluster.create(_SETS, "r", _replica_spec(1, minReadySeconds=10))
    cluster.run(5)
    assert _counts(cluster.get(_SETS, "r")) == (1, 1, 0, 0)
    cluster.run(10)
    assert _counts(cluster.get(_SETS, "r")) == (1, 1, 1, 0)


def test_changed_template_applies_to_later_pods(cluster: Cluster) -> None:
    cluster.create(_SETS, "r", _replica_spec(2))
    cluster.run(5)
    assert cluster.get(_SETS, "r")["status"]["fullyLabeledReplicas"] == 2

    def change(obj: Obj) -> None:
        obj["spec"]["replicas"] = 3
        obj["spec"]["template"] = template("sleep", "77")
        obj["spec"]["template"]["metadata"]["labels"]["version"] = "2"

    cluster.change(_SETS, "r", change)
    cluster.run(5)
    assert cluster.get(_SETS, "r")["status"]["fullyLabeledReplicas"] == 1
    made = [pod["metadata"]["labels"].get("version", "") for pod in cluster.every("pods")]
    assert sorted(made) == ["", "", "2"]
    commands = [pod["spec"]["containers"][0]["command"][1] for pod in cluster.every("pods")]
    assert sorted(commands) == ["77", "99", "99"]


def test_unready_pod_is_not_counted(cluster: Cluster) -> None:
    cluster.create(_SETS, "r", _replica_spec(2))
    cluster.run(5)
    name = _made(cluster)[0]

    def unready(pod: Obj) -> None:
        for one in pod["status"]["conditions"]:
            one["status"] = "False"

    cluster.api.modify("pods", name, NAMESPACE, unready, subresource="status")
    cluster.run(0.01)
    assert _counts(cluster.get(_SETS, "r")) == (2, 1, 1, 0)


def test_matching_orphans_are_adopted_and_others_released(cluster: Cluster) -> None:
    labels = {"app": "web"}
    cluster.create("pods", "orphan", pod_spec("sleep", "99"), labels=labels)
    cluster.create(_SETS, "r", _replica_spec(1))
    cluster.run(3)
    assert [pod["metadata"]["name"] for pod in cluster.every("pods")] == ["orphan"]
    owner = owner_of(cluster.get("pods", "orphan"))
    assert owner is not None
    assert owner["name"] == "r"
    cluster.change("pods", "orphan", lambda pod: pod["metadata"].update(labels={"app": "other"}))
    cluster.run(3)
    assert owner_of(cluster.get("pods", "orphan")) is None
    assert len(cluster.every("pods")) == 2


def test_later_orphan_is_adopted_and_surplus_deleted(cluster: Cluster) -> None:
    cluster.create(_SETS, "r", _replica_spec(1))
    cluster.run(5)
    cluster.create("pods", "orphan", pod_spec("sleep", "99"), labels={"app": "web"})
    cluster.run(1)
    assert cluster.events("r")[-1] == "SuccessfulDelete x1: Deleted pod: orphan"


def test_refusal_shows_in_status_and_event_until_resolved(cluster: Cluster) -> None:
    spec = _replica_spec(1)
    spec["template"]["spec"]["serviceAccountName"] = "nobody"
    cluster.create(_SETS, "r", spec)
    cluster.run(1)
    refused = cluster.get(_SETS, "r")
    assert conditions(refused) == {"ReplicaFailure": "True FailedCreate"}
    message = refused["status"]["conditions"][0]["message"]
    assert message.endswith('serviceaccount "nobody" not found')
    assert cluster.events("r")[0].partition(": ")[2] == f"Error creating: {message}"
    cluster.api.create("serviceaccounts", {"metadata": {"name": "nobody"}}, "t")
    cluster.run(5)
    assert conditions(cluster.get(_SETS, "r")) == {}
    assert _counts(cluster.get(_SETS, "r"))[0] == 1


def _ranked_pod(
    name: str, *, node: str = "n", phase: str = "Running", ready: str | None = "00", **more: Any
) -> Obj:
    cost = {"controller.kubernetes.io/pod-deletion-cost": more["cost"]} if "cost" in more else {}
    since = f"2026-01-01T00:00:{ready}Z"
    return pod(
        name,
        phase,
        nodeName=node,
        annotations=cost,
        creationTimestamp=more.get("created", "2026-01-01T00:00:00Z"),
        conditions=[] if ready is None else [condition("Ready", lastTransitionTime=since)],
        containerStatuses=[{"restartCount": more.get("restarts", 0)}],
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (_ranked_pod("a", node=""), _ranked_pod("b")),
        (_ranked_pod("a", phase="Pending"), _ranked_pod("b")),
        (_ranked_pod("a", ready=None), _ranked_pod("b")),
        (_ranked_pod("a", cost="-5"), _ranked_pod("b", cost="nonsense")),
        (_ranked_pod("a", node="crowded"), _ranked_pod("b")),
        (_ranked_pod("a", ready="30"), _ranked_pod("b")),
        (_ranked_pod("a", restarts=3), _ranked_pod("b")),
        (_ranked_pod("a", created="2026-01-02T00:00:00Z"), _ranked_pod("b")),
    ],
)
def test_order_of_deletion(first: Obj, second: Obj) -> None:
    ranked = rank_for_deletion([second, first], {"crowded": 5, "n": 1})
    assert [pod["metadata"]["name"] for pod in ranked] == ["a", "b"]


def test_thousand_pods_need_few_writes() -> None:
    cluster = Cluster(nodes=10)
    cluster.create(_SETS, "r", _replica_spec(300))
    cluster.run(10)
    assert _counts(cluster.get(_SETS, "r"))[1] == 300
    assert len(cluster.events("r")) == 10

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.controllers.statefulset import calculate_owners
from pytest_kwait.simulator.objects import owner_of
from tests.simulator.cluster import Cluster, set_spec, template

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_SETS = "statefulsets.apps"
_REVISIONS = "controllerrevisions.apps"
_CLAIMS = "persistentvolumeclaims"


def _stateful_spec(replicas: int = 2, **fields: Any) -> Obj:
    return set_spec(replicas=replicas, serviceName="s", **fields)


def _claim_template(name: str = "data") -> Obj:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def _annotate(cluster: Cluster, **annotations: str) -> None:
    cluster.change(
        _SETS,
        "s",
        lambda one: one["spec"]["template"]["metadata"].update(annotations=annotations),
    )


def _counts(obj: Obj) -> tuple[int, ...]:
    status = obj["status"]
    return tuple(
        status.get(name, 0)
        for name in (
            "observedGeneration",
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "currentReplicas",
            "updatedReplicas",
        )
    )


def _names(cluster: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.every("pods")]


def _steps(cluster: Cluster) -> list[str]:
    """Return the creations, deletion requests and deletions, in order."""
    steps: list[str] = []
    for kind, change, obj in cluster.history:
        if kind == "pods":
            going = change == "MODIFIED" and "deletionTimestamp" in obj["metadata"]
            word = {"ADDED": "+", "DELETED": "-"}.get(change, "~" if going else "")
            step = word + obj["metadata"]["name"]
            if word and (not steps or steps[-1] != step):
                steps.append(step)
    return steps


def test_pods_are_created_in_order_and_counted(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec())
    cluster.run(10)
    (revision,) = cluster.every(_REVISIONS)
    name = revision["metadata"]["name"]
    assert cluster.states(_SETS, "s", _counts) == [
        (0, 0, 0, 0, 0, 0),
        (1, 0, 0, 0, 0, 0),
        (1, 1, 0, 0, 1, 1),
        (1, 1, 1, 1, 1, 1),
        (1, 2, 1, 1, 2, 2),
        (1, 2, 2, 2, 2, 2),
    ]
    assert cluster.get(_SETS, "s")["status"] == {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 2,
        "currentReplicas": 2,
        "updatedReplicas": 2,
        "currentRevision": name,
        "updateRevision": name,
        "collisionCount": 0,
        "availableReplicas": 2,
    }
    digest = revision["metadata"]["labels"]["controller.kubernetes.io/hash"]
    assert name == f"s-{digest}"
    pod = cluster.get("pods", "s-1")
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": name,
        "statefulset.kubernetes.io/pod-name": "s-1",
        "apps.kubernetes.io/pod-index": "1",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("s-1", "s")
    assert pod["metadata"]["generateName"] == "s-"
    assert cluster.events("s") == [
        "SuccessfulCreate x1: Create Pod s-0 in StatefulSet s successful",
        "SuccessfulCreate x1: Create Pod s-1 in StatefulSet s successful",
    ]


def test_unready_pod_holds_up_the_following_ones(cluster: Cluster) -> None:
    never = {"readinessProbe": {"exec": {"command": ["false"]}}}
    cluster.create(_SETS, "s", _stateful_spec(pod={"container": never}))
    cluster.run(10)
    assert _names(cluster) == ["s-0"]


def test_parallel_pods_do_not_wait(cluster: Cluster) -> None:
    never = {"readinessProbe": {"exec": {"command": ["false"]}}}
    spec = _stateful_spec(3, pod={"container": never}, podManagementPolicy="Parallel")
    cluster.create(_SETS, "s", spec)
    cluster.run(5)
    assert _names(cluster) == ["s-0", "s-1", "s-2"]
    cluster.change(_SETS, "s", lambda one: one["spec"].update(replicas=0))
    cluster.run(5)
    assert _names(cluster) == []


def test_scale_down_deletes_from_the_highest_ordinal(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(3))
    cluster.run(10)
    cluster.history.clear()
    cluster.change(_SETS, "s", lambda one: one["spec"].update(replicas=1))
    cluster.run(10)
    assert _steps(cluster) == ["~s-2", "-s-2", "~s-1", "-s-1"]
    assert cluster.events("s") == [
        "SuccessfulDelete x1: Delete Pod s-2 in StatefulSet s successful",
        "SuccessfulDelete x1: Delete Pod s-1 in StatefulSet s successful",
    ]


def test_update_proceeds_from_the_highest_ordinal(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec())
    cluster.run(10)
    before = cluster.get(_SETS, "s")["status"]["currentRevision"]
    cluster.history.clear()
    _annotate(cluster, v="2")
    cluster.run(20)
    assert _steps(cluster) == ["~s-1", "-s-1", "+s-1", "~s-0", "-s-0", "+s-0"]
    seen = cluster.states(
        _SETS,
        "s",
        lambda one: (one["status"]["currentRevision"] == before, _counts(one)),
    )
    assert seen == [
        (True, (1, 2, 2, 2, 2, 2)),
        (True, (2, 2, 2, 2, 1, 0)),
        (True, (2, 1, 1, 1, 1, 0)),
        (True, (2, 2, 1, 1, 1, 1)),
        (True, (2, 2, 2, 2, 0, 1)),
        (True, (2, 1, 1, 1, 0, 1)),
        (True, (2, 2, 1, 1, 0, 2)),
        (False, (2, 2, 2, 2, 2, 2)),
    ]


def test_restored_template_reuses_its_revision(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(1))
    cluster.run(5)
    first = cluster.get(_SETS, "s")["status"]["updateRevision"]
    _annotate(cluster, v="2")
    cluster.run(10)
    _annotate(cluster)
    cluster.run(10)
    assert cluster.get(_SETS, "s")["status"]["currentRevision"] == first
    assert sorted(one["revision"] for one in cluster.every(_REVISIONS)) == [2, 3]


def test_old_revisions_beyond_limit_are_deleted(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(1, revisionHistoryLimit=1))
    for value in ("1", "2", "3"):
        cluster.run(10)
        _annotate(cluster, v=value)
    cluster.run(10)
    assert sorted(one["revision"] for one in cluster.every(_REVISIONS)) == [3, 4]


def test_pods_below_partition_keep_the_old_revision(cluster: Cluster) -> None:
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    cluster.create(_SETS, "s", _stateful_spec(2, updateStrategy=partition))
    cluster.run(10)
    _annotate(cluster, v="2")
    cluster.run(10)
    cluster.delete("pods", "s-0")
    cluster.run(10)

    def version(name: str) -> Any:
        return (cluster.get("pods", name)["metadata"].get("annotations") or {}).get("v")

    assert (version("s-0"), version("s-1")) == (None, "2")
    status = cluster.get(_SETS, "s")["status"]
    assert status["currentRevision"] != status["updateRevision"]
    assert _counts(cluster.get(_SETS, "s")) == (2, 2, 2, 2, 1, 1)


def test_on_delete_updates_deleted_pods_only(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(2, updateStrategy={"type": "OnDelete"}))
    cluster.run(10)
    _annotate(cluster, v="2")
    cluster.run(10)
    assert _counts(cluster.get(_SETS, "s"))[5] == 0
    cluster.delete("pods", "s-0")
    cluster.run(10)
    assert _counts(cluster.get(_SETS, "s"))[5] == 1


def test_ordinals_start_as_configured(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(2, ordinals={"start": 5}))
    cluster.run(10)
    assert _names(cluster) == ["s-5", "s-6"]


def test_failed_pod_is_recreated(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(1, pod={"schedulingGates": [{"name": "x/never"}]}))
    cluster.run(2)
    pod = cluster.get("pods", "s-0")
    cluster.api.update_status("pods", {**pod, "status": {**pod["status"], "phase": "Failed"}})
    cluster.run(2)
    assert cluster.get("pods", "s-0")["metadata"]["uid"] != pod["metadata"]["uid"]


def test_pods_are_available_after_a_while(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(2, minReadySeconds=10))
    cluster.run(5)
    assert _counts(cluster.get(_SETS, "s"))[:4] == (1, 1, 1, 0)
    cluster.run(10)
    assert _counts(cluster.get(_SETS, "s"))[:4] == (1, 2, 2, 1)
    cluster.run(15)
    assert _counts(cluster.get(_SETS, "s"))[:4] == (1, 2, 2, 2)


def test_each_pod_has_claims_that_outlive_it(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(1, volumeClaimTemplates=[_claim_template()]))
    cluster.run(2)
    assert cluster.events("s") == [
        "SuccessfulCreate x1: Create Claim data-s-0 Pod s-0 in StatefulSet s success",
        "SuccessfulCreate x1: Create Pod s-0 in StatefulSet s successful",
    ]
    claim = cluster.get(_CLAIMS, "data-s-0")
    assert claim["metadata"]["labels"] == {"app": "web"}
    assert owner_of(claim) is None
    (volume, *_) = cluster.get("pods", "s-0")["spec"]["volumes"]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-0"}}
    cluster.delete(_SETS, "s")
    cluster.run(20)
    assert _names(cluster) == []
    assert cluster.find(_CLAIMS, "data-s-0") is not None


def test_refusals_are_reported_and_retried(cluster: Cluster) -> None:
    cluster.create(_SETS, "s", _stateful_spec(1, pod={"serviceAccountName": "late"}))
    cluster.run(1)
    told = cluster.events("s")[0].partition(": ")[2]
    assert told.startswith("Create Pod s-0 in StatefulSet s failed error: ")
    assert cluster.reasons("s") == ["FailedCreate"]
    assert _counts(cluster.get(_SETS, "s"))[:2] == (1, 0)
    cluster.api.create("serviceaccounts", {"metadata": {"name": "late"}}, "t")
    cluster.run(20)
    assert _counts(cluster.get(_SETS, "s"))[2] == 1


def test_only_pods_with_matching_names_are_members(cluster: Cluster) -> None:
    labels = {"app": "web"}
    cluster.create("pods", "stranger", template("sleep", "99")["spec"], labels=labels)
    cluster.create("pods", "s-0", template("sleep", "99")["spec"], labels=labels)
    cluster.create(_SETS, "s", _stateful_spec(1))
    cluster.run(5)
    assert owner_of(cluster.get("pods", "stranger")) is None
    assert owner_of(cluster.get("pods", "s-0")) is not None


_SET: Obj = {"metadata": {"name": "s", "uid": "set"}, "spec": {"replicas": 1}}


@pytest.mark.parametrize(
    ("deleted", "scaled", "pod", "owners"),
    [
        ("Retain", "Retain", "s-0", []),
        ("Delete", "Retain", "s-0", ["set"]),
        ("Delete", "Retain", "s-1", ["set"]),
        ("Retain", "Delete", "s-0", []),
        ("Retain", "Delete", "s-1", ["pod"]),
        ("Delete", "Delete", "s-0", ["set"]),
        ("Delete", "Delete", "s-1", ["pod"]),
    ],
)
def test_owners_of_a_claim(deleted: str, scaled: str, pod: str, owners: list[str]) -> None:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    spec = {**_SET["spec"], "persistentVolumeClaimRetentionPolicy": policy}
    stateful_set, member = {**_SET, "spec": spec}, {"metadata": {"name": pod, "uid": "pod"}}
    claim: Obj = {"metadata": {"name": "c"}}
    found = calculate_owners(claim, stateful_set, member)
    assert [one["uid"] for one in found or []] == owners
    owned = {"metadata": {"name": "c", "ownerReferences": found or []}}
    assert calculate_owners(owned, stateful_set, member) is None


def test_claim_of_another_controller_is_kept() -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    spec = {**_SET["spec"], "persistentVolumeClaimRetentionPolicy": policy}
    stateful_set, member = {**_SET, "spec": spec}, {"metadata": {"name": "s-0", "uid": "pod"}}
    other = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": True}
    claim: Obj = {"metadata": {"name": "c", "ownerReferences": [other]}}
    assert calculate_owners(claim, stateful_set, member) is None
    earlier = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "earlier"}
    claim = {"metadata": {"name": "c", "ownerReferences": [earlier]}}
    assert calculate_owners(claim, stateful_set, member) is None


def test_claims_are_deleted_by_policy(cluster: Cluster) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    claims = {
        "volumeClaimTemplates": [_claim_template()],
        "persistentVolumeClaimRetentionPolicy": policy,
    }
    gates = {"schedulingGates": [{"name": "x/never"}]}
    spec = _stateful_spec(2, podManagementPolicy="Parallel", pod=gates, **claims)
    cluster.create(_SETS, "s", spec)
    cluster.run(2)
    owner = owner_of(cluster.get(_CLAIMS, "data-s-1"))
    assert owner is not None
    assert owner["kind"] == "StatefulSet"
    cluster.change(_SETS, "s", lambda one: one["spec"].update(replicas=1))
    cluster.run(5)
    owners = cluster.states(_CLAIMS, "data-s-1", lambda one: (owner_of(one) or {}).get("kind"))
    assert owners == [None, "StatefulSet", "Pod", "DELETED"]
    assert "deletionTimestamp" not in cluster.get(_CLAIMS, "data-s-0")["metadata"]

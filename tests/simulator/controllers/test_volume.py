from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.volume.volume_matching import (
    find_matching_volume,
    find_mismatch,
)
from tests.simulator.cluster import Cluster, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_CLAIMS = "persistentvolumeclaims"
_VOLUMES = "persistentvolumes"
_BOUND = "pv.kubernetes.io/bound-by-controller"
_COMPLETED = "pv.kubernetes.io/bind-completed"


def _add_volume(cluster: Cluster, name: str = "v", size: str = "2Mi", **spec: Any) -> Obj:
    made = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "hand",
        "hostPath": {"path": "/tmp/v"},
        **spec,
    }
    return cluster.api.create(_VOLUMES, {"metadata": {"name": name}, "spec": made})


def _add_claim(
    cluster: Cluster, name: str = "c", storage_class: str | None = "hand", **spec: Any
) -> Obj:
    made = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, **spec}
    if storage_class is not None:
        made["storageClassName"] = storage_class
    return cluster.create(_CLAIMS, name, made)


def _class(cluster: Cluster, name: str, provisioner: str, **more: Any) -> None:
    metadata = {"name": name, "annotations": more.pop("annotations", {})}
    made = {"metadata": metadata, "provisioner": provisioner, **more}
    cluster.api.create("storageclasses.storage.k8s.io", made)


def _user(cluster: Cluster, name: str = "p", claim: str = "c") -> None:
    source = {"name": "d", "persistentVolumeClaim": {"claimName": claim}}
    cluster.create("pods", name, pod_spec("sleep", "99", volumes=[source]))


def _phase(cluster: Cluster, name: str = "v") -> Any:
    return cluster.api.get(_VOLUMES, name)["status"]["phase"]


def _told(cluster: Cluster, name: str = "c") -> list[str]:
    return [event.replace(event.split(" ")[1] + " ", "") for event in cluster.events(name)]


def _unscheduled(cluster: Cluster, name: str = "p") -> str:
    (condition,) = cluster.get("pods", name)["status"]["conditions"]
    return str(condition["message"])


def test_volume_is_reserved_before_claim_is_bound(cluster: Cluster) -> None:
    _add_volume(cluster)
    cluster.run(1)
    assert _phase(cluster) == "Available"
    claim = _add_claim(cluster)
    cluster.run(1)
    volume = cluster.api.get(_VOLUMES, "v")
    reference = volume["spec"]["claimRef"]
    assert (reference["name"], reference["uid"]) == ("c", claim["metadata"]["uid"])
    assert volume["metadata"]["annotations"] == {_BOUND: "yes"}
    bound = cluster.get(_CLAIMS, "c")
    assert bound["metadata"]["annotations"] == {_BOUND: "yes", _COMPLETED: "yes"}
    assert bound["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Mi"},
    }
    states = cluster.states(
        _VOLUMES, "v", lambda one: ("claimRef" in one["spec"], one["status"]["phase"])
    )
    assert states == [
        (False, "Pending"),
        (False, "Available"),
        (True, "Available"),
        (True, "Bound"),
    ]


def test_claim_binds_smallest_matching_volume(cluster: Cluster) -> None:
    _add_volume(cluster, "large", "9Mi")
    _add_volume(cluster, "small", "1Mi")
    _add_volume(cluster, "other", "1Mi", storageClassName="else")
    cluster.run(1)
    _add_claim(cluster)
    cluster.run(1)
    assert cluster.get(_CLAIMS, "c")["spec"]["volumeName"] == "small"


def test_later_volume_is_bound_at_the_next_sync(cluster: Cluster) -> None:
    _add_claim(cluster)
    cluster.run(1)
    _add_volume(cluster)
    cluster.run(16)
    assert cluster.get(_CLAIMS, "c")["status"]["phase"] == "Bound"


@pytest.mark.parametrize(
    ("storage_class", "told"),
    [
        (
            "",
            "FailedBinding no persistent volumes available for this claim and no storage class"
            " is set",
        ),
        ("nowhere", 'ProvisioningFailed storageclass.storage.k8s.io "nowhere" not found'),
        ("none", "ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner"),
        (
            "outside",
            "ExternalProvisioning Waiting for a volume to be created either by the external"
            " provisioner 'example.com/x' or manually by the system administrator. If volume"
            " creation is delayed, please verify that the provisioner is running and correctly"
            " registered.",
        ),
        ("late", "WaitForFirstConsumer waiting for first consumer to be created before binding"),
    ],
)
def test_waiting_claim_has_an_event(cluster: Cluster, storage_class: str, told: str) -> None:
    _class(cluster, "none", "kubernetes.io/no-provisioner")
    _class(cluster, "outside", "example.com/x")
    late = "WaitForFirstConsumer"
    _class(cluster, "late", "kubernetes.io/no-provisioner", volumeBindingMode=late)
    _add_claim(cluster, storage_class=storage_class)
    cluster.run(1)
    assert _told(cluster)[0] == told
    assert cluster.get(_CLAIMS, "c")["status"]["phase"] == "Pending"


def test_named_volume_that_mismatches_or_is_bound(cluster: Cluster) -> None:
    _add_volume(cluster)
    _add_claim(cluster, "big", volumeName="v", resources={"requests": {"storage": "9Mi"}})
    cluster.run(1)
    why = 'VolumeMismatch Cannot bind to requested volume "v": requested PV is too small'
    assert _told(cluster, "big")[0] == why
    _add_claim(cluster, "first", volumeName="v")
    cluster.run(1)
    annotations = cluster.get(_CLAIMS, "first")["metadata"]["annotations"]
    assert annotations == {_COMPLETED: "yes"}
    _add_claim(cluster, "second", volumeName="v")
    cluster.run(1)
    assert _told(cluster, "second")[0] == (
        'FailedBinding volume "v" already bound to a different claim.'
    )


def test_claim_stays_while_a_pod_uses_it_and_its_volume_is_released(cluster: Cluster) -> None:
    _add_volume(cluster)
    cluster.run(1)
    _add_claim(cluster)
    _user(cluster)
    cluster.run(5)
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"
    cluster.delete(_CLAIMS, "c")
    cluster.api.delete(_VOLUMES, "v")
    cluster.run(5)
    assert cluster.find(_CLAIMS, "c") is not None
    assert _phase(cluster) == "Bound"
    cluster.delete("pods", "p", grace=0)
    cluster.run(5)
    assert cluster.find(_CLAIMS, "c") is None
    assert cluster.api.find(_VOLUMES, "v") is None


def test_attributes_class_in_use_is_protected(cluster: Cluster) -> None:
    classes = "volumeattributesclasses.storage.k8s.io"
    made = {"metadata": {"name": "fast"}, "driverName": "d", "parameters": {"a": "b"}}
    cluster.api.create(classes, made)
    _add_claim(cluster, volumeAttributesClassName="fast")
    cluster.api.delete(classes, "fast")
    cluster.run(5)
    assert cluster.api.find(classes, "fast") is not None
    cluster.delete(_CLAIMS, "c")
    cluster.run(5)
    assert cluster.api.find(classes, "fast") is None


def test_unused_attributes_class_is_deleted_at_once(cluster: Cluster) -> None:
    classes = "volumeattributesclasses.storage.k8s.io"
    made = {"metadata": {"name": "fast"}, "driverName": "d", "parameters": {"a": "b"}}
    cluster.api.create(classes, made)
    cluster.api.delete(classes, "fast")
    cluster.run(5)
    assert cluster.api.find(classes, "fast") is None


def test_retained_volume_is_released_and_not_bound(cluster: Cluster) -> None:
    _add_volume(cluster)
    cluster.run(1)
    _add_claim(cluster)
    cluster.run(1)
    cluster.delete(_CLAIMS, "c")
    cluster.run(1)
    assert _phase(cluster) == "Released"
    _add_claim(cluster)
    cluster.run(16)
    assert cluster.get(_CLAIMS, "c")["status"]["phase"] == "Pending"


def test_claim_of_a_deleted_volume_is_lost(cluster: Cluster) -> None:
    _add_volume(cluster)
    cluster.run(1)
    _add_claim(cluster)
    cluster.run(1)
    cluster.api.modify(_VOLUMES, "v", "", lambda one: one["metadata"].update(finalizers=[]))
    cluster.api.delete(_VOLUMES, "v")
    cluster.run(1)
    assert cluster.get(_CLAIMS, "c")["status"] == {"phase": "Lost"}
    lost = "ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert _told(cluster)[-1] == lost


def test_own_provisioner_creates_and_deletes_volumes(cluster: Cluster) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    _class(cluster, "own", "kwait.dev/host-path", annotations=default)
    claim = _add_claim(cluster, storage_class=None)
    cluster.run(2)
    bound = cluster.get(_CLAIMS, "c")
    name = f"pvc-{claim['metadata']['uid']}"
    assert (bound["spec"]["storageClassName"], bound["spec"]["volumeName"]) == ("own", name)
    assert bound["status"]["phase"] == "Bound"
    assert _told(cluster)[-1] == f"ProvisioningSucceeded Successfully provisioned volume {name}"
    cluster.delete(_CLAIMS, "c")
    cluster.run(2)
    assert cluster.api.list(_VOLUMES) == []


@pytest.mark.parametrize("provisioner", ["kwait.dev/host-path", "kubernetes.io/no-provisioner"])
def test_delayed_binding_waits_for_first_consumer(cluster: Cluster, provisioner: str) -> None:
    _class(cluster, "late", provisioner, volumeBindingMode="WaitForFirstConsumer")
    _add_claim(cluster, storage_class="late")
    _add_volume(cluster, storageClassName="late")
    cluster.run(20)
    assert cluster.get(_CLAIMS, "c")["status"]["phase"] == "Pending"
    _user(cluster)
    cluster.run(5)
    assert cluster.get(_CLAIMS, "c")["status"]["phase"] == "Bound"
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


def test_delayed_provisioning_waits_for_first_consumer(cluster: Cluster) -> None:
    late = "WaitForFirstConsumer"
    _class(cluster, "late", "kwait.dev/host-path", volumeBindingMode=late)
    _add_claim(cluster, storage_class="late")
    _user(cluster)
    cluster.run(5)
    annotations = cluster.get(_CLAIMS, "c")["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/selected-node"] == "kwait-node-1"
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


def test_pods_wait_for_their_claims(cluster: Cluster) -> None:
    _user(cluster)
    cluster.run(1)
    missing = '0/1 nodes are available: persistentvolumeclaim "c" not found. not found'
    assert _unscheduled(cluster) == missing
    _add_claim(cluster)
    cluster.run(1)
    unbound = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    assert _unscheduled(cluster) == unbound
    _add_volume(cluster)
    cluster.run(20)
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


def test_pods_without_matching_volume_report_it(cluster: Cluster) -> None:
    late = "WaitForFirstConsumer"
    _class(cluster, "late", "kubernetes.io/no-provisioner", volumeBindingMode=late)
    _add_claim(cluster, storage_class="late")
    _user(cluster)
    cluster.run(1)
    assert _unscheduled(cluster) == (
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. no"
        " new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not"
        " helpful for scheduling."
    )
    _add_volume(cluster, storageClassName="late")
    cluster.run(5)
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


def _pair(**volume: Any) -> tuple[Obj, Obj]:
    given = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s",
        **volume,
    }
    wanted = {
        "resources": {"requests": {"storage": "1Mi"}},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s",
    }
    return {"metadata": {"name": "v"}, "spec": given}, {"metadata": {"name": "c"}, "spec": wanted}


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({}, None),
        ({"capacity": {"storage": "1Ki"}}, "requested PV is too small"),
        ({"storageClassName": "x"}, "storageClassName does not match"),
        ({"volumeAttributesClassName": "x"}, "volumeAttributesClassName does not match"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
        ({"accessModes": ["ReadOnlyMany"]}, "incompatible accessMode"),
    ],
)
def test_mismatch_of_volume_and_claim(volume: Obj, why: str | None) -> None:
    assert find_mismatch(*_pair(**volume)) == why


def test_only_available_volumes_with_matching_labels_bind() -> None:
    volume, claim = _pair()
    assert find_matching_volume(claim, [volume]) is None
    volume["status"] = {"phase": "Available"}
    assert find_matching_volume(claim, [volume]) is volume
    claim["spec"]["selector"] = {"matchLabels": {"tier": "gold"}}
    assert find_matching_volume(claim, [volume]) is None
    volume["metadata"]["labels"] = {"tier": "gold"}
    assert find_matching_volume(claim, [volume]) is volume
    assert find_matching_volume(claim, [volume], delayed=True) is None


def test_claim_without_a_class_gets_the_default_one_and_binds_with_its_pod(
    cluster: Cluster,
) -> None:
    claim = _add_claim(cluster, storage_class=None)
    assert claim["spec"]["storageClassName"] == "standard"
    cluster.run(1)
    waits = "WaitForFirstConsumer waiting for first consumer to be created before binding"
    assert _told(cluster) == [waits]
    _user(cluster)
    cluster.run(5)
    assert cluster.get(_CLAIMS, "c")["status"]["phase"] == "Bound"
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"
    volume = cluster.api.get(_VOLUMES, cluster.get(_CLAIMS, "c")["spec"]["volumeName"])
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["kwait-node-1"]


def test_claim_with_empty_class_gets_no_default(cluster: Cluster) -> None:
    assert _add_claim(cluster, "none", "")["spec"]["storageClassName"] == ""
    beta = {"volume.beta.kubernetes.io/storage-class": "hand"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    made = cluster.create(_CLAIMS, "beta", spec, annotations=beta)
    assert "storageClassName" not in made["spec"]


def test_claim_of_an_unschedulable_pod_reports_it(cluster: Cluster) -> None:
    source = {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}
    spec = pod_spec("sleep", "99", volumes=[source], nodeSelector={"no": "such"})
    cluster.create("pods", "p", spec)
    _add_claim(cluster, storage_class=None)
    cluster.run(1)
    assert _told(cluster) == ["WaitForPodScheduled waiting for pod p to be scheduled"]


_NOWHERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["nowhere"]}
_FAR = {"required": {"nodeSelectorTerms": [{"matchExpressions": [_NOWHERE]}]}}
_UNHELPFUL = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful"
    " for scheduling."
)


def test_pod_follows_its_bound_volume(cluster: Cluster) -> None:
    _add_volume(cluster, nodeAffinity=_FAR)
    _add_claim(cluster)
    cluster.run(16)
    _user(cluster)
    cluster.run(1)
    why = "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity. "
    assert _unscheduled(cluster) == why + _UNHELPFUL


def test_volume_of_another_node_is_not_bound(cluster: Cluster) -> None:
    late = "WaitForFirstConsumer"
    _class(cluster, "late", "kubernetes.io/no-provisioner", volumeBindingMode=late)
    _add_volume(cluster, "far", storageClassName="late", nodeAffinity=_FAR)
    _add_claim(cluster, storage_class="late")
    _user(cluster)
    cluster.run(1)
    why = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. "
    assert _unscheduled(cluster) == why + _UNHELPFUL
    _add_volume(cluster, "near", storageClassName="late")
    cluster.run(20)
    assert cluster.get(_CLAIMS, "c")["spec"]["volumeName"] == "near"
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


def _grow(cluster: Cluster, size: str) -> None:
    def more(claim: Obj) -> None:
        claim["spec"]["resources"]["requests"]["storage"] = size

    cluster.change(_CLAIMS, "c", more)


def test_volume_expands_if_its_class_allows_it(cluster: Cluster) -> None:
    _class(cluster, "grow", "kwait.dev/host-path", allowVolumeExpansion=True)
    _add_claim(cluster, storage_class="grow")
    cluster.run(16)
    _grow(cluster, "3Mi")
    cluster.run(1)
    claim = cluster.get(_CLAIMS, "c")
    assert claim["status"]["capacity"] == {"storage": "3Mi"}
    volume = cluster.api.get(_VOLUMES, claim["spec"]["volumeName"])
    assert volume["spec"]["capacity"] == {"storage": "3Mi"}
    assert _told(cluster)[-3:] == [
        "ExternalExpanding waiting for an external controller to expand this PVC",
        f"Resizing External resizer is resizing volume {volume['metadata']['name']}",
        "VolumeResizeSuccessful Resize volume succeeded",
    ]
    statuses = cluster.states(
        _CLAIMS, "c", lambda one: one["status"].get("allocatedResourceStatuses")
    )
    assert statuses == [None, {"storage": "ControllerResizeInProgress"}, None]


def test_expansion_of_external_volumes_is_only_reported(cluster: Cluster) -> None:
    _class(cluster, "grow", "kubernetes.io/no-provisioner", allowVolumeExpansion=True)
    _add_volume(cluster, storageClassName="grow", size="1Mi")
    _add_claim(cluster, storage_class="grow")
    cluster.run(16)
    _grow(cluster, "3Mi")
    cluster.run(1)
    told = "ExternalExpanding waiting for an external controller to expand this PVC"
    assert _told(cluster)[-1] == told
    assert cluster.get(_CLAIMS, "c")["status"]["capacity"] == {"storage": "1Mi"}


def test_claim_does_not_expand_if_its_class_forbids_it(cluster: Cluster) -> None:
    _add_volume(cluster)
    _add_claim(cluster)
    cluster.run(16)
    with pytest.raises(StatusError) as error:
        _grow(cluster, "3Mi")
    assert error.value.message == (
        'persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized'
        " and the storageclass that provisions the pvc must support resize"
    )


def _ephemeral(cluster: Cluster, *volumes: str) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    sources = [{"name": name, "ephemeral": {"volumeClaimTemplate": template}} for name in volumes]
    cluster.create("pods", "p", pod_spec("sleep", "99", volumes=sources))


def test_ephemeral_volume_lives_as_long_as_its_pod(cluster: Cluster) -> None:
    _ephemeral(cluster, "d")
    cluster.run(5)
    claim = cluster.get(_CLAIMS, "p-d")
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
    assert claim["metadata"]["labels"] == {"a": "b"}
    assert claim["status"]["phase"] == "Bound"
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"
    cluster.delete("pods", "p", grace=0)
    cluster.run(60)
    assert cluster.find(_CLAIMS, "p-d") is None
    assert cluster.api.list(_VOLUMES) == []


def test_ephemeral_volume_does_not_use_foreign_claims(cluster: Cluster) -> None:
    _add_claim(cluster, "p-d", storage_class=None)
    _ephemeral(cluster, "d")
    cluster.run(2)
    why = "PVC t/p-d was not created for pod t/p (pod is not owner)"
    assert _unscheduled(cluster) == f"0/1 nodes are available: {why}. not found"
    assert f"FailedBinding ephemeral volume d: {why}" in _told(cluster, "p")

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import Caller
from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import (
    Obj,
    get_causes,
    get_create_causes,
    get_update_causes,
)

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
CLASSES = "storageclasses.storage.k8s.io"
MODES = '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'


def claim(**spec: Any) -> Obj:
    resources = {"requests": {"storage": "1Gi"}}
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        (
            {"accessModes": [], "resources": {}},
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        ),
        (
            {"accessModes": ["Odd", "ReadWriteOncePod", "ReadOnlyMany"]},
            [
                f'spec.accessModes: Unsupported value: "Odd": supported values: {MODES}',
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            ],
        ),
        (
            {"resources": {"requests": {"storage": "0"}}},
            ['spec.resources[storage]: Invalid value: "0": must be greater than zero'],
        ),
        (
            {"volumeMode": "Odd"},
            ['spec.volumeMode: Unsupported value: "Odd": supported values: "Block", "Filesystem"'],
        ),
        (
            {
                "dataSource": {"kind": "PersistentVolumeClaim", "name": "b"},
                "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c"},
            },
            ["spec: Invalid value: {}: must match dataSourceRef"],
        ),
    ],
)
def test_claims(fields: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), CLAIMS, claim(**fields)) == texts


SECOND = "Forbidden: may not specify more than 1 volume type"
RESERVED = "kubernetes.io and k8s.io namespaces are reserved"


@pytest.mark.parametrize(
    ("sources", "texts"),
    [
        ({"rbd": {}}, ["spec.rbd.monitors: Required value", "spec.rbd.image: Required value"]),
        (
            {"cinder": {"volumeID": "v", "secretRef": {}}},
            [
                "spec.cinder.secretRef.name: Required value",
                "spec.cinder.secretRef.namespace: Required value",
            ],
        ),
        (
            {"azureFile": {"secretName": "s", "shareName": "s", "secretNamespace": ""}},
            ["spec.azureFile.secretNamespace: Required value"],
        ),
        (
            {"gcePersistentDisk": {"pdName": "d", "partition": 256}},
            [
                "spec.persistentDisk.partition: Invalid value: 256: "
                "must be between 1 and 255, inclusive"
            ],
        ),
        (
            {"iscsi": {"targetPortal": "p", "iqn": "odd", "lun": 0, "initiatorName": "naa.1"}},
            [
                'spec.iscsi.iqn: Invalid value: "odd": must be valid format',
                'spec.iscsi.initiatorname: Invalid value: "naa.1": must be valid format',
            ],
        ),
        (
            {"nfs": {"server": "s", "path": "/p"}, "cephfs": {}, "flexVolume": {}},
            [f"spec.cephFS: {SECOND}", "spec.flexVolume.driver: Required value"],
        ),
        (
            {"flexVolume": {"driver": "d", "options": {"k8s.io/a": "b"}}},
            [f'spec.flexVolume.options[k8s.io/a]: Invalid value: "k8s.io/a": {RESERVED}'],
        ),
    ],
)
def test_sources_of_persistent_volumes(sources: Obj, texts: list[str]) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **sources}
    assert get_create_causes(new_cluster(), VOLUMES, {"spec": spec}) == texts


def test_an_attachment_of_an_inline_volume() -> None:
    source = {"inlineVolumeSpec": {"capacity": {"storage": "1Gi"}, "nfs": {"server": "s"}}}
    attachment = {"spec": {"attacher": "a.example", "nodeName": "n", "source": source}}
    at = "spec.source.inlineVolumeSpec"
    context = "in the context of inline volumes"
    assert get_create_causes(new_cluster(), "volumeattachments.storage.k8s.io", attachment) == [
        f"{at}.capacity: Forbidden: may not be specified {context}",
        f"{at}.csi: Required value: has to be specified {context}",
        f"{at}.accessModes: Required value",
        f"{at}.nfs.path: Required value",
        f'{at}.nfs.path: Invalid value: "": must be an absolute path',
    ]


def made(api: Any, **spec: Any) -> Obj:
    body = {"metadata": {"name": "a"}, **claim(storageClassName="none", **spec)}
    stored: Obj = api.create(CLAIMS, body, "default")
    return stored


def test_the_spec_of_a_claim_is_immutable() -> None:
    api = new_cluster()
    old = made(api)
    change = claim(storageClassName="other", volumeMode="Filesystem")
    assert get_update_causes(api, CLAIMS, old, change) == [
        "spec: Forbidden: spec is immutable after creation except resources.requests and "
        "volumeAttributesClassName for bound claims\n"
        "@@ -10,7 +10,7 @@\n"
        "   }\n"
        "  },\n"
        '  "VolumeName": "",\n'
        '- "StorageClassName": "none",\n'
        '+ "StorageClassName": "other",\n'
        '  "VolumeMode": "Filesystem",\n'
        '  "DataSource": null,\n'
        '  "DataSourceRef": null,\n'
    ]
    same = claim(storageClassName="none", resources={"requests": {"storage": "1024Mi"}})
    assert get_update_causes(api, CLAIMS, old, same) == []
    bound = claim(storageClassName="none", volumeName="v")
    assert get_update_causes(api, CLAIMS, old, bound) == []


def test_a_bound_claim_may_grow_but_not_shrink() -> None:
    api = new_cluster()
    grows = {"provisioner": "example.com/x", "allowVolumeExpansion": True}
    api.create("storageclasses.storage.k8s.io", {"metadata": {"name": "none"}, **grows})
    old = made(api, volumeName="v")
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    old = api.update_status(CLAIMS, {**old, "status": status})
    spec = old["spec"]
    more = {"spec": {**spec, "resources": {"requests": {"storage": "2Gi"}}}}
    assert get_update_causes(api, CLAIMS, old, more) == []
    less = {"spec": {**spec, "resources": {"requests": {"storage": "512Mi"}}}}
    assert get_update_causes(api, CLAIMS, old, less) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]


def test_data_source_and_data_source_ref_are_synchronized_or_dropped() -> None:
    api = new_cluster()
    spec = made(api, dataSource={"kind": "PersistentVolumeClaim", "name": "b"})["spec"]
    assert spec["dataSourceRef"] == spec["dataSource"]
    api.delete(CLAIMS, "a", "default")
    body = {"metadata": {"name": "b"}, **claim(dataSource={"kind": "Odd", "name": "b"})}
    assert "dataSource" not in api.create(CLAIMS, body, "default")["spec"]


def test_warnings_of_claims() -> None:
    caller = Caller(dry_run=True)
    annotations = {"volume.beta.kubernetes.io/storage-class": "x"}
    body = {"metadata": {"name": "a", "annotations": annotations}}
    body |= claim(resources={"requests": {"storage": "1100m"}})
    new_cluster().create(CLAIMS, body, "default", caller=caller)
    assert caller.warnings == [
        "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "
        '"storageClassName" attribute instead',
        'spec.resources.requests[storage]: fractional byte value "1100m" is invalid, must be an '
        "integer",
    ]


def test_claim_status() -> None:
    api = new_cluster()
    old = made(api)
    status = {"phase": "Bound", "capacity": {"storage": "-1"}}
    with pytest.raises(StatusError) as caught:
        api.update(CLAIMS, {**old, "status": status}, subresource="status", caller=Caller())
    assert get_causes(caught.value) == [
        "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"
    ]


def volume(**spec: Any) -> Obj:
    capacity = {"storage": "1Gi"}
    return {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": capacity, **spec}}


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({}, ["spec: Required value: must specify a volume type"]),
        (
            {"hostPath": {"path": "/tmp"}, "nfs": {"server": "s", "path": "/p"}},
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            {"hostPath": {"path": "/tmp"}, "capacity": {"cpu": "1"}},
            ['spec.capacity: Unsupported value: {"cpu":"1"}: supported values: "storage"'],
        ),
        ({"hostPath": {}}, ["spec.hostPath.path: Required value"]),
        (
            {"hostPath": {"path": "/a/../b"}},
            ["spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            {"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"},
            [
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a "
                "hostPath mount of '/'"
            ],
        ),
        (
            {"local": {"path": "/d"}},
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            {"local": {"path": "/d"}, "nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
            [
                "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least "
                "one node selector term"
            ],
        ),
        (
            {"csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "s"}}},
            ["spec.csi.nodePublishSecretRef.namespace: Required value"],
        ),
        (
            {"iscsi": {"targetPortal": "p", "iqn": "x"}},
            ['spec.iscsi.iqn: Invalid value: "x": must be valid format'],
        ),
        (
            {"hostPath": {"path": "/tmp"}, "volumeAttributesClassName": "a"},
            ["spec.csi: Required value: has to be specified when using volumeAttributesClassName"],
        ),
    ],
)
def test_persistent_volumes(fields: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), VOLUMES, volume(**fields)) == texts


def test_the_source_of_a_persistent_volume_is_immutable() -> None:
    api = new_cluster()
    csi = {"driver": "d", "volumeHandle": "h"}
    old = api.create(VOLUMES, {"metadata": {"name": "v"}, **volume(csi=csi)})
    (text,) = get_update_causes(
        api, VOLUMES, old, {"spec": {**old["spec"], "csi": {**csi, "volumeHandle": "i"}}}
    )
    assert text.startswith(
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after "
        "creation\n@@ "
    )
    assert '-  "VolumeHandle": "h",\n+  "VolumeHandle": "i",\n' in text
    later = {**csi, "controllerExpandSecretRef": {"name": "s", "namespace": "n"}}
    assert get_update_causes(api, VOLUMES, old, {"spec": {**old["spec"], "csi": later}}) == []


def test_the_volume_mode_is_immutable() -> None:
    api = new_cluster()
    old = api.create(VOLUMES, {"metadata": {"name": "v"}, **volume(hostPath={"path": "/tmp"})})
    assert old["status"]["lastPhaseTransitionTime"] == old["metadata"]["creationTimestamp"]
    assert get_update_causes(
        api, VOLUMES, old, {"spec": {**old["spec"], "volumeMode": "Block"}}
    ) == ['volumeMode: Invalid value: "Block": field is immutable']


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({}, ["provisioner: Required value"]),
        (
            {"provisioner": "a", "reclaimPolicy": "Recycle", "parameters": {"": "x"}},
            [
                'parameters: Invalid value: "": field can not be empty.',
                'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
            ],
        ),
        (
            {"provisioner": "a", "allowedTopologies": [{"matchLabelExpressions": [{"key": "c"}]}]},
            ["allowedTopologies[0].matchLabelExpressions[0].values: Required value"],
        ),
    ],
)
def test_storage_classes(fields: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), CLASSES, fields) == texts


def test_the_provisioner_is_immutable() -> None:
    api = new_cluster()
    old = api.create(CLASSES, {"metadata": {"name": "a"}, "provisioner": "a"})
    assert get_update_causes(api, CLASSES, old, {**old, "provisioner": "b"}) == [
        'provisioner: Invalid value: "b": field is immutable'
    ]


def test_deprecated_volume_fields_are_warned_of() -> None:
    rule = {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists"}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    api, caller = new_cluster(), Caller(dry_run=True)
    body = {"metadata": {"name": "v"}, **volume(hostPath={"path": "/a"}, nodeAffinity=terms)}
    body["spec"]["persistentVolumeReclaimPolicy"] = "Recycle"
    api.create(VOLUMES, body, caller=caller)
    topology = {"matchLabelExpressions": [{"key": rule["key"], "values": ["a"]}]}
    body = {"metadata": {"name": "s"}, "provisioner": "p", "allowedTopologies": [topology]}
    api.create(CLASSES, body, caller=caller)
    instead = 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    assert caller.warnings == [
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, "
        "the recommended approach is to use dynamic provisioning.",
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: "
        f"failure-domain.beta.kubernetes.io/zone is {instead}",
        f"allowedTopologies[0].matchLabelExpressions[0].key: {instead}",
    ]


@pytest.mark.parametrize(
    ("resource", "spec", "texts"),
    [
        (
            "volumeattachments.storage.k8s.io",
            {"attacher": "a", "nodeName": "n"},
            [
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and "
                "persistentVolumeName"
            ],
        ),
        (
            "csidrivers.storage.k8s.io",
            {"tokenRequests": [{"audience": "a"}, {"audience": "a"}], "fsGroupPolicy": "Odd"},
            [
                'spec.fsGroupPolicy: Unsupported value: "Odd": supported values: "File", "None", '
                '"ReadWriteOnceWithFSType"',
                'spec.tokenRequests[1].audience: Duplicate value: "a"',
            ],
        ),
        (
            "csinodes.storage.k8s.io",
            {"drivers": [{"name": "a", "nodeID": "x"}, {"name": "a", "nodeID": "x"}]},
            ['spec.drivers[1].name: Duplicate value: "a"'],
        ),
    ],
)
def test_csi_drivers_csi_nodes_and_attachments(resource: str, spec: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), resource, {"spec": spec}) == texts

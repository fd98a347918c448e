from __future__ import annotations

import pytest

from pytest_kwait.simulator.request_info import Caller
from tests.objects import volume
from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import (
    Obj,
    get_create_causes,
    get_update_causes,
)

VOLUMES = "persistentvolumes"
CLASSES = "storageclasses.storage.k8s.io"


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

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import Caller
from tests.objects import claim
from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import (
    Obj,
    get_causes,
    get_create_causes,
    get_update_causes,
)

CLAIMS = "persistentvolumeclaims"
MODES = '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'


def sized_claim(name: str = "a", **fields: Any) -> Obj:
    resources = {"requests": {"storage": "1Gi"}}
    return claim(name=name, **{"resources": resources, **fields})


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
    assert get_create_causes(new_cluster(), CLAIMS, sized_claim(**fields)) == texts


def made(api: Any, **spec: Any) -> Obj:
    stored: Obj = api.create(CLAIMS, sized_claim(storageClassName="none", **spec), "default")
    return stored


def test_the_spec_of_a_claim_is_immutable() -> None:
    api = new_cluster()
    old = made(api)
    change = sized_claim(storageClassName="other", volumeMode="Filesystem")
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
    same = sized_claim(storageClassName="none", resources={"requests": {"storage": "1024Mi"}})
    assert get_update_causes(api, CLAIMS, old, same) == []
    bound = sized_claim(storageClassName="none", volumeName="v")
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
    body = sized_claim("b", dataSource={"kind": "Odd", "name": "b"})
    assert "dataSource" not in api.create(CLAIMS, body, "default")["spec"]


def test_warnings_of_claims() -> None:
    caller = Caller(dry_run=True)
    annotations = {"volume.beta.kubernetes.io/storage-class": "x"}
    requests = {"requests": {"storage": "1100m"}}
    body = sized_claim(annotations=annotations, resources=requests)
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

from __future__ import annotations

import pytest

from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import Obj, get_create_causes, get_update_causes

RANGES = "servicecidrs.networking.k8s.io"
ATTRIBUTES = "volumeattributesclasses.storage.k8s.io"
CAPACITIES = "csistoragecapacities.storage.k8s.io"


@pytest.mark.parametrize(
    ("resource", "obj", "texts"),
    [
        ("ipaddresses.networking.k8s.io", {}, ["spec.parentRef: Required value"]),
        (
            "ipaddresses.networking.k8s.io",
            {"spec": {"parentRef": {"resource": "a/b"}}},
            [
                "spec.parentRef.resource: Invalid value: \"a/b\": may not contain '/'",
                "spec.parentRef.name: Required value",
            ],
        ),
        (RANGES, {}, ["spec.cidrs: Required value: at least one CIDR required"]),
        (
            RANGES,
            {"spec": {"cidrs": ["10.0.0.0/8", "FD00::/64"]}},
            ['spec.cidrs[1]: Invalid value: "FD00::/64": must be in canonical form ("fd00::/64")'],
        ),
        (
            RANGES,
            {"spec": {"cidrs": ["10.0.0.0/8", "11.0.0.0/8"]}},
            [
                'spec.cidrs: Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: may specify no more than '
                "one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            ],
        ),
        (
            ATTRIBUTES,
            {},
            [
                "driverName: Required value",
                "parameters: Required value: must contain at least one key/value pair",
            ],
        ),
        (
            CAPACITIES,
            {"storageClassName": "s", "capacity": "-1"},
            ['capacity: Invalid value: "-1": must be greater than or equal to 0'],
        ),
    ],
)
def test_ip_addresses_service_cidrs_attributes_classes_and_capacities(
    resource: str, obj: Obj, texts: list[str]
) -> None:
    name = "10.0.0.1" if resource.startswith("ip") else "a"
    assert get_create_causes(new_cluster(), resource, {"metadata": {"name": name}, **obj}) == texts


def test_an_ip_address_is_named_by_its_canonical_form() -> None:
    body = {"metadata": {"name": "fd00:0::1"}, "spec": {}}
    assert get_create_causes(new_cluster(), "ipaddresses.networking.k8s.io", body)[0] == (
        'metadata.name: Invalid value: "fd00:0::1": must be in canonical form ("fd00::1")'
    )


@pytest.mark.parametrize(
    ("cidrs", "texts"),
    [
        (["10.0.0.0/8", "fd00::/64"], []),
        (["11.0.0.0/8"], ['spec.cidrs[0]: Invalid value: "11.0.0.0/8": field is immutable']),
        ([], ["spec.cidrs: Invalid value: null: field is immutable"]),
    ],
)
def test_a_service_cidr_may_get_a_second_range(cidrs: list[str], texts: list[str]) -> None:
    api = new_cluster()
    old = api.create(RANGES, {"metadata": {"name": "a"}, "spec": {"cidrs": ["10.0.0.0/8"]}})
    assert get_update_causes(api, RANGES, old, {"spec": {"cidrs": cidrs}}) == texts


def test_volume_attributes_classes_are_immutable() -> None:
    api = new_cluster()
    body = {"metadata": {"name": "a"}, "driverName": "d", "parameters": {"a": "b"}}
    old = api.create(ATTRIBUTES, body)
    assert get_update_causes(
        api, ATTRIBUTES, old, {"driverName": "e", "parameters": {"a": "b"}}
    ) == ["driverName: Forbidden: updates to driverName are forbidden."]


def test_the_class_of_a_storage_capacity_is_immutable() -> None:
    api = new_cluster()
    old = api.create(CAPACITIES, {"metadata": {"name": "a"}, "storageClassName": "s"}, "default")
    assert get_update_causes(api, CAPACITIES, old, {"storageClassName": "t"}) == [
        'storageClassName: Invalid value: "t": field is immutable'
    ]

from __future__ import annotations

import pytest

from pytest_kwait.simulator.request_info import Caller
from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import Obj, get_create_causes, get_update_causes

SLICES = "endpointslices.discovery.k8s.io"
NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


@pytest.mark.parametrize(
    ("subset", "texts"),
    [
        ({}, ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
        (
            {"addresses": [{"ip": "x"}]},
            [
                f'subsets[0].addresses[0].ip: Invalid value: "x": {NO_IP}',
                'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address',
            ],
        ),
        (
            {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}, {"port": 0, "name": "a"}]},
            [
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, "
                "inclusive",
            ],
        ),
    ],
)
def test_endpoints(subset: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), "endpoints", {"subsets": [subset]}) == texts


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ({}, ["addressType: Required value"]),
        (
            {"addressType": "Odd"},
            ['addressType: Unsupported value: "Odd": supported values: "FQDN", "IPv4", "IPv6"'],
        ),
        (
            {"addressType": "IPv4", "endpoints": [{"addresses": []}]},
            ["endpoints[0].addresses: Required value: must contain at least 1 address"],
        ),
        (
            {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"] * 101}]},
            ["endpoints[0].addresses: Too many: 101: must have at most 100 items"],
        ),
        (
            {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}] * 1001},
            ["endpoints: Too many: 1001: must have at most 1000 items"],
        ),
        (
            {"addressType": "IPv4", "endpoints": [{"addresses": ["fd00::1"]}]},
            ['endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address'],
        ),
        (
            {"addressType": "IPv6", "endpoints": [{"addresses": ["FD00::1"]}]},
            [
                'endpoints[0].addresses[0]: Invalid value: "FD00::1": must be in canonical form '
                '("fd00::1")'
            ],
        ),
        (
            {"addressType": "IPv4", "ports": [{"name": "a"}, {"name": "a"}]},
            ['ports[1].name: Duplicate value: "a"'],
        ),
        (
            {
                "addressType": "IPv4",
                "endpoints": [
                    {
                        "addresses": ["1.2.3.4"],
                        "hints": {"forZones": [{"name": "z"}, {"name": "z"}]},
                    }
                ],
            },
            ['endpoints[0].hints.forZones[1].name: Duplicate value: "z"'],
        ),
    ],
)
def test_endpoint_slices(part: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), SLICES, {"endpoints": [], **part}) == texts


def test_the_type_of_addresses_never_changes() -> None:
    api = new_cluster()
    body = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []}
    old = api.create(SLICES, body, "default")
    assert get_update_causes(api, SLICES, old, {**old, "addressType": "IPv6"}) == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]


def test_domain_names_are_deprecated() -> None:
    caller = Caller(dry_run=True)
    endpoints = [{"addresses": ["a.example"]}]
    body = {"metadata": {"name": "a"}, "addressType": "FQDN", "endpoints": endpoints}
    new_cluster().create(SLICES, body, "default", caller=caller)
    assert caller.warnings == ["spec.addressType: FQDN endpoints are deprecated"]

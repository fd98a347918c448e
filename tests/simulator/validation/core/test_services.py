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

PORTS = [{"port": 80}]
BALANCERS_ONLY = "Forbidden: may only be used when `type` is 'LoadBalancer'"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({}, ["spec.ports: Required value"]),
        (
            {"ports": [{"port": 0}]},
            [
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, "
                "inclusive",
            ],
        ),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
            [
                'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,'
                '"Port":80,"TargetPort":0,"NodePort":0}'
            ],
        ),
        (
            {"ports": [{"port": 80, "protocol": "tcp"}]},
            [
                'spec.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", '
                '"TCP", "UDP"'
            ],
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30001}]},
            [
                "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            ],
        ),
        (
            {"type": "NodePort", "clusterIP": "None", "ports": PORTS},
            [
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for "
                "NodePort services"
            ],
        ),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"type": "ExternalName", "externalName": "a.example", "clusterIP": "None"},
            ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
        ),
        (
            {"ipFamilies": ["IPv6"], "ports": PORTS},
            ['spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'],
        ),
        (
            {"ipFamilyPolicy": "RequireDualStack", "ports": PORTS},
            [
                'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not '
                "configured for dual-stack services"
            ],
        ),
        (
            {"clusterIPs": ["None"]},
            [
                'spec.clusterIPs: Invalid value: ["None"]: must be empty when `clusterIP` is not '
                "specified"
            ],
        ),
        (
            {"sessionAffinity": "Odd", "ports": PORTS},
            [
                'spec.sessionAffinity: Unsupported value: "Odd": supported values: "ClientIP", '
                '"None"'
            ],
        ),
        (
            {"externalIPs": ["01.2.3.4", "127.0.0.1"], "ports": PORTS},
            [
                'spec.externalIPs[0]: Invalid value: "01.2.3.4": must not have leading 0s',
                'spec.externalIPs[1]: Invalid value: "127.0.0.1": may not be in the loopback range '
                "(127.0.0.0/8, ::1/128)",
            ],
        ),
        (
            {"loadBalancerSourceRanges": ["10.0.0.1/8"], "ports": PORTS},
            [
                f"spec.LoadBalancerSourceRanges: {BALANCERS_ONLY}",
                'spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": must not have bits '
                "set beyond the prefix length",
            ],
        ),
        (
            {"externalTrafficPolicy": "Local", "loadBalancerClass": "a", "ports": PORTS},
            [
                f"spec.loadBalancerClass: {BALANCERS_ONLY}",
                'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for '
                "externally-accessible services",
            ],
        ),
    ],
)
def test_field_errors_of_services(spec: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), "services", {"spec": spec}) == texts


def made(api: Any, name: str, **spec: Any) -> Obj:
    stored: Obj = api.create("services", {"metadata": {"name": name}, "spec": spec}, "default")
    return stored


def test_the_cluster_ip_is_immutable() -> None:
    api = new_cluster()
    service = made(api, "a", ports=PORTS)
    spec = {**service["spec"], "clusterIP": "10.0.0.99", "clusterIPs": ["10.0.0.99"]}
    assert get_update_causes(api, "services", service, {"spec": spec}) == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.99"]: may not change once set'
    ]


def test_a_node_port_belongs_to_one_service() -> None:
    api = new_cluster()
    made(api, "a", type="NodePort", ports=[{"port": 80, "nodePort": 30999}])
    for port, text in (
        (30999, "provided port is already allocated"),
        (
            80,
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
    ):
        with pytest.raises(StatusError) as caught:
            made(api, "b", type="NodePort", ports=[{"port": 80, "nodePort": port}])
        assert get_causes(caught.value) == [
            f"spec.ports[0].nodePort: Invalid value: {port}: {text}"
        ]


def test_a_cluster_ip_belongs_to_one_service() -> None:
    api = new_cluster()
    address = made(api, "a", ports=PORTS)["spec"]["clusterIP"]
    with pytest.raises(StatusError) as caught:
        made(api, "b", clusterIP=address, ports=PORTS)
    assert get_causes(caught.value) == [
        f'spec.clusterIPs: Invalid value: ["{address}"]: failed to allocate IP {address}: provided '
        "IP is already allocated"
    ]


def test_ports_of_one_number_share_a_node_port() -> None:
    ports = [{"port": 53, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}]
    spec = made(new_cluster(), "a", type="NodePort", ports=ports)["spec"]
    assert spec["ports"][0]["nodePort"] == spec["ports"][1]["nodePort"]


def test_node_ports_are_kept_by_an_update_without_them() -> None:
    api = new_cluster()
    old = made(api, "a", type="NodePort", ports=PORTS)
    new = {"metadata": old["metadata"], "spec": {"type": "NodePort", "ports": [{"port": 81}]}}
    stored = api.update("services", new, caller=Caller())
    assert stored["spec"]["ports"][0]["nodePort"] == old["spec"]["ports"][0]["nodePort"]
    assert stored["spec"]["clusterIP"] == old["spec"]["clusterIP"]


def test_fields_of_the_old_type_are_dropped() -> None:
    api = new_cluster()
    old = made(api, "a", type="LoadBalancer", externalTrafficPolicy="Local", ports=PORTS)
    assert old["spec"]["healthCheckNodePort"] >= 30000
    new = {**old, "spec": {**old["spec"], "type": "ClusterIP"}}
    spec = api.update("services", new, caller=Caller())["spec"]
    gone = ("healthCheckNodePort", "externalTrafficPolicy", "allocateLoadBalancerNodePorts")
    assert not [field for field in gone if field in spec]
    assert "nodePort" not in spec["ports"][0]


def test_a_headless_service_without_selector_is_of_both_families() -> None:
    spec = made(new_cluster(), "a", clusterIP="None")["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")


def test_warnings_of_services() -> None:
    caller = Caller(dry_run=True)
    spec = {"externalIPs": ["1.2.3.4"], "externalName": "a", "ports": PORTS}
    body = {"metadata": {"name": "a"}, "spec": {**spec, "trafficDistribution": "PreferClose"}}
    new_cluster().create("services", body, "default", caller=caller)
    assert caller.warnings == [
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ]


def test_only_load_balancers_have_a_status() -> None:
    api = new_cluster()
    old = made(api, "a", ports=PORTS)
    new = {**old, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    with pytest.raises(StatusError) as caught:
        api.update("services", new, subresource="status", caller=Caller())
    assert get_causes(caught.value) == [
        "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is "
        "'LoadBalancer'"
    ]


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

from __future__ import annotations

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

INGRESSES = "ingresses.networking.k8s.io"
CLASSES = "ingressclasses.networking.k8s.io"
POLICIES = "networkpolicies.networking.k8s.io"
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def paths(**path: object) -> Obj:
    return {"rules": [{"http": {"paths": [{"backend": BACKEND, **path}]}}]}


PATH = "spec.rules[0].http.paths[0]"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (
            {},
            ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
        ),
        (
            {"defaultBackend": {}},
            [
                'spec.defaultBackend: Invalid value: "": resource or service backend is required',
            ],
        ),
        (
            {"defaultBackend": {"service": {"name": "s"}}},
            ["spec.defaultBackend: Required value: port name or number is required"],
        ),
        (
            {"defaultBackend": {**BACKEND, "resource": {"kind": "K", "name": "n"}}},
            [
                'spec.defaultBackend: Invalid value: "": cannot set both resource and service '
                "backends"
            ],
        ),
        (
            {"rules": [{"host": "1.2.3.4"}]},
            ['spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address'],
        ),
        ({"rules": [{"http": {"paths": []}}]}, ["spec.rules[0].http.paths: Required value"]),
        (paths(), [f"{PATH}.pathType: Required value: pathType must be specified"]),
        (
            paths(pathType="Odd"),
            [
                f'{PATH}.pathType: Unsupported value: "Odd": supported values: "Exact", '
                '"ImplementationSpecific", "Prefix"'
            ],
        ),
        (
            paths(pathType="Prefix", path="/a//b/.."),
            [
                f"{PATH}.path: Invalid value: \"/a//b/..\": must not contain '//'",
                f"{PATH}.path: Invalid value: \"/a//b/..\": cannot end with '/..'",
            ],
        ),
        (
            paths(pathType="Exact"),
            [f'{PATH}.path: Invalid value: "": must be an absolute path'],
        ),
    ],
)
def test_ingresses(spec: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), INGRESSES, {"spec": spec}) == texts


def test_ingress_class_annotation_and_field_are_exclusive() -> None:
    annotations = {"kubernetes.io/ingress.class": "x"}
    body: Obj = {"metadata": {"name": "a", "annotations": annotations}}
    body["spec"] = {"defaultBackend": BACKEND, "ingressClassName": "y"}
    assert get_create_causes(new_cluster(), INGRESSES, body) == [
        'annotations.kubernetes.io/ingress.class: Invalid value: "x": must match '
        "`ingressClassName` when both are specified"
    ]
    del body["spec"]["ingressClassName"]
    caller = Caller(dry_run=True)
    new_cluster().create(INGRESSES, body, "default", caller=caller)
    assert caller.warnings == [
        'annotation "kubernetes.io/ingress.class" is deprecated, please use '
        "'spec.ingressClassName' instead"
    ]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({}, ["spec.controller: Required value"]),
        (
            {"controller": "a.example/b", "parameters": {}},
            [
                "spec.parameters.kind: Required value",
                "spec.parameters.name: Required value",
            ],
        ),
        (
            {
                "controller": "a.example/b",
                "parameters": {"kind": "K", "name": "n", "scope": "Namespace"},
            },
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
        ),
        (
            {
                "controller": "a.example/b",
                "parameters": {"kind": "K", "name": "n", "namespace": "a"},
            },
            ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
        ),
    ],
)
def test_ingress_classes(spec: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), CLASSES, {"spec": spec}) == texts


def test_immutable_ingress_class_fields_are_reported_before_metadata() -> None:
    api = new_cluster()
    old = api.create(CLASSES, {"metadata": {"name": "a"}, "spec": {"controller": "a.example/b"}})
    change = {
        "metadata": {"finalizers": ["a.b"], "annotations": {"a b": "c"}},
        "spec": {"controller": "a.example/c"},
    }
    fields = [text.partition(":")[0] for text in get_update_causes(api, CLASSES, old, change)]
    place = fields.index("spec.controller")
    assert "metadata.annotations" in fields[:place]
    assert "metadata.annotations" in fields[place:]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (
            {"ingress": [{"from": [{}]}]},
            ["spec.ingress[0].from[0]: Required value: must specify a peer"],
        ),
        (
            {"egress": [{"to": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
            ["spec.egress[0].to[0]: Forbidden: may not specify both ipBlock and another peer"],
        ),
        (
            {
                "ingress": [
                    {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}
                ]
            },
            [
                'spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be '
                "a strict subset of `cidr`"
            ],
        ),
        (
            {"ingress": [{"ports": [{"port": 80, "endPort": 79}, {"endPort": 80}]}]},
            [
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or "
                "equal to `port`",
                "spec.ingress[0].ports[1].endPort: Invalid value: 80: may not be specified when "
                "`port` is not specified",
            ],
        ),
        (
            {"policyTypes": ["Odd"]},
            [
                'spec.policyTypes[0]: Unsupported value: "Odd": supported values: "Ingress", '
                '"Egress"'
            ],
        ),
        (
            {"policyTypes": ["Ingress", "Egress", "Ingress"]},
            [
                'spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may not specify '
                "more than two policyTypes"
            ],
        ),
    ],
)
def test_network_policies(spec: Obj, texts: list[str]) -> None:
    assert (
        get_create_causes(new_cluster(), POLICIES, {"spec": {"podSelector": {}, **spec}}) == texts
    )


def test_ingress_status() -> None:
    api = new_cluster()
    body = {"metadata": {"name": "a"}, "spec": {"defaultBackend": BACKEND}}
    old = api.create(INGRESSES, body, "default")
    points = [{"ip": "x"}, {"hostname": "1.2.3.4"}]
    new = {**old, "status": {"loadBalancer": {"ingress": points}}}
    with pytest.raises(StatusError) as caught:
        api.update(INGRESSES, new, subresource="status", caller=Caller())
    assert get_causes(caught.value) == [
        'status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. '
        "10.9.8.7 or 2001:db8::ffff)",
        'status.loadBalancer.ingress[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, '
        "not an IP address",
    ]


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

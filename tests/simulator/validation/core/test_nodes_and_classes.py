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

RUNTIMES = "runtimeclasses.node.k8s.io"
PRIORITIES = "priorityclasses.scheduling.k8s.io"


@pytest.mark.parametrize(
    ("node", "texts"),
    [
        (
            {"spec": {"taints": [{"key": "a", "effect": "Odd"}, {"key": "b", "effect": ""}]}},
            [
                'metadata.taints[0].effect: Unsupported value: "Odd": supported values: '
                '"NoSchedule", "PreferNoSchedule", "NoExecute"',
                "metadata.taints[1].effect: Required value",
            ],
        ),
        (
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
            [
                'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule",'
                '"TimeAdded":null}: taints must be unique by key and effect pair'
            ],
        ),
        (
            {"spec": {"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]}},
            [
                'spec.podCIDRs: Invalid value: ["10.1.0.0/24","10.2.0.0/24"]: may specify no more '
                "than one CIDR for each IP family"
            ],
        ),
        (
            {"status": {"capacity": {"cpu": "-1", "pods": "100m"}, "allocatable": {"cpu": "1"}}},
            [
                'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
                'status.capacity.pods: Invalid value: "100m": must be an integer',
            ],
        ),
    ],
)
def test_nodes(node: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), "nodes", node) == texts


def test_immutable_node_fields() -> None:
    api = new_cluster()
    spec = {"providerID": "p", "podCIDR": "10.1.0.0/24"}
    old = api.create("nodes", {"metadata": {"name": "n"}, "spec": spec})
    assert old["spec"]["podCIDRs"] == ["10.1.0.0/24"]
    kept = 'Forbidden: node updates may not change {} except from "" to valid'
    assert get_update_causes(api, "nodes", old, {"spec": {"podCIDR": "10.2.0.0/24"}}) == [
        f"spec.podCIDRs: {kept.format('podCIDR')}",
        f"spec.providerID: {kept.format('providerID')}",
    ]


def test_node_status() -> None:
    api = new_cluster()
    old = api.create("nodes", {"metadata": {"name": "n"}})
    address = {"type": "A", "address": "b"}
    status = {"capacity": {"cpu": "-1"}, "addresses": [address, address]}
    with pytest.raises(StatusError) as caught:
        api.update("nodes", {**old, "status": status}, subresource="status", caller=Caller())
    assert get_causes(caught.value) == [
        'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.addresses[1]: Duplicate value: {"Type":"A","Address":"b"}',
    ]
    taints = {"spec": {"taints": [{"key": "a", "effect": "Odd"}]}}
    wrong = "metadata.taints[0].effect: Unsupported value: "
    wrong += '"Odd": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
    assert get_update_causes(api, "nodes", old, taints) == [wrong, wrong]


def test_a_new_node_is_not_ready() -> None:
    caller = Caller(manager="kubectl", dry_run=True)
    node = new_cluster().create("nodes", {"metadata": {"name": "n"}}, caller=caller)
    assert node["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]


def test_allocatable_defaults_to_capacity() -> None:
    body = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}}
    assert new_cluster().create("nodes", body)["status"]["allocatable"] == {"cpu": "2"}


def test_deprecated_node_fields_are_warned_of() -> None:
    caller = Caller(dry_run=True)
    body = {"metadata": {"name": "n"}, "spec": {"externalID": "x"}}
    new_cluster().create("nodes", body, caller=caller)
    assert caller.warnings == [
        "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    ]


def test_namespace_finalizers() -> None:
    spec = {"finalizers": ["x", "a.example/b"]}
    assert get_create_causes(new_cluster(), "namespaces", {"spec": spec}) == [
        'spec.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it '
        "fully qualified"
    ]


def test_a_namespace_terminates_only_by_deletion() -> None:
    api = new_cluster()
    old = api.create("namespaces", {"metadata": {"name": "a"}})
    new = {**old, "status": {"phase": "Terminating"}}
    with pytest.raises(StatusError) as caught:
        api.update("namespaces", new, subresource="status", caller=Caller())
    assert get_causes(caught.value) == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` "
        "is empty"
    ]


def test_the_namespace_of_cluster_scoped_objects_is_ignored() -> None:
    body = {"metadata": {"name": "a", "namespace": "x"}}
    assert "namespace" not in new_cluster().create("namespaces", body)["metadata"]


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        (
            {"preemptionPolicy": "Odd"},
            [
                'preemptionPolicy: Unsupported value: "Odd": supported values: '
                '"PreemptLowerPriority", "Never"'
            ],
        ),
        (
            {"value": 1_000_000_001},
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
    ],
)
def test_priority_classes(fields: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), PRIORITIES, {"value": 1, **fields}) == texts


def test_runtime_classes() -> None:
    api = new_cluster()
    assert get_create_causes(api, RUNTIMES, {}) == ["handler: Required value"]
    assert get_create_causes(api, RUNTIMES, {"handler": "a.b"}) == [
        'handler: Invalid value: "a.b": must not contain dots'
    ]
    old = api.create(RUNTIMES, {"metadata": {"name": "a"}, "handler": "a"})
    assert get_update_causes(api, RUNTIMES, old, {**old, "handler": "b"}) == [
        'handler: Invalid value: "b": field is immutable'
    ]


def test_scheduling_and_overhead_of_a_runtime_class() -> None:
    scheduling = {"tolerations": [{"key": "c"}, {"key": "c"}, {"operator": "Exists", "value": "x"}]}
    body = {"handler": "h", "scheduling": scheduling, "overhead": {"podFixed": {"odd": "1"}}}
    assert get_create_causes(new_cluster(), RUNTIMES, body) == [
        'overhead.limits[odd]: Invalid value: "odd": must be a standard resource type or fully '
        "qualified",
        'overhead.limits[odd]: Invalid value: "odd": must be a standard resource for containers',
        'scheduling.tolerations[2].operator: Invalid value: "x": value must be empty when '
        "`operator` is 'Exists'",
        'scheduling.tolerations[1]: Duplicate value: {"Key":"c","Operator":"","Value":"",'
        '"Effect":"","TolerationSeconds":null}',
    ]


def test_deprecated_node_labels_are_warned_of() -> None:
    caller = Caller(dry_run=True)
    selector = {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}
    body = {"metadata": {"name": "a"}, "handler": "h", "scheduling": selector}
    new_cluster().create(RUNTIMES, body, caller=caller)
    assert caller.warnings == [
        'scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead'
    ]


def test_priority_classes_count_no_generations() -> None:
    api = new_cluster()
    old = api.create(PRIORITIES, {"metadata": {"name": "a"}, "value": 1})
    new = api.update(PRIORITIES, {**old, "description": "d"}, caller=Caller())
    assert new["metadata"]["generation"] == 1


def test_limit_ranges_may_be_without_limits() -> None:
    assert get_create_causes(new_cluster(), "limitranges", {}) == []


def test_role_references_of_bindings() -> None:
    role = {"kind": "Role", "name": "a/b"}
    resource = "rolebindings.rbac.authorization.k8s.io"
    assert get_create_causes(new_cluster(), resource, {"roleRef": role}) == [
        "roleRef.name: Invalid value: \"a/b\": may not contain '/'"
    ]

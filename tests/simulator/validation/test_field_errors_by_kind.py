from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import Obj, get_create_causes

SCALED: Obj = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "D", "name": "d"}}


def autoscaler(**rules: Any) -> Obj:
    return {"spec": {**SCALED, "maxReplicas": 2, "behavior": {"scaleUp": rules}}}


@pytest.mark.parametrize(
    ("resource", "obj", "texts"),
    [
        (
            "horizontalpodautoscalers.autoscaling",
            autoscaler(policies=[]),
            ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"],
        ),
        ("horizontalpodautoscalers.autoscaling", autoscaler(), []),
        # Finalizers have to be qualified where the core's rules for metadata hold.
        ("leases.coordination.k8s.io", {"metadata": {"name": "a", "finalizers": ["x"]}}, []),
        (
            "configmaps",
            {"metadata": {"name": "a", "finalizers": ["x"]}},
            [
                'metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer '
                "name nor is it fully qualified"
            ],
        ),
        (
            "events",
            {
                "metadata": {"name": "a", "labels": {"a b": ""}},
                "involvedObject": {"namespace": "x"},
            },
            ['involvedObject.namespace: Invalid value: "x": does not match event.namespace'],
        ),
    ],
)
def test_field_errors(resource: str, obj: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), resource, obj) == texts


def test_invalid_pod_cidrs_of_a_node() -> None:
    node = {"spec": {"podCIDRs": ["10.0.0.0/24", "x"]}}
    assert get_create_causes(new_cluster(), "nodes", node)[1:] == [
        "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with "
        "error:invalid CIDR[1]: <nil> (invalid CIDR address: x)",
        'spec.podCIDRs: Invalid value: ["10.0.0.0/24","x"]: may specify no more than one CIDR for '
        "each IP family",
    ]


def test_only_names_of_a_service_accounts_secrets_are_kept() -> None:
    account = {"metadata": {"name": "a"}, "secrets": [{"name": "s", "namespace": "x"}, {}]}
    made = new_cluster().create("serviceaccounts", account, "default")
    assert made["secrets"] == [{"name": "s"}, {}]


def test_a_volume_attributes_class_gets_a_protection_finalizer() -> None:
    found = {"metadata": {"name": "a"}, "driverName": "d", "parameters": {"a": "b"}}
    made = new_cluster().create("volumeattributesclasses.storage.k8s.io", found)
    assert made["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]

"""Scaling custom resources by their scale subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.pods.manifest import pod
from e2e.raising import raises, times_out
from pytest_kwait import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait import Kwait

GROUP = "scales.kwait.example.com"
FIELDS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(**scale: str) -> dict[str, Any]:
    properties = {"spec": FIELDS, "status": FIELDS}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"shops.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                    "subresources": {
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            **scale,
                        }
                    },
                }
            ],
        },
    }


def test_scale_waits_for_selected_pods(kwait: Kwait) -> None:
    shop = {"apiVersion": f"{GROUP}/v1", "kind": "Shop", "metadata": {"name": "corner"}}
    known = {"spec": {"replicas": 0}, "status": {"selector": "app=corner"}}
    kwait.apply(definition(labelSelectorPath=".status.selector"), shop | known)

    times_out(
        "shop corner did not have exactly 1 pod, Running and ready",
        kwait.scale,
        "shop/corner",
        1,
    )
    # There is no controller of shops here: the test makes the pod itself.
    kwait.create(pod("corner-1", labels={"app": "corner"}))
    assert kwait.scale("shop/corner", 1)["spec"]["replicas"] == 1

    with raises(InvalidArgument, "a ConfigMap has no scale"):
        kwait.scale("configmap/corner", 1)

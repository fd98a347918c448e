"""Scaling custom resources by their scale subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import Obj, definition, pod, version
from e2e.raising import raises, times_out
from pytest_kwait import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait import Kwait

GROUP = "scales.kwait.example.com"
FIELDS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def shops(**scale: str) -> Obj:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"type": "object", "properties": {"spec": FIELDS, "status": FIELDS}}
    v1 = version("v1", schema, subresources={"scale": {**paths, **scale}})
    return definition(GROUP, "shops", "Shop", v1)


def test_scale_waits_for_selected_pods(kwait: Kwait) -> None:
    shop = {"apiVersion": f"{GROUP}/v1", "kind": "Shop", "metadata": {"name": "corner"}}
    known = {"spec": {"replicas": 0}, "status": {"selector": "app=corner"}}
    kwait.apply(shops(labelSelectorPath=".status.selector"), shop | known)

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

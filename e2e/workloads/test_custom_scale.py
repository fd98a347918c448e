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


def scaled(plural: str, kind: str, **scale: str) -> Obj:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"type": "object", "properties": {"spec": FIELDS, "status": FIELDS}}
    v1 = version("v1", schema, subresources={"scale": {**paths, **scale}})
    return definition(GROUP, plural, kind, v1)


def test_scale_waits_for_selected_pods(kwait: Kwait) -> None:
    shop = {"apiVersion": f"{GROUP}/v1", "kind": "Shop", "metadata": {"name": "corner"}}
    known = {"spec": {"replicas": 0}, "status": {"selector": "app=corner"}}
    kwait.apply(scaled("shops", "Shop", labelSelectorPath=".status.selector"), shop | known)

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


def test_scale_of_a_kind_without_a_selector(kwait: Kwait) -> None:
    """The test names the labels of the pods, where the definition has no path to them."""
    corner = {"apiVersion": f"{GROUP}/v1", "kind": "Stall", "metadata": {"name": "corner"}}
    kwait.apply(scaled("stalls", "Stall"), corner | {"spec": {"replicas": 0}})

    with raises(InvalidArgument, "the scale of stall/corner names no pods: give their labels"):
        kwait.scale("stall/corner", 1)
    assert kwait.get("stall/corner")["spec"]["replicas"] == 0
    kwait.create(pod("corner-1", labels={"app": "corner"}), pod("other", labels={"app": "other"}))
    assert kwait.scale("stall/corner", 1, selector={"app": "corner"})["spec"]["replicas"] == 1

"""TaintNodesByCondition: a new node is not ready until its conditions say so.

Source: k8s.io/kubernetes plugin/pkg/admission/nodetaint/admission.go.
"""

from __future__ import annotations

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes

__all__ = ["TaintNodesByCondition"]

_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(AdmissionPlugin):
    """The plugin."""

    buckets = frozenset({"nodes"})

    def admit(self, attributes: Attributes) -> None:
        """Taint what a client makes; kubelets of this process say at once what they are."""
        node = attributes.obj
        if attributes.kind.bucket != "nodes" or attributes.operation != "CREATE":
            return
        if node is None or attributes.subresource or not attributes.caller.manager:
            return
        taints = node.setdefault("spec", {}).setdefault("taints", [])
        if not any(all(one.get(key) == _TAINT[key] for key in _TAINT) for one in taints):
            taints.append(dict(_TAINT))

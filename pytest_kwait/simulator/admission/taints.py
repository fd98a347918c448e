"""DefaultTolerationSeconds and TaintNodesByCondition: default tolerations and taints.

Pods tolerate an unreachable node for five minutes; a new node is tainted as not ready.

Source: k8s.io/kubernetes plugin/pkg/admission/{defaulttolerationseconds,nodetaint}/admission.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["DefaultTolerationSeconds", "TaintNodesByCondition"]

_SECONDS = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(AdmissionPlugin):
    """The DefaultTolerationSeconds plugin."""

    buckets = frozenset({"pods"})

    def admit(self, attributes: Attributes) -> None:
        """Add tolerations of not ready and unreachable nodes."""
        pod = attributes.obj
        if attributes.kind.bucket != "pods" or pod is None or attributes.subresource:
            return
        tolerations = pod["spec"].get("tolerations", [])
        for taint in _TAINTS:
            if not any(_tolerates_taint(toleration, taint) for toleration in tolerations):
                more = {"key": taint, "operator": "Exists", "effect": "NoExecute"}
                tolerations = [*tolerations, {**more, "tolerationSeconds": _SECONDS}]
        pod["spec"]["tolerations"] = tolerations


def _tolerates_taint(toleration: Obj, taint: str) -> bool:
    return (toleration.get("key") or taint) == taint and toleration.get("effect", "NoExecute") in (
        "",
        "NoExecute",
    )


_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(AdmissionPlugin):
    """The TaintNodesByCondition plugin."""

    buckets = frozenset({"nodes"})

    def admit(self, attributes: Attributes) -> None:
        """Taint the nodes that clients create; internal kubelets set their own taints."""
        node = attributes.obj
        if attributes.kind.bucket != "nodes" or attributes.operation != "CREATE":
            return
        if node is None or attributes.subresource or not attributes.caller.manager:
            return
        taints = node.setdefault("spec", {}).setdefault("taints", [])
        if not any(all(one.get(key) == _TAINT[key] for key in _TAINT) for one in taints):
            taints.append(dict(_TAINT))

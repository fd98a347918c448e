"""PodResize: refuse a resize beyond the capacity of the node.

Source: k8s.io/kubernetes plugin/pkg/admission/podresize/admission.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PodResize"]

_OS_LABEL = "kubernetes.io/os"


class PodResize(AdmissionPlugin):
    """Denies resizes beyond the node's capacity."""

    buckets = frozenset({"pods"})

    def __init__(self, api: Cluster) -> None:
        self._api = api

    def validate(self, attributes: Attributes) -> None:
        """Check the resized pods of a node.

        Raises:
            StatusError: 403, the node is too small, missing, or cannot resize.
        """
        new, old = attributes.obj, attributes.old
        if attributes.subresource != "resize" or not new or not old or new["spec"] == old["spec"]:
            return
        name = new["spec"].get("nodeName")
        if not name:
            return
        node = self._api.find("nodes", name)
        if node is None:
            raise attributes.forbidden(f'node "{name}" not found')
        system = (node["metadata"].get("labels") or {}).get(_OS_LABEL, "linux")
        if system != "linux":
            raise attributes.forbidden(
                f'pod resize is only supported on linux nodes, node "{name}" is "{system}"',
                causes=[{"reason": "UnsupportedPlatform"}],
            )
        short = _exceeded_resources(new, (node.get("status") or {}).get("allocatable") or {})
        if short:
            raise attributes.forbidden(
                f"node didn't have enough allocatable resources: {short}",
                causes=[{"reason": "NodeCapacity"}],
            )


def _exceeded_resources(pod: Obj, allocatable: Obj) -> str:
    from pytest_kwait.scheduler.framework.resource_requests import PodRequests, parse_resource_list

    requested, there = PodRequests(pod).total(), parse_resource_list(allocatable)
    return "; ".join(
        f"{name}, requested: {requested[name]}, allocatable: {there.get(name, 0)}"
        for name in ("cpu", "memory")
        if requested.get(name, 0) > there.get(name, 0)
    )

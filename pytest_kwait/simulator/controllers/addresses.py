"""What pods are to a service: addresses, ports, and since when."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import get_condition, is_being_deleted
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "HEADLESS",
    "TRIGGER_TIME",
    "TriggerTimeTracker",
    "find_pod_port",
    "get_endpoint_hostname",
    "has_cluster_ip",
    "is_endpoint_pod",
    "list_pod_addresses",
]

TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
HEADLESS = "service.kubernetes.io/headless"


def is_endpoint_pod(pod: Obj, *, terminating: bool) -> bool:
    """Whether a pod is among the endpoints at all.

    Args:
        pod: a pod that is selected.
        terminating: whether one counts that is being deleted.

    Source: k8s.io/endpointslice util/controller_utils.go, `ShouldPodBeInEndpoints`.
    """
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return False
    if not status.get("podIP") and not status.get("podIPs"):
        return False
    return terminating or not is_being_deleted(pod)


def list_pod_addresses(pod: Obj, family: str) -> list[str]:
    """Return the pod's addresses of `IPv4` or `IPv6`."""
    status = pod.get("status") or {}
    texts = [one["ip"] for one in status.get("podIPs") or ()]
    texts = texts or ([status["podIP"]] if status.get("podIP") else [])
    return [text for text in texts if f"IPv{ipaddress.ip_address(text).version}" == family]


def has_cluster_ip(service: Obj) -> bool:
    """Whether the service has a cluster address; one without is headless."""
    return service["spec"].get("clusterIP") not in (None, "", "None")


def get_endpoint_hostname(pod: Obj, service: Obj) -> str | None:
    """Return the name the pod has below the service; None for pods without."""
    spec = pod["spec"]
    if spec.get("hostname") and spec.get("subdomain") == name_of(service):
        return str(spec["get_endpoint_hostname"])
    return None


def find_pod_port(pod: Obj, port: Obj) -> int | None:
    """Return the number of a service's port at the pod; None for a name that the pod has not.

    Source: k8s.io/endpointslice utils.go, `FindPort`.
    """
    target = port.get("targetPort")
    if isinstance(target, int):
        return target or int(port["port"])
    if not target:
        return int(port["port"])
    sidecars = (
        one
        for one in pod["spec"].get("initContainers") or ()
        if one.get("restartPolicy") == "Always"
    )
    for container in [*pod["spec"].get("containers", ()), *sidecars]:
        for one in container.get("ports") or ():
            same = one.get("protocol", "TCP") == port.get("protocol", "TCP")
            if one.get("name") == target and same:
                return int(one["containerPort"])
    return None


class TriggerTimeTracker:
    """When what an update tells has happened.

    Source: k8s.io/endpointslice util/trigger_time_tracker.go.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, dict[str, str]]] = {}

    def next(self, key: str, service: Obj, pods: Iterable[Obj]) -> str | None:
        """Return the first of the changes since the last call; None where there was none."""
        service_before, pods_before = self._seen.get(key, ("", {}))
        times, changed = {}, []
        for pod in pods:
            ready = get_condition(pod, "Ready")
            since = ready.get("lastTransitionTime") if ready is not None else None
            if since:
                times[name_of(pod)] = since
                if since > pods_before.get(name_of(pod), ""):
                    changed.append(since)
        made = service["metadata"]["creationTimestamp"]
        if made > service_before:
            changed.append(made)
        self._seen[key] = (made, times)
        return min(changed, default=None)

    def forget(self, key: str) -> None:
        """Drop what is known of a service."""
        self._seen.pop(key, None)

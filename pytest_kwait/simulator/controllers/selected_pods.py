"""Which pods each service selects, kept by every change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.controller_refs import key_of, split_key
from pytest_kwait.simulator.controllers.pod_control import is_ready
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["ServicePods"]

# Seconds of patience per pod of a service: a service of 1,000 pods is looked at once a second at
# most, so that a pod's change costs the same however many there are.
_PAUSE_PER_POD = 0.001


def _endpoint_fields(pod: Obj) -> tuple[object, ...]:
    """What of a pod shows in endpoints.

    Source: k8s.io/endpointslice util/controller_utils.go, `podEndpointsChanged`.
    """
    status, spec = pod.get("status") or {}, pod["spec"]
    return (
        "deletionTimestamp" in pod["metadata"],
        status.get("phase") in ("Succeeded", "Failed"),
        status.get("podIPs"),
        status.get("podIP"),
        spec.get("nodeName"),
        is_ready(pod),
        labels_of(pod),
    )


class ServicePods:
    """The services of a cluster and their pods.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._selectors: dict[str, dict[str, Obj]] = {}
        self._pods: dict[str, dict[str, Obj]] = {}
        self._listeners: list[Callable[[str, float], None]] = []
        api.subscribe("services", self._service_changed)
        api.subscribe("pods", self._pod_changed)

    def listen(self, listener: Callable[[str, float], None]) -> None:
        """Call `listener(service key, seconds)` when a service or what it selects has changed.

        Seconds are how long the look at it may wait.
        """
        self._listeners.append(listener)
        for namespace, selectors in self._selectors.items():
            for name in selectors:
                listener(f"{namespace}/{name}", 0.0)

    def of(self, key: str) -> list[Obj]:
        """Return the pods of a service."""
        return list(self._pods.get(key, {}).values())

    def _tell(self, key: str, pause: float) -> None:
        for listener in self._listeners:
            listener(key, pause)

    def _service_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, namespace, name = key_of(new), namespace_of(new), name_of(new)
        selector = new["spec"].get("selector") or {}
        if change == "DELETED":
            selectors = self._selectors.get(namespace, {})
            selectors.pop(name, None)
            if not selectors:
                self._selectors.pop(namespace, None)
            self._pods.pop(key, None)
        elif not selector:
            self._selectors.get(namespace, {}).pop(name, None)
            self._pods.pop(key, None)
        elif old is None or (old["spec"].get("selector") or {}) != selector:
            self._selectors.setdefault(namespace, {})[name] = selector
            self._pods[key] = {
                uid_of(pod): pod
                for pod in self._api.list("pods", namespace)
                if selector.items() <= labels_of(pod).items()
            }
        self._tell(key, 0.0)

    def _pod_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        selectors = self._selectors.get(namespace_of(new))
        if not selectors:
            return
        matters = (
            change == "DELETED" or old is None or _endpoint_fields(new) != _endpoint_fields(old)
        )
        uid, labels = uid_of(new), labels_of(new).items()
        for name, selector in selectors.items():
            key = f"{namespace_of(new)}/{name}"
            pods = self._pods.setdefault(key, {})
            known = uid in pods
            if change != "DELETED" and selector.items() <= labels:
                pods[uid] = new
            elif known:
                del pods[uid]
            else:
                continue
            if matters:
                self._tell(key, len(pods) * _PAUSE_PER_POD)

    def service(self, key: str) -> Obj | None:
        """Return the service of that key; None where there is none."""
        namespace, name = split_key(key)
        return self._api.find("services", name, namespace)

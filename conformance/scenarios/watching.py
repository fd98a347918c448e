"""What changes on a whole cluster, as it comes: one stream for each kind of object."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import urllib3

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.raw_api import RawClient

__all__ = ["KINDS", "OF_NO_NAMESPACE", "ClusterWatch", "path_of"]

KINDS = {
    "Pod": "/api/v1 pods",
    "Node": "/api/v1 nodes",
    "Event": "/api/v1 events",
    "ServiceAccount": "/api/v1 serviceaccounts",
    "ConfigMap": "/api/v1 configmaps",
    "Service": "/api/v1 services",
    "ResourceQuota": "/api/v1 resourcequotas",
    "PersistentVolumeClaim": "/api/v1 persistentvolumeclaims",
    "ReplicationController": "/api/v1 replicationcontrollers",
    "Deployment": "/apis/apps/v1 deployments",
    "ReplicaSet": "/apis/apps/v1 replicasets",
    "StatefulSet": "/apis/apps/v1 statefulsets",
    "DaemonSet": "/apis/apps/v1 daemonsets",
    "Job": "/apis/batch/v1 jobs",
    "CronJob": "/apis/batch/v1 cronjobs",
    "PodDisruptionBudget": "/apis/policy/v1 poddisruptionbudgets",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2 horizontalpodautoscalers",
    "EndpointSlice": "/apis/discovery.k8s.io/v1 endpointslices",
}
"""What is watched: for each kind the path of its group and its plural."""

_UNWATCHED = {
    "Secret": "/api/v1 secrets",
    "PersistentVolume": "/api/v1 persistentvolumes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1 priorityclasses",
}
OF_NO_NAMESPACE = frozenset({"Node", "PersistentVolume", "PriorityClass"})
"""Kinds whose objects are the whole cluster's."""
_PAUSE = 0.2
_LIFE = 240


def path_of(kind: str, namespace: str) -> str:
    """The path of the collection of a kind, in any writing, in a namespace."""
    known = {name.lower(): name for name in KINDS | _UNWATCHED}
    name = known[kind.lower()]
    group, plural = (KINDS | _UNWATCHED)[name].split()
    if name in OF_NO_NAMESPACE:
        return f"{group}/{plural}"
    return f"{group}/namespaces/{namespace}/{plural}"


class ClusterWatch:
    """Streams of every kind, each in a thread of its own.

    Args:
        endpoint: the cluster.
        tell: called with the type of a change and the object, from any of the threads.
    """

    def __init__(self, endpoint: RawClient, tell: Callable[[str, dict[str, Any]], None]) -> None:
        self._endpoint = endpoint
        self._tell = tell
        self._over = threading.Event()

    def begin(self) -> None:
        """Watch from now on."""
        for kind, place in KINDS.items():
            path = "/".join(place.split())
            version = self._version(path)
            follow = threading.Thread(target=self._follow, args=(kind, path, version), daemon=True)
            follow.start()

    def end(self) -> None:
        """Tell no more; the threads end with their streams."""
        self._over.set()

    def _version(self, path: str) -> str:
        listed = self._endpoint.request("GET", f"{path}?limit=1")
        version: str = listed.body["metadata"]["resourceVersion"]
        return version

    def _follow(self, kind: str, path: str, version: str) -> None:
        while not self._over.is_set():
            query = f"watch=1&timeoutSeconds={_LIFE}&resourceVersion={version}"
            try:
                for change in self._endpoint.stream(f"{path}?{query}", timeout=_LIFE):
                    if self._over.is_set():
                        return
                    obj = change["object"]
                    if change["type"] == "ERROR":
                        version = self._version(path)
                        break
                    version = obj["metadata"]["resourceVersion"]
                    self._tell(change["type"], {"kind": kind} | obj)
            except (urllib3.exceptions.HTTPError, json.JSONDecodeError, OSError):
                SYSTEM_CLOCK.sleep(_PAUSE)

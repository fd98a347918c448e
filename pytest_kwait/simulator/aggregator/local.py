"""The APIServices of the groups that the server has itself, built-in and custom ones.

Source: k8s.io/kubernetes pkg/controlplane/apiserver/aggregator.go,
pkg/controlplane/controller/crdregistration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["LOCAL_VERDICT", "MANAGED_LABEL", "AutoRegistrationController", "local_condition"]

_SERVICES = "apiservices.apiregistration.k8s.io"
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
MANAGED_LABEL = "kube-aggregator.kubernetes.io/automanaged"
LOCAL_VERDICT = ("Local", "Local APIServices are always available")
_CUSTOM_PRIORITIES = (1000, 100)
_AGGREGATOR_GROUP = "apiregistration.k8s.io"
# By group: its priority, and that of its only version.
_PRIORITIES = {
    "": (18000, 1),
    "apps": (17800, 15),
    "events.k8s.io": (17750, 15),
    "authentication.k8s.io": (17700, 15),
    "authorization.k8s.io": (17600, 15),
    "autoscaling": (17500, 15),
    "batch": (17400, 15),
    "certificates.k8s.io": (17300, 15),
    "networking.k8s.io": (17200, 15),
    "policy": (17100, 15),
    "rbac.authorization.k8s.io": (17000, 15),
    "storage.k8s.io": (16800, 15),
    "apiextensions.k8s.io": (16700, 15),
    "admissionregistration.k8s.io": (16700, 15),
    "scheduling.k8s.io": (16600, 15),
    "coordination.k8s.io": (16500, 15),
    "node.k8s.io": (16300, 15),
    "discovery.k8s.io": (16200, 15),
    "resource.k8s.io": (16200, 21),
    "flowcontrol.apiserver.k8s.io": (16100, 21),
}
_VERSIONS = {("autoscaling", "v2"): 30}


def local_condition(stamp: str) -> Obj:
    """The condition of a group that the server has itself."""
    reason, message = LOCAL_VERDICT
    return {
        "type": "Available", "status": "True", "lastTransitionTime": stamp,
        "reason": reason, "message": message,
    }  # fmt: skip


class AutoRegistrationController:
    """Keeps them.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._custom: set[str] = set()
        for group, version in [*api.kinds.group_versions()]:
            if group in _PRIORITIES:
                priority, order = _PRIORITIES[group]
                order = _VERSIONS.get((group, version), order)
                self._make(group, version, priority, order, "onstart")
        api.subscribe(_DEFINITIONS, self._definition_changed)

    def _definition_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        del change, new, old
        # What it means for the groups is known once all who follow definitions have been told.
        self._api.clock.call_soon(self._renew_custom)

    def _renew_custom(self) -> None:
        served = {
            f"{version}.{group}": (group, version)
            for group, version in self._api.kinds.group_versions()
            if group not in _PRIORITIES and group != _AGGREGATOR_GROUP
        }
        for name in self._custom.difference(served):
            try:
                self._api.delete(_SERVICES, name)
            except StatusError as error:
                if error.reason != "NotFound":
                    raise
        for name in set(served).difference(self._custom):
            self._make(*served[name], *_CUSTOM_PRIORITIES, "true")
        self._custom = set(served)

    def _make(self, group: str, version: str, priority: int, order: int, managed: str) -> None:
        spec: Obj = {
            "version": version,
            "groupPriorityMinimum": priority,
            "versionPriority": order,
        }
        if group:
            spec["group"] = group
        name = f"{version}.{group}"
        if self._api.find(_SERVICES, name) is not None:
            return
        metadata = {"name": name, "labels": {MANAGED_LABEL: managed}}
        made = self._api.create(_SERVICES, {"metadata": metadata, "spec": spec})
        status = {"conditions": [local_condition(self._api.clock.stamp())]}
        self._api.update_status(_SERVICES, {**made, "status": status})

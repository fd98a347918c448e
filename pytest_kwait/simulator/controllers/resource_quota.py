"""The resource quota controller: recalculates usage after deletions.

Usage by creation is counted by admission.

Source: kube-controller-manager, resource_quota_controller.go (`syncResourceQuota`);
pkg/quota/v1/install/update_filter.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import Quantity
from pytest_kwait.simulator.admission.pod_resources import (
    ResourceList,
    add_resources,
    parse_resource_list,
)
from pytest_kwait.simulator.admission.resource_quota import (
    has_deadline,
    is_in_scopes,
    is_pod_counted,
    matching_resource_names,
    object_usage,
    resource_of_quota_name,
)
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.objects import Obj, namespace_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

_QUOTAS = "resourcequotas"
# Seconds until everything is recounted; upstream, `resource-quota-sync-period`.
_RESYNC_PERIOD = 300.0


class ResourceQuotaController:
    """Updates the status of the quotas of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "resource-quota-controller")
        self._by_namespace: dict[str, dict[str, None]] = {}
        cluster.subscribe(_QUOTAS, self._quota_changed)
        cluster.subscribe_all(self._changed)

    def _quota_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, namespace = key_of(new), namespace_of(new)
        if change == "DELETED":
            keys = self._by_namespace.get(namespace, {})
            keys.pop(key, None)
            if not keys:
                self._by_namespace.pop(namespace, None)
            self._queue.forget(key)
            return
        self._by_namespace.setdefault(namespace, {})[key] = None
        if old is None or old.get("spec") != new.get("spec") or _lacks_usage(new):
            self._queue.add(key)

    def _changed(self, resource: str, change: str, new: Obj, old: Obj | None) -> None:
        if not self._by_namespace:
            return
        keys = self._by_namespace.get(namespace_of(new))
        if not keys:
            return
        if change == "DELETED" or (old is not None and self._frees_quota(resource, new, old)):
            for key in keys:
                quota = self._cluster.find(_QUOTAS, split_key(key)[1], namespace_of(new))
                if quota is not None and matching_resource_names(
                    resource, quota["spec"].get("hard", ())
                ):
                    self._queue.add(key)

    def _frees_quota(self, resource: str, new: Obj, old: Obj) -> bool:
        match resource:
            case "pods":
                now = self._cluster.clock.time()
                return has_deadline(new) != has_deadline(old) or (
                    is_pod_counted(old, now) and not is_pod_counted(new, now)
                )
            case "services":
                return bool(new["spec"].get("type") != old["spec"].get("type"))
            case "persistentvolumeclaims":
                return bool(new.get("status") != old.get("status"))
        return False

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        quota = self._cluster.find(_QUOTAS, name, namespace)
        if quota is None:
            return
        hard = quota["spec"].get("hard", {})
        status = quota.get("status", {})
        used = {
            name: amount
            for name, amount in parse_resource_list(status.get("used")).items()
            if name in hard
        }
        used.update(self._count(quota, namespace))
        resource_list = parse_resource_list(status.get("used"))
        if hard != status.get("hard", {}) or used != resource_list or _lacks_status(status, hard):
            used_amounts = {name: str(amount) for name, amount in used.items()}
            self._cluster.update_status(
                _QUOTAS, {**quota, "status": {"hard": hard, "used": used_amounts}}
            )
        self._queue.add_after(key, _RESYNC_PERIOD)

    def _count(self, quota: Obj, namespace: str) -> ResourceList:
        spec, now = quota["spec"], self._cluster.clock.time()
        by_resource: dict[str, list[str]] = {}
        for name in spec.get("hard", {}):
            by_resource.setdefault(resource_of_quota_name(name), []).append(name)
        by_resource.pop("", None)
        total: ResourceList = {}
        for resource, names in by_resource.items():
            try:
                kind = self._cluster.kind_of(resource)
            except StatusError:
                continue  # a kind that is not served, or not yet
            if not kind.namespaced:
                continue
            sums: ResourceList = {name: Quantity(Fraction(0)) for name in names}
            for obj in self._cluster.list(resource, namespace):
                if is_in_scopes(spec, resource, obj):
                    taken = object_usage(resource, obj, now)
                    add_resources(sums, {name: taken[name] for name in names if name in taken})
            total.update(sums)
        return total


def _lacks_status(status: Obj, hard: Obj) -> bool:
    return bool(hard) and not ("hard" in status and "used" in status)


def _lacks_usage(quota: Obj) -> bool:
    hard, used = quota["spec"].get("hard", {}), quota.get("status", {}).get("used", {})
    return any(name not in used and resource_of_quota_name(name) for name in hard)

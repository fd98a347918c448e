"""The service controller: gives services of type LoadBalancer their load balancers.

It runs where a cluster has load balancers, as with a cloud provider.

Source: k8s.io/cloud-provider controllers/service/controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_kwait.simulator.api_errors import StatusError, ignore_not_found
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    annotations_of,
    is_being_deleted,
    name_of,
    namespace_of,
    uid_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster_protocol import Cluster

_SERVICES = "services"
_KIND = ("v1", "Service")
_FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
# Seconds until a failed sync is tried again; source: `minRetryDelay`, `maxRetryDelay`.
_MIN_RETRY_DELAY, _MAX_RETRY_DELAY = 5.0, 300.0
_BALANCED_FIELDS = (
    "ports", "sessionAffinity", "sessionAffinityConfig", "loadBalancerIP", "externalIPs",
    "loadBalancerSourceRanges", "externalTrafficPolicy", "healthCheckNodePort", "ipFamilies",
)  # fmt: skip
"""The fields of a service's spec whose change updates its load balancer; source: `needsUpdate`."""


class LoadBalancerProvider(Protocol):
    """Makes load balancers, as `cloudprovider.LoadBalancer`."""

    def has(self, service: Obj) -> bool:
        """Return whether a service has a load balancer."""

    def ensure(self, service: Obj) -> list[Obj]:
        """Create or update the load balancer of a service; return the ingress of its status.

        Raises:
            OSError: `strerror` says why it cannot be.
        """

    def ensure_deleted(self, service: Obj) -> None:
        """Delete the load balancer of a service; idempotent."""


class ServiceController:
    """Keeps the load balancers of services, their finalizers and status.

    Args:
        provider: makes the load balancers.
    """

    def __init__(self, cluster: Cluster, provider: LoadBalancerProvider) -> None:
        self._cluster, self._provider = cluster, provider
        self._recorder = EventRecorder(cluster, "service-controller")
        self._known: dict[str, Obj] = {}
        """Services that have, or should have, a load balancer, by their keys."""
        self._queue: Workqueue[str] = Workqueue(
            cluster, self._sync, "service", base_delay=_MIN_RETRY_DELAY, max_delay=_MAX_RETRY_DELAY
        )
        cluster.subscribe(_SERVICES, self._on_service)

    def _on_service(self, change: str, new: Obj, old: Obj | None) -> None:
        is_changed = wants_load_balancer(new) if old is None else _needs_update(old, new)
        is_gone = change == "DELETED" and key_of(new) in self._known
        if is_changed or is_gone or _needs_cleanup(new):
            self._queue.add(key_of(new))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        service = self._cluster.find(_SERVICES, name, namespace)
        known = self._known.get(key)
        if known is not None and (service is None or uid_of(service) != uid_of(known)):
            # Deleted without its finalizer.
            self._delete(known)
            del self._known[key]
        if service is None:
            return
        self._known[key] = service
        try:
            if wants_load_balancer(service) and not _needs_cleanup(service):
                self._ensure(service)
            else:
                self._clean_up(service)
                del self._known[key]
        except StatusError as error:
            self._record(
                service, "SyncLoadBalancerFailed", f"Error syncing load balancer: {error.message}",
                severity=WARNING,
            )  # fmt: skip
            raise

    def _ensure(self, service: Obj) -> None:
        self._record(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        try:
            self._set_finalizer(service, is_present=True)
        except StatusError as error:
            why = f"failed to add load balancer cleanup finalizer: {error.message}"
            raise _make_error(why) from error
        if not self._has_nodes():
            text = "There are no available nodes for LoadBalancer"
            self._record(service, "UnAvailableLoadBalancer", text, severity=WARNING)
        try:
            ingress = self._provider.ensure(service)
        except OSError as error:
            why = f"failed to ensure load balancer: {error.strerror}"
            raise _make_error(why) from error
        self._record(service, "EnsuredLoadBalancer", "Ensured load balancer")
        self._write_status(service, ingress)

    def _clean_up(self, service: Obj) -> None:
        """Delete the load balancer of a service that wants none any more, and its finalizer."""
        if self._provider.has(service):
            self._record(service, "DeletingLoadBalancer", "Deleting load balancer")
            self._provider.ensure_deleted(service)
        try:
            self._set_finalizer(service, is_present=False)
        except StatusError as error:
            why = f"failed to remove load balancer cleanup finalizer: {error.message}"
            raise _make_error(why) from error
        self._record(service, "DeletedLoadBalancer", "Deleted load balancer")
        self._write_status(service, [])

    def _delete(self, service: Obj) -> None:
        """Delete the load balancer of a service that does not exist any more."""
        if wants_load_balancer(service):
            self._record(service, "DeletingLoadBalancer", "Deleting load balancer")
            self._provider.ensure_deleted(service)
            self._record(service, "DeletedLoadBalancer", "Deleted load balancer")

    def _has_nodes(self) -> bool:
        return any(not is_being_deleted(node) for node in self._cluster.list("nodes"))

    # -- writing

    def _record(self, service: Obj, reason: str, text: str, *, severity: str = NORMAL) -> None:
        self._recorder.event(service, _KIND, severity, reason, text)

    def _set_finalizer(self, service: Obj, *, is_present: bool) -> None:
        if _has_finalizer(service) == is_present:
            return

        def change(changed: Obj) -> None:
            others = [
                one for one in changed["metadata"].get("finalizers") or () if one != _FINALIZER
            ]
            changed["metadata"]["finalizers"] = [*others, _FINALIZER] if is_present else others

        self._modify(service, change)

    def _write_status(self, service: Obj, ingress: list[Obj]) -> None:
        status = service.get("status") or {}
        if ((status.get("loadBalancer") or {}).get("ingress") or []) == ingress:
            return

        def change(changed: Obj) -> None:
            balancer = {"ingress": ingress} if ingress else {}
            changed["status"] = {**(changed.get("status") or {}), "loadBalancer": balancer}

        try:
            # It may go as soon as it has no finalizer.
            with ignore_not_found():
                self._modify(service, change, subresource="status")
        except StatusError as error:
            why = f"failed to update load balancer status: {error.message}"
            raise _make_error(why) from error

    def _modify(
        self, service: Obj, change: Callable[[Obj], None], *, subresource: str | None = None
    ) -> None:
        name, namespace = name_of(service), namespace_of(service)
        self._cluster.modify(_SERVICES, name, namespace, change, subresource=subresource)


def _make_error(why: str) -> StatusError:
    return StatusError(500, "InternalError", why)


def wants_load_balancer(service: Obj) -> bool:
    """Return whether a service is to have a load balancer of the cluster's own kind."""
    spec = service["spec"]
    return spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") is None


def _has_finalizer(service: Obj) -> bool:
    return _FINALIZER in (service["metadata"].get("finalizers") or ())


def _needs_cleanup(service: Obj) -> bool:
    """Return whether a service has the finalizer and no use for it."""
    if not _has_finalizer(service):
        return False
    return is_being_deleted(service) or service["spec"].get("type") != "LoadBalancer"


def _needs_update(old: Obj, new: Obj) -> bool:
    """Return whether a change of a service is one of its load balancer."""
    if not (wants_load_balancer(old) and wants_load_balancer(new)):
        return wants_load_balancer(old) or wants_load_balancer(new)
    return (
        any(old["spec"].get(field) != new["spec"].get(field) for field in _BALANCED_FIELDS)
        or annotations_of(old) != annotations_of(new)
        or uid_of(old) != uid_of(new)
    )

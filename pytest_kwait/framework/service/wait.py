"""Waits on a Service object: load balancer, finalizer, deletion.

Source: kubernetes/test/e2e/framework/service/wait.go and jig.go, network/utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import SERVICES
from pytest_kwait.engine.options import check_bool, check_text
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.named_objects import (
    AbsentObject,
    NamedObject,
    ObjectGoal,
    finalizer_goal,
)
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "wait_for_load_balancer",
    "wait_for_load_balancer_destroy",
    "wait_for_new_ingress_ip",
    "wait_for_service",
    "wait_for_service_deleted_with_finalizer",
    "wait_for_service_updated_with_finalizer",
]

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
"""The finalizer that keeps a service until its load balancer is gone."""

Obj: TypeAlias = "dict[str, Any]"


def _load_balancer_addresses(obj: Obj) -> list[str]:
    """Return the addresses of its load balancer; an empty text for an ingress without one."""
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    return [
        str(each.get("ip") or each.get("hostname") or "") for each in balancer.get("ingress") or ()
    ]


def _describe_load_balancer(obj: Obj) -> str:
    kind = (obj.get("spec") or {}).get("type") or "ClusterIP"
    points = ", ".join(point or "without an address" for point in _load_balancer_addresses(obj))
    return f"{kind}{f', ingress {points}' if points else ''}"


def _untyped(obj: Obj) -> Failed | None:
    kind = (obj.get("spec") or {}).get("type") or "ClusterIP"
    if kind == "LoadBalancer":
        return None
    # The type may still be changed.
    return Failed(f"the service is of type {kind}, which gets no load balancer", Patience.LONG)


def _none_yet(obj: Obj) -> Pending:
    kind = (obj.get("spec") or {}).get("loadBalancerClass")
    return Pending(f"no ingress yet{f', of load balancer class {kind}' if kind else ''}")


def _has_load_balancer(obj: Obj) -> Verdict:
    untyped, points = _untyped(obj), _load_balancer_addresses(obj)
    if untyped is not None:
        return untyped
    if not points:
        return _none_yet(obj)
    if not all(points):
        return Pending(f"ingress {points.index('')} has neither an IP nor a hostname")
    return Met()


def _has_no_load_balancer(obj: Obj) -> Verdict:
    points = _load_balancer_addresses(obj)
    return Pending(f"still has ingress {', '.join(points)}") if points else Met()


@wait(limit="load_balancer_create", summary="a service whose load balancer has an address")
def wait_for_load_balancer(
    client: ApiClient, namespace: str, service: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a service of type LoadBalancer once each ingress, at least one, has an address.

    An address is an IP or a hostname. Upstream fails at an ingress that has neither yet.

    Raises:
        WaitFailed: the service has another type, or was deleted.

    Source: service/jig.go WaitForLoadBalancer.
    """
    return _service(
        namespace, service, ObjectGoal("have a load balancer", _has_load_balancer, alive=True)
    )


@wait(limit="load_balancer_create", summary="a service whose load balancer has another address")
def wait_for_new_ingress_ip(
    client: ApiClient,
    namespace: str,
    service: str,
    existing_ip: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a service once its load balancer has a new first address.

    Args:
        existing_ip: the previous IP or hostname.

    Raises:
        WaitFailed: the service has another type, or was deleted.

    Source: service/jig.go WaitForNewIngressIP.
    """
    before = check_text("existing_ip", existing_ip)

    def judge(obj: Obj) -> Verdict:
        untyped, points = _untyped(obj), _load_balancer_addresses(obj)
        if untyped is not None:
            return untyped
        if not points or not points[0]:
            return _none_yet(obj)
        return Met() if points[0] != before else Pending(f"ingress is {before} still")

    goal = ObjectGoal(f"have another ingress than {before}", judge, alive=True)
    return _service(namespace, service, goal)


@wait(limit="load_balancer_cleanup", summary="a service without load balancer")
def wait_for_load_balancer_destroy(
    client: ApiClient, namespace: str, service: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any] | None]:
    """Return a service once it has no load balancer; None if it does not exist.

    Upstream waits until the limit if the service is deleted meanwhile.

    Source: service/jig.go WaitForLoadBalancerDestroy.
    """
    goal = ObjectGoal("lose its load balancer", _has_no_load_balancer, gone=True)
    return _service(namespace, service, goal)


@wait(
    limit="load_balancer_create", summary="a service with the load balancer's finalizer, or without"
)
def wait_for_service_updated_with_finalizer(
    client: ApiClient,
    namespace: str,
    service: str,
    has_finalizer: bool = True,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any] | None]:
    """Return a service once it has, or no longer has, the load balancer's finalizer.

    The finalizer is `service.kubernetes.io/load-balancer-cleanup`.

    Args:
        has_finalizer: False to wait until it is gone.

    Returns:
        The service; None if `has_finalizer` is False and the service does not exist.

    Raises:
        WaitFailed: the service was deleted before it had the finalizer.

    Source: service/wait.go WaitForServiceUpdatedWithFinalizer.
    """
    wanted = check_bool("has_finalizer", has_finalizer)
    return _service(namespace, service, finalizer_goal(FINALIZER, wanted))


@wait(limit="load_balancer_create", summary="a service that is gone, by its UID")
def wait_for_service_deleted_with_finalizer(
    client: ApiClient,
    namespace: str,
    service: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[None]:
    """Return None once a service is gone, at once if it does not exist.

    Meanwhile the message names the finalizers that hold it. A new service of the same name does not
    count. Upstream deletes the service itself first; here the caller does.

    Args:
        uid: its UID; None for the first one seen.

    Source: service/wait.go WaitForServiceDeletedWithFinalizer.
    """
    return _absent_service(namespace, service, uid)


@wait(limit="service_start", summary="a service that is there, or gone")
def wait_for_service(
    client: ApiClient,
    namespace: str,
    service: str,
    exist: bool = True,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any] | None]:
    """Return a service once it exists, or None once it is gone.

    Args:
        exist: False to wait until it is gone.

    Source: network/utils.go WaitForService.
    """
    if not check_bool("exist", exist):
        return _absent_service(namespace, service, None)
    return _service(namespace, service, ObjectGoal("get created", lambda obj: Met()))


def _service(namespace: str, name: str, goal: ObjectGoal) -> NamedObject:
    check_namespace(name, "service")
    return NamedObject(SERVICES, check_namespace(namespace), name, goal, _describe_load_balancer)


def _absent_service(namespace: str, name: str, uid: str | None) -> AbsentObject:
    check_namespace(name, "service")
    return AbsentObject(
        SERVICES,
        check_namespace(namespace),
        name,
        uid,
        _describe_load_balancer,
        _describe_finalizers,
    )


def _describe_finalizers(obj: Obj, finalizer: str) -> str:
    points = ", ".join(_load_balancer_addresses(obj))
    return f"its load balancer {points} is there still" if finalizer == FINALIZER and points else ""

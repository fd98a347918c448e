"""Waits on a Service object: load balancer, finalizer, deletion.

Source: kubernetes/test/e2e/framework/service/wait.go and jig.go, network/utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import SERVICES
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.named_objects import (
    AbsentObject,
    NamedObject,
    ObjectGoal,
    check_flag,
    check_text,
    finalizer_goal,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "load_balancer",
    "load_balancer_destroy",
    "new_ingress_ip",
    "service",
    "service_deleted_with_finalizer",
    "service_updated_with_finalizer",
    "wait_for_load_balancer",
    "wait_for_load_balancer_destroy",
    "wait_for_new_ingress_ip",
    "wait_for_service",
    "wait_for_service_deleted_with_finalizer",
    "wait_for_service_updated_with_finalizer",
]

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
"""What keeps a service until its load balancer is gone."""

Obj: TypeAlias = "dict[str, Any]"


def _load_balancer_addresses(obj: Obj) -> list[str]:
    """Return the addresses of its load balancer; an empty text for one that has none yet."""
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
    # The type may be changed still.
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


def load_balancer(namespace: str, service: str) -> NamedObject:
    """Return the condition of `wait_for_load_balancer`."""
    return _service(
        namespace, service, ObjectGoal("have a load balancer", _has_load_balancer, alive=True)
    )


def wait_for_load_balancer(
    client: ApiClient, namespace: str, service: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a service of type LoadBalancer once each ingress, at least one, has an address.

    An address is an IP or a hostname. Upstream fails at an ingress that has neither yet.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        **options: `timeout` (default: `load_balancer_create`, 15 minutes) and the other options of
            every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the service is of another type, or was deleted.
        WaitTimeout: it did not come within the limit.

    Source: service/jig.go WaitForLoadBalancer.
    """
    awaited = load_balancer(namespace, service)
    return cast("dict[str, Any]", _wait(client, awaited, options, "load_balancer_create"))


def new_ingress_ip(namespace: str, service: str, existing_ip: str) -> NamedObject:
    """Return the condition of `wait_for_new_ingress_ip`."""
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


def wait_for_new_ingress_ip(
    client: ApiClient,
    namespace: str,
    service: str,
    existing_ip: str,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a service once its load balancer has another first address than before.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        existing_ip: the IP or hostname that it had.
        **options: `timeout` (default: `load_balancer_create`, 15 minutes) and the other options of
            every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the service is of another type, or was deleted.
        WaitTimeout: it did not come within the limit.

    Source: service/jig.go WaitForNewIngressIP.
    """
    awaited = new_ingress_ip(namespace, service, existing_ip)
    return cast("dict[str, Any]", _wait(client, awaited, options, "load_balancer_create"))


def load_balancer_destroy(namespace: str, service: str) -> NamedObject:
    """Return the condition of `wait_for_load_balancer_destroy`."""
    goal = ObjectGoal("lose its load balancer", _has_no_load_balancer, gone=True)
    return _service(namespace, service, goal)


def wait_for_load_balancer_destroy(
    client: ApiClient, namespace: str, service: str, **options: Unpack[WaitOptions]
) -> dict[str, Any] | None:
    """Return a service once it has no load balancer any more; None where it is not there itself.

    Upstream goes on to the limit when the service is deleted meanwhile.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        **options: `timeout` (default: `load_balancer_cleanup`, 15 minutes) and the other options
            of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: service/jig.go WaitForLoadBalancerDestroy.
    """
    awaited = load_balancer_destroy(namespace, service)
    return cast("dict[str, Any] | None", _wait(client, awaited, options, "load_balancer_cleanup"))


def service_updated_with_finalizer(
    namespace: str, service: str, has_finalizer: bool = True
) -> NamedObject:
    """Return the condition of `wait_for_service_updated_with_finalizer`."""
    wanted = check_flag("has_finalizer", has_finalizer)
    return _service(namespace, service, finalizer_goal(FINALIZER, wanted))


def wait_for_service_updated_with_finalizer(
    client: ApiClient,
    namespace: str,
    service: str,
    has_finalizer: bool = True,
    **options: Unpack[WaitOptions],
) -> dict[str, Any] | None:
    """Return a service once it has the load balancer's finalizer, or has it no more.

    The finalizer is `service.kubernetes.io/load-balancer-cleanup`.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        has_finalizer: False to wait until it is gone.
        **options: `timeout` (default: `load_balancer_create`, 15 minutes) and the other options of
            every wait.

    Returns:
        The service; None where its finalizer was awaited to go and it is not there itself.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the finalizer can no longer come: the service was deleted.
        WaitTimeout: it did not come within the limit.

    Source: service/wait.go WaitForServiceUpdatedWithFinalizer.
    """
    awaited = service_updated_with_finalizer(namespace, service, has_finalizer)
    return cast("dict[str, Any] | None", _wait(client, awaited, options, "load_balancer_create"))


def service_deleted_with_finalizer(
    namespace: str, service: str, uid: str | None = None
) -> AbsentObject:
    """Return the condition of `wait_for_service_deleted_with_finalizer`."""
    return _absent_service(namespace, service, uid)


def wait_for_service_deleted_with_finalizer(
    client: ApiClient,
    namespace: str,
    service: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> None:
    """Return None once a service is gone, at once if there is none of that name.

    While it is there the verdict names the finalizers that hold it. Another service of the same
    name does not count. Upstream deletes the service itself first; here that is the caller's.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        uid: its UID; None to take the first one seen for the one that is meant.
        **options: `timeout` (default: `load_balancer_create`, 15 minutes) and the other options of
            every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: service/wait.go WaitForServiceDeletedWithFinalizer.
    """
    awaited = service_deleted_with_finalizer(namespace, service, uid)
    _wait(client, awaited, options, "load_balancer_create")


def service(namespace: str, service: str, exist: bool = True) -> NamedObject:
    """Return the condition of `wait_for_service`."""
    if not check_flag("exist", exist):
        return _absent_service(namespace, service, None)
    return _service(namespace, service, ObjectGoal("get created", lambda obj: Met()))


def wait_for_service(
    client: ApiClient,
    namespace: str,
    service: str,
    exist: bool = True,
    **options: Unpack[WaitOptions],
) -> dict[str, Any] | None:
    """Return a service once it is there, or None once it is gone.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        exist: False to wait until it is gone.
        **options: `timeout` (default: `service_start`, 3 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: network/utils.go WaitForService.
    """
    awaited = _awaited_service(namespace, service, exist)
    return cast("dict[str, Any] | None", _wait(client, awaited, options, "service_start"))


_awaited_service = service


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


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)

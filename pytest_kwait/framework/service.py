"""Waits on Services: load balancer, finalizer, deletion, HTTP through the service proxy.

The proxy of the API server picks a ready pod itself: kube-proxy and cluster IPs are not involved.

Source: kubernetes/test/e2e/framework/service/wait.go and jig.go, network/utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, overload

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import EVENTS, SERVICES
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.options import check_bool, check_text
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.endpoints import ServiceEndpoints
from pytest_kwait.framework.events import EventFields, EventSource, LastEventStore
from pytest_kwait.framework.named_objects import (
    AbsentObject,
    NamedObject,
    ObjectGoal,
    ProbeCondition,
    finalizer_goal,
)
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Source
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
"""The finalizer that keeps a service until its load balancer is gone."""

Obj: TypeAlias = "dict[str, Any]"
_UNTOUCHED = "and no controller works on one (on the embedded cluster: --kwait-load-balancers)"
_SYNC_FAILED = "SyncLoadBalancerFailed"
REQUEST_TIMEOUT = 10.0
"""Timeout of one request, in seconds."""


def _load_balancer_addresses(obj: Obj) -> list[str]:
    """Return the addresses of its load balancer; an empty text for an ingress without one."""
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    return [
        str(ingress.get("ip") or ingress.get("hostname") or "")
        for ingress in balancer.get("ingress") or ()
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
    return Failed(f"the service is of type {kind}, which gets no load balancer", Grace.LONG)


def _none_yet(obj: Obj) -> Pending:
    kind = (obj.get("spec") or {}).get("loadBalancerClass")
    if kind:
        return Pending(f"no ingress yet, of load balancer class {kind}")
    if FINALIZER in (obj["metadata"].get("finalizers") or ()) or _load_balancer_addresses(obj):
        return Pending("no ingress yet")
    # The service controller of a cloud provider adds it first.
    return Pending(f"no ingress yet, {_UNTOUCHED}")


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


@wait(
    limit="load_balancer_create",
    kind=SERVICES,
    summary="a service whose load balancer has an address",
)
def wait_for_load_balancer(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a service of type LoadBalancer once each ingress, at least one, has an address.

    An address is an IP or a hostname. Upstream fails at an ingress that has neither yet.

    Raises:
        WaitFailed: the service has another type, or was deleted, or the service controller
            still fails to make a load balancer.

    Source: service/jig.go WaitForLoadBalancer.
    """
    goal = ObjectGoal("have a load balancer", _has_load_balancer, alive=True)
    return BalancedService(namespace, name, goal)


@wait(
    limit="load_balancer_create",
    kind=SERVICES,
    summary="a service whose load balancer has another address",
)
def wait_for_new_ingress_ip(
    client: ApiClient,
    namespace: str,
    name: str,
    existing_ip: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a service once its load balancer has a new first address.

    Args:
        existing_ip: the previous IP or hostname.

    Raises:
        WaitFailed: the service has another type, or was deleted, or the service controller
            still fails to make a load balancer.

    Source: service/jig.go WaitForNewIngressIP.
    """
    before = check_text("existing_ip", existing_ip)

    def evaluate(obj: Obj) -> Verdict:
        untyped, points = _untyped(obj), _load_balancer_addresses(obj)
        if untyped is not None:
            return untyped
        if not points or not points[0]:
            return _none_yet(obj)
        return Met() if points[0] != before else Pending(f"ingress is {before} still")

    goal = ObjectGoal(f"have another ingress than {before}", evaluate, alive=True)
    return BalancedService(namespace, name, goal)


@wait(limit="load_balancer_cleanup", kind=SERVICES, summary="a service without load balancer")
def wait_for_load_balancer_destroy(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any] | None]:
    """Return a service once it has no load balancer; None if it does not exist.

    Upstream waits until the limit if the service is deleted meanwhile.

    Source: service/jig.go WaitForLoadBalancerDestroy.
    """
    goal = ObjectGoal("lose its load balancer", _has_no_load_balancer, gone=True)
    return _service(namespace, name, goal)


@overload
def wait_for_service_updated_with_finalizer(
    client: ApiClient,
    namespace: str,
    name: str,
    present: Literal[True] = True,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]: ...
@overload
def wait_for_service_updated_with_finalizer(
    client: ApiClient,
    namespace: str,
    name: str,
    present: bool,
    **options: Unpack[WaitOptions],
) -> dict[str, Any] | None: ...
@wait(
    limit="load_balancer_create",
    kind=SERVICES,
    summary="a service with the load balancer's finalizer, or without",
)
def wait_for_service_updated_with_finalizer(
    client: ApiClient,
    namespace: str,
    name: str,
    present: bool = True,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any] | None]:
    """Return a service once it has, or no longer has, the load balancer's finalizer.

    The finalizer is `service.kubernetes.io/load-balancer-cleanup`.

    Args:
        present: False to wait until it is gone.

    Returns:
        The service; None if `present` is False and the service does not exist.

    Raises:
        WaitFailed: the service was deleted before it had the finalizer.

    Source: service/wait.go WaitForServiceUpdatedWithFinalizer.
    """
    is_present = check_bool("present", present)
    return _service(namespace, name, finalizer_goal(FINALIZER, is_present))


@wait(limit="load_balancer_create", kind=SERVICES, summary="a service that is gone, by its UID")
def wait_for_service_deleted_with_finalizer(
    client: ApiClient,
    namespace: str,
    name: str,
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
    return _absent_service(namespace, name, uid)


@overload
def wait_for_service(
    client: ApiClient,
    namespace: str,
    name: str,
    present: Literal[True] = True,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]: ...
@overload
def wait_for_service(
    client: ApiClient,
    namespace: str,
    name: str,
    present: Literal[False],
    **options: Unpack[WaitOptions],
) -> None: ...
@overload
def wait_for_service(
    client: ApiClient,
    namespace: str,
    name: str,
    present: bool,
    **options: Unpack[WaitOptions],
) -> dict[str, Any] | None: ...
@wait(limit="service_start", kind=SERVICES, summary="a service that is there, or gone")
def wait_for_service(
    client: ApiClient,
    namespace: str,
    name: str,
    present: bool = True,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any] | None]:
    """Return a service once it exists, or None once it is gone.

    Args:
        present: False to wait until it is gone.

    Source: network/utils.go WaitForService.
    """
    if not check_bool("present", present):
        return _absent_service(namespace, name, None)
    return _service(namespace, name, ObjectGoal("get created", lambda obj: Met()))


class BalancedService(NamedObject):
    """A service reaches a state of its load balancer, which the service controller makes."""

    def __init__(self, namespace: str, name: str, goal: ObjectGoal) -> None:
        check_namespace(name, "service")
        super().__init__(SERVICES, check_namespace(namespace), name, goal, _describe_load_balancer)
        self._events = LastEventStore()
        self._event_source = EventSource(
            EVENTS, namespace, self._events, fields=EventFields, kind="Service", about=name
        )

    def deferred_source(self) -> Source | None:
        """Return the events of a service without the load balancer: they name the error."""
        return None if self.object.current is None else self._event_source

    def deferred_verdict(self) -> Failed | None:
        """Return the last error of the service controller; it goes on trying.

        Source: k8s.io/cloud-provider controllers/service/controller.go, `syncService`.
        """
        event = self._events.last(self.object.uid)
        if event is None or event.get("reason") != _SYNC_FAILED:
            return None
        message = " ".join((event.get("message") or "").split())
        return Failed(f"{_SYNC_FAILED}: {message}", Grace.LONG)


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


class AnsweringService(ServiceEndpoints, ProbeCondition):
    """A service answers over HTTP.

    Args:
        service: its name.
        port: its port, by number or name; None for its first one.
        path: the request path.
        scheme: `http` or `https`.
        any_answer: whether an error of the pods is an answer as well.
    """

    detect_pod_failure = staticmethod(detect_owned_pod_failure)

    def __init__(
        self,
        namespace: str,
        service: str,
        port: int | str | None,
        path: str,
        scheme: str,
        *,
        any_answer: bool,
    ) -> None:
        super().__init__(namespace, service, "become reachable" if any_answer else "respond")
        self._port = _check_port(port)
        value: object = path
        if not isinstance(value, str):
            raise InvalidArgument("path", value, "use a text, for example 'healthz'")
        if scheme not in ("http", "https"):
            raise InvalidArgument("scheme", scheme, "use 'http' or 'https'")
        self._path = path.removeprefix("/")
        self._scheme = scheme
        self._any_answer = any_answer
        self._reason: str | None = ""
        self._asked_ready = 0

    def _missing(self) -> str | None:
        if self._reason is None:
            return None
        if not self.slices.ready:
            return self._reason or "no endpoint is ready"
        return self._reason or "not asked yet"

    def probe_targets(self) -> Sequence[str]:
        """Return the path to request; empty without a ready endpoint or after success."""
        service = self.object
        if self._reason is None or not self.slices.ready or service.missing_verdict() is not None:
            return ()
        port = self._port
        if not port:
            ports: list[dict[str, Any]] = service.spec.get("ports") or [{}]
            port = str(ports[0].get("port") or "")
        scheme = "https:" if self._scheme == "https" else ""
        target = f"{scheme}{service.name}:{port}"
        return (f"{SERVICES.path(self.namespace, target, 'proxy')}/{self._path}",)

    def is_urgent(self) -> bool:
        """Return whether more endpoints are ready than at the last request."""
        return self._reason is not None and self.slices.ready > self._asked_ready

    def send_requests(self, targets: Sequence[str], deadline: Deadline) -> Sequence[str | None]:
        """Send one request; return why the answer does not count, or None if it does."""
        if self.session is None:
            raise InvalidArgument("session", None, "give one to ask the service with")
        self._asked_ready = self.slices.ready
        return [self._answer(self.session, path, deadline) for path in targets]

    def _answer(self, session: ApiSession, path: str, deadline: Deadline) -> str | None:
        try:
            response = session.request(
                "GET", path, accept="*/*", deadline=deadline.at_most(REQUEST_TIMEOUT)
            )
        except DeadlineExceeded:
            if deadline.expired:
                raise
            return f"no answer within {REQUEST_TIMEOUT:g}s"
        except ApiError as error:
            # These refusals come from the API server; others come from the pod.
            if error.status == 401 or (error.status == 403 and error.reason == "Forbidden"):
                raise
            if self._any_answer and error.status and not error.body:
                return None
            return f"it answered {error.status or error.reason}: {error.message}"
        if self._any_answer or response.data.strip():
            return None
        return "it answered nothing"

    def record_answers(self, answers: Sequence[str | None]) -> None:
        """Record the answer; after one that counts no further request is sent."""
        (self._reason,) = answers


@wait(
    limit="service_reachability",
    kind=SERVICES,
    summary="a service behind which a pod answers anything",
)
def wait_for_service_reachable(
    client: ApiClient,
    namespace: str,
    name: str,
    port: int | str | None = None,
    path: str = "",
    scheme: str = "http",
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once a pod behind it has answered, with any status.

    The request goes through the API server's service proxy, as soon as an endpoint is ready and
    then every `poll`. Upstream opens connections to names, cluster addresses and node ports from a
    pod of its own; this wait needs no such pod, and does not test the cluster network.

    Args:
        port: the service's port, by number or by name; by default its first one.
        path: the request path, without a query.
        scheme: `http` or `https`.

    Raises:
        ApiError: the server refuses a request, including the use of its proxy.
        WaitFailed: the service was deleted, can have no endpoints, or its pods are stuck.

    Source: service/jig.go CheckServiceReachability, and test/e2e/network/proxy.go.
    """
    return AnsweringService(namespace, name, port, path, scheme, any_answer=True)


@wait(limit="service_responding", kind=SERVICES, summary="a service that answers with success")
def wait_for_service_responding(
    client: ApiClient,
    namespace: str,
    name: str,
    port: int | str | None = None,
    path: str = "",
    scheme: str = "http",
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once it has answered with status 2xx and content.

    The request goes through the API server's service proxy, as soon as an endpoint is ready and
    then every `poll`.

    Args:
        port: the service's port, by number or by name; by default its first one.
        path: the request path, without a query.
        scheme: `http` or `https`.

    Raises:
        ApiError: the server refuses a request, including the use of its proxy.
        WaitFailed: the service was deleted, can have no endpoints, or its pods are stuck.

    Source: service/util.go TestReachableHTTP, which requests the address itself.
    """
    return AnsweringService(namespace, name, port, path, scheme, any_answer=False)


def _check_port(port: object) -> str:
    if port is None:
        return ""
    number = isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536
    name = isinstance(port, str) and port.replace("-", "").isalnum() and len(port) <= 63
    if not number and not name:
        raise InvalidArgument("port", port, "use a number from 1 to 65535, a port's name, or None")
    return str(port)

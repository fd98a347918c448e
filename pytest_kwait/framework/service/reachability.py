"""Wait until a service answers over HTTP, through the API server's service proxy.

The proxy itself picks one of the ready pods: kube-proxy and cluster IPs are not involved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.client.resource import SERVICES
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.endpoints.conditions import ServiceEndpoints
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "AnsweringService",
    "wait_for_service_reachable",
    "wait_for_service_responding",
]

REQUEST_TIMEOUT = 10.0
"""Timeout of one request, in seconds."""


class AnsweringService(ServiceEndpoints):
    """A service answers over HTTP.

    Args:
        namespace: the namespace of the service.
        service: its name.
        port: its port, by number or name; None for its first one.
        path: the request path.
        scheme: `http` or `https`.
        any_answer: whether an error of the pods is an answer as well.

    Raises:
        InvalidArgument: an argument is invalid.
    """

    pod_doom = staticmethod(detect_owned_pod_failure)
    session: Session | None = None
    """The client for requests; set by the wait."""

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
        given: object = path
        if not isinstance(given, str):
            raise InvalidArgument("path", given, "use a text, for example 'healthz'")
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

    def questions(self) -> Sequence[str]:
        """Return the path to request; empty without a ready endpoint or after success."""
        service = self.service
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

    def ask(self, questions: Sequence[str], deadline: Deadline) -> Sequence[str | None]:
        """Send one request; return why the answer does not count, or None if it does."""
        if self.session is None:
            raise InvalidArgument("session", None, "give one to ask the service with")
        self._asked_ready = self.slices.ready
        return [self._answer(self.session, path, deadline) for path in questions]

    def _answer(self, session: Session, path: str, deadline: Deadline) -> str | None:
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


@wait(limit="service_reachability", summary="a service behind which a pod answers anything")
def wait_for_service_reachable(
    client: ApiClient,
    namespace: str,
    service: str,
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
    return AnsweringService(namespace, service, port, path, scheme, any_answer=True)


@wait(limit="service_responding", summary="a service that answers with success")
def wait_for_service_responding(
    client: ApiClient,
    namespace: str,
    service: str,
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
    return AnsweringService(namespace, service, port, path, scheme, any_answer=False)


def _check_port(port: object) -> str:
    if port is None:
        return ""
    number = isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536
    name = isinstance(port, str) and port.replace("-", "").isalnum() and len(port) <= 63
    if not number and not name:
        raise InvalidArgument("port", port, "use a number from 1 to 65535, a port's name, or None")
    return str(port)

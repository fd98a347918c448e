"""Wait until a service answers over HTTP, through the API server's service proxy.

The proxy picks one of the ready pods itself: kube-proxy and cluster IPs are not involved.
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
"""Seconds that one answer may take."""


class AnsweringService(ServiceEndpoints):
    """A service answers.

    Args:
        namespace: where the service is.
        service: its name.
        port: its port, by number or name; None for its first one.
        path: what is asked for.
        scheme: `http` or `https`.
        any_answer: whether an error of the pods is an answer as well.

    Raises:
        InvalidArgument: an argument that cannot be meant.
    """

    pod_doom = staticmethod(detect_owned_pod_failure)
    session: Session | None = None
    """Who asks; set by the wait."""

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
        """Return the path to ask for, once an endpoint is ready, until there was an answer."""
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
        """Whether more endpoints are ready than when it was asked last."""
        return self._reason is not None and self.slices.ready > self._asked_ready

    def ask(self, questions: Sequence[str], deadline: Deadline) -> Sequence[str | None]:
        """Ask once; return why the answer will not do, or None if it will."""
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
            # The API server says so itself; what else is refused is refused by the pod.
            if error.status == 401 or (error.status == 403 and error.reason == "Forbidden"):
                raise
            if self._any_answer and error.status and not error.body:
                return None
            return f"it answered {error.status or error.reason}: {error.message}"
        if self._any_answer or response.data.strip():
            return None
        return "it answered nothing"

    def record_answers(self, answers: Sequence[str | None]) -> None:
        """Note what came of it; nothing is asked after an answer that will do."""
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
    """Return a service's EndpointSlices once a pod behind it has answered, with whatever status.

    It is asked through the API server's service proxy, as soon as an endpoint is ready and every
    `poll` from then on. Upstream opens connections to names, cluster addresses and node ports from
    a pod of its own; here neither such a pod is needed, nor its network looked at.

    Args:
        port: the service's port, by number or by name; its first one if not given.
        path: what is asked for, without a query.
        scheme: `http` or `https`.

    Raises:
        ApiError: the server refuses, the use of its proxy included.
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
    """Return a service's EndpointSlices once it has answered with status 2xx and some content.

    It is asked through the API server's service proxy, as soon as an endpoint is ready and every
    `poll` from then on.

    Args:
        port: the service's port, by number or by name; its first one if not given.
        path: what is asked for, without a query.
        scheme: `http` or `https`.

    Raises:
        ApiError: the server refuses, the use of its proxy included.
        WaitFailed: the service was deleted, can have no endpoints, or its pods are stuck.

    Source: service/util.go TestReachableHTTP, which asks the address itself.
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

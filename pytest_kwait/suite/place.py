"""Where verbs act: a client, a namespace, and the terms in force when one is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytest_kwait.apimachinery.durations import Duration, to_seconds
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.suite.bound_wait import WaitDefaults

__all__ = ["NamespacedClient"]

_Result = TypeVar("_Result")


class NamespacedClient:
    """A namespace seen through a client; requests from it are tried again within their limit.

    Args:
        client: the client that the verbs use.
        namespace: the namespace that everything without one goes to.
        terms: settings, timeouts and limits in force when a verb is called.
    """

    def __init__(
        self, client: ApiClient, namespace: str, terms: Callable[[], WaitDefaults]
    ) -> None:
        self.client = client
        self.namespace = namespace
        self._terms = terms
        self._session = Session.of(client)

    def _target(self, target: str) -> tuple[Resource, str]:
        kind, slash, name = target.partition("/")
        if not (kind and slash and name) or "/" in name:
            raise InvalidArgument("target", target, "use kind/name, for example 'job/pi'")
        return self._resolve(kind), name

    def _resolve(self, kind: str, api_version: str | None = None) -> Resource:
        return self._ask(
            lambda deadline: self._session.resolve(kind, api_version, deadline=deadline)
        )

    def _place(self, resource: Resource, namespace: str | None) -> str | None:
        return (namespace or self.namespace) if resource.namespaced else None

    def _deadline(self, timeout: Duration | None = None) -> Deadline:
        terms = self._terms()
        seconds = terms.timeouts["single_call"]
        if timeout is not None:
            seconds = to_seconds(timeout, what="timeout", allow_zero=False)
        allowance = terms.allowance()
        if allowance is not None:
            seconds = min(seconds, max(allowance.seconds, 1.0))
        return Deadline.after(seconds, self._session.clock)

    def _ask(self, call: Callable[[Deadline], _Result]) -> _Result:
        return request_with_retry(call, self._deadline())

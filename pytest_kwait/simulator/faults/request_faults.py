"""Requests that are refused, kept waiting, or told that their history is gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError, expired, internal_error

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo

__all__ = ["CLIENT_HEADER", "FaultScope", "RequestFault", "get_request_verb"]

CLIENT_HEADER = "Kwait-Client"
"""The header by which a client says who it is, for faults that are its own alone."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_TOO_MANY_REQUESTS = (
    "The apiserver is currently processing too many requests. Please try again later."
)


def get_request_verb(request: ApiRequest, target: RequestInfo) -> str:
    """What a request asks, as authorization calls it."""
    if request.method not in ("GET", "HEAD"):
        verb = _VERBS.get(request.method, "")
        return "deletecollection" if verb == "delete" and not target.name else verb
    if target.watch or (not target.name and request.flag("watch")):
        return "watch"
    return "get" if target.name else "list"


@dataclass(frozen=True, slots=True)
class FaultScope:
    """Whom a fault is for.

    Args:
        namespace: only what is asked of objects there; empty for everything.
        client: only what the client of that name asks; empty for everybody.
        resources: only these resources, as `pods`; empty for all.
        verbs: only these verbs; empty for all.
    """

    namespace: str = ""
    client: str = ""
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    def covers(self, namespace: str, client: str, resource: str, verb: str) -> bool:
        """Whether a request is meant."""
        return (
            (not self.namespace or namespace == self.namespace)
            and (not self.client or client == self.client)
            and (not self.resources or resource in self.resources)
            and (not self.verbs or verb in self.verbs)
        )


@dataclass(slots=True)
class RequestFault:
    """What happens to the requests of one scope.

    Args:
        scope: which requests.
        status: 429 or 500, what they are refused with; 0 lets them through.
        retry_after: seconds that a refusal with 429 asks to wait; 0 leaves that out.
        delay: seconds that they wait before they are answered.
        floor: watches from before this revision are told that it is too old; 0 for none.
        times: how many requests it still meets; None for all.
    """

    scope: FaultScope
    status: int = 0
    retry_after: int = 0
    delay: float = 0.0
    floor: int = 0
    times: int | None = None
    hits: int = 0
    """How many it has met."""

    def applies_to(self, request: ApiRequest, target: RequestInfo) -> bool:
        """Whether it meets the request, which counts then."""
        if self.times == 0:
            return False
        verb = get_request_verb(request, target)
        client = request.header(CLIENT_HEADER)
        if not self.scope.covers(target.namespace or "", client, target.resource, verb):
            return False
        if self.floor and not (verb == "watch" and 0 < _resource_version(request) < self.floor):
            return False
        self.hits += 1
        if self.times is not None:
            self.times -= 1
        return True

    def refuse(self, request: ApiRequest) -> None:
        """Refuse a request that it meets, where that is what it does.

        A watch from too early a revision is let in, and told in its first event, as upstream.

        Raises:
            StatusError: 429 or 500 in the server's own words.
        """
        if self.floor:
            request.expired = expired(
                f"too old resource version: {_resource_version(request)} ({self.floor})"
            )
        if self.status == 429:
            headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
            details = {"retryAfterSeconds": self.retry_after} if self.retry_after else {}
            raise StatusError(429, "TooManyRequests", _TOO_MANY_REQUESTS, details, headers)
        if self.status:
            raise internal_error("etcdserver: request timed out")


def _resource_version(request: ApiRequest) -> int:
    text = request.query.get("resourceVersion", "")
    return int(text) if text.isdigit() else 0

"""The faults that are active in a cluster, and their holders.

A fault of requests refuses or delays them, or expires their resource version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import StatusError, expired, internal_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "CLIENT_HEADER",
    "ActiveFault",
    "ActiveFaults",
    "FaultScope",
    "FaultableNode",
    "OpenWatch",
    "PullFault",
    "RequestFault",
    "get_request_verb",
]

CLIENT_HEADER = "Kwait-Client"
"""The header by which a client says who it is, for faults that are its own alone."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_TOO_MANY_REQUESTS = (
    "The apiserver is currently processing too many requests. Please try again later."
)


class Request(Protocol):
    """The part of an HTTP request that faults read."""

    method: str
    expired: StatusError | None

    @property
    def query(self) -> Mapping[str, str]:
        """The query's parameters."""
        ...

    def header(self, name: str) -> str:
        """Return a header's value."""
        ...

    def flag(self, name: str) -> bool:
        """Whether a parameter is set."""
        ...


class Target(Protocol):
    """The resource that a request's path names."""

    @property
    def resource(self) -> str:
        """The resource, in plural."""
        ...

    @property
    def namespace(self) -> str | None:
        """The namespace."""
        ...

    @property
    def name(self) -> str:
        """The object's name."""
        ...

    @property
    def watch(self) -> bool:
        """Whether the path asks for a watch."""
        ...


def get_request_verb(request: Request, target: Target) -> str:
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

    def applies_to(self, request: Request, target: Target) -> bool:
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

    def refuse(self, request: Request) -> None:
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


def _resource_version(request: Request) -> int:
    text = request.query.get("resourceVersion", "")
    return int(text) if text.isdigit() else 0


class OpenWatch(Protocol):
    """A watch that is being served."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Namespace, client and resource; a namespace that is empty is all of them."""
        ...

    def cut(self) -> None:
        """End its connection in the middle."""
        ...


class FaultableNode(Protocol):
    """A node, as far as it can be broken."""

    def begin(self, *, dead: bool) -> None:
        """Cut it off, or end its kubelet."""
        ...

    def end(self, *, dead: bool) -> None:
        """Take that back."""
        ...

    def press(self, what: str) -> None:
        """Have it run short of `memory` or `disk`."""
        ...

    def release(self, what: str) -> None:
        """Take that back."""
        ...

    def run_out_of_memory(self, namespace: str, pod: str, container: str) -> bool:
        """Have the kernel kill a container; whether it ran."""
        ...


@dataclass(slots=True)
class PullFault:
    """What happens to pulls.

    Args:
        namespace: for pods there; empty for all.
        image: of images in whose full name this is found; empty for all.
        delay: seconds that a pull takes longer.
        failure: what a pull ends with, in the container runtime's words; empty where it succeeds.
    """

    namespace: str = ""
    image: str = ""
    delay: float = 0.0
    failure: str = ""
    hits: int = 0
    """How many it has met."""


@dataclass(slots=True)
class ActiveFault:
    """One fault that is there.

    Args:
        id: what it is known by.
        holder: who holds it.
        undo: ends it.
        hits: how many it has met so far.
    """

    id: str
    holder: str
    undo: Callable[[], None]
    hits: Callable[[], int] = field(default=lambda: 0)


class ActiveFaults:
    """The faults of one cluster; while there are none, nobody pays for asking."""

    def __init__(self) -> None:
        self.requests: list[RequestFault] = []
        self.pulls: list[PullFault] = []
        self.watches: set[OpenWatch] = set()
        self.nodes: dict[str, FaultableNode] = {}
        self.records: dict[str, ActiveFault] = {}
        self._holders: set[str] = set()
        self._numbers = count(1)

    # -- who holds what

    def enter(self) -> str:
        """Make a holder; what it holds ends with it."""
        holder = f"holder-{next(self._numbers)}"
        self._holders.add(holder)
        return holder

    def leave(self, holder: str) -> None:
        """End a holder, and all that it holds, the newest first."""
        self._holders.discard(holder)
        for record in reversed(list(self.records.values())):
            if record.holder == holder:
                self.undo(record.id)

    def has_holder(self, holder: str) -> bool:
        """Whether there is such a holder."""
        return holder in self._holders

    def add(
        self, holder: str, undo: Callable[[], None], hits: Callable[[], int] = lambda: 0
    ) -> ActiveFault:
        """Note a fault that is there from now on."""
        record = ActiveFault(f"fault-{next(self._numbers)}", holder, undo, hits)
        self.records[record.id] = record
        return record

    def undo(self, fault: str) -> bool:
        """End a fault; whether there was one of that id."""
        record = self.records.pop(fault, None)
        if record is None:
            return False
        record.undo()
        return True

    # -- what they do

    async def meet(self, request: Request, target: Target) -> None:
        """Let the faults of requests happen to this one.

        Raises:
            StatusError: one of them refuses it.
        """
        met = [fault for fault in self.requests if fault.applies_to(request, target)]
        seconds = sum(fault.delay for fault in met)
        if seconds:
            await async_sleep(seconds)
        for fault in met:
            fault.refuse(request)

    def pull(self, namespace: str, image: str) -> tuple[float, str]:
        """How many seconds longer a pull takes, and what it ends with; empty where it succeeds."""
        delay, failure = 0.0, ""
        for fault in self.pulls:
            if fault.namespace in ("", namespace) and fault.image in image:
                fault.hits += 1
                delay += fault.delay
                failure = failure or fault.failure
        return delay, failure

    def cut_watches(self, scope: FaultScope) -> int:
        """End the open watches of a scope; how many there were."""
        found = [watch for watch in self.watches if scope.covers(*watch.place, "watch")]
        for watch in found:
            watch.cut()
        return len(found)

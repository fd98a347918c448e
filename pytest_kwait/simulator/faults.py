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

CLIENT_HEADER = "Kwait-Client"
"""The header with a client's name, for faults that apply to that client alone."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
TOO_MANY_REQUESTS = (
    "The apiserver is currently processing too many requests. Please try again later."
)
"""The message of a 429. Source: pkg/server/filters/maxinflight.go, `tooManyRequests`."""


class FaultableRequest(Protocol):
    """A request, as far as a fault can apply to it."""

    expired: StatusError | None
    """The error that a watch reports as its first event."""

    method: str

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters."""

    def flag(self, name: str) -> bool:
        """Return whether a query parameter is true."""

    def header(self, name: str) -> str:
        """Return the value of a header; empty if absent."""


class RequestTarget(Protocol):
    """The resource or object that a request is for."""

    @property
    def namespace(self) -> str | None:
        """The namespace; None for cluster-wide resources."""

    @property
    def resource(self) -> str:
        """The plural name of the resource."""

    @property
    def name(self) -> str:
        """The name of the object; empty for a collection."""

    @property
    def watch(self) -> bool:
        """Return whether the path has the deprecated `watch` prefix."""


def get_request_verb(request: FaultableRequest, target: RequestTarget) -> str:
    """Return the verb of a request, as authorization names it."""
    if request.method not in ("GET", "HEAD"):
        verb = _VERBS.get(request.method, "")
        return "deletecollection" if verb == "delete" and not target.name else verb
    if target.watch or (not target.name and request.flag("watch")):
        return "watch"
    return "get" if target.name else "list"


@dataclass(frozen=True, slots=True)
class FaultSelector:
    """The requests that a fault applies to; an empty field selects all.

    Args:
        client: the name of the client.
        resources: plural names of resources, for example `pods`.
        verbs: verbs as authorization names them.
    """

    namespace: str = ""
    client: str = ""
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    def covers(self, namespace: str, client: str, resource: str, verb: str) -> bool:
        """Return whether the scope contains such a request."""
        return (
            (not self.namespace or namespace == self.namespace)
            and (not self.client or client == self.client)
            and (not self.resources or resource in self.resources)
            and (not self.verbs or verb in self.verbs)
        )


@dataclass(slots=True)
class RequestFault:
    """A fault of the requests of one scope.

    Args:
        scope: the requests that it applies to.
        status: the status of a refusal, 429 or 500; 0 for none.
        retry_after: the Retry-After seconds of a 429; 0 for none.
        delay: seconds before a request is answered.
        floor: watches from an earlier revision get "too old resource version"; 0 for none.
        times: how many more requests it applies to; None for all.
    """

    scope: FaultSelector
    status: int = 0
    retry_after: int = 0
    delay: float = 0.0
    floor: int = 0
    times: int | None = None
    hits: int = 0
    """The pulls or requests that it has applied to."""

    def applies_to(self, request: FaultableRequest, target: RequestTarget) -> bool:
        """Return whether it applies to the request; counts it if so."""
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

    def refuse(self, request: FaultableRequest) -> None:
        """Refuse a request with the fault's status, if it has one.

        A watch from an expired revision is accepted and gets the error as its first event.

        Raises:
            StatusError: 429 or 500 with the server's own message.
        """
        if self.floor:
            request.expired = expired(
                f"too old resource version: {_resource_version(request)} ({self.floor})"
            )
        if self.status == 429:
            headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
            details = {"retryAfterSeconds": self.retry_after} if self.retry_after else {}
            raise StatusError(429, "TooManyRequests", TOO_MANY_REQUESTS, details, headers)
        if self.status:
            raise internal_error("etcdserver: request timed out")


def _resource_version(request: FaultableRequest) -> int:
    text = request.query.get("resourceVersion", "")
    return int(text) if text.isdigit() else 0


class OpenWatch(Protocol):
    """An open watch."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Namespace (empty for all), client and resource."""

    def cut(self) -> None:
        """Close its connection without an end."""


class FaultableNode(Protocol):
    """A node that faults can apply to."""

    def begin(self, *, dead: bool) -> None:
        """Partition it from the API server, or stop its kubelet if `dead`."""

    def end(self, *, dead: bool) -> None:
        """Undo `begin`."""

    def start_pressure(self, resource: str) -> None:
        """Put it under pressure of `memory` or `disk`."""

    def end_pressure(self, resource: str) -> None:
        """Undo `start_pressure`."""

    def run_out_of_memory(self, namespace: str, pod: str, container: str) -> bool:
        """Kill a container as the kernel does; False if it was not running."""


@dataclass(slots=True)
class PullFault:
    """A fault of image pulls.

    Args:
        namespace: the namespace of the pods; empty for all.
        image: a part of the image's full name; empty for all.
        delay: seconds that a pull takes longer.
        failure: the container runtime's error; empty if pulls succeed.
    """

    namespace: str = ""
    image: str = ""
    delay: float = 0.0
    failure: str = ""
    hits: int = 0
    """The pulls or requests that it has applied to."""


@dataclass(slots=True)
class ActiveFault:
    """An active fault.

    Args:
        id: unique in the cluster.
        holder: the id of its holder.
        undo: ends it.
        hits: returns how many requests or pulls it has applied to.
        is_listed: False for what ends as a fault does and is none, such as an image's mapping.
    """

    id: str
    holder: str
    undo: Callable[[], None]
    hits: Callable[[], int] = field(default=lambda: 0)
    is_listed: bool = True


class ActiveFaults:
    """The active faults of one cluster."""

    def __init__(self) -> None:
        self.requests: list[RequestFault] = []
        self.pulls: list[PullFault] = []
        self.watches: dict[OpenWatch, None] = {}
        self.nodes: dict[str, FaultableNode] = {}
        self.records: dict[str, ActiveFault] = {}
        self._holders: set[str] = set()
        self._numbers = count(1)

    def add_holder(self) -> str:
        """Return a new holder; its faults end with it."""
        holder = f"holder-{next(self._numbers)}"
        self._holders.add(holder)
        return holder

    def remove_holder(self, holder: str) -> None:
        """Remove a holder and undo its faults, the newest first."""
        self._holders.discard(holder)
        for record in reversed(list(self.records.values())):
            if record.holder == holder:
                self.undo(record.id)

    def has_holder(self, holder: str) -> bool:
        """Return whether the holder exists."""
        return holder in self._holders

    def add(
        self,
        holder: str,
        undo: Callable[[], None],
        hits: Callable[[], int] = lambda: 0,
        *,
        is_listed: bool = True,
    ) -> ActiveFault:
        """Register an active fault."""
        record = ActiveFault(f"fault-{next(self._numbers)}", holder, undo, hits, is_listed)
        self.records[record.id] = record
        return record

    def undo(self, fault: str) -> bool:
        """End the fault with this id; False if there is none."""
        record = self.records.pop(fault, None)
        if record is None:
            return False
        record.undo()
        return True

    async def apply_to_request(self, request: FaultableRequest, target: RequestTarget) -> None:
        """Delay or refuse the request by the faults that cover it.

        Raises:
            StatusError: a fault refuses the request.
        """
        met = [fault for fault in self.requests if fault.applies_to(request, target)]
        seconds = sum(fault.delay for fault in met)
        if seconds:
            await async_sleep(seconds)
        for fault in met:
            fault.refuse(request)

    def apply_to_pull(self, namespace: str, image: str) -> tuple[float, str]:
        """Return the seconds that a pull takes longer, and its error; empty if it succeeds."""
        delay, failure = 0.0, ""
        for fault in self.pulls:
            if fault.namespace in ("", namespace) and fault.image in image:
                fault.hits += 1
                delay += fault.delay
                failure = failure or fault.failure
        return delay, failure

    def cut_watches(self, scope: FaultSelector) -> int:
        """End the open watches of a scope and return their number."""
        watches = [watch for watch in self.watches if scope.covers(*watch.place, "watch")]
        for watch in watches:
            watch.cut()
        return len(watches)

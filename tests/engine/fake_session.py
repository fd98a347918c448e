"""A session without a server: objects that change by a script, on a clock moved by the wait."""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from pytest_kwait.client.availability import Availability, ClusterEnded
from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.client.responses import Item, ObjectList, Response, WatchEvent, decode_object
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ApiError
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Deadline

Obj = dict[str, Any]
Outage = Literal["refused", "silent"]
_READER = "kwait-watch-"


class ScriptClock(FakeClock):
    """A clock that moves on only when every reader of a watch has nothing left to do."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = threading.get_ident()
        self._idle: set[int] = set()
        self.state = threading.Condition()

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        if threading.get_ident() == self._owner:
            self.settle()
            return super().wait(event, timeout)
        over = threading.Event()
        reader = threading.get_ident()

        def wake() -> None:
            self.busy(reader)
            over.set()

        if timeout is not None:
            self.pauses.append(timeout)
            self.call_later(timeout, wake)
        self.idle(reader)
        while not over.wait(0.001) and not event.is_set():
            pass
        self.busy(reader)
        return event.is_set()

    def call_later(self, seconds: float, call: Callable[[], object]) -> None:
        def settled() -> None:
            call()
            self.settle()

        super().call_later(seconds, settled)

    def idle(self, reader: int) -> None:
        with self.state:
            self._idle.add(reader)
            self.state.notify_all()

    def busy(self, reader: int) -> None:
        with self.state:
            self._idle.discard(reader)

    def settle(self) -> None:
        """Return once every reader waits for an event or for time to pass."""
        with self.state:
            assert self.state.wait_for(self._all_idle, 60.0), "a reader does not come to rest"

    def _all_idle(self) -> bool:
        readers = [t for t in threading.enumerate() if t.name.startswith(_READER)]
        # A thread that ends tells nobody: look again soon.
        busy = [t for t in readers if t.ident not in self._idle]
        if busy:
            threading.Timer(0.001, self._nudge).start()
        return not busy

    def _nudge(self) -> None:
        with self.state:
            self.state.notify_all()


class Silence(DeadlineExceeded):
    """No answer, for as long as the caller listens."""


class FakeGuard:
    """One request, as the availability of its server sees it."""

    def __init__(self, started_at: float) -> None:
        self.started_at = started_at
        self.is_answered = False

    def end(self) -> None:
        """The requests themselves look whether their server has ended."""


class FakeWatch(FakeGuard):
    """One open watch."""

    def __init__(
        self, session: FakeSession, matches: Callable[[Obj], bool], options: dict[str, Any]
    ) -> None:
        super().__init__(session.clock.monotonic())
        self._session = session
        self._clock = session.script_clock
        self._matches = matches
        self._shape = options.get("type")
        self.inactivity: float = options.get("inactivity") or 0.0
        self._queue: deque[tuple[str, Obj] | ApiError | None] = deque()
        self._reader = 0
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        self._reader = threading.get_ident()
        with self._clock.state:
            if not self._queue and not self.closed:
                self._clock.idle(self._reader)
            self._clock.state.wait_for(lambda: self._queue or self.closed)
            self._clock._idle.discard(self._reader)
            item = self._queue.popleft() if self._queue and not self.closed else None
        if isinstance(item, Exception):
            raise item
        if item is None:
            raise StopIteration
        kind, obj = item
        raw = msgspec.json.encode(obj)
        self._session.count_step("event")
        return WatchEvent(kind, decode_object(raw, self._shape), raw)

    def send(self, item: tuple[str, Obj] | Exception | None) -> None:
        if isinstance(item, tuple) and item[0] != "BOOKMARK" and not self._matches(item[1]):
            return
        with self._clock.state:
            self._queue.append(item)  # type: ignore[arg-type]  # any exception may be scripted
            self._clock._idle.discard(self._reader)
            self._clock.state.notify_all()

    def end(self) -> None:
        """Let the reader see that the server has ended."""
        if not self.closed:
            self.send(ClusterEnded(self._session.availability.problem, reason="ClusterEnded"))

    def close(self) -> None:
        self._session.availability.end(self)
        with self._clock.state:
            self.closed = True
            self._clock._idle.discard(self._reader)
            self._clock.state.notify_all()


class FakeSession(ApiSession):
    """A session whose answers are scripted.

    `requests` holds every request in order; `fail(...)` queues an error for the next one of a
    kind; `at(seconds, …)` and `at_step(…)` let something happen later.
    """

    def __init__(self) -> None:
        self.script_clock = ScriptClock()
        self.clock = self.script_clock
        self.requests: list[str] = []
        self.log_texts: dict[str, str] = {}
        self.kubelets: dict[str, list[Obj] | Exception] = {}
        self.watches: list[tuple[str, FakeWatch]] = []
        self.custom: dict[str, Resource] = {}
        self.namespace_there = "ci-1"
        self.outage: Outage | None = None
        self._steps: dict[str, int] = {}
        self._at_steps: dict[tuple[str, int], Callable[[], object]] = {}
        self._objects: dict[str, dict[str, Obj]] = {}
        self._version = 100
        self._history: list[tuple[str, int, tuple[str, Obj]]] = []
        self._failures: dict[tuple[str, str], deque[Exception]] = {}
        self._availability = Availability("https://fake", self.script_clock)

    @property
    def availability(self) -> Availability:
        return self._availability

    def at(self, seconds: float, call: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        self.script_clock.call_later(seconds, lambda: call(*args, **kwargs))

    def at_step(self, step: str, number: int, call: Callable[[], object]) -> None:
        """Call a function before that request from now on, or once that event is read.

        Args:
            step: `list`, `watch`, `get` or `event`; requests for evidence do not count.
            number: counted from 1.
        """
        self._at_steps[step, self._steps.get(step, 0) + number] = call

    def count_step(self, step: str) -> None:
        if not _is_of_wait():
            return
        self._steps[step] = number = self._steps.get(step, 0) + 1
        call = self._at_steps.pop((step, number), None)
        if call is not None:
            call()

    def begin_outage(self, outage: Outage) -> None:
        """Let the server refuse connections, or answer nothing more, watches included."""
        self.outage = outage
        watches = [watch for _, watch in self.watches if not watch.closed]
        for watch in watches:
            if outage == "refused":
                watch.send(ApiError("reset by peer", reason="ConnectionReset"))
            elif watch.inactivity:
                inactive = ApiError("nothing came", reason="WatchInactive")
                self.at(watch.inactivity, watch.send, inactive)

    def close(self) -> None:
        """End all requests, and the threads of watches."""
        self.availability.report_problem("the test is over")
        for thread in threading.enumerate():
            if thread.name.startswith(_READER):
                thread.join(60.0)
                assert not thread.is_alive()

    def put(self, resource: Resource, obj: Obj) -> None:
        """Create or change an object."""
        self._version += 1
        metadata = {"namespace": "ci-1", "uid": f"uid-{obj['metadata']['name']}"}
        metadata |= obj["metadata"] | {"resourceVersion": str(self._version)}
        stored = {**obj, "metadata": metadata}
        store = self._objects.setdefault(resource.plural, {})
        kind = "MODIFIED" if metadata["name"] in store else "ADDED"
        store[metadata["name"]] = stored
        self._tell(resource.plural, (kind, stored))

    def drop(self, resource: Resource, name: str) -> None:
        """Delete an object."""
        self._version += 1
        gone = self._objects[resource.plural].pop(name)
        gone = {**gone, "metadata": gone["metadata"] | {"resourceVersion": str(self._version)}}
        self._tell(resource.plural, ("DELETED", gone))

    def silently(self, change: Callable[..., None], *args: Any) -> None:
        """Change something without any watch telling of it, open or opened later."""
        watches, self.watches = self.watches, []
        history = list(self._history)
        change(*args)
        self.watches, self._history = watches, history

    def send(self, resource: Resource, item: tuple[str, Obj] | Exception | None) -> None:
        """Let the open watches of a kind read an event, an error or (None) their end."""
        self._send(resource.plural, item)

    def bookmark(self, resource: Resource) -> None:
        self._version += 1
        metadata = {"resourceVersion": str(self._version)}
        self.send(resource, ("BOOKMARK", {"metadata": metadata}))

    def fail(self, verb: str, resource: Resource, *errors: Exception) -> None:
        """Let the next requests of this kind fail."""
        self._failures.setdefault((verb, resource.plural), deque()).extend(errors)

    def fail_logs(self, run: str, *errors: Exception) -> None:
        """Let the next requests for a log fail: of `pod/container` or `pod/container previous`."""
        self._failures.setdefault(("logs", run), deque()).extend(errors)

    def count(self, request: str) -> int:
        return sum(entry.startswith(request) for entry in self.requests)

    def credentials(self) -> frozenset[str]:
        return frozenset({"own-credential"})

    def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> ObjectList:
        self._ask("list", resource.plural, options)
        matches = _matcher(options)
        items = []
        for obj in self._objects.get(resource.plural, {}).values():
            if matches(obj):
                raw = msgspec.json.encode({k: v for k, v in obj.items() if k != "kind"})
                items.append(Item(decode_object(raw, options.get("type")), raw))
        return ObjectList(items, str(self._version))

    def watch(  # type: ignore[override]  # a watch of its own
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> FakeWatch:
        self._ask("watch", resource.plural, options, f"@{options['resource_version']}")
        watch = FakeWatch(self, _matcher(options), options)
        self._availability.begin(watch)
        self._availability.record_answer(watch)
        since = int(options["resource_version"])
        for plural, version, item in self._history:
            if plural == resource.plural and version > since:
                watch.send(item)
        self.watches.append((resource.plural, watch))
        return watch

    def get(
        self, resource: Resource, name: str, namespace: str | None = None, **options: Any
    ) -> Obj:
        self._ask("get", resource.plural, options, name)
        if resource == NAMESPACES and name == self.namespace_there:
            return self._objects.get("namespaces", {}).get(name) or {"metadata": {"name": name}}
        try:
            return self._objects.get(resource.plural, {})[name]
        except KeyError:
            message = f'{resource.qualified} "{name}" not found'
            raise ApiError(message, status=404, reason="NotFound") from None

    def logs(self, namespace: str, pod: str, **options: Any) -> str:
        run = " previous" if options["previous"] else ""
        name = f"{pod}/{options['container']}"
        self.requests.append(f"logs {name}{run}")
        self._answer("logs", options)
        if failures := self._failures.get(("logs", f"{name}{run}")):
            raise failures.popleft()
        try:
            return self.log_texts[f"{name}{run}" if f"{name}{run}" in self.log_texts else name]
        except KeyError:
            raise ApiError("no logs here", status=400, reason="BadRequest") from None

    def request(self, method: str, path: str, *, deadline: Deadline, **_: Any) -> Response:
        host = path.split("/")[4]
        self.requests.append(f"ask {host}")
        answer = self.kubelets.get(host, [])
        if isinstance(answer, Exception):
            raise answer
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": answer}
        return Response(200, {}, msgspec.json.encode(body))

    def _ask(self, verb: str, plural: str, options: Obj, suffix: str = "") -> None:
        selector = options.get("label_selector") or options.get("field_selector") or ""
        self.requests.append(" ".join(filter(None, (verb, plural, selector, suffix))))
        deadline = options.get("deadline")
        if deadline is not None and deadline.expired:
            raise DeadlineExceeded
        self._answer(verb, options)
        failures = self._failures.get((verb, plural))
        if not failures:
            return
        failure = failures.popleft()
        if isinstance(failure, Silence) and deadline is not None:
            self.clock.wait(threading.Event(), deadline.remaining)
        raise failure

    def _answer(self, verb: str, options: Obj) -> None:
        """Return if the server answers a request; else raise what its sender sees.

        Source: client/transport.py Transport.failure.
        """
        self.count_step(verb)
        guard = FakeGuard(self.clock.monotonic())
        self.availability.begin(guard)
        try:
            if self.outage == "refused":
                self.availability.record_failure(guard, "ConnectionRefused")
                raise ApiError("https://fake: refused", reason="ConnectionRefused")
            if self.outage == "silent":
                self._stay_silent(options)
                self.availability.record_failure(guard, "Timeout")
                raise DeadlineExceeded
            self.availability.record_answer(guard)
        finally:
            self.availability.end(guard)

    def _stay_silent(self, options: Obj) -> None:
        limit, inactivity = options["deadline"].remaining, options.get("inactivity") or math.inf
        # Threads that gather evidence are awaited by the one that moves the clock.
        if _is_of_wait():
            self.clock.wait(self.availability.ended, min(limit, inactivity))
            self.availability.check()
        if inactivity < limit:
            raise ApiError("nothing came", reason="WatchInactive")

    def _tell(self, plural: str, item: tuple[str, Obj]) -> None:
        self._history.append((plural, self._version, item))
        self._send(plural, item)

    def _send(self, plural: str, item: tuple[str, Obj] | Exception | None) -> None:
        for kind, watch in list(self.watches):
            if kind == plural and not watch.closed and self.outage is None:
                watch.send(item)


def _is_of_wait() -> bool:
    """Return whether this is the thread of a wait, or reads its watches."""
    return threading.current_thread().name.startswith(("MainThread", _READER))


def _matcher(options: Obj) -> Callable[[Obj], bool]:
    labels = dict(
        term.split("=", 1) for term in (options.get("label_selector") or "").split(",") if term
    )
    fields = [
        term.split("=", 1) for term in (options.get("field_selector") or "").split(",") if term
    ]

    def matches(obj: Obj) -> bool:
        metadata = obj["metadata"]
        for path, value in fields:
            part: Any = obj
            for step in path.split("."):
                part = (part or {}).get(step)
            if part != value:
                return False
        return labels.items() <= (metadata.get("labels") or {}).items()

    return matches

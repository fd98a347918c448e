"""A session that plays a script, or shows what a test puts into it."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec

from pytest_kwait.cache import ListWatch
from pytest_kwait.client.resource import PODS, Resource
from pytest_kwait.client.responses import Item, ObjectList, WatchEvent, decode_object
from pytest_kwait.errors import ApiError
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.cache.store import Object
    from pytest_kwait.clock import Deadline

PATIENCE = 60.0
"""Seconds of real time after which a test that waits for a thread gives up."""


def until(condition: Callable[[], object]) -> None:
    """Return once other threads have made the condition true."""
    paused = threading.Event()
    for _ in range(int(PATIENCE / 0.005)):
        if condition():
            return
        paused.wait(0.005)
    raise AssertionError("it did not come")


def pod_at(
    name: str,
    version: int | str = 1,
    *,
    uid: str | None = None,
    namespace: str = "default",
    **parts: Any,
) -> dict[str, Any]:
    """Return what caches look at of a pod: metadata with a resource version, and the parts."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **parts}


def raw(obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode(obj)


def item(obj: dict[str, Any]) -> Item:
    return Item(obj, raw(obj))


def listed(*objects: dict[str, Any], version: int | str = 10) -> ObjectList:
    return ObjectList([item(obj) for obj in objects], str(version))


def event(type_: str, obj: dict[str, Any]) -> WatchEvent:
    return WatchEvent(type_, obj, raw(obj))


def bookmark(version: int | str) -> WatchEvent:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def refused(
    status: int = 403, reason: str = "Forbidden", message: str = "no pods for you"
) -> ApiError:
    return ApiError(message, status=status, reason=reason, method="GET", path="/api/v1/pods")


def expired() -> ApiError:
    return refused(410, "Expired", "too old resource version: 10 (99)")


def connection_refused() -> ApiError:
    return refused(0, "ConnectionRefused", "connection refused")


@dataclass(frozen=True)
class Call:
    """One request as it was asked."""

    verb: str
    at: float
    resource_version: str = ""
    deadline: Deadline | None = field(default=None, compare=False)
    arguments: dict[str, Any] = field(default_factory=dict, compare=False)


Step: TypeAlias = WatchEvent | ApiError | float | Callable[[], object]


class ScriptedWatch:
    """Yields events, raises errors, lets seconds pass, calls functions, then ends cleanly."""

    def __init__(self, clock: FakeClock, steps: tuple[Step, ...]) -> None:
        self._clock = clock
        self._steps = steps
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def __iter__(self) -> Iterator[WatchEvent]:
        for step in self._steps:
            if isinstance(step, WatchEvent):
                yield step
            elif isinstance(step, Exception):
                raise step
            elif callable(step):
                step()
            else:
                self._clock.advance(step)

    def close(self) -> None:
        self.closed = True


class Script:
    """A session whose answers are written down beforehand, for one thread.

    When an answer is missing it calls `on_end`, which should stop the reflector.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.calls: list[Call] = []
        self.lists: deque[ObjectList | Exception] = deque()
        self.watches: deque[tuple[Step, ...]] = deque()
        self.on_end: Callable[[], object] = lambda: None
        self.repeat = False
        """Whether the last answer of each kind is given for ever."""

    @property
    def verbs(self) -> list[str]:
        return [call.verb for call in self.calls]

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        deadline: Deadline,
        type: Any = None,
    ) -> ObjectList:
        arguments = {"resource": resource, "namespace": namespace, "type": type}
        arguments |= {"labels": label_selector, "fields": field_selector}
        self.calls.append(Call("list", self.clock.monotonic(), "", deadline, arguments))
        answer = self._next(self.lists, listed())
        if isinstance(answer, ObjectList):
            return answer
        raise answer

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        resource_version: str,
        inactivity: float | None = None,
        timeout_seconds: int | None = None,
        deadline: Deadline,
        type: Any = None,
    ) -> ScriptedWatch:
        arguments = {"resource": resource, "namespace": namespace, "type": type}
        arguments |= {"labels": label_selector, "fields": field_selector}
        arguments |= {"timeout_seconds": timeout_seconds, "inactivity": inactivity}
        now = self.clock.monotonic()
        self.calls.append(Call("watch", now, resource_version, deadline, arguments))
        return ScriptedWatch(self.clock, self._next(self.watches, ()))

    def _next(self, answers: deque[Any], otherwise: Any) -> Any:
        if not answers:
            self.on_end()
            return otherwise
        return answers[0] if self.repeat and len(answers) == 1 else answers.popleft()


class LiveWatch:
    """Shows what a test puts into it, until it is closed."""

    def __init__(self, shape: Any) -> None:
        self._shape = shape
        self._queue: queue.Queue[WatchEvent | Exception | None] = queue.Queue()
        self.closed = threading.Event()

    def put(self, what: WatchEvent | Exception | None) -> None:
        """Show an event, raise an error, or with None end cleanly."""
        self._queue.put(what)

    def close(self) -> None:
        self.closed.set()
        self._queue.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()

    def __iter__(self) -> Iterator[WatchEvent]:
        while (what := self._queue.get(timeout=PATIENCE)) is not None:
            if isinstance(what, Exception):
                raise what
            yield WatchEvent(what.type, decode_object(what.raw, self._shape), what.raw)


class Live:
    """A session for informers in threads: a test changes what it lists and watches."""

    def __init__(self, *objects: dict[str, Any], clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock(auto=False)
        self.answer: ObjectList | Exception = listed(*objects)
        self.watches: queue.Queue[LiveWatch] = queue.Queue()
        self.list_gate = threading.Event()
        """Lists wait for it; set unless a test clears it."""
        self.list_gate.set()
        self.listing = threading.Event()
        self.list_count = 0
        self.watch_count = 0

    def list(
        self, resource: Resource, namespace: str | None = None, *, type: Any = None, **_: Any
    ) -> ObjectList:
        self.list_count += 1
        self.listing.set()
        assert self.list_gate.wait(PATIENCE)
        if isinstance(self.answer, Exception):
            raise self.answer
        items = [Item(decode_object(one.raw, type), one.raw) for one in self.answer.items]
        return ObjectList(items, self.answer.resource_version)

    def watch(
        self, resource: Resource, namespace: str | None = None, *, type: Any = None, **_: Any
    ) -> LiveWatch:
        self.watch_count += 1
        watch = LiveWatch(type)
        self.watches.put(watch)
        return watch

    def next_watch(self) -> LiveWatch:
        """Return the next watch that was opened, once it is."""
        return self.watches.get(timeout=PATIENCE)


def pods_of(session: Any, namespace: str | None = None, **more: Any) -> ListWatch:
    return ListWatch(session, PODS, namespace, **more)


class Recorder:
    """A handler whose calls can be awaited."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._called = threading.Condition()

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        self._note("initial " if is_in_initial_list else "", "add", obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._note("", "update", new)

    def on_delete(self, obj: Object) -> None:
        self._note("", "delete", obj)

    def _note(self, prefix: str, what: str, obj: Object) -> None:
        metadata = obj["metadata"]
        with self._called:
            self.calls.append(f"{prefix}{what} {metadata['name']}@{metadata['resourceVersion']}")
            self._called.notify_all()

    def after(self, count: int) -> list[str]:
        """Return the calls once there are so many."""
        with self._called:
            assert self._called.wait_for(lambda: len(self.calls) >= count, PATIENCE), self.calls
            return list(self.calls)

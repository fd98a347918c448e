from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.remote.mirror import Mirror
from pytest_kwait.remote.reflectors import LoopQueue, MirrorReflector, resource_of
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.faults import FaultSelector, RequestFault
from pytest_kwait.simulator.scheme import Kind, Scheme
from pytest_kwait.simulator.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.simulator.store import Change
    from tests.simulator.apiserver.conftest import Served

_MAPS = "configmaps"
_PATIENCE = 60.0
"""Seconds of real time after which a test that waits for the server gives up."""


class Mirrored:
    """A mirror of config maps and the changes that its followers see.

    Args:
        session: the session of the server.
    """

    def __init__(self, session: ApiSession, loop: asyncio.AbstractEventLoop) -> None:
        self.store = Store()
        self.changes: list[str] = []
        self._loop = loop
        self._changed = asyncio.Event()
        self.store.watch(_MAPS, self._note)
        self.queue = self.run(_make_queue())
        kind = Scheme()[_MAPS]
        self.reflector = MirrorReflector(session, Mirror(self.store), kind, self.queue)

    def _note(self, change: Change) -> None:
        self.changes.append(f"{change.type} {change.new.obj['metadata']['name']}")
        self._changed.set()

    def run(self, work: Awaitable[Any]) -> Any:
        """Run the event loop until something is done."""
        return self._loop.run_until_complete(asyncio.wait_for(work, _PATIENCE))

    def run_until(self, *changes: str) -> None:
        """Run the event loop until followers have seen these changes and no others."""
        self.run(self._wait_for(len(changes)))
        assert self.changes == [*changes]

    async def _wait_for(self, wanted: int) -> None:
        while len(self.changes) < wanted:
            self._changed.clear()
            await self._changed.wait()

    def end(self) -> None:
        self.reflector.stop()
        self.queue.close()
        self.reflector.join()
        assert not self.reflector._thread.is_alive()


async def _make_queue() -> LoopQueue:
    return LoopQueue()


@pytest.fixture
def mirrored(session: ApiSession, loop: asyncio.AbstractEventLoop) -> Iterator[Mirrored]:
    mirrored = Mirrored(session, loop)
    yield mirrored
    mirrored.end()


def _create(served: Served, name: str) -> None:
    served.run(lambda: served.api.create(_MAPS, {"metadata": {"name": name}}, "default"))


def test_resources_of_kinds() -> None:
    kinds = Scheme()
    assert resource_of(kinds["pods"]).path("default") == "/api/v1/namespaces/default/pods"
    assert resource_of(kinds["jobs.batch"]).path() == "/apis/batch/v1/jobs"
    assert resource_of(kinds["nodes"]).path("ignored") == "/api/v1/nodes"


def test_it_lists_and_follows(served: Served, mirrored: Mirrored) -> None:
    _create(served, "a")
    mirrored.reflector.start()
    mirrored.run(mirrored.reflector.wait_listed())
    mirrored.run_until("ADDED a")
    (entry,) = mirrored.store.entries(_MAPS)
    assert (entry.obj["apiVersion"], entry.obj["kind"]) == ("v1", "ConfigMap")
    _create(served, "b")
    served.run(lambda: served.api.delete(_MAPS, "a", "default"))
    mirrored.run_until("ADDED a", "ADDED b", "DELETED a")


def test_it_lists_again_when_its_version_is_too_old(served: Served, mirrored: Mirrored) -> None:
    _create(served, "a")
    mirrored.reflector.start()
    mirrored.run(mirrored.reflector.wait_listed())

    def change() -> None:
        # The watch ends, and its version is too old when it is to resume.
        served.api.delete(_MAPS, "a", "default")
        served.api.create(_MAPS, {"metadata": {"name": "b"}}, "default")
        served.api.store.forget_history()
        server = served._server._web
        assert server is not None
        for protocol in server.connections:
            if protocol.transport is not None:
                protocol.transport.abort()

    served.run(change)
    mirrored.run_until("ADDED a", "DELETED a", "ADDED b")


def test_a_refused_list_is_an_error(session: ApiSession, mirrored: Mirrored) -> None:
    kind = Kind("example.com", "v1", "nothings", "Nothing", namespaced=True)
    reflector = MirrorReflector(session, Mirror(mirrored.store), kind, mirrored.queue)
    reflector.start()
    with pytest.raises(StatusError, match="404 page not found") as caught:
        mirrored.run(reflector.wait_listed())
    assert caught.value.code == 404
    reflector.stop()
    reflector.join()


def test_a_list_that_fails_is_tried_again(served: Served, mirrored: Mirrored) -> None:
    _create(served, "a")
    fault = RequestFault(FaultSelector(), status=500, times=1)
    served.run(lambda: served.api.faults.requests.append(fault))
    mirrored.reflector.start()
    mirrored.run(mirrored.reflector.wait_listed())
    assert mirrored.changes == ["ADDED a"]
    assert fault.times == 0


def test_it_changes_nothing_once_it_is_stopped(served: Served, mirrored: Mirrored) -> None:
    mirrored.reflector.start()
    mirrored.run(mirrored.reflector.wait_listed())
    mirrored.reflector.add({"metadata": {"name": "late"}}, b"")
    mirrored.reflector.stop()
    mirrored.reflector.join()
    mirrored.run(async_sleep(0))
    assert mirrored.changes == []


def _with_queue(limit: int, use: Callable[[LoopQueue], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await use(LoopQueue(limit))

    asyncio.run(run())


def test_calls_are_made_in_order_on_the_loop() -> None:
    made: list[tuple[int, bool]] = []
    over = asyncio.Event()
    main = threading.current_thread()

    def call(number: int) -> None:
        made.append((number, threading.current_thread() is main))
        if number == 299:
            over.set()

    async def use(queue: LoopQueue) -> None:
        def put() -> None:
            for number in range(300):
                queue.put([partial(call, number)])

        thread = threading.Thread(target=put)
        thread.start()
        await asyncio.wait_for(over.wait(), _PATIENCE)
        thread.join()

    _with_queue(3, use)  # far fewer wait at once
    assert made == [(number, True) for number in range(300)]


def test_a_full_queue_holds_threads_up_until_it_is_closed() -> None:
    async def use(queue: LoopQueue) -> None:
        begun = threading.Event()
        made: list[int] = []

        def put() -> None:
            queue.put([lambda: made.append(1), lambda: made.append(2)])
            begun.set()
            queue.put([lambda: made.append(3)])

        thread = threading.Thread(target=put)
        thread.start()
        begun.wait(_PATIENCE)
        assert thread.is_alive()  # the loop is held up here
        queue.close()
        thread.join(_PATIENCE)
        assert not thread.is_alive()
        queue.put([lambda: made.append(4)])
        await async_sleep(0)
        assert made == []

    _with_queue(2, use)


def test_an_error_of_one_call_leaves_the_next_ones_alone() -> None:
    errors: list[Exception] = []

    def fail() -> None:
        raise ValueError("one handler's")

    async def use(queue: LoopQueue) -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        queue.put([fail, over.set])
        await asyncio.wait_for(over.wait(), _PATIENCE)

    _with_queue(10, use)
    assert [str(error) for error in errors] == ["one handler's"]

"""Async calls run in threads, and are cancelled cleanly."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.suite.kwait import AsyncKwait

if TYPE_CHECKING:
    from collections.abc import Callable

_CURRENT = contextvars.ContextVar("current", default="none")


class Fake:
    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.contexts: list[str] = []
        self.begun = threading.Event()
        self.at_begin: Callable[[], object] = self.begun.set
        self.ended = threading.Event()
        self.given: dict[str, Any] = {}

    def get(self, target: str, **given: Any) -> dict[str, Any]:
        self.threads.append(threading.current_thread())
        self.contexts.append(_CURRENT.get())
        self.given = given
        return {"target": target}

    def patch(self, target: str, patch: Any, **given: Any) -> dict[str, Any]:
        self.given = given
        return {"target": target}

    def wait_for(self, target: str, condition: str, *, stop: Any, **given: Any) -> None:
        is_set = getattr(stop, "is_set", stop)
        self.at_begin()
        while not is_set():
            self.ended.wait(0.001)
        self.ended.set()
        raise ValueError("stopped")


def test_calls_run_in_another_thread() -> None:
    fake = Fake()

    assert asyncio.run(AsyncKwait(fake).get("pod/a")) == {"target": "pod/a"}
    assert fake.threads != [threading.current_thread()]
    assert "stop" not in fake.given


def test_calls_have_the_context_of_their_task() -> None:
    fake = Fake()

    async def main() -> None:
        _CURRENT.set("a step")
        await AsyncKwait(fake).get("pod/a")

    asyncio.run(main())

    assert fake.contexts == ["a step"]


def test_requests_are_not_stopped() -> None:
    fake = Fake()

    asyncio.run(AsyncKwait(fake).patch("pod/a", {}))

    assert "stop" not in fake.given


def test_errors_are_those_of_the_call() -> None:
    fake = Fake()

    with pytest.raises(ValueError, match="stopped"):
        asyncio.run(AsyncKwait(fake).wait_for("pod/a", "create", stop=lambda: True))


def test_cancelling_stops_the_wait() -> None:
    fake = Fake()

    async def main() -> None:
        task = asyncio.create_task(AsyncKwait(fake).wait_for("pod/a", "create"))
        while not fake.begun.is_set():
            # The loop goes on meanwhile.
            await async_sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert fake.ended.is_set()

    asyncio.run(main())


def test_a_limit_stops_the_wait() -> None:
    fake = Fake()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as limit:
            fake.at_begin = partial(loop.call_soon_threadsafe, limit.reschedule, loop.time())
            await AsyncKwait(fake).wait_for("pod/a", "create")

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert fake.ended.is_set()


def test_the_second_cancellation_waits_no_more(recwarn: pytest.WarningsRecorder) -> None:
    """The thread ends after its loop, without an error of its own."""
    released, begun = threading.Event(), threading.Event()

    class Slow:
        def get(self, target: str, **_: Any) -> str:
            begun.set()
            released.wait()
            return target

    async def main() -> None:
        task = asyncio.create_task(AsyncKwait(Slow()).get("pod/a"))
        while not begun.is_set():
            await async_sleep(0)
        task.cancel()
        await async_sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    released.set()
    for each in threading.enumerate():
        if each.name == "kwait-aio":
            each.join()
    assert not recwarn.list


def test_calls_on_trio() -> None:
    trio: Any = pytest.importorskip("trio")
    fake = Fake()

    assert trio.run(AsyncKwait(fake).get, "pod/a") == {"target": "pod/a"}
    with pytest.raises(ValueError, match="stopped"):
        trio.run(_wait_and_stop, fake)


async def _wait_and_stop(fake: Fake) -> None:
    await AsyncKwait(fake).wait_for("pod/a", "create", stop=lambda: True)


def test_cancelling_on_trio_stops_the_wait() -> None:
    trio: Any = pytest.importorskip("trio")
    fake = Fake()
    steps: list[str] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(AsyncKwait(fake).wait_for, "pod/a", "create")
            while not fake.begun.is_set():
                await trio.lowlevel.checkpoint()
            steps.append("the loop goes on")
            nursery.cancel_scope.cancel()
        assert fake.ended.is_set()

    trio.run(main)

    assert steps == ["the loop goes on"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelling_with_anyio_stops_the_wait(backend: str) -> None:
    """Its scopes cancel a task again and again until it has left them."""
    anyio: Any = pytest.importorskip("anyio")
    pytest.importorskip(backend)
    fake = Fake()

    async def main() -> None:
        with anyio.move_on_after(0.01) as scope:
            await AsyncKwait(fake).wait_for("pod/a", "create")
        assert scope.cancelled_caught
        assert fake.ended.is_set()

    anyio.run(main, backend=backend)


def test_only_methods() -> None:
    with pytest.raises(AttributeError):
        _ = AsyncKwait(Fake()).namespace  # type: ignore[attr-defined]

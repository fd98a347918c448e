"""Work that is laid aside: nobody else waits for it, and it goes on where it was."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.suspendable import (
    SuspendableTask,
    SuspendableTasks,
    Tasks,
    await_result,
    beside_loop,
    on_loop,
    raise_error,
    run_concurrently,
    run_suspendable,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Answers:
    """What tasks wait for, given by hand; must be made in an event loop."""

    def __init__(self) -> None:
        self.open: list[asyncio.Future[None]] = []

    def ask(self) -> None:
        """Wait in the task that runs."""
        task = SuspendableTask.current()
        assert task is not None
        task.wait(self._wait)

    async def _wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self.open.append(future)
        await future


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await async_sleep(0)


def test_task_without_waits_finishes_at_once() -> None:
    async def run() -> None:
        ended: list[int] = []
        task = SuspendableTask(lambda: 7, lambda one: ended.append(one.result))
        assert (ended, task.result, SuspendableTask.current()) == ([7], 7, None)

    asyncio.run(run())


def test_other_tasks_run_while_one_waits() -> None:
    async def run() -> list[str]:
        answers, log = Answers(), list[str]()

        def work() -> None:
            log.append("asks")
            answers.ask()
            log.append("has its answer")

        task = SuspendableTask(work, lambda _: log.append("done"))
        log.append("others")
        await until(lambda: bool(answers.open))
        answers.open[0].set_result(None)
        await until(lambda: "done" in log)
        assert task.error is None
        return log

    assert asyncio.run(run()) == ["asks", "others", "has its answer", "done"]


def test_one_task_runs_at_a_time() -> None:
    async def run() -> int:
        answers, ended, most = Answers(), list[object](), 0
        inside = threading.Lock()

        def work() -> None:
            for _ in range(5):
                assert inside.acquire(blocking=False)
                assert asyncio.get_running_loop().is_running()
                inside.release()
                answers.ask()

        for _ in range(40):
            SuspendableTask(work, ended.append)
        while len(ended) < 40:
            await until(lambda: bool(answers.open) or len(ended) == 40)
            most = max(most, len(answers.open))
            if answers.open:
                answers.open.pop().set_result(None)
        return most

    assert asyncio.run(run()) > 1


def test_task_errors_are_reported() -> None:
    async def run() -> None:
        def work() -> None:
            raise LookupError("gone")

        with pytest.raises(LookupError, match="gone"):
            SuspendableTask(work, raise_error)
        task = SuspendableTask(work, lambda _: None)
        with pytest.raises(LookupError, match="gone"):
            _ = task.result

    asyncio.run(run())


def test_awaitable_errors_are_raised_in_the_task() -> None:
    async def run() -> list[str]:
        log: list[str] = []

        async def fail() -> None:
            raise LookupError("no answer")

        def work() -> None:
            task = SuspendableTask.current()
            assert task is not None
            try:
                task.wait(fail)
            except LookupError as error:
                log.append(str(error))

        ended: list[object] = []
        SuspendableTask(work, ended.append)
        await until(lambda: bool(ended))
        return log

    assert asyncio.run(run()) == ["no answer"]


def test_pieces_side_by_side_wait_together() -> None:
    async def run() -> list[str]:
        answers, log = Answers(), list[str]()

        def piece(name: str) -> None:
            answers.ask()
            log.append(name)

        def work() -> None:
            run_concurrently([partial(piece, name) for name in "abc"])
            log.append("all")

        ended: list[object] = []
        SuspendableTask(work, ended.append)
        await until(lambda: len(answers.open) == 3)
        for future in reversed(answers.open):
            future.set_result(None)
        await until(lambda: bool(ended))
        return log

    assert asyncio.run(run()) == ["c", "b", "a", "all"]


def test_pieces_are_done_in_turn_outside_of_strands() -> None:
    log: list[str] = []
    run_concurrently([partial(log.append, name) for name in "abc"])
    assert log == ["a", "b", "c"]


def test_a_coroutine_awaits_work_that_is_suspended() -> None:
    async def seven() -> int:
        await async_sleep(0)
        return 7

    async def run() -> int:
        return await run_suspendable(lambda: await_result(seven))

    assert asyncio.run(run()) == await_result(seven) == 7


def test_a_coroutine_gets_the_error_of_the_work() -> None:
    def work() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        asyncio.run(run_suspendable(work))


@pytest.mark.parametrize("large", [True, False])
def test_only_a_large_task_works_beside_the_loop(large: bool) -> None:
    async def run() -> None:
        reached, go_on = threading.Event(), threading.Event()

        def work() -> str:
            with beside_loop(), beside_loop():
                reached.set()
                if large:
                    assert go_on.wait(60)  # set by the loop, which goes on
            return "done"

        running = asyncio.ensure_future(run_suspendable(work, large=large))
        await until(reached.is_set)
        go_on.set()
        assert await running == "done"

    asyncio.run(run())


def test_task_beside_the_loop_can_wait() -> None:
    async def answer() -> int:
        await async_sleep(0)
        return 7

    def work() -> int:
        with beside_loop():
            return await_result(answer)

    assert asyncio.run(run_suspendable(work, large=True)) == 7


@pytest.mark.parametrize("large", [True, False])
def test_parts_of_work_beside_the_loop_run_on_it(large: bool) -> None:
    async def run() -> None:
        loop_thread = threading.get_ident()

        def work() -> bool:
            assert on_loop(threading.get_ident) != loop_thread  # the loop waits for this task
            with beside_loop():
                return on_loop(threading.get_ident) == loop_thread

        assert await run_suspendable(work, large=large) is large

    asyncio.run(run())
    assert on_loop(lambda: 7) == 7


def test_errors_beside_the_loop_end_the_task() -> None:
    def work() -> None:
        with beside_loop():
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(run_suspendable(work, large=True))


@pytest.mark.parametrize("may_suspend", [True, False])
def test_calls_run_in_tasks_while_they_may_be_suspended(may_suspend: bool) -> None:
    async def run() -> None:
        tasks, made = SuspendableTasks(lambda: may_suspend), list[tuple[str, bool]]()

        def call(name: str) -> None:
            made.append((name, SuspendableTask.current() is not None))

        assert tasks.may_suspend() is may_suspend
        tasks.run(call, "a")
        tasks.run_large(lambda: call("large"))
        assert made == [("a", may_suspend), ("large", True)]

    asyncio.run(run())


def test_calls_run_in_the_caller_without_an_event_loop() -> None:
    tasks, made = Tasks(), list[str]()
    tasks.run(made.append, "a")
    tasks.run_large(lambda: made.append("large"))
    assert (made, tasks.may_suspend()) == (["a", "large"], False)


@pytest.mark.parametrize("large", [True, False])
def test_errors_of_calls_are_raised(large: bool) -> None:
    def fail() -> None:
        raise LookupError("gone")

    async def run() -> None:
        tasks = SuspendableTasks(lambda: True)
        with pytest.raises(LookupError, match="gone"):
            tasks.run_large(fail) if large else tasks.run(fail)

    asyncio.run(run())

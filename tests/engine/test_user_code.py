"""Callables of users: their thread, their context, and the limit of what may hang."""

from __future__ import annotations

import contextvars
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.clock import Deadline, PausableClock
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver
from pytest_kwait.engine.condition import Met
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.user_code import (
    CopiedCode,
    UserCode,
    UsesObjectsError,
    current_code,
    find_copied_code,
)
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.job.wait import wait_for_job_state
from pytest_kwait.framework.objects.combinators import all_of, stable_for
from pytest_kwait.framework.objects.wait import general_condition
from pytest_kwait.framework.pod.wait import wait_for_pod_condition
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait.context import DeadlineExceeded
from tests.engine.fake_session import FakeSession
from tests.objects import created_job, job_pod

if TYPE_CHECKING:
    from collections.abc import Callable

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])

WAITS: dict[str, Callable[[Any], Any]] = {
    "object": lambda call: general_condition("ci-1", "pod/a", call).on([PODS]),
    "list": lambda call: general_condition("ci-1", "pods", call, selector="app=a").on([PODS]),
    "all": lambda call: general_condition("ci-1", "pod/a", all_of("create", call)).on([PODS]),
    "held": lambda call: general_condition("ci-1", "pod/a", stable_for("1ms", call)).on([PODS]),
    "pod": lambda call: condition_of(wait_for_pod_condition)("ci-1", "a", "up", call),
    "job": lambda call: condition_of(wait_for_job_state)("ci-1", "sleepers", call),
}


def wait(session: FakeSession, condition: Any, **options: Any) -> Any:
    session.put(PODS, job_pod("a", labels={"app": "a"}))
    session.put(JOBS, created_job())
    return wait_for_condition(session, condition, WaitSettings(**options))


@MODES
@pytest.mark.parametrize("kind", WAITS)
def test_callable_runs_in_the_thread_of_the_test(kind: str, mode: Any) -> None:
    """Connections of databases and browsers belong to the thread that has opened them."""
    threads: set[int] = set()
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="")
    name.set("of the test")

    def is_up(_: Any) -> bool:
        threads.add(threading.get_ident())
        return name.get() == "of the test"

    wait(FakeSession(), WAITS[kind](is_up), timeout=3, mode=mode)
    assert threads == {threading.get_ident()}


def test_a_wait_in_a_callable_is_part_of_the_outer_one() -> None:
    inner: list[bool] = []

    class Observer(WaitObserver):
        def on_start(self, wait: Any) -> None:
            inner.append(wait.inner)

    def is_up(subject: Any) -> Met:
        wait(FakeSession(), WAITS["object"](lambda _: True), timeout=3)
        return Met()

    observer = Observer()
    ACTIVE_WAITS.add(observer)
    try:
        wait(FakeSession(), WAITS["object"](is_up), timeout=3)
    finally:
        ACTIVE_WAITS.remove(observer)
    assert inner == [False, True]


def test_failures_of_pytest_end_the_wait() -> None:
    with pytest.raises(pytest.fail.Exception, match="enough"):
        wait(FakeSession(), WAITS["object"](lambda _: pytest.fail("enough")), timeout=3)


def test_no_call_follows_an_abandoned_one() -> None:
    released, called, calls = threading.Event(), threading.Event(), []

    def hang() -> None:
        calls.append(1)
        called.set()
        released.wait()

    code = UserCode()
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            code.run(hang, Deadline.after(0.05))
    assert code.hangs
    assert called.wait(60)
    assert len(calls) == 1
    released.set()
    for thread in threading.enumerate():
        if thread.name == "kwait-user-code":
            assert thread.daemon
            thread.join(60)


def test_a_paused_clock_abandons_nothing() -> None:
    """As in a debugger that was entered in the callable."""
    time = FakeClock()
    clock = PausableClock(time)
    asked = threading.Semaphore(0)

    class Asked(PausableClock):
        def monotonic(self) -> float:
            asked.release()
            return clock.monotonic()

    def debugged() -> str:
        clock.stop()
        time.advance(100)
        while asked.acquire(blocking=False):
            pass
        assert asked.acquire(timeout=60)
        assert asked.acquire(timeout=60)
        return "done"

    assert UserCode().run(debugged, Deadline.after(50, Asked(time))) == "done"


def counting(start: int) -> Callable[[int], list[int]]:
    seen = [start]

    def count(number: int, *, more: list[int] = []) -> list[int]:  # noqa: B006 - the test is about it
        seen.append(number)
        more.append(number)
        return count(number - 1) if number else [*seen, *more]

    return count


def test_a_copy_changes_nothing_of_the_original() -> None:
    count = counting(9)
    copied = CopiedCode(lambda: None)
    assert current_code(count) is count
    assert copied.run(lambda: current_code(count)(1)) == [9, 1, 0, 1, 0]
    # Another call of the same observation goes on where it was.
    assert copied.run(lambda: current_code(count)(0)) == [9, 1, 0, 0, 1, 0, 0]
    assert count(0) == [9, 0, 0]
    assert find_copied_code() is None


@pytest.mark.parametrize(
    "value", [object(), threading.Lock(), [object()], [].append, {"a": (object(),)}]
)
def test_code_that_uses_objects_is_not_copied(value: Any) -> None:
    copied = CopiedCode(lambda: None)
    with pytest.raises(UsesObjectsError):
        copied.copy(lambda: value)


def test_plain_values_modules_and_classes_are_shared() -> None:
    values = (1, "a", None, re.compile("a"), re, dict, len, "a".upper)
    assert CopiedCode(lambda: None).copy(values) == values

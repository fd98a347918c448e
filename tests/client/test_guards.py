from __future__ import annotations

import math
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.client import deadlines
from pytest_kwait.client.deadlines import Cause, DuplicateSocket, Guard, Watchdog
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.advanced_clock import AdvancedClock

FAILURES = (OSError,)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.settimeout(60)
    with near, far:
        yield near, far


def guard(seconds: float | None = None, inactivity: float | None = None) -> Guard:
    return Guard(Deadline.after(seconds), inactivity)


def test_guard_of_any_clock_uses_the_remaining_time() -> None:
    before = SYSTEM_CLOCK.monotonic()
    found = Guard(Deadline.after(30, FakeClock(start=1e9)))
    assert found.limit == 30
    assert before + 30 <= found.due <= SYSTEM_CLOCK.monotonic() + 30
    found.release()


def test_a_guard_is_bound_no_longer_than_its_own_request_lasts() -> None:
    outer, inner = guard(30), guard(30)
    with deadlines.guard_connections(outer):
        with pytest.raises(OSError, match="broken"), deadlines.guard_connections(inner):
            raise OSError("broken")
        bound = [deadlines._current.guard]
    bound.append(deadlines._current.guard)
    assert bound == [outer, None]
    outer.release()
    inner.release()


def test_guard_checks_its_deadline_and_inactivity() -> None:
    now = SYSTEM_CLOCK.monotonic()
    patient = guard(100, inactivity=50)
    assert patient.check(now + 40)
    assert not patient.check(now + 60)
    assert patient.cause is Cause.INACTIVE
    late = guard(100, inactivity=50)
    assert not late.check(now + 200)
    assert late.cause is Cause.DEADLINE
    assert patient.release() is Cause.INACTIVE
    assert late.release() is Cause.DEADLINE


def test_activity_moves_the_moment(guard_clock: AdvancedClock) -> None:
    found = guard(1000, inactivity=500)
    guard_clock.advance(400)
    before = guard_clock.monotonic()
    found.touch()
    assert found.check(before + 450)
    assert before + 500 <= found.due <= guard_clock.monotonic() + 500
    found.release()


def test_the_first_cause_stays() -> None:
    found = guard()
    found.cut(Cause.CLOSED)
    found.cut(Cause.DEADLINE)
    assert found.release() is Cause.CLOSED


def test_finished_request_cannot_be_cut_off(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    duplicate = DuplicateSocket(near)
    found = guard()
    found.bind(duplicate)
    assert found.release() is None
    found.cut(Cause.CLOSED)
    assert found.cause is None
    assert not found.check(math.inf)
    far.send(b"x")
    assert near.recv(1) == b"x"
    duplicate.drop()


def test_cutting_wakes_the_reader(pair: tuple[socket.socket, socket.socket]) -> None:
    near, _ = pair
    duplicate = DuplicateSocket(near)
    found = guard(0.1)
    found.bind(duplicate)
    assert near.recv(1) == b""
    assert found.release() is Cause.DEADLINE
    duplicate.drop()


def test_a_connection_bound_too_late_is_shut_at_once(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, _ = pair
    duplicate = DuplicateSocket(near)
    found = guard()
    found.cut(Cause.CLOSED)
    found.bind(duplicate)
    assert near.recv(1) == b""
    found.release()
    duplicate.drop()


def test_a_connection_taken_over_by_another_request_is_not_the_first_one_s_to_shut(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    duplicate = DuplicateSocket(near)
    first, second = guard(), guard()
    first.bind(duplicate)
    second.bind(duplicate)
    first.cut(Cause.DEADLINE)
    far.send(b"x")
    assert near.recv(1) == b"x"
    second.cut(Cause.DEADLINE)
    assert near.recv(1) == b""
    first.release()
    second.release()
    duplicate.drop()


def test_a_duplicate_outlives_the_connection_while_a_guard_holds_it(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    duplicate = DuplicateSocket(near)
    found = guard()
    found.bind(duplicate)
    duplicate.drop()
    near.close()
    found.cut(Cause.CLOSED)
    assert far.recv(1) == b""
    found.release()


def test_shutting_what_has_ended_is_no_error(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    duplicate = DuplicateSocket(near)
    far.close()
    near.shutdown(socket.SHUT_RDWR)
    found = guard()
    found.bind(duplicate)
    found.cut(Cause.CLOSED)
    found.release()
    duplicate.drop()


def test_dialing_returns_the_connection(pair: tuple[socket.socket, socket.socket]) -> None:
    found = guard()
    assert found.dial(lambda: pair[0], FAILURES) is pair[0]
    assert found.dialed
    found.release()


def test_dialing_raises_what_went_wrong() -> None:
    def refuse() -> socket.socket:
        raise ConnectionRefusedError("no")

    found = guard()
    with pytest.raises(ConnectionRefusedError, match=r"^no$"):
        found.dial(refuse, FAILURES)
    found.release()


@pytest.mark.parametrize("before", [True, False], ids=["cut before", "cut meanwhile"])
def test_dialing_is_left_behind_when_it_is_cut(
    before: bool, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    go_on, begun = threading.Event(), threading.Event()

    def connect() -> socket.socket:
        begun.set()
        assert go_on.wait(60)
        return near

    found = guard()
    if before:
        found.cut(Cause.CLOSED)
    else:

        def cut() -> None:
            assert begun.wait(60)
            found.cut(Cause.CLOSED)

        threading.Thread(target=cut).start()
    with pytest.raises(TimeoutError, match=r"^the connection was not established in time$"):
        found.dial(connect, FAILURES)
    go_on.set()
    # The connection that came too late is closed by the thread that made it.
    far.settimeout(60)
    assert far.recv(1) == b""
    found.release()


def test_released_guards_do_not_pile_up() -> None:
    watchdog = Watchdog()
    for _ in range(1000):
        found = guard(1000)
        watchdog.watch(found)
        found.release()
        watchdog.unwatch(found)
    assert len(watchdog._heap) < 200

from __future__ import annotations

import threading
from typing import Any

import pytest

from pytest_kwait.testing import FakeClock
from pytest_kwait.worker import Worker


class Rounds:
    """A worker that counts its rounds."""

    def __init__(self, seconds: float | None = None) -> None:
        self.count = 0
        self.done = threading.Semaphore(0)
        self.worker = Worker("kwait rounds", self._run)
        self._seconds = seconds

    def _run(self) -> None:
        while self.worker.pause(self._seconds):
            self.count += 1
            self.done.release()


def test_it_works_each_time_it_is_woken() -> None:
    rounds = Rounds()
    rounds.worker.start()
    for number in range(1, 4):
        rounds.worker.wake()
        assert rounds.done.acquire(timeout=10)
        assert rounds.count == number
    assert rounds.worker.is_alive
    rounds.worker.stop()
    assert rounds.worker.join(10)
    assert (rounds.count, rounds.worker.is_alive, rounds.worker.error) == (3, False, None)


def test_it_is_a_daemon_thread_with_its_name() -> None:
    seen: list[threading.Thread] = []
    worker = Worker("kwait test", lambda: seen.append(threading.current_thread()))
    started = [worker.is_started]
    worker.start()
    started.append(worker.is_started)
    assert started == [False, True]
    assert worker.join(10)
    assert [(thread.name, thread.daemon) for thread in seen] == [("kwait test", True)]


def test_its_pauses_are_those_of_its_clock() -> None:
    clock = FakeClock()
    moments: list[float] = []

    def run() -> None:
        while worker.pause(30.0):
            moments.append(clock.monotonic())
            if len(moments) == 3:
                worker.stop()

    worker = Worker("kwait test", run, clock)
    worker.start()
    assert worker.join(10)
    assert moments == [30.0, 60.0, 90.0]


def test_a_wake_before_the_pause_is_not_lost() -> None:
    rounds = Rounds()
    rounds.worker.wake()
    rounds.worker.start()
    assert rounds.done.acquire(timeout=10)
    rounds.worker.stop()
    assert rounds.worker.join(10)


def test_one_that_is_stopped_before_its_start_ends_at_its_first_pause() -> None:
    rounds = Rounds(1000.0)
    rounds.worker.stop()
    assert rounds.worker.is_stopped
    rounds.worker.start()
    assert rounds.worker.join(10)
    assert rounds.count == 0


def test_join_ends_with_its_limit() -> None:
    rounds = Rounds()
    assert rounds.worker.join(0.0), "it was not started"
    rounds.worker.start()
    assert not rounds.worker.join(0.01)
    rounds.worker.stop()
    assert rounds.worker.join(10)


def test_a_worker_does_not_join_itself() -> None:
    ended: list[bool] = []
    worker = Worker("kwait test", lambda: ended.append(worker.join(10)))
    worker.start()
    assert worker.join(10)
    assert ended == [False]


def test_the_error_that_ends_it_is_kept_and_handed_on() -> None:
    failure = ValueError("no")
    handed: list[Exception] = []

    def run() -> None:
        raise failure

    worker = Worker("kwait test", run, on_error=handed.append)
    worker.start()
    assert worker.join(10)
    assert worker.error is failure
    assert handed == [failure]


def test_an_error_that_nothing_handles_is_one_of_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hooked: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)

    def run() -> None:
        raise ValueError("no")

    worker = Worker("kwait test", run)
    worker.start()
    assert worker.join(10)
    assert [str(args.exc_value) for args in hooked] == ["no"]
    assert str(worker.error) == "no"


def test_it_starts_once() -> None:
    worker = Worker("kwait test", bool)
    worker.start()
    assert worker.join(10)
    with pytest.raises(RuntimeError, match="once"):
        worker.start()

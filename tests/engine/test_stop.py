"""Waits that are stopped from outside."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import JOBS
from pytest_kwait.engine.options import resolve_options
from pytest_kwait.engine.waiter import sleep_until_stopped, wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.job.wait import wait_for_job_pods_running
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import Canceled, context_for_channel
from tests.engine.fake_session import FakeSession
from tests.objects import created_job

if TYPE_CHECKING:
    from pytest_kwait.wait import Stop


@pytest.mark.parametrize("mode", ["watch", "poll"])
@pytest.mark.parametrize("kind", ["event", "function", "context"])
def test_a_wait_is_stopped(mode: Any, kind: str) -> None:
    session, stop = FakeSession(), threading.Event()
    session.put(JOBS, created_job())
    session.at(3.0, stop.set)
    given: dict[str, Stop] = {
        "event": stop,
        "function": stop.is_set,
        "context": context_for_channel(stop),
    }
    settings = resolve_options({"stop": given[kind], "mode": mode, "timeout": 60}, timeout="job")

    started = session.script_clock.monotonic()
    with pytest.raises(Canceled) as caught:
        wait_for_condition(
            session, condition_of(wait_for_job_pods_running)("ci-1", "sleepers", 3), settings
        )

    assert session.script_clock.monotonic() - started < 3.2
    assert caught.value.__notes__ == [
        "while waiting for job ci-1/sleepers to have 3 pods Running; last seen: 0 of 3 pods Running"
    ]


def test_a_pause_between_steps_is_stopped() -> None:
    clock, stop = FakeClock(), threading.Event()
    started = clock.monotonic()
    sleep_until_stopped(clock, 10.0, None)
    sleep_until_stopped(clock, 10.0, stop.is_set)
    assert clock.monotonic() - started == pytest.approx(20.0)
    with pytest.raises(Canceled) as caught:
        sleep_until_stopped(clock, 60.0, lambda: clock.monotonic() - started > 22.0)
    assert str(caught.value) == "the wait was stopped"
    assert clock.monotonic() - started < 22.2


def test_what_cannot_stop_a_wait() -> None:
    with pytest.raises(InvalidArgument) as caught:
        resolve_options({"stop": 3}, timeout="job")

    assert str(caught.value) == (
        "stop=3 is not valid: use a threading.Event, a wait.Context, or a function without "
        "arguments"
    )

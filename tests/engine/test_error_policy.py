from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.engine.error_policy import Decision, Troubles, decide, in_time, retrying
from pytest_kwait.errors import ApiError, WaitTimeout
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait.interruption import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.parametrize(
    ("status", "reason", "decision"),
    [
        (0, "ConnectionRefused", Decision.RETRY),
        (0, "ConnectionReset", Decision.RETRY),
        (0, "ConnectionFailed", Decision.RETRY),
        (0, "Timeout", Decision.RETRY),
        (0, "DNS", Decision.RETRY),
        (0, "Proxy", Decision.RETRY),
        (0, "WatchInactive", Decision.RETRY),
        (0, "TLS", Decision.DOUBT),
        (200, "NotJSON", Decision.DOUBT),
        (302, "", Decision.DOUBT),
        (400, "BadRequest", Decision.STOP),
        (401, "Unauthorized", Decision.STOP),
        (403, "Forbidden", Decision.STOP),
        (404, "", Decision.STOP),
        (405, "MethodNotAllowed", Decision.STOP),
        (408, "Timeout", Decision.RETRY),
        (410, "Expired", Decision.RELIST),
        (500, "Expired", Decision.RELIST),
        (415, "UnsupportedMediaType", Decision.STOP),
        (422, "Invalid", Decision.STOP),
        (429, "TooManyRequests", Decision.RETRY),
        (500, "InternalError", Decision.RETRY),
        (500, "ServerTimeout", Decision.RETRY),
        (502, "", Decision.RETRY),
        (503, "ServiceUnavailable", Decision.RETRY),
        (504, "Timeout", Decision.RETRY),
    ],
)
def test_policy(status: int, reason: str, decision: Decision) -> None:
    assert decide(ApiError("m", status=status, reason=reason)) is decision


def test_doubt_is_final_when_it_repeats_without_a_success_between() -> None:
    garbage = ApiError("no JSON", status=200, reason="NotJSON")
    troubles = Troubles()

    decisions = [troubles.meet(garbage), troubles.meet(garbage)]
    troubles.over()
    decisions += [troubles.meet(garbage) for _ in range(3)]

    assert decisions == [Decision.RETRY] * 4 + [Decision.STOP]
    assert troubles.count == 5
    assert troubles.last is garbage


def test_a_refusal_right_after_an_outage_must_hold() -> None:
    clock = FakeClock()
    forbidden = ApiError("no", status=403, reason="Forbidden")
    troubles = Troubles(clock)

    decisions = [troubles.meet(ApiError("away", reason="ConnectionRefused"))]
    for _ in range(2):
        decisions.append(troubles.meet(forbidden))
        clock.advance(5.0)
    troubles.over()
    decisions.append(troubles.meet(forbidden))

    assert decisions == [Decision.RETRY, Decision.RETRY, Decision.STOP, Decision.STOP]


def answers(*results: object) -> Iterator[object]:
    yield from results


def ask(results: Iterator[object]) -> object:
    result = next(results)
    if isinstance(result, Exception):
        raise result
    return result


def test_retrying_returns_the_first_answer() -> None:
    clock = FakeClock()
    busy = ApiError("busy", status=503)
    troubles = Troubles()
    results = answers(busy, busy, "fine")

    answer = retrying(lambda _: ask(results), Deadline.after(60.0, clock), troubles)

    assert answer == "fine"
    assert troubles.count == 2
    assert 0.3 <= clock.monotonic() <= 0.6


def test_retrying_waits_as_long_as_the_server_asks() -> None:
    clock = FakeClock()
    results = answers(ApiError("busy", status=429, retry_after=7.0), "fine")

    retrying(lambda _: ask(results), Deadline.after(60.0, clock))

    assert 7.1 <= clock.monotonic() <= 7.2


def test_retrying_stops_at_the_deadline_with_the_last_error() -> None:
    clock = FakeClock()
    busy = ApiError("busy", status=429, retry_after=100.0)

    with pytest.raises(ApiError) as caught:
        retrying(lambda _: ask(answers(busy)), Deadline.after(5.0, clock))

    assert caught.value is busy
    assert clock.monotonic() == 5.0


def test_retrying_passes_on_what_is_final() -> None:
    forbidden = ApiError("no", status=403)

    with pytest.raises(ApiError) as caught:
        retrying(lambda _: ask(answers(forbidden)), Deadline.after(5.0, FakeClock()))

    assert caught.value is forbidden


def silence(deadline: Deadline) -> object:
    """Answer nothing for as long as the caller listens."""
    deadline.clock.sleep(deadline.remaining)
    raise DeadlineExceeded("GET /x: no complete answer within 30s")


def test_retrying_without_any_answer_is_past_its_deadline() -> None:
    clock = FakeClock()

    with pytest.raises(DeadlineExceeded):
        retrying(silence, Deadline.after(5.0, clock))

    assert clock.monotonic() == 5.0


def test_a_silent_connection_is_given_up_for_another() -> None:
    clock = FakeClock()
    troubles = Troubles()
    calls: Iterator[Callable[[Deadline], object]] = iter((silence, lambda _: "fine"))

    answer = retrying(lambda left: next(calls)(left), Deadline.after(300.0, clock), troubles)

    assert answer == "fine"
    assert 30.1 <= clock.monotonic() <= 30.2
    assert str(troubles.last) == "Timeout: GET /x: no complete answer within 30s"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiError("busy", status=500), "a/b could not be read in time: 500: busy"),
        (DeadlineExceeded("late"), "a/b could not be read in time: late"),
    ],
)
def test_what_comes_before_a_wait_ends_as_it_does(error: Exception, text: str) -> None:
    clock = FakeClock()
    deadline = Deadline.after(5.0, clock)
    clock.advance(5.0)
    with pytest.raises(WaitTimeout) as caught, in_time(deadline, "a/b could not be read"):
        raise error
    assert (type(caught.value), str(caught.value)) == (WaitTimeout, text)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("passed", [0.0, 5.0])
def test_what_is_final_before_a_wait_stays_what_it_is(passed: float) -> None:
    clock = FakeClock()
    deadline = Deadline.after(5.0, clock)
    error = ApiError("no", status=403) if passed else ApiError("busy", status=500)
    clock.advance(passed)
    with pytest.raises(ApiError) as caught, in_time(deadline, "a/b could not be read"):
        raise error
    assert caught.value is error

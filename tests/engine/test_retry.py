from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import (
    ErrorAction,
    ErrorLog,
    classify_error,
    request_with_retry,
    within_deadline,
)
from pytest_kwait.errors import ApiError, WaitTimeout
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.parametrize(
    ("status", "reason", "decision"),
    [
        (0, "ConnectionRefused", ErrorAction.RETRY),
        (0, "ConnectionReset", ErrorAction.RETRY),
        (0, "ConnectionFailed", ErrorAction.RETRY),
        (0, "Timeout", ErrorAction.RETRY),
        (0, "DNS", ErrorAction.RETRY),
        (0, "Proxy", ErrorAction.RETRY),
        (0, "WatchInactive", ErrorAction.RETRY),
        (0, "TLS", ErrorAction.DOUBT),
        (200, "NotJSON", ErrorAction.DOUBT),
        (302, "", ErrorAction.DOUBT),
        (400, "BadRequest", ErrorAction.STOP),
        (401, "Unauthorized", ErrorAction.STOP),
        (403, "Forbidden", ErrorAction.STOP),
        (404, "", ErrorAction.STOP),
        (405, "MethodNotAllowed", ErrorAction.STOP),
        (408, "Timeout", ErrorAction.RETRY),
        (410, "Expired", ErrorAction.RELIST),
        (500, "Expired", ErrorAction.RELIST),
        (415, "UnsupportedMediaType", ErrorAction.STOP),
        (422, "Invalid", ErrorAction.STOP),
        (429, "TooManyRequests", ErrorAction.RETRY),
        (500, "InternalError", ErrorAction.RETRY),
        (500, "ServerTimeout", ErrorAction.RETRY),
        (502, "", ErrorAction.RETRY),
        (503, "ServiceUnavailable", ErrorAction.RETRY),
        (504, "Timeout", ErrorAction.RETRY),
    ],
)
def test_policy(status: int, reason: str, decision: ErrorAction) -> None:
    assert classify_error(ApiError("m", status=status, reason=reason)) is decision


def test_doubt_is_final_when_it_repeats_without_a_success_between() -> None:
    garbage = ApiError("no JSON", status=200, reason="NotJSON")
    errors = ErrorLog()

    decisions = [errors.decide(garbage), errors.decide(garbage)]
    errors.record_success()
    decisions += [errors.decide(garbage) for _ in range(3)]

    assert decisions == [ErrorAction.RETRY] * 4 + [ErrorAction.STOP]
    assert errors.count == 5
    assert errors.last is garbage


def test_a_refusal_right_after_an_outage_must_hold() -> None:
    clock = FakeClock()
    forbidden = ApiError("no", status=403, reason="Forbidden")
    errors = ErrorLog(clock)

    decisions = [errors.decide(ApiError("away", reason="ConnectionRefused"))]
    for _ in range(2):
        decisions.append(errors.decide(forbidden))
        clock.advance(5.0)
    errors.record_success()
    decisions.append(errors.decide(forbidden))

    assert decisions == [ErrorAction.RETRY, ErrorAction.RETRY, ErrorAction.STOP, ErrorAction.STOP]


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
    errors = ErrorLog()
    results = answers(busy, busy, "fine")

    answer = request_with_retry(lambda _: ask(results), Deadline.after(60.0, clock), errors)

    assert answer == "fine"
    assert errors.count == 2
    assert 0.3 <= clock.monotonic() <= 0.6


def test_retrying_waits_as_long_as_the_server_asks() -> None:
    clock = FakeClock()
    results = answers(ApiError("busy", status=429, retry_after=7.0), "fine")

    request_with_retry(lambda _: ask(results), Deadline.after(60.0, clock))

    assert 7.1 <= clock.monotonic() <= 7.2


def test_retrying_stops_at_the_deadline_with_the_last_error() -> None:
    clock = FakeClock()
    busy = ApiError("busy", status=429, retry_after=100.0)

    with pytest.raises(ApiError) as caught:
        request_with_retry(lambda _: ask(answers(busy)), Deadline.after(5.0, clock))

    assert caught.value is busy
    assert clock.monotonic() == 5.0


def test_retrying_passes_on_what_is_final() -> None:
    forbidden = ApiError("no", status=403)

    with pytest.raises(ApiError) as caught:
        request_with_retry(lambda _: ask(answers(forbidden)), Deadline.after(5.0, FakeClock()))

    assert caught.value is forbidden


def silence(deadline: Deadline) -> object:
    """Answer nothing for as long as the caller listens."""
    deadline.clock.sleep(deadline.remaining)
    raise DeadlineExceeded("GET /x: no complete answer within 30s")


def test_retrying_without_any_answer_is_past_its_deadline() -> None:
    clock = FakeClock()

    with pytest.raises(DeadlineExceeded):
        request_with_retry(silence, Deadline.after(5.0, clock))

    assert clock.monotonic() == 5.0


def test_a_silent_connection_is_given_up_for_another() -> None:
    clock = FakeClock()
    errors = ErrorLog()
    calls: Iterator[Callable[[Deadline], object]] = iter((silence, lambda _: "fine"))

    answer = request_with_retry(
        lambda left: next(calls)(left), Deadline.after(300.0, clock), errors
    )

    assert answer == "fine"
    assert 30.1 <= clock.monotonic() <= 30.2
    assert str(errors.last) == "Timeout: GET /x: no complete answer within 30s"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiError("busy", status=500), "a/b could not be read in time: 500: busy"),
        (DeadlineExceeded("late"), "a/b could not be read in time: late"),
    ],
)
def test_errors_of_preparation_after_the_deadline_are_timeouts(error: Exception, text: str) -> None:
    clock = FakeClock()
    deadline = Deadline.after(5.0, clock)
    clock.advance(5.0)
    with pytest.raises(WaitTimeout) as caught, within_deadline(deadline, "a/b could not be read"):
        raise error
    assert (type(caught.value), str(caught.value)) == (WaitTimeout, text)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("passed", [0.0, 5.0])
def test_final_and_early_errors_of_preparation_stay_unchanged(passed: float) -> None:
    clock = FakeClock()
    deadline = Deadline.after(5.0, clock)
    error = ApiError("no", status=403) if passed else ApiError("busy", status=500)
    clock.advance(passed)
    with pytest.raises(ApiError) as caught, within_deadline(deadline, "a/b could not be read"):
        raise error
    assert caught.value is error

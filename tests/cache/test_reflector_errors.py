from __future__ import annotations

import pytest

from pytest_kwait import wait
from pytest_kwait.cache.collection_watch import VeryShortWatchError
from pytest_kwait.cache.reflector import (
    is_connection_lost,
    is_expired,
    is_permanent,
    is_watch_error_retriable,
)
from pytest_kwait.errors import ApiError, InvalidArgument
from tests.cache.fakes import connection_refused, expired, refused

SHORT = VeryShortWatchError("pods", 0.25)
MALFORMED = refused(200, "NotJSON", "expected an event, got <html>")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (expired(), True),
        (refused(410, "Gone"), True),
        (refused(500, "Expired"), True),
        (refused(404, "NotFound"), False),
        (SHORT, False),
    ],
)
def test_is_expired(error: Exception, expected: bool) -> None:
    assert is_expired(error) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refused(429, "TooManyRequests"), True),
        (connection_refused(), True),
        (refused(0, "ConnectionReset"), False),
        (refused(503, "ServiceUnavailable"), False),
        (SHORT, False),
    ],
)
def test_is_watch_error_retriable(error: Exception, expected: bool) -> None:
    assert is_watch_error_retriable(error) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [(refused(0, "ConnectionReset"), True), (refused(503), False), (SHORT, False)],
)
def test_is_connection_lost(error: Exception, expected: bool) -> None:
    assert is_connection_lost(error) is expected


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 406, 415, 422])
def test_refused_request_is_permanent(status: int) -> None:
    assert is_permanent(refused(status))


@pytest.mark.parametrize(
    "error",
    [
        None,
        *(refused(status) for status in (0, 408, 409, 410, 429, 500, 502, 503, 504)),
        wait.DeadlineExceeded(),
        SHORT,
    ],
)
def test_passing_trouble_is_not_permanent(error: Exception | None) -> None:
    assert not is_permanent(error, in_row=1000)


def test_malformed_answers_are_permanent_from_the_third() -> None:
    assert [is_permanent(MALFORMED, in_row=times) for times in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize("error", [KeyError("x"), InvalidArgument("selector", 3, "a text")])
def test_error_that_ended_the_informer_is_permanent(error: Exception) -> None:
    assert not isinstance(error, ApiError)
    assert is_permanent(error)

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import errors
from pytest_kwait.errors import (
    ApiError,
    ClusterError,
    InvalidArgument,
    KwaitError,
    WaitFailed,
    WaitTimeout,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class Report:
    """What the engine gives to an error."""

    headline = "job/pi did not complete"
    elapsed = 60.2

    @property
    def evidence(self) -> Mapping[str, Any]:
        return {"awaited": "job/pi"}

    def render(self) -> str:
        return "job/pi did not complete\n  pod pi-1: Pending"


def test_everything_is_a_kwait_error() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), KwaitError), name


def test_they_are_also_what_python_calls_them() -> None:
    assert issubclass(WaitTimeout, TimeoutError)
    assert issubclass(InvalidArgument, ValueError)
    assert not issubclass(WaitFailed, TimeoutError)


def test_an_invalid_argument_names_value_and_what_is_valid() -> None:
    error = InvalidArgument("poll", "often", "use seconds")
    assert str(error) == "poll='often' is not valid: use seconds"
    assert (error.what, error.value, error.valid) == ("poll", "often", "use seconds")
    assert error.source is None


def test_an_invalid_argument_names_its_source() -> None:
    error = InvalidArgument("poll", 0, "use seconds", "env KWAIT_POLL")
    assert str(error) == "poll=0 (from env KWAIT_POLL) is not valid: use seconds"


@pytest.mark.parametrize("kind", [WaitTimeout, WaitFailed])
def test_a_wait_error_says_its_message_or_its_report(
    kind: type[WaitTimeout | WaitFailed],
) -> None:
    plain = kind("not in time")
    assert (str(plain), plain.report, plain.evidence) == ("not in time", None, {})
    assert (plain.args, plain.waited) == (("not in time",), None)
    reported = kind(report=Report())
    assert str(reported) == "job/pi did not complete\n  pod pi-1: Pending"
    assert reported.args == ("job/pi did not complete",)
    assert (reported.evidence, reported.waited) == ({"awaited": "job/pi"}, 60.2)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "no route to host"),
        ({"reason": "Timeout"}, "Timeout: no route to host"),
        ({"status": 404, "reason": "NotFound"}, "404 NotFound: no route to host"),
        ({"status": 500}, "500: no route to host"),
        (
            {"status": 403, "reason": "Forbidden", "method": "GET", "path": "/api"},
            "GET /api: 403 Forbidden: no route to host",
        ),
        ({"method": "GET", "path": "/api"}, "GET /api: no route to host"),
    ],
)
def test_an_api_error_says_request_answer_and_message(facts: dict[str, Any], text: str) -> None:
    assert str(ApiError("no route to host", **facts)) == text


def test_an_api_error_carries_the_facts() -> None:
    error = ApiError("slow down", status=429, retry_after=2.0, body={"kind": "Status"})
    assert (error.status, error.retry_after, error.body) == (429, 2.0, {"kind": "Status"})
    bare = ApiError("gone")
    assert (bare.status, bare.reason, bare.retry_after, bare.body) == (0, "", None, {})


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("poll", "often", "use seconds", "ini kwait_poll"),
        WaitTimeout("not in time"),
        ApiError("gone"),
        ClusterError("no cluster"),
    ],
)
def test_errors_survive_the_way_between_processes(error: KwaitError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)

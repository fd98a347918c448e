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
    describe_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class Report:
    """What the engine gives to an error."""

    headline = "job/pi did not complete"
    summary = "job/pi: 0 of 1"
    elapsed = 60.2

    @property
    def evidence(self) -> Mapping[str, Any]:
        return {"awaited": "job/pi"}

    def render(self) -> str:
        return "job/pi did not complete\n  pod pi-1: Pending"


def test_all_errors_are_kwait_errors() -> None:
    for name in errors.__all__:
        value = getattr(errors, name)
        assert not isinstance(value, type) or issubclass(value, KwaitError), name


def test_errors_have_built_in_base_classes() -> None:
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
def test_wait_error_text_is_message_or_report(
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
def test_api_error_text_has_request_response_and_message(facts: dict[str, Any], text: str) -> None:
    assert str(ApiError("no route to host", **facts)) == text


def test_api_error_attributes() -> None:
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
def test_errors_can_be_pickled(error: KwaitError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)


class _Rude:
    def __repr__(self) -> str:
        raise RuntimeError("cannot be shown")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("5 min", "'5 min'"),
        ("x" * 1000, f"'{'x' * 199}… (1002 characters) …{'x' * 49}'"),
        (10**5000, "<int that cannot be shown>"),
        (_Rude(), "<_Rude that cannot be shown>"),
        ("\ud800", r"'\ud800'"),
    ],
    ids=["text", "long text", "long number", "rude", "surrogate"],
)
def test_any_value_can_be_named_in_a_message(value: object, shown: str) -> None:
    assert describe_value(value) == shown
    message = f"timeout={shown} is not valid: use seconds"
    assert str(InvalidArgument("timeout", value, "use seconds")) == message

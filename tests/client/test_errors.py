from __future__ import annotations

import errno
import http.client
import socket
import ssl
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from urllib3 import HTTPConnectionPool, exceptions
from urllib3.connection import HTTPConnection

from pytest_kwait.client.errors import (
    StartupGrace,
    make_connection_error,
    make_response_error,
    make_status_error,
    parse_warnings,
)
from pytest_kwait.errors import ApiError
from pytest_kwait.testing import FakeClock

CLOCK = FakeClock()
CONNECTION = HTTPConnection("h")
POOL = HTTPConnectionPool("h")


def status(**fields: Any) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", **fields}


@pytest.mark.parametrize(
    ("code", "headers", "data", "text", "retry_after"),
    [
        pytest.param(
            404,
            {},
            b'{"kind":"Status","message":"pods \\"p\\" not found","reason":"NotFound"}',
            'GET /x: 404 NotFound: pods "p" not found',
            None,
            id="a Status",
        ),
        pytest.param(
            429,
            {"Retry-After": "3"},
            b'{"kind":"Status","message":"m","reason":"TooManyRequests",'
            b'"details":{"retryAfterSeconds":9}}',
            "GET /x: 429 TooManyRequests: m",
            3.0,
            id="the header says when",
        ),
        pytest.param(
            504,
            {},
            b'{"kind":"Status","reason":"Timeout","details":{"retryAfterSeconds":1}}',
            "GET /x: 504 Timeout: Timeout",
            1.0,
            id="the details say when",
        ),
        pytest.param(404, {}, b"404 page not found\n", "GET /x: 404: 404 page not found", None),
        pytest.param(502, {}, b"", "GET /x: 502: Bad Gateway", None, id="nothing"),
        pytest.param(599, {}, b"", "GET /x: 599: no message", None, id="an unknown status"),
        pytest.param(
            503,
            {"Retry-After": format_datetime(datetime.fromtimestamp(CLOCK.time() + 30, UTC))},
            b"<h1>Busy</h1>",
            "GET /x: 503: Busy",
            30.0,
            id="a date in the future",
        ),
        pytest.param(
            503,
            {"Retry-After": "Thu, 01 Jan 2004 00:00:00 GMT"},
            b"Busy",
            "GET /x: 503: Busy",
            0.0,
            id="a date in the past",
        ),
        pytest.param(
            500,
            {},
            b"[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/x failed: reason "
            b"withheld\n[+]log ok\nreadyz check failed\n",
            "GET /x: 500: etcd failed; poststarthook/x failed",
            None,
            id="checks of health",
        ),
        pytest.param(503, {"Retry-After": "soon"}, b"Busy", "GET /x: 503: Busy", None, id="a word"),
        pytest.param(500, {}, b'{"kind":"Pod"}', 'GET /x: 500: {"kind":"Pod"}', None, id="a pod"),
    ],
)
def test_errors_of_answers(
    code: int, headers: dict[str, str], data: bytes, text: str, retry_after: float | None
) -> None:
    error = make_response_error("GET", "/x", code, headers, data, CLOCK)
    assert (error.status, str(error), error.retry_after) == (code, text, retry_after)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (status(reason="Expired"), 410),
        (status(reason="Gone", code=None), 410),
        (status(message="decode error"), 500),
        (status(code=504), 504),
    ],
)
def test_errors_in_a_stream_have_a_status(body: dict[str, Any], code: int) -> None:
    error = make_status_error(body, "GET", "/x")
    assert error.status == code
    assert error.body is body


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
UNREACHABLE = OSError(errno.EHOSTUNREACH, "No route to host")


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (
            caused(exceptions.NewConnectionError(CONNECTION, "long words"), REFUSED),
            "ConnectionRefused",
            str(REFUSED),
        ),
        (
            caused(exceptions.NewConnectionError(CONNECTION, "long words"), UNREACHABLE),
            "ConnectionFailed",
            str(UNREACHABLE),
        ),
        (
            exceptions.NameResolutionError("h", CONNECTION, socket.gaierror(-2, "unknown")),
            "DNS",
            None,
        ),
        (
            exceptions.ProtocolError("aborted", http.client.RemoteDisconnected("closed")),
            "ConnectionReset",
            "closed",
        ),
        (
            exceptions.ProtocolError("aborted", ConnectionResetError(errno.ECONNRESET, "reset")),
            "ConnectionReset",
            f"[Errno {errno.ECONNRESET}] reset",
        ),
        (
            exceptions.ProtocolError("aborted", BrokenPipeError(errno.EPIPE, "pipe")),
            "ConnectionReset",
            f"[Errno {errno.EPIPE}] pipe",
        ),
        (
            exceptions.ProtocolError("broken", exceptions.IncompleteRead(1, 2)),
            "ConnectionReset",
            "IncompleteRead(1 bytes read, 2 more expected)",
        ),
        (exceptions.ProtocolError("ended early"), "ConnectionReset", "ended early"),
        (
            exceptions.ProtocolError("aborted", http.client.BadStatusLine("x")),
            "ConnectionFailed",
            "x",
        ),
        (exceptions.ReadTimeoutError(POOL, "/", "slow"), "Timeout", None),
        (exceptions.ConnectTimeoutError(CONNECTION, "slow"), "Timeout", None),
        (TimeoutError("slow"), "Timeout", "slow"),
        (exceptions.SSLError(ssl.SSLError(1, "bad certificate")), "TLS", None),
        (exceptions.SSLError("no certificate"), "TLS", "no certificate"),
        (exceptions.SSLError(ssl.SSLEOFError(8, "ended early")), "ConnectionReset", None),
        (ssl.SSLEOFError(8, "ended early"), "ConnectionReset", None),
        (exceptions.SSLError(ssl.SSLZeroReturnError(6, "closed")), "ConnectionReset", None),
        (
            exceptions.ProxyError("no", OSError("Tunnel connection failed: 407")),
            "Proxy",
            "Tunnel connection failed: 407",
        ),
        (
            exceptions.MaxRetryError(POOL, "/", caused(exceptions.HTTPError("x"), REFUSED)),
            "ConnectionRefused",
            str(REFUSED),
        ),
        (ValueError(), "ConnectionFailed", "ValueError"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_errors_of_connections(error: Exception, reason: str, text: str | None) -> None:
    found = make_connection_error("GET", "/x", error, "https://h")
    assert (found.status, found.reason) == (0, reason)
    if text is not None:
        assert str(found) == f"GET /x: {reason}: https://h: {text}"


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (None, []),
        ('299 - "one"', ["one"]),
        ('299 - "a \\"b\\" \\\\", 299 - "c"', ['a "b" \\', "c"]),
        ("nonsense", []),
    ],
)
def test_warnings(value: str | None, texts: list[str]) -> None:
    assert list(parse_warnings({"Warning": value} if value else {})) == texts


AWAY = [
    ApiError("refused", reason="ConnectionRefused"),
    ApiError("reset", reason="ConnectionReset"),
    ApiError("a proxy's", status=502),
    ApiError("starting", status=503, reason="ServiceUnavailable"),
]
REFUSALS = [
    ApiError("who?", status=401, reason="Unauthorized"),
    ApiError("no", status=403, reason="Forbidden"),
]
by_refusal = pytest.mark.parametrize("refusal", REFUSALS, ids=str)


@by_refusal
def test_without_an_outage_a_refusal_is_final(refusal: ApiError) -> None:
    outage = StartupGrace(FakeClock())

    assert not outage.record_error(refusal)
    assert not outage.record_error(ApiError("slow down", status=429))
    assert not outage.record_error(refusal)


@by_refusal
@pytest.mark.parametrize("away", AWAY, ids=str)
@pytest.mark.parametrize(("lasted", "grace"), [(0, 5), (4, 5), (12, 12), (60, 30)])
def test_after_an_outage_a_refusal_must_hold(
    away: ApiError, refusal: ApiError, lasted: float, grace: float
) -> None:
    """As long as the outage, within limits: a server that starts slowly reads roles slowly."""
    clock = FakeClock()
    outage = StartupGrace(clock)
    for _ in range(2):
        assert not outage.record_error(away)
        clock.advance(lasted / 2)

    assert outage.record_error(refusal)
    clock.advance(grace - 0.1)
    assert outage.record_error(refusal)
    clock.advance(0.2)
    assert not outage.record_error(refusal)


def test_each_outage_has_its_own_time_to_settle() -> None:
    clock = FakeClock()
    outage = StartupGrace(clock)
    for error in (AWAY[0], REFUSALS[1]):
        outage.record_error(error)
    clock.advance(4.0)
    outage.record_error(AWAY[0])
    clock.advance(4.0)

    assert outage.record_error(REFUSALS[1])


def test_an_answer_ends_the_outage() -> None:
    outage = StartupGrace(FakeClock())
    outage.record_error(AWAY[0])

    outage.record_success()

    assert not outage.record_error(REFUSALS[1])


@pytest.mark.parametrize("status", [400, 404, 405, 409, 415, 422])
def test_other_final_errors_are_never_excused(status: int) -> None:
    outage = StartupGrace(FakeClock())
    outage.record_error(AWAY[0])

    assert not outage.record_error(ApiError("no", status=status))

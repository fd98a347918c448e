"""The faults: what each does to an open watch and to new requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pytest_kwait.cache.collection_watch import WATCH_INACTIVITY
from pytest_kwait.client.errors import LONGEST_STARTUP_GRACE, STARTUP_GRACE
from pytest_kwait.clock import async_sleep
from pytest_kwait.engine.retry import REPEATS, REQUEST_TIMEOUT, make_retry_backoff
from tools.fault_proxy.exchange import status_body

if TYPE_CHECKING:
    from tools.fault_proxy.exchange import Exchange, Request

Injection = Callable[["Exchange"], Awaitable[None]]


class ConnectionBehavior(Enum):
    """The treatment of new connections."""

    ACCEPT = "accept"
    REFUSE = "refuse"
    """Refuse the connection."""

    CLOSE_IN_HANDSHAKE = "close in handshake"
    """Accept, then close in the TLS handshake, like a forwarder to a stopped server."""


_HALF = b'{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"ha'
_GARBAGE = b"<html><body>It works!</body></html>\n"


_FIRST, _MOST = make_retry_backoff().duration, make_retry_backoff().cap
SOON = f"{_FIRST:g} to {2 * _FIRST:g} s at first, up to {2 * _MOST:g} s while it lasts"
RESUME_WATCH = "resumes the watch"
RELIST = "lists again, then watches"
POLL_AGAIN = "polls again after `poll`"
WATCHES_UNAFFECTED = "not affected"
DOUBT = f"{REPEATS} in a row end it: ApiError"
REFUSED = "ends: ApiError"


def _is_watch(request: Request) -> bool:
    return request.is_watch


@dataclass(frozen=True)
class Fault:
    """One way in which a connection or an API server fails.

    Args:
        title: what happens, as a row of the table.
        answers: the response to a request.
        breaks: the effect on an open watch.
        applies_to: selects requests.
        connections: the treatment of new connections meanwhile.
        after: seconds for which a watch runs before.
        watching: the reaction of a wait in watch mode.
        polling: the reaction of a wait in poll mode.
        takes: the delay of that reaction.
    """

    title: str
    answers: Injection
    breaks: Injection
    applies_to: Callable[[Request], bool] = lambda _: True
    connections: ConnectionBehavior = ConnectionBehavior.ACCEPT
    after: float = 0.0
    watching: str = RESUME_WATCH
    polling: str = POLL_AGAIN
    takes: str = SOON

    @property
    def watches_only(self) -> bool:
        """Return whether it applies to watches only."""
        return self.applies_to is _is_watch


async def _reset(exchange: Exchange) -> None:
    exchange.reset()


async def _close(exchange: Exchange) -> None:
    exchange.close()


async def _stall(exchange: Exchange) -> None:
    await exchange.stall()


async def _end(exchange: Exchange) -> None:
    await exchange.end_stream()


async def _empty_watch(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.end_stream()


async def _half_line_then_reset(exchange: Exchange) -> None:
    await exchange.chunk(_HALF)
    exchange.reset()


async def _half_line_then_close(exchange: Exchange) -> None:
    await exchange.chunk(_HALF)
    exchange.close()


async def _half_line_then_end(exchange: Exchange) -> None:
    await exchange.chunk(_HALF)
    await exchange.end_stream()


async def _half_line_then_stall(exchange: Exchange) -> None:
    await exchange.chunk(_HALF)
    await exchange.stall()


async def _half_line_watch(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await _half_line_then_end(exchange)


async def _half_answer(exchange: Exchange) -> None:
    """Send the head and the first half of the API server's response."""
    answer = await exchange.forward()
    if exchange.request.is_watch:
        await exchange.begin_stream()
        await exchange.chunk(_HALF)
        return
    body = await answer.body()
    await exchange.head(answer.status, {"Content-Length": str(len(body))})
    await exchange.send(body[: len(body) // 2])


async def _half_answer_then_reset(exchange: Exchange) -> None:
    await _half_answer(exchange)
    exchange.reset()


async def _half_answer_then_close(exchange: Exchange) -> None:
    await _half_answer(exchange)
    exchange.close()


async def _half_answer_then_stall(exchange: Exchange) -> None:
    await _half_answer(exchange)
    await exchange.stall()


async def _headers_then_stall(exchange: Exchange) -> None:
    if exchange.request.is_watch:
        await exchange.begin_stream()
    else:
        await exchange.head("200 OK", {"Content-Length": "1000"})
    await exchange.stall()


async def _trickle(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        await exchange.send(b"x")
        await async_sleep(0.05)


async def _garbage(exchange: Exchange) -> None:
    await exchange.answer("200 OK", _GARBAGE)


async def _garbage_line(exchange: Exchange) -> None:
    await exchange.chunk(_GARBAGE)
    await exchange.stall()


async def _no_http(exchange: Exchange) -> None:
    await exchange.send(b"\x15\x03\x01\x00\x02\x02\x46 220 mail.example ESMTP\r\n\r\n")
    exchange.close()


def _error_line(code: int, reason: str) -> Injection:
    async def inject(exchange: Exchange) -> None:
        await exchange.chunk(b'{"type":"ERROR","object":' + status_body(code, reason) + b"}\n")
        await exchange.end_stream()

    return inject


def _error_watch(code: int, reason: str) -> Injection:
    line = _error_line(code, reason)

    async def inject(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await line(exchange)

    return inject


def _status(code: int, reason: str, **headers: str) -> Injection:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def inject(exchange: Exchange) -> None:
        await exchange.refuse(code, reason, named)

    return inject


def _watch_fault(title: str, answers: Injection, breaks: Injection, **options: Any) -> Fault:
    return Fault(
        title, answers, breaks, applies_to=_is_watch, **{"polling": WATCHES_UNAFFECTED, **options}
    )


RESET = Fault("connection reset", _reset, _reset)
TOO_OLD = _watch_fault(
    "410 as a line of the watch",
    _error_watch(410, "Expired"),
    _error_line(410, "Expired"),
    watching=RELIST,
)
FAULTS = (
    RESET,
    Fault("connection closed without a word", _close, _close),
    Fault("answer cut in its middle by a reset", _half_answer_then_reset, _half_line_then_reset),
    Fault("answer cut in its middle by an end", _half_answer_then_close, _half_line_then_close),
    _watch_fault("watch ended within a line", _half_line_watch, _half_line_then_end),
    _watch_fault("watch ended cleanly, at once", _empty_watch, _end, watching=RELIST),
    _watch_fault("watch ended cleanly, later", _empty_watch, _end, after=1.1, takes="no time"),
    TOO_OLD,
    _watch_fault("410 as the status", _status(410, "Expired"), _reset, watching=RELIST),
    _watch_fault(
        "500 as a line of the watch",
        _error_watch(500, "InternalError"),
        _error_line(500, "InternalError"),
    ),
    Fault(
        "429 with Retry-After: 1",
        _status(429, "TooManyRequests", Retry_After="1"),
        _reset,
        takes="1 s longer",
    ),
    Fault("500", _status(500, "InternalError"), _reset),
    Fault("503", _status(503, "ServiceUnavailable"), _reset),
    Fault("504", _status(504, "Timeout"), _reset),
    Fault(
        "HTML instead of JSON",
        _garbage,
        _garbage_line,
        watching=f"{RESUME_WATCH}; {DOUBT}",
        polling=f"{POLL_AGAIN}; {DOUBT}",
    ),
    Fault("another protocol than HTTP", _no_http, _reset),
    Fault("connection refused", _reset, _reset, connections=ConnectionBehavior.REFUSE),
    Fault(
        "connection closed in the handshake",
        _reset,
        _reset,
        connections=ConnectionBehavior.CLOSE_IN_HANDSHAKE,
    ),
)
"""Transient faults that the client detects at once; every wait survives them."""

_LIMITS = f"{REQUEST_TIMEOUT:g} s of a list, {WATCH_INACTIVITY:g} s of a watch"
_STALL_DURATION = f"{_LIMITS}; a grace never runs out on it"

STALLS = tuple(
    Fault(title, answers, breaks, watching=f"times out, then {RESUME_WATCH}", takes=_STALL_DURATION)
    for title, answers, breaks in (
        ("stall before the headers", _stall, _stall),
        ("headers that trickle in", _trickle, _stall),
        ("stall after the headers", _headers_then_stall, _stall),
        ("stall within the body", _half_answer_then_stall, _half_line_then_stall),
    )
)
"""Half-open connections, detected only by timeouts."""

_GRACE = f"{STARTUP_GRACE:g} to {LONGEST_STARTUP_GRACE:g} s"
_HOLDS = f"no time; after an outage {_GRACE}, in which it must hold"

REFUSALS = tuple(
    Fault(
        f"{code} {reason}",
        _status(code, reason),
        _reset,
        watching=REFUSED,
        polling=REFUSED,
        takes=_HOLDS if code in (401, 403) else "no time",
    )
    for code, reason in (
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (405, "MethodNotAllowed"),
        (422, "Invalid"),
    )
)
"""Permanent errors: every wait ends at once."""

TOO_BUSY = Fault(
    "429 with Retry-After: 60",
    _status(429, "TooManyRequests", Retry_After="60"),
    _reset,
    takes="60 s longer, or the limit of the wait",
)

ALL_FAULTS = (*FAULTS, *STALLS, *REFUSALS, TOO_BUSY)
"""All faults, in the order of the documentation's table."""

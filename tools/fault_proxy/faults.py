"""The faults: what each does to an open watch and to new requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.errors import STARTUP_GRACE
from pytest_kwait.clock import async_sleep
from pytest_kwait.engine.retry import REPEATS, REQUEST_TIMEOUT, make_retry_backoff
from pytest_kwait.engine.shared_stream import INACTIVITY
from tools.fault_proxy.exchange import status_body

if TYPE_CHECKING:
    from tools.fault_proxy.exchange import Exchange, Request

__all__ = [
    "ALL_FAULTS",
    "FAULTS",
    "REFUSALS",
    "RESET",
    "SILENCES",
    "TOO_BUSY",
    "TOO_OLD",
    "ConnectionBehavior",
    "Fault",
]

Harm = Callable[["Exchange"], Awaitable[None]]


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
ON = "watches on from where it was"
ANEW = "lists anew, and watches from there"
AGAIN = "looks again after `poll`"
UNMET = "meets no watch"
DOUBT = f"{REPEATS} in a row end it: ApiError"
REFUSED = "ends: ApiError"


def _is_watch(request: Request) -> bool:
    return request.is_watch


@dataclass(frozen=True)
class Fault:
    """One way in which a connection or an API server fails.

    Args:
        title: what happens, as a row of the table.
        answers: what a request is answered with.
        breaks: what happens to a watch that is open.
        meets: which requests meet it.
        door: what new connections meet while it lasts.
        after: seconds for which a watch is let run before.
        watching: what a wait in watch mode does.
        polling: what a wait in poll mode does.
        takes: how long it takes until that goes on.
    """

    title: str
    answers: Harm
    breaks: Harm
    applies_to: Callable[[Request], bool] = lambda _: True
    door: ConnectionBehavior = ConnectionBehavior.ACCEPT
    after: float = 0.0
    watching: str = ON
    polling: str = AGAIN
    takes: str = SOON

    @property
    def watches_only(self) -> bool:
        """Whether it meets nothing but watches."""
        return self.applies_to is _is_watch


async def _reset(exchange: Exchange) -> None:
    exchange.reset()


async def _close(exchange: Exchange) -> None:
    exchange.close()


async def _silence(exchange: Exchange) -> None:
    await exchange.silence()


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


async def _half_line_then_silence(exchange: Exchange) -> None:
    await exchange.chunk(_HALF)
    await exchange.silence()


async def _half_line_watch(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await _half_line_then_end(exchange)


async def _half_answer(exchange: Exchange) -> None:
    """Send the head and the first half of the right answer."""
    answer = await exchange.ask()
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


async def _half_answer_then_silence(exchange: Exchange) -> None:
    await _half_answer(exchange)
    await exchange.silence()


async def _headers_then_silence(exchange: Exchange) -> None:
    if exchange.request.is_watch:
        await exchange.begin_stream()
    else:
        await exchange.head("200 OK", {"Content-Length": "1000"})
    await exchange.silence()


async def _trickle(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        await exchange.send(b"x")
        await async_sleep(0.05)


async def _garbage(exchange: Exchange) -> None:
    await exchange.answer("200 OK", _GARBAGE)


async def _garbage_line(exchange: Exchange) -> None:
    await exchange.chunk(_GARBAGE)
    await exchange.silence()


async def _no_http(exchange: Exchange) -> None:
    await exchange.send(b"\x15\x03\x01\x00\x02\x02\x46 220 mail.example ESMTP\r\n\r\n")
    exchange.close()


def _error_line(code: int, reason: str) -> Harm:
    async def harm(exchange: Exchange) -> None:
        await exchange.chunk(b'{"type":"ERROR","object":' + status_body(code, reason) + b"}\n")
        await exchange.end_stream()

    return harm


def _error_watch(code: int, reason: str) -> Harm:
    line = _error_line(code, reason)

    async def harm(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await line(exchange)

    return harm


def _status(code: int, reason: str, **headers: str) -> Harm:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def harm(exchange: Exchange) -> None:
        await exchange.refuse(code, reason, named)

    return harm


def _watch_fault(title: str, answers: Harm, breaks: Harm, **told: Any) -> Fault:
    return Fault(title, answers, breaks, applies_to=_is_watch, **{"polling": UNMET, **told})


RESET = Fault("connection reset", _reset, _reset)
TOO_OLD = _watch_fault(
    "410 as a line of the watch",
    _error_watch(410, "Expired"),
    _error_line(410, "Expired"),
    watching=ANEW,
)
FAULTS = (
    RESET,
    Fault("connection closed without a word", _close, _close),
    Fault("answer cut in its middle by a reset", _half_answer_then_reset, _half_line_then_reset),
    Fault("answer cut in its middle by an end", _half_answer_then_close, _half_line_then_close),
    _watch_fault("watch ended within a line", _half_line_watch, _half_line_then_end),
    _watch_fault("watch ended cleanly, at once", _empty_watch, _end, watching=ANEW),
    _watch_fault("watch ended cleanly, later", _empty_watch, _end, after=1.1, takes="no time"),
    TOO_OLD,
    _watch_fault("410 as the status", _status(410, "Expired"), _reset, watching=ANEW),
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
        watching=f"{ON}; {DOUBT}",
        polling=f"{AGAIN}; {DOUBT}",
    ),
    Fault("another protocol than HTTP", _no_http, _reset),
    Fault("connection refused", _reset, _reset, door=ConnectionBehavior.REFUSE),
    Fault(
        "connection closed in the handshake",
        _reset,
        _reset,
        door=ConnectionBehavior.CLOSE_IN_HANDSHAKE,
    ),
)
"""What passes by itself and says so at once: every wait outlives it."""

_SILENT = (
    f"{REQUEST_TIMEOUT:g} s of a list, {INACTIVITY:g} s of a watch; a grace never runs out on it"
)

SILENCES = tuple(
    Fault(title, answers, breaks, watching=f"gives it up, and {ON}", takes=_SILENT)
    for title, answers, breaks in (
        ("stall before the headers", _silence, _silence),
        ("headers that trickle in", _trickle, _silence),
        ("stall after the headers", _headers_then_silence, _silence),
        ("stall within the body", _half_answer_then_silence, _half_line_then_silence),
    )
)
"""Half-open connections, of which only time can tell that they are dead."""

_HOLDS = f"no time; after an outage {STARTUP_GRACE:g} s, in which it must hold"

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
"""What the server will say again however often it is asked: every wait ends at once."""

TOO_BUSY = Fault(
    "429 with Retry-After: 60",
    _status(429, "TooManyRequests", Retry_After="60"),
    _reset,
    takes="60 s longer, or the limit of the wait",
)

ALL_FAULTS = (*FAULTS, *SILENCES, *REFUSALS, TOO_BUSY)
"""Every fault, as the table in the documentation has them."""

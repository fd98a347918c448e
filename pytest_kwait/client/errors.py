"""API errors from responses and broken connections, and a grace after an outage.

An error carries the facts that retry policies need: status, reason, Retry-After. `StartupGrace`
excuses refusals (401, 403) of a server that has only just started: its caches may be empty.
"""

from __future__ import annotations

import errno
import http
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from http.client import IncompleteRead
from typing import TYPE_CHECKING, Any

import msgspec
from urllib3 import exceptions

from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from pytest_kwait.clock import Clock

STARTUP_GRACE = 5.0
"""Seconds that a refusal must last after a short outage to count."""

LONGEST_STARTUP_GRACE = 30.0
"""The same after a long one."""

_EXCERPT = 200
_object: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
# A proxy may accept connections while its server is down, and close them at once.
_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_RESET = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ENOTCONN}

_REFUSALS = frozenset({401, 403})


def make_response_error(
    method: str,
    path: str,
    status: int,
    headers: Mapping[str, str],
    data: bytes,
    clock: Clock,
) -> ApiError:
    """Return the error of an answer of status 300 or more.

    A Status object of the server is used as it is. Any other answer (a proxy's page, the text
    `404 page not found` of an API group that is not served) has no reason; its first words become
    the message.
    """
    retry_after = _parse_retry_after(headers, clock)
    try:
        body = _object.decode(data)
    except msgspec.DecodeError:
        body = {}
    if body.get("kind") == "Status":
        error = make_status_error(body, method, path, status)
        if retry_after is not None:
            error.retry_after = retry_after
        return error
    return ApiError(
        _parse_failed_checks(data) or excerpt(data) or _get_phrase(status),
        status=status,
        method=method,
        path=path,
        retry_after=retry_after,
    )


def make_status_error(
    body: Mapping[str, Any], method: str, path: str, status: int | None = None
) -> ApiError:
    """Return the error of a Status object; its code replaces a missing HTTP status."""
    code = status if status is not None else body.get("code")
    details = body.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
    reason = str(body.get("reason") or "")
    if not isinstance(code, int):
        code = 410 if reason in {"Expired", "Gone"} else 500
    return ApiError(
        str(body.get("message") or "") or reason or _get_phrase(code),
        status=code,
        reason=reason,
        method=method,
        path=path,
        retry_after=float(seconds) if isinstance(seconds, int) and seconds > 0 else None,
        body=body,
    )


def make_unreadable_error(
    method: str, path: str, status: int, data: bytes, expected: str
) -> ApiError:
    """Return the error `NotJSON` of an unreadable answer, with its first words."""
    return ApiError(
        f"expected {expected}, got {excerpt(data) or 'nothing'}",
        status=status,
        reason="NotJSON",
        method=method,
        path=path,
    )


def make_connection_error(method: str, path: str, error: BaseException, address: str) -> ApiError:
    """Return the error of a request without a complete answer.

    The status is 0, the reason one of `DNS`, `ConnectionRefused`, `ConnectionReset`, `Timeout`,
    `TLS`, `Proxy` and `ConnectionFailed`.
    """
    # urllib3 before 2.4 finds a malformed address by an AttributeError.
    causes = [cause for cause in _iterate_causes(error) if not isinstance(cause, AttributeError)]
    text = str(causes[-1]) or type(causes[-1]).__name__
    return ApiError(
        f"{address}: {text}", reason=get_connection_error_reason(error), method=method, path=path
    )


def get_connection_error_reason(error: BaseException) -> str:
    """Return the reason of a connection error, as `make_connection_error`."""
    return next(
        (reason for reason in map(_find_reason, _iterate_causes(error)) if reason),
        "ConnectionFailed",
    )


def parse_warnings(headers: Mapping[str, str]) -> Iterable[str]:
    """Return the texts of the Warning headers."""
    value = headers.get("Warning")
    if not value:
        return ()
    return [
        text.replace('\\"', '"').replace("\\\\", "\\")
        for text in re.findall(r'\b\d{3} \S+ "((?:[^"\\]|\\.)*)"', value)
    ]


def excerpt(data: bytes, length: int = _EXCERPT) -> str:
    """Return the first words of an answer on one line, without HTML tags.

    Args:
        data: the answer, or its beginning.
        length: the maximum number of characters.
    """
    text = data[: 8 * length].decode("utf-8", "replace")
    text = re.sub(r"(?s)<(script|style)\b.*?</\1>|<[^>]*>", " ", text)
    text = " ".join(text.split())
    printable = "".join(char if char.isprintable() else "?" for char in text)
    return printable if len(printable) <= length else printable[: length - 1] + "…"


def _parse_failed_checks(data: bytes) -> str:
    """Return the failed checks of a health endpoint; empty for any other answer.

    Source: apiserver server/healthz/healthz.go, handleRootHealth.
    """
    lines = data[: 64 * _EXCERPT].decode("utf-8", "replace").splitlines()
    failed = [line[3:].partition(":")[0] for line in lines if line.startswith("[-]")]
    return excerpt("; ".join(failed).encode())


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, the outermost first."""
    checked_errors: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in checked_errors:
        checked_errors.add(id(current))
        yield current
        inner = current.args[-1] if current.args else None
        if isinstance(current, exceptions.ProxyError):
            inner = current.original_error
        elif isinstance(current, exceptions.MaxRetryError):
            inner = current.reason
        current = inner if isinstance(inner, BaseException) else current.__cause__


def _find_reason(error: BaseException) -> str:
    match error:
        case exceptions.ProxyError():
            return "Proxy"
        case exceptions.NameResolutionError():
            return "DNS"
        case exceptions.SSLError() if isinstance(error.args[-1] if error.args else None, _CUT):
            return "ConnectionReset"
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return "ConnectionReset"
        case exceptions.SSLError() | ssl.SSLError():
            return "TLS"
        case exceptions.NewConnectionError() if not isinstance(error.__cause__, OSError):
            return ""
        case exceptions.TimeoutError() if not isinstance(error, exceptions.NewConnectionError):
            return "Timeout"
        case ConnectionRefusedError():
            return "ConnectionRefused"
        case ConnectionResetError() | IncompleteRead():
            return "ConnectionReset"
        case TimeoutError():
            return "Timeout"
        case OSError() if error.errno in _RESET:
            return "ConnectionReset"
        case exceptions.ProtocolError() if not isinstance(
            error.args[-1] if error.args else None, BaseException
        ):
            return "ConnectionReset"
        case _:
            return ""


def _get_phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "no message"


def _parse_retry_after(headers: Mapping[str, str], clock: Clock) -> float | None:
    """Return the seconds of a Retry-After header: a number, or a wall-clock date."""
    value = (headers.get("Retry-After") or "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - clock.time())
    except ValueError:
        return None


class StartupGrace:
    """Excuses refusals right after an outage of the server.

    An API server answers before it knows all roles: Kubernetes 1.36 was seen to refuse users with
    403 for 0.3 s after each start, and for more than 5 s on a machine so busy that the start took
    10 s. So the grace is as long as the outage, within limits. An unavailable authenticator makes
    it 401.

    Args:
        clock: the clock of the grace.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._away_since: float | None = None
        self._refused_at: float | None = None

    def record_error(self, error: ApiError) -> bool:
        """Record an error; return whether it is a refusal that the outage may explain."""
        now = self._clock.monotonic()
        if error.status not in _REFUSALS:
            if error.status == 0 or error.status >= 500:
                self._refused_at = None
                if self._away_since is None:
                    self._away_since = now
            return False
        if self._away_since is None:
            return False
        if self._refused_at is None:
            self._refused_at = now
        outage = self._refused_at - self._away_since
        return now - self._refused_at < max(STARTUP_GRACE, min(outage, LONGEST_STARTUP_GRACE))

    def record_success(self) -> None:
        """Record a successful answer."""
        self._away_since = self._refused_at = None

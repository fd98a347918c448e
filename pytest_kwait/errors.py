"""The errors a user can meet: few types, facts as attributes, the text derived from them."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PLAIN_TRACEBACKS",
    "ApiError",
    "ClusterError",
    "InvalidArgument",
    "KwaitError",
    "WaitFailed",
    "WaitTimeout",
    "describe_value",
]

_MAX_SUMMARY_START = 40
"""Characters before the valid values in the summary of an invalid argument."""

_MAX_SUMMARY_NAME = 20
"""Characters of the argument's name there, if its value is left out."""


class _PlainTracebacks(logging.Filter):
    """Formats the tracebacks of a logger without marks below their lines.

    For loggers of threads. To place the marks, `traceback` parses code. Until Python 3.12 this
    breaks another thread that parses at the same time, as pytest does to show a failure.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Format the traceback of a record, and let the record pass."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not record.exc_text:
            frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))
            record.exc_text = "".join(
                [
                    "Traceback (most recent call last):\n",
                    *frames.format(),
                    *traceback.format_exception_only(error),
                ]
            ).rstrip("\n")
        return True


PLAIN_TRACEBACKS = _PlainTracebacks()
"""The filter of loggers that threads of the package use."""


def describe_value(value: object, limit: int = 300) -> str:
    """Return the repr of any object for a message.

    Args:
        value: the object; its own repr may fail.
        limit: characters beyond which the middle is left out.
    """
    if hasattr(type(value), "openapi_types"):
        # A model of the official client is shown as all of its fields.
        name = getattr(getattr(value, "metadata", None), "name", None)
        return f"<{type(value).__name__}{f' {name}' if name else ''}>"
    try:
        text = repr(value).encode("utf-8", "backslashreplace").decode()
    except Exception:
        # A number of too many digits, a nesting that is too deep, a repr that raises.
        return f"<{type(value).__name__} that cannot be shown>"
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3]}… ({len(text)} characters) …{text[-limit // 6 :]}"


class KwaitError(Exception):
    """Anything that pytest-kwait raises on its own account."""


class InvalidArgument(KwaitError, ValueError):
    """An invalid value: names the value, its source and valid values.

    Args:
        what: the name of the argument or setting, for example `timeout`.
        value: the value as given.
        valid: the valid values, as a phrase.
        source: where the value came from, for example `env KWAIT_POLL`; None for a call's argument.
    """

    def __init__(self, what: str, value: object, valid: str, source: str | None = None) -> None:
        super().__init__(what, value, valid, source)
        self.what = what
        self.value = value
        self.valid = valid
        self.source = source

    def __str__(self) -> str:
        origin = f" (from {self.source})" if self.source else ""
        return f"{self.what}={describe_value(self.value)}{origin} is not valid: {self.valid}"

    @property
    def summary(self) -> str:
        """The cause for a line of a list of failures, without a long value or name."""
        text = str(self)
        if len(text) - len(self.valid) <= _MAX_SUMMARY_START:
            return text
        return f"{self.what}: {self.valid}" if len(self.what) <= _MAX_SUMMARY_NAME else self.valid


class FailureReport(Protocol):
    """The facts of a failed wait, as JSON and as a message (see `engine`)."""

    @property
    def headline(self) -> str:
        """The goal of the wait and the cause of its failure, in one line."""
        ...

    @property
    def summary(self) -> str:
        """The object and the cause, for a line of a list of failures."""
        ...

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The same facts as JSON values."""
        ...

    @property
    def elapsed(self) -> float:
        """How long the wait lasted, in seconds."""
        ...

    def render(self) -> str:
        """The whole message."""
        ...


class _WaitError(KwaitError):
    """The common base of failed waits.

    Args:
        message: the text without a report (waits without a cluster).
        report: the facts; the text is then derived from them.
    """

    def __init__(self, message: str = "", *, report: FailureReport | None = None) -> None:
        super().__init__(message or (report.headline if report else ""))
        self.report = report

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The facts behind the message as JSON values; empty where nothing was collected."""
        return self.report.evidence if self.report is not None else {}

    @property
    def waited(self) -> float | None:
        """Seconds from the call to the end of the wait, without gathering evidence.

        None where nothing was gathered: the wait then ended when this was raised.
        """
        return self.report.elapsed if self.report is not None else None

    def __str__(self) -> str:
        return self.report.render() if self.report is not None else super().__str__()


class WaitTimeout(_WaitError, TimeoutError):
    """The condition was not met within the limit."""


class WaitFailed(_WaitError):
    """The condition can no longer be met."""


class ApiError(KwaitError):
    """The API server refused a request, or could not be reached.

    Args:
        message: the server's own message, or the connection error.
        status: the HTTP status; 0 where no answer came.
        reason: the `reason` of the server's Status object, for example `NotFound`; may be empty.
        method: the HTTP method of the request.
        path: the path of the request, without the server's address.
        retry_after: seconds after which the server asks to be tried again; None if it did not say.
        body: the Status object as decoded JSON; empty where the answer was none.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        method: str = "",
        path: str = "",
        retry_after: float | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.method = method
        self.path = path
        self.retry_after = retry_after
        self.body: Mapping[str, Any] = body if body is not None else {}

    def __str__(self) -> str:
        request = f"{self.method} {self.path}: " if self.path else ""
        answer = " ".join(part for part in (str(self.status or ""), self.reason) if part)
        return f"{request}{answer + ': ' if answer else ''}{self.message}"


class ClusterError(KwaitError):
    """A cluster could not be had: not found, not started, not reachable, or not usable."""

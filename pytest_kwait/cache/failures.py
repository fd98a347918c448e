"""What an error of a list or a watch means for going on: pure functions of the error.

Ported from client-go `tools/cache/reflector.go` (isExpiredError, isWatchErrorRetriable,
VeryShortWatchError).
"""

from __future__ import annotations

from pytest_kwait.errors import ApiError, KwaitError, WaitTimeout

__all__ = [
    "VeryShortWatchError",
    "is_connection_lost",
    "is_expired",
    "is_permanent",
    "is_watch_error_retriable",
]

_PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 405, 406, 415, 422})
_MALFORMED = "NotJSON"
_MALFORMED_IN_ROW = 3


class VeryShortWatchError(KwaitError):
    """A watch that ended at once and without an event: what a broken proxy or server does.

    Args:
        name: what was watched.
        seconds: how long the watch lasted.
    """

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(name, seconds)
        self.name = name
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the watch of {self.name} ended after {self.seconds:.3f} s without any event"


def is_expired(error: Exception) -> bool:
    """Whether the server no longer knows what came after our resourceVersion."""
    return isinstance(error, ApiError) and (
        error.status == 410 or error.reason in {"Expired", "Gone"}
    )


def is_watch_error_retriable(error: Exception) -> bool:
    """Whether the server only asks for time: the watch can go on where it was, later."""
    return isinstance(error, ApiError) and (
        error.status == 429 or (error.status == 0 and error.reason == "ConnectionRefused")
    )


def is_connection_lost(error: Exception) -> bool:
    """Whether the connection failed rather than the request: nothing was missed for good."""
    return isinstance(error, ApiError) and error.status == 0


def is_permanent(error: Exception | None, *, in_row: int = 1) -> bool:
    """Whether trying again is pointless: the request is refused, or the answers make no sense.

    Refused are 400, 401, 403, 404 (of the kind of resource), 405, 406, 415 and 422. What is no
    error of the API at all has ended the informer.

    Args:
        error: the latest failure; None for none.
        in_row: how often it has failed by now; answers that cannot be read count from the third.
    """
    if not isinstance(error, ApiError):
        return error is not None and not isinstance(error, WaitTimeout | VeryShortWatchError)
    if error.reason == _MALFORMED:
        return in_row >= _MALFORMED_IN_ROW
    return error.status in _PERMANENT_STATUSES

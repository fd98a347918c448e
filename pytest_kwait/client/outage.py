"""Whether a refusal is the server's last word, or that of a server which has only just started."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.clock import Clock
    from pytest_kwait.errors import ApiError

__all__ = ["STARTUP_GRACE", "StartupGrace"]

STARTUP_GRACE = 5.0
"""Seconds that a refusal must hold after an outage before it is believed."""

_REFUSALS = frozenset({401, 403})


class StartupGrace:
    """Remembers that the server was away, and excuses what it refuses right after.

    An API server answers before it knows all roles: Kubernetes 1.36 was seen to refuse users with
    403 for 0.3 s after each start, and an authenticator that is itself away makes it 401.

    Args:
        clock: what the time to settle is measured by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._away = False
        self._refused_at: float | None = None

    def tolerates(self, error: ApiError) -> bool:
        """Note an error; return whether it is a refusal that need not be the last word."""
        if error.status not in _REFUSALS:
            if error.status == 0 or error.status >= 500:
                self._away, self._refused_at = True, None
            return False
        if not self._away:
            return False
        now = self._clock.monotonic()
        if self._refused_at is None:
            self._refused_at = now
        return now - self._refused_at < STARTUP_GRACE

    def over(self) -> None:
        """Note that the server has answered as it should."""
        self._away, self._refused_at = False, None

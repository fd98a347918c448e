"""How long a kubelet waits before it tries the same thing again: by key, doubling, forgetting."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CRASH_BACKOFF_INITIAL", "CRASH_BACKOFF_MAX", "Backoff", "format_go_seconds"]

# Seconds, for restarts and for image pulls alike.
# Source: kubelet.go, `imageBackOffPeriod`, `MaxContainerBackOff`.
CRASH_BACKOFF_INITIAL = 10.0
CRASH_BACKOFF_MAX = 300.0


@dataclass(slots=True)
class _Entry:
    delay: float
    at: float


class Backoff:
    """Delays by key, in the constants' own seconds.

    Args:
        scale: what one of these seconds takes in real ones.
        first: the first delay.
        most: the longest one.

    Source: client-go, util/flowcontrol/backoff.go.
    """

    def __init__(
        self, scale: float, first: float = CRASH_BACKOFF_INITIAL, most: float = CRASH_BACKOFF_MAX
    ) -> None:
        self._scale = scale
        self._first = first
        self._most = most
        self._entries: dict[str, _Entry] = {}

    def delay(self, key: str) -> float:
        """Return the present delay in the constants' seconds; 0 before the first trouble."""
        entry = self._entries.get(key)
        return entry.delay if entry is not None else 0.0

    def left(self, key: str, since: float, now: float) -> float:
        """Real seconds of the delay that are left of it since `since`; 0 if it may be tried."""
        entry = self._entries.get(key)
        if entry is None or since - entry.at > 2 * self._most * self._scale:
            return 0.0
        return max(0.0, since + entry.delay * self._scale - now)

    def remaining_since_update(self, key: str, now: float) -> float:
        """Return the same, counted from when the delay last grew."""
        entry = self._entries.get(key)
        return self.left(key, entry.at, now) if entry is not None else 0.0

    def grow(self, key: str, at: float) -> None:
        """Note another try: the delay doubles, unless the last one is long ago."""
        entry = self._entries.get(key)
        if entry is None or at - entry.at > 2 * self._most * self._scale:
            self._entries[key] = _Entry(self._first, at)
        else:
            entry.delay = min(entry.delay * 2, self._most)
            entry.at = at

    def forget(self, prefix: str) -> None:
        """Drop every key that begins so."""
        for key in [key for key in self._entries if key.startswith(prefix)]:
            del self._entries[key]


def format_go_seconds(seconds: float) -> str:
    """Whole seconds as Go writes a duration: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"

"""Times as the API writes them: `Time` in seconds and `MicroTime` in microseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["format_micro_time", "format_time", "parse_time", "parse_time_or_none"]


def format_time(seconds: float) -> str:
    """Format seconds since the epoch as a `Time`, `2006-01-02T15:04:05Z`, truncating fractions."""
    return _format_second(int(seconds))


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    # Cached: many calls share a second.
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """Format seconds since the epoch as a `MicroTime`, `2006-01-02T15:04:05.000000Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Return a time of the API as seconds since the epoch.

    Raises:
        ValueError: the text is not an RFC 3339 time, or has no time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    return moment.timestamp()


def parse_time_or_none(value: object) -> float | None:
    """Return a time of the API as seconds since the epoch; otherwise None."""
    try:
        return parse_time(str(value))
    except ValueError:
        return None

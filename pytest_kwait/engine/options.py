"""Options that every wait takes, and validation of wait arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, cast, get_args

from pytest_kwait.apimachinery.durations import Duration, to_seconds
from pytest_kwait.engine.timeouts import TIMEOUTS
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "GRACE_LONG",
    "GRACE_SHORT",
    "Mode",
    "Target",
    "WaitOptions",
    "WaitSettings",
    "check_bool",
    "check_count",
    "check_text",
    "parse_target",
    "resolve_options",
]

Mode = Literal["watch", "poll"]

GRACE_SHORT = 5.0
"""Seconds that an unrecoverable failed state must hold."""

GRACE_LONG = 45.0
"""Seconds that a recoverable failed state must hold: at least one retry of the kubelet."""


class WaitOptions(TypedDict, total=False):
    """Keyword arguments of every wait; None means the default."""

    timeout: Duration | None
    """The limit; a duration above zero. Default: the wait's entry in the timeout table."""

    poll: Duration | None
    """The interval of poll mode, and of parts that cannot be watched. Default: 2 s."""

    mode: Mode | None
    """`watch` (default) or `poll`."""

    fail_fast: bool | None
    """True if the wait ends once the condition can no longer be met. Default: True."""

    grace: Duration | None
    """Duration that a recoverable failed state must hold. Default: 45 s."""

    stable_for: Duration | None
    """Duration that the condition must hold without a break. Default: 0."""


@dataclass(frozen=True, slots=True)
class WaitSettings:
    """Options with their defaults filled in, durations in seconds.

    Args:
        timeout: the limit of the whole wait.
        poll: the interval of poll mode.
        mode: watch or poll.
        fail_fast: whether failed states end the wait.
        grace: how long a recoverable failed state must hold; None for the default.
        stable_for: how long the condition must hold.
        time_scale: the speed of the cluster's controllers, as a fraction of a real cluster's
            times; the default graces shrink with it.
    """

    timeout: float
    poll: float = TIMEOUTS["poll"].seconds
    mode: Mode = "watch"
    fail_fast: bool = True
    grace: float | None = None
    stable_for: float = 0.0
    time_scale: float = 1.0

    @property
    def long_grace(self) -> float:
        """Seconds that a recoverable failed state must hold."""
        return GRACE_LONG * self.time_scale if self.grace is None else self.grace

    @property
    def short_grace(self) -> float:
        """Seconds that an unrecoverable failed state must hold; at most the long grace."""
        return min(GRACE_SHORT * self.time_scale, self.long_grace)


def resolve_options(
    options: WaitOptions | Mapping[str, Any], *, timeout: str, poll: str = "poll"
) -> WaitSettings:
    """Return the options with their defaults filled in.

    Args:
        options: the given options.
        timeout: the entry of the default limit in the timeout table.
        poll: the entry of the default interval.

    Raises:
        InvalidArgument: an unknown option, or an invalid value.
    """
    given = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(set(options) - set(WaitOptions.__annotations__))
    if unknown:
        valid = ", ".join(WaitOptions.__annotations__)
        raise InvalidArgument("wait option", unknown[0], f"a wait takes {valid}")
    mode = given.get("mode", "watch")
    if mode not in get_args(Mode):
        raise InvalidArgument("mode", mode, "use 'watch' or 'poll'")
    fail_fast = given.get("fail_fast", True)
    if not isinstance(fail_fast, bool):
        raise InvalidArgument("fail_fast", fail_fast, "use True or False")
    return WaitSettings(
        timeout=_seconds(given, "timeout", TIMEOUTS[timeout].seconds, allow_zero=False),
        poll=_seconds(given, "poll", TIMEOUTS[poll].seconds, allow_zero=False),
        mode=cast("Mode", mode),
        fail_fast=fail_fast,
        grace=_seconds(given, "grace", 0.0) if "grace" in given else None,
        stable_for=_seconds(given, "stable_for", 0.0),
    )


def _seconds(
    given: Mapping[str, Any], name: str, default: float, *, allow_zero: bool = True
) -> float:
    if name not in given:
        return default
    return to_seconds(given[name], what=name, allow_zero=allow_zero)


def check_count(what: str, value: object, *, least: int = 0) -> int:
    """Return `value` as a count.

    Raises:
        InvalidArgument: not a whole number, or less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(what, value, f"use a whole number, {least} or more")
    return value


def check_text(what: str, value: object, *, empty: bool = False) -> str:
    """Return `value` as a text.

    Raises:
        InvalidArgument: not a text, or empty without `empty`.
    """
    if not isinstance(value, str) or not (value or empty):
        raise InvalidArgument(what, value, f"use a text{', or an empty one' if empty else ''}")
    return value


def check_bool(what: str, value: object) -> bool:
    """Return `value` as a bool.

    Raises:
        InvalidArgument: not a bool.
    """
    if not isinstance(value, bool):
        raise InvalidArgument(what, value, "use True or False")
    return value


class Target(NamedTuple):
    """A kind, and one object of it.

    Args:
        kind: a kind, plural, singular or short name, perhaps with its group.
        name: the object's name; empty for all objects of the kind.
    """

    kind: str
    name: str


def parse_target(what: str, value: object) -> Target:
    """Return the kind and name of a text such as `deployment/web` or `pods`.

    Raises:
        InvalidArgument: any other text.
    """
    if isinstance(value, str):
        kind, slash, name = value.partition("/")
        if kind and bool(slash) == bool(name) and "/" not in name and not set(value) & set(" %"):
            return Target(kind, name)
    raise InvalidArgument(what, value, "use 'kind/name' or 'kind', for example 'deployment/web'")

"""Verdicts: the answers of a condition, `Met`, `Pending` and `Failed`; never a bare bool."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Failed", "LazyPending", "Met", "Patience", "Pending", "Verdict"]


class Patience(Enum):
    """How long a state that cannot come true must hold before it is believed."""

    NONE = "none"
    """At once: the API says that it is final (a Job's Failed condition, another UID)."""

    SHORT = "short"
    """A few seconds: nothing heals it by itself (an image that does not exist)."""

    LONG = "long"
    """Long enough for one more try by whoever owns it: it may pass (a registry's time-out)."""


@dataclass(frozen=True, slots=True)
class Met:
    """What was awaited is there.

    Args:
        objects: the objects that satisfied the wait, as the API's JSON.
    """

    objects: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """What was awaited is not there, and may still come.

    Args:
        reason: what is missing, in a few words.
        absent: whether nothing of it is there, so that it would have to be created.
    """

    reason: str
    absent: bool = field(default=False, compare=False)


class LazyPending(Pending):
    """Pending, put into words only if somebody asks, which is before anything else is entered.

    To count thousands of objects along costs less than to say what the count is after each.

    Args:
        tell: says what is missing, in a few words.
    """

    __slots__ = ("_tell",)
    _tell: Callable[[], str]

    def __init__(self, tell: Callable[[], str]) -> None:
        object.__setattr__(self, "_tell", tell)
        object.__setattr__(self, "absent", False)

    @property
    def reason(self) -> str:
        """What is missing now, in a few words."""
        return self._tell()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pending) and other.reason == self.reason

    def __hash__(self) -> int:
        return hash((self.reason,))


@dataclass(frozen=True, slots=True)
class Failed:
    """What was awaited can no longer come.

    Args:
        reason: why, in a few words.
        patience: how long this verdict must hold without a break before the wait ends with it.
        since: when the state behind it began, in the clock's monotonic seconds; None lets the
            waiter count from the first time that it sees this verdict.
    """

    reason: str
    patience: Patience = Patience.NONE
    since: float | None = None


Verdict = Met | Pending | Failed

"""Verdicts of a condition: `Met`, `Pending` and `Failed`; never a bare bool."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Failed", "LazyPending", "Met", "Patience", "Pending", "Verdict"]


class Patience(Enum):
    """The time that a failed state must hold before it ends the wait."""

    NONE = "none"
    """No time: the state is final (a Job's Failed condition, another UID)."""

    SHORT = "short"
    """A few seconds: the state does not recover by itself (a missing image)."""

    LONG = "long"
    """Long enough for one more try: the state may recover (a registry's timeout)."""


@dataclass(frozen=True, slots=True)
class Met:
    """The condition is met.

    Args:
        objects: the objects that satisfied the wait, as the API's JSON.
    """

    objects: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """The condition is not met yet.

    Args:
        reason: the missing part, in a few words.
        absent: whether the object does not exist yet.
    """

    reason: str
    absent: bool = field(default=False, compare=False)


class LazyPending(Pending):
    """A pending verdict whose reason is formatted only when it is read.

    Formatting the reason after each of thousands of events costs more than counting them.

    Args:
        tell: returns the reason; valid until the next event.
    """

    __slots__ = ("_tell",)
    _tell: Callable[[], str]

    def __init__(self, tell: Callable[[], str]) -> None:
        object.__setattr__(self, "_tell", tell)
        object.__setattr__(self, "absent", False)

    @property
    def reason(self) -> str:
        """The missing part, in a few words."""
        return self._tell()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pending) and other.reason == self.reason

    def __hash__(self) -> int:
        return hash((self.reason,))


@dataclass(frozen=True, slots=True)
class Failed:
    """The condition can no longer be met.

    Args:
        reason: the cause, in a few words.
        patience: how long the verdict must hold without a break before it ends the wait.
        since: when the state began, in monotonic seconds; None for the first such verdict.
    """

    reason: str
    patience: Patience = Patience.NONE
    since: float | None = None


Verdict = Met | Pending | Failed

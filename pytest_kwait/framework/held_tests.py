"""Tests that an object must pass for a time, by themselves or as parts of others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict

if TYPE_CHECKING:
    from pytest_kwait.framework.predicates import ObjectPredicate
    from pytest_kwait.framework.timers import Timer, Timers

__all__ = ["HeldPredicate", "NotHeldPredicate"]


@dataclass(frozen=True, slots=True)
class HeldPredicate:
    """Whether an object satisfies a test for a time.

    It is a description, of which each wait makes one of its own that counts: `timed`.

    Args:
        test: the test.
        seconds: for how long, without a break.
        from_now: whether the first break is final, instead of starting the time anew.
        timer: how long each object has; None in a description.
    """

    test: ObjectPredicate
    seconds: float
    from_now: bool
    timer: Timer | None = field(default=None, compare=False, repr=False)

    @property
    def goal(self) -> str:
        """The test, and for how long."""
        held = format_duration(self.seconds)
        return f"{self.test.goal} {f'from now for {held}' if self.from_now else f'for {held}'}"

    def judge(self, obj: dict[str, Any]) -> Verdict:
        """Judge by how long the object has satisfied the test."""
        return self._timed(self.test.judge(obj))

    def judge_absent(self, absence: Pending | Failed) -> Verdict:
        """Judge by how long absence has been what is awaited."""
        return self._timed(self.test.judge_absent(absence))

    def started(self, timers: Timers) -> HeldPredicate:
        """Return one that counts, for one wait."""
        return replace(self, timer=timers.timer(self.seconds, from_now=self.from_now))

    def _timed(self, verdict: Verdict) -> Verdict:
        if self.timer is None:
            raise AssertionError("a description holds for no time")
        return self.timer.judge(verdict)


@dataclass(frozen=True, slots=True)
class NotHeldPredicate:
    """Whether an object that is there does not satisfy a test for a time.

    That it has not yet satisfied it for long enough is enough, unless it is to from now on: then it
    is open until it has, or has not.

    Args:
        held: the test, and the time.
    """

    held: HeldPredicate

    @property
    def goal(self) -> str:
        """As a verb."""
        return f"not {self.held.goal}"

    def judge(self, obj: dict[str, Any]) -> Verdict:
        """Judge by the opposite."""
        verdict = self.held.judge(obj)
        if isinstance(verdict, Met):
            text = f"it does {self.held.goal}"
            return Failed(text) if self.held.from_now else Pending(text)
        open_still = self.held.from_now and isinstance(verdict, Pending)
        return verdict if open_still else Met()

    def judge_absent(self, absence: Pending | Failed) -> Verdict:
        """Return what the absence is to the wait; the time is not held in it."""
        self.held.judge_absent(absence)
        return absence

"""Conditions around conditions: held for a time, or several objects under one limit."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.engine.condition import Condition, EvidenceScope, Timed
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict
from pytest_kwait.framework.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.engine.condition import Source

__all__ = ["AllConditions", "HeldCondition", "TimedCondition"]


class TimedCondition(Condition, Timed, Protocol):
    """A condition with times in it, perhaps."""


class HeldCondition:
    """A condition that must hold for a time.

    Args:
        inner: the condition.
        seconds: for how long, without a break.
        from_now: whether the first break ends the wait, instead of starting the time anew.
    """

    def __init__(self, inner: TimedCondition, seconds: float, *, from_now: bool) -> None:
        self._inner = inner
        self._seconds = seconds
        self._from_now = from_now
        self._timers = Timers()
        self._timer = self._timers.timer(seconds, from_now=from_now)

    @property
    def subject(self) -> str:
        """What the condition is about."""
        return self._inner.subject

    @property
    def goal(self) -> str:
        """The condition, and for how long."""
        held = format_duration(self._seconds)
        return f"{self._inner.goal} {f'from now for {held}' if self._from_now else f'for {held}'}"

    @property
    def runs_user_code(self) -> bool:
        """Whether the condition runs code of the user."""
        return self._inner.runs_user_code

    @property
    def due(self) -> float:
        """When a time is over, its own or one of a part; infinite while none runs."""
        return min(self._timer.due, self._inner.due)

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of."""
        self._timers.set_time(now, fresh=fresh)
        self._inner.set_time(now, fresh=fresh)

    def sources(self) -> Sequence[Source]:
        """Return what the condition looks at."""
        return self._inner.sources()

    def verdict(self) -> Verdict:
        """Judge by how long the condition has held."""
        return self._timer.judge(self._inner.verdict())

    def seen(self) -> str:
        """Sum up what is there."""
        return self._inner.seen()

    def result(self) -> Any:
        """Return what the condition returns."""
        return self._inner.result()

    def scope(self) -> EvidenceScope:
        """Return where the condition's evidence is."""
        return self._inner.scope()


class AllConditions:
    """Conditions that must hold at the same time, each of its own objects.

    Args:
        parts: the conditions, at least one.
    """

    def __init__(self, parts: Sequence[TimedCondition]) -> None:
        self._parts = parts
        self._sources = tuple(chain.from_iterable(part.sources() for part in parts))

    @property
    def subject(self) -> str:
        """All of them."""
        return ", ".join(part.subject for part in self._parts)

    @property
    def goal(self) -> str:
        """What each is tested for."""
        return self._parts[0].goal

    @property
    def due(self) -> float:
        """When the first of their times is over; infinite while none runs."""
        return min(part.due for part in self._parts)

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of."""
        for part in self._parts:
            part.set_time(now, fresh=fresh)

    @property
    def runs_user_code(self) -> bool:
        """Whether one of them runs code of the user."""
        return any(part.runs_user_code for part in self._parts)

    def sources(self) -> Sequence[Source]:
        """Return what they look at."""
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by the one that is worst off."""
        pending = []
        absent = False
        for part in self._parts:
            verdict = part.verdict()
            if isinstance(verdict, Failed):
                reason = f"{part.subject}: {verdict.reason}"
                return Failed(reason, verdict.patience, verdict.since)
            if isinstance(verdict, Pending):
                pending.append(f"{part.subject}: {verdict.reason}")
                absent = absent or verdict.absent
        return Pending("; ".join(pending), absent=absent) if pending else Met()

    def seen(self) -> str:
        """Say of each what is there."""
        return "; ".join(f"{part.subject}: {part.seen() or 'nothing'}" for part in self._parts)

    def result(self) -> list[Any]:
        """Return what each of them returns, in their order."""
        return [part.result() for part in self._parts]

    def scope(self) -> EvidenceScope:
        """Return where the evidence of all of them is."""
        scopes = [part.scope() for part in self._parts]
        return EvidenceScope(
            scopes[0].namespace,
            objects=tuple(chain.from_iterable(scope.objects for scope in scopes)),
            pods=next((scope.pods for scope in scopes if scope.pods is not None), None),
            pod_names=tuple(chain.from_iterable(scope.pod_names for scope in scopes)),
            suspects=tuple(chain.from_iterable(scope.suspects for scope in scopes)),
        )

"""Conditions around conditions: held for a time, or several objects under one limit."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.condition import Scope
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict
from pytest_kwait.wait.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.engine.condition import Condition, Source

__all__ = ["HeldCondition", "SeveralConditions"]


class HeldCondition:
    """A condition that must hold for a time.

    Args:
        inner: the condition.
        seconds: for how long, without a break.
        from_now: whether the first break ends the wait, instead of starting the time anew.
    """

    def __init__(self, inner: Condition, seconds: float, *, from_now: bool) -> None:
        self._inner = inner
        self._seconds = seconds
        self._from_now = from_now
        self._now = 0.0
        self._fresh = False
        self._since: float | None = None
        self._broken: Failed | None = None

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
    def in_caller(self) -> bool:
        """Whether the condition runs code of the user."""
        return self._inner.in_caller

    @property
    def due(self) -> float:
        """When the time is over; infinite while it does not run."""
        return math.inf if self._since is None else self._since + self._seconds

    def tell_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of."""
        self._now, self._fresh = now, fresh

    def sources(self) -> Sequence[Source]:
        """Return what the condition looks at."""
        return self._inner.sources()

    def verdict(self) -> Verdict:
        """Judge by how long the condition has held."""
        if self._broken is not None:
            return self._broken
        verdict = self._inner.verdict()
        if isinstance(verdict, Met):
            if self._since is None:
                self._since = self._now
            # What was seen before a connection went dead does not show that it still holds.
            if self._fresh and self._now >= self.due:
                return verdict
            return Pending(f"it holds, and must for {format_duration(self._seconds)}")
        if not self._from_now:
            self._since = None
            return verdict
        if self._since is None:
            self._broken = Failed(f"it does not hold to begin with: {verdict.reason}")
        else:
            held = format_duration(round(self._now - self._since, 1))
            self._broken = Failed(f"it held for {held} only: {verdict.reason}")
        self._since = None
        return self._broken

    def seen(self) -> str:
        """Sum up what is there."""
        return self._inner.seen()

    def result(self) -> Any:
        """Return what the condition returns."""
        return self._inner.result()

    def scope(self) -> Scope:
        """Return where the condition's evidence is."""
        return self._inner.scope()


class SeveralConditions:
    """Conditions that must hold at the same time, each of its own objects.

    Args:
        parts: the conditions, at least one.
    """

    def __init__(self, parts: Sequence[Condition]) -> None:
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
    def in_caller(self) -> bool:
        """Whether one of them runs code of the user."""
        return any(part.in_caller for part in self._parts)

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

    def scope(self) -> Scope:
        """Return where the evidence of all of them is."""
        scopes = [part.scope() for part in self._parts]
        return Scope(
            scopes[0].namespace,
            objects=tuple(chain.from_iterable(scope.objects for scope in scopes)),
            pods=next((scope.pods for scope in scopes if scope.pods is not None), None),
            pod_names=tuple(chain.from_iterable(scope.pod_names for scope in scopes)),
            suspects=tuple(chain.from_iterable(scope.suspects for scope in scopes)),
        )

"""Answers kept for a while, so that each question is not asked anew."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pytest_kwait.clock import Clock

__all__ = ["TTLCache"]

_Value = TypeVar("_Value")


class TTLCache(Generic[_Value]):
    """The last answers, each until its time is over; safe to share between threads.

    Args:
        clock: what their time is measured by.
        most: how many are kept; the oldest go first.
    """

    def __init__(self, clock: Clock, most: int = 4096) -> None:
        self._clock = clock
        self._most = most
        self._answers: OrderedDict[Hashable, tuple[float, _Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, question: Hashable) -> _Value | None:
        """Return the answer; None if there is none, or its time is over."""
        with self._lock:
            found = self._answers.get(question)
            if found is None:
                return None
            until, answer = found
            if self._clock.monotonic() >= until:
                del self._answers[question]
                return None
            return answer

    def put(self, question: Hashable, answer: _Value, seconds: float) -> None:
        """Keep an answer for a time; not at all for zero."""
        if seconds <= 0:
            return
        with self._lock:
            self._answers.pop(question, None)
            self._answers[question] = (self._clock.monotonic() + seconds, answer)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)

"""The plan of an exploration: how much is run, under which seeds, and which tests come next."""

from __future__ import annotations

import re
import threading
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEEDS = 10**9
_MAX_PLAN_BYTES = 8 * 1024 * 1024
"""Bytes of a file of decisions."""

"""Number of derived seeds: at most nine digits, which are easily copied."""

_VALID_EFFORT = (
    "use a number of runs of each test, for example 200, or a duration with its unit, for example "
    "10m"
)


class Effort(NamedTuple):
    """The amount of exploring: a number of runs of each test, or a time.

    Args:
        runs: the number of runs; 0 for a time.
        seconds: the time; 0.0 for a number of runs.
    """

    runs: int
    seconds: float = 0.0

    def __str__(self) -> str:
        from pytest_kwait.apimachinery.times import format_duration

        if self.runs:
            return "1 run of each test" if self.runs == 1 else f"{self.runs} runs of each test"
        return f"each test equally often for {format_duration(self.seconds)}"


def parse_effort(value: Any, what: str, source: str | None = None) -> Effort:
    """Parse a number of runs, or a duration with its unit.

    Raises:
        InvalidArgument: it is neither, or not above zero.
    """
    if isinstance(value, Effort):
        return value
    text = str(value).strip()
    if re.fullmatch("[1-9][0-9]{0,8}", text):
        return Effort(int(text))
    # A plain number is a number of runs, so a duration has a unit.
    if not re.search("[a-z]", text):
        raise InvalidArgument(what, value, _VALID_EFFORT, source)
    from pytest_kwait.apimachinery.times import to_seconds

    try:
        return Effort(0, to_seconds(text, what=what, source=source, allow_zero=False))
    except InvalidArgument:
        raise InvalidArgument(what, value, _VALID_EFFORT, source) from None


def parse_seed(value: Any, what: str, source: str | None = None) -> int:
    """Parse a seed, a whole number.

    Raises:
        InvalidArgument: it is none, or too large.
    """
    if re.fullmatch("[0-9]{1,18}", str(value).strip(), re.ASCII):
        return int(value)
    raise InvalidArgument(what, value, "use a whole number of at most 18 digits", source)


def parse_perturbations(value: Any, what: str, source: str | None = None) -> tuple[str, ...]:
    """Parse names of perturbations and single decisions, `NAME@EVENT`.

    Args:
        value: a text with commas between them, a sequence, or `@FILE` with one a line; lines that
            begin with `#` are left out.

    Raises:
        InvalidArgument: a name is unknown, or the file cannot be read.
    """
    from pytest_kwait.simulator.protocol.perturbations import PERTURBATIONS

    if isinstance(value, str) and value.startswith("@"):
        texts = _read_lines(value, what, source)
    else:
        items = value.split(",") if isinstance(value, str) else value
        texts = list(items) if isinstance(items, (list, tuple)) else [items]
        if not all(isinstance(text, str) for text in texts):
            raise InvalidArgument(what, value, "use names of perturbations as texts", source)
    names = [text.strip() for text in texts if text.strip()]
    known = [perturbation.name for perturbation in PERTURBATIONS]
    for text in names:
        name, at, event = text.partition("@")
        if name not in known or (at and not event):
            raise InvalidArgument(
                what,
                text,
                f"use NAME or NAME@EVENT; the names are {', '.join(known)}",
                source,
            )
    if not names:
        raise InvalidArgument(
            what, value, f"give at least one; the names are {', '.join(known)}", source
        )
    return tuple(dict.fromkeys(names))


def _read_lines(value: str, what: str, source: str | None) -> list[str]:
    # Loads msgspec, which most runs do not need.
    from pytest_kwait.bounds import FileTooLargeError, read_limited

    try:
        lines = read_limited(Path(value[1:]), _MAX_PLAN_BYTES).decode("utf-8").splitlines()
        return [line for line in lines if not line.startswith("#")]
    except FileTooLargeError as error:
        raise InvalidArgument(
            what, value, f"use a file with a decision a line ({error})", source
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InvalidArgument(
            what, value, f"use a file with a decision a line ({why})", source
        ) from None


def derive_seed(base: int, run: int) -> int:
    """Return the seed of a run: the same for the same base and number."""
    digest = blake2b(f"{base}/{run}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % _SEEDS


class Assignment(NamedTuple):
    """Tests that a worker runs next, once each.

    Args:
        run: the number of the run, from 0.
        tests: indexes of the tests, in their order.
        left: seconds until the end of the exploration; None without one.
    """

    run: int
    seed: int
    tests: list[int]
    left: float | None = None


class Plan:
    """Gives out tests, round after round; thread-safe.

    A round is one pass over all tests, so all of them run equally often. A unit, the tests of one
    module, is given out as a whole: one process makes the fixtures of the module for it.

    Args:
        effort: how much is run.
        base: the seed from which those of the runs are derived.
        clock: the time of an effort that is one; it starts with the first tests.
    """

    def __init__(self, effort: Effort, base: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self.effort = effort
        self.base = base
        self._clock = clock
        self._deadline: Deadline | None = None
        self._lock = threading.Lock()
        self._units: list[list[int]] | None = None
        self._next = (0, 0)
        self._over: set[int] = set()
        self._returned: list[Assignment] = []
        self._stopped = False

    def open(self, units: Sequence[Sequence[int]]) -> None:
        """Set the units, once; all workers have the same."""
        with self._lock:
            if self._units is None:
                self._units = [list(unit) for unit in units]
                if self.effort.seconds:
                    self._deadline = Deadline.after(self.effort.seconds, self._clock)

    def next(self) -> Assignment | None:
        """Return what is run next; None at the end."""
        with self._lock:
            return self._take()

    @property
    def is_over(self) -> bool:
        """True once nothing is given out any more."""
        with self._lock:
            return self._peek() is None

    @property
    def is_stopped(self) -> bool:
        """True once it was stopped or its time is up: tests that were given out are not run."""
        return self._stopped or (self._deadline is not None and self._deadline.expired)

    @property
    def left(self) -> float | None:
        """Seconds until the end of the exploration; None without one."""
        return None if self._deadline is None else self._deadline.remaining

    def total(self) -> int | None:
        """Return the number of runs of all tests; None if it is not known."""
        if not self.effort.runs:
            return None
        with self._lock:
            count = sum(len(unit) for unit in self._units or ())
            return (count - len(self._over)) * self.effort.runs + len(self._over)

    def leave_out(self, test: int) -> None:
        """Give out a test no more: it has nothing to explore."""
        with self._lock:
            self._over.add(test)

    def give_back(self, assignment: Assignment) -> None:
        """Give out again what a worker has not run."""
        with self._lock:
            if assignment.tests:
                self._returned.append(assignment)

    def stop(self) -> None:
        """Give out nothing any more."""
        with self._lock:
            self._stopped = True

    def _take(self) -> Assignment | None:
        assignment = self._peek()
        if assignment is None:
            return None
        if self._returned:
            assignment = self._returned.pop()
        else:
            run, unit = self._next
            is_last = unit + 1 >= len(self._units or ())
            self._next = (run + 1, 0) if is_last else (run, unit + 1)
        return assignment._replace(left=self.left)

    def _peek(self) -> Assignment | None:
        """Return the next assignment, without taking it; skips units with nothing to run."""
        if self.is_stopped:
            return None
        if self._returned:
            return self._returned[-1]
        units = self._units or []
        # A whole round without a test to run is the end.
        for _ in range(len(units)):
            run, unit = self._next
            if self.effort.runs and run >= self.effort.runs:
                return None
            tests = [test for test in units[unit] if test not in self._over]
            if tests:
                seed = self.base if self.effort.runs == 1 else derive_seed(self.base, run)
                return Assignment(run, seed, tests)
            self._next = (run + 1, 0) if unit + 1 >= len(units) else (run, unit + 1)
        return None

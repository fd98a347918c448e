"""Split a suite into shards, by count or by recorded durations.

Each job computes the split by itself, so it depends only on the tests and the recorded
durations (pytest-split's file), not on the order of tests or on the machine.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import re
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

FIRST, BETWEEN, LAST = range(3)
"""The position of a test in its shard: slow tests first, exclusive ones last."""

_VALID = (
    "use I/N with I from 1 to N, for example 2/4; or auto, or auto/N, to have I read from the "
    "CI system"
)
_DURATIONS_HINT = "use a file that pytest-split's --store-durations wrote, or remove it"
_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of a file of durations: more than 200,000 tests."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a suite.

    Args:
        index: from 1.
        total: the number of shards.
    """

    index: int
    total: int

    def __str__(self) -> str:
        return f"{self.index}/{self.total}"


@dataclass(frozen=True, slots=True)
class RequestedShard:
    """The requested shard; unset parts are read from the CI system.

    Args:
        index: from 1; None to read it from the CI system.
        total: the number of shards; None to read it as well.
    """

    index: int | None
    total: int | None


class SplitEntry(NamedTuple):
    """A test to be placed in a shard.

    Args:
        unit: the unit that must stay together.
        rank: FIRST, BETWEEN or LAST.
    """

    id: str
    unit: str
    rank: int = BETWEEN


class Unit:
    """Tests that stay together.

    Args:
        nodeid: the id of the unit.
    """

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.positions: list[int] = []
        """The positions of its tests in the list of all tests."""
        self.ids: list[str] = []
        """The ids of its tests."""
        self._ranks: set[int] = set()

    def __str__(self) -> str:
        # The sort key of pytest-split.
        return self.nodeid

    @property
    def rank(self) -> int:
        """LAST if one of its tests must be, else FIRST if one should be."""
        if LAST in self._ranks:
            return LAST
        return FIRST if FIRST in self._ranks else BETWEEN

    def add(self, position: int, entry: SplitEntry) -> None:
        """Add a test."""
        self.positions.append(position)
        self.ids.append(entry.id)
        self._ranks.add(entry.rank)


def parse_shard(value: object, what: str, source: str | None) -> RequestedShard:
    """Parse `I/N`, `auto` or `auto/N`."""
    match = re.fullmatch(r"(?:(auto)|([0-9]{1,6}))(?:/([0-9]{1,6}))?", str(value).strip())
    if match is not None:
        auto, index, total = match.groups()
        if auto and (total is None or int(total) > 0):
            return RequestedShard(None, int(total) if total else None)
        if index and total and 1 <= int(index) <= int(total):
            return RequestedShard(int(index), int(total))
    raise InvalidArgument(what, value, _VALID, source)


def split(
    entries: Sequence[SplitEntry],
    total: int,
    place: Callable[[Sequence[Unit], int], list[int]] | None = None,
) -> list[list[int]]:
    """Return the positions of each shard's tests, in run order.

    FIRST units come first and LAST units come last. Otherwise units, and the tests of a unit, keep
    their order, because tests that share state may depend on it.

    Args:
        entries: the tests.
        total: the number of shards, at least 1.
        place: given the units sorted by id, returns the shard of each, from 0; None for
            `split_by_count`.
    """
    units: dict[str, Unit] = {}
    for position, entry in enumerate(entries):
        units.setdefault(entry.unit, Unit(entry.unit)).add(position, entry)
    # A random order of the tests may differ between shards.
    known = [units[name] for name in sorted(units)]
    shares: list[list[Unit]] = [[] for _ in range(total)]
    for unit, shard in zip(known, (place or split_by_count)(known, total), strict=True):
        shares[shard].append(unit)
    return [
        [
            position
            for unit in sorted(share, key=lambda unit: (unit.rank, unit.positions[0]))
            for position in unit.positions
        ]
        for share in shares
    ]


def split_by_count(units: Sequence[Unit], total: int) -> list[int]:
    """Return the shard of each unit, from 0, balanced by number of tests.

    If each unit is one test, shard sizes differ by at most one, as do their numbers of slow tests.
    Neighbours mostly stay together, so that few shards repeat the setup of a module.

    Args:
        total: the number of shards.
    """
    loads = [0] * total
    places: dict[str, int] = {}
    for _, alike in groupby(sorted(units, key=lambda unit: unit.rank), lambda unit: unit.rank):
        group = list(alike)
        bounds = list(accumulate(_spread_evenly(loads, sum(len(unit.ids) for unit in group))))
        shard = passed = 0
        for unit in group:
            middle = passed + len(unit.ids) / 2
            while shard < total - 1 and middle > bounds[shard]:
                shard += 1
            places[unit.nodeid] = shard
            loads[shard] += len(unit.ids)
            passed += len(unit.ids)
    return [places[unit.nodeid] for unit in units]


def _spread_evenly(loads: Sequence[int], count: int) -> list[int]:
    """Return how many of `count` units each shard gets if the smallest is filled first."""
    heap = [(load, shard) for shard, load in enumerate(loads)]
    heapq.heapify(heap)
    shares = [0] * len(loads)
    for _ in range(count):
        load, shard = heap[0]
        shares[shard] += 1
        heapq.heapreplace(heap, (load + 1, shard))
    return shares


if TYPE_CHECKING:
    Algorithm = Callable[[int, list[Any], dict[str, float]], Sequence[Any]]


class Durations(NamedTuple):
    """Recorded durations of tests.

    Args:
        seconds: by the ids of the tests.
        digest: a hash of the durations.
    """

    seconds: Mapping[str, float]
    digest: str


def read_durations(path: Path, source: str) -> Durations | None:
    """Return the recorded durations in a file; None if there is no file."""
    # Loads msgspec, which runs without shards do not need.
    from pytest_kwait.bounds import FileTooLargeError, read_limited

    try:
        text = read_limited(path, _MAX_BYTES).decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _invalid_durations(path, f"it cannot be read ({error.strerror})", source) from None
    except UnicodeDecodeError:
        raise _invalid_durations(path, "it is not text", source) from None
    except FileTooLargeError as error:
        raise _invalid_durations(path, str(error), source) from None
    try:
        contents = json.loads(text)
    except ValueError as error:
        raise _invalid_durations(path, f"it is no JSON ({error})", source) from None
    except RecursionError:
        why = "it nests lists or objects too deeply to be read"
        raise _invalid_durations(path, why, source) from None
    if isinstance(contents, list):
        # The file format of the first versions of pytest-split, which it still reads.
        pairs = all(isinstance(pair, list) and len(pair) == 2 for pair in contents)
        contents = {str(name): seconds for name, seconds in contents} if pairs else None
    if not isinstance(contents, dict):
        raise _invalid_durations(path, "it does not hold seconds by the ids of tests", source)
    for name, seconds in contents.items():
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not (number and 0 <= seconds < math.inf):
            raise _invalid_durations(path, f"it says that {name} took {seconds!r} seconds", source)
    if not contents:
        return None
    digest = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
    return Durations(contents, digest[:8])


def split_by_duration(
    seconds: Mapping[str, float], algorithm: Algorithm, spare: Algorithm
) -> Callable[[Sequence[Unit], int], list[int]]:
    """Return a function that places units so that shards take about equally long.

    A test without a recorded duration counts with the average of the others.

    Args:
        seconds: the recorded durations, by test id.
        algorithm: one of pytest-split's.
        spare: the algorithm to use if the first one fails.
    """

    def place(units: Sequence[Unit], total: int) -> list[int]:
        known = [seconds[name] for unit in units for name in unit.ids if name in seconds]
        if not sum(known):
            return split_by_count(units, total)
        average = sum(known) / len(known)
        lengths = {
            unit.nodeid: sum(seconds.get(name, average) for name in unit.ids) for unit in units
        }
        try:
            groups = algorithm(total, list(units), lengths)
        except IndexError:
            # Its chunks overrun the last group if the last tests take no time.
            groups = spare(total, list(units), lengths)
        places = {unit.nodeid: shard for shard, group in enumerate(groups) for unit in group[0]}
        return [places[unit.nodeid] for unit in units]

    return place


def _invalid_durations(path: Path, why: str, source: str) -> InvalidArgument:
    return InvalidArgument("durations_path", str(path), f"{why}; {_DURATIONS_HINT}", source)

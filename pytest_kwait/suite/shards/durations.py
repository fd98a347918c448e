"""Recorded durations of tests, in pytest-split's file, and shards of about the same length."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.shards.split import split_by_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pytest_kwait.suite.shards.split import Unit

    Algorithm = Callable[[int, list[Any], dict[str, float]], Sequence[Any]]

__all__ = ["Durations", "read_durations", "split_by_duration"]

_DURATIONS_HINT = "use a file that pytest-split's --store-durations wrote, or remove it"


class Durations(NamedTuple):
    """How long tests took when somebody recorded it.

    Args:
        seconds: by the ids of the tests.
        digest: the same for the same durations.
    """

    seconds: Mapping[str, float]
    digest: str


def read_durations(path: Path, source: str) -> Durations | None:
    """Return what was recorded; None if nothing was.

    Args:
        path: the file.
        source: where its path came from, for messages.

    Raises:
        InvalidArgument: it is there, and cannot be read or holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _invalid_durations(path, f"it cannot be read ({error.strerror})", source) from None
    except UnicodeDecodeError:
        raise _invalid_durations(path, "it is not text", source) from None
    try:
        contents = json.loads(text)
    except ValueError as error:
        raise _invalid_durations(path, f"it is no JSON ({error})", source) from None
    if isinstance(contents, list):
        # What pytest-split wrote in its first versions, and still reads.
        pairs = all(isinstance(each, list) and len(each) == 2 for each in contents)
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
    """Return what places units so that shards take about as long as each other.

    A test of which nothing is recorded is taken to last as long as the others do on average.

    Args:
        seconds: what was recorded, by the ids of the tests.
        algorithm: one of pytest-split's.
        spare: another, that places everything where the first one gives up.
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
            # Its chunks look for one more group where the last tests take no time at all.
            groups = spare(total, list(units), lengths)
        places = {unit.nodeid: shard for shard, group in enumerate(groups) for unit in group[0]}
        return [places[unit.nodeid] for unit in units]

    return place


def _invalid_durations(path: Path, why: str, source: str) -> InvalidArgument:
    return InvalidArgument("durations_path", str(path), f"{why}; {_DURATIONS_HINT}", source)

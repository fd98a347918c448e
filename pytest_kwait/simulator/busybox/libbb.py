"""Options, input and messages shared by all programs, as in busybox's `libbb`."""

from __future__ import annotations

import heapq
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.simulator.busybox.os.fds import open_path
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import STEP, Effect, Process, Read, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.simulator.busybox.os.memory import MemoryHold
    from pytest_kwait.simulator.busybox.os.streams import Pipe
    from pytest_kwait.simulator.busybox.os.syscalls import ProcessContext

ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "e": "\x1b",
}  # fmt: skip
"""Escape sequences: the character for each letter after a backslash."""
NOT_SIMULATED = "not simulated by the embedded kubelet"
"""The message about options and programs that busybox has and the simulation lacks."""
TOO_DEEP = "nested too deeply"
"""The message about a program or expression that needs a deeper stack than there is."""
_FIRST_FREE_FD = 1000
_SORTED_AT_ONCE = 2000
_KEY_WORK = 2
"""The work of the key of an item that is sorted."""


Item = TypeVar("Item")


class UsageError(Exception):
    """Invalid arguments of a program; `str` is its message."""


def write_out(text: str) -> Write:
    """Write text to stdout."""
    return Write(1, text.encode(errors="surrogateescape"))


def write_error(text: str) -> Write:
    """Write a line to stderr."""
    return Write(2, f"{text}\n".encode(errors="surrogateescape"))


def find_longest_number(words: list[str]) -> str:
    """Return the longest number of a command line, for messages about overflows."""
    return max(re.findall("[0-9]+", " ".join(words[1:])), key=len, default="")


def parse_options(
    program: str, args: list[str], plain: str, valued: str = "", known: str = "", *,
    mixed: bool = True,
) -> Generator[Effect, None, tuple[dict[str, str], list[str]]]:  # fmt: skip
    """Return the options of a command line, and its other arguments.

    Args:
        plain: letters of options without a value.
        valued: letters of options with one; repeated values are joined by newlines.
        known: letters that busybox has and that are not simulated.
        mixed: whether options may follow other arguments.

    Raises:
        UsageError: an option is unknown, not simulated, or lacks its value.
    """
    options: dict[str, str] = {}
    arguments: list[str] = []
    values: dict[str, list[str]] = {}
    meter, position = WorkMeter(), 0
    while position < len(args):
        if meter.is_step_due(1):
            yield STEP
        word = args[position]
        position += 1
        if word == "--":
            arguments += args[position:]
            break
        if not word.startswith("-") or word == "-":
            arguments.append(word)
            if not mixed:
                arguments += args[position:]
                break
            continue
        if word.startswith("--"):
            raise UsageError(f"{program}: option {word}: {NOT_SIMULATED}")
        for index, letter in enumerate(word[1:], start=2):
            if meter.is_step_due(1):
                yield STEP
            if letter in plain:
                # Some programs count up to two.
                options[letter] = options.get(letter, "")[:1] + letter
            elif letter in valued:
                value = word[index:]
                if not value:
                    if position >= len(args):
                        raise UsageError(f"{program}: option requires an argument -- {letter}")
                    value = args[position]
                    position += 1
                values.setdefault(letter, []).append(value)
                break
            elif letter in known:
                raise UsageError(f"{program}: option -{letter}: {NOT_SIMULATED}")
            else:
                raise UsageError(f"{program}: unrecognized option: {letter}")
    return options | {letter: "\n".join(given) for letter, given in values.items()}, arguments


@contextmanager
def open_input(context: ProcessContext, name: str) -> Iterator[int]:
    """Open a file as a context manager, and return its descriptor; `-` is stdin.

    Raises:
        FileSystemError: it cannot be opened.
    """
    if name == "-":
        yield 0
        return
    if not name:
        raise FileSystemError("No such file or directory")
    opened = open_path(
        context.files,
        context.resolve_path(name),
        "r",
        context.tasks.account,
        context.now,
        context.fds,
    ).retain()
    number = next(n for n in range(_FIRST_FREE_FD, _FIRST_FREE_FD + 1000) if n not in context.fds)
    context.fds[number] = opened
    try:
        yield number
    finally:
        context.fds.pop(number, None)
        opened.release()


def for_each_input(
    context: ProcessContext,
    program: str,
    names: list[str],
    act: Callable[[str, int], Generator[Effect, None, bool | None]],
) -> Process:
    """Call `act` with each file, or stdin without any; exit code 1 if one cannot be read.

    `act` returns True to stop.
    """
    code = 0
    for name in names or ["-"]:
        try:
            with open_input(context, name) as number:
                if (yield from act(name, number)):
                    break
        except FileSystemError as fault:
            why = str(fault)
            if why == "Is a directory":
                yield write_error(f"{program}: read error: {why}")
            else:
                yield write_error(f"{program}: {name}: {why}")
            code = 1
    return code


def copy_to_stdout(source: Pipe | int) -> Generator[Effect, None, None]:
    """Copy input to stdout until its end."""
    while True:
        read = Read(source)
        yield read
        if not read.data:
            return
        yield Write(1, read.data)


def read_all_up_to(source: Pipe | int, most: int) -> Generator[Effect, None, bytes]:
    """Read until the end, or until more than `most` bytes were read."""
    data = bytearray()
    while len(data) <= most:
        read = Read(source)
        yield read
        if not read.data:
            break
        data += read.data
    return bytes(data)


def read_whole(source: int, hold: MemoryHold) -> Generator[Effect, None, bytes]:
    """Read until the end, within the memory limit."""
    data = bytearray()
    before = hold.size
    while True:
        read = Read(source)
        yield read
        if not read.data:
            return bytes(data)
        data += read.data
        hold.resize(before + len(data))


class WorkMeter:
    """Counts the work of a program that computes, and yields a step once it is enough for one.

    A unit is some microseconds: a few calls of functions, or `CHARACTERS` characters of a text.
    """

    __slots__ = ("_spent",)
    CHARACTERS = 1 << 10
    PER_STEP = 1000

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, work: int) -> Generator[Effect, None, None]:
        """Count work that follows."""
        if self.is_step_due(work):
            yield STEP

    def is_step_due(self, work: int) -> bool:
        """Count work that follows; return whether the caller must yield a step before it.

        It costs less than `spend` in a loop over small pieces.
        """
        self._spent += work
        if self._spent < self.PER_STEP:
            return False
        self._spent = 0
        return True


def sort_in_steps(
    items: list[Item], key: Callable[[Item], Any], meter: WorkMeter, *, reverse: bool = False
) -> Generator[Effect, None, list[Item]]:
    """Return items in order, those of one value as they were; a few are sorted at once."""
    runs: list[list[tuple[Any, Item]]] = []
    for start in range(0, len(items), _SORTED_AT_ONCE):
        pairs = []
        for item in items[start : start + _SORTED_AT_ONCE]:
            size = len(item) if isinstance(item, str) else 0
            yield from meter.spend(_KEY_WORK + size // WorkMeter.CHARACTERS)
            pairs.append((key(item), item))
        pairs.sort(key=_get_key, reverse=reverse)
        runs.append(pairs)
    merged: list[Item] = []
    for _, item in heapq.merge(*runs, key=_get_key, reverse=reverse):
        yield from meter.spend(_KEY_WORK)
        merged.append(item)
    return merged


def _get_key(pair: tuple[Any, Item]) -> Any:
    return pair[0]


class LineReader:
    """Reads complete lines.

    Args:
        source: a file descriptor.
        hold: the memory of an incomplete line.
    """

    __slots__ = ("_hold", "_rest", "_source")

    def __init__(self, source: int, hold: MemoryHold) -> None:
        self._source = source
        self._hold = hold
        self._rest = b""

    def read_batch(self) -> Generator[Effect, None, list[bytes]]:
        """Return the next lines with their newlines; empty at the end."""
        while True:
            read = Read(self._source)
            yield read
            if not read.data:
                last, self._rest = self._rest, b""
                return [last] if last else []
            data = self._rest + read.data
            end = data.rfind(b"\n") + 1
            self._rest = data[end:]
            self._hold.resize(len(self._rest))
            if end:
                return [line + b"\n" for line in data[: end - 1].split(b"\n")]

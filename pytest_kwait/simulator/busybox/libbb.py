"""Options, input and messages that all programs share, as in busybox's `libbb`."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.fds import open_path
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, Read, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.simulator.busybox.os.memory import MemoryHold
    from pytest_kwait.simulator.busybox.os.streams import Pipe
    from pytest_kwait.simulator.busybox.os.syscalls import ProcessContext

__all__ = [
    "ESCAPES",
    "LineReader",
    "UsageError",
    "copy_to_stdout",
    "find_longest_number",
    "for_each_input",
    "open_input",
    "parse_options",
    "read_all_up_to",
    "read_whole",
    "write_error",
    "write_out",
]

ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "e": "\x1b",
}  # fmt: skip
"""The characters that a letter stands for after a backslash."""
_FIRST_FREE_FD = 1000


class UsageError(Exception):
    """Arguments that a program does not take; `str` is what it says."""


def write_out(text: str) -> Write:
    """Text to stdout."""
    return Write(1, text.encode(errors="surrogateescape"))


def write_error(text: str) -> Write:
    """A line to stderr."""
    return Write(2, f"{text}\n".encode(errors="surrogateescape"))


def find_longest_number(words: list[str]) -> str:
    """The digits of a command line that are no number of any size, as they are the most."""
    return max(re.findall("[0-9]+", " ".join(words[1:])), key=len, default="")


def parse_options(
    program: str, args: list[str], plain: str, valued: str = "", known: str = "", *,
    mixed: bool = True,
) -> tuple[dict[str, str], list[str]]:  # fmt: skip
    """The options of a command line, and what is left.

    Args:
        program: whose.
        args: what follows its name.
        plain: letters of options without a value.
        valued: letters of options with one; several values are lines of one text.
        known: letters that busybox has and that are not carried here.
        mixed: whether options may follow other arguments.

    Raises:
        UsageFault: one is unknown, is not carried, or lacks its value.
    """
    found: dict[str, str] = {}
    left: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            left += rest
            break
        if not word.startswith("-") or word == "-":
            left.append(word)
            if not mixed:
                left += rest
                break
            continue
        if word.startswith("--"):
            raise UsageError(f"{program}: option {word}: not simulated by the embedded kubelet")
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in plain:
                found[letter] = found.get(letter, "") + letter
            elif letter in valued:
                if not letters and not rest:
                    raise UsageError(f"{program}: option requires an argument -- {letter}")
                value, letters = letters or rest.pop(0), ""
                found[letter] = f"{found[letter]}\n{value}" if letter in found else value
            elif letter in known:
                raise UsageError(
                    f"{program}: option -{letter}: not simulated by the embedded kubelet"
                )
            else:
                raise UsageError(f"{program}: unrecognized option: {letter}")
    return found, left


@contextmanager
def open_input(context: ProcessContext, name: str) -> Iterator[int]:
    """The number under which a file is open for as long; `-` is stdin.

    Raises:
        FileFault: it cannot be opened.
    """
    if name == "-":
        yield 0
        return
    if not name:
        raise FileSystemError("No such file or directory")
    one = open_path(
        context.files, context.path(name), "r", context.tasks.account, context.now, context.fds
    ).retain()
    number = next(n for n in range(_FIRST_FREE_FD, _FIRST_FREE_FD + 1000) if n not in context.fds)
    context.fds[number] = one
    try:
        yield number
    finally:
        context.fds.pop(number, None)
        one.release()


def for_each_input(
    context: ProcessContext,
    program: str,
    names: list[str],
    act: Callable[[str, int], Generator[Effect, None, bool | None]],
) -> Process:
    """Let `act` read each file, or stdin without any; 1 where one cannot be read.

    `act` may return True, which ends it.
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
    """Write out all that comes until the end."""
    while True:
        read = Read(source)
        yield read
        if not read.data:
            return
        yield Write(1, read.data)


def read_all_up_to(source: Pipe | int, most: int) -> Generator[Effect, None, bytes]:
    """Everything that comes until the end, or until it is more than `most` bytes."""
    data = bytearray()
    while len(data) <= most:
        read = Read(source)
        yield read
        if not read.data:
            break
        data += read.data
    return bytes(data)


def read_whole(source: int, hold: MemoryHold) -> Generator[Effect, None, bytes]:
    """Everything that comes until the end, as long as memory lasts."""
    data = bytearray()
    before = hold.size
    while True:
        read = Read(source)
        yield read
        if not read.data:
            return bytes(data)
        data += read.data
        hold.to(before + len(data))


class LineReader:
    """Reads lines as they come.

    Args:
        source: the number of an open file.
        hold: what a line that does not end is held in.
    """

    __slots__ = ("_hold", "_rest", "_source")

    def __init__(self, source: int, hold: MemoryHold) -> None:
        self._source = source
        self._hold = hold
        self._rest = b""

    def batch(self) -> Generator[Effect, None, list[bytes]]:
        """The next lines with their ends; none at the end of all."""
        while True:
            read = Read(self._source)
            yield read
            if not read.data:
                last, self._rest = self._rest, b""
                return [last] if last else []
            data = self._rest + read.data
            end = data.rfind(b"\n") + 1
            self._rest = data[end:]
            self._hold.to(len(self._rest))
            if end:
                return [line + b"\n" for line in data[: end - 1].split(b"\n")]

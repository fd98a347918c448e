"""`sort` and `uniq`."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import (
    LineReader,
    UsageError,
    for_each_input,
    parse_options,
    read_whole,
    write_out,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext, Write

_SORT_KEY = re.compile(r"(\d+)(?:\.(\d+))?([bnrf]*)(?:,(\d+)(?:\.(\d+))?[bnrf]*)?")


_Value = tuple[float, bytes]


class _Order:
    """What lines are sorted by.

    Args:
        given: the options.
        keys: first and last field, and flags of its own, of each key.
    """

    def __init__(self, given: dict[str, str], keys: list[tuple[int, int | None, str]]) -> None:
        self._plain = "".join(letter for letter in "nfb" if letter in given)
        self._separator = given.get("t", "")
        self._keys = keys

    def value(self, index: int, line: str) -> _Value:
        """The value of one key."""
        first, last, flags = self._keys[index]
        fields = (
            line.split(self._separator) if self._separator else re.findall(r"\s*\S+|\s+$", line)
        )
        text = self._separator.join(fields[first - 1 : last])
        return self._of(text, flags.strip("r") or self._plain)

    def whole(self, line: str) -> _Value:
        """The value of a line without keys."""
        return self._of(line, self._plain)

    def all(self, line: str) -> list[_Value]:
        """All that makes a line the same as another one."""
        keys = range(len(self._keys))
        return [self.value(index, line) for index in keys] or [self.whole(line)]

    @staticmethod
    def _of(text: str, flags: str) -> _Value:
        if "n" in flags:
            match = re.match(r"\s*(-?\d*\.?\d*)", text)
            number = match[1] if match is not None else ""
            return (float(number) if number.strip("-.") else 0.0, b"")
        text = text.lstrip() if "b" in flags else text
        return (0.0, _encode_line(text.upper() if "f" in flags else text))


def sort(around: ProcessContext, args: list[str]) -> Process:
    """Sort lines: `-n -r -u -f -b`, `-k` and `-t`."""
    given, names = parse_options("sort", args, "nrufbs", "kto", "cmzghMVT")
    keys: list[tuple[int, int | None, str]] = []
    for text in given.get("k", "").split("\n") if "k" in given else ():
        match = _SORT_KEY.fullmatch(text)
        if match is None or match[2] or match[5]:
            raise UsageError(f"sort: option -k {text}: not simulated by the embedded kubelet")
        keys.append((int(match[1]), int(match[4]) if match[4] else None, match[3]))
    collected: list[str] = []
    with around.tasks.account.hold() as hold:

        def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
            data = yield from read_whole(number, hold)
            collected.extend(data.decode(errors="surrogateescape").splitlines())
            return None

        code = yield from for_each_input(around, "sort", names, act)

        order = _Order(given, keys)
        backwards = "r" in given
        if "s" not in given and "u" not in given:
            collected.sort(key=_encode_line, reverse=backwards)
        for index in range(len(keys) - 1, -1, -1):
            turned = "r" in keys[index][2] if keys[index][2] else backwards
            collected.sort(key=partial(order.value, index), reverse=turned)
        if not keys:
            collected.sort(key=order.whole, reverse=backwards)
        if "u" in given:
            unique: list[str] = []
            for line in collected:
                if not unique or order.all(line) != order.all(unique[-1]):
                    unique.append(line)
            collected[:] = unique
        data = "".join(f"{line}\n" for line in collected)
        if "o" in given:
            around.files.write(around.path(given["o"]), data.encode(errors="surrogateescape"))
        else:
            yield write_out(data)
    return code


def uniq(around: ProcessContext, args: list[str]) -> Process:
    """Print lines that follow each other only once: `-c -d -u -i`."""
    given, names = parse_options("uniq", args, "cdui", "", "fsw")
    last: str | None = None
    count = 0

    def shown() -> Write | None:
        if last is None or ("d" in given and count < 2) or ("u" in given and count > 1):
            return None
        return write_out(f"{count:7d} {last}\n" if "c" in given else f"{last}\n")

    def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
        nonlocal last, count
        with around.tasks.account.hold() as hold:
            lines = LineReader(number, hold)
            while batch := (yield from lines.batch()):
                for raw in batch:
                    line = raw.removesuffix(b"\n").decode(errors="surrogateescape")
                    same = last is not None and (
                        line.lower() == last.lower() if "i" in given else line == last
                    )
                    if not same:
                        effect = shown()
                        if effect is not None:
                            yield effect
                        last, count = line, 0
                    count += 1
        return None

    code = yield from for_each_input(around, "uniq", names[:1], act)
    effect = shown()
    if effect is not None:
        yield effect
    return code


def _encode_line(line: str) -> bytes:
    return line.encode(errors="surrogateescape")

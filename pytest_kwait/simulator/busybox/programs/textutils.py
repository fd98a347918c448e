"""Programs that read text and write some of it."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import (
    LineReader,
    UsageError,
    for_each_input,
    open_input,
    parse_options,
    read_whole,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import Read, Sleep, Write

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.memory import MemoryHold
    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext

# How often `tail -f` looks, as busybox does.
_FOLLOW_SECONDS = 1.0
_CHUNK = 1 << 16


def cat(around: ProcessContext, args: list[str]) -> Process:
    """Print files, or what comes at stdin; `-n` with numbers."""
    given, names = parse_options("cat", args, "un", "", "bvetAET")
    count = 0
    code = 0
    for name in names or ["-"]:
        try:
            with open_input(around, name) as number, around.tasks.account.hold() as hold:
                if "n" not in given:
                    yield from _copy_through(number)
                    continue
                lines = LineReader(number, hold)
                while batch := (yield from lines.batch()):
                    for line in batch:
                        count += 1
                        yield Write(1, b"%6d\t%s" % (count, line))
        except FileSystemError as fault:
            if str(fault) == "Is a directory":
                yield write_error(f"cat: read error: {fault}")
            else:
                yield write_error(f"cat: can't open '{name}': {fault}")
            code = 1
    return code


def _copy_through(number: int) -> Generator[Effect, None, None]:
    while True:
        read = Read(number)
        yield read
        if not read.data:
            return
        yield Write(1, read.data)


def tac(around: ProcessContext, args: list[str]) -> Process:
    """Print lines, last first."""
    given, names = parse_options("tac", args, "")
    del given

    def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
        with around.tasks.account.hold() as hold:
            data = yield from read_whole(number, hold)
            yield Write(1, b"".join(reversed(data.splitlines(keepends=True))))
        return None

    return (yield from for_each_input(around, "tac", names, act))


def rev(around: ProcessContext, args: list[str]) -> Process:
    """Print each line backwards."""
    return (yield from _map_lines(around, "rev", args, lambda line: line[::-1]))


def _map_lines(around: ProcessContext, program: str, names: list[str], change: object) -> Process:
    def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
        with around.tasks.account.hold() as hold:
            lines = LineReader(number, hold)
            while batch := (yield from lines.batch()):
                pieces = []
                for line in batch:
                    body = line.removesuffix(b"\n").decode(errors="surrogateescape")
                    changed = change(body)  # type: ignore[operator]
                    if changed is not None:
                        pieces.append(changed + ("\n" if line.endswith(b"\n") else ""))
                yield write_out("".join(pieces))
        return None

    return (yield from for_each_input(around, program, names, act))


def _parse_count_options(
    program: str, args: list[str], known: str
) -> tuple[dict[str, str], list[str]]:
    """The options of `head` and `tail`, where `-5` is `-n 5`."""
    args = ["-n" + arg[1:] if re.fullmatch(r"-\d+", arg) else arg for arg in args]
    return parse_options(program, args, "qv" + known, "ncs", "")


def _parse_size(program: str, text: str) -> int:
    match = re.fullmatch(r"([-+]?\d+)([bkmKM]?)", text)
    if match is None:
        raise UsageError(f"{program}: invalid number '{text}'")
    return int(match[1]) * {"": 1, "b": 512, "k": 1024, "m": 1 << 20}[match[2].lower()]


def head(around: ProcessContext, args: list[str]) -> Process:
    """Print the first ten lines, `-n` so many, `-c` so many bytes; negative: all but the last."""
    given, names = _parse_count_options("head", args, "")
    by_bytes = "c" in given
    most = _parse_size("head", given.get("c") or given.get("n") or "10")
    titled = ("v" in given or len(names) > 1) and "q" not in given
    first = True

    def act(name: str, number: int) -> Generator[Effect, None, bool | None]:
        nonlocal first
        if titled:
            yield write_out(("" if first else "\n") + f"==> {_make_title(name)} <==\n")
            first = False
        with around.tasks.account.hold() as hold:
            if most < 0:
                data = yield from read_whole(number, hold)
                lines = data.splitlines(keepends=True)
                yield Write(1, data[:most] if by_bytes else b"".join(lines[:most]))
                return None
            left = most
            while left > 0:
                read = Read(
                    number, most=min(left, _CHUNK) if by_bytes else _CHUNK, line=not by_bytes
                )
                yield read
                if not read.data:
                    break
                yield Write(1, read.data)
                left -= len(read.data) if by_bytes else read.data.count(b"\n")
        return None

    return (yield from for_each_input(around, "head", names, act))


def _make_title(name: str) -> str:
    return "standard input" if name == "-" else name


def tail(around: ProcessContext, args: list[str]) -> Process:
    """Print the last ten lines, `-n` so many, `-c` so many bytes, `+N` from there; `-f`: go on."""
    args = [
        "-n" + arg if re.fullmatch(r"\+\d+", arg) and before not in ("-n", "-c", "-s") else arg
        for before, arg in zip(["", *args], args, strict=False)
    ]
    given, names = _parse_count_options("tail", args, "fF")
    by_bytes = "c" in given
    text = given.get("c") or given.get("n") or "10"
    from_start = text.startswith("+")
    most = abs(_parse_size("tail", text))
    titled = ("v" in given or len(names) > 1) and "q" not in given
    first = True

    def act(name: str, number: int) -> Generator[Effect, None, bool | None]:
        nonlocal first
        if titled:
            yield write_out(("" if first else "\n") + f"==> {_make_title(name)} <==\n")
            first = False
        with around.tasks.account.hold() as hold:
            yield from _read_last(number, hold, most, by_bytes=by_bytes, from_start=from_start)
        return None

    code = yield from for_each_input(around, "tail", names, act)
    if "f" not in given and "F" not in given:
        return code
    return (yield from _follow(around, names, code))


def _read_last(
    number: int, hold: MemoryHold, most: int, *, by_bytes: bool, from_start: bool
) -> Generator[Effect, None, None]:
    if from_start:
        data = yield from read_whole(number, hold)
        skipped = max(most - 1, 0)
        yield Write(1, data[skipped:] if by_bytes else b"".join(data.splitlines(True)[skipped:]))
        return
    if by_bytes:
        kept = bytearray()
        while True:
            read = Read(number)
            yield read
            if not read.data:
                break
            kept += read.data
            del kept[: max(len(kept) - most, 0)]
            hold.to(len(kept))
        yield Write(1, bytes(kept))
        return
    lines, last = LineReader(number, hold), deque[bytes](maxlen=most)
    while batch := (yield from lines.batch()):
        last.extend(batch)
    yield Write(1, b"".join(last))


def _follow(around: ProcessContext, names: list[str], code: int) -> Process:
    """What is added to files from now on."""
    paths = [around.path(name) for name in names if name != "-"]
    sizes = {path: len(around.files.read(path) or b"") for path in paths}
    if code and not any(around.files.find(path) for path in paths):
        yield write_error("tail: no files")
        return 1
    while True:
        yield Sleep(_FOLLOW_SECONDS)
        for path, size in sizes.items():
            data = around.files.read(path) or b""
            if len(data) > size:
                yield Write(1, data[size:])
            elif len(data) < size and data:
                yield Write(1, data)
            sizes[path] = len(data)


def wc(around: ProcessContext, args: list[str]) -> Process:
    """Count lines, words and bytes."""
    given, names = parse_options("wc", args, "lwcmL")
    wanted = [letter for letter in "lwmcL" if letter in given] or ["l", "w", "c"]
    totals = dict.fromkeys("lwcmL", 0)
    width = 0 if len(wanted) == 1 else 9

    def shown(counts: dict[str, int], name: str) -> Write:
        text = " ".join(f"{counts[one]:>{width}}" for one in wanted)
        return write_out(f"{text}{' ' + name if name else ''}\n")

    def act(name: str, number: int) -> Generator[Effect, None, bool | None]:
        counts = dict.fromkeys("lwcmL", 0)
        within = False
        length = 0
        while True:
            read = Read(number)
            yield read
            data = read.data
            if not data:
                break
            counts["l"] += data.count(b"\n")
            counts["c"] += len(data)
            counts["m"] += sum(byte & 0xC0 != 0x80 for byte in data)
            words = data.split()
            counts["w"] += len(words) - (within and not data[:1].isspace())
            within = not data[-1:].isspace()
            for index, line in enumerate(data.split(b"\n")):
                length = length + len(line) if not index else len(line)
                counts["L"] = max(counts["L"], length)
        for letter in totals:
            combine = max if letter == "L" else int.__add__
            totals[letter] = combine(totals[letter], counts[letter])
        yield shown(counts, name if names else "")
        return None

    code = yield from for_each_input(around, "wc", names, act)
    if len(names) > 1:
        yield shown(totals, "total")
    return code


def tee(around: ProcessContext, args: list[str]) -> Process:
    """Write stdin to stdout and to files; `-a` at their ends."""
    given, names = parse_options("tee", args, "ai")
    from pytest_kwait.simulator.busybox.os.fds import open_path

    code, open_files = 0, []
    for name in names:
        try:
            one = open_path(
                around.files, around.path(name), "a" if "a" in given else "w",
                around.tasks.account, around.now, around.fds,
            )  # fmt: skip
            open_files.append(one.retain())
        except FileSystemError as fault:
            yield write_error(f"tee: {name}: {fault}")
            code = 1
    try:
        while True:
            read = Read(0)
            yield read
            if not read.data:
                return code
            for one in open_files:
                one.write(read.data)
            yield Write(1, read.data)
    finally:
        for one in open_files:
            one.release()

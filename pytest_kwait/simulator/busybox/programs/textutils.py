"""Programs on text and bytes: `cat`, `cut`, `tr`, `tail`, `sort`, digests, `dd` and others."""

from __future__ import annotations

import base64 as codec
import hashlib
import re
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import (
    NOT_SIMULATED,
    LineReader,
    UsageError,
    WorkMeter,
    copy_to_stdout,
    for_each_input,
    open_input,
    parse_options,
    read_whole,
    sort_in_steps,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.fds import OpenFile, open_path
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import Effect, Read, Sleep, Write
from pytest_kwait.simulator.busybox.patterns import CHARACTER_CLASSES
from pytest_kwait.simulator.busybox.programs.shellutils import process_escapes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.simulator.busybox.os.memory import MemoryAccount, MemoryHold
    from pytest_kwait.simulator.busybox.os.syscalls import Process, ProcessContext

# The interval of `tail -f`, as in busybox.
_FOLLOW_SECONDS = 1.0
_CHUNK = 1 << 16
_LINES_AT_ONCE = 1000
_LINE_BYTES = 16
"""The memory of a line beside its text."""
_SORT_KEY = re.compile(r"(\d+)(?:\.(\d+))?([bnrf]*)(?:,(\d+)(?:\.(\d+))?[bnrf]*)?")

_Value = tuple[float, bytes]
_KEY_WORK = 2

_DD_UNITS = {"": 1, "c": 1, "w": 2, "b": 512, "k": 1024, "K": 1024, "M": 1 << 20, "G": 1 << 30}
_MAX_BLOCK = 1 << 16

_NO_LAST = 1 << 30
_ROW = 16
_ROWS_AT_ONCE = 500


def cat(context: ProcessContext, args: list[str]) -> Process:
    """Print files or stdin; `-n`: with line numbers."""
    options, names = yield from parse_options("cat", args, "un", "", "bvetAET")
    count = 0
    code = 0
    for name in names or ["-"]:
        try:
            with open_input(context, name) as number, context.tasks.account.hold() as hold:
                if "n" not in options:
                    yield from copy_to_stdout(number)
                    continue
                lines = LineReader(number, hold)
                while batch := (yield from lines.read_batch()):
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


def tac(context: ProcessContext, args: list[str]) -> Process:
    """Print lines in reverse order."""
    options, names = yield from parse_options("tac", args, "")
    del options

    def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
        with context.tasks.account.hold() as hold:
            data = yield from read_whole(number, hold)
            end = len(data)
            while end:
                chunk_start = data.rfind(b"\n", 0, max(end - _CHUNK, 0)) + 1
                yield Write(1, b"".join(reversed(data[chunk_start:end].splitlines(keepends=True))))
                end = chunk_start
        return None

    return (yield from for_each_input(context, "tac", names, act))


def rev(context: ProcessContext, args: list[str]) -> Process:
    """Reverse each line."""
    return (yield from _map_lines(context, "rev", args, lambda line: line[::-1]))


def _map_lines(context: ProcessContext, program: str, names: list[str], change: object) -> Process:
    def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
        with context.tasks.account.hold() as hold:
            lines, meter = LineReader(number, hold), WorkMeter()
            while batch := (yield from lines.read_batch()):
                pieces = []
                for line in batch:
                    yield from meter.spend(1)
                    body = line.removesuffix(b"\n").decode(errors="surrogateescape")
                    changed = change(body)  # type: ignore[operator]
                    if changed is not None:
                        pieces.append(changed + ("\n" if line.endswith(b"\n") else ""))
                yield write_out("".join(pieces))
        return None

    return (yield from for_each_input(context, program, names, act))


def _parse_count_options(
    program: str, args: list[str], known: str, plus: str = ""
) -> Generator[Effect, None, tuple[dict[str, str], list[str]]]:
    """Parse the options of `head` and `tail`, where `-5` is `-n 5`, and `+5` `-n +5` of one."""
    meter, before, words = WorkMeter(), "", []
    for arg in args:
        yield from meter.spend(1)
        is_count = before not in ("-n", "-c", "-s") and arg[:1] in ("-", plus or "-")
        if is_count and re.fullmatch(r"[-+]\d+", arg):
            words.append(f"-n{arg.removeprefix('-')}")
        else:
            words.append(arg)
        before = arg
    return (yield from parse_options(program, words, "qv" + known, "ncs", ""))


def _parse_size(program: str, text: str) -> int:
    match = re.fullmatch(r"([-+]?\d+)([bkmKM]?)", text)
    if match is None:
        raise UsageError(f"{program}: invalid number '{text}'")
    return int(match[1]) * {"": 1, "b": 512, "k": 1024, "m": 1 << 20}[match[2].lower()]


def head(context: ProcessContext, args: list[str]) -> Process:
    """Print the first ten lines: `-n` lines, `-c` bytes; negative: all but the last."""
    options, names = yield from _parse_count_options("head", args, "")
    by_bytes = "c" in options
    most = _parse_size("head", options.get("c") or options.get("n") or "10")
    titled, title = ("v" in options or len(names) > 1) and "q" not in options, _Titles()

    def act(name: str, number: int) -> Generator[Effect, None, bool | None]:
        if titled:
            yield title(name)
        with context.tasks.account.hold() as hold:
            if most < 0:
                data = yield from read_whole(number, hold)
                end = max(len(data) + most, 0)
                if not by_bytes:
                    end = yield from _find_last_lines(data, -most)
                yield from _write_chunks(data[:end])
                return None
            remaining = most
            while remaining > 0:
                read = Read(
                    number, most=min(remaining, _CHUNK) if by_bytes else _CHUNK, line=not by_bytes
                )
                yield read
                if not read.data:
                    break
                yield Write(1, read.data)
                remaining -= len(read.data) if by_bytes else read.data.count(b"\n")
        return None

    return (yield from for_each_input(context, "head", names, act))


def _find_last_lines(data: bytes, count: int) -> Generator[Effect, None, int]:
    """Return where the last lines of a text begin."""
    meter = WorkMeter()
    start = len(data)
    for _ in range(count):
        if not start:
            break
        yield from meter.spend(1)
        start = data.rfind(b"\n", 0, start - 1) + 1
    return start


def _write_chunks(data: bytes) -> Generator[Effect, None, None]:
    """Write a long text in chunks."""
    for start in range(0, len(data), _CHUNK):
        yield Write(1, data[start : start + _CHUNK])


class _Titles:
    """The titles above the parts of several files."""

    def __init__(self) -> None:
        self._separator = ""

    def __call__(self, name: str) -> Write:
        """Return the title of the next file."""
        separator, self._separator = self._separator, "\n"
        return write_out(f"{separator}==> {'standard input' if name == '-' else name} <==\n")


def tail(context: ProcessContext, args: list[str]) -> Process:
    """Print the last ten lines: `-n` lines, `-c` bytes, `+N` from there; `-f`: follow."""
    options, names = yield from _parse_count_options("tail", args, "fF", "+")
    by_bytes = "c" in options
    text = options.get("c") or options.get("n") or "10"
    from_start = text.startswith("+")
    most = abs(_parse_size("tail", text))
    titled, title = ("v" in options or len(names) > 1) and "q" not in options, _Titles()

    def act(name: str, number: int) -> Generator[Effect, None, bool | None]:
        if titled:
            yield title(name)
        with context.tasks.account.hold() as hold:
            yield from _read_last(
                number, hold, context.tasks.account, most, by_bytes=by_bytes, from_start=from_start
            )
        return None

    code = yield from for_each_input(context, "tail", names, act)
    if "f" not in options and "F" not in options:
        return code
    return (yield from _follow(context, names, code))


def _read_last(
    number: int,
    hold: MemoryHold,
    account: MemoryAccount,
    most: int,
    *,
    by_bytes: bool,
    from_start: bool,
) -> Generator[Effect, None, None]:
    if from_start:
        data = yield from read_whole(number, hold)
        start = max(most - 1, 0)
        if not by_bytes:
            meter, lines_left, start = WorkMeter(), start, 0
            while lines_left and start < len(data):
                yield from meter.spend(1)
                start = data.find(b"\n", start) + 1 or len(data)
                lines_left -= 1
        yield from _write_chunks(data[start:])
        return
    if by_bytes:
        buffer = bytearray()
        while True:
            read = Read(number)
            yield read
            if not read.data:
                break
            buffer += read.data
            del buffer[: max(len(buffer) - most, 0)]
            hold.resize(len(buffer))
        yield from _write_chunks(bytes(buffer))
        return
    lines, last, size = LineReader(number, hold), deque[bytes](), 0
    meter = WorkMeter()
    with account.hold() as held:
        while batch := (yield from lines.read_batch()):
            for line in batch:
                yield from meter.spend(1)
                last.append(line)
                size += len(line) + _LINE_BYTES
                if len(last) > most:
                    size -= len(last.popleft()) + _LINE_BYTES
            held.resize(size)
        while last:
            yield Write(
                1, b"".join([last.popleft() for _ in range(min(len(last), _LINES_AT_ONCE))])
            )


def _follow(context: ProcessContext, names: list[str], code: int) -> Process:
    """Print data appended to files."""
    paths = [context.resolve_path(name) for name in names if name != "-"]
    sizes = {path: len(context.files.read(path) or b"") for path in paths}
    if code and not any(context.files.find(path) for path in paths):
        yield write_error("tail: no files")
        return 1
    while True:
        yield Sleep(_FOLLOW_SECONDS)
        for path, size in sizes.items():
            data = context.files.read(path) or b""
            if len(data) > size:
                yield Write(1, data[size:])
            elif len(data) < size and data:
                yield Write(1, data)
            sizes[path] = len(data)


_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
"""Bytes of a character in UTF-8 after its first."""


def wc(context: ProcessContext, args: list[str]) -> Process:
    """Count lines, words and bytes."""
    options, names = yield from parse_options("wc", args, "lwcmL")
    letters = [letter for letter in "lwmcL" if letter in options] or ["l", "w", "c"]
    totals = dict.fromkeys("lwcmL", 0)
    width = 0 if len(letters) == 1 else 9

    def format_counts(counts: dict[str, int], name: str) -> Write:
        text = " ".join(f"{counts[letter]:>{width}}" for letter in letters)
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
            counts["m"] += len(data.translate(None, _CONTINUATION_BYTES))
            words = data.split()
            counts["w"] += len(words) - (within and not data[:1].isspace())
            within = not data[-1:].isspace()
            lengths = [*map(len, data.split(b"\n"))]
            counts["L"] = max(counts["L"], length + lengths[0], *lengths[1:])
            length = lengths[-1] + (length if len(lengths) == 1 else 0)
        for letter in totals:
            combine = max if letter == "L" else int.__add__
            totals[letter] = combine(totals[letter], counts[letter])
        yield format_counts(counts, name if names else "")
        return None

    code = yield from for_each_input(context, "wc", names, act)
    if len(names) > 1:
        yield format_counts(totals, "total")
    return code


def tee(context: ProcessContext, args: list[str]) -> Process:
    """Copy stdin to stdout and files; `-a`: append."""
    options, names = yield from parse_options("tee", args, "ai")
    from pytest_kwait.simulator.busybox.os.fds import open_path

    code, open_files = 0, []
    for name in names:
        try:
            open_file = open_path(
                context.files, context.resolve_path(name), "a" if "a" in options else "w",
                context.tasks.account, context.now, context.fds,
            )  # fmt: skip
            open_files.append(open_file.retain())
        except FileSystemError as fault:
            yield write_error(f"tee: {name}: {fault}")
            code = 1
    try:
        while True:
            read = Read(0)
            yield read
            if not read.data:
                return code
            for open_file in open_files:
                open_file.write(read.data)
            yield Write(1, read.data)
    finally:
        for open_file in open_files:
            open_file.release()


class _Order:
    """The sort order of lines.

    Args:
        options: the options of `sort`.
        keys: first and last field of each key, and its flags.
    """

    def __init__(self, options: dict[str, str], keys: list[tuple[int, int | None, str]]) -> None:
        self._plain = "".join(letter for letter in "nfb" if letter in options)
        self._separator = options.get("t", "")
        self._keys = keys

    def value(self, index: int, line: str) -> _Value:
        first, last, flags = self._keys[index]
        fields = (
            line.split(self._separator) if self._separator else re.findall(r"\s*\S+|\s+$", line)
        )
        text = self._separator.join(fields[first - 1 : last])
        return self._of(text, flags.strip("r") or self._plain)

    def whole(self, line: str) -> _Value:
        """Return the value of a line without keys."""
        return self._of(line, self._plain)

    def all(self, line: str) -> list[_Value]:
        """Return the value that makes lines equal."""
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


def sort(context: ProcessContext, args: list[str]) -> Process:
    """Sort lines: `-n -r -u -f -b`, `-k` and `-t`."""
    options, names = yield from parse_options("sort", args, "nrufbs", "kto", "cmzghMVT")
    keys: list[tuple[int, int | None, str]] = []
    for text in options.get("k", "").split("\n") if "k" in options else ():
        match = _SORT_KEY.fullmatch(text)
        if match is None or match[2] or match[5]:
            raise UsageError(f"sort: option -k {text}: {NOT_SIMULATED}")
        keys.append((int(match[1]), int(match[4]) if match[4] else None, match[3]))
    collected: list[str] = []
    meter = WorkMeter()
    with context.tasks.account.hold() as hold:

        def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
            before = hold.size
            data = yield from read_whole(number, hold)
            # Lines take more memory than their text.
            hold.resize(before + len(data) + data.count(b"\n") * _LINE_BYTES)
            for start, end in _find_chunks(data):
                collected.extend(data[start:end].decode(errors="surrogateescape").splitlines())
                yield from meter.spend(WorkMeter.PER_STEP)
            return None

        code = yield from for_each_input(context, "sort", names, act)

        order = _Order(options, keys)
        backwards = "r" in options
        is_plain = not keys and not any(letter in options for letter in "nfb")
        if "s" not in options and "u" not in options and not is_plain:
            collected = yield from sort_in_steps(collected, _encode_line, meter, reverse=backwards)
        for index in range(len(keys) - 1, -1, -1):
            turned = "r" in keys[index][2] if keys[index][2] else backwards
            key = partial(order.value, index)
            collected = yield from sort_in_steps(collected, key, meter, reverse=turned)
        if not keys:
            collected = yield from sort_in_steps(collected, order.whole, meter, reverse=backwards)
        if "u" in options:
            unique: list[str] = []
            last: list[_Value] = []
            for line in collected:
                yield from meter.spend(_KEY_WORK)
                value = order.all(line)
                if not unique or value != last:
                    unique.append(line)
                    last = value
            collected = unique
        pieces: list[str] = []
        for start in range(0, len(collected), _LINES_AT_ONCE):
            yield from meter.spend(WorkMeter.PER_STEP)
            piece = "".join(f"{line}\n" for line in collected[start : start + _LINES_AT_ONCE])
            if "o" in options:
                pieces.append(piece)
            else:
                yield write_out(piece)
        if "o" in options:
            data = "".join(pieces).encode(errors="surrogateescape")
            context.files.write(context.resolve_path(options["o"]), data)
    return code


def _find_chunks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of parts of a text that end with lines."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _CHUNK) + 1 or len(data)
        yield start, end
        start = end


def uniq(context: ProcessContext, args: list[str]) -> Process:
    """Drop repeated lines: `-c -d -u -i`."""
    options, names = yield from parse_options("uniq", args, "cdui", "", "fsw")
    last: str | None = None
    count = 0

    def format_line() -> Write | None:
        if last is None or ("d" in options and count < 2) or ("u" in options and count > 1):
            return None
        return write_out(f"{count:7d} {last}\n" if "c" in options else f"{last}\n")

    def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
        nonlocal last, count
        with context.tasks.account.hold() as hold:
            lines, meter = LineReader(number, hold), WorkMeter()
            while batch := (yield from lines.read_batch()):
                for raw in batch:
                    yield from meter.spend(1 + len(raw) // WorkMeter.CHARACTERS)
                    line = raw.removesuffix(b"\n").decode(errors="surrogateescape")
                    same = last is not None and (
                        line.lower() == last.lower() if "i" in options else line == last
                    )
                    if not same:
                        effect = format_line()
                        if effect is not None:
                            yield effect
                        last, count = line, 0
                    count += 1
        return None

    code = yield from for_each_input(context, "uniq", names[:1], act)
    effect = format_line()
    if effect is not None:
        yield effect
    return code


def _encode_line(line: str) -> bytes:
    return line.encode(errors="surrogateescape")


def _make_digest_program(algorithm: str) -> Callable[[ProcessContext, list[str]], Process]:
    def run(context: ProcessContext, args: list[str]) -> Process:
        _, names = yield from parse_options(f"{algorithm}sum", args, "", "", "csw")

        def act(name: str, number: int) -> Generator[Effect, None, bool | None]:
            digest = hashlib.new(algorithm, usedforsecurity=False)
            while True:
                read = Read(number)
                yield read
                if not read.data:
                    break
                digest.update(read.data)
            yield write_out(f"{digest.hexdigest()}  {name}\n")
            return None

        return (yield from for_each_input(context, f"{algorithm}sum", names, act))

    return run


md5sum, sha1sum = _make_digest_program("md5"), _make_digest_program("sha1")
sha256sum, sha512sum = _make_digest_program("sha256"), _make_digest_program("sha512")


def base64(context: ProcessContext, args: list[str]) -> Process:
    """Encode, or decode with `-d`; `-w`: the line width."""
    options, names = yield from parse_options("base64", args, "d", "w")
    width = int(options.get("w") or 76)
    with (
        open_input(context, names[0] if names else "-") as number,
        context.tasks.account.hold() as hold,
    ):
        data = yield from read_whole(number, hold)
    if "d" in options:
        # Parts of whole groups of four characters.
        text, at_once = b"".join(data.split()), _CHUNK // 4 * 4
        try:
            for start in range(0, len(text), at_once):
                yield Write(1, codec.b64decode(text[start : start + at_once]))
        except ValueError:
            yield write_error("base64: truncated input")
            return 1
        return 0
    # Each part is encoded to whole lines, and of whole groups of three bytes.
    at_once = (width * max(_CHUNK // (width + _ROW), 1) if width else _CHUNK) * 3
    for start in range(0, len(data), at_once):
        part = codec.b64encode(data[start : start + at_once])
        if not width:
            yield Write(1, part)
            continue
        rows = [part[first : first + width] for first in range(0, len(part), width)]
        yield Write(1, b"".join([row + b"\n" for row in rows]))
    return 0


def hexdump(context: ProcessContext, args: list[str]) -> Process:
    """Print bytes in hexadecimal: words, or with `-C` bytes and characters; `-n`, `-s`, `-v`."""
    options, names = yield from parse_options("hexdump", args, "Cv", "ns", "bcdeoxfR")
    skip, most = (
        _parse_size("hexdump", options[key]) if key in options else None for key in ("s", "n")
    )
    data = b""
    with context.tasks.account.hold() as hold:
        for name in names or ["-"]:
            with open_input(context, name) as number:
                data += yield from read_whole(number, hold)
    start, data = skip or 0, data[skip:][:most]
    width = 8 if "C" in options else 7
    lines: list[str] = []
    before, was_repeated = None, False
    meter = WorkMeter()
    for offset in range(0, len(data), _ROW):
        yield from meter.spend(_ROW)
        row = data[offset : offset + _ROW]
        if row == before and "v" not in options and len(row) == _ROW:
            if not was_repeated:
                lines.append("*")
            was_repeated = True
            continue
        before, was_repeated = row, False
        if len(lines) > _ROWS_AT_ONCE:
            yield write_out("".join(f"{line}\n" for line in lines))
            lines = []
        lines.append(f"{start + offset:0{width}x} {_format_row(row, canonical='C' in options)}")
    if data:
        lines.append(f"{start + len(data):0{width}x}")
    yield write_out("".join(f"{line}\n" for line in lines))
    return 0


def _format_row(row: bytes, *, canonical: bool) -> str:
    if not canonical:
        words = [row[index : index + 2] for index in range(0, len(row), 2)]
        words_text = " ".join(f"{int.from_bytes(word, 'little'):04x}" for word in words)
        return f"{words_text:{_ROW // 2 * 5 - 1}}"
    halves = [" ".join(f"{byte:02x}" for byte in half) for half in (row[:8], row[8:])]
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    return f" {halves[0]:23}  {halves[1]:23}  |{text}|"


def _parse_dd_number(text: str) -> int:
    digits = text.rstrip("cwbkKMG")
    unit = text[len(digits) :].removesuffix("B")
    if not digits.isdigit() or unit not in _DD_UNITS:
        raise UsageError(f"dd: invalid number '{text}'")
    return int(digits) * _DD_UNITS[unit]


def dd(context: ProcessContext, args: list[str]) -> Process:
    """Copy blocks: `if= of= bs= count= skip=`."""
    options = {}
    for arg in args:
        name, separator, value = arg.partition("=")
        if not separator or name not in ("if", "of", "bs", "count", "skip", "status", "conv"):
            raise UsageError(f"dd: {arg}: {NOT_SIMULATED}")
        options[name] = value
    size = _parse_dd_number(options.get("bs", "512"))
    remaining_bytes = _parse_dd_number(options["count"]) * size if "count" in options else 1 << 62
    skipped = _parse_dd_number(options.get("skip", "0")) * size
    blocks, total = 0, 0
    target: OpenFile | None = None
    try:
        if "of" in options:
            target = open_path(
                context.files, context.resolve_path(options["of"]), "w", context.tasks.account,
                context.now, context.fds,
            ).retain()  # fmt: skip
        # `dd` holds one block in memory.
        with (
            open_input(context, options.get("if", "-")) as number,
            context.tasks.account.hold() as hold,
        ):
            hold.resize(size)
            while remaining_bytes > 0:
                read = Read(number, most=min(skipped or remaining_bytes, _MAX_BLOCK))
                yield read
                if not read.data:
                    break
                if skipped:
                    skipped -= len(read.data)
                    continue
                remaining_bytes -= len(read.data)
                total += len(read.data)
                if target is None:
                    yield Write(1, read.data)
                elif why := target.write(read.data):
                    yield write_error(f"dd: error writing '{options['of']}': {why}")
                    return 1
    except FileSystemError as fault:
        name = options.get("if", "") if target is not None or "of" not in options else options["of"]
        yield write_error(f"dd: can't open '{name}': {fault}")
        return 1
    finally:
        if target is not None:
            target.release()
    blocks, rest = divmod(total, size)
    if options.get("status") != "none":
        text = f"{blocks}+{int(bool(rest))}"
        yield write_error(f"{text} records in\n{text} records out")
    return 0


def _parse_ranges(text: str) -> list[tuple[int, int]]:
    """Parse `1,3-5,7-` to half-open ranges from 0, in order and apart."""
    ranges: list[tuple[int, int]] = []
    for piece in text.split(","):
        match = re.fullmatch(r"(\d*)(-?)(\d*)", piece)
        if match is None or not (match[1] or match[3]):
            raise UsageError(f"cut: invalid number '{piece}'")
        first = int(match[1] or 1)
        last = int(match[3]) if match[3] else (_NO_LAST if match[2] else first)
        if not first:
            raise UsageError("cut: invalid range 0")
        ranges.append((first - 1, last))
    apart: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if apart and first <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(last, apart[-1][1]))
        else:
            apart.append((first, last))
    return apart


def _select_fields(
    line: str, separator: str, ranges: list[tuple[int, int]], meter: WorkMeter
) -> Generator[Effect, None, str]:
    """Return some fields of a line; no others are split off."""
    pieces: list[str] = []
    index = position = 0
    for first, last in ranges:
        start = position
        while index < last:
            if index == first:
                start = position
                if last == _NO_LAST:
                    pieces.append(line[start:])
                    return separator.join(pieces)
            yield from meter.spend(1)
            end = line.find(separator, position)
            index += 1
            if end < 0:
                if index > first:
                    pieces.append(line[start:])
                return separator.join(pieces)
            position = end + 1
        pieces.append(line[start : position - 1])
    return separator.join(pieces)


def cut(context: ProcessContext, args: list[str]) -> Process:
    """Print fields (`-f`, `-d`, `-s`), characters (`-c`) or bytes (`-b`) of each line."""
    options, names = yield from parse_options("cut", args, "sn", "bcfd", "DFO")
    kinds = [kind for kind in "bcf" if kind in options]
    if len(kinds) != 1:
        raise UsageError("cut: expected a list of bytes, characters, or fields")
    kind = kinds[0]
    ranges = _parse_ranges(options[kind].replace("\n", ","))
    separator = options.get("d", "\t")[:1] or "\0"

    def act(_: str, number: int) -> Generator[Effect, None, bool | None]:
        with context.tasks.account.hold() as hold:
            lines, meter = LineReader(number, hold), WorkMeter()
            while batch := (yield from lines.read_batch()):
                pieces = []
                for raw in batch:
                    yield from meter.spend(1 + len(ranges))
                    line = raw.removesuffix(b"\n").decode(errors="surrogateescape")
                    if kind != "f":
                        line = "".join(line[first:last] for first, last in ranges)
                    elif separator in line:
                        line = yield from _select_fields(line, separator, ranges, meter)
                    elif "s" in options:
                        continue
                    pieces.append(f"{line}\n")
                yield write_out("".join(pieces))
        return None

    return (yield from for_each_input(context, "cut", names, act))


def _expand_set(text: str, meter: WorkMeter) -> Generator[Effect, None, list[str]]:
    """Return the characters of an argument of `tr`, in order."""
    characters: list[str] = []
    position = 0
    text, _ = yield from process_escapes(text, meter, echo=False)
    while position < len(text):
        yield from meter.spend(1)
        match = _NAMED_CLASS.match(text, position)
        if match is not None and match[1] in CHARACTER_CLASSES:
            yield from meter.spend(256)
            allowed = re.compile(f"[{CHARACTER_CLASSES[match[1]]}]", re.ASCII)
            characters += [chr(code) for code in range(256) if allowed.match(chr(code))]
            position = match.end()
        elif text[position + 1 : position + 2] == "-" and position + 2 < len(text):
            first, last = ord(text[position]), ord(text[position + 2])
            yield from meter.spend(WorkMeter.PER_STEP if last - first > 256 else 1)
            characters += [chr(code) for code in range(first, min(last, first + 65536) + 1)]
            position += 3
        else:
            characters.append(text[position])
            position += 1
    return characters


_NAMED_CLASS = re.compile(r"\[:(\w{1,16}):\]")
_BYTE_CHARACTERS = frozenset(map(chr, range(256)))


def tr(_: ProcessContext, args: list[str]) -> Process:
    """Translate, delete (`-d`) or squeeze (`-s`) characters; `-c`: the complement."""
    options, sets = yield from parse_options("tr", args, "cCds", "", "t", mixed=False)
    if not sets or (len(sets) < 2 and not ("d" in options or "s" in options)):
        raise UsageError("BusyBox: usage: tr [-cds] STRING1 [STRING2]")
    meter = WorkMeter()
    first = yield from _expand_set(sets[0], meter)
    second = (yield from _expand_set(sets[1], meter)) if len(sets) > 1 else []
    if "c" in options or "C" in options:
        excluded = set(first)
        first = [chr(code) for code in range(256) if chr(code) not in excluded]
    deleted = b""
    if "d" in options:
        deleted = _to_bytes([char for char in first if char in _BYTE_CHARACTERS])
    table = bytes(range(256))
    if second and "d" not in options:
        new = _to_bytes(second)
        pairs: dict[int, int] = {}
        for index, char in enumerate(first):
            yield from meter.spend(1)
            if char in _BYTE_CHARACTERS:
                pairs[ord(char)] = new[min(index, len(new) - 1)]
        table = bytes(pairs.get(byte, byte) for byte in table)
    squeezed = _to_bytes(second or first) if "s" in options else b""
    repeats = re.compile(b"([" + re.escape(squeezed) + rb"])\1+", re.DOTALL) if squeezed else None
    last = b""
    while True:
        read = Read(0)
        yield read
        if not read.data:
            return 0
        data = read.data.translate(table, deleted)
        if repeats is not None:
            data = repeats.sub(rb"\1", data)
            is_repeated = bool(data) and data[:1] == last and last in squeezed
            last = data[-1:] or last
            data = data[is_repeated:]
        yield Write(1, data)


def _to_bytes(characters: list[str]) -> bytes:
    return "".join(characters).encode("latin-1", errors="replace")

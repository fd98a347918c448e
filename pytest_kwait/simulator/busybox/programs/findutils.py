"""Programs that search and build command lines: `grep`, `egrep`, `fgrep`, `xargs`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.applets import has_program, run_program
from pytest_kwait.simulator.busybox.libbb import (
    NOT_SIMULATED,
    LineReader,
    UsageError,
    WorkMeter,
    open_input,
    parse_options,
    read_whole,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.files import Directory, FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import STEP, Call
from pytest_kwait.simulator.busybox.patterns import compile_regex
from pytest_kwait.simulator.linear_regex import NOT_AFTER_WORD, NOT_BEFORE_WORD, Regex

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.memory import MemoryHold
    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext


_WORD = re.compile(r"(?:[^\s'\"\\]|'[^']*'|\"[^\"]*\"|\\.)+", re.DOTALL)
_RUN_WORK = 20
"""The work of a run of a program beside its own."""
_WORD_BYTES = 24
"""The memory of a word beside its text."""
_QUOTE = re.compile(r"['\"\\]")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"|\\(.)|([^'\"\\]+)", re.DOTALL)


def grep(context: ProcessContext, args: list[str]) -> Process:
    """Print lines that match: `-E -F -i -v -c -l -L -q -n -o -w -x -s -h -H -r -m -e -A -B -C`."""
    return (yield from _run_grep(context, args, ""))


def egrep(context: ProcessContext, args: list[str]) -> Process:
    """`grep -E`."""
    return (yield from _run_grep(context, args, "E"))


def fgrep(context: ProcessContext, args: list[str]) -> Process:
    """`grep -F`."""
    return (yield from _run_grep(context, args, "F"))


def _run_grep(context: ProcessContext, args: list[str], kind: str) -> Process:
    options, rest = yield from parse_options("grep", args, "EFGivclLqnowxshHra", "meABCf", "yRzI")
    if "f" in options:
        raise UsageError(f"grep: option -f: {NOT_SIMULATED}")
    if "e" not in options:
        if not rest:
            raise UsageError(
                "BusyBox: usage: grep [-HhnlLoqvsrRiwFE] [-m N] [-A|B|C N] PATTERN [FILE]..."
            )
        options["e"] = rest.pop(0)
    found_kind = "E" if "E" in options or kind == "E" else "F" if "F" in options else kind
    searches = [_compile_search(search, found_kind, options) for search in options["e"].split("\n")]
    names = rest
    if "r" in options:
        names = yield from _find_files(context, rest or ["."])
    named = ("H" in options or len(names) > 1 or "r" in options) and "h" not in options
    grep_of = _Grep(context, options, searches, named=named)
    code = 0
    for name in names or ["-"]:
        try:
            with open_input(context, name) as number, context.tasks.account.hold() as hold:
                yield from grep_of.run(
                    "(standard input)" if name == "-" else name, LineReader(number, hold)
                )
        except FileSystemError as fault:
            if "s" not in options and str(fault) != "Is a directory":
                yield write_error(f"grep: {name}: {fault}")
            code = code if str(fault) == "Is a directory" else 2
        if grep_of.matched and "q" in options:
            return 0
    if code and not ("q" in options and grep_of.matched):
        return code
    return int(not grep_of.matched)


def _compile_search(pattern: str, kind: str, options: dict[str, str]) -> Regex:
    around = ("", "")
    if "x" in options:
        around = (r"\A", r"\Z")
    elif "w" in options:
        around = (NOT_AFTER_WORD, NOT_BEFORE_WORD)
    ignore_case = "i" in options
    if kind == "F":
        pieces = [re.escape(char) for char in pattern]
        return Regex(pieces, ignore_case=ignore_case, around=around, error=UsageError)
    return compile_regex(pattern, extended=kind == "E", ignore_case=ignore_case, around=around)


def _find_files(context: ProcessContext, names: list[str]) -> Generator[Effect, None, list[str]]:
    """Return the files below some paths."""
    files: list[str] = []
    paths, meter = names[::-1], WorkMeter()
    while paths:
        name = paths.pop()
        yield from meter.spend(_RUN_WORK)
        node = context.files.find(context.resolve_path(name))
        if isinstance(node, Directory):
            prefix = name.rstrip("/") or ""
            paths += [f"{prefix}/{entry}" for entry in sorted(node.entries, reverse=True)]
        else:
            files.append(name)
    return files


class _Grep:
    """A search with its results."""

    def __init__(
        self, context: ProcessContext, options: dict[str, str], searches: list[Regex], *,
        named: bool,
    ) -> None:  # fmt: skip
        self._context, self._options, self._searches = context, options, searches
        self._named = named
        self.matched = False
        around_lines = options.get("C", "0")
        self._before = int(options.get("B", around_lines) or 0)
        self._after = int(options.get("A", around_lines) or 0)
        self._apart = False
        self._meter = WorkMeter()

    def _line(self, name: str, number: int, mark: str, text: str) -> str:
        start = f"{name}{mark}" if self._named else ""
        count = f"{number}{mark}" if "n" in self._options else ""
        return f"{start}{count}{text}\n"

    def run(self, name: str, lines: LineReader) -> Generator[Effect, None, None]:
        options = self._options
        count = number = after = 0
        most = int(options["m"]) if "m" in options else 1 << 60
        silent = any(letter in options for letter in "qclL")
        waiting: list[tuple[int, str]] = []
        printed = 0
        while count < most and (batch := (yield from lines.read_batch())):
            pieces: list[str] = []
            for raw in batch:
                number += 1
                text = raw.removesuffix(b"\n").decode(errors="surrogateescape")
                is_found = False
                for search in self._searches:
                    # It may take as long as a turn.
                    yield STEP
                    is_found = is_found or search.is_in(text)
                holds = is_found != ("v" in options)
                if not holds:
                    if after and not silent:
                        pieces.append(self._line(name, number, "-", text))
                        after, printed = after - 1, number
                    elif self._before:
                        waiting = [*waiting[-self._before + 1 :], (number, text)]
                    continue
                count += 1
                self.matched = True
                if silent:
                    if "c" not in options:
                        break
                else:
                    first = waiting[0][0] if waiting else number
                    if (self._before or self._after) and self._apart and first > printed + 1:
                        pieces.append("--\n")
                    pieces += [
                        self._line(name, at, "-", waiting_line) for at, waiting_line in waiting
                    ]
                    pieces += yield from self._find_shown(name, number, text)
                    waiting, after, printed, self._apart = [], self._after, number, True
                if count >= most:
                    break
            yield write_out("".join(pieces))
            if silent and count and "c" not in options:
                break
        if "c" in options:
            yield write_out(f"{name + ':' if self._named else ''}{count}\n")
        elif "q" not in options and (("l" in options and count) or ("L" in options and not count)):
            yield write_out(f"{name}\n")

    def _find_shown(self, name: str, number: int, text: str) -> Generator[Effect, None, list[str]]:
        if "o" not in self._options:
            return [self._line(name, number, ":", text)]
        shown: list[str] = []
        with self._context.tasks.account.hold() as hold:
            for search in self._searches if "v" not in self._options else ():
                for match in search.find_all(text):
                    yield from self._meter.spend(1)
                    if match[0]:
                        line = self._line(name, number, ":", match[0])
                        hold.resize(hold.size + len(line))
                        shown.append(line)
        return shown


def xargs(context: ProcessContext, args: list[str]) -> Process:
    """Run a program with words from stdin: `-n`, `-I`, `-r`, `-t`, `-0`."""
    options, command = yield from parse_options(
        "xargs", args, "rt0", "nI", "pxePsELaio", mixed=False
    )
    command = command or ["echo"]
    with context.tasks.account.hold() as hold:
        data = (yield from read_whole(0, hold)).decode(errors="surrogateescape")
        meter = WorkMeter()
        if "I" in options:
            words = []
            for line in data.split("\n"):
                yield from meter.spend(1)
                if line.strip():
                    words.append(line.strip())
        elif "0" in options:
            words = [word for word in data.split("\0") if word]
        else:
            words = yield from _split_words(data, hold)
        most = int(options["n"]) if options.get("n", "").isdigit() else 0
        if "I" in options:
            most = 1
        elif not words and "r" in options:
            return 0
        # Without words the program runs once, but for `-I`.
        most = most or max(len(words), 1)
        runs = len(words) if "I" in options else max(len(words), 1)
        code = 0
        for start in range(0, runs, most):
            yield from meter.spend(_RUN_WORK)
            group = words[start : start + most]
            if "I" in options:
                argv = [argument.replace(options["I"], group[0]) for argument in command]
            else:
                argv = [*command, *group]
            if "t" in options:
                yield write_error(" ".join(argv))
            if not has_program(context, argv[0]):
                yield write_error(f"xargs: {argv[0]}: No such file or directory")
                return 127
            call = Call(run_program(context, argv))
            yield call
            if call.code:
                code = 123
            if call.code == 255:
                yield write_error(f"xargs: {argv[0]}: exited with status 255; aborting")
                return 124
    return code


def _split_words(text: str, hold: MemoryHold) -> Generator[Effect, None, list[str]]:
    """Return the words of a text, without their quotes."""
    words: list[str] = []
    meter = WorkMeter()
    before = hold.size
    for match in _WORD.finditer(text):
        word = match[0]
        yield from meter.spend(1 + len(word) // WorkMeter.CHARACTERS)
        hold.resize(before + _WORD_BYTES * len(words))
        if _QUOTE.search(word):
            word = "".join(["".join(parts) for parts in _QUOTED.findall(word)])
        words.append(word)
    return words

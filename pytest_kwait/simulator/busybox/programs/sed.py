"""`sed`: the commands `s y p d q = a i c n N g G h H x b t :` with addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import (
    NOT_SIMULATED,
    LineReader,
    UsageError,
    WorkMeter,
    open_input,
    parse_options,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import STEP
from pytest_kwait.simulator.busybox.patterns import compile_regex

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.memory import MemoryAccount
    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext
    from pytest_kwait.simulator.linear_regex import Match, Regex


@dataclass(slots=True)
class _Command:
    name: str
    first: int | Regex | None = None
    last: int | Regex | None = None
    negated: bool = False
    search: Regex | None = None
    text: str = ""
    flags: str = ""
    body: list[_Command] = field(default_factory=list)
    within: bool = False


class _Script:
    """Parses the commands of a script."""

    def __init__(self, text: str, *, extended: bool) -> None:
        self._text, self._position, self._extended = text, 0, extended

    def commands(self, *, nested: bool = False) -> list[_Command]:
        commands: list[_Command] = []
        while True:
            while self._peek() in ("\n", ";", " ", "\t") and self._peek():
                self._position += 1
            if not self._peek():
                if nested:
                    raise UsageError("sed: unterminated {")
                return commands
            if self._peek() == "}" and nested:
                self._position += 1
                return commands
            commands.append(self._command())

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _address(self) -> int | Regex | None:
        char = self._peek()
        if char.isdigit():
            match = re.compile(r"\d+").match(self._text, self._position)
            digits = match[0] if match is not None else ""
            self._position += len(digits)
            return int(digits)
        if char == "$":
            self._position += 1
            return -1
        if char in ("/", "\\") and char:
            self._position += char == "\\"
            pattern = self._until(self._peek())
            return compile_regex(pattern, extended=self._extended)
        return None

    def _until(self, mark: str) -> str:
        """Return the text up to the next delimiter."""
        pieces: list[str] = []
        self._position += 1
        bracket = False
        while (char := self._peek()) and (char != mark or bracket):
            self._position += 1
            if char == "\\" and not bracket:
                following = self._peek()
                self._position += 1
                pieces.append(following if following == mark else char + following)
                continue
            bracket = (bracket or char == "[") and not (char == "]" and bracket)
            pieces.append(char)
        if not self._peek():
            raise UsageError("sed: unmatched '" + mark + "'")
        self._position += 1
        return "".join(pieces)

    def _command(self) -> _Command:
        first = self._address()
        last = None
        if first is not None and self._peek() == ",":
            self._position += 1
            last = self._address()
            if last is None:
                raise UsageError("sed: no address after comma")
        while self._peek() == " ":
            self._position += 1
        negated = self._peek() == "!"
        self._position += negated
        name = self._peek()
        self._position += 1
        made = _Command(name, first, last, negated)
        if name == "{":
            made.body = self.commands(nested=True)
        elif name in ("s", "y") and name:
            self._substitution(made)
        elif name in ("a", "i", "c") and name:
            rest = self._text[self._position :]
            line, _, _ = re.sub(r"\\\n", "\0", rest).partition("\n")
            self._position += len(line)
            text = line.lstrip(" ")
            made.text = text.removeprefix("\\").lstrip("\0").replace("\0", "\n")
        elif name in (":", "b", "t") and name:
            match = re.compile(r"\s*([^;\n}]*)").match(self._text, self._position)
            made.text = match[1].strip() if match is not None else ""
            self._position = match.end() if match is not None else self._position
        elif not name or name not in "pdqDPnNgGhHx=#":
            raise UsageError(f"sed: unsupported command {name}")
        elif name == "#":
            end = self._text.find("\n", self._position)
            self._position = end if end >= 0 else len(self._text)
        return made

    def _substitution(self, made: _Command) -> None:
        mark = self._peek()
        pattern = self._until(mark)
        self._position -= 1
        made.text = self._until(mark)
        match = re.compile(r"[gpiI0-9]*").match(self._text, self._position)
        made.flags = match[0] if match is not None and made.name == "s" else ""
        self._position += len(made.flags)
        if self._peek() not in ("", ";", "\n", "}", " ", "#"):
            raise UsageError(f"sed: unknown option to {made.name}")
        if made.name == "y":
            if len(pattern) != len(made.text):
                raise UsageError("sed: command y strings have different lengths")
            made.flags = pattern
            return
        ignore = "i" in made.flags.lower()
        made.search = (
            compile_regex(pattern, extended=self._extended, ignore_case=ignore) if pattern else None
        )


class _Sed:
    """A run over the lines of all files."""

    def __init__(self, commands: list[_Command], account: MemoryAccount, *, quiet: bool) -> None:
        self._commands, self._account, self._quiet = commands, account, quiet
        self._meter = WorkMeter()
        self.pending: list[tuple[str, bool]] = []
        self._line = self._hold = ""
        self._number = 0
        self._last: Regex | None = None
        self._printed: list[str] = []
        self._after: list[str] = []
        self.quit = False

    def line(self, text: str, *, last: bool, newline: bool = True) -> Generator[Effect, None, str]:
        """Apply the script to one line; return what it prints."""
        self._printed, self._after = [], []
        self._number += 1
        self._line = text
        deleted = (yield from self._run(self._commands, last=last)) == "d"
        if not deleted and not self._quiet:
            self._printed.append(self._line + ("\n" if newline else ""))
        return "".join([*self._printed, *self._after])

    def _matches(self, command: _Command, *, last: bool) -> bool:
        def at(address: int | Regex | None) -> bool:
            if isinstance(address, int):
                return last if address == -1 else self._number == address
            if address is None:
                return True
            self._last = address
            return address.is_in(self._line)

        if command.last is None:
            return at(command.first) != command.negated
        if command.within:
            if isinstance(command.last, int) and command.last != -1:
                command.within = self._number < command.last
                return (self._number <= command.last) != command.negated
            command.within = not at(command.last)
            return not command.negated
        begins = at(command.first)
        if begins:
            ends = isinstance(command.last, int) and 0 <= command.last <= self._number
            command.within = not (ends or (command.last == -1 and last))
        return begins != command.negated

    def _run(self, commands: list[_Command], *, last: bool) -> Generator[Effect, None, str]:
        for command in commands:
            # A search may take as long as a turn.
            yield STEP
            if not self._matches(command, last=last):
                continue
            ended = yield from self._do(command, last=last)
            if ended:
                return ended
        return ""

    def _do(self, command: _Command, *, last: bool) -> Generator[Effect, None, str]:
        match command.name:
            case "{":
                return (yield from self._run(command.body, last=last))
            case "d":
                return "d"
            case "p":
                self._printed.append(self._line + "\n")
            case "q":
                self.quit = True
                return "q"
            case "=":
                self._printed.append(f"{self._number}\n")
            case "a":
                self._after.append(command.text + "\n")
            case "i":
                self._printed.append(command.text + "\n")
            case "c":
                if command.last is None or not command.within:
                    self._printed.append(command.text + "\n")
                return "d"
            case "h":
                self._hold = self._line
            case "H":
                self._hold += "\n" + self._line
            case "g":
                self._line = self._hold
            case "G":
                self._line += "\n" + self._hold
            case "x":
                self._line, self._hold = self._hold, self._line
            case "y":
                self._line = self._line.translate(str.maketrans(command.flags, command.text))
            case "s":
                yield from self._substitute(command)
        return ""

    def _substitute(self, command: _Command) -> Generator[Effect, None, None]:
        search = command.search or self._last
        if search is None:
            raise UsageError("sed: no previous regexp")
        self._last = search
        digits = "".join(char for char in command.flags if char.isdigit())
        occurrence, count = int(digits or 1), 0
        pieces: list[str] = []
        position = 0
        with self._account.hold() as hold:
            for match in search.find_all(self._line):
                yield from self._meter.spend(1)
                count += 1
                if count >= occurrence:
                    new = _make_replacement(command.text, match, search.groups)
                    pieces += (self._line[position : match.start()], new)
                    hold.resize(hold.size + match.start() - position + len(new))
                    position = match.end()
                    if "g" not in command.flags:
                        break
            line = "".join(pieces) + self._line[position:]
        if count >= occurrence:
            self._line = line
            if "p" in command.flags:
                self._printed.append(line + "\n")


def _make_replacement(text: str, match: Match, groups: int) -> str:
    pieces: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "&":
            pieces.append(match[0] or "")
        elif char == "\\" and position < len(text):
            char = text[position]
            position += 1
            if char.isdigit():
                number = int(char)
                if number > groups:
                    raise UsageError("sed: bad regex: Invalid back reference")
                pieces.append(match[number] or "")
            else:
                pieces.append({"n": "\n", "t": "\t"}.get(char, char))
        else:
            pieces.append(char)
    return "".join(pieces)


def sed(context: ProcessContext, args: list[str]) -> Process:
    """Edit lines: `-n`, `-e`, `-E`/`-r`, `-i`."""
    options, names = yield from parse_options("sed", args, "nErsi", "e", "fz")
    if "e" not in options:
        if not names:
            raise UsageError(
                "BusyBox: usage: sed [-i[SFX]] [-nrE] [-f FILE]... [-e CMD]... [FILE]..."
            )
        options["e"] = names.pop(0)
    commands = _Script(options["e"], extended="E" in options or "r" in options).commands()
    unknown = {command.name for command in commands} & set("bt:nNDP")
    if unknown:
        unsupported = min(unknown)
        raise UsageError(f"sed: command {unsupported}: {NOT_SIMULATED}")
    run = _Sed(commands, context.tasks.account, quiet="n" in options)
    code = 0
    for name in names or ["-"]:
        try:
            pieces: list[str] = []
            with open_input(context, name) as number, context.tasks.account.hold() as hold:
                final = "i" in options or name == (names or ["-"])[-1]
                async_lines = _edit(run, LineReader(number, hold), final=final)
                if "i" in options:
                    pieces = yield from _collect_edited(async_lines)
                else:
                    yield from _print_edited(async_lines)
            if "i" in options:
                data = "".join(pieces).encode(errors="surrogateescape")
                context.files.write(context.resolve_path(name), data)
        except FileSystemError as fault:
            yield write_error(f"sed: {name}: {fault}")
            code = 1
        if run.quit and "i" not in options:
            break
    return code


def _edit(run: _Sed, lines: LineReader, *, final: bool) -> Generator[Effect | str, None, None]:
    """Forward the effects of reading, and write the edited lines."""
    waiting: bytes | None = None
    while not run.quit:
        batch = yield from lines.read_batch()
        for raw in batch:
            if waiting is not None and not run.quit:
                yield (yield from run.line(_decode(waiting), last=False))
            waiting = raw
        if not batch:
            break
        yield STEP
    if waiting is not None and not run.quit:
        is_ended = waiting.endswith(b"\n")
        yield (yield from run.line(_decode(waiting), last=final, newline=is_ended))


def _decode(raw: bytes) -> str:
    return raw.removesuffix(b"\n").decode(errors="surrogateescape")


def _print_edited(effects: Generator[Effect | str, None, None]) -> Generator[Effect, None, None]:
    for effect in effects:
        yield write_out(effect) if isinstance(effect, str) else effect


def _collect_edited(
    effects: Generator[Effect | str, None, None],
) -> Generator[Effect, None, list[str]]:
    lines: list[str] = []
    for effect in effects:
        if isinstance(effect, str):
            lines.append(effect)
        else:
            yield effect
    return lines

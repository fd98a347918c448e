"""The lexer of shell scripts: words, operators, here-documents."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pytest_kwait.simulator.busybox.libbb import ESCAPES, WorkMeter
from pytest_kwait.simulator.busybox.os.syscalls import STEP
from pytest_kwait.simulator.busybox.shell.tree import (
    Arithmetic,
    Literal,
    Parameter,
    Redirect,
    ShellSyntaxError,
    Substitution,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect
    from pytest_kwait.simulator.busybox.shell.tree import Node, Part

    T = TypeVar("T")
    Parsing = Generator[Effect, None, T]
    """A part of the parser's work, which yields a step now and then."""

END, NEWLINE = "", "\n"

_WORD_ENDS = frozenset(" \t\n;&|<>()")
_SPECIAL_PARAMETERS = frozenset("?$!#@*-")
_PARAMETER_OPERATORS: tuple[str, ...] = (
    ":-", ":=", ":?", ":+", "%%", "##", "//", "-", "=", "?", "+", "%", "#", "/", ":",
)  # fmt: skip
_MAX_NESTING = 60
# No match is longer than this, so that each is little work.
_RUN = "{1,65536}"
_BLANKS = re.compile(rf"[ \t]{_RUN}")
_OPERATOR = re.compile(r"<<-|&&|\|\||;;|<<|>>|<&|>&|<>|>\||&>|[<>|&;()]")
_STREAM = re.compile(r"[0-9]{1,4096}(?=[<>])")
# A word without quotes and expansions, and whole.
_PLAIN_WORD = re.compile(r"[^\\'\"$` \t\n;&|<>()#][^\\'\"$` \t\n;&|<>()]{0,255}(?=[ \t\n;&|()]|\Z)")
_PLAIN = re.compile(rf"[^\\'\"$` \t\n;&|<>()]{_RUN}")
_PLAIN_IN_BRACES = re.compile(rf"[A-Za-z0-9_.,]{_RUN}")
_PLAIN_IN_QUOTES = re.compile(rf"[^\\\"$`]{_RUN}")
_PLAIN_IN_TEXT = re.compile(rf"[^\\$`]{_RUN}")
_PLAIN_IN_BACKQUOTES = re.compile(rf"[^\\`]{_RUN}")
_PLAIN_ESCAPED = re.compile(rf"[^\\']{_RUN}")
_PARENTHESES = re.compile(r"[()]")
_SEARCHED_AT_ONCE = 1 << 16
_NAME = re.compile(rf"[A-Za-z0-9_]{_RUN}")
_SIMPLE_PARAMETER = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]{0,255})(?![A-Za-z0-9_])|([0-9?$!#@*-]))"
)


@dataclass(slots=True)
class Token:
    """A word, or an operator with the file descriptor before it.

    Args:
        text: the operator, or the text of a plain word; END at the end of the script.
        word: the word; None for an operator.
        stream: the file descriptor before a redirection.
        line: its line number.
    """

    text: str | None
    word: Word | None
    stream: int | None
    line: int


class _WordBuilder:
    """Collects the parts of a word; adjacent texts become one."""

    __slots__ = ("_parts", "_quoted", "_texts")

    def __init__(self) -> None:
        self._parts: list[tuple[Part, bool]] = []
        self._texts: list[str] = []
        self._quoted = False

    def add_text(self, text: str, *, quoted: bool) -> None:
        """Add a text; an empty one, quoted, makes an empty word a word."""
        if self._texts and self._quoted != quoted:
            self._end_text()
        self._quoted = quoted
        self._texts.append(text)

    def add(self, part: Part, *, quoted: bool) -> None:
        """Add an expansion."""
        self._end_text()
        self._parts.append((part, quoted))

    def _end_text(self) -> None:
        if self._texts:
            self._parts.append((Literal("".join(self._texts)), self._quoted))
            self._texts.clear()

    def build(self) -> Word:
        """Return the word."""
        self._end_text()
        return Word(tuple(self._parts))


@functools.lru_cache(maxsize=1024)
def _make_plain_word(text: str) -> Word:
    return Word(((Literal(text), False),))


@functools.lru_cache(maxsize=1024)
def _make_parameter(name: str) -> Parameter:
    return Parameter(name)


def is_name(text: str) -> bool:
    """Return whether this is a valid variable name."""
    return text.isascii() and text.isidentifier()


def parse_assignment(word: Word) -> tuple[str, Word] | None:
    """Return name and value of an assignment; None if the word is none."""
    if not word.parts:
        return None
    first, quoted = word.parts[0]
    if quoted or not isinstance(first, Literal):
        return None
    name, separator, rest = first.text.partition("=")
    if not separator or not is_name(name):
        return None
    return name, Word(((Literal(rest), False), *word.parts[1:]) if rest else word.parts[1:])


class Lexer:
    """Reads the tokens of a script.

    Args:
        source: the script.
        parse: parses the script of `$(…)` at the current position.
        meter: counts its work.
        nesting: the nesting level of the script.
        line: the number of its first line.
    """

    def __init__(
        self,
        source: str,
        parse: Callable[[Lexer], Parsing[Node]],
        meter: WorkMeter,
        nesting: int = 0,
        line: int = 1,
    ) -> None:
        self.source = source
        self.position = 0
        self.line = line
        self.nesting = nesting
        self.meter = meter
        self._parse = parse
        self._documents: list[tuple[Redirect, Word, bool]] = []

    def enter_nested(self) -> None:
        """Enter a nesting level.

        Raises:
            ShellSyntaxError: the nesting is too deep.
        """
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise ShellSyntaxError(f"nested more than {_MAX_NESTING} levels deep")

    def add_here_document(self, redirect: Redirect, end: Word, *, tabs: bool) -> None:
        """Read a here-document from the next line into the target of `redirect`."""
        self._documents.append((redirect, end, tabs))

    def read_token(self) -> Parsing[Token]:
        """Return the next word or operator."""
        if self.meter.is_step_due(1):
            yield STEP
        source, char = self.source, self._peek_char()
        while char in (" ", "\t", "#", "\\"):
            blanks = _BLANKS.match(source, self.position)
            if blanks is not None:
                self.position = blanks.end()
            elif char == "#":
                end = source.find("\n", self.position)
                self.position = end if end >= 0 else len(source)
            elif source.startswith("\\\n", self.position):
                self.position += 2
                self.line += 1
            else:
                break
            if self.meter.is_step_due(1):
                yield STEP
            char = self._peek_char()
        line = self.line
        plain = _PLAIN_WORD.match(source, self.position)
        if plain is not None:
            self.position = plain.end()
            return Token(plain[0], _make_plain_word(plain[0]), None, line)
        if not char:
            yield from self._read_documents()
            return Token(END, None, None, line)
        if char == "\n":
            self.position += 1
            self.line += 1
            yield from self._read_documents()
            return Token(NEWLINE, None, None, line)
        stream = None
        if (digits := _STREAM.match(source, self.position)) is not None:
            stream = min(int(digits[0]), 1023)
            self.position = digits.end()
        operator = _OPERATOR.match(source, self.position)
        if operator is not None:
            self.position = operator.end()
            return Token(operator[0], None, stream, line)
        word = yield from self._read_word()
        return Token(word.plain, word, None, line)

    def _peek_char(self) -> str:
        """Return the next character; empty at the end."""
        return self.source[self.position] if self.position < len(self.source) else ""

    def _count_lines(self, text: str) -> str:
        self.line += text.count("\n")
        return text

    # -- words

    def _read_word(self) -> Parsing[Word]:
        word = _WordBuilder()
        while (char := self._peek_char()) and char not in _WORD_ENDS:
            if self.meter.is_step_due(1):
                yield STEP
            yield from self._read_piece(word, char, _PLAIN)
        return word.build()

    def _read_piece(self, word: _WordBuilder, char: str, plain: re.Pattern[str]) -> Parsing[None]:
        """Add the part that begins with `char` outside quotes.

        Args:
            plain: matches the characters that are added as they are; a single one is, anyway.
        """
        source, position = self.source, self.position
        following = source[position + 1 : position + 2]
        if (run := plain.match(source, position)) is not None:
            self.position = run.end()
            word.add_text(run[0], quoted=False)
        elif char == "\\":
            self.position += 2
            if following == "\n":
                self.line += 1
            else:
                word.add_text(following or "\\", quoted=True)
        elif char == "'":
            end = source.find("'", position + 1)
            if end < 0:
                raise ShellSyntaxError("unterminated quoted string")
            word.add_text(self._count_lines(source[position + 1 : end]), quoted=True)
            self.position = end + 1
        elif char == '"':
            self.position += 1
            word.add_text("", quoted=True)
            yield from self._read_quoted(word, '"')
        elif char == "$" and following == "'":
            self.position += 2
            word.add_text((yield from self._read_escaped()), quoted=True)
        elif char in "$`":
            yield from self._read_expansion(word, quoted=False)
        else:
            self.position += 1
            word.add_text(self._count_lines(char), quoted=False)

    def _read_quoted(self, word: _WordBuilder, end: str) -> Parsing[None]:
        """Add text up to `end` as between double quotes; `end` "" is the end of the script."""
        plain = _PLAIN_IN_QUOTES if end else _PLAIN_IN_TEXT
        while char := self._peek_char():
            if self.meter.is_step_due(1):
                yield STEP
            if char == end:
                self.position += 1
                return
            following = self.source[self.position + 1 : self.position + 2]
            if (run := plain.match(self.source, self.position)) is not None:
                self.position = run.end()
                word.add_text(self._count_lines(run[0]), quoted=True)
            elif char in "$`":
                yield from self._read_expansion(word, quoted=True)
            elif following and following in '$`\\\n"':
                # Quotes are literal in a here-document.
                if following == '"' and not end:
                    word.add_text("\\", quoted=True)
                if following != "\n":
                    word.add_text(following, quoted=True)
                self.position += 2
            else:
                self.position += 1
                word.add_text(char, quoted=True)
        if end:
            raise ShellSyntaxError("unterminated quoted string")

    def _read_escaped(self) -> Parsing[str]:
        pieces: list[str] = []
        while char := self._peek_char():
            if self.meter.is_step_due(1):
                yield STEP
            if (run := _PLAIN_ESCAPED.match(self.source, self.position)) is not None:
                self.position = run.end()
                pieces.append(run[0])
                continue
            self.position += 1
            if char == "'":
                return "".join(pieces)
            char = self._peek_char()
            self.position += 1
            pieces.append(ESCAPES.get(char, char if char in "\\'\"" else "\\" + char))
        raise ShellSyntaxError("unterminated quoted string")

    # -- expansions

    def _read_expansion(self, word: _WordBuilder, *, quoted: bool) -> Parsing[None]:
        """Add the expansion that begins here."""
        simple = _SIMPLE_PARAMETER.match(self.source, self.position)
        if simple is not None:
            self.position = simple.end()
            word.add(_make_parameter(simple[1] or simple[2]), quoted=quoted)
            return
        part = yield from self._read_part(quoted=quoted)
        if isinstance(part, Literal):
            word.add_text(part.text, quoted=quoted)
        else:
            word.add(part, quoted=quoted)

    def _read_part(self, *, quoted: bool) -> Parsing[Part]:
        if self.source[self.position] == "`":
            return (yield from self._read_backquoted(quoted=quoted))
        start = self.position + 1
        if self.source.startswith("((", start):
            arithmetic = yield from self._read_arithmetic()
            if arithmetic is not None:
                return arithmetic
        following = self.source[start : start + 1]
        self.position = start
        if following == "(":
            self.position = start + 1
            nesting = self.nesting
            self.enter_nested()
            script = yield from self._parse(self)
            self.nesting = nesting
            return Substitution(script)
        if following == "{":
            self.position = start + 1
            return (yield from self._read_braced(quoted=quoted))
        name = yield from self._read_name()
        return Parameter(name) if name else Literal("$")

    def _read_name(self) -> Parsing[str]:
        """Read a name; empty if there is none."""
        pieces: list[str] = []
        if self._peek_char().isdigit():
            return ""
        while (run := _NAME.match(self.source, self.position)) is not None:
            if self.meter.is_step_due(1):
                yield STEP
            self.position = run.end()
            pieces.append(run[0])
        return "".join(pieces)

    def _read_backquoted(self, *, quoted: bool) -> Parsing[Part]:
        pieces: list[str] = []
        line = self.line
        self.position += 1
        while char := self._peek_char():
            if self.meter.is_step_due(1):
                yield STEP
            if (run := _PLAIN_IN_BACKQUOTES.match(self.source, self.position)) is not None:
                self.position = run.end()
                pieces.append(self._count_lines(run[0]))
                continue
            self.position += 1
            if char == "`":
                script = "".join(pieces) + "\n)"
                inner = Lexer(script, self._parse, self.meter, self.nesting, line)
                inner.enter_nested()
                return Substitution((yield from self._parse(inner)))
            following = self._peek_char()
            if following and (following in "`$\\" or (quoted and following == '"')):
                char = following
                self.position += 1
            pieces.append(char)
        raise ShellSyntaxError("EOF in backquote substitution")

    def _read_arithmetic(self) -> Parsing[Part | None]:
        """Read `$((…))`; None if it is a `$(` whose script begins with `(`."""
        source, start, depth = self.source, self.position + 3, 0
        position = start
        while position < len(source):
            if self.meter.is_step_due(1):
                yield STEP
            end = position + _SEARCHED_AT_ONCE
            found = _PARENTHESES.search(source, position, end)
            if found is None:
                position = end
                continue
            position = found.end()
            depth += 1 if found[0] == "(" else -1
            if depth < 0:
                if source[position : position + 1] != ")":
                    return None
                self.position = position + 1
                return Arithmetic((yield from self.parse_text(source[start : position - 1])))
        raise ShellSyntaxError("missing '))'")

    def parse_text(self, text: str, line: int | None = None) -> Parsing[Word]:
        """Return a text whose expansions apply, as in a here-document."""
        line = self.line if line is None else line
        inner = Lexer(text, self._parse, self.meter, self.nesting, line)
        inner.enter_nested()
        word = _WordBuilder()
        yield from inner._read_quoted(word, "")
        return word.build()

    def _read_braced(self, *, quoted: bool) -> Parsing[Part]:
        """Read the rest of `${`."""
        rest = self.source[self.position : self.position + 2]
        length = rest[:1] == "#" and rest[1:] not in ("}", "")
        if length:
            self.position += 1
        name = yield from self._read_name()
        if not name:
            run = _NAME.match(self.source, self.position)
            digits = run[0] if run is not None and run[0].isdigit() else ""
            name = digits or self._peek_char()
            if not (name.isdigit() or name in _SPECIAL_PARAMETERS):
                raise ShellSyntaxError("bad substitution" if name else "missing '}'")
            self.position += len(name)
        if length:
            self._expect_brace()
            return Parameter(name, "length")
        operator = self._read_operator()
        if not operator:
            return Parameter(name)
        nesting = self.nesting
        self.enter_nested()
        more: Word | None = None
        if operator in ("/", "//"):
            word, stopped = yield from self._read_until("/}", quoted=False)
            if stopped == "/":
                more, _ = yield from self._read_until("}", quoted=quoted)
        elif operator == ":":
            word, stopped = yield from self._read_until(":}", quoted=quoted)
            if stopped == ":":
                more, _ = yield from self._read_until("}", quoted=quoted)
        else:
            pattern = operator[0] in "%#"
            word, _ = yield from self._read_until("}", quoted=quoted and not pattern)
        self.nesting = nesting
        return Parameter(name, operator, word, more)

    def _read_operator(self) -> str:
        for operator in _PARAMETER_OPERATORS:
            if self.source.startswith(operator, self.position):
                self.position += len(operator)
                return operator
        self._expect_brace()
        return ""

    def _expect_brace(self) -> None:
        char = self._peek_char()
        if char != "}":
            raise ShellSyntaxError("bad substitution" if char else "missing '}'")
        self.position += 1

    def _read_until(self, ends: str, *, quoted: bool) -> Parsing[tuple[Word, str]]:
        """Read a word up to one of `ends`, and return that end too."""
        word = _WordBuilder()
        while char := self._peek_char():
            if self.meter.is_step_due(1):
                yield STEP
            if char in ends:
                self.position += 1
                return word.build(), char
            if not quoted:
                yield from self._read_piece(word, char, _PLAIN_IN_BRACES)
            else:
                yield from self._read_one_quoted(word, char)
        raise ShellSyntaxError("missing '}'")

    def _read_one_quoted(self, word: _WordBuilder, char: str) -> Parsing[None]:
        """Add characters or an expansion of a `${…}` between double quotes."""
        following = self.source[self.position + 1 : self.position + 2]
        if (run := _PLAIN_IN_BRACES.match(self.source, self.position)) is not None:
            self.position = run.end()
            word.add_text(run[0], quoted=True)
        elif char == "\\" and following and following in '$`\\"}':
            word.add_text(following, quoted=True)
            self.position += 2
        elif char in "$`":
            yield from self._read_expansion(word, quoted=True)
        elif char == '"':
            self.position += 1
            yield from self._read_quoted(word, '"')
        else:
            self.position += 1
            word.add_text(self._count_lines(char), quoted=True)

    # -- here-documents

    def _read_documents(self) -> Parsing[None]:
        documents, self._documents = self._documents, []
        for redirect, end, tabs in documents:
            lines: list[str] = []
            first, end_line, quoted = self.line, end.literal, end.quoted
            while self.position < len(self.source):
                if self.meter.is_step_due(1):
                    yield STEP
                end_of_line = self.source.find("\n", self.position)
                newline = "" if end_of_line < 0 else "\n"
                line = self.source[self.position : end_of_line if newline else None]
                self.position += len(line) + len(newline)
                self.line += 1
                if tabs:
                    line = line.lstrip("\t")
                if line == end_line:
                    break
                lines.append(line + newline)
            text = "".join(lines)
            redirect.target = (
                Word(((Literal(text), True),))
                if quoted
                else (yield from self.parse_text(text, first))
            )

"""The lexer of shell scripts: words, operators, here-documents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import ESCAPES
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
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.shell.tree import Node, Part

END, NEWLINE = "", "\n"
OPERATORS = (
    "<<-", "&&", "||", ";;", "<<", ">>", "<&", ">&", "<>", ">|", "&>", "<", ">", "|", "&", ";", "(",
    ")",
)  # fmt: skip

_WORD_ENDS = frozenset(" \t\n;&|<>()")
_SPECIAL_PARAMETERS = frozenset("?$!#@*-")
_PARAMETER_OPERATORS: tuple[str, ...] = (
    ":-", ":=", ":?", ":+", "%%", "##", "//", "-", "=", "?", "+", "%", "#", "/", ":",
)  # fmt: skip
_MAX_NESTING = 60
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.,]+")


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


def join_parts(parts: list[tuple[Part, bool]]) -> tuple[tuple[Part, bool], ...]:
    """Merge adjacent texts."""
    merged_parts: list[tuple[Part, bool]] = []
    texts: list[str] = []
    for index, (part, quoted) in enumerate(parts):
        if not isinstance(part, Literal):
            merged_parts.append((part, quoted))
            continue
        texts.append(part.text)
        following = parts[index + 1] if index + 1 < len(parts) else None
        if following is None or not isinstance(following[0], Literal) or following[1] != quoted:
            merged_parts.append((Literal("".join(texts)), quoted))
            texts.clear()
    return tuple(merged_parts)


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
        nesting: the nesting level of the script.
        line: the number of its first line.
    """

    def __init__(
        self, source: str, parse: Callable[[Lexer], Node], nesting: int = 0, line: int = 1
    ) -> None:
        self.source = source
        self.position = 0
        self.line = line
        self.nesting = nesting
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

    def read_token(self) -> Token:
        """Return the next word or operator."""
        self._skip_blanks()
        line = self.line
        if self.position >= len(self.source):
            self._read_documents()
            return Token(END, None, None, line)
        if self.source[self.position] == "\n":
            self.position += 1
            self.line += 1
            self._read_documents()
            return Token(NEWLINE, None, None, line)
        for operator in OPERATORS:
            if self.source.startswith(operator, self.position):
                self.position += len(operator)
                return Token(operator, None, None, line)
        end = self.position
        while end < len(self.source) and self.source[end].isdigit():
            end += 1
        if end > self.position and self.source[end : end + 1] in ("<", ">"):
            stream = int(self.source[self.position : end])
            self.position = end
            return Token(self.read_token().text, None, min(stream, 1023), line)
        word = self._read_word()
        return Token(word.plain, word, None, line)

    def _skip_blanks(self) -> None:
        while self.position < len(self.source):
            char = self.source[self.position]
            if char in " \t":
                self.position += 1
            elif char == "\\" and self.source[self.position + 1 : self.position + 2] == "\n":
                self.position += 2
                self.line += 1
            elif char == "#":
                end = self.source.find("\n", self.position)
                self.position = end if end >= 0 else len(self.source)
            else:
                return

    # -- words

    def _read_word(self) -> Word:
        parts: list[tuple[Part, bool]] = []
        while self.position < len(self.source):
            char = self.source[self.position]
            if char in _WORD_ENDS:
                break
            self._read_piece(parts, char)
        return Word(join_parts(parts))

    def _read_piece(self, parts: list[tuple[Part, bool]], char: str) -> None:
        """Add the part that begins with `char` outside quotes."""
        following = self.source[self.position + 1 : self.position + 2]
        if char == "\\":
            self.position += 2
            if following == "\n":
                self.line += 1
            else:
                parts.append((Literal(following or "\\"), True))
        elif char == "'":
            end = self.source.find("'", self.position + 1)
            if end < 0:
                raise ShellSyntaxError("unterminated quoted string")
            text = self.source[self.position + 1 : end]
            self.line += text.count("\n")
            parts.append((Literal(text), True))
            self.position = end + 1
        elif char == '"':
            self.position += 1
            parts.append((Literal(""), True))
            self._read_quoted(parts, '"')
        elif char == "$" and following == "'":
            self.position += 2
            parts.append((Literal(self._read_escaped()), True))
        elif char in "$`":
            parts.append((self._read_expansion(quoted=False), False))
        else:
            text = self._read_plain(char)
            self.line += char == "\n"
            parts.append((Literal(text), False))

    def _read_plain(self, char: str) -> str:
        """Read `char` and the plain characters after it."""
        run = _PLAIN_WORD.match(self.source, self.position)
        text = run.group() if run is not None else char
        self.position += len(text)
        return text

    def _read_quoted(self, parts: list[tuple[Part, bool]], end: str) -> None:
        """Add text up to `end` as between double quotes; `end` "" is the end of the script."""
        while self.position < len(self.source):
            char = self.source[self.position]
            following = self.source[self.position + 1 : self.position + 2]
            if char == end:
                self.position += 1
                return
            if char == "\\" and following and following in '$`\\\n"':
                # Quotes are literal in a here-document.
                if following == '"' and end != '"' and end != "}":
                    parts.append((Literal("\\"), True))
                if following != "\n":
                    parts.append((Literal(following), True))
                self.position += 2
            elif char in "$`":
                parts.append((self._read_expansion(quoted=True), True))
            elif char == '"' and end == "}":
                self.position += 1
                self._read_quoted(parts, '"')
            else:
                parts.append((Literal(self._read_plain(char)), True))
                self.line += char == "\n"
        if end:
            raise ShellSyntaxError("unterminated quoted string" if end == '"' else "missing '}'")

    def _read_escaped(self) -> str:
        chars: list[str] = []
        while self.position < len(self.source):
            char = self.source[self.position]
            self.position += 1
            if char == "'":
                return "".join(chars)
            if char == "\\":
                char = self.source[self.position : self.position + 1]
                self.position += 1
                char = ESCAPES.get(char, char if char in "\\'\"" else "\\" + char)
            chars.append(char)
        raise ShellSyntaxError("unterminated quoted string")

    # -- expansions

    def _read_expansion(self, *, quoted: bool) -> Part:
        if self.source[self.position] == "`":
            return self._read_backquoted(quoted=quoted)
        start = self.position + 1
        if self.source.startswith("((", start):
            arithmetic = self._read_arithmetic()
            if arithmetic is not None:
                return arithmetic
        following = self.source[start : start + 1]
        if following == "(":
            self.position = start + 1
            nesting = self.nesting
            self.enter_nested()
            script = self._parse(self)
            self.nesting = nesting
            return Substitution(script)
        if following == "{":
            self.position = start + 1
            return self._read_braced(quoted=quoted)
        if following in _SPECIAL_PARAMETERS or following.isdigit():
            self.position = start + 1
            return Parameter(following) if following else Literal("$")
        name = self._read_name(start)
        self.position = start + len(name)
        return Parameter(name) if name else Literal("$")

    def _read_name(self, start: int) -> str:
        end = start
        while end < len(self.source) and (
            self.source[end] == "_" or (self.source[end].isascii() and self.source[end].isalnum())
        ):
            end += 1
        name = self.source[start:end]
        return "" if name[:1].isdigit() else name

    def _read_backquoted(self, *, quoted: bool) -> Part:
        chars: list[str] = []
        line = self.line
        self.position += 1
        while self.position < len(self.source):
            char = self.source[self.position]
            self.position += 1
            self.line += char == "\n"
            if char == "`":
                inner = Lexer("".join(chars) + "\n)", self._parse, self.nesting, line)
                inner.enter_nested()
                return Substitution(self._parse(inner))
            if char == "\\":
                following = self.source[self.position : self.position + 1]
                if following in ("`", "$", "\\") or (quoted and following == '"'):
                    char = following
                    self.position += 1
            chars.append(char)
        raise ShellSyntaxError("EOF in backquote substitution")

    def _read_arithmetic(self) -> Part | None:
        """Read `$((…))`; None if it is a `$(` whose script begins with `(`."""
        start, depth = self.position + 3, 0
        for index in range(start, len(self.source)):
            char = self.source[index]
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth < 0:
                if self.source[index + 1 : index + 2] != ")":
                    return None
                self.position = index + 2
                return Arithmetic(self.parse_text(self.source[start:index]))
        raise ShellSyntaxError("missing '))'")

    def parse_text(self, text: str, line: int | None = None) -> Word:
        """Return a text whose expansions apply, as in a here-document."""
        inner = Lexer(text, self._parse, self.nesting, self.line if line is None else line)
        inner.enter_nested()
        parts: list[tuple[Part, bool]] = []
        inner._read_quoted(parts, "")
        return Word(join_parts(parts))

    def _read_braced(self, *, quoted: bool) -> Part:
        """Read the rest of `${`."""
        rest = self.source[self.position : self.position + 2]
        length = rest[:1] == "#" and rest[1:] not in ("}", "")
        if length:
            self.position += 1
        name = self._read_name(self.position)
        if not name:
            end = self.position
            while self.source[end : end + 1].isdigit():
                end += 1
            name = self.source[self.position : max(end, self.position + 1)]
            if not (name.isdigit() or name in _SPECIAL_PARAMETERS):
                raise ShellSyntaxError(
                    "bad substitution" if self.position < len(self.source) else "missing '}'"
                )
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
            word, stopped = self._read_until("/}", quoted=False)
            if stopped == "/":
                more, _ = self._read_until("}", quoted=quoted)
        elif operator == ":":
            word, stopped = self._read_until(":}", quoted=quoted)
            if stopped == ":":
                more, _ = self._read_until("}", quoted=quoted)
        else:
            pattern = operator[0] in "%#"
            word, _ = self._read_until("}", quoted=quoted and not pattern)
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
        char = self.source[self.position : self.position + 1]
        if char != "}":
            raise ShellSyntaxError("bad substitution" if char else "missing '}'")
        self.position += 1

    def _read_until(self, ends: str, *, quoted: bool) -> tuple[Word, str]:
        """Read a word up to one of `ends`, and return that end too."""
        parts: list[tuple[Part, bool]] = []
        while self.position < len(self.source):
            char = self.source[self.position]
            if char in ends:
                self.position += 1
                return Word(join_parts(parts)), char
            if not quoted:
                self._read_piece(parts, char)
            elif char == "}":
                break
            else:
                inner: list[tuple[Part, bool]] = []
                stop = self.position
                self._read_one_quoted(inner)
                parts += inner
                if self.position == stop:
                    break
        raise ShellSyntaxError("missing '}'")

    def _read_one_quoted(self, parts: list[tuple[Part, bool]]) -> None:
        """Read one character or expansion of a `${…}` between double quotes."""
        char = self.source[self.position]
        following = self.source[self.position + 1 : self.position + 2]
        if char == "\\" and following and following in '$`\\"}':
            parts.append((Literal(following), True))
            self.position += 2
        elif char in "$`":
            parts.append((self._read_expansion(quoted=True), True))
        elif char == '"':
            self.position += 1
            self._read_quoted(parts, '"')
        else:
            parts.append((Literal(char), True))
            self.position += 1
            self.line += char == "\n"

    # -- here-documents

    def _read_documents(self) -> None:
        documents, self._documents = self._documents, []
        for redirect, end, tabs in documents:
            lines: list[str] = []
            first = self.line
            while self.position < len(self.source):
                end_of_line = self.source.find("\n", self.position)
                newline = "" if end_of_line < 0 else "\n"
                line = self.source[self.position : end_of_line if newline else None]
                self.position += len(line) + len(newline)
                self.line += 1
                if tabs:
                    line = line.lstrip("\t")
                if line == end.literal:
                    break
                lines.append(line + newline)
            text = "".join(lines)
            quoted = Word(((Literal(text), True),))
            redirect.target = quoted if end.quoted else self.parse_text(text, first)

"""Cutting a shell script into words and operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.shell_tree import (
    Arithmetic,
    Literal,
    Node,
    Part,
    ShellSyntaxError,
    Substitution,
    Variable,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Lexer", "Token"]

_OPERATORS = ("&&", "||", ";;", ">>", ">&", "<<", ";", "|", "&", "(", ")", ">", "<", "\n")
_BLANK = " \t"


@dataclass(slots=True)
class Token:
    """An operator, with the stream that a redirection names, or a word."""

    operator: str = ""
    word: Word | None = None
    stream: int | None = None

    @property
    def text(self) -> str:
        """The operator, or the plain text of a word, empty for a quoted one."""
        return self.operator or (self.word.plain or "" if self.word is not None else "")


@dataclass(slots=True)
class Lexer:
    """Cuts one script.

    Args:
        source: the script.
        parse: makes a tree of a script; for the scripts within.
    """

    source: str
    parse: Callable[[str], Node]
    position: int = 0
    tokens: list[Token] = field(default_factory=list)

    def run(self) -> list[Token]:
        """Return the tokens.

        Raises:
            ShellSyntaxError: a quote or a parenthesis is left open.
        """
        while self.position < len(self.source):
            char = self.source[self.position]
            if char in _BLANK:
                self.position += 1
            elif self.source.startswith("\\\n", self.position):
                self.position += 2
            elif char == "#":
                end = self.source.find("\n", self.position)
                self.position = len(self.source) if end < 0 else end
            elif operator := self._operator():
                self.tokens.append(Token(operator=operator))
            elif char.isdigit() and self.source[self.position + 1 : self.position + 2] in (
                "<",
                ">",
            ):
                self.position += 1
                self.tokens.append(Token(operator=self._operator(), stream=int(char)))
            else:
                self.tokens.append(Token(word=self._word()))
        return self.tokens

    def _operator(self) -> str:
        for operator in _OPERATORS:
            if self.source.startswith(operator, self.position):
                self.position += len(operator)
                return operator
        return ""

    def _word(self) -> Word:
        parts: list[tuple[Part, bool]] = []
        while self.position < len(self.source):
            char = self.source[self.position]
            if char in _BLANK or any(self.source.startswith(o, self.position) for o in _OPERATORS):
                break
            if char == "'":
                end = self.source.find("'", self.position + 1)
                if end < 0:
                    raise ShellSyntaxError("unterminated quoted string")
                parts.append((Literal(self.source[self.position + 1 : end]), True))
                self.position = end + 1
            elif char == '"':
                self.position += 1
                parts.extend(self._double_quoted())
            elif char == "\\":
                parts.append((Literal(self.source[self.position + 1 : self.position + 2]), True))
                self.position += 2
            elif char in "$`":
                parts.append((self._expansion(), False))
            else:
                parts.append((Literal(char), False))
                self.position += 1
        return Word(tuple(_joined(parts)))

    def _double_quoted(self) -> list[tuple[Part, bool]]:
        parts: list[tuple[Part, bool]] = [(Literal(""), True)]
        while self.position < len(self.source):
            char = self.source[self.position]
            if char == '"':
                self.position += 1
                return parts
            if char == "\\" and self.source[self.position + 1 : self.position + 2] in (
                "$",
                "`",
                '"',
                "\\",
            ):
                parts.append((Literal(self.source[self.position + 1]), True))
                self.position += 2
            elif char in "$`":
                parts.append((self._expansion(), True))
            else:
                parts.append((Literal(char), True))
                self.position += 1
        raise ShellSyntaxError("unterminated quoted string")

    def _expansion(self) -> Part:
        if self.source[self.position] == "`":
            end = self.source.find("`", self.position + 1)
            if end < 0:
                raise ShellSyntaxError("unterminated quoted string")
            script = self.source[self.position + 1 : end]
            self.position = end + 1
            return Substitution(self.parse(script))
        rest = self.source[self.position + 1 :]
        if rest.startswith("(("):
            inner = self._balanced(2)
            if not inner.endswith(")"):
                raise ShellSyntaxError("missing '))'")
            return Arithmetic(inner[1:-1])
        if rest.startswith("("):
            return Substitution(self.parse(self._balanced(2)))
        if rest.startswith("{"):
            end = rest.find("}")
            if end < 0:
                raise ShellSyntaxError("bad substitution")
            name, separator, default = rest[1:end].partition("-")
            name = name.removesuffix(":")
            self.position += end + 2
            if not (name.isidentifier() or name in ("?", "$")):
                raise ShellSyntaxError(f"bad substitution: ${{{name}}}")
            return Variable(name, default if separator else None)
        if rest[:1] in ("?", "$", "!", "#", "@", "*", "0"):
            self.position += 2
            return Variable(rest[0])
        length = 0
        while length < len(rest) and (rest[length].isalnum() or rest[length] == "_"):
            length += 1
        self.position += 1 + length
        return Variable(rest[:length]) if length else Literal("$")

    def _balanced(self, opening: int) -> str:
        """Return what stands between the parentheses that begin `opening` - 1 characters on."""
        depth, start = 1, self.position + opening
        for index in range(start, len(self.source)):
            depth += {"(": 1, ")": -1}.get(self.source[index], 0)
            if depth == 0:
                self.position = index + 1
                return self.source[start:index]
        raise ShellSyntaxError('unexpected end of file (expecting ")")')


def _joined(parts: list[tuple[Part, bool]]) -> list[tuple[Part, bool]]:
    joined: list[tuple[Part, bool]] = []
    for part, quoted in parts:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last[1] == quoted
            and isinstance(part, Literal)
            and isinstance(last[0], Literal)
        ):
            joined[-1] = (Literal(last[0].text + part.text), quoted)
        else:
            joined.append((part, quoted))
    return joined

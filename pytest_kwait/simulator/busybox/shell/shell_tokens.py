"""What a shell script is read as: words, operators, names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.shell.tree import Literal, Word

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.shell.tree import Part

__all__ = [
    "END",
    "ESCAPES",
    "NEWLINE",
    "OPERATORS",
    "Token",
    "is_name",
    "join_parts",
    "parse_assignment",
]

END, NEWLINE = "", "\n"
OPERATORS = (
    "<<-", "&&", "||", ";;", "<<", ">>", "<&", ">&", "<>", ">|", "&>", "<", ">", "|", "&", ";", "(",
    ")",
)  # fmt: skip
ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b",
}  # fmt: skip


@dataclass(slots=True)
class Token:
    """A word, or an operator with the stream before it.

    Args:
        text: the operator; END at the end of the script; of a word, its text where it is plain.
        word: the word, None of an operator.
        stream: the digits directly before a redirection.
        line: where it begins.
    """

    text: str | None
    word: Word | None
    stream: int | None
    line: int


def join_parts(parts: list[tuple[Part, bool]]) -> tuple[tuple[Part, bool], ...]:
    """The parts with neighbouring texts made one."""
    found: list[tuple[Part, bool]] = []
    texts: list[str] = []
    for index, (part, quoted) in enumerate(parts):
        if not isinstance(part, Literal):
            found.append((part, quoted))
            continue
        texts.append(part.text)
        following = parts[index + 1] if index + 1 < len(parts) else None
        if following is None or not isinstance(following[0], Literal) or following[1] != quoted:
            found.append((Literal("".join(texts)), quoted))
            texts.clear()
    return tuple(found)


def is_name(text: str) -> bool:
    """Whether a variable may be called this."""
    return text.isascii() and text.isidentifier()


def parse_assignment(word: Word) -> tuple[str, Word] | None:
    """The name and the value of a word that assigns; None where it does not."""
    if not word.parts:
        return None
    first, quoted = word.parts[0]
    if quoted or not isinstance(first, Literal):
        return None
    name, separator, rest = first.text.partition("=")
    if not separator or not is_name(name):
        return None
    return name, Word(((Literal(rest), False), *word.parts[1:]) if rest else word.parts[1:])

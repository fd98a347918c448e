"""The syntax tree of a shell script."""

from __future__ import annotations

from dataclasses import dataclass


class ShellSyntaxError(Exception):
    """The syntax of a script is invalid or not supported."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$NAME`, `${NAME}`, or `${NAME:-word}` with an operator.

    Args:
        name: a variable, a number, or one of `?$!#@*-`.
        operator: `-` `=` `?` `+` (with `:` before it), `%` `%%` `#` `##`, `/` `//`, `:` for a
            substring, `length`, or empty.
        word: the word after the operator.
        more: the replacement of `/`, or the length of a substring.
    """

    name: str
    operator: str = ""
    word: Word | None = None
    more: Word | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((expression))`, expanded before it is evaluated."""

    expression: Word


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(script)`."""

    script: Node


Part = Literal | Parameter | Arithmetic | Substitution


@dataclass(frozen=True, slots=True)
class Word:
    """An argument; `quoted` parts are neither split nor patterns."""

    parts: tuple[tuple[Part, bool], ...]

    @property
    def plain(self) -> str | None:
        """The text of a word without expansions and quotes; else None."""
        if all(isinstance(part, Literal) and not quoted for part, quoted in self.parts):
            return "".join(part.text for part, _ in self.parts if isinstance(part, Literal))
        return None

    @property
    def quoted(self) -> bool:
        """Return whether a part is quoted."""
        return any(quoted for _, quoted in self.parts)

    @property
    def literal(self) -> str:
        """The text without quotes, as the end of a here-document."""
        return "".join(part.text for part, _ in self.parts if isinstance(part, Literal))


@dataclass(slots=True)
class Redirect:
    """`[stream]operator target`: `2>/dev/null`, `>>file`, `>&2`, `<file`, `<<END`.

    The `target` of a here-document is its text.
    """

    stream: int
    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: assignments, words and redirections."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Sequence:
    """Commands in sequence."""

    commands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AndOr:
    """`first && second || third`.

    Args:
        rest: the commands after the first, each with the operator before it.
    """

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`a | b | c`, each in its own process."""

    commands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`! command`."""

    command: Node


@dataclass(frozen=True, slots=True)
class If:
    """`if … then … elif … else … fi`."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


@dataclass(frozen=True, slots=True)
class Loop:
    """`while` (until=False) or `until`."""

    condition: Node
    body: Node
    until: bool


@dataclass(frozen=True, slots=True)
class For:
    """`for name in words; do … done`; without words over the arguments."""

    name: str
    words: tuple[Word, ...] | None
    body: Node


@dataclass(frozen=True, slots=True)
class Case:
    """`case word in pattern|pattern) … ;; esac`."""

    word: Word
    branches: tuple[tuple[tuple[Word, ...], Node], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The definition `name() body`."""

    name: str
    body: Node


@dataclass(frozen=True, slots=True)
class Grouping:
    """`{ … }`, or a subshell `( … )`."""

    body: Node
    subshell: bool
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Background:
    """`command &`."""

    command: Node


Node = (
    Background | Command | Sequence | AndOr | Pipeline | Not | If | Loop | For | Case | Function
    | Grouping
)  # fmt: skip

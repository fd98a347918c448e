"""The syntax tree of a shell script."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "AndOr",
    "Arithmetic",
    "Background",
    "Case",
    "Command",
    "For",
    "Function",
    "Group",
    "If",
    "Literal",
    "Loop",
    "Node",
    "Not",
    "Parameter",
    "Part",
    "Pipeline",
    "Redirect",
    "Sequence",
    "ShellSyntaxError",
    "Substitution",
    "Word",
]


class ShellSyntaxError(Exception):
    """The script is no shell, or uses more of it than is understood here."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Text as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$NAME`, `${NAME}`, and with an operator and a word `${NAME:-word}`.

    Args:
        name: a variable, a number, or one of `?$!#@*-`.
        operator: `-` `=` `?` `+` (with `:` before it), `%` `%%` `#` `##`, `/` `//`, `:` of a piece,
            `length`, or empty.
        word: what follows the operator.
        more: the replacement of `/`, the length of a piece.
    """

    name: str
    operator: str = ""
    word: Word | None = None
    more: Word | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((expression))`; what stands in it is expanded first."""

    expression: Word


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(script)`."""

    script: Node


Part = Literal | Parameter | Arithmetic | Substitution


@dataclass(frozen=True, slots=True)
class Word:
    """One argument. `quoted` parts are neither split at blanks nor patterns."""

    parts: tuple[tuple[Part, bool], ...]

    @property
    def plain(self) -> str | None:
        """The text of a word that needs no expansion and has no quotes; else None."""
        if all(isinstance(part, Literal) and not quoted for part, quoted in self.parts):
            return "".join(part.text for part, _ in self.parts if isinstance(part, Literal))
        return None

    @property
    def quoted(self) -> bool:
        """Whether a part of it is."""
        return any(quoted for _, quoted in self.parts)

    @property
    def literal(self) -> str:
        """Its text without quotes, as the end of a here-document is compared."""
        return "".join(part.text for part, _ in self.parts if isinstance(part, Literal))


@dataclass(slots=True)
class Redirect:
    """`[stream]operator target`: `2>/dev/null`, `>>file`, `>&2`, `<file`, `<<END`.

    `target` of a here-document is its text.
    """

    stream: int
    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, or assignments alone, and its line."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Sequence:
    """Commands one after the other, whatever their exit codes."""

    commands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AndOr:
    """`left && right` or `left || right`."""

    left: Node
    operator: str
    right: Node


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`a | b | c`: each in a process of its own."""

    commands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`! command`."""

    command: Node


@dataclass(frozen=True, slots=True)
class If:
    """`if … then … elif … else … fi`: the first branch whose condition holds."""

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
    """`for name in words; do … done`; without words, over the arguments."""

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
    """`name() body`: known by its name from then on."""

    name: str
    body: Node


@dataclass(frozen=True, slots=True)
class Group:
    """`{ … }`, or `( … )` whose `exit` ends only itself."""

    body: Node
    subshell: bool
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Background:
    """`command &`."""

    command: Node


Node = (
    Background | Command | Sequence | AndOr | Pipeline | Not | If | Loop | For | Case | Function
    | Group
)  # fmt: skip

"""What a shell script is made of, as a tree."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "AndOr",
    "Arithmetic",
    "Background",
    "Command",
    "For",
    "Group",
    "If",
    "Literal",
    "Loop",
    "Node",
    "Not",
    "Part",
    "Redirect",
    "Sequence",
    "ShellSyntaxError",
    "Substitution",
    "Variable",
    "Word",
]


class ShellSyntaxError(Exception):
    """The script is no shell, or uses more of it than is understood here."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Text as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """`$NAME`, `${NAME}`, `${NAME:-default}`, `$?`; an unset name is an empty one."""

    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((expression))`."""

    expression: str


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(script)`."""

    script: Node


Part = Literal | Variable | Arithmetic | Substitution


@dataclass(frozen=True, slots=True)
class Word:
    """One argument. `quoted` parts are not split at blanks."""

    parts: tuple[tuple[Part, bool], ...]

    @property
    def plain(self) -> str | None:
        """The text of a word that needs no expansion and has no quotes; else None."""
        if all(isinstance(part, Literal) and not quoted for part, quoted in self.parts):
            return "".join(part.text for part, _ in self.parts if isinstance(part, Literal))
        return None


@dataclass(frozen=True, slots=True)
class Redirect:
    """`[stream]operator target`, for example `2>/dev/null`, `>>file`, `>&2`, `<file`."""

    stream: int
    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, or assignments alone."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()


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
    """`for name in words; do … done`."""

    name: str
    words: tuple[Word, ...]
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


Node = Background | Command | Sequence | AndOr | Not | If | Loop | For | Group

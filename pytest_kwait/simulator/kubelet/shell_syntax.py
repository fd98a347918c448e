"""The shell language that container commands are written in, as far as test manifests use it.

Lists (`;`, `&&`, `||`, `&`, newline), `!`, `if`, `while`, `until`, `for`, `{ … }`, `( … )`,
redirections to files and between stdout and stderr, variables, arithmetic and command substitution.
What is not in here - pipes, functions, here-documents, `case` - is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    "parse",
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

_OPERATORS = ("&&", "||", ";;", ">>", ">&", "<<", ";", "|", "&", "(", ")", ">", "<", "\n")
_BLANK = " \t"
_RESERVED = frozenset(
    {
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "while",
        "until",
        "for",
        "do",
        "done",
        "{",
        "}",
        "!",
        "case",
    }
)
_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "}"})
_UNSUPPORTED = {"|": "pipes", "<<": "here-documents", ";;": "case"}


@dataclass(slots=True)
class _Token:
    operator: str = ""
    word: Word | None = None
    stream: int | None = None

    @property
    def text(self) -> str:
        return self.operator or (self.word.plain or "" if self.word is not None else "")


@dataclass(slots=True)
class _Lexer:
    source: str
    position: int = 0
    tokens: list[_Token] = field(default_factory=list)

    def run(self) -> list[_Token]:
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
                self.tokens.append(_Token(operator=operator))
            elif char.isdigit() and self.source[self.position + 1 : self.position + 2] in (
                "<",
                ">",
            ):
                self.position += 1
                self.tokens.append(_Token(operator=self._operator(), stream=int(char)))
            else:
                self.tokens.append(_Token(word=self._word()))
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
            return Substitution(parse(script))
        rest = self.source[self.position + 1 :]
        if rest.startswith("(("):
            inner = self._balanced(2)
            if not inner.endswith(")"):
                raise ShellSyntaxError("missing '))'")
            return Arithmetic(inner[1:-1])
        if rest.startswith("("):
            return Substitution(parse(self._balanced(2)))
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


@dataclass(slots=True)
class _Parser:
    tokens: list[_Token]
    position: int = 0

    def _peek(self) -> str | None:
        """Return the next operator or plain word, "" for a quoted one, None at the end."""
        return self.tokens[self.position].text if self.position < len(self.tokens) else None

    def _is_word(self) -> bool:
        return self.position < len(self.tokens) and self.tokens[self.position].word is not None

    def _expect(self, text: str) -> None:
        if self._peek() != text:
            raise ShellSyntaxError(self._unexpected() + f' (expecting "{text}")')
        self.position += 1

    def _unexpected(self) -> str:
        found = self._peek()
        if found is None:
            return "unexpected end of file"
        if found in _UNSUPPORTED:
            return f"{_UNSUPPORTED[found]} are not understood by the embedded kubelet"
        return f'unexpected "{"newline" if found == chr(10) else found}"'

    def _skip_newlines(self) -> None:
        while self._peek() == "\n":
            self.position += 1

    def script(self) -> Node:
        tree = self._sequence()
        if self.position < len(self.tokens):
            raise ShellSyntaxError(self._unexpected())
        return tree

    def _sequence(self) -> Node:
        commands: list[Node] = []
        self._skip_newlines()
        while self.position < len(self.tokens):
            if self._peek() == ")" or (self._is_word() and self._peek() in _CLOSERS):
                break
            command = self._and_or()
            end = self._peek()
            commands.append(Background(command) if end == "&" else command)
            if end not in (";", "\n", "&"):
                break
            self.position += 1
            self._skip_newlines()
        return commands[0] if len(commands) == 1 else Sequence(tuple(commands))

    def _and_or(self) -> Node:
        left = self._negatable()
        while (operator := self._peek()) in ("&&", "||"):
            self.position += 1
            self._skip_newlines()
            left = AndOr(left, operator or "", self._negatable())
        return left

    def _negatable(self) -> Node:
        if self._is_word() and self._peek() == "!":
            self.position += 1
            return Not(self._negatable())
        return self._command()

    def _command(self) -> Node:
        compound = self._compound()
        if compound is None:
            return self._simple()
        redirects = self._redirects()
        return Group(compound, subshell=False, redirects=redirects) if redirects else compound

    def _compound(self) -> Node | None:
        match self._peek():
            case "(":
                self.position += 1
                body = self._sequence()
                self._expect(")")
                return Group(body, subshell=True)
            case "{":
                self.position += 1
                body = self._sequence()
                self._expect("}")
                return Group(body, subshell=False)
            case "if":
                return self._if()
            case "while" | "until" as word:
                self.position += 1
                condition = self._sequence()
                return Loop(condition, self._do(), until=word == "until")
            case "for":
                return self._for()
            case "case":
                raise ShellSyntaxError("case is not understood by the embedded kubelet")
        return None

    def _do(self) -> Node:
        self._expect("do")
        body = self._sequence()
        self._expect("done")
        return body

    def _if(self) -> Node:
        branches: list[tuple[Node, Node]] = []
        otherwise: Node | None = None
        while True:
            self.position += 1
            condition = self._sequence()
            self._expect("then")
            branches.append((condition, self._sequence()))
            if self._peek() != "elif":
                break
        if self._peek() == "else":
            self.position += 1
            otherwise = self._sequence()
        self._expect("fi")
        return If(tuple(branches), otherwise)

    def _for(self) -> Node:
        self.position += 1
        name = self._peek() or ""
        if not name.isidentifier():
            raise ShellSyntaxError(self._unexpected())
        self.position += 1
        words: list[Word] = []
        if self._peek() == "in":
            self.position += 1
            while self._is_word():
                word = self.tokens[self.position].word
                if word is not None:
                    words.append(word)
                self.position += 1
        while self._peek() in (";", "\n"):
            self.position += 1
        return For(name, tuple(words), self._do())

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while (redirect := self._redirect()) is not None:
            found.append(redirect)
        return tuple(found)

    def _redirect(self) -> Redirect | None:
        if self._peek() not in (">", ">>", "<", ">&") or self._is_word():
            return None
        token = self.tokens[self.position]
        self.position += 1
        if not self._is_word():
            raise ShellSyntaxError(self._unexpected())
        target = self.tokens[self.position].word
        self.position += 1
        stream = token.stream if token.stream is not None else int(token.operator != "<")
        return Redirect(stream, token.operator, target or Word(()))

    def _simple(self) -> Node:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        while self.position < len(self.tokens):
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            word = self.tokens[self.position].word
            if word is None:
                break
            if not words and word.plain in _RESERVED:
                raise ShellSyntaxError(self._unexpected())
            assignment = _assignment(word) if not words else None
            if assignment is not None:
                assignments.append(assignment)
            else:
                words.append(word)
            self.position += 1
        if not words and not assignments and not redirects:
            raise ShellSyntaxError(self._unexpected())
        return Command(tuple(words), tuple(assignments), tuple(redirects))


def _assignment(word: Word) -> tuple[str, Word] | None:
    if not word.parts:
        return None
    first, quoted = word.parts[0]
    if quoted or not isinstance(first, Literal):
        return None
    name, separator, rest = first.text.partition("=")
    if not separator or not name.isidentifier():
        return None
    return name, Word(((Literal(rest), True), *((part, True) for part, _ in word.parts[1:])))


def parse(script: str) -> Node:
    """Return the script as a tree.

    Raises:
        ShellSyntaxError: it is no shell, or uses what is not understood here.
    """
    return _Parser(_Lexer(script).run()).script()

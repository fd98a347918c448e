"""The parser of shell scripts: the grammar of busybox's `ash`.

Syntax that `ash` lacks (arrays, process substitution) is an error. No maintained parser with a
permissive licence fits; docs/containers.md lists those considered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import WorkMeter
from pytest_kwait.simulator.busybox.shell.lexer import (
    END,
    NEWLINE,
    Lexer,
    Token,
    is_name,
    parse_assignment,
)
from pytest_kwait.simulator.busybox.shell.tree import (
    AndOr,
    Background,
    Case,
    Command,
    For,
    Function,
    Grouping,
    If,
    Loop,
    Node,
    Not,
    Pipeline,
    Redirect,
    Sequence,
    ShellSyntaxError,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kwait.simulator.busybox.shell.lexer import Parsing

_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "}", "esac"})
_REDIRECTIONS = frozenset({"<", ">", ">>", "<<", "<<-", "<&", ">&", "<>", ">|", "&>"})


class Parser:
    """Parses a script command by command."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self._ahead: Token | None = None

    @property
    def line_number(self) -> int:
        """The number of the last line that was read."""
        return self._lexer.line

    # -- tokens

    def _begin(self) -> Parsing[None]:
        """Read the first token."""
        if self._ahead is None:
            self._ahead = yield from self._lexer.read_token()

    def _take(self) -> Parsing[None]:
        """Read the token after the next one, which becomes the next."""
        self._ahead = yield from self._lexer.read_token()

    @property
    def _next(self) -> Token:
        """The next token."""
        assert self._ahead is not None  # noqa: S101 - each rule begins with a token
        return self._ahead

    def _operator(self) -> str | None:
        """Return the next operator; None before a word."""
        token = self._next
        return token.text if token.word is None else None

    def _reserved(self) -> str | None:
        token = self._next
        return token.text if token.word is not None else None

    def _make_error(self, expected: str = "") -> ShellSyntaxError:
        token = self._next
        expectation = f' (expecting "{expected}")' if expected else ""
        if token.word is None and token.text == END:
            return ShellSyntaxError(f"unexpected end of file{expectation}")
        if token.word is None:
            text = "newline" if token.text == NEWLINE else token.text
            unexpected = f'"{text}"' if token.text != NEWLINE else "newline"
            if token.stream is not None or token.text in _REDIRECTIONS:
                unexpected = "redirection"
            return ShellSyntaxError(f"unexpected {unexpected}{expectation}")
        if token.text in _CLOSERS or token.text in ("in", "case", "for", "if", "while", "{", "!"):
            return ShellSyntaxError(f'unexpected "{token.text}"{expectation}')
        return ShellSyntaxError(f"unexpected word{expectation}")

    def _expect(self, text: str) -> Parsing[None]:
        word = text not in (")", ";;", "(")
        if (self._reserved() if word else self._operator()) != text:
            raise self._make_error(text)
        yield from self._take()

    def _skip_newlines(self) -> Parsing[None]:
        while self._operator() == NEWLINE:
            yield from self._take()

    # -- lists

    def parse_line(self) -> Parsing[Node | None]:
        """Return the complete commands of the next lines; None at the end.

        Raises:
            ShellSyntaxError: the syntax is invalid.
        """
        yield from self._begin()
        yield from self._skip_newlines()
        if self._operator() == END:
            return None
        commands: list[Node] = []
        while True:
            commands.append((yield from self._parse_and_or()))
            operator = self._operator()
            if operator == "&":
                commands[-1] = Background(commands[-1])
            if operator in (";", "&"):
                yield from self._take()
                if self._operator() not in (NEWLINE, END):
                    continue
            if self._operator() not in (NEWLINE, END):
                raise self._make_error()
            break
        if self._operator() == NEWLINE:
            # The line ends here; the next token is not read yet.
            self._ahead = None
        return commands[0] if len(commands) == 1 else Sequence(tuple(commands))

    def parse_script(self) -> Parsing[Node]:
        """Parse up to the `)` that ends a substitution."""
        yield from self._begin()
        # The token after the `)` is none of this script.
        return (yield from self._parse_sequence(frozenset({")"}), maybe_empty=True))

    def _parse_sequence(self, ends: Collection[str], *, maybe_empty: bool = False) -> Parsing[Node]:
        """Parse commands up to one of `ends`, which is not consumed."""
        commands: list[Node] = []
        nesting = self._lexer.nesting
        self._lexer.enter_nested()
        yield from self._skip_newlines()
        while not self._ends(ends):
            if self._operator() == END:
                break
            commands.append((yield from self._parse_and_or()))
            operator = self._operator()
            if operator == "&":
                commands[-1] = Background(commands[-1])
            if operator not in (";", "&", NEWLINE):
                break
            yield from self._take()
            yield from self._skip_newlines()
        if not self._ends(ends):
            raise self._make_error(self._expected(ends))
        if not commands and not maybe_empty:
            raise self._make_error()
        self._lexer.nesting = nesting
        return commands[0] if len(commands) == 1 else Sequence(tuple(commands))

    def _ends(self, ends: Collection[str]) -> bool:
        token = self._next
        return token.text is not None and token.text != END and token.text in ends

    def _expected(self, ends: Collection[str]) -> str:
        return next(iter(ends)) if len(ends) == 1 else "fi" if "fi" in ends else ";;"

    def _parse_and_or(self) -> Parsing[Node]:
        first = yield from self._parse_pipeline()
        rest: list[tuple[str, Node]] = []
        while (operator := self._operator()) in ("&&", "||"):
            yield from self._take()
            yield from self._skip_newlines()
            rest.append((operator or "", (yield from self._parse_pipeline())))
        return AndOr(first, tuple(rest)) if rest else first

    def _parse_pipeline(self) -> Parsing[Node]:
        is_negated = self._reserved() == "!"
        if is_negated:
            yield from self._take()
            if self._reserved() == "!":
                raise self._make_error()
        commands = [(yield from self._parse_command())]
        while self._operator() == "|":
            yield from self._take()
            yield from self._skip_newlines()
            commands.append((yield from self._parse_command()))
        command = commands[0] if len(commands) == 1 else Pipeline(tuple(commands))
        return Not(command) if is_negated else command

    # -- commands

    def _parse_command(self) -> Parsing[Node]:
        compound = yield from self._parse_compound()
        if compound is None:
            return (yield from self._parse_simple())
        redirects: list[Redirect] = []
        while self._is_redirection():
            redirects.append((yield from self._parse_redirect()))
        return (
            Grouping(compound, subshell=False, redirects=tuple(redirects))
            if redirects
            else compound
        )

    def _parse_compound(self) -> Parsing[Node | None]:
        if self._operator() == "(":
            yield from self._take()
            body = yield from self._parse_sequence(frozenset({")"}))
            yield from self._take()
            return Grouping(body, subshell=True)
        match self._reserved():
            case "{":
                yield from self._take()
                body = yield from self._parse_sequence(frozenset({"}"}))
                yield from self._take()
                return Grouping(body, subshell=False)
            case "if":
                return (yield from self._parse_if())
            case "while" | "until" as word:
                yield from self._take()
                condition = yield from self._parse_sequence(frozenset({"do"}))
                return Loop(condition, (yield from self._parse_do()), until=word == "until")
            case "for":
                return (yield from self._parse_for())
            case "case":
                return (yield from self._parse_case())
            case "function":
                return (yield from self._parse_bash_function())
        return None

    def _parse_do(self) -> Parsing[Node]:
        yield from self._expect("do")
        body = yield from self._parse_sequence(frozenset({"done"}))
        yield from self._take()
        return body

    def _parse_if(self) -> Parsing[Node]:
        branches: list[tuple[Node, Node]] = []
        otherwise: Node | None = None
        while True:
            yield from self._take()
            condition = yield from self._parse_sequence(frozenset({"then"}))
            yield from self._take()
            branches.append((condition, (yield from self._parse_sequence(("elif", "else", "fi")))))
            if self._reserved() != "elif":
                break
        if self._reserved() == "else":
            yield from self._take()
            otherwise = yield from self._parse_sequence(frozenset({"fi"}))
        yield from self._expect("fi")
        return If(tuple(branches), otherwise)

    def _parse_for(self) -> Parsing[Node]:
        yield from self._take()
        name = self._reserved()
        if name is None or not is_name(name):
            raise ShellSyntaxError("bad for loop variable")
        yield from self._take()
        yield from self._skip_newlines()
        words: list[Word] | None = None
        if self._reserved() == "in":
            yield from self._take()
            words = []
            while (word := self._next.word) is not None:
                words.append(word)
                yield from self._take()
            if self._operator() not in (";", NEWLINE):
                raise self._make_error()
            yield from self._take()
        elif self._operator() == ";":
            yield from self._take()
        yield from self._skip_newlines()
        return For(name, None if words is None else tuple(words), (yield from self._parse_do()))

    def _parse_case(self) -> Parsing[Node]:
        yield from self._take()
        word = self._next.word
        if word is None:
            raise self._make_error()
        yield from self._take()
        yield from self._skip_newlines()
        yield from self._expect("in")
        yield from self._skip_newlines()
        branches: list[tuple[tuple[Word, ...], Node]] = []
        while self._reserved() != "esac":
            if self._operator() == "(":
                yield from self._take()
            patterns: list[Word] = []
            while True:
                pattern = self._next.word
                if pattern is None:
                    at_end = self._next.text == END
                    raise self._make_error(")" if at_end else "")
                patterns.append(pattern)
                yield from self._take()
                if self._operator() != "|":
                    break
                yield from self._take()
            yield from self._expect(")")
            branches.append(
                (
                    tuple(patterns),
                    (yield from self._parse_sequence((";;", "esac"), maybe_empty=True)),
                )
            )
            if self._operator() == ";;":
                yield from self._take()
                yield from self._skip_newlines()
        yield from self._take()
        return Case(word, tuple(branches))

    def _parse_bash_function(self) -> Parsing[Node]:
        yield from self._take()
        name = self._reserved()
        if name is None:
            raise self._make_error()
        yield from self._take()
        if self._operator() == "(":
            yield from self._take()
            yield from self._expect(")")
        return (yield from self._parse_body(name))

    def _parse_body(self, name: str) -> Parsing[Node]:
        nesting = self._lexer.nesting
        self._lexer.enter_nested()
        yield from self._skip_newlines()
        body = yield from self._parse_command()
        self._lexer.nesting = nesting
        return Function(name, body)

    def _is_redirection(self) -> bool:
        return self._next.word is None and self._next.text in _REDIRECTIONS

    def _parse_redirect(self) -> Parsing[Redirect]:
        token = self._next
        yield from self._take()
        operator = token.text or ""
        target = self._next.word
        if target is None:
            raise self._make_error()
        stream = token.stream if token.stream is not None else int(operator[0] != "<")
        redirect = Redirect(stream, operator, target)
        if operator in ("<<", "<<-"):
            # The document begins on the next line, so it is registered before reading on.
            self._lexer.add_here_document(redirect, target, tabs=operator == "<<-")
        yield from self._take()
        return redirect

    def _parse_simple(self) -> Parsing[Node]:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        line = self._next.line
        while True:
            token = self._next
            if token.word is None:
                if not self._is_redirection():
                    break
                redirects.append((yield from self._parse_redirect()))
                continue
            if not words and not assignments and not redirects and token.text in _CLOSERS:
                raise self._make_error()
            assignment = parse_assignment(token.word) if not words else None
            yield from self._take()
            if assignment is not None:
                assignments.append(assignment)
                continue
            words.append(token.word)
            if len(words) == 1 and not assignments and self._operator() == "(" and token.text:
                yield from self._take()
                if self._operator() == ")" and not is_name(token.text):
                    raise ShellSyntaxError("bad function name")
                yield from self._expect(")")
                return (yield from self._parse_body(token.text))
        if not words and not assignments and not redirects:
            raise self._make_error()
        return Command(tuple(words), tuple(assignments), tuple(redirects), line)


def _parse_substitution(lexer: Lexer) -> Parsing[Node]:
    return Parser(lexer).parse_script()


def make_parser(script: str, line: int = 1) -> Parser:
    """Return a parser of a script whose first line has the given number."""
    return Parser(Lexer(script, _parse_substitution, WorkMeter(), line=line))


def parse(script: str) -> Parsing[Node]:
    """Parse a whole script.

    Raises:
        ShellSyntaxError: the syntax is invalid.
    """
    parser = make_parser(script)
    commands: list[Node] = []
    while (command := (yield from parser.parse_line())) is not None:
        commands.append(command)
    return commands[0] if len(commands) == 1 else Sequence(tuple(commands))

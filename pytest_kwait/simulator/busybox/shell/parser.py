"""The parser of shell scripts: the grammar of busybox's `ash`.

Syntax that `ash` lacks (arrays, process substitution) is an error. No maintained parser with a
permissive licence fits; docs/containers.md lists those considered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

    def _peek(self) -> Token:
        if self._ahead is None:
            self._ahead = self._lexer.read_token()
        return self._ahead

    def _take(self) -> Token:
        token = self._peek()
        self._ahead = None
        return token

    def _operator(self) -> str | None:
        """Return the next operator; None before a word."""
        token = self._peek()
        return token.text if token.word is None else None

    def _reserved(self) -> str | None:
        token = self._peek()
        return token.text if token.word is not None else None

    def _make_error(self, expected: str = "") -> ShellSyntaxError:
        token = self._peek()
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

    def _expect(self, text: str) -> None:
        word = text not in (")", ";;", "(")
        if (self._reserved() if word else self._operator()) != text:
            raise self._make_error(text)
        self._take()

    def _skip_newlines(self) -> None:
        while self._operator() == NEWLINE:
            self._take()

    # -- lists

    def parse_line(self) -> Node | None:
        """Return the complete commands of the next lines; None at the end.

        Raises:
            ShellSyntaxError: the syntax is invalid.
        """
        self._skip_newlines()
        if self._operator() == END:
            return None
        commands: list[Node] = []
        while True:
            commands.append(self._parse_and_or())
            operator = self._operator()
            if operator == "&":
                commands[-1] = Background(commands[-1])
            if operator in (";", "&"):
                self._take()
                if self._operator() not in (NEWLINE, END):
                    continue
            if self._operator() not in (NEWLINE, END):
                raise self._make_error()
            break
        if self._operator() == NEWLINE:
            # The line ends here; the next token is not read yet.
            self._take()
        return commands[0] if len(commands) == 1 else Sequence(tuple(commands))

    def parse_script(self) -> Node:
        """Parse up to the `)` that ends a substitution."""
        tree = self._parse_sequence(frozenset({")"}), maybe_empty=True)
        self._expect(")")
        return tree

    def _parse_sequence(self, ends: Collection[str], *, maybe_empty: bool = False) -> Node:
        """Parse commands up to one of `ends`, which is not consumed."""
        commands: list[Node] = []
        nesting = self._lexer.nesting
        self._lexer.enter_nested()
        self._skip_newlines()
        while not self._ends(ends):
            if self._operator() == END:
                break
            commands.append(self._parse_and_or())
            operator = self._operator()
            if operator == "&":
                commands[-1] = Background(commands[-1])
            if operator not in (";", "&", NEWLINE):
                break
            self._take()
            self._skip_newlines()
        if not self._ends(ends):
            raise self._make_error(self._expected(ends))
        if not commands and not maybe_empty:
            raise self._make_error()
        self._lexer.nesting = nesting
        return commands[0] if len(commands) == 1 else Sequence(tuple(commands))

    def _ends(self, ends: Collection[str]) -> bool:
        token = self._peek()
        return token.text is not None and token.text != END and token.text in ends

    def _expected(self, ends: Collection[str]) -> str:
        return next(iter(ends)) if len(ends) == 1 else "fi" if "fi" in ends else ";;"

    def _parse_and_or(self) -> Node:
        left = self._parse_pipeline()
        while (operator := self._operator()) in ("&&", "||"):
            self._take()
            self._skip_newlines()
            left = AndOr(left, operator or "", self._parse_pipeline())
        return left

    def _parse_pipeline(self) -> Node:
        if self._reserved() == "!":
            self._take()
            return Not(self._parse_pipeline())
        commands = [self._parse_command()]
        while self._operator() == "|":
            self._take()
            self._skip_newlines()
            commands.append(self._parse_command())
        return commands[0] if len(commands) == 1 else Pipeline(tuple(commands))

    # -- commands

    def _parse_command(self) -> Node:
        compound = self._parse_compound()
        if compound is None:
            return self._parse_simple()
        redirects: list[Redirect] = []
        while (redirect := self._parse_redirect()) is not None:
            redirects.append(redirect)
        return (
            Grouping(compound, subshell=False, redirects=tuple(redirects))
            if redirects
            else compound
        )

    def _parse_compound(self) -> Node | None:
        if self._operator() == "(":
            self._take()
            body = self._parse_sequence(frozenset({")"}))
            self._take()
            return Grouping(body, subshell=True)
        match self._reserved():
            case "{":
                self._take()
                body = self._parse_sequence(frozenset({"}"}))
                self._take()
                return Grouping(body, subshell=False)
            case "if":
                return self._parse_if()
            case "while" | "until" as word:
                self._take()
                condition = self._parse_sequence(frozenset({"do"}))
                return Loop(condition, self._parse_do(), until=word == "until")
            case "for":
                return self._parse_for()
            case "case":
                return self._parse_case()
            case "function":
                return self._parse_bash_function()
        return None

    def _parse_do(self) -> Node:
        self._expect("do")
        body = self._parse_sequence(frozenset({"done"}))
        self._take()
        return body

    def _parse_if(self) -> Node:
        branches: list[tuple[Node, Node]] = []
        otherwise: Node | None = None
        while True:
            self._take()
            condition = self._parse_sequence(frozenset({"then"}))
            self._take()
            branches.append((condition, self._parse_sequence(("elif", "else", "fi"))))
            if self._reserved() != "elif":
                break
        if self._reserved() == "else":
            self._take()
            otherwise = self._parse_sequence(frozenset({"fi"}))
        self._expect("fi")
        return If(tuple(branches), otherwise)

    def _parse_for(self) -> Node:
        self._take()
        name = self._reserved()
        if name is None or not is_name(name):
            raise ShellSyntaxError("bad for loop variable")
        self._take()
        self._skip_newlines()
        words: list[Word] | None = None
        if self._reserved() == "in":
            self._take()
            words = []
            while (word := self._peek().word) is not None:
                words.append(word)
                self._take()
            if self._operator() not in (";", NEWLINE):
                raise self._make_error()
            self._take()
        elif self._operator() == ";":
            self._take()
        self._skip_newlines()
        return For(name, None if words is None else tuple(words), self._parse_do())

    def _parse_case(self) -> Node:
        self._take()
        word = self._peek().word
        if word is None:
            raise self._make_error()
        self._take()
        self._skip_newlines()
        self._expect("in")
        self._skip_newlines()
        branches: list[tuple[tuple[Word, ...], Node]] = []
        while self._reserved() != "esac":
            if self._operator() == "(":
                self._take()
            patterns: list[Word] = []
            while True:
                pattern = self._peek().word
                if pattern is None:
                    at_end = self._peek().text == END
                    raise self._make_error(")" if at_end else "")
                patterns.append(pattern)
                self._take()
                if self._operator() != "|":
                    break
                self._take()
            self._expect(")")
            branches.append(
                (tuple(patterns), self._parse_sequence((";;", "esac"), maybe_empty=True))
            )
            if self._operator() == ";;":
                self._take()
                self._skip_newlines()
        self._take()
        return Case(word, tuple(branches))

    def _parse_bash_function(self) -> Node:
        self._take()
        name = self._reserved()
        if name is None:
            raise self._make_error()
        self._take()
        if self._operator() == "(":
            self._take()
            self._expect(")")
        return self._parse_body(name)

    def _parse_body(self, name: str) -> Node:
        self._skip_newlines()
        return Function(name, self._parse_command())

    def _parse_redirect(self) -> Redirect | None:
        token = self._peek()
        if token.word is not None or token.text not in _REDIRECTIONS:
            return None
        self._take()
        operator = token.text or ""
        target = self._peek().word
        if target is None:
            raise self._make_error()
        stream = token.stream if token.stream is not None else int(operator[0] != "<")
        redirect = Redirect(stream, operator, target)
        if operator in ("<<", "<<-"):
            # The document begins on the next line, so it is registered before reading on.
            self._lexer.add_here_document(redirect, target, tabs=operator == "<<-")
        self._take()
        return redirect

    def _parse_simple(self) -> Node:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        line = self._peek().line
        while True:
            redirect = self._parse_redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            token = self._peek()
            if token.word is None:
                break
            if not words and not assignments and not redirects and token.text in _CLOSERS:
                raise self._make_error()
            assignment = parse_assignment(token.word) if not words else None
            self._take()
            if assignment is not None:
                assignments.append(assignment)
                continue
            words.append(token.word)
            if len(words) == 1 and not assignments and self._operator() == "(" and token.text:
                self._take()
                self._expect(")")
                if not is_name(token.text):
                    raise ShellSyntaxError("bad function name")
                return self._parse_body(token.text)
        if not words and not assignments and not redirects:
            raise self._make_error()
        return Command(tuple(words), tuple(assignments), tuple(redirects), line)


def _parse_substitution(lexer: Lexer) -> Node:
    return Parser(lexer).parse_script()


def make_parser(script: str, line: int = 1) -> Parser:
    """Return a parser of a script whose first line has the given number."""
    return Parser(Lexer(script, _parse_substitution, line=line))


def parse(script: str) -> Node:
    """Parse a whole script.

    Raises:
        ShellSyntaxError: the syntax is invalid.
    """
    parser = make_parser(script)
    commands: list[Node] = []
    while (command := parser.parse_line()) is not None:
        commands.append(command)
    return commands[0] if len(commands) == 1 else Sequence(tuple(commands))

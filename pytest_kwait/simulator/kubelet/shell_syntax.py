"""The shell language that container commands are written in, as far as test manifests use it.

Lists (`;`, `&&`, `||`, `&`, newline), `!`, `if`, `while`, `until`, `for`, `{ … }`, `( … )`,
redirections to files and between stdout and stderr, variables, arithmetic and command substitution.
What is not in here - pipes, functions, here-documents, `case` - is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_kwait.simulator.kubelet.shell_lexer import Lexer, Token
from pytest_kwait.simulator.kubelet.shell_tree import (
    AndOr,
    Background,
    Command,
    For,
    Group,
    If,
    Literal,
    Loop,
    Node,
    Not,
    Redirect,
    Sequence,
    ShellSyntaxError,
    Word,
)

__all__ = ["ShellSyntaxError", "parse"]

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
class _Parser:
    tokens: list[Token]
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
    return _Parser(Lexer(script, parse).run()).script()

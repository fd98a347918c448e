"""Parser of `awk`: the rules of a program.

Source: POSIX.1-2024, utilities, `awk`, "Grammar".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pytest_kwait.simulator.busybox.libbb import NOT_SIMULATED, UsageError, WorkMeter

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect

    T = TypeVar("T")
    Parsing = Generator[Effect, None, T]
    """A part of the parser's work, which yields a step now and then."""

Node = tuple[Any, ...]
"""A part of a program: its kind, and what belongs to it."""

_TOKEN_WORK = 20
"""The work of a token, whose rules are tried one after the other."""

_TOKEN = re.compile(
    r"[ \t\r]+|\\\n|\#[^\n]*"
    r"|(?P<newline>\n)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r'|"(?P<string>(?:\\.|[^"\\\n])*)"'
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>\+\+|--|\*\*=?|\^=|&&|\|\||!~|[-+*/%<>=!]=|>>|[-+*/%^!<>|?:~$=,;(){}\[\]])",
    re.DOTALL,
)
_REGEX = re.compile(r"(?:\\.|\[\^?\]?[^\]]*\]|[^/\\\n])*", re.DOTALL)
_KEYWORDS = frozenset({
    "BEGIN", "END", "break", "continue", "delete", "do", "else", "exit", "for", "function",
    "getline", "if", "in", "next", "print", "printf", "return", "while",
})  # fmt: skip
_FUNCTIONS = frozenset({
    "atan2", "cos", "exp", "gsub", "index", "int", "length", "log", "match", "rand", "sin",
    "split", "sprintf", "sqrt", "srand", "sub", "substr", "tolower", "toupper",
})  # fmt: skip
_UNSIMULATED = frozenset({"function", "getline", "return", "system", "close", "fflush"})
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "^=", "**=")
_COMPARISONS = ("<", "<=", "!=", "==", ">", ">=")


_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\",
    '"': '"', "/": "/", "\n": "",
}  # fmt: skip


def unescape(text: str, meter: WorkMeter) -> Parsing[str]:
    """Return a text without its escapes; unknown ones stay, as those of patterns."""
    pieces: list[str] = []
    position = 0
    for match in _ESCAPE.finditer(text):
        yield from meter.spend(1)
        is_octal = match[1][0] in "01234567"
        new = chr(int(match[1], 8)) if is_octal else _ESCAPES.get(match[1], match[0])
        pieces += (text[position : match.start()], new)
        position = match.end()
    return "".join(pieces) + text[position:]


class _Token(NamedTuple):
    kind: str
    text: str


def _scan(text: str, meter: WorkMeter) -> Parsing[list[_Token]]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        yield from meter.spend(1)
        before = tokens[-1] if tokens else _Token("newline", "\n")
        is_operand = before.kind in ("number", "string", "regex") or before.text in (")", "]", "$")
        is_operand = is_operand or (before.kind == "name" and before.text not in _KEYWORDS)
        if text[position] == "/" and not is_operand:
            match = _REGEX.match(text, position + 1)
            end = match.end() if match is not None else len(text)
            if text[end : end + 1] != "/":
                raise UsageError("awk: cmd. line:1: Unexpected end of string")
            tokens.append(_Token("regex", text[position + 1 : end].replace("\\/", "/")))
            position = end + 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise UsageError("awk: cmd. line:1: Unexpected token")
        position = match.end()
        if match.lastgroup is not None:
            tokens.append(_Token(match.lastgroup, match[match.lastgroup]))
    return [*tokens, _Token("end", "")]


@dataclass(slots=True)
class Rule:
    """A pattern with its action; without one it prints the record."""

    kind: str
    first: Node | None = None
    last: Node | None = None
    action: Node = ("print", (), None)
    within: bool = False


class _Parser:
    """Parses a program."""

    def __init__(self, tokens: list[_Token], meter: WorkMeter) -> None:
        self._tokens, self._meter = tokens, meter
        self._position = 0

    # -- tokens

    @property
    def _token(self) -> _Token:
        return self._tokens[self._position]

    def _is(self, *texts: str) -> bool:
        token = self._token
        return token.kind in ("mark", "name", "newline") and token.text in texts

    def _accept(self, *texts: str) -> str:
        if not self._is(*texts):
            return ""
        self._position += 1
        return self._tokens[self._position - 1].text

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise UsageError("awk: cmd. line:1: Unexpected token")

    def _skip_newlines(self, *more: str) -> None:
        while self._accept("\n", *more):
            pass

    # -- rules and statements

    def parse(self) -> Parsing[list[Rule]]:
        rules = []
        self._skip_newlines(";")
        while self._token.kind != "end":
            yield from self._meter.spend(1)
            rules.append((yield from self._rule()))
            self._skip_newlines(";")
        return rules

    def _rule(self) -> Parsing[Rule]:
        word = self._accept("BEGIN", "END")
        rule = Rule(word or "record")
        if not word and not self._is("{"):
            rule.first = yield from self._expression()
            if self._accept(","):
                self._skip_newlines()
                rule.last = yield from self._expression()
        if self._is("{"):
            rule.action = yield from self._block()
        elif word:
            raise UsageError("awk: cmd. line:1: Unexpected token")
        return rule

    def _block(self) -> Parsing[Node]:
        self._expect("{")
        statements = []
        self._skip_newlines(";")
        while not self._accept("}"):
            yield from self._meter.spend(1)
            statements.append((yield from self._statement()))
            self._skip_newlines(";")
        return ("block", tuple(statements))

    def _statement(self) -> Parsing[Node]:
        if self._is("{"):
            return (yield from self._block())
        if self._accept(";"):
            return ("block", ())
        word = self._accept("if", "while", "do", "for")
        if word:
            compound: Node = yield from getattr(self, f"_{word}_statement")()
            return compound
        statement = yield from self._simple_statement()
        if not self._is("}") and self._token.kind != "end" and not self._accept(";", "\n"):
            raise UsageError("awk: cmd. line:1: Unexpected token")
        return statement

    def _body(self) -> Parsing[Node]:
        self._skip_newlines()
        return (yield from self._statement())

    def _condition(self) -> Parsing[Node]:
        self._expect("(")
        condition = yield from self._expression()
        self._expect(")")
        return condition

    def _if_statement(self) -> Parsing[Node]:
        condition = yield from self._condition()
        body = yield from self._body()
        here = self._position
        self._skip_newlines(";")
        if self._accept("else"):
            return ("if", condition, body, (yield from self._body()))
        self._position = here
        return ("if", condition, body, ("block", ()))

    def _while_statement(self) -> Parsing[Node]:
        return ("while", (yield from self._condition()), (yield from self._body()), None)

    def _do_statement(self) -> Parsing[Node]:
        body = yield from self._body()
        self._skip_newlines(";")
        self._expect("while")
        return ("block", (("do", (yield from self._condition()), body),))

    def _for_statement(self) -> Parsing[Node]:
        self._expect("(")
        names = self._tokens[self._position : self._position + 4]
        if [name.text for name in names[1::2]] == ["in", ")"] and names[0].kind == "name":
            self._position += 4
            return ("each", names[0].text, names[2].text, (yield from self._body()))
        nothing: Node = ("block", ())
        first = nothing if self._is(";") else (yield from self._simple_statement())
        self._expect(";")
        self._skip_newlines()
        condition = ("number", 1.0) if self._is(";") else (yield from self._expression())
        self._expect(";")
        self._skip_newlines()
        step = nothing if self._is(")") else (yield from self._simple_statement())
        self._expect(")")
        return ("block", (first, ("while", condition, (yield from self._body()), step)))

    def _simple_statement(self) -> Parsing[Node]:
        word = self._accept("print", "printf")
        if word:
            return (yield from self._print_statement(word))
        word = self._accept("next", "break", "continue")
        if word:
            return (word,)
        if self._accept("exit"):
            ends = self._is(";", "\n", "}") or self._token.kind == "end"
            return ("exit", None if ends else (yield from self._expression()))
        if self._accept("delete"):
            name = self._token.text
            self._position += 1
            keys = (yield from self._list("]")) if self._accept("[") else None
            return ("delete", name, keys)
        return ("expression", (yield from self._expression()))

    def _print_statement(self, word: str) -> Parsing[Node]:
        arguments: tuple[Node, ...] = ()
        here = self._position
        if self._accept("("):
            arguments = yield from self._list(")")
        if not self._ends_print():
            self._position = here
            expressions = [(yield from self._expression(prints=True))]
            while self._accept(","):
                self._skip_newlines()
                expressions.append((yield from self._expression(prints=True)))
            arguments = tuple(expressions)
        if self._is(">", ">>", "|"):
            raise UsageError(f"awk: redirection: {NOT_SIMULATED}")
        return (word, arguments, None)

    def _ends_print(self) -> bool:
        return self._is(";", "\n", "}", ">", ">>", "|") or self._token.kind == "end"

    def _list(self, end: str) -> Parsing[tuple[Node, ...]]:
        expressions: list[Node] = []
        while not self._accept(end):
            if expressions:
                self._expect(",")
                self._skip_newlines()
            expressions.append((yield from self._expression()))
        return tuple(expressions)

    # -- expressions, by precedence

    def _expression(self, *, prints: bool = False) -> Parsing[Node]:
        condition = yield from self._or(prints)
        if self._accept("?"):
            self._skip_newlines()
            first = yield from self._expression(prints=prints)
            self._skip_newlines()
            self._expect(":")
            self._skip_newlines()
            return ("choose", condition, first, (yield from self._expression(prints=prints)))
        if condition[0] in ("variable", "field", "element"):
            sign = self._accept(*_ASSIGNMENTS)
            if sign:
                self._skip_newlines()
                value = yield from self._expression(prints=prints)
                operator = sign[:-1].replace("**", "^")
                if operator:
                    value = ("calculate", operator, condition, value)
                return ("assign", condition, value)
        return condition

    def _or(self, prints: bool) -> Parsing[Node]:
        node = yield from self._and(prints)
        while self._accept("||"):
            self._skip_newlines()
            node = ("or", node, (yield from self._and(prints)))
        return node

    def _and(self, prints: bool) -> Parsing[Node]:
        node = yield from self._in(prints)
        while self._accept("&&"):
            self._skip_newlines()
            node = ("and", node, (yield from self._in(prints)))
        return node

    def _in(self, prints: bool) -> Parsing[Node]:
        node = yield from self._match(prints)
        while self._accept("in"):
            name = self._token.text
            self._position += 1
            keys = node[1] if node[0] == "group" else (node,)
            node = ("in", keys, name)
        return node

    def _match(self, prints: bool) -> Parsing[Node]:
        node = yield from self._comparison(prints)
        while sign := self._accept("~", "!~"):
            node = ("match", sign, node, (yield from self._comparison(prints)))
        return node

    def _comparison(self, prints: bool) -> Parsing[Node]:
        node = yield from self._concatenation()
        if prints and self._is(">"):
            return node
        sign = self._accept(*_COMPARISONS)
        return ("compare", sign, node, (yield from self._concatenation())) if sign else node

    def _concatenation(self) -> Parsing[Node]:
        node = yield from self._additive()
        while (
            self._token.kind in ("number", "string", "regex")
            or self._is("$", "!", "(", "++", "--")
            or (self._token.kind == "name" and self._token.text not in _KEYWORDS)
        ):
            node = ("join", node, (yield from self._additive()))
        return node

    def _additive(self) -> Parsing[Node]:
        node = yield from self._multiplicative()
        while sign := self._accept("+", "-"):
            node = ("calculate", sign, node, (yield from self._multiplicative()))
        return node

    def _multiplicative(self) -> Parsing[Node]:
        node = yield from self._unary()
        while sign := self._accept("*", "/", "%"):
            node = ("calculate", sign, node, (yield from self._unary()))
        return node

    def _unary(self) -> Parsing[Node]:
        sign = self._accept("!", "-", "+")
        return ("unary", sign, (yield from self._unary())) if sign else (yield from self._power())

    def _power(self) -> Parsing[Node]:
        node = yield from self._postfix()
        if self._accept("^", "**"):
            sign = self._accept("-", "+")
            exponent = yield from self._power()
            exponent = ("unary", sign, exponent) if sign else exponent
            return ("calculate", "^", node, exponent)
        return node

    def _postfix(self) -> Parsing[Node]:
        sign = self._accept("++", "--")
        if sign:
            return ("increase", (yield from self._primary()), 1.0 if sign == "++" else -1.0, True)
        node = yield from self._primary()
        if node[0] in ("variable", "field", "element"):
            sign = self._accept("++", "--")
            if sign:
                return ("increase", node, 1.0 if sign == "++" else -1.0, False)
        return node

    def _primary(self) -> Parsing[Node]:
        yield from self._meter.spend(_TOKEN_WORK)
        token = self._token
        self._position += 1
        if token.kind == "number":
            return ("number", float(token.text))
        if token.kind == "string":
            return ("string", (yield from unescape(token.text, self._meter)))
        if token.kind == "regex":
            return ("regex", token.text)
        if token.text == "$":
            sign = self._accept("++", "--")
            inner = yield from self._primary()
            if sign:
                inner = ("increase", inner, 1.0 if sign == "++" else -1.0, True)
            return ("field", inner)
        if token.text == "(":
            inner_list = yield from self._list(")")
            if len(inner_list) == 1:
                return ("grouped", inner_list[0])
            return ("group", inner_list)
        if token.text == "-":
            return ("unary", "-", (yield from self._primary()))
        if token.kind == "name" and token.text in _UNSIMULATED:
            raise UsageError(f"awk: {token.text}: {NOT_SIMULATED}")
        if token.kind == "name" and token.text in _FUNCTIONS:
            return ("call", token.text, (yield from self._list(")")) if self._accept("(") else ())
        if token.kind == "name" and token.text not in _KEYWORDS:
            if self._accept("["):
                return ("element", token.text, (yield from self._list("]")))
            return ("variable", token.text)
        raise UsageError("awk: cmd. line:1: Unexpected token")


def parse_program(text: str, meter: WorkMeter) -> Parsing[list[Rule]]:
    """Return the rules of a program.

    Raises:
        UsageError: it has an error, or needs what is not simulated.
    """
    tokens = yield from _scan(text, meter)
    return (yield from _Parser(tokens, meter).parse())

"""Word expansions: parameters, arithmetic, command substitutions, field splitting, file names.

Arithmetic is on 64-bit integers with C's operators, as in busybox.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from pytest_kwait.simulator.busybox.libbb import WorkMeter
from pytest_kwait.simulator.busybox.os.syscalls import STEP
from pytest_kwait.simulator.busybox.patterns import (
    compile_glob,
    escape_glob,
    expand_glob,
    has_glob,
    unescape_glob,
)
from pytest_kwait.simulator.busybox.shell.tree import (
    Arithmetic,
    Literal,
    Parameter,
    Substitution,
    Word,
)
from pytest_kwait.simulator.busybox.shell.variables import WORD_SIZE, ShellExit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect
    from pytest_kwait.simulator.busybox.shell.tree import Part
    from pytest_kwait.simulator.busybox.shell.variables import ShellContext

    T = TypeVar("T")
    Evaluation = Generator[Effect, None, T]
    """A part of an evaluation, which yields a step now and then."""

_ARITHMETIC_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+#[0-9a-zA-Z@_]+|\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator><<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),]))",
    re.ASCII,
)
_LEVELS = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_MAX_NESTING = 40
_SYNTAX_ERROR = "arithmetic syntax error"
_HOMES = {"": "/root", "root": "/root", "nobody": "/"}

# A text, whether it is quoted, and whether it is split into fields. None ends a field.
_Item = tuple[str | None, bool, bool]
_NO_ARGUMENTS: _Item = (None, True, False)
_BREAK: _Item = (None, True, True)
_SOFT_BREAK: _Item = (None, False, True)

# Items between two steps, and characters of an item.
_MANY_ITEMS = 64
_PORTION = 64
_PART_WORK = 2
"""The work of a part of a word."""
_OPERAND_WORK = 10
"""The work of an operand of an arithmetic expression."""


class ShellArithmeticError(Exception):
    """The expression is invalid; `str` is busybox's message."""


def _wrap_int64(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _divide(left: int, right: int) -> int:
    if not right:
        raise ShellArithmeticError("divide by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _power(left: int, right: int) -> int:
    if right < 0:
        raise ShellArithmeticError("exponent less than 0")
    return pow(left, right, 1 << 64)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
    "&": lambda left, right: left & right,
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "<": lambda left, right: int(left < right),
    "<=": lambda left, right: int(left <= right),
    ">": lambda left, right: int(left > right),
    ">=": lambda left, right: int(left >= right),
    "<<": lambda left, right: left << (right & 63),
    ">>": lambda left, right: left >> (right & 63),
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": lambda left, right: left - right * _divide(left, right),
    "**": _power,
}


class _Expression:
    """An expression, parsed and evaluated from left to right.

    An operand is a number, or the name of a variable, which can be assigned to.
    """

    def __init__(
        self,
        text: str,
        get: Callable[[str], str],
        put: Callable[[str, str], None],
        depth: int,
        meter: WorkMeter,
    ) -> None:
        self._text, self._get, self._put, self._depth = text.rstrip(), get, put, depth
        self._meter = meter
        self._tokens: list[tuple[str, str]] = []
        self._position = 0
        self._nesting = 0

    def _scan(self) -> Evaluation[None]:
        position, text = 0, self._text
        while position < len(text):
            yield from self._meter.spend(1)
            match = _ARITHMETIC_TOKEN.match(text, position)
            if match is None:
                raise ShellArithmeticError(_SYNTAX_ERROR)
            self._tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            position = match.end()

    def run(self) -> Evaluation[int]:
        yield from self._scan()
        if not self._tokens:
            return 0
        value = yield from self._to_number((yield from self._parse_comma(live=True)))
        if self._position < len(self._tokens):
            raise ShellArithmeticError(_SYNTAX_ERROR)
        return value

    def _peek(self) -> str:
        if self._position < len(self._tokens):
            kind, text = self._tokens[self._position]
            return text if kind == "operator" else "x"
        return ""

    def _to_number(self, operand: int | str) -> Evaluation[int]:
        if isinstance(operand, int):
            return operand
        text = self._get(operand)
        if not text:
            return 0
        if self._depth >= _MAX_NESTING:
            raise ShellArithmeticError("expression recursion loop detected")
        return (
            yield from _Expression(text, self._get, self._put, self._depth + 1, self._meter).run()
        )

    def _parse_comma(self, *, live: bool) -> Evaluation[int | str]:
        value = yield from self._parse_ternary(live=live)
        while self._peek() == ",":
            self._position += 1
            value = yield from self._parse_ternary(live=live)
        return value

    def _parse_ternary(self, *, live: bool) -> Evaluation[int | str]:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise ShellArithmeticError(_SYNTAX_ERROR)
        left = yield from self._parse_binary(1, live=live)
        operator = self._peek()
        if operator in _ASSIGNMENTS:
            if not isinstance(left, str):
                raise ShellArithmeticError(_SYNTAX_ERROR)
            self._position += 1
            right = (
                (yield from self._to_number((yield from self._parse_ternary(live=live))))
                if live
                else (yield from self._skip_ternary())
            )
            if operator != "=" and live:
                right = _wrap_int64(
                    _OPERATIONS[operator[:-1]]((yield from self._to_number(left)), right)
                )
            if live:
                self._put(left, str(right))
            left = right
        elif operator == "?":
            self._position += 1
            holds = live and (yield from self._to_number(left)) != 0
            first = yield from self._parse_comma(live=holds)
            if self._peek() != ":":
                raise ShellArithmeticError(_SYNTAX_ERROR)
            self._position += 1
            second = yield from self._parse_ternary(live=live and not holds)
            left = first if holds else second
        self._nesting -= 1
        return left

    def _skip_ternary(self) -> Evaluation[int]:
        yield from self._parse_ternary(live=False)
        return 0

    def _parse_binary(self, least: int, *, live: bool) -> Evaluation[int | str]:
        left = yield from self._parse_unary(live=live)
        while (level := _LEVELS.get(operator := self._peek(), 0)) >= least:
            self._position += 1
            if operator in ("&&", "||"):
                decided = live and ((yield from self._to_number(left)) != 0) == (operator == "||")
                right = yield from self._parse_binary(level + 1, live=live and not decided)
                left = (
                    int(operator == "||")
                    if decided
                    else int(live and (yield from self._to_number(right)) != 0)
                )
                continue
            right = yield from self._parse_binary(level + (operator != "**"), live=live)
            left = (
                _wrap_int64(
                    _OPERATIONS[operator](
                        (yield from self._to_number(left)), (yield from self._to_number(right))
                    )
                )
                if live
                else 0
            )
        return left

    def _parse_unary(self, *, live: bool) -> Evaluation[int | str]:
        if self._position >= len(self._tokens):
            raise ShellArithmeticError(_SYNTAX_ERROR)
        yield from self._meter.spend(_OPERAND_WORK)
        kind, text = self._tokens[self._position]
        self._position += 1
        if kind == "number":
            return _parse_number(text)
        if kind == "name":
            if self._peek() in ("++", "--"):
                step = 1 if self._peek() == "++" else -1
                self._position += 1
                value = (yield from self._to_number(text)) if live else 0
                if live:
                    self._put(text, str(_wrap_int64(value + step)))
                return value
            return text
        if text == "(":
            value_or_name = yield from self._parse_comma(live=live)
            if self._peek() != ")":
                raise ShellArithmeticError(_SYNTAX_ERROR)
            self._position += 1
            return (yield from self._to_number(value_or_name)) if live else 0
        if text not in ("+", "-", "!", "~", "++", "--"):
            raise ShellArithmeticError(_SYNTAX_ERROR)
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise ShellArithmeticError(_SYNTAX_ERROR)
        operand = yield from self._parse_unary(live=live)
        self._nesting -= 1
        if not live:
            return 0
        value = yield from self._to_number(operand)
        if text in ("++", "--"):
            if not isinstance(operand, str):
                return value
            value = _wrap_int64(value + (1 if text == "++" else -1))
            self._put(operand, str(value))
            return value
        return {"+": value, "-": _wrap_int64(-value), "!": int(not value), "~": ~value}[text]


def _parse_number(text: str) -> int:
    try:
        if "#" in text:
            radix, _, digits = text.partition("#")
            return _wrap_int64(int(digits, int(radix)))
        if text[:2] in ("0x", "0X"):
            return _wrap_int64(int(text, 16))
        return _wrap_int64(int(text, 8) if text[0] == "0" else int(text[:40]))
    except ValueError:
        raise ShellArithmeticError(_SYNTAX_ERROR) from None


def evaluate_arithmetic(
    text: str,
    get: Callable[[str], str],
    put: Callable[[str, str], None],
    meter: WorkMeter,
) -> Evaluation[int]:
    """Evaluate an expression.

    Args:
        text: the expression after parameter expansion.
        get: returns a variable's value; empty if it is unset.
        put: assigns to a variable.
        meter: counts the work.

    Raises:
        ShellArithmeticError: it is invalid.
    """
    return (yield from _Expression(text, get, put, 0, meter).run())


def _split_portions(items: list[_Item]) -> Iterator[_Item]:
    """Split long items, so that each is little work."""
    for item in items:
        text, quoted, split = item
        if text is None or quoted or not split or len(text) <= _PORTION:
            yield item
            continue
        for start in range(0, len(text), _PORTION):
            yield text[start : start + _PORTION], quoted, split


class _Fields:
    """Splits items into fields."""

    def __init__(self, separators: str) -> None:
        self._blank = "".join(char for char in separators if char in " \t\n")
        self._hard = "".join(char for char in separators if char not in " \t\n")
        self.done: list[tuple[str, bool]] = []
        self._pieces: list[str] = []
        self._begun = False
        self._pattern = False
        self._soft = False
        self._void = False

    def add(self, item: _Item) -> None:
        text, quoted, split = item
        if text is None:
            if item is _NO_ARGUMENTS:
                self._void = True
            elif item is _BREAK or self._begun:
                self.end()
            return
        if split and not quoted:
            self._split(text)
        elif quoted:
            self._pieces.append(escape_glob(text))
            self._begun = True
            self._void = self._void and not text
        elif text:
            self._pieces.append(text)
            self._begun = self._pattern = True
            self._soft = False

    def _split(self, text: str) -> None:
        for char in text:
            if char in self._blank:
                if self._begun:
                    self.end()
                    self._soft = True
            elif char in self._hard:
                if self._begun or not self._soft:
                    self.end()
                self._soft = False
            else:
                self._pieces.append("\\\\" if char == "\\" else char)
                self._begun = self._pattern = True
                self._soft = False

    def end(self) -> None:
        self.done.append(("".join(self._pieces), self._pattern))
        self._pieces.clear()
        self._begun = self._pattern = self._soft = self._void = False

    def finish(self) -> list[tuple[str, bool]]:
        if self._begun and not (self._void and not any(self._pieces)):
            self.end()
        return self.done


class Expander:
    """Expands the words of one shell."""

    __slots__ = ("_shell",)

    def __init__(self, shell: ShellContext) -> None:
        self._shell = shell

    # -- words

    def expand_fields(self, word: Word) -> Generator[Effect, None, list[str]]:
        """Return the arguments that a word expands to."""
        if self._shell.meter.is_step_due(1):
            yield STEP
        plain = word.plain
        if plain is not None and plain[:1] != "~" and not has_glob(plain):
            return [plain]
        shell = self._shell
        fields = _Fields(shell.variables.ifs)
        items = yield from self._expand_items(word, split=True)
        arguments: list[str] = []
        with shell.context.tasks.account.hold() as hold:
            for number, item in enumerate(_split_portions(items), start=1):
                fields.add(item)
                if not number % _MANY_ITEMS:
                    hold.resize(WORD_SIZE * len(fields.done))
                    yield STEP
            for number, (pattern, active) in enumerate(fields.finish(), start=1):
                if not number % _MANY_ITEMS:
                    hold.resize(WORD_SIZE * number)
                    yield STEP
                if active and "f" not in shell.options and has_glob(pattern):
                    names = yield from expand_glob(
                        pattern, shell.context.files, shell.context.cwd, shell.meter
                    )
                    if names:
                        arguments += names
                        continue
                arguments.append(unescape_glob(pattern))
        return arguments

    def expand_text(self, word: Word, *, assigned: bool = False) -> Generator[Effect, None, str]:
        """Return the single text that a word expands to, as in an assignment."""
        items = yield from self._expand_items(word, split=False, assigned=assigned)
        return "".join(
            [" " if item[0] is None else item[0] for item in items if item is not _NO_ARGUMENTS]
        )

    def expand_pattern(self, word: Word) -> Generator[Effect, None, str]:
        """Return the pattern that a word expands to."""
        items = yield from self._expand_items(word, split=False)
        pieces: list[str] = []
        for item in items:
            yield from self._shell.meter.spend(1)
            if item is not _NO_ARGUMENTS:
                text = " " if item[0] is None else item[0]
                pieces.append(escape_glob(text) if item[1] else text)
        return "".join(pieces)

    def _expand_items(
        self, word: Word, *, split: bool, assigned: bool = False
    ) -> Generator[Effect, None, list[_Item]]:
        items: list[_Item] = []
        meter = self._shell.meter
        for index, (part, quoted) in enumerate(word.parts):
            if meter.is_step_due(_PART_WORK):
                yield STEP
            if isinstance(part, Literal):
                text = part.text
                if not quoted and "~" in text and (index == 0 or assigned):
                    items += self._expand_home(word, index, text, assigned=assigned)
                else:
                    items.append((text, quoted, False))
            else:
                items += yield from self._expand_part(part, quoted=quoted, split=split)
        return items

    def _expand_home(self, word: Word, index: int, text: str, *, assigned: bool) -> list[_Item]:
        """Expand a leading `~`."""
        pieces = text.split(":") if assigned else [text]
        items: list[_Item] = []
        for number, piece in enumerate(pieces):
            if number:
                items.append((":", False, False))
            name, slash, rest = piece.partition("/")
            whole = slash or number < len(pieces) - 1 or index == len(word.parts) - 1
            first = index == 0 or number > 0
            if not name.startswith("~") or not whole or not first:
                items.append((piece, False, False))
                continue
            home = self._shell.variables.get("HOME") if name == "~" else None
            home = home if home is not None else _HOMES.get(name[1:])
            if home is None:
                items.append((piece, False, False))
            else:
                items += [(home, True, False), (slash + rest, False, False)]
        return items

    # -- parts

    def _expand_part(
        self, part: Part, *, quoted: bool, split: bool
    ) -> Generator[Effect, None, list[_Item]]:
        match part:
            case Literal(text):
                return [(text, quoted, False)]
            case Arithmetic(expression):
                value = yield from self.expand_text(expression)
                return [(str((yield from self.evaluate(value))), quoted, split)]
            case Substitution(script):
                text = yield from self._shell.substitute(script)
                return [(text, quoted, split)]
            case Parameter():
                return (yield from self._expand_parameter(part, quoted=quoted, split=split))

    def evaluate(self, expression: str) -> Generator[Effect, None, int]:
        """Evaluate an expression; the shell exits if it is invalid."""
        shell = self._shell
        try:
            return (
                yield from evaluate_arithmetic(
                    expression,
                    lambda name: self.get_value(name) or "",
                    lambda name, value: shell.variables.set(name, value),
                    shell.meter,
                )
            )
        except ShellArithmeticError as fault:
            yield shell.make_message(str(fault))
            raise ShellExit(2) from None

    def get_value(self, name: str) -> str | None:
        """Return the value of a parameter; None if it is unset."""
        shell = self._shell
        if name.isdigit():
            number = int(name)
            if not number:
                return shell.name
            return shell.arguments[number - 1] if number <= len(shell.arguments) else None
        match name:
            case "?":
                return str(shell.status)
            case "$":
                return str(shell.pid)
            case "!":
                return str(shell.last_job) if shell.last_job else ""
            case "LINENO":
                return str(shell.line)
            case "#":
                return str(len(shell.arguments))
            case "-":
                return "".join(sorted(option for option in shell.options if len(option) == 1))
            case "@":
                return " ".join(shell.arguments) if shell.arguments else None
            case "*":
                joint = shell.variables.ifs[:1]
                return joint.join(shell.arguments) if shell.arguments else None
        return shell.variables.get(name)

    def _expand_parameter(
        self, part: Parameter, *, quoted: bool, split: bool
    ) -> Generator[Effect, None, list[_Item]]:
        name, operator = part.name, part.operator
        shell = self._shell
        if (
            name in "@*"
            and operator in ("", "-", ":-", "+", ":+")
            and (not operator or (bool(shell.arguments) == (operator[-1] == "-")))
        ):
            return self._expand_arguments(name, quoted=quoted, split=split)
        value = self.get_value(name)
        if operator == "length":
            if name in "@*":
                return [(str(len(shell.arguments)), quoted, split)]
            if value is None and "u" in shell.options:
                yield from self._fail_unset(name)
            return [(str(len(value or "")), quoted, split)]
        kind = operator[-1:] if operator in ("-", ":-", "=", ":=", "?", ":?", "+", ":+") else ""
        word = part.word or Word(())
        if kind:
            missing = value is None or (not value and operator[0] == ":")
            if kind == "+":
                return (
                    []
                    if missing
                    else (yield from self._expand_word(word, quoted=quoted, split=split))
                )
            if missing:
                return (yield from self._expand_missing(part, word, quoted=quoted, split=split))
            return [(value or "", quoted, split)]
        if value is None:
            if "u" in shell.options and name not in "@*!":
                yield from self._fail_unset(name)
            value = ""
        if operator:
            value = yield from self._apply_operator(value, part, word)
        return [(value, quoted, split)]

    def _expand_arguments(self, name: str, *, quoted: bool, split: bool) -> list[_Item]:
        shell = self._shell
        if not shell.arguments:
            return [_NO_ARGUMENTS] if quoted and name == "@" else []
        if quoted and name == "*":
            return [(self.get_value("*") or "", True, False)]
        items: list[_Item] = []
        for argument in shell.arguments:
            if items:
                items.append(_BREAK if quoted else _SOFT_BREAK)
            items.append((argument, quoted, split))
        return items

    def _expand_word(
        self, word: Word, *, quoted: bool, split: bool
    ) -> Generator[Effect, None, list[_Item]]:
        """Expand the word of an operator, split as the parameter would be."""
        items = yield from self._expand_items(word, split=split)
        return [
            (text, quoted or mark, split and not (quoted or mark)) if text is not None
            else item
            for item in items
            for text, mark, _ in (item,)
        ]  # fmt: skip

    def _expand_missing(
        self, part: Parameter, word: Word, *, quoted: bool, split: bool
    ) -> Generator[Effect, None, list[_Item]]:
        shell = self._shell
        kind = part.operator[-1]
        if kind == "-":
            return (yield from self._expand_word(word, quoted=quoted, split=split))
        text = yield from self.expand_text(word)
        if kind == "?":
            null = " or null" if part.operator == ":?" else ""
            yield shell.make_message(f"{part.name}: {text or f'parameter not set{null}'}")
            raise ShellExit(2)
        if not part.name.isidentifier():
            yield shell.make_message(f"{part.name}: bad variable name")
            raise ShellExit(2)
        shell.variables.set(part.name, text)
        return [(text, quoted, split)]

    def _fail_unset(self, name: str) -> Generator[Effect, None, None]:
        yield self._shell.make_message(f"{name}: parameter not set")
        raise ShellExit(2)

    def _apply_operator(
        self, value: str, part: Parameter, word: Word
    ) -> Generator[Effect, None, str]:
        operator = part.operator
        if operator == ":":
            start = yield from self.evaluate((yield from self.expand_text(word)))
            start = max(len(value) + start, 0) if start < 0 else start
            if part.more is None:
                return value[start:]
            length = yield from self.evaluate((yield from self.expand_text(part.more)))
            return value[start : start + length if length >= 0 else len(value) + length]
        pattern = yield from self.expand_pattern(word)
        if operator in ("/", "//"):
            new = (yield from self.expand_text(part.more)) if part.more is not None else ""
            return (yield from self._replace(value, pattern, new, every=operator == "//"))
        return (yield from _trim(value, pattern, operator, self._shell.meter))

    def _replace(
        self, value: str, pattern: str, new: str, *, every: bool
    ) -> Generator[Effect, None, str]:
        """Replace the longest match of a pattern, or each."""
        pieces: list[str] = []
        position = 0
        meter = self._shell.meter
        with self._shell.context.tasks.account.hold() as hold:
            glob = yield from compile_glob(pattern, meter)
            while pattern and (match := (yield from glob.find_match(value, position, meter))):
                start, end = match
                yield from meter.spend(1 + len(new) // WorkMeter.CHARACTERS)
                pieces += (value[position:start], new)
                hold.resize(hold.size + start - position + len(new))
                position = end
                if not every:
                    break
            return "".join(pieces) + value[position:]


def _trim(value: str, pattern: str, operator: str, meter: WorkMeter) -> Evaluation[str]:
    """Remove the shortest or longest match from one end."""
    if not has_glob(pattern):
        text = unescape_glob(pattern)
        return value.removeprefix(text) if operator[0] == "#" else value.removesuffix(text)
    glob, is_longest = (yield from compile_glob(pattern, meter)), len(operator) == 2
    if operator[0] == "#":
        return value[(yield from glob.find_end(value, meter, is_longest=is_longest)) or 0 :]
    return value[: (yield from glob.find_start(value, meter, is_longest=is_longest))]

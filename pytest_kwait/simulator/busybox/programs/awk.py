"""`awk`: patterns and actions, fields, arrays, regular expressions and the usual functions.

Functions of a script's own, `getline`, pipes and redirection are not simulated.

Source: POSIX.1-2024, utilities, `awk`.
"""

from __future__ import annotations

import math
import random
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.simulator.busybox.libbb import (
    LineReader,
    UsageError,
    WorkMeter,
    open_input,
    parse_options,
    read_whole,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import STEP
from pytest_kwait.simulator.busybox.patterns import compile_regex
from pytest_kwait.simulator.busybox.programs.awk_parser import parse_program, unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.simulator.busybox.os.memory import MemoryHold
    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext
    from pytest_kwait.simulator.busybox.programs.awk_parser import Node, Rule
    from pytest_kwait.simulator.linear_regex import Regex

    T = TypeVar("T")
    Evaluation = Generator[Effect, None, T]
    """A part of a program's work, which yields a step now and then."""

    Value = float | str | None
    """A number, a text, or a variable that was never set."""

_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_MAX_INTEGER = 1e16
_MAX_DIGITS = 1 << 16
"""Digits of a number that count; each takes time."""
_VALUE_BYTES = 64
_PIECE_BYTES = 8
_PIECE_WORK = 2
_RECORD_WORK = 5
_CHUNK = 1 << 14
_BLANK = re.compile(r"\s")
_MAX_WIDTH = 1 << 16
_FORMAT = re.compile(r"%(%|[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[a-zA-Z])")


class _Text(str):
    """A text from the input, which is compared as a number if it looks like one."""

    __slots__ = ()


class _Jump(Exception):
    """`next`, `break`, `continue` or `exit`; its text is the word."""


def _to_number(value: Value) -> float:
    if value is None or isinstance(value, float):
        return value or 0.0
    match = _NUMBER.match(value)
    return float(match[1][:_MAX_DIGITS]) if match is not None else 0.0


def _to_text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if math.isnan(value) or math.isinf(value):
        return str(value)
    return str(int(value)) if value == int(value) and abs(value) < _MAX_INTEGER else f"{value:.6g}"


def _is_numeric(value: Value) -> bool:
    if isinstance(value, _Text):
        match = _NUMBER.match(value)
        return match is not None and not value[match.end() :].strip()
    return not isinstance(value, str)


def _is_true(value: Value) -> bool:
    return _to_number(value) != 0 if _is_numeric(value) else bool(value)


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Regex:
    return compile_regex(pattern, extended=True)


def _parse_replacement(text: str) -> list[str | None]:
    """Return the parts of the replacement of `sub` and `gsub`; None for the match."""
    parts: list[str | None] = []
    position = 0
    for match in re.finditer(r"\\\\|\\&|&", text):
        parts += (text[position : match.start()], {"\\\\": "\\", "\\&": "&"}.get(match[0]))
        position = match.end()
    return [part for part in [*parts, text[position:]] if part != ""]


@dataclass(slots=True)
class _Machine:
    """The variables, arrays and fields of a running program."""

    hold: MemoryHold
    meter: WorkMeter
    variables: dict[str, Value] = field(default_factory=dict)
    arrays: dict[str, dict[str, Value]] = field(default_factory=dict)
    record: str = ""
    fields: list[str] | None = None
    output: list[str] = field(default_factory=list)
    status: int = 0
    generator: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311
    seed: float = 0.0
    _held: int = 0

    # -- values

    def grow(self, size: int) -> None:
        """Count memory of values.

        Raises:
            MemoryError: see `MemoryHold.resize`.
        """
        self._held = max(self._held + size, 0)
        self.hold.resize(self._held)

    def set_record(self, text: str) -> None:
        """Replace the record; its fields are split on use."""
        self.record, self.fields = text, None

    def get_fields(self) -> Evaluation[list[str]]:
        if self.fields is None:
            self.fields = yield from self.split(
                self.record, _to_text(self.variables.get("FS", " "))
            )
        return self.fields

    def split(self, text: str, separator: str) -> Evaluation[list[str]]:
        parts: list[str] = []
        with self.hold_pieces(parts) as add:
            if separator == " " or (len(separator) == 1 and separator not in "\\|" and text):
                yield from self.split_at(text, separator, parts)
                return parts
            if not text:
                return parts
            start = 0
            pattern = _compile(separator if separator != "|" else r"\|")
            yield from self.meter.spend(pattern.estimate_work(text))
            for match in pattern.find_all(text):
                yield from self.meter.spend(_PIECE_WORK)
                if match.end() > match.start():
                    add(text[start : match.start()])
                    start = match.end()
            add(text[start:])
        return parts

    def split_at(self, text: str, separator: str, parts: list[str]) -> Evaluation[None]:
        """Add the parts of a text between blanks, or between characters, to a list."""
        blank = separator == " "
        position = 0
        before = self._held
        while position <= len(text):
            found = (_BLANK if blank else re.compile(re.escape(separator))).search(
                text, position + _CHUNK
            )
            end = len(text) if found is None else found.start()
            chunk = text[position:end].split(None if blank else separator)
            self.grow(end - position + _VALUE_BYTES * len(chunk))
            parts += chunk
            position = end + 1
            yield from self.meter.spend(len(chunk) // 8 + len(text) // _CHUNK)
        self.grow(before - self._held)

    @contextmanager
    def hold_pieces(self, pieces: list[str]) -> Iterator[Callable[[str], None]]:
        """Yield a function that adds a piece of a text, whose memory counts until the end."""
        size = 0

        def add(piece: str) -> None:
            nonlocal size
            pieces.append(piece)
            size += len(piece) + _PIECE_BYTES
            self.grow(len(piece) + _PIECE_BYTES)

        try:
            yield add
        finally:
            self._held -= size

    def handle(self, *texts: str) -> Evaluation[None]:
        """Count the work and the memory of a text that is made of others."""
        size = sum(map(len, texts))
        self.reserve(size)
        yield from self.meter.spend(size // WorkMeter.CHARACTERS)

    def reserve(self, size: int) -> None:
        """Count the memory of a text that does not stay."""
        self.grow(size)
        self._held -= size

    def get_field(self, number: int) -> Evaluation[Value]:
        """Return a field; 0 for the record."""
        if number == 0:
            return _Text(self.record)
        fields = yield from self.get_fields()
        return _Text(fields[number - 1]) if number <= len(fields) else None

    def set_field(self, number: int, text: str) -> Evaluation[None]:
        """Replace a field; the record is made again."""
        if number == 0:
            self.set_record(text)
            return
        fields = yield from self.get_fields()
        self.grow(max(number - len(fields), 0) * _VALUE_BYTES)
        fields += [""] * (number - len(fields))
        fields[number - 1] = text
        yield from self.join_fields(fields)

    def set_count(self, count: int) -> Evaluation[None]:
        """Set the number of fields."""
        fields = yield from self.get_fields()
        self.grow(max(count - len(fields), 0) * _VALUE_BYTES)
        self.fields = [*fields[:count], *[""] * (count - len(fields))]
        yield from self.join_fields(self.fields)

    def join_fields(self, fields: list[str]) -> Evaluation[None]:
        """Make the record of fields."""
        self.record = yield from self.join(_to_text(self.variables.get("OFS", " ")), fields)

    def join(self, separator: str, texts: list[str]) -> Evaluation[str]:
        """Join texts."""
        size = len(separator) * len(texts) + sum(map(len, texts))
        self.reserve(size)
        yield from self.meter.spend((size + _VALUE_BYTES * len(texts)) // WorkMeter.CHARACTERS)
        return separator.join(texts)

    def make_key(self, keys: tuple[Node, ...]) -> Evaluation[str]:
        """Return the key of an array's element."""
        separator = _to_text(self.variables.get("SUBSEP", "\x1c"))
        return (yield from self.join(separator, (yield from self.evaluate_texts(keys))))

    def evaluate_texts(self, nodes: tuple[Node, ...]) -> Evaluation[list[str]]:
        """Return the texts of expressions."""
        texts: list[str] = []
        for node in nodes:
            text = _to_text((yield from self.evaluate(node)))
            texts.append(text)
        return texts

    def evaluate_all(self, nodes: tuple[Node, ...]) -> Evaluation[list[Value]]:
        """Return the values of expressions."""
        values: list[Value] = []
        for node in nodes:
            value = yield from self.evaluate(node)
            values.append(value)
        return values

    def assign(self, target: Node, value: Value) -> Evaluation[Value]:
        """Set a variable, field or element."""
        match target:
            case ("variable", "NF"):
                yield from self.set_count(int(_to_number(value)))
            case ("variable", name):
                before = self.variables.get(name)
                self.variables[name] = value
                self.grow(_measure(value) - _measure(before))
            case ("field", inner):
                yield from self.set_field((yield from self.find_number(inner)), _to_text(value))
            case (_, name, keys):
                key = yield from self.make_key(keys)
                array = self.arrays.setdefault(name, {})
                new = 0 if key in array else len(key) + _VALUE_BYTES
                self.grow(new + _measure(value) - _measure(array.get(key)))
                array[key] = value
        return value

    def find_number(self, node: Node) -> Evaluation[int]:
        """Return the number of a field."""
        number = int(_to_number((yield from self.evaluate(node))))
        if number < 0:
            raise UsageError("awk: cmd. line:1: Access to negative field")
        return number

    # -- expressions

    def evaluate(self, node: Node) -> Evaluation[Value]:
        yield from self.meter.spend(1)
        match node:
            case ("number" | "string", value):
                constant: Value = value
                return constant
            case ("regex", pattern):
                expression = _compile(pattern)
                yield from self.meter.spend(expression.estimate_work(self.record))
                return float(expression.is_in(self.record))
            case ("grouped", inner):
                return (yield from self.evaluate(inner))
            case ("group", _):
                raise UsageError("awk: cmd. line:1: Unexpected token")
            case ("variable", "NF"):
                return float(len((yield from self.get_fields())))
            case ("variable", name):
                return self.variables.get(name)
            case ("field", inner):
                return (yield from self.get_field((yield from self.find_number(inner))))
            case ("element", name, keys):
                key = yield from self.make_key(keys)
                array = self.arrays.setdefault(name, {})
                if key not in array:
                    self.grow(len(key) + _VALUE_BYTES)
                return array.setdefault(key, None)
            case ("assign", target, value_node):
                return (yield from self.assign(target, (yield from self.evaluate(value_node))))
            case ("increase", target, step, is_before):
                before = _to_number((yield from self.evaluate(target)))
                yield from self.assign(target, before + step)
                return before + step if is_before else before
            case ("calculate" | "join", *_):
                return (yield from self._evaluate_chain(node))
            case ("unary", "!", inner):
                return float(not _is_true((yield from self.evaluate(inner))))
            case ("unary", sign, inner):
                number = _to_number((yield from self.evaluate(inner)))
                return -number if sign == "-" else number
            case ("call", name, arguments):
                return (yield from self.call(name, arguments))
            case ("choose", condition, true_branch, false_branch):
                is_so = yield from self.is_so(condition)
                return (yield from self.evaluate(true_branch if is_so else false_branch))
        return float((yield from self.is_so(node)))

    def _evaluate_chain(self, node: Node) -> Evaluation[Value]:
        """Return the value of operations from left to right, however many they are."""
        chain: list[Node] = []
        while node[0] in ("calculate", "join"):
            yield from self.meter.spend(1)
            chain.append(node)
            node = node[-2]
        value = yield from self.evaluate(node)
        for operation in reversed(chain):
            if operation[0] == "join":
                first = _to_text(value)
                second = _to_text((yield from self.evaluate(operation[-1])))
                yield from self.handle(first, second)
                value = first + second
            else:
                left = _to_number(value)
                right = _to_number((yield from self.evaluate(operation[-1])))
                value = self.calculate(operation[1], left, right)
        return value

    def _find_truth(self, node: Node) -> Evaluation[bool]:
        """Return the value of conditions that are joined by `&&` or `||`, however many they are."""
        chain: list[Node] = []
        while node[0] in ("and", "or"):
            yield from self.meter.spend(1)
            chain.append(node)
            node = node[1]
        holds = yield from self.is_so(node)
        for joint, _, right in reversed(chain):
            if holds == (joint == "and"):
                holds = yield from self.is_so(right)
        return holds

    def is_so(self, node: Node) -> Evaluation[bool]:
        """Return the value of a condition."""
        match node:
            case ("and" | "or", _, _):
                return (yield from self._find_truth(node))
            case ("in", keys, name):
                return (yield from self.make_key(keys)) in self.arrays.get(name, {})
            case ("match", sign, left, right):
                text = _to_text((yield from self.evaluate(left)))
                pattern = yield from self.find_pattern(right)
                yield from self.meter.spend(pattern.estimate_work(text))
                is_found = pattern.is_in(text)
                return is_found if sign == "~" else not is_found
            case ("compare", sign, left, right):
                first = yield from self.evaluate(left)
                second = yield from self.evaluate(right)
                yield from self.meter.spend(
                    max(_measure(first), _measure(second)) // WorkMeter.CHARACTERS
                )
                return _compare(sign, first, second)
        return _is_true((yield from self.evaluate(node)))

    def find_pattern(self, node: Node) -> Evaluation[Regex]:
        """Return the regular expression that an argument is."""
        if node[0] == "regex":
            return _compile(node[1])
        return _compile(_to_text((yield from self.evaluate(node))))

    @staticmethod
    def calculate(sign: str, left: float, right: float) -> float:
        """Return the result of an arithmetic operation."""
        if sign in "/%" and not right:
            raise UsageError("awk: cmd. line:1: Division by zero")
        try:
            match sign:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/":
                    return left / right
                case "%":
                    return math.fmod(left, right)
            return math.pow(left, right)
        except (OverflowError, ValueError):
            return math.inf

    # -- functions

    def call(self, name: str, arguments: tuple[Node, ...]) -> Evaluation[Value]:
        """Return the result of a function."""
        if name in ("sub", "gsub"):
            return (yield from self.substitute(arguments, everywhere=name == "gsub"))
        if name == "split":
            return (yield from self.split_into(arguments))
        if name == "length" and arguments and self.is_array(arguments[0]):
            return float(len(self.arrays[arguments[0][1]]))
        if name == "match":
            searched = _to_text((yield from self.evaluate(arguments[0])))
            pattern = yield from self.find_pattern(arguments[1])
            yield from self.meter.spend(pattern.estimate_work(searched))
            match = pattern.search(searched)
            start = match.start() + 1 if match is not None else 0
            length = match.end() - match.start() if match is not None else -1
            self.variables |= {"RSTART": float(start), "RLENGTH": float(length)}
            return float(start)
        values = yield from self.evaluate_all(arguments)
        if name == "sprintf":
            return (yield from self.format(values))
        if name == "rand":
            return self.generator.random()
        if name == "srand":
            before, self.seed = self.seed, _to_number(values[0]) if values else 0.0
            self.generator.seed(self.seed)
            return before
        if name == "length":
            return float(len(_to_text(values[0]) if values else self.record))
        if name == "substr":
            return _cut(values)
        text = [_to_text(value) for value in values]
        yield from self.handle(*text)
        if name == "index":
            return float(text[0].find(text[1]) + 1)
        if name in ("tolower", "toupper"):
            return text[0].lower() if name == "tolower" else text[0].upper()
        return _calculate_function(name, [_to_number(value) for value in values])

    def format(self, values: list[Value]) -> Evaluation[str]:
        """Return the text of `printf`."""
        template = _to_text(values[0]) if values else ""
        rest = iter(values[1:])
        pieces: list[str] = []
        position = 0
        with self.hold_pieces(pieces) as add:
            for match in _FORMAT.finditer(template):
                add(template[position : match.start()])
                position = match.end()
                piece = _format_value(match, rest)
                add(piece)
                yield from self.meter.spend(_PIECE_WORK + len(piece) // WorkMeter.CHARACTERS)
            return "".join(pieces) + template[position:]

    def is_array(self, node: Node) -> bool:
        return node[0] == "variable" and node[1] in self.arrays

    def substitute(self, arguments: tuple[Node, ...], *, everywhere: bool) -> Evaluation[float]:
        """Replace matches in a variable or the record; return their number."""
        pattern = yield from self.find_pattern(arguments[0])
        replacement = _to_text((yield from self.evaluate(arguments[1])))
        target = arguments[2] if len(arguments) > 2 else ("field", ("number", 0.0))

        text = _to_text((yield from self.evaluate(target)))
        yield from self.meter.spend(pattern.estimate_work(text))
        parts = _parse_replacement(replacement)
        pieces: list[str] = []
        position = count = 0
        with self.hold_pieces(pieces) as add:
            for match in pattern.find_all(text):
                yield from self.meter.spend(_PIECE_WORK * (1 + len(parts)))
                add(text[position : match.start()])
                for part in parts:
                    add((match[0] or "") if part is None else part)
                position, count = match.end(), count + 1
                if not everywhere:
                    break
            changed = "".join(pieces) + text[position:]
        if count and target[0] in ("variable", "field", "element"):
            yield from self.assign(target, changed)
        return float(count)

    def split_into(self, arguments: tuple[Node, ...]) -> Evaluation[float]:
        """Split a text into an array; return the number of parts."""
        text = _to_text((yield from self.evaluate(arguments[0])))
        separator = _to_text(self.variables.get("FS", " "))
        if len(arguments) > 2:
            separator_node = arguments[2]
            separator = (
                separator_node[1]
                if separator_node[0] == "regex"
                else _to_text((yield from self.evaluate(separator_node)))
            )
        parts = yield from self.split(text, separator)
        self.grow(len(text) + len(parts) * _VALUE_BYTES)
        elements: dict[str, Value] = {}
        for key, part in enumerate(parts, 1):
            yield from self.meter.spend(1)
            elements[str(key)] = _Text(part)
        self.arrays[arguments[1][1]] = elements
        return float(len(parts))

    # -- statements

    def run(self, node: Node) -> Generator[Effect, None, None]:
        yield from self.meter.spend(1)
        match node:
            case ("block", statements):
                for statement in statements:
                    yield from self.run(statement)
            case ("expression", inner):
                yield from self.evaluate(inner)
            case ("print", arguments, _):
                texts = (yield from self.evaluate_texts(arguments)) or [self.record]
                line = yield from self.join(_to_text(self.variables.get("OFS", " ")), texts)
                yield from self.write(line + _to_text(self.variables.get("ORS", "\n")))
            case ("printf", arguments, _):
                values = yield from self.evaluate_all(arguments)
                yield from self.write((yield from self.format(values)))
            case ("if", condition, first, second):
                yield from self.run(first if (yield from self.is_so(condition)) else second)
            case ("while", condition, body, step):
                yield from self.loop(body, lambda: self.is_so(condition), step)
            case ("do", condition, body):
                yield from self.loop(body, lambda: self.is_so(condition), is_tested_first=False)
            case ("each", name, array, body):
                keys = iter(list(self.arrays.get(array, {})))
                yield from self.loop(body, lambda: self.take_key(name, array, keys))
            case ("delete", name, None):
                self.arrays[name] = {}
            case ("delete", name, keys):
                key = yield from self.make_key(keys)
                self.arrays.setdefault(name, {}).pop(key, None)
            case ("exit", status):
                if status is not None:
                    self.status = int(_to_number((yield from self.evaluate(status))))
                raise _Jump("exit")
            case (word,):
                raise _Jump(word)

    def take_key(self, name: str, array: str, keys: Iterator[str]) -> Evaluation[bool]:
        """Set a loop's variable to the next key that is still there."""
        for key in keys:
            yield from self.meter.spend(1)
            if key in self.arrays.get(array, {}):
                self.variables[name] = _Text(key)
                return True
        return False

    def loop(
        self,
        body: Node,
        goes_on: Callable[[], Evaluation[bool]],
        step: Node | None = None,
        *,
        is_tested_first: bool = True,
    ) -> Generator[Effect, None, None]:
        """Repeat a statement."""
        while not is_tested_first or (yield from goes_on()):
            is_tested_first = True
            yield STEP
            try:
                yield from self.run(body)
            except _Jump as jump:
                if str(jump) == "break":
                    return
                if str(jump) != "continue":
                    raise
            if step is not None:
                yield from self.run(step)

    def write(self, text: str) -> Generator[Effect, None, None]:
        effect = write_out(text)
        yield effect
        if effect.error:
            raise UsageError(f"awk: write error: {effect.error}")


def _format_value(match: re.Match[str], rest: Iterator[Value]) -> str:
    """Return the text of a directive of `printf`."""
    if match[1] == "%":
        return "%"
    spec = match[0]
    while "*" in spec:
        spec = spec.replace("*", str(int(_to_number(next(rest, None)))), 1)
    if any(int(number) > _MAX_WIDTH for number in re.findall(r"\d+", spec)):
        raise UsageError("awk: cmd. line:1: Invalid format specifier")
    value, kind = next(rest, None), spec[-1]
    if kind == "s":
        return spec % _to_text(value)
    if kind == "c":
        text = _to_text(value)[:1] if isinstance(value, str) else chr(int(_to_number(value)))
        return f"{spec[:-1]}s" % text
    if kind in "di":
        return f"{spec[:-1]}d" % int(_to_number(value))
    if kind in "oxXu":
        return f"{spec[:-1]}{kind.replace('u', 'd')}" % int(_to_number(value))
    if kind in "eEfFgG":
        return spec % _to_number(value)
    raise UsageError("awk: cmd. line:1: Invalid format specifier")


def _measure(value: Value) -> int:
    return len(value) if isinstance(value, str) else 0


def _compare(sign: str, left: Value, right: Value) -> bool:
    first: Any
    second: Any
    if _is_numeric(left) and _is_numeric(right):
        first, second = _to_number(left), _to_number(right)
    else:
        first, second = _to_text(left), _to_text(right)
    match sign:
        case "<":
            return bool(first < second)
        case "<=":
            return bool(first <= second)
        case "==":
            return bool(first == second)
        case "!=":
            return bool(first != second)
        case ">":
            return bool(first > second)
    return bool(first >= second)


def _cut(values: list[Value]) -> str:
    """Return `substr`: positions begin at 1 and may lie outside of the text."""
    text = _to_text(values[0])
    start = round(_to_number(values[1]))
    end = start + round(_to_number(values[2])) if len(values) > 2 else len(text) + 1
    return text[max(start - 1, 0) : max(end - 1, 0)]


def _calculate_function(name: str, numbers: list[float]) -> float:
    functions: dict[str, Callable[..., float]] = {
        "atan2": math.atan2, "cos": math.cos, "exp": math.exp, "int": math.trunc, "log": math.log,
        "sin": math.sin, "sqrt": math.sqrt,
    }  # fmt: skip
    try:
        return float(functions[name](*numbers))
    except (ValueError, OverflowError):
        return math.nan
    except TypeError:
        raise UsageError("awk: cmd. line:1: Too few arguments") from None


def _selects(machine: _Machine, rule: Rule) -> Evaluation[bool]:
    """Return whether the pattern of a rule selects the record."""
    if rule.first is None:
        return True
    if rule.last is None:
        return (yield from machine.is_so(rule.first))
    if not rule.within and not (yield from machine.is_so(rule.first)):
        return False
    rule.within = not (yield from machine.is_so(rule.last))
    return True


def _read_records(
    machine: _Machine, number: int, act: Callable[[str], Generator[Effect, None, None]]
) -> Generator[Effect, None, None]:
    """Call `act` with each record of a file."""
    separator = _to_text(machine.variables.get("RS", "\n"))
    if separator != "\n":
        data = (yield from read_whole(number, machine.hold)).decode(errors="surrogateescape")
        text = data.strip("\n") if not separator else data.removesuffix("\n")
        position = 0
        for match in re.finditer(re.escape(separator) or r"\n\n+", text):
            yield from act(text[position : match.start()])
            position = match.end()
        yield from act(text[position:])
        return
    lines = LineReader(number, machine.hold)
    while batch := (yield from lines.read_batch()):
        for line in batch:
            yield from act(line.removesuffix(b"\n").decode(errors="surrogateescape"))


def _run_records(
    context: ProcessContext, machine: _Machine, rules: list[Rule], names: list[str]
) -> Process:
    code = count = number_in_file = 0

    def act(record: str) -> Generator[Effect, None, None]:
        nonlocal count, number_in_file
        count, number_in_file = count + 1, number_in_file + 1
        machine.variables |= {"NR": float(count), "FNR": float(number_in_file)}
        machine.set_record(record)
        yield from machine.meter.spend(_RECORD_WORK)
        for rule in rules:
            if (yield from _selects(machine, rule)):
                try:
                    yield from machine.run(rule.action)
                except _Jump as jump:
                    if str(jump) != "next":
                        raise
                    return

    for name in names:
        number_in_file = 0
        match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", name, re.DOTALL)
        if match is not None:
            machine.variables[match[1]] = _Text((yield from unescape(match[2], machine.meter)))
            continue
        machine.variables["FILENAME"] = "" if name == "-" else name
        try:
            with open_input(context, name) as source:
                yield from _read_records(machine, source, act)
        except FileSystemError as fault:
            yield write_error(f"awk: {name}: {fault}")
            code = 2
    return code


def awk(context: ProcessContext, args: list[str]) -> Process:
    """Run a program over the records of files: `-F`, `-v NAME=VALUE`, `-f FILE`."""
    options, rest = yield from parse_options("awk", args, "", "Fvf", "eE", mixed=False)
    if "f" in options:
        content = context.files.read(context.resolve_path(options["f"]))
        if content is None:
            raise UsageError(f"awk: {options['f']}: No such file or directory")
        text = content.decode(errors="surrogateescape")
    elif rest:
        text = rest.pop(0)
    else:
        raise UsageError("BusyBox: usage: awk [-F SEP] [-v VAR=VAL] [-f FILE] [PROGRAM] [FILE]...")
    meter = WorkMeter()
    rules = yield from parse_program(text, meter)
    with context.tasks.account.hold() as hold:
        machine = _Machine(hold, meter)
        if "F" in options:
            separator = yield from unescape(options["F"], meter)
            machine.variables["FS"] = "\t" if options["F"] == "t" else separator
        for assignment in options.get("v", "").split("\n") if "v" in options else ():
            name, sign, value = assignment.partition("=")
            if not sign:
                raise UsageError("awk: -v needs NAME=VALUE")
            machine.variables[name] = _Text((yield from unescape(value, meter)))
        machine.arrays["ENVIRON"] = {key: _Text(value) for key, value in context.env.items()}
        return (yield from _run(context, machine, rules, rest))


def _run(
    context: ProcessContext, machine: _Machine, rules: list[Rule], names: list[str]
) -> Process:
    by_kind = {kind: [rule for rule in rules if rule.kind == kind] for kind in ("BEGIN", "END")}
    records = [rule for rule in rules if rule.kind == "record"]
    code = 0
    try:
        for rule in by_kind["BEGIN"]:
            yield from machine.run(rule.action)
        if records or by_kind["END"]:
            has_files = any(not re.match(r"[A-Za-z_]\w*=", name) for name in names)
            files = names if has_files else [*names, "-"]
            code = yield from _run_records(context, machine, records, files)
    except _Jump:
        code = machine.status
        if not by_kind["END"]:
            return code
    try:
        for rule in by_kind["END"]:
            yield from machine.run(rule.action)
    except _Jump:
        code = machine.status
    return machine.status or code

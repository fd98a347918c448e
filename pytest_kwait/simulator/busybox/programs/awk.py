"""`awk`: patterns and actions, fields, arrays, regular expressions and the usual functions.

Functions of a script's own, `getline`, pipes and redirection are not simulated.

Source: POSIX.1-2024, utilities, `awk`.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.busybox.libbb import (
    LineReader,
    UsageError,
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
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.busybox.os.memory import MemoryHold
    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext
    from pytest_kwait.simulator.busybox.programs.awk_parser import Node, Rule
    from pytest_kwait.simulator.linear_regex import Match, Regex

    Value = float | str | None
    """A number, a text, or a variable that was never set."""

_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_MAX_INTEGER = 1e16
_VALUE_BYTES = 64
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
    return float(match[1]) if match is not None else 0.0


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


def _format(values: list[Value]) -> str:
    """Return the text of `printf`."""
    rest = iter(values[1:])

    def replace(match: re.Match[str]) -> str:
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

    return _FORMAT.sub(replace, _to_text(values[0]) if values else "")


@dataclass(slots=True)
class _Machine:
    """The variables, arrays and fields of a running program."""

    hold: MemoryHold
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

    def get_fields(self) -> list[str]:
        if self.fields is None:
            self.fields = self.split(self.record, _to_text(self.variables.get("FS", " ")))
        return self.fields

    @staticmethod
    def split(text: str, separator: str) -> list[str]:
        if separator == " ":
            return text.split()
        if not text:
            return []
        if len(separator) == 1 and separator not in "\\|":
            return text.split(separator)
        parts, start = [], 0
        for match in _compile(separator if separator != "|" else r"\|").find_all(text):
            if match.end() > match.start():
                parts.append(text[start : match.start()])
                start = match.end()
        return [*parts, text[start:]]

    def get_field(self, number: int) -> Value:
        """Return a field; 0 for the record."""
        if number == 0:
            return _Text(self.record)
        fields = self.get_fields()
        return _Text(fields[number - 1]) if number <= len(fields) else None

    def set_field(self, number: int, text: str) -> None:
        """Replace a field; the record is made again."""
        if number == 0:
            self.set_record(text)
            return
        fields = self.get_fields()
        self.grow(max(number - len(fields), 0) * _VALUE_BYTES)
        fields += [""] * (number - len(fields))
        fields[number - 1] = text
        self.record = _to_text(self.variables.get("OFS", " ")).join(fields)

    def set_count(self, count: int) -> None:
        """Set the number of fields."""
        fields = self.get_fields()
        self.grow(max(count - len(fields), 0) * _VALUE_BYTES)
        self.fields = [*fields[:count], *[""] * (count - len(fields))]
        self.record = _to_text(self.variables.get("OFS", " ")).join(self.fields)

    def make_key(self, keys: tuple[Node, ...]) -> str:
        """Return the key of an array's element."""
        separator = _to_text(self.variables.get("SUBSEP", "\x1c"))
        return separator.join(_to_text(self.evaluate(key)) for key in keys)

    def assign(self, target: Node, value: Value) -> Value:
        """Set a variable, field or element."""
        match target:
            case ("variable", "NF"):
                self.set_count(int(_to_number(value)))
            case ("variable", name):
                before = self.variables.get(name)
                self.variables[name] = value
                self.grow(_measure(value) - _measure(before))
            case ("field", inner):
                self.set_field(self.find_number(inner), _to_text(value))
            case (_, name, keys):
                array, key = self.arrays.setdefault(name, {}), self.make_key(keys)
                new = 0 if key in array else len(key) + _VALUE_BYTES
                self.grow(new + _measure(value) - _measure(array.get(key)))
                array[key] = value
        return value

    def find_number(self, node: Node) -> int:
        """Return the number of a field."""
        number = int(_to_number(self.evaluate(node)))
        if number < 0:
            raise UsageError("awk: cmd. line:1: Access to negative field")
        return number

    # -- expressions

    def evaluate(self, node: Node) -> Value:
        match node:
            case ("number" | "string", value):
                constant: Value = value
                return constant
            case ("regex", pattern):
                return float(_compile(pattern).is_in(self.record))
            case ("grouped", inner):
                return self.evaluate(inner)
            case ("group", _):
                raise UsageError("awk: cmd. line:1: Unexpected token")
            case ("variable", "NF"):
                return float(len(self.get_fields()))
            case ("variable", name):
                return self.variables.get(name)
            case ("field", inner):
                return self.get_field(self.find_number(inner))
            case ("element", name, keys):
                return self.arrays.setdefault(name, {}).setdefault(self.make_key(keys), None)
            case ("assign", target, value_node):
                return self.assign(target, self.evaluate(value_node))
            case ("increase", target, step, is_before):
                before = _to_number(self.evaluate(target))
                self.assign(target, before + step)
                return before + step if is_before else before
            case ("calculate", sign, left, right):
                return self.calculate(
                    sign, _to_number(self.evaluate(left)), _to_number(self.evaluate(right))
                )
            case ("join", left, right):
                first = _to_text(self.evaluate(left))
                return first + _to_text(self.evaluate(right))
            case ("unary", "!", inner):
                return float(not _is_true(self.evaluate(inner)))
            case ("unary", sign, inner):
                number = _to_number(self.evaluate(inner))
                return -number if sign == "-" else number
            case ("call", name, arguments):
                return self.call(name, arguments)
            case ("choose", condition, true_branch, false_branch):
                return self.evaluate(true_branch if self.is_so(condition) else false_branch)
        return float(self.is_so(node))

    def is_so(self, node: Node) -> bool:
        """Return the value of a condition."""
        match node:
            case ("and", left, right):
                return self.is_so(left) and self.is_so(right)
            case ("or", left, right):
                return self.is_so(left) or self.is_so(right)
            case ("in", keys, name):
                return self.make_key(keys) in self.arrays.get(name, {})
            case ("match", sign, left, right):
                text = _to_text(self.evaluate(left))
                is_found = self.find_pattern(right).is_in(text)
                return is_found if sign == "~" else not is_found
            case ("compare", sign, left, right):
                return _compare(sign, self.evaluate(left), self.evaluate(right))
        return _is_true(self.evaluate(node))

    def find_pattern(self, node: Node) -> Regex:
        """Return the regular expression that an argument is."""
        if node[0] == "regex":
            return _compile(node[1])
        return _compile(_to_text(self.evaluate(node)))

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

    def call(self, name: str, arguments: tuple[Node, ...]) -> Value:
        """Return the result of a function."""
        if name in ("sub", "gsub"):
            return self.substitute(arguments, everywhere=name == "gsub")
        if name == "split":
            return self.split_into(arguments)
        if name == "length" and arguments and self.is_array(arguments[0]):
            return float(len(self.arrays[arguments[0][1]]))
        if name == "match":
            match = self.find_pattern(arguments[1]).search(_to_text(self.evaluate(arguments[0])))
            start = match.start() + 1 if match is not None else 0
            length = match.end() - match.start() if match is not None else -1
            self.variables |= {"RSTART": float(start), "RLENGTH": float(length)}
            return float(start)
        values = [self.evaluate(argument) for argument in arguments]
        if name == "sprintf":
            return _format(values)
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
        if name == "index":
            return float(text[0].find(text[1]) + 1)
        if name in ("tolower", "toupper"):
            return text[0].lower() if name == "tolower" else text[0].upper()
        return _calculate_function(name, [_to_number(value) for value in values])

    def is_array(self, node: Node) -> bool:
        return node[0] == "variable" and node[1] in self.arrays

    def substitute(self, arguments: tuple[Node, ...], *, everywhere: bool) -> float:
        """Replace matches in a variable or the record; return their number."""
        pattern = self.find_pattern(arguments[0])
        replacement = _to_text(self.evaluate(arguments[1]))
        target = arguments[2] if len(arguments) > 2 else ("field", ("number", 0.0))

        def replace(match: Match) -> str:
            return re.sub(
                r"\\\\|\\&|&",
                lambda escape: {"\\\\": "\\", "\\&": "&"}.get(escape[0], match[0] or ""),
                replacement,
            )

        text = _to_text(self.evaluate(target))
        changed, count = pattern.replace(replace, text, count=0 if everywhere else 1)
        if count and target[0] in ("variable", "field", "element"):
            self.assign(target, changed)
        return float(count)

    def split_into(self, arguments: tuple[Node, ...]) -> float:
        """Split a text into an array; return the number of parts."""
        text = _to_text(self.evaluate(arguments[0]))
        separator = _to_text(self.variables.get("FS", " "))
        if len(arguments) > 2:
            separator_node = arguments[2]
            separator = (
                separator_node[1]
                if separator_node[0] == "regex"
                else _to_text(self.evaluate(separator_node))
            )
        parts = self.split(text, separator)
        self.grow(len(text) + len(parts) * _VALUE_BYTES)
        elements: dict[str, Value] = {str(key): _Text(part) for key, part in enumerate(parts, 1)}
        self.arrays[arguments[1][1]] = elements
        return float(len(parts))

    # -- statements

    def run(self, node: Node) -> Generator[Effect, None, None]:
        match node:
            case ("block", statements):
                for statement in statements:
                    yield from self.run(statement)
            case ("expression", inner):
                self.evaluate(inner)
            case ("print", arguments, _):
                texts = [_to_text(self.evaluate(argument)) for argument in arguments] or [
                    self.record
                ]
                line = _to_text(self.variables.get("OFS", " ")).join(texts)
                yield from self.write(line + _to_text(self.variables.get("ORS", "\n")))
            case ("printf", arguments, _):
                yield from self.write(_format([self.evaluate(argument) for argument in arguments]))
            case ("if", condition, first, second):
                yield from self.run(first if self.is_so(condition) else second)
            case ("while", condition, body, step):
                yield from self.loop(body, lambda: self.is_so(condition), step)
            case ("do", condition, body):
                is_first = [True]
                yield from self.loop(
                    body, lambda: bool(is_first and is_first.pop()) or self.is_so(condition)
                )
            case ("each", name, array, body):
                keys = list(self.arrays.get(array, {}))
                yield from self.loop(body, lambda: self.take_key(name, array, keys))
            case ("delete", name, None):
                self.arrays[name] = {}
            case ("delete", name, keys):
                self.arrays.setdefault(name, {}).pop(self.make_key(keys), None)
            case ("exit", status):
                self.status = self.status if status is None else int(
                    _to_number(self.evaluate(status))
                )  # fmt: skip
                raise _Jump("exit")
            case (word,):
                raise _Jump(word)

    def take_key(self, name: str, array: str, keys: list[str]) -> bool:
        """Set a loop's variable to the next key that is still there."""
        while keys:
            key = keys.pop(0)
            if key in self.arrays.get(array, {}):
                self.variables[name] = _Text(key)
                return True
        return False

    def loop(
        self, body: Node, goes_on: Callable[[], bool], step: Node | None = None
    ) -> Generator[Effect, None, None]:
        """Repeat a statement."""
        while goes_on():
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


def _selects(machine: _Machine, rule: Rule) -> bool:
    """Return whether the pattern of a rule selects the record."""
    if rule.first is None:
        return True
    if rule.last is None:
        return machine.is_so(rule.first)
    if not rule.within and not machine.is_so(rule.first):
        return False
    rule.within = not machine.is_so(rule.last)
    return True


def _read_records(
    machine: _Machine, number: int, act: Callable[[str], Generator[Effect, None, None]]
) -> Generator[Effect, None, None]:
    """Call `act` with each record of a file."""
    separator = _to_text(machine.variables.get("RS", "\n"))
    if separator != "\n":
        data = (yield from read_whole(number, machine.hold)).decode(errors="surrogateescape")
        text = data.strip("\n") if not separator else data.removesuffix("\n")
        for record in re.split(r"\n\n+", text) if not separator else text.split(separator):
            yield from act(record)
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
        for rule in rules:
            if _selects(machine, rule):
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
            machine.variables[match[1]] = _Text(unescape(match[2]))
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
    options, rest = parse_options("awk", args, "", "Fvf", "eE", mixed=False)
    if "f" in options:
        content = context.files.read(context.resolve_path(options["f"]))
        if content is None:
            raise UsageError(f"awk: {options['f']}: No such file or directory")
        text = content.decode(errors="surrogateescape")
    elif rest:
        text = rest.pop(0)
    else:
        raise UsageError("BusyBox: usage: awk [-F SEP] [-v VAR=VAL] [-f FILE] [PROGRAM] [FILE]...")
    rules = parse_program(text)
    with context.tasks.account.hold() as hold:
        machine = _Machine(hold)
        if "F" in options:
            machine.variables["FS"] = "\t" if options["F"] == "t" else unescape(options["F"])
        for assignment in options.get("v", "").split("\n") if "v" in options else ():
            name, sign, value = assignment.partition("=")
            if not sign:
                raise UsageError("awk: -v needs NAME=VALUE")
            machine.variables[name] = _Text(unescape(value))
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

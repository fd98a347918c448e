"""Compile and evaluate CEL expressions as kube-apiserver does, within cost budgets.

The language's own runtime parses and type-checks; literals are checked further: arguments that a
function can never convert, lists and maps of mixed types, arguments that do not fit a format
string. Evaluation happens in `interpreter`, on plain values, because its cost is counted and
limited.

Source: k8s.io/apiserver pkg/cel/environment/base.go, pkg/apis/cel/config.go;
github.com/google/cel-go cel/validator.go, func homogeneousAggregateLiteralValidator;
ext/formatting.go, func stringFormatChecker; checker/format.go, func FormatCELType.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cel_expr_python import cel

from pytest_kwait.simulator.cel.ast import decode_checked_expr, decode_parsed_expr, decode_positions
from pytest_kwait.simulator.cel.interpreter import (
    CostLimitExceeded,
    ExecutionFrame,
    find_planning_error,
    plan,
)
from pytest_kwait.simulator.cel.library.declarations import (
    STAND_IN_NAMES,
    declare_functions,
    describe_functions,
    describe_type,
    resolve_type,
)
from pytest_kwait.simulator.cel.stdlib import FORMATTABLE_TYPES, parse_clauses
from pytest_kwait.simulator.cel.values import ErrorValue, parse_duration, parse_timestamp
from pytest_kwait.simulator.codec.go_text import find_pattern_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from google.protobuf.descriptor_pool import DescriptorPool

    from pytest_kwait.simulator.cel.ast import CheckedAst, Expr, Type

RUNTIME_COST_BUDGET = 10_000_000
"""The cost budget of all rules of one object, or of one policy binding."""

MATCH_CONDITIONS_COST_BUDGET = 2_500_000
"""The cost budget of all match conditions of one policy or webhook."""

_STRING_KINDS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null", "string"}
    | {"timestamp", "uint"}
)
_INTEGER_KINDS = frozenset({"dyn", "int", "uint"})
_CLAUSE_KINDS = {
    "s": (_STRING_KINDS, f"string clause can only be used on {FORMATTABLE_TYPES}"),
    "d": (_INTEGER_KINDS, "decimal clause can only be used on integers"),
    "f": (frozenset({"double", "dyn", "string"}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({"double", "dyn", "string"}), "scientific clause can only be used on doubles"),
    "b": (_INTEGER_KINDS | {"bool"}, "only integers and bools can be formatted as binary"),
    "x": (
        _INTEGER_KINDS | {"bytes", "string"},
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "o": (_INTEGER_KINDS, "octal clause can only be used on integers"),
}
"""By clause: the kinds it accepts, and the message about others."""

_TYPE_DISPLAY_NAMES = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}
_IS_INVALID_ARGUMENT: dict[str, Callable[[str], bool]] = {
    "duration": lambda text: parse_duration(text) is None,
    "timestamp": lambda text: parse_timestamp(text) is None,
    "matches": lambda text: bool(find_pattern_error(text)),
}
"""By function: whether a literal argument is invalid."""

_MAYBE_LITERAL = re.compile(rf"\b(?:{'|'.join(_IS_INVALID_ARGUMENT)})\s*\(|[\[{{]")

_EXTENSIONS = """extensions:
- name: lists
- name: optional
- name: sets
- name: strings
  version: 2
- name: two-var-comprehensions
"""
_CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_IN_STRUCT = re.compile(r"(undefined field '[^']*') not found in struct '[^']*'")
_UNDECLARED_DOTTED_NAME = re.compile(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '(\w+)\.[\w.]*'([^\n]*)\n"
    r"( \| [^\n]*)\n \| \.*\^"
)
_NO_MATCHING_OVERLOAD = re.compile(
    r"(ERROR: <input>:\d+:)(\d+)(: found no matching overload for )'([\w.]+)' applied to "
    r"'\(([^\n]*)\)'(\n \| [^\n]*)"
)
_ERROR_LINE = re.compile(r"^(?:[A-Z_]+: )?ERROR: .*$", re.M)
_WELL_KNOWN_TYPE = re.compile(r"google\.protobuf\.(Duration|Timestamp)")
_STRING_LITERAL = re.compile(
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S
)
_FOLLOW_UP_ERROR = re.compile(
    r"\n?ERROR: <input>:\d+:\d+: expression of type '\*error\*' [^\n]*\n[^\n]*\n \| \.*\^"
)
"""A follow-up error about a node that has no type already."""

_NO_FIELDS = re.compile(r"expression of type ('[^']*') cannot be the operand of a select operation")
_STAND_IN_CALL = re.compile(
    rf"(?:{_STRING_LITERAL.pattern})|\b({'|'.join(STAND_IN_NAMES)})(?=\s*\()", re.S
)
_STAND_IN_NAME = re.compile("|".join(STAND_IN_NAMES.values()))
_ORIGINAL_NAMES = {stand_in: name for name, stand_in in STAND_IN_NAMES.items()}
_NUMBERS = r"\((?:int, double|double, int|int, uint|uint, int|double, uint|uint, double)\)"
_MIXED_NUMBER_COMPARISON = re.compile(
    rf"no matching overload for '_[<>]=?_' applied to '{_NUMBERS}'"
)


def find_literal_type_errors(tree: CheckedAst) -> Iterator[tuple[Expr, str]]:
    """Yield type errors of literals, each with its node."""
    yield from _find_errors(tree.root, tree, formatted=False)


def _find_errors(node: Expr, tree: CheckedAst, *, formatted: bool) -> Iterator[tuple[Expr, str]]:
    called = node.kind == "call" and node.name == "format"
    if called and node.target is not None:
        yield from _find_format_errors(node, node.target, tree)
    if not formatted and node.kind == "list":
        yield from _find_mixed_types(tree, node.parts, node.optional)
    if not formatted and node.kind == "map":
        yield from _find_mixed_types(tree, node.parts[::2], every=True)
        yield from _find_mixed_types(tree, node.parts[1::2], node.optional, every=True)
    for part in (*(() if node.target is None else (node.target,)), *node.parts):
        yield from _find_errors(part, tree, formatted=formatted or called)


def _find_mixed_types(
    tree: CheckedAst,
    parts: list[Expr],
    optional: frozenset[int] = frozenset(),
    *,
    every: bool = False,
) -> Iterator[tuple[Expr, str]]:
    """Return the nodes that differ in type from the first; for a list, only the first such node."""
    first: Type | None = None
    for place, part in enumerate(parts):
        kind = tree.types.get(part.number)
        if kind is not None and place in optional and kind.of:
            kind = kind.of[0]
        if kind is None:
            return
        if _is_dynamic(kind) and not _is_untyped(part):
            continue
        if first is None:
            first = kind
        elif kind != first:
            yield (
                part,
                f"expected type '{format_cel_type(first)}' but found '{format_cel_type(kind)}'",
            )
            if not every:
                return


def _is_dynamic(kind: Type) -> bool:
    """Return whether a type is, or contains, `dyn`."""
    return kind.kind == "dyn" or any(map(_is_dynamic, kind.of))


def _is_untyped(part: Expr) -> bool:
    """Return whether kube-apiserver has no type for the node either.

    The checker here has no maps of lists and no lists of lists, and so no types for their items.
    """
    if part.kind == "ident":
        return part.name in ("object", "oldObject", "params")
    if part.kind == "select" or part.name == "_[_]":
        return _is_untyped(part.parts[0])
    return part.kind == "call" and part.name == "dyn"


def format_cel_type(kind: Type) -> str:
    """Return a type as error messages show it."""
    own = kind.name or kind.kind
    return f"{own}({', '.join(map(format_cel_type, kind.of))})" if kind.of else own


def _find_format_errors(node: Expr, text: Expr, tree: CheckedAst) -> Iterator[tuple[Expr, str]]:
    if text.kind != "literal" or not isinstance(text.value, str):
        return
    if len(node.parts) != 1 or node.parts[0].kind != "list":
        return
    items, count = node.parts[0].parts, 0
    for clause in parse_clauses(text.value):
        if clause is None:
            yield node, "unexpected end of string"
            return
        if count >= len(items):
            yield node, f"index {count} out of range"
            return
        clause_kind = _CLAUSE_KINDS.get(clause.lower() if clause == "X" else clause)
        if clause_kind is None:
            why = f'unrecognized formatting clause "{clause}"'
            yield node, f"could not parse formatting clause: {why}"
            return
        wrong = _find_unformattable(items[count], clause_kind[0], tree, within=clause == "s")
        if wrong is not None:
            detail = _get_format_kind(tree.types.get(wrong.number))
            yield wrong, f"error during formatting: {clause_kind[1]}, was given {detail}"
            return
        count += 1
    if count < len(items):
        detail = f"(expected {count}, got {len(items)})"
        yield node, f"too many arguments supplied to string.format {detail}"


def _find_unformattable(
    node: Expr, kinds: frozenset[str], tree: CheckedAst, *, within: bool
) -> Expr | None:
    """Return the first node of an argument, or of its items, that has none of these kinds."""
    kind = tree.types.get(node.number)
    if kind is not None and kind.kind not in kinds:
        return node
    for part in node.parts if within and node.kind in ("list", "map") else ():
        if (wrong := _find_unformattable(part, kinds, tree, within=True)) is not None:
            return wrong
    return None


def _get_format_kind(kind: Type | None) -> str:
    if kind is None:
        return "dyn"
    return kind.name or _TYPE_DISPLAY_NAMES.get(kind.kind, kind.kind)


def may_have_literals(text: str) -> bool:
    """Return whether an expression may have literals that need validation."""
    return _MAYBE_LITERAL.search(text) is not None


def find_literal_errors(text: str, checked: bytes) -> str:
    """Return the compiler's errors about literals; empty if there are none.

    Args:
        checked: the serialized checked expression.
    """
    wrong: dict[int, str] = {}
    tree = decode_checked_expr(checked)
    for node, why in find_literal_type_errors(tree):
        wrong.setdefault(node.number, why)
    for node in _iterate_calls(tree.root):
        for literal in node.parts[-1:]:
            value = literal.value
            if (
                literal.kind == "literal"
                and isinstance(value, str)
                and _IS_INVALID_ARGUMENT[node.name](value)
            ):
                wrong[literal.number] = f"invalid {node.name} argument"
    if not wrong:
        return ""
    positions = decode_positions(checked)
    errors = sorted((positions.get(number, 0), why) for number, why in wrong.items())
    return "\n".join(_format_error(why, text, offset) for offset, why in errors)


def _iterate_calls(node: Expr) -> Iterator[Expr]:
    if node.name in _IS_INVALID_ARGUMENT and (node.name == "matches") == (node.target is not None):
        yield node
    if node.target is not None:
        yield from _iterate_calls(node.target)
    for part in node.parts:
        yield from _iterate_calls(part)


def _format_error(why: str, text: str, offset: int) -> str:
    line = text.count("\n", 0, offset)
    column = offset - (text.rfind("\n", 0, offset) + 1)
    source = text.split("\n")[line]
    return f"ERROR: <input>:{line + 1}:{column + 1}: {why}\n | {source}\n | {'.' * column}^"


class CompilationError(ValueError):
    """The expression does not compile; the text is the compiler's."""


class EvaluationError(ValueError):
    """The evaluation failed for these variables.

    Args:
        text: the reason, in Kubernetes' words.
        exhausted: whether the cost budget is exhausted.
    """

    def __init__(self, text: str, *, exhausted: bool = False) -> None:
        super().__init__(text)
        self.exhausted = exhausted


class CostBudgetExceededError(ValueError):
    """An evaluation cost more than the budget had left."""

    def __init__(self) -> None:
        super().__init__(
            "validation failed due to running out of cost budget, no further validation rules "
            "will be run"
        )


class CostBudget:
    """The shared cost budget of several evaluations.

    Args:
        left: the cost that is left.
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def charge(self, cost: int) -> None:
        """Subtract the cost of an evaluation.

        Raises:
            CostBudgetExceededError: the budget has less left.
        """
        if cost > self.left:
            raise CostBudgetExceededError
        self.left -= cost


class Expression:
    """One compiled expression.

    Args:
        result: the name of the type of its value; empty if unknown.
        checked: the serialized checked expression; empty if it was not checked.
    """

    def __init__(self, text: str, result: str = "", checked: bytes = b"") -> None:
        self.result = result
        self.checked = checked
        try:
            parsed = _get_parser().compile(text, disable_check=True).serialize()
        except RuntimeError as error:
            raise CompilationError(_format_compile_errors(str(error))) from None
        self._tree = decode_parsed_expr(parsed)
        self._step = plan(self._tree).step

    @property
    def planning_error(self) -> str:
        """The reason why kube-apiserver would not run the expression; empty if it would."""
        return find_planning_error(self._tree)

    def evaluate(self, values: Mapping[str, Any], budget: CostBudget | None = None) -> Any:
        """Return the expression's value.

        Args:
            values: the values of its variables.
            budget: the budget that pays for it; None for no limit.

        Raises:
            EvaluationError: the evaluation failed.
            CostBudgetExceededError: it cost more than the budget had left.
        """
        frame = ExecutionFrame(values)
        try:
            value = self._step(frame)
            exhausted = False
        except CostLimitExceeded:
            value = ErrorValue("operation cancelled: actual cost limit exceeded")
            exhausted = True
        if budget is not None:
            budget.charge(frame.cost)
        if isinstance(value, ErrorValue):
            raise EvaluationError(value.text, exhausted=exhausted)
        return value


def compile_expression(
    text: str, types: Mapping[str, str], pool: DescriptorPool | None = None
) -> Expression:
    """Check and compile an expression.

    Args:
        types: its variables with their types in CEL syntax (`list<int>`), and `optional<…>`, which
            CEL has no syntax for.
        pool: the messages that the types name; None for none.

    Raises:
        CompilationError: it does not compile with these types.
    """
    checked = _check(replace_known_names(text), types, pool)
    if checked is None:
        return Expression(text, "BOOL")
    return Expression(text, checked.return_type().name(), checked.serialize())


def get_checked_type(
    text: str, types: Mapping[str, str], pool: DescriptorPool | None = None
) -> str:
    """Return the name of the type of an expression's value, without compiling it.

    Args:
        types: its variables with their types in CEL syntax.
        pool: the messages that the types name; None for none.

    Raises:
        CompilationError: it does not compile with these types.
    """
    checked = _check(replace_known_names(text), types, pool)
    return "BOOL" if checked is None else checked.return_type().name()


def _check(
    text: str, types: Mapping[str, str], pool: DescriptorPool | None
) -> cel.Expression | None:
    """Return the checked expression; None if its only errors compare numbers of two types.

    Raises:
        CompilationError: it does not compile with these types.
    """
    variables = {
        name: resolve_type(kind) for name, kind in types.items() if "optional<" not in kind
    }
    described = "".join(
        f"- {{name: {name}, {describe_type(kind)[1:]}\n"
        for name, kind in types.items()
        if "optional<" in kind
    )
    text_of = _EXTENSIONS + describe_functions() + (f"variables:\n{described}" if described else "")
    config = cel.NewEnvConfigFromYaml(text_of)
    try:
        checker = cel.NewEnv(
            pool, config=config, variables=variables, functions=declare_functions()
        )
        checked = checker.compile(text)
    except RuntimeError as error:
        message = _format_compile_errors(str(error))
        if _has_only_mixed_number_errors(message):
            return None
        raise CompilationError(message) from None
    if may_have_literals(text) and (message := find_literal_errors(text, checked.serialize())):
        raise CompilationError(_STAND_IN_NAME.sub(lambda match: _ORIGINAL_NAMES[match[0]], message))
    return checked


def _has_only_mixed_number_errors(message: str) -> bool:
    """Return whether all errors compare numbers of two types, which Kubernetes allows."""
    error_lines = [line for line in message.splitlines() if line.startswith("ERROR: ")]
    return bool(error_lines) and all(_MIXED_NUMBER_COMPARISON.search(line) for line in error_lines)


def replace_known_names(text: str) -> str:
    """Return the expression with stand-in names for functions that the library has in part."""

    def changed(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else STAND_IN_NAMES[match[1]]

    return _STAND_IN_CALL.sub(changed, text)


def uses_variable(text: str, name: str) -> bool:
    """Return whether an expression refers to the variable `name`."""
    bare = re.sub(r"//[^\n]*", "", _STRING_LITERAL.sub("''", text))
    return re.search(rf"(?<![\w.]){name}\b(?!\s*\()", bare) is not None


@lru_cache(maxsize=1)
def _get_parser() -> cel.Env:
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(_EXTENSIONS))


def _format_compile_errors(text: str) -> str:
    """Return the compiler's errors in the words of Kubernetes' compiler."""
    text = _STAND_IN_NAME.sub(lambda match: _ORIGINAL_NAMES[match[0]], text)
    text = _NO_FIELDS.sub(
        r"type \1 does not support field selection", _FOLLOW_UP_ERROR.sub("", text)
    )
    text = _ERROR_LINE.sub(
        lambda line: _WELL_KNOWN_TYPE.sub(lambda name: name[1].lower(), line[0]), text
    )
    text = _NO_MATCHING_OVERLOAD.sub(_fix_member_error, text)
    return _UNDECLARED_DOTTED_NAME.sub(
        _fix_undeclared_name, _IN_STRUCT.sub(r"\1", _CODE.sub("", text))
    )


def _fix_member_error(match: re.Match[str]) -> str:
    """Move the receiver of a member function before its arguments."""
    head, column, middle, name, types, source = match.groups()
    if not source[4 : int(column) + 3].rstrip().endswith(f".{name}"):
        return match[0]
    depth = 0
    for at, sign in enumerate(types):
        depth += (sign in "(<") - (sign in ")>")
        if sign == "," and not depth:
            first, rest = types[:at], types[at + 2 :]
            break
    else:
        first, rest = types, ""
    first = first.replace("*error*", "!error!")
    return f"{head}{column}{middle}'{name}' applied to '{first}.({rest})'{source}"


def _fix_undeclared_name(match: re.Match[str]) -> str:
    """Report `a` as unknown for an unknown `a.b`."""
    line, _, name, rest, source = match.groups()
    source_line = source.removeprefix(" | ")
    at = re.search(rf"(?<![\w.]){name}\b", source_line)
    column = at.start() if at else 0
    where = f"ERROR: <input>:{line}:{column + 1}: undeclared reference to '{name}'{rest}"
    return f"{where}\n{source}\n | {'.' * column}^"

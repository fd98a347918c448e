"""Compile and evaluate CEL expressions as kube-apiserver does, within cost budgets.

The language's own runtime parses and type-checks; evaluation happens in `interpreter`, on plain
values, because its cost is counted and limited.

Source: k8s.io/apiserver pkg/cel/environment/base.go, pkg/apis/cel/config.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cel_expr_python import cel

from pytest_kwait.simulator.cel.ast import decode_parsed_expr
from pytest_kwait.simulator.cel.ast_validators import find_literal_errors, may_have_literals
from pytest_kwait.simulator.cel.interpreter import (
    CostLimitExceeded,
    ExecutionFrame,
    find_planning_error,
    plan,
)
from pytest_kwait.simulator.cel.library import (
    STAND_IN_NAMES,
    declare_functions,
    describe_functions,
    describe_type,
    resolve_type,
)
from pytest_kwait.simulator.cel.values import ErrorValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor_pool import DescriptorPool

__all__ = [
    "MATCH_CONDITIONS_COST_BUDGET",
    "RUNTIME_COST_BUDGET",
    "Budget",
    "CompilationError",
    "CostBudgetExceededError",
    "EvaluationError",
    "Expression",
    "compile_expression",
    "get_checked_type",
    "uses_variable",
]

RUNTIME_COST_BUDGET = 10_000_000
"""The cost budget of all rules of one object, or of one policy binding."""

MATCH_CONDITIONS_COST_BUDGET = 2_500_000
"""The cost budget of all match conditions of one policy or webhook."""

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
_ORIGINAL_NAMES = {ours: name for name, ours in STAND_IN_NAMES.items()}
_NUMBERS = r"\((?:int, double|double, int|int, uint|uint, int|double, uint|uint, double)\)"
_MIXED_NUMBER_COMPARISON = re.compile(
    rf"no matching overload for '_[<>]=?_' applied to '{_NUMBERS}'"
)


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


class Budget:
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
        text: the expression.
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

    def evaluate(self, values: Mapping[str, Any], budget: Budget | None = None) -> Any:
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
            found = self._step(frame)
            exhausted = False
        except CostLimitExceeded:
            found = ErrorValue("operation cancelled: actual cost limit exceeded")
            exhausted = True
        if budget is not None:
            budget.charge(frame.cost)
        if isinstance(found, ErrorValue):
            raise EvaluationError(found.text, exhausted=exhausted)
        return found


def compile_expression(
    text: str, types: Mapping[str, str], pool: DescriptorPool | None = None
) -> Expression:
    """Check and compile an expression.

    Args:
        text: the expression.
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
        text: the expression.
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
        said = _format_compile_errors(str(error))
        if _has_only_mixed_number_errors(said):
            return None
        raise CompilationError(said) from None
    if may_have_literals(text) and (said := find_literal_errors(text, checked.serialize())):
        raise CompilationError(_STAND_IN_NAME.sub(lambda found: _ORIGINAL_NAMES[found[0]], said))
    return checked


def _has_only_mixed_number_errors(said: str) -> bool:
    """Return whether all errors compare numbers of two types, which Kubernetes allows."""
    found = [line for line in said.splitlines() if line.startswith("ERROR: ")]
    return bool(found) and all(_MIXED_NUMBER_COMPARISON.search(line) for line in found)


def replace_known_names(text: str) -> str:
    """Return the expression with stand-in names for functions that the library has in part."""

    def changed(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else STAND_IN_NAMES[found[1]]

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
    text = _STAND_IN_NAME.sub(lambda found: _ORIGINAL_NAMES[found[0]], text)
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


def _fix_member_error(found: re.Match[str]) -> str:
    """Move the receiver of a member function before its arguments."""
    head, column, middle, name, types, source = found.groups()
    if not source[4 : int(column) + 3].rstrip().endswith(f".{name}"):
        return found[0]
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


def _fix_undeclared_name(found: re.Match[str]) -> str:
    """Report `a` as unknown for an unknown `a.b`."""
    line, _, name, rest, source = found.groups()
    shown = source.removeprefix(" | ")
    at = re.search(rf"(?<![\w.]){name}\b", shown)
    column = at.start() if at else 0
    where = f"ERROR: <input>:{line}:{column + 1}: undeclared reference to '{name}'{rest}"
    return f"{where}\n{source}\n | {'.' * column}^"

"""Expressions compiled as Kubernetes compiles them, and evaluated within bounds.

An expression is checked against the types of its variables, then run on plain values: the library
cannot read JSON as typed objects. It ends an evaluation after 10,000 steps of its loops, which is
what keeps one from taking for ever; Kubernetes counts a cost instead, and also before a rule is
taken.

Source: k8s.io/apiserver pkg/cel/environment/base.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cel_expr_python import cel

from pytest_kwait.simulator.cel.library import checked_functions, named_type, run_functions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor_pool import DescriptorPool

__all__ = [
    "EvaluationError",
    "Expression",
    "Invalid",
    "checked_type",
    "compiled",
    "optional_form",
    "optional_values",
    "uses",
]

_EXTENSIONS = """extensions:
- name: optional
- name: regex
- name: sets
- name: strings
  version: 2
- name: two-var-comprehensions
"""
_CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_IN_STRUCT = re.compile(r"(undefined field '[^']*') not found in struct '[^']*'")
_DOTTED = re.compile(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '(\w+)\.[\w.]*'([^\n]*)\n"
    r"( \| [^\n]*)\n \| \.*\^"
)
_MISFIT = re.compile(
    r"(ERROR: <input>:\d+:)(\d+)(: found no matching overload for )'([\w.]+)' applied to "
    r"'\(([^\n]*)\)'(\n \| [^\n]*)"
)
_TEXT = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
_SEARCHED = re.compile(rf"(?:{_TEXT.pattern})|\b(index|lastIndex)Of(?=\s*\()", re.S)
_NUMBERS = r"\((?:int, double|double, int|int, uint|uint, int|double, uint|uint, double)\)"
_MIXED = re.compile(rf"no matching overload for '_[<>]=?_' applied to '{_NUMBERS}'")
_LINE = re.compile(r"<input>:(\d+):")
_FORMER, _THERE = "formerValue", "isThere"
"""In place of a variable that may have no value: the value, and whether there is one."""
_BUDGET = "Iteration budget exceeded"


class Invalid(ValueError):
    """The expression cannot be compiled; the text is that of the compiler."""


class EvaluationError(ValueError):
    """The expression has no value for these variables.

    Args:
        text: why, in Kubernetes' words where they are known.
        exhausted: whether it would have taken too long.
    """

    def __init__(self, text: str, *, exhausted: bool = False) -> None:
        super().__init__(text)
        self.exhausted = exhausted


class Expression:
    """One expression that can be evaluated.

    Args:
        text: the expression.
        names: the names of its variables.
        result: the name of the type of its value.
        checked: what the checker made of it, as a message; empty for one that is not checked.
    """

    def __init__(
        self, text: str, names: tuple[str, ...], result: str, checked: bytes = b""
    ) -> None:
        self.result = result
        self.checked = checked
        self._program = _runtime(names).compile(own_names(text), disable_check=True)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Its value as a plain one.

        Raises:
            EvaluationError: it has none.
        """
        try:
            found = self._program.eval(data=dict(values))
        except RuntimeError as error:
            raise _evaluation_error(str(error)) from None
        if found.type() == cel.Type.ERROR:
            raise _evaluation_error(str(found.value()))
        return found.plain_value()


def compiled(
    text: str, types: Mapping[str, str], pool: DescriptorPool | None = None, optional: str = ""
) -> Expression:
    """Check and compile an expression.

    Args:
        text: the expression.
        types: its variables with their types, as the language writes them (`list<int>`).
        pool: the messages that the types name; None for none.
        optional: the variable that may have no value; empty for none.

    Raises:
        Invalid: it has no meaning for these types, or needs what is not there.
    """
    variables = dict(types)
    if optional:
        variables[_FORMER] = variables.pop(optional)
        variables[_THERE] = "bool"
    form = own_names(optional_form(text, optional) if optional else text)
    try:
        checked = _checked(form, variables, pool)
    except Invalid as error:
        if not optional:
            raise
        said = _LINE.sub(lambda found: f"<input>:{int(found[1]) - 1}:", str(error))
        raise Invalid(said) from None
    if checked is None:
        return Expression(form, tuple(variables), "BOOL")
    result = checked.return_type().name()
    return Expression(form, tuple(variables), result, b"" if optional else checked.serialize())


def checked_type(text: str, types: Mapping[str, str], pool: DescriptorPool | None = None) -> str:
    """The name of the type of an expression's value, which is not compiled for running.

    Args:
        text: the expression.
        types: its variables with their types, as the language writes them.
        pool: the messages that the types name; None for none.

    Raises:
        Invalid: it has no meaning for these types.
    """
    checked = _checked(own_names(text), types, pool)
    return "BOOL" if checked is None else checked.return_type().name()


def _checked(
    text: str, types: Mapping[str, str], pool: DescriptorPool | None
) -> cel.Expression | None:
    """What the checker makes of an expression; None where it only compares mixed numbers.

    Raises:
        Invalid: it has no meaning for these types.
    """
    variables = {name: named_type(kind) for name, kind in types.items()}
    config = cel.NewEnvConfigFromYaml(_EXTENSIONS)
    try:
        checker = cel.NewEnv(
            pool, config=config, variables=variables, functions=checked_functions()
        )
        return checker.compile(text)
    except RuntimeError as error:
        said = _compile_text(str(error))
        if _only_mixed_numbers(said):
            return None
        raise Invalid(said) from None


def _only_mixed_numbers(said: str) -> bool:
    """Whether nothing is wrong but that numbers of two types are compared, as Kubernetes does."""
    found = [line for line in said.splitlines() if line.startswith("ERROR: ")]
    return bool(found) and all(_MIXED.search(line) for line in found)


def own_names(text: str) -> str:
    """The expression with the functions of lists that the library knows for texts alone."""

    def changed(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else f"{found[1]}OF"

    return _SEARCHED.sub(changed, text)


def optional_form(text: str, name: str) -> str:
    """The expression with `name` as a variable that may have no value.

    The library takes no such value from outside: the variable of a loop is given one inside.
    """
    values = f"({_THERE} ? [optional.of({_FORMER})] : [optional.none()])"
    return f"{values}.map({name}, (\n{text}\n))[0]"


def optional_values(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of an `optional_form`; `name` has no value where it is not among them."""
    rest = {key: value for key, value in values.items() if key != name}
    return {**rest, _FORMER: values.get(name), _THERE: name in values}


def uses(text: str, name: str) -> bool:
    """Whether an expression speaks of the variable `name`."""
    bare = re.sub(r"//[^\n]*", "", _TEXT.sub("''", text))
    return re.search(rf"(?<![\w.]){name}\b(?!\s*\()", bare) is not None


@lru_cache(maxsize=16)
def _runtime(names: tuple[str, ...]) -> cel.Env:
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables=dict.fromkeys(names, cel.Type.DYN),
        functions=run_functions(),
    )


def _compile_text(text: str) -> str:
    """What the compiler says, as Kubernetes' compiler says it."""
    text = _MISFIT.sub(_member, text.replace("ndexOF", "ndexOf"))
    return _DOTTED.sub(_first_name, _IN_STRUCT.sub(r"\1", _CODE.sub("", text)))


def _member(found: re.Match[str]) -> str:
    """What a member is applied to stands before what it is called with."""
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
    return f"{head}{column}{middle}'{name}' applied to '{first}.({rest})'{source}"


def _first_name(found: re.Match[str]) -> str:
    """Of an unknown `a.b` it is `a` that is unknown."""
    line, _, name, rest, source = found.groups()
    shown = source.removeprefix(" | ")
    at = re.search(rf"(?<![\w.]){name}\b", shown)
    column = at.start() if at else 0
    where = f"ERROR: <input>:{line}:{column + 1}: undeclared reference to '{name}'{rest}"
    return f"{where}\n{source}\n | {'.' * column}^"


def _evaluation_error(text: str) -> EvaluationError:
    if _BUDGET in text:
        said = "operation cancelled: actual cost limit exceeded"
        return EvaluationError(said, exhausted=True)
    text = _CODE.sub("", text)
    if found := re.fullmatch(r'Key not found in map : "?(.*?)"?', text, re.S):
        text = f"no such key: {found[1]}"
    elif text.startswith(("No matching overloads found", "Applying SELECT")):
        text = "no such overload"
    elif found := re.fullmatch(r"Index error: index=(-?\d+) size=\d+", text):
        text = f"index out of bounds: {found[1]}"
    elif text == "divide by zero":
        text = "division by zero"
    return EvaluationError(text)

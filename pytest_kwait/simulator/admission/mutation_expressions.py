"""Expressions that say how an object is to be changed: checked, evaluated, and done.

Source: k8s.io/apiserver pkg/admission/plugin/policy/mutating/patch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.webhooks.json_patch import JsonPatchError, apply_operations
from pytest_kwait.simulator.cel.expressions import (
    CompilationError,
    CostBudgetExceededError,
    EvaluationError,
)
from pytest_kwait.simulator.cel.object_literals import (
    declare_types,
    to_checked_form,
    to_json,
    to_runtime_form,
)
from pytest_kwait.simulator.codec.schema import Form
from pytest_kwait.simulator.managedfields.apply import merge_configuration
from pytest_kwait.simulator.managedfields.field_manager import object_shape
from pytest_kwait.simulator.managedfields.typed_check import find_type_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait.simulator.admission.cel_expressions import Activation
    from pytest_kwait.simulator.codec.schema import Shape
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["MUTATION_FIELDS", "MutationError", "apply_mutation", "mutation_compilation_error"]

MUTATION_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
"""By the type of a mutation the field that has its expression."""

_RESULT_TYPES = {"ApplyConfiguration": "Object", "JSONPatch": "list(JSONPatch)"}
_GENERATED_TYPE = re.compile(r"\bObject_[\w_]+")


class MutationError(ValueError):
    """A mutation cannot be done; the text says why."""


def mutation_compilation_error(
    text: str, kind: str, variables: Mapping[str, Obj], *, params: bool
) -> str:
    """Why the expression of a mutation cannot be taken, empty if it can.

    Args:
        text: the expression.
        kind: the type of the mutation.
        variables: those of its policy, with what is known of their types.
        params: whether there are parameters.
    """
    # Not at import: this is the one cycle, as it checks what the other one evaluates.
    from pytest_kwait.simulator.admission.cel_expressions import value_type

    try:
        found = value_type(
            to_checked_form(text),
            variables,
            params=params,
            declare=lambda pool: declare_types(text, pool),
        )
    except CompilationError as error:
        return f"compilation failed: {_restore_type_names(str(error), text)}"
    shown = _type_text(found)
    return (
        ""
        if shown == _RESULT_TYPES[kind]
        else f"must evaluate to {_RESULT_TYPES[kind]} but got {shown}"
    )


def _restore_type_names(said: str, text: str) -> str:
    """What the compiler says, of the expression as it was written."""
    form = to_checked_form(text)
    for ours, theirs in zip(form.splitlines(), text.splitlines(), strict=True):
        said = said.replace(f" | {ours}\n", f" | {theirs}\n")
    said = said.replace(r"'\u003F'", "'?'")
    return _GENERATED_TYPE.sub(lambda found: found[0].replace("_", "."), said)


def _type_text(name: str) -> str:
    """A type as Kubernetes writes it."""
    found = re.sub(r"\b(?!Object|JSONPatch)[A-Z]+\b", lambda part: part[0].lower(), name)
    found = _GENERATED_TYPE.sub(lambda part: part[0].replace("_", "."), found)
    return found.replace("<", "(").replace(">", ")")


def apply_mutation(mutation: Obj, situation: Activation, kind: Kind, shown: Obj) -> Obj:
    """The object after a mutation.

    Args:
        mutation: the mutation.
        situation: the request, with the object as it is.
        kind: the version of the kind.
        shown: the object in that version.

    Raises:
        MutationError: it cannot be done.
    """
    by_patch = mutation["patchType"] == "JSONPatch"
    text: str = mutation[MUTATION_FIELDS[mutation["patchType"]]]["expression"].strip()
    try:
        value = situation.evaluate(text, to_runtime_form(text))
    except EvaluationError as error:
        raise MutationError(f"expression '{text}' resulted in error: {error}") from None
    except CostBudgetExceededError as error:
        raise MutationError(str(error)) from None
    try:
        if by_patch:
            return apply_operations(shown, [_to_json_patch_operation(one) for one in value])
        return _apply_configuration(to_json(value, ("Object",)), kind, shown)
    except JsonPatchError as error:
        if error.test:
            return shown
        raise MutationError(f"JSON Patch: {error}") from None
    except EvaluationError as error:
        raise MutationError(str(error)) from None


def _to_json_patch_operation(found: Obj) -> Obj:
    operation = {name: found[name] for name in ("op", "path", "from") if found.get(name)}
    if "value" in found:
        operation["value"] = to_json(found["value"])
    return {"op": "", "path": "", **operation}


def _apply_configuration(configuration: Obj, kind: Kind, shown: Obj) -> Obj:
    shape = object_shape(kind)
    failed = "error applying patch:"
    errors = find_type_errors(configuration, shape) if kind.structure is None else []
    if errors:
        text = errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors)
        raise MutationError(f"{failed} failed to convert patch object to typed object: {text}")
    whole = [*_atomic_fields(configuration, shape, "")]
    if whole:
        raise MutationError(
            f"{failed} invalid ApplyConfiguration: may not mutate atomic arrays, maps or "
            f"structs: {', '.join(whole)}"
        )
    merged: Obj = merge_configuration(shown, configuration, shape)
    return merged


def _atomic_fields(value: Any, shape: Shape | None, path: str) -> Iterator[str]:
    """Where a configuration has what can only be replaced as a whole."""
    if shape is None or not isinstance(value, dict | list) or shape.form is Form.ANY:
        return
    if shape.atomic:
        yield path
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _atomic_fields(item, shape.item, f"{path}[{index}]")
        return
    for name, item in value.items():
        inner = shape.struct.fields.get(name) if shape.form is Form.STRUCT else shape.item
        yield from _atomic_fields(item, inner, f"{path}.{name}")

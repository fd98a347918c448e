"""Rules of a definition: whether their expressions can be compiled.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go,
pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.cel.expressions import Invalid, compiled, uses
from pytest_kwait.simulator.cel.object_types import ObjectTypes, with_identity
from pytest_kwait.simulator.custom_resources.internal_form import invalid_struct, printed_rule
from pytest_kwait.simulator.status_error import invalid_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.custom_resources.schema_definition import Place
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["expression_errors"]


def expression_errors(schema: Obj, place: Place) -> list[FieldError]:
    """What is wrong with the expressions of the rules that stand in `schema`."""
    book = ObjectTypes()
    whole = place.root or schema.get("x-kubernetes-embedded-resource")
    self_type = book.name_of(with_identity(schema) if whole else schema)
    errors: list[FieldError] = []
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        at = f"{place.at}.x-kubernetes-validations[{index}]"
        errors += _errors(rule, self_type, book, place, at)
    return errors


def _errors(
    rule: Obj, self_type: str, book: ObjectTypes, place: Place, at: str
) -> Iterator[FieldError]:
    text: str = rule["rule"]
    optional = bool(rule.get("optionalOldSelf"))
    types = {"self": self_type, "oldSelf": self_type}
    former = "oldSelf" if optional else ""
    message = rule.get("messageExpression", "").strip()
    try:
        found = compiled(text, types, book.pool(), former)
    except Invalid as error:
        why = f"compilation failed: {error}"
        yield invalid_struct(f"{at}.rule", printed_rule(rule), why)
        message = ""
    else:
        if found.result != "BOOL":
            why = "cel expression must evaluate to a bool"
            yield invalid_struct(f"{at}.rule", printed_rule(rule), why)
            message = ""
    if message:
        yield from _message_errors(rule, types, book, former, f"{at}.messageExpression")
    if not uses(text, "oldSelf"):
        if rule.get("optionalOldSelf") is not None:
            why = "may not be set if oldSelf is not used in rule"
            yield invalid_value(f"{at}.optionalOldSelf", optional, why)
    elif place.uncorrelated:
        why = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        yield invalid_value(f"{at}.rule", text, why + place.uncorrelated)


def _message_errors(
    rule: Obj, types: dict[str, str], book: ObjectTypes, former: str, at: str
) -> Iterator[FieldError]:
    try:
        found = compiled(rule["messageExpression"], types, book.pool(), former)
    except Invalid as error:
        why = f"messageExpression compilation failed: {error}"
        yield invalid_struct(at, printed_rule(rule), why)
        return
    if found.result != "STRING":
        yield invalid_struct(at, printed_rule(rule), "messageExpression must evaluate to a string")

"""Whether objects can be held to the schema of a definition.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, func
validateCustomResourceDefinitionValidation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.apiextensions.default_rules import default_errors
from pytest_kwait.simulator.apiextensions.definition_schema import (
    SchemaPosition,
    root_errors,
    schema_errors,
)
from pytest_kwait.simulator.apiextensions.structural_rules import (
    structural_errors,
    unsupported_reason,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.apiextensions.rule_costs import TotalCost
    from pytest_kwait.simulator.objects import Obj

__all__ = ["schema_validation_errors"]


def schema_validation_errors(validation: Obj | None, at: str, status: bool) -> list[FieldError]:
    """Everything that is wrong with the schema of a version, or of all of them.

    Args:
        validation: what holds the schema; None for none.
        at: where it stands.
        status: whether the objects have a status subresource.
    """
    schema: Obj | None = (validation or {}).get("openAPIV3Schema")
    if schema is None:
        return []
    at = f"{at}.openAPIV3Schema"
    errors = root_errors(schema, at, status)
    why = unsupported_reason(schema)
    ruled = False
    if not why:
        structure = structural_errors(schema, at) or default_errors(schema, at)
        errors += structure
        ruled = not structure
    rules = _LazyRuleValidation()
    found, about_rules = schema_errors(
        schema, SchemaPosition(at, root=True, ruled=ruled), rules.errors
    )
    errors += found + about_rules + rules.total(at)
    if not errors and why:
        errors.append(invalid_value(at, "", why))
    return errors


class _LazyRuleValidation:
    """As of `rule_definition`, whose library is loaded with the first rule."""

    def __init__(self) -> None:
        self._costs: TotalCost | None = None

    def errors(self, schema: Obj, place: SchemaPosition) -> list[FieldError]:
        """What is wrong with the rules of one schema."""
        from pytest_kwait.simulator.apiextensions.rule_costs import TotalCost
        from pytest_kwait.simulator.apiextensions.rule_definition import expression_errors

        self._costs = self._costs or TotalCost()
        return expression_errors(schema, place, self._costs)

    def total(self, at: str) -> list[FieldError]:
        """That all of them together cost too much, if they do."""
        return [] if self._costs is None else self._costs.errors(at)

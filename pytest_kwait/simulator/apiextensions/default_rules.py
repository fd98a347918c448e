"""Whether the defaults of a schema are values that it allows.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/defaulting/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.apiextensions.embedded import embedded_errors
from pytest_kwait.simulator.apiextensions.findings import prefix_error
from pytest_kwait.simulator.apiextensions.pruning import prune
from pytest_kwait.simulator.apiextensions.schema_validation import validate_value

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["default_errors"]

_EMBEDDED_RESOURCE = "x-kubernetes-embedded-resource"
_METADATA_KEYS = ("metadata", "kind", "apiVersion")


def default_errors(schema: Obj, at: str, *, in_metadata: bool = False) -> list[FieldError]:
    """What is wrong with the defaults of `schema` and of all that is in it.

    Defaults within metadata are held to their own schema alone: the object around them is not
    made up.
    """
    errors: list[FieldError] = []
    embedded = bool(schema.get(_EMBEDDED_RESOURCE))
    in_metadata = in_metadata and not embedded
    value = schema.get("default")
    if value is not None:
        if not in_metadata and prune(value, schema) != value:
            errors.append(invalid_value(f"{at}.default", value, "must not have unknown fields"))
        found = embedded_errors(value, schema, f"{at}.default")
        errors += found or [
            prefix_error(one, f"{at}.default") for one in validate_value(value, schema, "")
        ]
    if isinstance(schema.get("items"), dict):
        errors += default_errors(schema["items"], f"{at}.items", in_metadata=in_metadata)
    for name, inner in (schema.get("properties") or {}).items():
        within = in_metadata or (embedded and name in _METADATA_KEYS)
        errors += default_errors(inner, f"{at}.properties[{name}]", in_metadata=within)
    return errors

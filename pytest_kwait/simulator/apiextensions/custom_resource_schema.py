"""The schema of one version of a custom kind: decode, prune, default and validate.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go,
pkg/registry/customresource/{strategy,validator}.go.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import FieldError, bad_request, invalid_value
from pytest_kwait.simulator.apiextensions.pruning import (
    PRESERVE,
    coerce_embedded_metadata,
    drop_nulls,
    embedded_errors,
    fill_defaults,
    prune,
)
from pytest_kwait.simulator.apiextensions.schema_validation import (
    UNKNOWN_OLD_VALUE,
    format_go_value,
    go_type_name,
    list_type_errors,
    prefix_error,
    validate_value,
)
from pytest_kwait.simulator.codec.schema import Shape
from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from pytest_kwait.simulator.codec.decode import Decoder
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import VersionWebhook

__all__ = ["CustomResourceSchema"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ROOT = ("apiVersion", "kind", "metadata")
_BLOCKING_ERROR_TYPES = frozenset(
    [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ]
)
_UNVALIDATED_FIELDS = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)
_INT32_MAX = 2**31 - 1


class CustomResourceSchema:
    """One version of a custom kind.

    Args:
        schema: its OpenAPI v3 schema; empty for one that preserves everything.
        scale: the paths of its scale subresource; None without one.
        columns: its printer columns.
        selectable: its selectable fields.
        deprecation: the warning of a deprecated version; empty for others.
    """

    terminating = False
    """Whether the definition is being deleted, which forbids new objects."""

    conversion: VersionWebhook | None = None
    """The webhook that converts objects between versions."""

    def __init__(
        self,
        schema: Obj,
        scale: Obj | None = None,
        columns: list[Obj] | None = None,
        selectable: tuple[str, ...] = (),
        deprecation: str = "",
    ) -> None:
        self.schema = schema or {"type": "object", PRESERVE: True}
        self.scale = scale
        self.printer_columns = columns or []
        self.selectable = selectable
        self.deprecation = deprecation
        self.tolerated: list[str] = []
        """The ratcheted errors of the object that was validated last."""

    @cached_property
    def shape(self) -> Shape:
        """The type of its objects, for field ownership."""
        reference = {"$ref": f"#/components/schemas/{_META}"}
        properties = {
            **self.schema.get("properties", {}),
            "metadata": reference,
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
        }
        return Shape({**self.schema, "type": "object", "properties": properties})

    @cached_property
    def content(self) -> Obj:
        """The schema without kind, version and metadata."""
        properties = self.schema.get("properties") or {}
        own = {key: value for key, value in properties.items() if key not in _ROOT}
        return {**self.schema, "properties": own}

    def decode(self, obj: Obj, decoded: Decoder) -> Obj:
        """Decode an object: prune it, set defaults, clean its metadata."""
        metadata = Shape({"$ref": f"#/components/schemas/{_META}"}).struct
        rest = {key: value for key, value in obj.items() if key not in _ROOT}
        clean: Obj = prune(rest, self.content, "", decoded.unknown)
        drop_nulls(clean, self.content)
        fill_defaults(clean, self.content)
        misfit = coerce_embedded_metadata(clean, self.content, decoded.unknown)
        if misfit is not None:
            kind = obj.get("kind", "")
            version = str(obj.get("apiVersion", "")).rpartition("/")[2]
            raise bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: {misfit}'
            )
        clean["metadata"] = decoded.struct(obj.get("metadata") or {}, metadata, "metadata.")
        return clean

    def prune_converted(self, obj: Obj) -> Obj:
        """Prune an object that was converted from another version."""
        content: Obj = prune(
            {key: value for key, value in obj.items() if key not in _ROOT}, self.content
        )
        drop_nulls(content, self.content)
        return {**{key: obj[key] for key in _ROOT if key in obj}, **content}

    def with_defaults(self, obj: Obj) -> Obj:
        """Set the defaults of a stored object."""
        content: Obj = {key: clone(value) for key, value in obj.items() if key not in _ROOT}
        fill_defaults(content, self.content)
        return {**{key: obj[key] for key in _ROOT if key in obj}, **content}

    def errors(self, new: Obj, old: Obj | None = None) -> list[FieldError]:
        """Validate an object.

        Args:
            new: the object.
            old: the object that it replaces; None for a new one.
        """
        errors = validate_value(new, self.schema, "", UNKNOWN_OLD_VALUE if old is None else old)
        errors += self._spec_replicas_errors(new)
        errors += self._status_scale_errors(new)
        errors += embedded_errors(new, self.content, "")
        errors += self._list_errors(new, old)
        return errors + self._rule_errors(new, old, errors)

    def status_errors(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate an object whose status is written."""
        errors: list[FieldError] = []
        schema = (self.schema.get("properties") or {}).get("status")
        if "status" in new and schema is not None:
            found = validate_value(new["status"], schema, "", old.get("status", UNKNOWN_OLD_VALUE))
            errors += [prefix_error(error, "status") for error in found]
        errors += self._status_scale_errors(new)
        errors += self._list_errors(new, old)
        return errors + self._rule_errors(new, old, errors)

    @cached_property
    def _has_rules(self) -> bool:
        """Return whether the schema has rules."""
        return '"x-kubernetes-validations":' in json.dumps(self.schema)

    def _rule_errors(self, new: Obj, old: Obj | None, errors: list[FieldError]) -> list[FieldError]:
        """Evaluate the rules, unless the object violates the schema."""
        self.tolerated = []
        if not self._has_rules:
            return []
        if any(error.reason in _BLOCKING_ERROR_TYPES for error in errors):
            return [
                FieldError(
                    "FieldValueInvalid", "<nil>", f"Invalid value: null: {_UNVALIDATED_FIELDS}"
                )
            ]
        from pytest_kwait.simulator.apiextensions.cel_rules import rule_errors

        before = UNKNOWN_OLD_VALUE if old is None else old
        return rule_errors(new, self.schema, before, self.tolerated.append)

    def _list_errors(self, new: Obj, old: Obj | None) -> list[FieldError]:
        if old is not None and [*list_type_errors(old, self.schema)]:
            return []
        return [*list_type_errors(new, self.schema)]

    def _spec_replicas_errors(self, obj: Obj) -> list[FieldError]:
        return _replicas_errors(obj, self.scale["specReplicasPath"]) if self.scale else []

    def _status_scale_errors(self, obj: Obj) -> list[FieldError]:
        if not self.scale:
            return []
        errors = _replicas_errors(obj, self.scale["statusReplicasPath"])
        path = self.scale.get("labelSelectorPath")
        if path:
            value, why = _read_path(obj, path, "string")
            del value
            if why:
                errors.append(invalid_value(path, "", why))
        return errors


def _replicas_errors(obj: Obj, path: str) -> list[FieldError]:
    value, why = _read_path(obj, path, "int64")
    if why:
        return [invalid_value(path, 0, why)]
    if value is not None and value < 0:
        return [invalid_value(path, value, "should be a non-negative integer")]
    if value is not None and value > _INT32_MAX:
        return [invalid_value(path, value, f"should be less than or equal to {_INT32_MAX}")]
    return []


def _read_path(obj: Obj, path: str, wanted: str) -> tuple[Any, str]:
    """Return the value at `path`, or an error if its type is not `wanted`."""
    value: Any = obj
    names = path.removeprefix(".").split(".")
    for index, name in enumerate(names):
        if not isinstance(value, dict):
            there = "." + ".".join(names[: index + 1])
            return None, (
                f"{there} accessor error: {format_go_value(value)} is of the type "
                f"{go_type_name(value)}, "
                "expected map[string]interface{}"
            )
        if name not in value:
            return None, ""
        value = value[name]
    if go_type_name(value) != wanted:
        there = "." + ".".join(names)
        return None, (
            f"{there} accessor error: {format_go_value(value)} is of the type "
            f"{go_type_name(value)}, "
            f"expected {wanted}"
        )
    return value, ""

"""Custom kinds: their schema as a rule for decoding, and what their definition says beside it.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting}.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.schema import Shape
from pytest_kwait.simulator.schema_rules import check
from pytest_kwait.simulator.status_error import invalid, invalid_value

if TYPE_CHECKING:
    from pytest_kwait.simulator.decoded import Decoded
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["Structure"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ROOT = ("apiVersion", "kind", "metadata")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


class Structure:
    """One version of a custom kind.

    Args:
        schema: its OpenAPI v3 schema; empty for one that keeps everything.
        scale: the paths of its scale subresource, None without one.
        columns: its printer columns.
        selectable: the fields that it can be selected by.
    """

    def __init__(
        self,
        schema: Obj,
        scale: Obj | None = None,
        columns: list[Obj] | None = None,
        selectable: tuple[str, ...] = (),
    ) -> None:
        self.schema = schema or {"type": "object", _PRESERVE: True}
        self.scale = scale
        self.printer_columns = columns or []
        self.selectable = selectable

    @cached_property
    def shape(self) -> Shape:
        """The type of its objects, for owning fields one by one."""
        reference = {"$ref": f"#/components/schemas/{_META}"}
        properties = {
            **self.schema.get("properties", {}),
            "metadata": reference,
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
        }
        return Shape({**self.schema, "type": "object", "properties": properties})

    def decode(self, obj: Obj, decoded: Decoded) -> Obj:
        """`obj` without unknown fields, with defaults, and with clean metadata."""
        metadata = Shape({"$ref": f"#/components/schemas/{_META}"}).struct
        clean: Obj = self._prune(
            {key: value for key, value in obj.items() if key not in _ROOT},
            {**self.schema, "properties": _without_root(self.schema)},
            "",
            decoded.unknown,
        )
        _fill_defaults(clean, {**self.schema, "properties": _without_root(self.schema)})
        clean["metadata"] = decoded.struct(obj.get("metadata") or {}, metadata, "metadata.")
        return clean

    def _prune(self, value: Any, schema: Obj, path: str, unknown: list[str]) -> Any:
        if isinstance(value, dict):
            properties: Obj = schema.get("properties") or {}
            more = schema.get("additionalProperties")
            if schema.get("x-kubernetes-embedded-resource"):
                properties = {"apiVersion": {}, "kind": {}, "metadata": {_PRESERVE: True}} | (
                    properties
                )
            clean = {}
            for key, item in value.items():
                if key in properties:
                    clean[key] = self._prune(item, properties[key], f"{path}{key}.", unknown)
                elif isinstance(more, dict):
                    clean[key] = self._prune(item, more, f"{path}{key}.", unknown)
                elif more is True or schema.get(_PRESERVE):
                    clean[key] = clone(item)
                else:
                    unknown.append(f"{path}{key}")
            return clean
        if isinstance(value, list):
            items = schema.get("items")
            if not isinstance(items, dict):
                return clone(value)
            return [
                self._prune(item, items, f"{path.rstrip('.')}[{index}].", unknown)
                for index, item in enumerate(value)
            ]
        return value

    def validate(self, kind: Kind, new: Obj, old: Obj | None = None) -> None:
        """Hold an object to the schema.

        Raises:
            StatusError: 422 with everything that is wrong.
        """
        del old
        rules = {**self.schema, "properties": _without_root(self.schema)}
        value = {key: item for key, item in new.items() if key not in _ROOT}
        errors = check(value, rules, "") + self._scale_errors(new)
        if errors:
            raise invalid(kind.group, kind.kind, new["metadata"].get("name", ""), errors)

    def _scale_errors(self, obj: Obj) -> list[FieldError]:
        if not self.scale:
            return []
        path: str = self.scale["specReplicasPath"]
        value: Any = obj
        for name in path.strip(".").split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool):
            text = "should be a non-negative integer"
            return [invalid_value(path, value, text)] if value < 0 else []
        if value is None:
            return []
        kind = "string" if isinstance(value, str) else type(value).__name__
        text = f"{path} accessor error: {value} is of the type {kind}, expected int64"
        return [invalid_value(path, 0, text)]


def _without_root(schema: Obj) -> Obj:
    return {
        key: value for key, value in (schema.get("properties") or {}).items() if key not in _ROOT
    }


def _fill_defaults(value: Any, schema: Obj) -> None:
    """Set what is not given and has a default; a null that may not be one counts as not given."""
    if isinstance(value, dict):
        properties: Obj = schema.get("properties") or {}
        for key, inner in properties.items():
            if "default" in inner and (
                key not in value or (value[key] is None and not inner.get("nullable"))
            ):
                value[key] = clone(inner["default"])
            if key in value:
                _fill_defaults(value[key], inner)
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            for key, item in value.items():
                if key not in properties:
                    _fill_defaults(item, more)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            _fill_defaults(item, schema["items"])

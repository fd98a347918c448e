"""What a schema of a definition may say beyond its structure.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
func ValidateCustomResourceDefinitionOpenAPISchema.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.apiextensions.internal_types import (
    internal_schema,
    invalid_struct_error,
)
from pytest_kwait.simulator.apiextensions.rule_texts import rule_field_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = ["SchemaPosition", "max_values_below", "root_errors", "schema_errors"]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_METADATA_KEYS = ("metadata", "kind", "apiVersion")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_LIST_TYPE, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-map-type"
_KEYS = "x-kubernetes-list-map-keys"
_FORBIDDEN_FIELDS: tuple[tuple[str, str], ...] = (
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
)
_ROOT_FIELDS = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength "
    "MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties "
    "ExternalDocs Example XPreserveUnknownFields XValidations"
)


@dataclass(frozen=True, slots=True)
class SchemaPosition:
    """What counts where a schema stands.

    Args:
        at: the path of the schema.
        root: whether it is the whole object's.
        no_default: why there may be no default here; None where there may.
        in_metadata: whether it is part of metadata, kind or apiVersion.
        uncorrelated: the path from which on old and new values cannot be told apart.
        ruled: whether rules may stand here.
        count: how many values there may be here in one object; None where nothing bounds that.
    """

    at: str
    root: bool = False
    no_default: str | None = None
    in_metadata: bool = False
    uncorrelated: str = ""
    ruled: bool = True
    count: int | None = 1

    def below(self, step: str) -> SchemaPosition:
        """The place of a part."""
        return replace(self, at=f"{self.at}.{step}", root=False)


def root_errors(schema: Obj, at: str, status: bool) -> list[FieldError]:
    """What the schema of a whole object may not be; `status` tells of the status subresource."""
    errors: list[FieldError] = []
    if status:
        form = internal_schema(schema)
        for name, value in form.items():
            if value in (None, "", False):
                continue
            if name == "Type":
                if value != "object":
                    text = (
                        'only "object" is allowed as the type at the root of the schema if the '
                        "status subresource is enabled"
                    )
                    errors.append(invalid_value(f"{at}.type", value, text))
                    break
            elif name not in _ROOT_FIELDS.split():
                text = (
                    f"only [{_ROOT_FIELDS}] fields are allowed at the root of the schema if the "
                    "status subresource is enabled"
                )
                errors.append(invalid_struct_error(at, form, text))
                break
    if schema.get("nullable"):
        errors.append(forbidden_field(f"{at}.nullable", "nullable cannot be true at the root"))
    return errors


def schema_errors(
    schema: Obj, place: SchemaPosition, rules: Callable[[Obj, SchemaPosition], list[FieldError]]
) -> tuple[list[FieldError], list[FieldError]]:
    """What is wrong with `schema` and all that is in it, and what is wrong with its rules.

    Rules are looked at only where the schema that they stand in is right.

    Args:
        schema: the schema.
        place: where it stands.
        rules: tells what is wrong with the rules of one schema.
    """
    errors = [*_schema_node_errors(schema, place)]
    ruled: list[FieldError] = []
    for inner, there in _inner_schemas(schema, place):
        found, about_rules = schema_errors(inner, there, rules)
        errors += found
        ruled += about_rules
    errors += _extension_errors(schema, place.at)
    if schema.get(_LIST_TYPE) in ("map", "set"):
        errors += _map_key_errors(schema, place.at)
    if schema.get("x-kubernetes-validations"):
        errors += rule_field_errors(schema, place.at)
        if not errors and place.ruled:
            ruled += rules(schema, place)
    return errors, ruled


def _schema_node_errors(schema: Obj, place: SchemaPosition) -> Iterator[FieldError]:
    at, kind = place.at, schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{at}.type", kind, _TYPES)
    if schema.get("default") is not None and place.no_default is not None:
        yield forbidden_field(f"{at}.default", f"must not be set {place.no_default}")
    for field, text in _FORBIDDEN_FIELDS:
        if schema.get(field):
            yield forbidden_field(f"{at}.{field}", text)
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield forbidden_field(f"{at}.type", text)
    if isinstance(schema.get("items"), list) and schema["items"]:
        text = "items must be a schema object and not an array"
        yield forbidden_field(f"{at}.items", text)
    if place.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        yield forbidden_field(f"{at}.x-kubernetes-embedded-resource", text)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{at}.uniqueItems", text)
    more = schema.get("additionalProperties")
    if more is not None and more is not True and schema.get("properties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{at}.additionalProperties", text)


def _inner_schemas(schema: Obj, place: SchemaPosition) -> Iterator[tuple[Obj, SchemaPosition]]:
    """The schemas within `schema`, with where they stand."""
    within = max_values_below(schema)
    count = None if within is None or place.count is None else place.count * within
    place = replace(place, count=count)
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        there = place.below("additionalProperties")
        if place.in_metadata:
            why = "inside additionalProperties applying to object metadata"
            there = replace(there, no_default=why)
        yield more, there
    for name, inner in (schema.get("properties") or {}).items():
        there = place.below(f"properties[{name}]")
        if schema.get(_MAP_TYPE) not in (None, "atomic", "granular"):
            there = replace(there, uncorrelated=place.uncorrelated or place.at)
        if (place.root or schema.get("x-kubernetes-embedded-resource")) and name in _METADATA_KEYS:
            there = replace(there, in_metadata=True)
            if place.root:
                there = replace(there, no_default=f"in top-level {name}")
        yield inner, there
    for name in ("not", "allOf", "oneOf", "anyOf", "definitions"):
        inner = schema.get(name) or []
        if name == "not":
            steps = [("not", inner)] if isinstance(inner, dict) else []
        elif isinstance(inner, dict):
            steps = [(f"{name}[{key}]", one) for key, one in inner.items()]
        else:
            steps = [(f"{name}[{index}]", one) for index, one in enumerate(inner)]
        for step, one in steps:
            yield one, replace(place.below(step), ruled=False)
    items = schema.get("items")
    there = place.below("items")
    if schema.get(_LIST_TYPE) != "map":
        there = replace(there, uncorrelated=place.uncorrelated or place.at)
    if isinstance(items, dict):
        yield items, there
    elif items:
        for index, one in enumerate(items):
            yield one, replace(there, at=f"{there.at}[{index}]")


def max_values_below(schema: Obj) -> int | None:
    """How many values may stand within one value; None where nothing bounds that."""
    if schema.get("type") == "array":
        return _is_positive(schema.get("maxItems"))
    if schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        return _is_positive(schema.get("maxProperties"))
    return 1


def _is_positive(bound: int | None) -> int | None:
    return None if bound is None else max(bound, 0)


def _extension_errors(schema: Obj, at: str) -> Iterator[FieldError]:
    kind, list_type, map_type = (
        schema.get("type", ""),
        schema.get(_LIST_TYPE),
        schema.get(_MAP_TYPE),
    )
    items = schema.get("items")
    if schema.get(_PRESERVE) is False:
        yield invalid_value(f"{at}.{_PRESERVE}", False, "must be true or undefined")
    for name, value, wanted in ((_MAP_TYPE, map_type, "object"), (_LIST_TYPE, list_type, "array")):
        if value is None:
            continue
        if kind != wanted:
            text = f"must be {wanted} if {name} is specified"
            yield invalid_value(f"{at}.type", kind, text) if kind else required(f"{at}.type", text)
        elif list_type == "set" and name == _LIST_TYPE and isinstance(items, dict):
            yield from _set_items_errors(items, at)
        valid = ("atomic", "granular") if name == _MAP_TYPE else ("atomic", "set", "map")
        if value not in valid:
            yield not_supported(f"{at}.{name}", value, valid)
    keys = schema.get(_KEYS) or []
    if keys and list_type != "map":
        text = f"must be map if {_KEYS} is non-empty"
        where = f"{at}.{_LIST_TYPE}"
        yield required(where, text) if list_type is None else invalid_value(where, list_type, text)
    if list_type == "map":
        yield from _map_keys_errors(schema, keys, at)


def _set_items_errors(items: Obj, at: str) -> Iterator[FieldError]:
    text = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    list_type = items.get(_LIST_TYPE)
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid_value(f"{at}.items.{_LIST_TYPE}", list_type, text)
    elif items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        # The list type is what upstream shows here too.
        yield invalid_value(f"{at}.items.{_MAP_TYPE}", list_type, text)


def _map_keys_errors(schema: Obj, keys: list[str], at: str) -> Iterator[FieldError]:
    items = schema.get("items")
    if not keys:
        yield required(f"{at}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if items is None:
        yield required(f"{at}.items", f"must have a schema if {_LIST_TYPE} is map")
    if not isinstance(items, dict):
        return
    if items.get("type", "") != "object":
        text = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid_value(f"{at}.items.type", items.get("type", ""), text)
        return
    seen: set[str] = set()
    for key in keys:
        found = (items.get("properties") or {}).get(key)
        if found is None:
            text = "entries must all be names of item properties"
            yield invalid_value(f"{at}.{_KEYS}", keys, text)
        elif found.get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid_value(f"{at}.items.properties[{key}].type", items["type"], text)
        if key in seen:
            yield invalid_value(f"{at}.{_KEYS}", keys, "must not contain duplicate entries")
        seen.add(key)


def _map_key_errors(schema: Obj, at: str) -> Iterator[FieldError]:
    items, list_type = schema.get("items"), schema[_LIST_TYPE]
    if not isinstance(items, dict):
        return
    if items.get("nullable"):
        text = f"cannot be nullable when {_LIST_TYPE} is {list_type}"
        yield forbidden_field(f"{at}.items.nullable", text)
    if list_type != "map":
        return
    for key in schema.get(_KEYS) or ():
        found = (items.get("properties") or {}).get(key)
        if found is None:
            continue
        where = f"{at}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and found.get("default") is None:
            text = (
                f"this property is in {_KEYS}, so it must have a default or be a required property"
            )
            yield required(f"{where}.default", text)
        if found.get("nullable"):
            text = f"this property is in {_KEYS}, so it cannot be nullable"
            yield forbidden_field(f"{where}.nullable", text)

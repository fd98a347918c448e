"""Values held to an OpenAPI v3 schema, with the server's own texts.

CEL rules (`x-kubernetes-validations`) are not evaluated.

Source: k8s.io/kube-openapi pkg/validation, k8s.io/apiextensions-apiserver pkg/apiserver/validation.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.status_error import FieldError

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check"]

_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _TYPES[type(value)]


def check(value: Any, schema: Obj, path: str) -> list[FieldError]:
    """Everything that is wrong with `value`; `path` is where it stands."""
    if value is None:
        if schema.get("nullable") or not schema.get("type"):
            return []
        return [_wrong_type(value, schema["type"], path)]
    errors: list[FieldError] = []
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            return [_wrong_type(value, "integer,string", path)]
    elif wanted := schema.get("type"):
        found = _type_of(value)
        if found != wanted and not (wanted == "number" and found == "integer"):
            return [_wrong_type(value, wanted, path)]
    errors += _check_enum(value, schema, path)
    if isinstance(value, str):
        errors += _check_text(value, schema, path)
    elif isinstance(value, dict):
        errors += _check_object(value, schema, path)
    elif isinstance(value, list):
        errors += _check_list(value, schema, path)
    elif not isinstance(value, bool):
        errors += _check_number(value, schema, path)
    return errors + _check_combined(value, schema, path)


def _invalid(path: str, value: Any, text: str) -> FieldError:
    shown = json.dumps(value, separators=(",", ":"))
    return FieldError("FieldValueInvalid", path or "<nil>", f"Invalid value: {shown}: {text}")


def _wrong_type(value: Any, wanted: str, path: str) -> FieldError:
    found = _type_of(value)
    where = path or "<nil>"
    name = path or '""'
    return FieldError(
        "FieldValueTypeInvalid",
        where,
        f'Invalid value: "{found}": {name} in body must be of type {wanted}: "{found}"',
    )


def _check_enum(value: Any, schema: Obj, path: str) -> list[FieldError]:
    allowed = schema.get("enum")
    if allowed is None or value in allowed:
        return []
    values = ", ".join(json.dumps(one) for one in allowed)
    return [
        FieldError(
            "FieldValueNotSupported",
            path,
            f"Unsupported value: {json.dumps(value)}: supported values: {values}",
        )
    ]


def _check_text(value: str, schema: Obj, path: str) -> list[FieldError]:
    """The first thing that is wrong with a text; the server names no second one."""
    if len(value) > schema.get("maxLength", len(value)):
        text = f"Too long: may not be more than {schema['maxLength']} bytes"
        return [FieldError("FieldValueTooLong", path, text)]
    if len(value) < schema.get("minLength", 0):
        text = f"{path} in body should be at least {schema['minLength']} chars long"
        return [_invalid(path, value, text)]
    pattern = schema.get("pattern")
    if pattern and not re.search(pattern, value):
        return [_invalid(path, value, f"{path} in body should match '{pattern}'")]
    form = schema.get("format")
    if form in ("date-time", "date") and not _is_time(value):
        return [_invalid(path, value, f'{path} in body must be of type {form}: "{value}"')]
    return []


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _check_number(value: float, schema: Obj, path: str) -> list[FieldError]:
    errors = []
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if least is not None:
        strict = bool(schema.get("exclusiveMinimum"))
        if value < least or (strict and value == least):
            relation = "greater than" if strict else "greater than or equal to"
            errors.append(_invalid(path, value, f"{path} in body should be {relation} {least}"))
    if most is not None:
        strict = bool(schema.get("exclusiveMaximum"))
        if value > most or (strict and value == most):
            relation = "less than" if strict else "less than or equal to"
            errors.append(_invalid(path, value, f"{path} in body should be {relation} {most}"))
    if step and value % step:
        errors.append(_invalid(path, value, f"{path} in body should be a multiple of {step}"))
    return errors


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _check_object(value: Obj, schema: Obj, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    properties: Obj = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    for key, item in value.items():
        if key in properties:
            errors += check(item, properties[key], _join(path, key))
        elif isinstance(more, dict):
            errors += check(item, more, _join(path, key))
    errors += [
        FieldError("FieldValueRequired", _join(path, key), "Required value")
        for key in schema.get("required", ())
        if key not in value
    ]
    if len(value) < schema.get("minProperties", 0):
        text = f"{path} in body should have at least {schema['minProperties']} properties"
        errors.append(_invalid(path, len(value), text))
    if len(value) > schema.get("maxProperties", len(value)):
        text = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        errors.append(FieldError("FieldValueTooMany", path, text))
    return errors


def _check_list(value: list[Any], schema: Obj, path: str) -> list[FieldError]:
    errors = []
    if len(value) < schema.get("minItems", 0):
        text = f"{path} in body should have at least {schema['minItems']} items"
        errors.append(_invalid(path, len(value), text))
    if len(value) > schema.get("maxItems", len(value)):
        text = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        errors.append(FieldError("FieldValueTooMany", path, text))
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            errors += check(item, items, f"{path}[{index}]")
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", ())
    seen: list[Any] = []
    for index, item in enumerate(value):
        identity = item
        if kind == "map" and isinstance(item, dict):
            identity = {key: item.get(key) for key in keys}
        elif kind != "set":
            continue
        if identity in seen:
            shown = json.dumps(identity, separators=(",", ":"))
            errors.append(
                FieldError("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {shown}")
            )
        seen.append(identity)
    return errors


def _check_combined(value: Any, schema: Obj, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for rules in schema.get("allOf", ()):
        errors += check(value, rules, path)
    if "anyOf" in schema and not schema.get("x-kubernetes-int-or-string"):
        found = [check(value, rules, path) for rules in schema["anyOf"]]
        if all(found):
            text = f"{path or '<nil>'} in body must validate at least one schema (anyOf)"
            errors += [_invalid(path, value, text), *found[0]]
    if "oneOf" in schema:
        held = sum(not check(value, rules, path) for rules in schema["oneOf"])
        if held != 1:
            text = f"{path or '<nil>'} in body must validate one and only one schema (oneOf). "
            text += "Found none valid" if held == 0 else f"Found {held} valid alternatives"
            errors.append(_invalid(path, value, text))
    if "not" in schema and not check(value, schema["not"], path):
        text = f"{path or '<nil>'} in body must not validate the schema (not)"
        errors.append(_invalid(path, value, text))
    return errors

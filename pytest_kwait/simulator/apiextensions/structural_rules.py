"""Whether a schema is structural: each part of a value has one place that says what it is.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{convert,validation,complete}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import forbidden_field, invalid_value, required
from pytest_kwait.simulator.codec.go_regexp import find_pattern_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["structural_errors", "unsupported_reason"]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"

_UNSUPPORTED_FIELDS = ("id", "$schema", "$ref", "patternProperties", "dependencies")
_INT_OR_STRING_JUNCTOR = [{"type": "integer"}, {"type": "string"}]
_LEVEL_TEXTS = {"root": "at the root", "item": "for specified array items"}
_FORBIDDEN_IN_JUNCTORS: tuple[tuple[str, str], ...] = (
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def unsupported_reason(schema: Any) -> str:
    """Why `schema` cannot be taken for a structural one at all; empty if it can."""
    if not isinstance(schema, dict):
        return ""
    for name in _UNSUPPORTED_FIELDS:
        if schema.get(name):
            shown = "schema" if name == "$schema" else name
            return f"OpenAPIV3Schema '{shown}' is not supported"
    if "additionalItems" in schema:
        return "OpenAPIV3Schema 'additionalItems' is not supported"
    if schema.get("definitions"):
        return "OpenAPIV3Schema 'definitions' is not supported"
    if schema.get(PRESERVE) is False:
        return f"internal error: '{PRESERVE}' must be true or undefined"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    inner = [schema.get(name) for name in ("not", "items", "additionalProperties")]
    for name in ("allOf", "anyOf", "oneOf"):
        inner += schema.get(name) or []
    inner += (schema.get("properties") or {}).values()
    return next(filter(None, map(unsupported_reason, inner)), "")


def structural_errors(schema: Obj, at: str) -> list[FieldError]:
    """Everything that keeps `schema` from being structural, in the order of the texts."""
    errors = [*_invariant_errors(schema, "root", at), *_completeness_errors(schema, schema, at, at)]
    return sorted(errors, key=str)


def _invariant_errors(schema: Obj, level: str, at: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    properties: Obj = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    if kind == "array" and "items" not in schema:
        yield required(f"{at}.items", "must be specified")
    if isinstance(schema.get("items"), dict):
        yield from _invariant_errors(schema["items"], "item", f"{at}.items")
    for name, inner in properties.items():
        yield from _invariant_errors(inner, "field", f"{at}.properties[{name}]")
    if more is not None:
        if level == "root":
            yield forbidden_field(f"{at}.additionalProperties", "must not be used at the root")
        if isinstance(more, dict):
            yield from _invariant_errors(more, "field", f"{at}.additionalProperties")
    if schema.get(INT_OR_STRING):
        for name in (PRESERVE, EMBEDDED):
            if schema.get(name):
                text = f"must be false if {INT_OR_STRING} is true"
                yield invalid_value(f"{at}.{name}", True, text)
    first = (schema.get("allOf") or [{}])[0]
    yield from _value_errors(
        schema,
        at,
        schema.get("anyOf") == _INT_OR_STRING_JUNCTOR,
        first.get("anyOf") == _INT_OR_STRING_JUNCTOR,
    )
    yield from _type_errors(schema, level, at)
    yield from _metadata_errors(schema, level, at)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not properties:
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield required(f"{at}.properties", text)


def _type_errors(schema: Obj, level: str, at: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if schema.get(EMBEDDED) and kind != "object":
        text = f"must be object if {EMBEDDED} is true"
        yield invalid_value(f"{at}.type", kind, text) if kind else required(f"{at}.type", text)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        where = _LEVEL_TEXTS.get(level, "for specified object fields")
        yield required(f"{at}.type", f"must not be empty {where}")
    if schema.get(EMBEDDED) and schema.get("additionalProperties") is not None:
        text = f"must not be used if {EMBEDDED} is set"
        yield forbidden_field(f"{at}.additionalProperties", text)
    if level == "root" and kind not in ("", "object"):
        yield invalid_value(f"{at}.type", kind, "must be object at the root")


def _metadata_errors(schema: Obj, level: str, at: str) -> Iterator[FieldError]:
    properties: Obj = schema.get("properties") or {}
    of_object = level == "root" or bool(schema.get(EMBEDDED))
    for name in ("kind", "apiVersion"):
        kind = properties.get(name, {}).get("type", "")
        if of_object and name in properties and kind != "string":
            yield invalid_value(f"{at}.properties[{name}].type", kind, "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    here = f"{at}.properties[metadata]"
    if of_object and metadata.get("type", "") != "object":
        yield invalid_value(f"{here}.type", metadata.get("type", ""), "must be object")
    rest = {key: value for key, value in metadata.items() if key not in ("type", "default")}
    if not (rest.get("properties") or {}).keys() - {"name", "generateName"}:
        rest.pop("properties", None)
    if level == "root" and any(rest.values()):
        text = "must not specify anything other than name and generateName, but metadata is "
        yield forbidden_field(here, text + "implicitly specified")


def _value_errors(
    schema: Obj, at: str, skip_any: bool = False, skip_first: bool = False
) -> Iterator[FieldError]:
    """What is wrong below `anyOf`, `allOf`, `oneOf` and `not`, and with the pattern."""
    if not skip_any:
        for index, rules in enumerate(schema.get("anyOf") or ()):
            yield from _nested_errors(rules, f"{at}.anyOf[{index}]")
    for index, rules in enumerate(schema.get("allOf") or ()):
        yield from _nested_errors(rules, f"{at}.allOf[{index}]", skip_first and index == 0)
    for index, rules in enumerate(schema.get("oneOf") or ()):
        yield from _nested_errors(rules, f"{at}.oneOf[{index}]")
    if schema.get("not") is not None:
        yield from _nested_errors(schema["not"], f"{at}.not")
    pattern = schema.get("pattern")
    if pattern and (fault := find_pattern_error(pattern)):
        text = f"must be a valid regular expression, but isn't: {fault}"
        yield invalid_value(f"{at}.pattern", pattern, text)


def _nested_errors(rules: Obj, at: str, skip_any: bool = False) -> Iterator[FieldError]:
    yield from _value_errors(rules, at, skip_any)
    if isinstance(rules.get("items"), dict):
        yield from _nested_errors(rules["items"], f"{at}.items")
    properties: Obj = rules.get("properties") or {}
    for name, inner in properties.items():
        yield from _nested_errors(inner, f"{at}.properties[{name}]")
    if rules.get("additionalProperties"):
        text = "must be undefined to be structural"
        yield forbidden_field(f"{at}.additionalProperties", text)
    for name, text in _FORBIDDEN_IN_JUNCTORS:
        undefined = name in ("default", "x-kubernetes-list-type", "x-kubernetes-map-type")
        if rules.get(name) is not None if undefined else rules.get(name):
            yield forbidden_field(f"{at}.{name}", text)
    if "metadata" in properties:
        where = f"{at}.properties[metadata]"
        yield forbidden_field(where, "must not be specified in a nested context")


def _completeness_errors(
    rules: Obj, schema: Obj | None, at: str, said: str
) -> Iterator[FieldError]:
    """What rules speak of and the schema does not have."""
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(rules.get(name) or ()):
            yield from _nested_completeness_errors(inner, schema, at, f"{said}.{name}[{index}]")
    if rules.get("not") is not None:
        yield from _nested_completeness_errors(rules["not"], schema, at, f"{said}.not")


def _nested_completeness_errors(
    rules: Obj, schema: Obj | None, at: str, said: str
) -> Iterator[FieldError]:
    if schema is None:
        yield required(at, f"because it is defined in {said}")
        return
    yield from _completeness_errors(rules, schema, at, said)
    if isinstance(rules.get("items"), dict):
        items = schema.get("items")
        yield from _nested_completeness_errors(
            rules["items"], items, f"{at}.items", f"{said}.items"
        )
    known: Obj = schema.get("properties") or {}
    for name, inner in (rules.get("properties") or {}).items():
        where, origin = f"{at}.properties[{name}]", f"{said}.properties[{name}]"
        yield from _nested_completeness_errors(inner, known.get(name), where, origin)

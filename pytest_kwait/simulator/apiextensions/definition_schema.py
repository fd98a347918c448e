"""Validation of the schema in a definition: structural form, extensions, rule fields.

In a structural schema exactly one place defines each part of a value. Field paths such as
`.spec.name` or `.metadata['a.b']` are resolved in a schema.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, func
ValidateCustomResourceDefinitionOpenAPISchema; pkg/apiserver/schema/{convert,validation,
complete}.go; pkg/apiserver/schema/cel/validation.go, func ValidFieldPath.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import (
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
from pytest_kwait.simulator.apiextensions.pruning import (
    EMBEDDED,
    INT_OR_STRING,
    METADATA_KEYS,
    PRESERVE,
)
from pytest_kwait.simulator.codec.go_text import find_pattern_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.objects import Obj

_PART = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPE_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INVALID_FIELD = "does not refer to a valid field"
_UNEXPECTED_END = "unexpected end of JSON path"
_RULE_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)

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

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
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


class FieldPathError(Exception):
    """A field path is invalid; the text is the reason."""


def resolve_field_path(path: str, schema: Obj, *, brackets: bool = True) -> tuple[str, Obj]:
    """Resolve a path; return it as messages show it (`spec.name`), and its schema.

    Args:
        schema: the schema where it starts.
        brackets: whether `['name']` is allowed.

    Raises:
        FieldPathError: the path is invalid.
    """
    parts = iter(_PART.findall(path))
    written = ""
    for part in parts:
        if part == ".":
            name = next(parts, None)
        elif part == "[":
            if not brackets:
                raise FieldPathError("array notation is not allowed")
            name = _parse_quoted(next(parts, None))
        else:
            raise FieldPathError(f"expected [ or . but got: {part}")
        if name is None:
            raise FieldPathError(_UNEXPECTED_END)
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        if properties and name in properties:
            written = f"{written}.{name}" if written else name
            schema = properties[name]
        elif not properties and isinstance(more, dict):
            written = f"{written}[{name}]"
            schema = more
        else:
            raise FieldPathError(_INVALID_FIELD)
        if part == "[" and (after := next(parts, None)) != "]":
            raise FieldPathError(
                _UNEXPECTED_END if after is None else f"expected ] but got {after}"
            )
    return written, schema


def _parse_quoted(part: str | None) -> str | None:
    if part is None:
        return None
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {part}")

    def sign(escape: re.Match[str]) -> str:
        letter = escape[1]
        if letter in "'\\":
            return letter
        if letter not in _ESCAPE_SIGNS:
            raise FieldPathError(f"invalid string literal: invalid escape char {escape[0]}")
        return _ESCAPE_SIGNS[letter]

    return _ESCAPED.sub(sign, part[1:-1])


def rule_field_errors(schema: Obj, at: str) -> list[FieldError]:
    """Validate the fields of rules, except their expressions."""
    errors: list[FieldError] = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        errors += _rule_errors(rule, schema, f"{at}.x-kubernetes-validations[{index}]")
    return errors


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def _rule_errors(rule: Obj, schema: Obj, at: str) -> Iterator[FieldError]:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        yield required(f"{at}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{at}.message", message, "must be non-empty if specified")
    elif _has_line_break(message.strip()):
        yield invalid_value(f"{at}.message", message, "must not contain line breaks")
    elif _has_line_break(text) and not message:
        yield required(f"{at}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression", "")
    if expression and not expression.strip():
        why = "messageExpression must be non-empty if specified"
        yield required(f"{at}.messageExpression", why)
    if rule.get("reason") is not None and rule["reason"] not in _RULE_REASONS:
        yield not_supported(f"{at}.reason", rule["reason"], _RULE_REASONS)
    path = rule.get("fieldPath", "")
    if path and not path.strip():
        yield invalid_value(f"{at}.fieldPath", path, "must be non-empty if specified")
    if _has_line_break(path):
        yield invalid_value(f"{at}.fieldPath", path, "must not contain line breaks")
    if path:
        try:
            resolve_field_path(path, schema)
        except FieldPathError:
            yield invalid_value(f"{at}.fieldPath", path, "must be a valid path")


def unsupported_reason(schema: Any) -> str:
    """Explain why `schema` cannot be converted to a structural one; empty if it can."""
    if not isinstance(schema, dict):
        return ""
    for name in _UNSUPPORTED_FIELDS:
        if schema.get(name):
            field_name = "schema" if name == "$schema" else name
            return f"OpenAPIV3Schema '{field_name}' is not supported"
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
    """Return everything that keeps `schema` from being structural, sorted."""
    errors = [*_invariant_errors(schema, "root", at), *_completeness_errors(schema, schema, at, at)]
    return sorted(errors, key=str)


def _invariant_errors(schema: Obj, level: str, at: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    properties: Obj = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    if kind == "array" and schema.get("items") is None:
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
    """Validate value validations: `anyOf`, `allOf`, `oneOf`, `not` and patterns."""
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
    rules: Obj, schema: Obj | None, at: str, origin_path: str
) -> Iterator[FieldError]:
    """Report fields of value validations that the structural schema lacks."""
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(rules.get(name) or ()):
            yield from _nested_completeness_errors(
                inner, schema, at, f"{origin_path}.{name}[{index}]"
            )
    if rules.get("not") is not None:
        yield from _nested_completeness_errors(rules["not"], schema, at, f"{origin_path}.not")


def _nested_completeness_errors(
    rules: Obj, schema: Obj | None, at: str, origin_path: str
) -> Iterator[FieldError]:
    if schema is None:
        yield required(at, f"because it is defined in {origin_path}")
        return
    yield from _completeness_errors(rules, schema, at, origin_path)
    if isinstance(rules.get("items"), dict):
        items = schema.get("items")
        yield from _nested_completeness_errors(
            rules["items"], items, f"{at}.items", f"{origin_path}.items"
        )
    known: Obj = schema.get("properties") or {}
    for name, inner in (rules.get("properties") or {}).items():
        where, origin = f"{at}.properties[{name}]", f"{origin_path}.properties[{name}]"
        yield from _nested_completeness_errors(inner, known.get(name), where, origin)


@dataclass(frozen=True, slots=True)
class SchemaPosition:
    """The position of a schema in its definition.

    Args:
        at: the path of the schema.
        root: whether it is the whole object's.
        no_default: the reason why defaults are forbidden; None if they are allowed.
        in_metadata: whether it is part of metadata, kind or apiVersion.
        uncorrelated: the path below which old and new values cannot be matched.
        ruled: whether rules are allowed.
        count: the maximum number of values in an object; None if unbounded.
    """

    at: str
    root: bool = False
    no_default: str | None = None
    in_metadata: bool = False
    uncorrelated: str = ""
    ruled: bool = True
    count: int | None = 1

    def below(self, step: str) -> SchemaPosition:
        """Return the position of a part."""
        return replace(self, at=f"{self.at}.{step}", root=False)


def root_errors(schema: Obj, at: str, status: bool) -> list[FieldError]:
    """Validate the schema of a whole object; `status` tells of the status subresource."""
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
    """Validate `schema` and its parts; return its errors and those of its rules.

    Rules are validated only in a valid schema.

    Args:
        rules: validates the rules of one schema.
    """
    errors = [*_schema_node_errors(schema, place)]
    ruled: list[FieldError] = []
    for inner, there in _inner_schemas(schema, place):
        inner_errors, about_rules = schema_errors(inner, there, rules)
        errors += inner_errors
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
    if place.in_metadata and schema.get(EMBEDDED):
        text = "must not be used inside of resource meta"
        yield forbidden_field(f"{at}.{EMBEDDED}", text)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{at}.uniqueItems", text)
    more = schema.get("additionalProperties")
    if more is not None and more is not True and schema.get("properties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{at}.additionalProperties", text)


def _inner_schemas(schema: Obj, place: SchemaPosition) -> Iterator[tuple[Obj, SchemaPosition]]:
    """Yield the schemas within `schema` and their positions."""
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
        if (place.root or schema.get(EMBEDDED)) and name in METADATA_KEYS:
            there = replace(there, in_metadata=True)
            if place.root:
                there = replace(there, no_default=f"in top-level {name}")
        yield inner, there
    for name in ("not", "allOf", "oneOf", "anyOf", "definitions"):
        inner = schema.get(name) or []
        if name == "not":
            steps = [("not", inner)] if isinstance(inner, dict) else []
        elif isinstance(inner, dict):
            steps = [(f"{name}[{key}]", inner_schema) for key, inner_schema in inner.items()]
        else:
            steps = [(f"{name}[{index}]", inner_schema) for index, inner_schema in enumerate(inner)]
        for step, inner_schema in steps:
            yield inner_schema, replace(place.below(step), ruled=False)
    items = schema.get("items")
    there = place.below("items")
    if schema.get(_LIST_TYPE) != "map":
        there = replace(there, uncorrelated=place.uncorrelated or place.at)
    if isinstance(items, dict):
        yield items, there
    elif items:
        for index, inner_schema in enumerate(items):
            yield inner_schema, replace(there, at=f"{there.at}[{index}]")


def max_values_below(schema: Obj) -> int | None:
    """Return the maximum number of values in one value; None if unbounded."""
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
    if schema.get(PRESERVE) is False:
        yield invalid_value(f"{at}.{PRESERVE}", False, "must be true or undefined")
    for name, value, required_type in (
        (_MAP_TYPE, map_type, "object"),
        (_LIST_TYPE, list_type, "array"),
    ):
        if value is None:
            continue
        if kind != required_type:
            text = f"must be {required_type} if {name} is specified"
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
        # Upstream shows the list type here, too.
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
    checked_keys: set[str] = set()
    for key in keys:
        key_schema = (items.get("properties") or {}).get(key)
        if key_schema is None:
            text = "entries must all be names of item properties"
            yield invalid_value(f"{at}.{_KEYS}", keys, text)
        elif key_schema.get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid_value(f"{at}.items.properties[{key}].type", items["type"], text)
        if key in checked_keys:
            yield invalid_value(f"{at}.{_KEYS}", keys, "must not contain duplicate entries")
        checked_keys.add(key)


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
        key_schema = (items.get("properties") or {}).get(key)
        if key_schema is None:
            continue
        where = f"{at}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and key_schema.get("default") is None:
            text = (
                f"this property is in {_KEYS}, so it must have a default or be a required property"
            )
            yield required(f"{where}.default", text)
        if key_schema.get("nullable"):
            text = f"this property is in {_KEYS}, so it cannot be nullable"
            yield forbidden_field(f"{where}.nullable", text)

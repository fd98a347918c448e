"""Validation of values against an OpenAPI v3 schema, with ratcheting.

Errors have the server's messages. Parts that an update leaves unchanged are not validated again.
Items of lists of type `set` and `map` must be unique.

Source: k8s.io/kube-openapi pkg/validation/{validate,errors}; k8s.io/apiextensions-apiserver
pkg/apiserver/validation/{validation,ratcheting}.go, pkg/apiserver/schema/listtype/validation.go;
k8s.io/apiserver pkg/cel/common/equality.go.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pytest_kwait.apimachinery.field_errors import FieldError
from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.apimachinery.strfmt import find_known_format, matches_format
from pytest_kwait.simulator.apiextensions.pruning import INT_OR_STRING
from pytest_kwait.simulator.codec.go_text import matches_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.simulator.objects import Obj

UNKNOWN_OLD_VALUE: Final = object()
"""Stands for an unknown or missing old value."""

_INTEGER_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_MAX_EXACT_INTEGER = 2**53
_MAX_FLOAT = 3.4028234663852886e38


def format_go_number(value: float) -> str:
    """Format a number as Go does."""
    if isinstance(value, int):
        return str(value)
    mantissa, _, exponent = f"{Decimal(repr(value)):e}".partition("e")
    power = int(exponent)
    if -5 < power < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    return f"{Decimal(mantissa).normalize():f}e{power:+03d}"


def go_type_name(value: Any) -> str:
    """Return Go's name of a JSON value's type."""
    if value is None:
        return "<nil>"
    names = {bool: "bool", int: "int64", float: "float64", str: "string"}
    if isinstance(value, dict):
        return "map[string]interface {}"
    return names.get(type(value), "[]interface {}")


def format_go_value(value: Any) -> str:
    """Format a JSON value as Go does."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = " ".join(f"{key}:{format_go_value(item)}" for key, item in sorted(value.items()))
        return f"map[{inner}]"
    if isinstance(value, list):
        return f"[{' '.join(map(format_go_value, value))}]"
    return value if isinstance(value, str) else format_go_number(value)


def prefix_error(error: FieldError, at: str) -> FieldError:
    """Prefix the path of an error of a part."""
    inner = "" if error.field in ("", "<nil>") else f".{error.field}"
    return FieldError(error.reason, at + inner, error.message)


def format_value(value: Any) -> str:
    """Format a value for a message."""
    if isinstance(value, bool) or value is None or isinstance(value, str | dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return format_go_number(value)


class ValidationResult:
    """Errors and the number of checks: of failed alternatives, most checks count."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.checks = 0

    def merge(self, result: ValidationResult) -> None:
        """Add the errors and checks of `result`."""
        self.errors += result.errors
        self.checks += result.checks

    def add(self, reason: str, path: str, message: str) -> None:
        """Add an error."""
        self.errors.append(FieldError(reason, path.removeprefix(".") or "<nil>", message))

    def required(self, path: str) -> None:
        """Add the error of a missing value."""
        self.add("FieldValueRequired", path, "Required value")

    def invalid(self, path: str, value: Any, text: str) -> None:
        """Add the error of an invalid value."""
        self.add(
            "FieldValueInvalid",
            path,
            f"Invalid value: {format_value(value)}: {path} in body {text}",
        )

    def wrong_type(self, path: str, expected: str, actual: str) -> None:
        """Add the error of a wrong type or format."""
        quoted = format_value(actual)
        text = f"Invalid value: {quoted}: {path} in body must be of type {expected}: {quoted}"
        self.add("FieldValueTypeInvalid", path, text)

    def unsupported(self, path: str, value: Any, allowed: Sequence[Any]) -> None:
        """Add the error of a value that is not allowed."""
        names = [
            allowed_value if isinstance(allowed_value, str) else format_value(allowed_value)
            for allowed_value in allowed
        ]
        values = ", ".join(map(quote_go, names))
        text = f"Unsupported value: {format_value(value)}: supported values: {values}"
        self.add("FieldValueNotSupported", path, text)

    def too_long(self, path: str, most: int) -> None:
        """Add the error of a string that is too long."""
        text = f"Too long: may not be more than {most} bytes"
        self.add("FieldValueTooLong", path, text)

    def too_many(self, path: str, count: int, most: int) -> None:
        """Add the error of too many items or fields."""
        text = f"Too many: {count}: must have at most {most} item{'' if most == 1 else 's'}"
        self.add("FieldValueTooMany", path, text)

    def add_general(self, text: str) -> None:
        """Add an error without a field."""
        self.add("FieldValueInvalid", "", f'Invalid value: "": {text}')


def validate_value(
    value: Any, schema: Obj, path: str = "", old: Any = UNKNOWN_OLD_VALUE
) -> list[FieldError]:
    """Validate a value.

    Args:
        path: its path; empty for a whole object.
        old: the old value; UNKNOWN_OLD_VALUE if there is none.
    """
    return _validate(value, schema, path, old).errors


def old_field(old: Any, name: str) -> Any:
    """Return the field `name` of an old value."""
    return old.get(name, UNKNOWN_OLD_VALUE) if isinstance(old, dict) else UNKNOWN_OLD_VALUE


def old_item(old: Any, item: Any, schema: Obj) -> Any:
    """Find the old value of `item`: only the items of a `map` have one."""
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return UNKNOWN_OLD_VALUE
    if not isinstance(item, dict):
        return UNKNOWN_OLD_VALUE
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    for old_element in old:
        if isinstance(old_element, dict) and all(
            old_element.get(key) == item.get(key) for key in keys
        ):
            return old_element
    return UNKNOWN_OLD_VALUE


def _validate(value: Any, schema: Obj, path: str, old: Any) -> ValidationResult:
    result = _validate_schema(value, schema, path, old)
    if result.errors and old is not UNKNOWN_OLD_VALUE and value == old:
        result.errors = []
    return result


def _validate_schema(value: Any, schema: Obj, path: str, old: Any) -> ValidationResult:
    result = ValidationResult()
    form = find_known_format(schema)
    _check_type(result, value, schema, path, form)
    if value is None:
        if schema.get("enum"):
            result.unsupported(path, None, schema["enum"])
        return result
    result.checks += 3
    _check_combined(result, value, schema, path, old)
    if isinstance(value, str):
        _check_text(result, value, schema, path)
        if form and not matches_format(value, form):
            result.wrong_type(path, form, value)
        result.checks += 2
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(result, value, schema, path, form)
        result.checks += 2
    elif isinstance(value, list):
        _check_list(result, value, schema, path, old)
        result.checks += 2
    allowed = schema.get("enum")
    if allowed and not any(
        allowed_value == value and _json_kind(allowed_value) == _json_kind(value)
        for allowed_value in allowed
    ):
        result.unsupported(path, value, allowed)
    if isinstance(value, dict):
        _check_object(result, value, schema, path, old)
        result.checks += 1
    result.checks += 1
    return result


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else type(value).__name__


def _type_of(value: Any) -> tuple[str, str]:
    """Return the type of a value, and the format that Go derives from it."""
    if value is None:
        return "null", ""
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, int):
        return (
            ("integer", "int64")
            if abs(value) <= _INTEGER_RANGES["int64"][1]
            else ("number", "float64")
        )
    if isinstance(value, float):
        return "number", "float64"
    if isinstance(value, str):
        return "string", ""
    return ("array" if isinstance(value, list) else "object"), ""


def _check_type(result: ValidationResult, value: Any, schema: Obj, path: str, form: str) -> None:
    types = [schema["type"]] if schema.get("type") else []
    if schema.get(INT_OR_STRING):
        types = ["integer", "string"]
    if not types and not form:
        return
    kind, format_name = _type_of(value)
    if value is None:
        if types and not schema.get("nullable"):
            result.wrong_type(path, ",".join(types), "null")
        return
    whole = kind == "number" and abs(value) < _MAX_EXACT_INTEGER and float(value).is_integer()
    fitting = kind in types or (whole and "integer" in types)
    fitting = fitting or (kind == "integer" and "number" in types)
    if kind in ("string", "array"):
        if form and not {"number", "integer"}.intersection(types):
            return
    elif form and not fitting and format_name != form:
        result.wrong_type(path, form, format_name)
        return
    if not fitting:
        result.wrong_type(path, ",".join(types), kind)


def _check_text(result: ValidationResult, value: str, schema: Obj, path: str) -> None:
    """Report the first error of a string, as the server does."""
    most, least = schema.get("maxLength"), schema.get("minLength")
    if most is not None and len(value) > most:
        result.too_long(path, most)
    elif least is not None and len(value) < least:
        result.invalid(path, value, f"should be at least {least} chars long")
    elif schema.get("pattern") and not matches_pattern(schema["pattern"], value):
        result.invalid(path, value, f"should match '{schema['pattern']}'")


def _is_in_range(value: float, kind: str, form: str) -> bool:
    if kind == "integer":
        least, most = _INTEGER_RANGES.get(form, _INTEGER_RANGES["int64"])
        return float(value).is_integer() and least <= value <= most
    return form != "float" or abs(value) <= _MAX_FLOAT


def _check_number(
    result: ValidationResult, value: float, schema: Obj, path: str, form: str
) -> None:
    kind = schema.get("type", "")
    kind = kind if kind in ("integer", "number") else ""
    form = form if kind else ""

    def hold(number: float, value_name: str) -> bool:
        if _is_in_range(number, kind, form):
            return True
        shape = f"with format {form}" if form else "(default format)"
        result.add_general(f"{value_name} value must be of type {kind} {shape} in {path}")
        return False

    hold(value, "Checked")
    step, most, least = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
    if step is not None and hold(step, "MultipleOf"):
        number = int(step) if isinstance(value, int) else step
        if number <= 0:
            factor = format_go_number(number)
            text = f"factor MultipleOf declared for {path} must be positive: {factor}"
            result.add("FieldValueInvalid", path, f"Invalid value: {factor}: {text}")
        elif not _is_multiple(value, number):
            result.invalid(path, value, f"should be a multiple of {format_go_number(number)}")
    if most is not None:
        hold(most, "Maximum boundary")
        strict = bool(schema.get("exclusiveMaximum"))
        number = int(most) if isinstance(value, int) else most
        if value > number or (strict and value == number):
            relation = "less than" if strict else "less than or equal to"
            result.invalid(path, value, f"should be {relation} {format_go_number(number)}")
    if least is not None:
        hold(least, "Minimum boundary")
        strict = bool(schema.get("exclusiveMinimum"))
        number = int(least) if isinstance(value, int) else least
        if value < number or (strict and value == number):
            relation = "greater than" if strict else "greater than or equal to"
            result.invalid(path, value, f"should be {relation} {format_go_number(number)}")


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int):
        return value % step == 0
    times = 1 / step * value if step < 1 else value / step
    return abs(times - round(times)) < 1e-9


def _check_object(result: ValidationResult, value: Obj, schema: Obj, path: str, old: Any) -> None:
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        result.invalid(path, len(value), f"should have at least {least} properties")
    if most is not None and len(value) > most:
        result.too_many(path, len(value), most)
    properties: Obj = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    for key in sorted(value):
        if key in properties:
            continue
        if more is False:
            text = f'Invalid value: "{key}": {path}.{key} in body is a forbidden property'
            result.add("FieldValueInvalid", path, text)
        elif isinstance(more, dict):
            before = old_field(old, key)
            result.merge(_validate(value[key], more, f"{path}.{key}", before))
    for key in sorted(properties):
        if key in value:
            where = f"{path}.{key}" if path else key
            before = old_field(old, key)
            if not path and key in ("apiVersion", "kind"):
                before = UNKNOWN_OLD_VALUE
            result.merge(_validate(value[key], properties[key], where, before))
    for key in schema.get("required") or ():
        if key not in value:
            result.required(f"{path}.{key}")


def _check_list(
    result: ValidationResult, value: list[Any], schema: Obj, path: str, old: Any
) -> None:
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            before = old_item(old, item, schema)
            result.merge(_validate(item, items, f"{path}[{index}]", before))
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        result.invalid(path, len(value), f"should have at least {least} items")
    if most is not None and len(value) > most:
        result.too_many(path, len(value), most)


def _check_combined(result: ValidationResult, value: Any, schema: Obj, path: str, old: Any) -> None:
    for name in ("anyOf", "oneOf"):
        rules = schema.get(name)
        if rules:
            tried = [_validate_schema(value, rule, path, old) for rule in rules]
            good = [attempt for attempt in tried if not attempt.errors]
            if name == "anyOf" and not good:
                result.add_general(f'"{path}" must validate at least one schema (anyOf)')
            elif name == "oneOf" and len(good) != 1:
                count = f"Found {len(good)} valid alternatives" if good else "Found none valid"
                text = f'"{path}" must validate one and only one schema (oneOf). {count}'
                result.add_general(text)
            if not good:
                result.merge(max(tried, key=lambda attempt: attempt.checks))
    rules = schema.get("allOf")
    if rules:
        tried = [_validate_schema(value, rule, path, old) for rule in rules]
        for attempt in tried:
            result.merge(attempt)
        bad = sum(bool(attempt.errors) for attempt in tried)
        if bad:
            none = ". None validated" if bad == len(tried) else ""
            result.add_general(f'"{path}" must validate all the schemas (allOf){none}')
    if (
        schema.get("not") is not None
        and not _validate_schema(value, schema["not"], path, old).errors
    ):
        result.add_general(f'"{path}" must not validate the schema (not)')


def list_type_errors(value: Any, schema: Obj, at: str = "") -> Iterator[FieldError]:
    """Report repeated items in `value` and its parts."""
    if isinstance(value, dict):
        properties: Obj = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for key, item in value.items():
            if isinstance(more, dict):
                yield from list_type_errors(item, more, f"{at}[{key}]")
            if key in properties:
                yield from list_type_errors(item, properties[key], f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            yield from _duplicate_item_errors(value, at)
        elif kind == "map":
            yield from _duplicate_key_errors(
                value, schema.get("x-kubernetes-list-map-keys") or [], at
            )
        if isinstance(schema.get("items"), dict):
            for index, item in enumerate(value):
                yield from list_type_errors(item, schema["items"], f"{at}[{index}]")


def _duplicate_item_errors(values: list[Any], at: str) -> Iterator[FieldError]:
    count_by_text: dict[str, int] = {}
    for index, item in enumerate(values):
        text = json.dumps(item, sort_keys=True)
        count_by_text[text] = count_by_text.get(text, 0) + 1
        if count_by_text[text] == 2:
            message = f"Duplicate value: {format_value(item)}"
            yield FieldError("FieldValueDuplicate", f"{at}[{index}]", message)


def _duplicate_key_errors(values: list[Any], keys: list[str], at: str) -> Iterator[FieldError]:
    for index, item in enumerate(values):
        if item is not None and not isinstance(item, dict):
            text = (
                f"Invalid value: {format_value(item)}: must be an object for an array of "
                "list-type map"
            )
            yield FieldError("FieldValueInvalid", f"{at}[{index}]", text)
            return
    yield from _duplicate_item_errors(
        [{key: value[key] for key in keys if key in (value or {})} for value in values], at
    )

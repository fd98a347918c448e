"""What holding a value to a schema came to, and the texts of what is wrong.

Source: k8s.io/kube-openapi pkg/validation/validate/result.go, pkg/validation/errors/schema.go,
k8s.io/apiextensions-apiserver pkg/apiserver/validation/validation.go.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ValidationResult",
    "format_go_number",
    "format_go_value",
    "format_value",
    "go_type_name",
    "prefix_error",
]


def format_go_number(value: float) -> str:
    """A number as Go prints it."""
    if isinstance(value, int):
        return str(value)
    mantissa, _, exponent = f"{Decimal(repr(value)):e}".partition("e")
    power = int(exponent)
    if -5 < power < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    return f"{Decimal(mantissa).normalize():f}e{power:+03d}"


def go_type_name(value: Any) -> str:
    """What Go calls the type of a JSON value."""
    if value is None:
        return "<nil>"
    names = {bool: "bool", int: "int64", float: "float64", str: "string"}
    if isinstance(value, dict):
        return "map[string]interface {}"
    return names.get(type(value), "[]interface {}")


def format_go_value(value: Any) -> str:
    """A JSON value as Go prints it."""
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
    """`error`, which was found in a part alone, where the part stands."""
    inner = "" if error.field in ("", "<nil>") else f".{error.field}"
    return FieldError(error.reason, at + inner, error.message)


def format_value(value: Any) -> str:
    """A value as messages show it."""
    if isinstance(value, bool) or value is None or isinstance(value, str | dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return format_go_number(value)


class ValidationResult:
    """Errors, and how many checks were made: of several bad alternatives, most checks count."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.checks = 0

    def merge(self, other: ValidationResult) -> None:
        """Take over what is in `other`."""
        self.errors += other.errors
        self.checks += other.checks

    def add(self, reason: str, path: str, message: str) -> None:
        """Note an error."""
        self.errors.append(FieldError(reason, path.removeprefix(".") or "<nil>", message))

    def required(self, path: str) -> None:
        """Note that there is no value."""
        self.add("FieldValueRequired", path, "Required value")

    def invalid(self, path: str, value: Any, text: str) -> None:
        """Note what the value breaks."""
        self.add(
            "FieldValueInvalid",
            path,
            f"Invalid value: {format_value(value)}: {path} in body {text}",
        )

    def wrong_type(self, path: str, wanted: str, found: str) -> None:
        """Note that the value is of another type or form."""
        quoted = format_value(found)
        text = f"Invalid value: {quoted}: {path} in body must be of type {wanted}: {quoted}"
        self.add("FieldValueTypeInvalid", path, text)

    def unsupported(self, path: str, value: Any, allowed: Sequence[Any]) -> None:
        """Note that the value is none of those that are allowed."""
        names = [one if isinstance(one, str) else format_value(one) for one in allowed]
        values = ", ".join(json.dumps(name, ensure_ascii=False) for name in names)
        text = f"Unsupported value: {format_value(value)}: supported values: {values}"
        self.add("FieldValueNotSupported", path, text)

    def too_long(self, path: str, most: int) -> None:
        """Note that the text is too long."""
        text = f"Too long: may not be more than {most} bytes"
        self.add("FieldValueTooLong", path, text)

    def too_many(self, path: str, count: int, most: int) -> None:
        """Note that there are too many items or fields."""
        text = f"Too many: {count}: must have at most {most} item{'' if most == 1 else 's'}"
        self.add("FieldValueTooMany", path, text)

    def add_general(self, text: str) -> None:
        """Note what is said of no field."""
        self.add("FieldValueInvalid", "", f'Invalid value: "": {text}')

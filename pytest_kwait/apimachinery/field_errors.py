"""Errors of fields, in upstream's order and words.

An error of one field and the list of an object's errors are the findings of the API server and of
kube-scheduler's configuration.

Source: k8s.io/apimachinery pkg/util/validation/field/errors.go, pkg/util/errors/errors.go.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.apimachinery.go_values import quote_go

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

Item = TypeVar("Item")

ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""What Go writes in JSON so that it may stand in HTML."""
NEGATIVE = "must be greater than or equal to 0"
"""The message about a negative number."""


class Rendered(str):
    """A value with its own text in error messages."""

    __slots__ = ()


def render_json(value: Any) -> Rendered:
    """Return the text of a typed value in errors: its fields in their order."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Rendered(text.translate(ESCAPES))


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field of an object."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def cause(self) -> dict[str, str]:
        """Return the entry of `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    """Return the error for a missing value."""
    return FieldError("FieldValueRequired", field, _append_detail("Required value", detail))


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    """Return the error for an invalid value."""
    return FieldError(
        "FieldValueInvalid", field, _append_detail(f"Invalid value: {_format_value(value)}", detail)
    )


def not_supported(field: str, value: object, valid: Iterable[str]) -> FieldError:
    """Return the error for a value that is not one of `valid`."""
    values = ", ".join(map(quote_go, valid))
    return FieldError(
        "FieldValueNotSupported",
        field,
        f"Unsupported value: {_format_value(value)}: supported values: {values}",
    )


def forbidden_field(field: str, detail: str) -> FieldError:
    """Return the error for a field that must not be set or changed."""
    return FieldError("FieldValueForbidden", field, _append_detail("Forbidden", detail))


def duplicate(field: str, value: object) -> FieldError:
    """Return the error for a duplicate value."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {_format_value(value)}")


def too_long(field: str, most: int) -> FieldError:
    """Return the error for a value of more than `most` bytes."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {most} bytes")


def too_many_errors(more: int) -> FieldError:
    """Return the error for `more` errors that are left out."""
    return FieldError("FieldValueInvalid", "<nil>", f"Too many errors: {more} more")


def too_many(field: str, count: int, most: int) -> FieldError:
    """Return the error for a list of more than `most` items."""
    text = f"Too many: {count}: must have at most {most} items"
    return FieldError("FieldValueTooMany", field, text)


def _append_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _format_value(value: object) -> str:
    if isinstance(value, Rendered):
        return str(value)
    if isinstance(value, str):
        return quote_go(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        text = json.dumps(
            value, separators=(",", ":"), sort_keys=True, ensure_ascii=False, default=str
        )
        return text.translate(ESCAPES)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


class ErrorList(list[FieldError]):
    """A list of field errors with a method for each kind of error; `path` names the field."""

    __slots__ = ()

    def __add__(self, other: list[FieldError]) -> ErrorList:  # type: ignore[override]
        return ErrorList([*self, *other])

    def required(self, path: str, detail: str = "") -> None:
        """Add: the value is missing."""
        self.append(required(path, detail))

    def invalid(self, path: str, value: object, detail: str) -> None:
        """Add: the value is invalid."""
        self.append(invalid_value(path, value, detail))

    def invalid_without_value(self, path: str, detail: str) -> None:
        """Add: the value, which the message does not show, is invalid."""
        self.append(FieldError("FieldValueInvalid", path, f"Invalid value: {detail}"))

    def invalid_each(self, path: str, value: object, details: Iterable[str]) -> None:
        """Add: the value is invalid, once for each detail."""
        for detail in details:
            self.append(invalid_value(path, value, detail))

    def not_supported(self, path: str, value: object, valid: Iterable[str]) -> None:
        """Add: the value is none of the `valid` ones."""
        self.append(not_supported(path, value, valid))

    def forbidden(self, path: str, detail: str) -> None:
        """Add: the field must not be set, or must not change."""
        self.append(forbidden_field(path, detail))

    def duplicate(self, path: str, value: object) -> None:
        """Add: the value occurs twice."""
        self.append(duplicate(path, value))

    def not_found(self, path: str, value: str, detail: str = "") -> None:
        """Add: the value refers to something that does not exist."""
        text = f'Not found: "{value}"'
        self.append(FieldError("FieldValueNotFound", path, f"{text}: {detail}" if detail else text))

    def too_many(self, path: str, actual: int, limit: int) -> None:
        """Add: the list has more than `limit` items."""
        self.append(too_many(path, actual, limit))

    def too_long(self, path: str, limit: int) -> None:
        """Add: the text has more than `limit` bytes."""
        self.append(too_long(path, limit))

    def require_fields(self, parent: Mapping[str, Any], path: str, *fields: str) -> None:
        """Require that these fields of `parent` are set."""
        for field in fields:
            if not parent.get(field):
                self.required(f"{path}.{field}")

    def require_one_of(self, path: str, value: str, valid: tuple[str, ...]) -> None:
        """Require a value that is one of the `valid` ones."""
        if not value:
            self.required(path)
        elif value not in valid:
            self.not_supported(path, value, valid)

    def require_supported(self, path: str, value: str | None, valid: Collection[str]) -> None:
        """Require that the value, where set, is one of the `valid` ones."""
        if value is not None and value not in valid:
            self.not_supported(path, value, valid)

    def require_valid(
        self, path: str, value: str, texts: Callable[[str], Iterable[str]], missing: str = ""
    ) -> None:
        """Require a value without errors by `texts`; `missing` is the detail of an empty one."""
        if value:
            self.invalid_each(path, value, texts(value))
        else:
            self.required(path, missing)

    def require_unique(self, path: str, value: Item, known_values: set[Item]) -> None:
        """Require a value that is not in `known_values`, and add it."""
        if value in known_values:
            self.duplicate(path, value)
        known_values.add(value)

    def require_not_negative(self, parent: Mapping[str, Any], path: str, *fields: str) -> None:
        """Require that these fields of `parent`, where set, are zero or more."""
        for field in fields:
            value = parent.get(field)
            if value is not None and value < 0:
                self.invalid(f"{path}.{field}", value, NEGATIVE)


def aggregate_errors(errors: Iterable[object]) -> str:
    """Return the texts of errors as one: in brackets if more than one, without duplicates."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"

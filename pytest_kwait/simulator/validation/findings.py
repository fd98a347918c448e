"""What is found wrong with an object, collected field by field in the order of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from pytest_kwait.simulator.validation.formats import NEGATIVE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["ErrorList"]


class ErrorList(list[FieldError]):
    """A list of errors that rules add to; `at` is the path of the field that is wrong."""

    __slots__ = ()

    def required(self, at: str, detail: str = "") -> None:
        """A value must be there."""
        self.append(required(at, detail))

    def invalid(self, at: str, value: object, detail: str) -> None:
        """The value cannot be meant."""
        self.append(invalid_value(at, value, detail))

    def invalid_whole(self, at: str, detail: str) -> None:
        """The field cannot be meant; its value is not shown."""
        self.append(FieldError("FieldValueInvalid", at, f"Invalid value: {detail}"))

    def texts(self, at: str, value: object, texts: Iterable[str]) -> None:
        """The value cannot be meant, for each of these reasons."""
        for text in texts:
            self.append(invalid_value(at, value, text))

    def unsupported(self, at: str, value: object, valid: Iterable[str]) -> None:
        """The value is none of the `valid` ones."""
        self.append(not_supported(at, value, valid))

    def forbidden(self, at: str, detail: str) -> None:
        """The field may not be set, or not be changed."""
        self.append(forbidden_field(at, detail))

    def duplicate(self, at: str, value: object) -> None:
        """The value is there already."""
        self.append(duplicate(at, value))

    def unknown(self, at: str, value: str, detail: str = "") -> None:
        """The value names nothing that is there."""
        text = f'Not found: "{value}"'
        self.append(FieldError("FieldValueNotFound", at, f"{text}: {detail}" if detail else text))

    def too_many(self, at: str, found: int, most: int) -> None:
        """The list has more than `most` items."""
        text = f"Too many: {found}: must have at most {most} items"
        self.append(FieldError("FieldValueTooMany", at, text))

    def too_long(self, at: str, most: int) -> None:
        """The text has more than `most` bytes."""
        self.append(too_long(at, most))

    def one_of(self, at: str, value: str, valid: tuple[str, ...]) -> None:
        """The value must be there, and be one of the `valid` ones."""
        if not value:
            self.required(at)
        elif value not in valid:
            self.unsupported(at, value, valid)

    def not_negative(self, parent: Obj, at: str, *fields: str) -> None:
        """These numbers must not be below zero."""
        for field in fields:
            value = parent.get(field)
            if value is not None and value < 0:
                self.invalid(f"{at}.{field}", value, NEGATIVE)

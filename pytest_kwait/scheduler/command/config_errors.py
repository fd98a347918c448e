"""Errors of the command: of configuration fields, in the API's form, and fatal ones.

Source: apimachinery, util/validation/field/errors.go.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.errors import KwaitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "CommandError",
    "FieldError",
    "aggregate",
    "duplicate",
    "invalid",
    "not_supported",
    "required",
]


class CommandError(KwaitError):
    """A fatal error of the program; the text is its one line on stderr."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field.

    Args:
        field: its path, for example `leaderElection.leaseDuration`.
        text: the problem.

    Source: apimachinery pkg/util/validation/field/errors.go Error.
    """

    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


def invalid(field: str, value: object, detail: str) -> FieldError:
    """Return the error of an invalid value."""
    return FieldError(field, f"Invalid value: {_format_value(value)}: {detail}")


def required(field: str) -> FieldError:
    """Return the error of a value that is missing."""
    return FieldError(field, "Required value")


def duplicate(field: str, value: object) -> FieldError:
    """Return the error of a value that duplicates another field's."""
    return FieldError(field, f"Duplicate value: {_format_value(value)}")


def not_supported(field: str, value: object, valid: Sequence[str]) -> FieldError:
    """Return the error of an unsupported value."""
    values = ", ".join(map(quote_go, valid))
    return FieldError(
        field, f"Unsupported value: {_format_value(value)}: supported values: {values}"
    )


def aggregate(errors: Iterable[object]) -> CommandError:
    """Combine errors into one: in brackets if more than one, without duplicates.

    Source: apimachinery pkg/util/errors/errors.go aggregate.
    """
    texts = list(dict.fromkeys(map(str, errors)))
    return CommandError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return quote_go(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, separators=(",", ":"), default=str)

"""The list of field errors of an object, and values as error messages show them.

Errors are collected field by field in the order of the rules. Messages show a value as the
internal Go type that the server validates: other field names, another order, empty fields shown.
These types come from `data/internal.json.gz`, which `tools/simulator_data/internal_types.py`
makes by reflection.
Source: k8s.io/apimachinery pkg/util/validation/field/errors.go (ErrorList).
"""

from __future__ import annotations

import difflib
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.validation import NEGATIVE
from pytest_kwait.simulator.api_errors import (
    ESCAPES,
    FieldError,
    Rendered,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    render_json,
    required,
    too_long,
)
from pytest_kwait.simulator.generated_data import read_data

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["ErrorList", "diff_internal", "format_internal", "to_internal"]

_SECURITY_CONTEXT_POD_FIELDS = (
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
)
"""What the API has beside the security context, and the internal type within it."""


@cache
def _internal_types() -> dict[str, list[list[str]]]:
    types: dict[str, list[list[str]]] = read_data("internal.json.gz")["types"]
    return types


def to_internal(name: str, value: Obj) -> Obj:
    """`value`, an object of the API, as the internal type of that `name`, every field in order."""
    if name == "core.PodSpec":
        context = {field: value[field] for field in _SECURITY_CONTEXT_POD_FIELDS if field in value}
        value = {**value, "securityContext": {**context, **(value.get("securityContext") or {})}}
    elif name == "core.PodTemplateSpec":
        value = {**(value.get("metadata") or {}), "spec": value.get("spec", {})}
    shown: Obj = {}
    for field, in_api, empty, of, flags in _internal_types()[name]:
        found = value.get(in_api)
        if flags and (found is None or found in ("", [], {})):
            continue
        if found is None or found in ([], {}):
            if found == {} and of:
                shown[field] = to_internal(of, {})
            elif empty:
                shown[field] = json.loads(empty)
            else:
                shown[field] = to_internal(of, {})
        elif not of:
            shown[field] = _sort_keys(found)
        elif isinstance(found, list):
            shown[field] = [to_internal(of, one) for one in found]
        else:
            shown[field] = to_internal(of, found)
    return shown


def _sort_keys(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def format_internal(name: str, value: Obj | list[Obj] | None) -> Rendered:
    """The text that a refusal shows for a value of that internal type, or for a list of them."""
    if value is None:
        return Rendered("null")
    shown: Any = (
        [to_internal(name, one) for one in value]
        if isinstance(value, list)
        else to_internal(name, value)
    )
    return render_json(shown)


def diff_internal(name: str, old: Obj, new: Obj) -> str:
    """A unified diff of two values of that internal type, without file names."""
    before, after = (
        json.dumps(to_internal(name, value), indent=1, ensure_ascii=False)
        .translate(ESCAPES)
        .splitlines(keepends=True)
        for value in (old, new)
    )
    for lines in (before, after):
        lines[-1] += "\n"
    return "".join(
        line for line in difflib.unified_diff(before, after) if line[:3] not in _DIFF_HEADERS
    )


_DIFF_HEADERS = ("---", "+++")


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

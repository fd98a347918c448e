"""The list of field errors of an object, and values as error messages show them.

Errors are in kube-apiserver's order. Messages show a value as the
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
    too_many,
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
"""Pod fields of the API that the internal type keeps in the security context."""


@cache
def _internal_types() -> dict[str, list[list[str]]]:
    types: dict[str, list[list[str]]] = read_data("internal.json.gz")["types"]
    return types


def to_internal(name: str, value: Obj) -> Obj:
    """Return `value`, an API object, as the internal type `name`, every field in order."""
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
    """Return the text of a value, or list of values, of an internal type in messages."""
    if value is None:
        return Rendered("null")
    shown: Any = (
        [to_internal(name, one) for one in value]
        if isinstance(value, list)
        else to_internal(name, value)
    )
    return render_json(shown)


def diff_internal(name: str, old: Obj, new: Obj) -> str:
    """Return a unified diff of two values of an internal type, without file names."""
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

    def require_one_of(self, path: str, value: str, valid: tuple[str, ...]) -> None:
        """Require a value that is one of the `valid` ones."""
        if not value:
            self.required(path)
        elif value not in valid:
            self.not_supported(path, value, valid)

    def require_not_negative(self, parent: Obj, path: str, *fields: str) -> None:
        """Require that these fields of `parent`, where set, are zero or more."""
        for field in fields:
            value = parent.get(field)
            if value is not None and value < 0:
                self.invalid(f"{path}.{field}", value, NEGATIVE)

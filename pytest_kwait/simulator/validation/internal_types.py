"""Values of API objects in messages: as the internal Go types that the server validates.

Internal types have other field names, another order of fields, and show empty ones. They come from
`data/internal.json.gz`, which `tools/simulator_data/internal_types.py` makes by reflection.
"""

from __future__ import annotations

import difflib
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import ESCAPES, Rendered, render_json
from pytest_kwait.simulator.generated_data import read_data
from pytest_kwait.simulator.objects import EmptiedObj, emptied_fields

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_SECURITY_CONTEXT_POD_FIELDS = (
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
)
"""Pod fields of the API that the internal type keeps in the security context."""
_DIFF_HEADERS = ("---", "+++")


@cache
def _internal_types() -> dict[str, list[list[str]]]:
    types: dict[str, list[list[str]]] = read_data("internal.json.gz")["types"]
    return types


def to_internal(name: str, value: Obj) -> Obj:
    """Return `value`, an API object, as the internal type `name`, every field in order."""
    emptied = emptied_fields(value)
    if name == "core.PodSpec":
        context = {field: value[field] for field in _SECURITY_CONTEXT_POD_FIELDS if field in value}
        own = value.get("securityContext")
        merged = EmptiedObj({**context, **(own or {})}, emptied_fields(own))
        value = {**value, "securityContext": merged}
    elif name == "core.PodTemplateSpec":
        value = {**(value.get("metadata") or {}), "spec": value.get("spec", {})}
    internal_value: Obj = {}
    for field, in_api, empty, of, flags in _internal_types()[name]:
        api_value = value.get(in_api)
        if flags and (api_value is None or api_value in ("", [], {})):
            continue
        if api_value is None or api_value in ([], {}):
            if api_value == {} and of:
                internal_value[field] = to_internal(of, api_value)
            elif empty:
                internal_value[field] = emptied.get(in_api, json.loads(empty))
            else:
                internal_value[field] = to_internal(of, {})
        elif not of:
            internal_value[field] = _sort_keys(api_value)
        elif isinstance(api_value, list):
            internal_value[field] = [to_internal(of, item) for item in api_value]
        else:
            internal_value[field] = to_internal(of, api_value)
    return internal_value


def _sort_keys(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def format_internal(name: str, value: Obj | list[Obj] | None) -> Rendered:
    """Return the text of a value, or list of values, of an internal type in messages."""
    if value is None:
        return Rendered("null")
    internal_value: Any = (
        [to_internal(name, item) for item in value]
        if isinstance(value, list)
        else to_internal(name, value)
    )
    return render_json(internal_value)


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

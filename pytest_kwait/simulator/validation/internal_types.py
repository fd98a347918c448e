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

"""Accepted names of a definition, and its conditions.

Source: k8s.io/apiextensions-apiserver pkg/controller/status/naming_controller.go,
pkg/controller/establish, pkg/controller/apiapproval, pkg/apihelpers/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["accept_names", "set_condition"]


def set_condition(definition: Obj, new: Obj, stamp: str) -> None:
    """Replace the condition of the same type; keep its time if the status is the same."""
    conditions: list[Obj] = definition["status"].get("conditions") or []
    for index, one in enumerate(conditions):
        if one.get("type") == new["type"]:
            same = one.get("status") == new["status"]
            when = one.get("lastTransitionTime") if same else stamp
            conditions[index] = {**one, **new, "lastTransitionTime": when or stamp}
            break
    else:
        conditions.append({**new, "lastTransitionTime": stamp})
    definition["status"]["conditions"] = conditions


def accept_names(definition: Obj, others: Iterable[Obj], stamp: str) -> bool:
    """Accept the names of `definition` that are free.

    Args:
        definition: the definition; its status is changed.
        others: the other definitions of its group.
        stamp: the time for its conditions.

    Returns:
        Whether anything changed.
    """
    status = definition.setdefault("status", {})
    requested: Obj = definition["spec"]["names"]
    accepted: Obj = status.get("acceptedNames") or {"plural": "", "kind": ""}
    if requested == accepted and get_condition(definition, "NamesAccepted"):
        return False
    before = clone(status)
    resources, kinds = _taken_names([*others, definition])
    names, trouble = clone(accepted), ("NoConflicts", "no conflicts found")
    for field, taken in (("plural", resources), ("singular", resources)):
        if _is_name_free(requested, accepted, field, taken):
            _copy_name(requested, names, field)
        else:
            trouble = (f"{field.title()}Conflict", f'"{requested[field]}" is already in use')
    known = accepted.get("shortNames") or []
    used = [
        name
        for name in requested.get("shortNames") or ()
        if name not in known and name in resources
    ]
    if used:
        texts = list(dict.fromkeys(f'"{name}" is already in use' for name in used))
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        trouble = ("ShortNamesConflict", text)
    else:
        _copy_name(requested, names, "shortNames")
    for field, reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        if _is_name_free(requested, accepted, field, kinds):
            _copy_name(requested, names, field)
        else:
            trouble = (reason, f'"{requested[field]}" is already in use')
    _copy_name(requested, names, "categories")
    good = trouble[0] == "NoConflicts"
    status["acceptedNames"] = names
    verdict = {
        "type": "NamesAccepted",
        "status": "True" if good else "False",
        "reason": trouble[0],
        "message": trouble[1],
    }
    old = get_condition(definition, "Established") or {}
    set_condition(definition, verdict, stamp)
    if old.get("status") != "True":
        why = ("Installing", "the initial names have been accepted")
        if not good:
            why = ("NotAccepted", "not all names are accepted")
            why = (old["reason"], old["message"]) if old else why
        established = {"type": "Established", "status": "False"}
        set_condition(definition, established | {"reason": why[0], "message": why[1]}, stamp)
    return bool(status != before)


def _taken_names(definitions: list[Obj]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for one in definitions:
        names: Obj = (one.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", "")}
        resources |= set(names.get("shortNames") or ())
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources, kinds


def _is_name_free(requested: Obj, accepted: Obj, field: str, taken: set[str]) -> bool:
    name = requested.get(field, "")
    return name == accepted.get(field, "") or name not in taken


def _copy_name(requested: Obj, names: Obj, field: str) -> None:
    if field in requested:
        names[field] = requested[field]
    else:
        names.pop(field, None)

"""Taints of nodes and tolerations of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.framework.invalid_objects import InvalidObject, get_mappings, get_string

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

__all__ = [
    "DO_NOT_SCHEDULE_EFFECTS",
    "PREFER_NO_SCHEDULE",
    "find_untolerated_taint",
    "read_tolerations",
    "tolerates",
]

# The effects that prevent scheduling.
DO_NOT_SCHEDULE_EFFECTS = frozenset({"NoExecute", "NoSchedule"})
# The effect that only lowers a node's score.
PREFER_NO_SCHEDULE = "PreferNoSchedule"

_OPERATORS = ("Equal", "Exists", "Lt", "Gt")


def read_tolerations(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a pod's tolerations.

    Raises:
        InvalidObject: they are invalid.
    """
    if not spec.get("tolerations"):
        return ()
    tolerations = get_mappings(spec, "tolerations", "spec")
    for index, one in enumerate(tolerations):
        where = f"spec.tolerations[{index}]"
        for field in ("key", "value", "effect"):
            get_string(one, field, where)
        if (one.get("operator") or "Equal") not in _OPERATORS:
            valid = f"use one of {', '.join(_OPERATORS)}"
            raise InvalidObject(f"{where}.operator", one["operator"], valid)
    return tolerations


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Return whether `toleration` covers `taint`.

    The operators `Lt` and `Gt` never match, as on clusters without the feature gate
    `TaintTolerationComparisonOperators`.

    Source: api, core/v1/toleration.go, `ToleratesTaint`.
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
    return False


def find_untolerated_taint(
    taints: Iterable[Mapping[str, Any]],
    tolerations: Iterable[Mapping[str, Any]],
    effects: Collection[str] = DO_NOT_SCHEDULE_EFFECTS,
) -> Mapping[str, Any] | None:
    """Return the first taint of one of `effects` that no toleration covers; None for none."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None

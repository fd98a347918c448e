"""Taints of nodes and the tolerations of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["REPELLING", "tolerates", "untolerated_taint"]

# The effects that keep a pod from being placed; PreferNoSchedule only makes a node less welcome.
REPELLING = frozenset({"NoExecute", "NoSchedule"})


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether `toleration` covers `taint`.

    Source: api, core/v1/toleration.go, `ToleratesTaint`.
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "") and bool(
                toleration.get("key")
            )
    return False


def untolerated_taint(
    taints: Iterable[Mapping[str, Any]],
    tolerations: Iterable[Mapping[str, Any]],
    effects: Collection[str] = REPELLING,
) -> Mapping[str, Any] | None:
    """Return the first taint of one of `effects` that no toleration covers; None for none."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None

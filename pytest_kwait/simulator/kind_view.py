"""One object as several versions of its kind show it.

Source: k8s.io/kubernetes pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.autoscaler_view import as_version_one, as_version_two

if TYPE_CHECKING:
    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["seen", "stored_form", "view"]

_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def view(kind: Kind, obj: Obj) -> Obj:
    """`obj`, which is stored in some version of its kind, in the version `kind`."""
    if obj.get("apiVersion") == kind.api_version:
        return obj
    if kind.structure is not None:
        return {**kind.structure.without_unknown(obj), "apiVersion": kind.api_version}
    if kind.converted:
        return as_version_one(obj)
    if kind.bucket == "events":
        obj = {_NEW_NAMES.get(key, key): value for key, value in obj.items()}
    return {**obj, "apiVersion": kind.api_version}


def seen(kind: Kind, obj: Obj, caller: Caller) -> Obj:
    """As `view` where a write needs it: by a webhook, where the kind has one for that.

    Raises:
        StatusError: 500, the webhook fails.
        Unanswered: it is to be asked first.
    """
    structure = kind.structure
    if structure is None or structure.conversion is None:
        return view(kind, obj)
    if obj.get("apiVersion") == kind.api_version:
        return obj
    return structure.conversion.convert(obj, kind, caller)


def stored_form(kind: Kind, obj: Obj) -> Obj:
    """`obj`, which is in the version `kind`, as its bucket has it."""
    if kind.stored:
        return obj
    if kind.converted:
        return as_version_two(obj)
    return {_OLD_NAMES.get(key, key): value for key, value in obj.items()}

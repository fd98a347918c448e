"""One object as several versions of its kind show it.

Source: k8s.io/kubernetes pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.conversion import hpa_to_v1, hpa_to_v2

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["to_storage_version", "to_version", "to_version_without_webhook"]

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


def to_version_without_webhook(kind: Kind, obj: Obj) -> Obj:
    """`obj`, which is stored in some version of its kind, in the version `kind`."""
    if obj.get("apiVersion") == kind.api_version:
        return obj
    if kind.structure is not None:
        return {**kind.structure.without_unknown(obj), "apiVersion": kind.api_version}
    if kind.converted:
        return hpa_to_v1(obj)
    if kind.bucket == "events":
        obj = {_NEW_NAMES.get(key, key): value for key, value in obj.items()}
    return {**obj, "apiVersion": kind.api_version}


def to_version(kind: Kind, obj: Obj, caller: Caller) -> Obj:
    """As `to_version_without_webhook` where a write needs it: by a webhook, where the kind has one for that.

    Raises:
        StatusError: 500, the webhook fails.
        Unanswered: it is to be asked first.
    """
    structure = kind.structure
    if structure is None or structure.conversion is None:
        return to_version_without_webhook(kind, obj)
    if obj.get("apiVersion") == kind.api_version:
        return obj
    return structure.conversion.convert(obj, kind, caller)


def to_storage_version(kind: Kind, obj: Obj) -> Obj:
    """`obj`, which is in the version `kind`, as its bucket has it."""
    if kind.stored:
        return obj
    if kind.converted:
        return hpa_to_v2(obj)
    return {_OLD_NAMES.get(key, key): value for key, value in obj.items()}

"""Validation of events in the core group and in the stricter events.k8s.io/v1.

Source: k8s.io/kubernetes pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import dns_subdomain_texts, label_key_texts
from pytest_kwait.simulator.api_errors import invalid_value, render_json
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["validate_event", "validate_event_update"]

_NAMESPACE_MISMATCH = "does not match event.namespace"
_REFERENCE_FIELDS = {
    "Kind": "kind",
    "Namespace": "namespace",
    "Name": "name",
    "UID": "uid",
    "APIVersion": "apiVersion",
    "ResourceVersion": "resourceVersion",
    "FieldPath": "fieldPath",
}
_SOURCE_FIELDS = {"Component": "component", "Host": "host"}
_MAX_LENGTHS = {"reportingInstance": 128, "action": 128, "reason": 128}
_MAX_NOTE_LENGTH = 1024


def validate_event(event: Obj, *, newer: bool) -> ErrorList:
    """Validate an event in its core form; `newer` if the request was events.k8s.io/v1."""
    errors = _validate_common_fields(event, newer=newer)
    if not newer:
        return errors
    name = event["metadata"].get("name", "")
    errors.invalid_each("metadata.name", name, dns_subdomain_texts(name))
    errors += _validate_series(event)
    if not event.get("eventTime"):
        errors.required("eventTime")
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        errors.invalid("type", "", f"has invalid value: {kind}")
    source = event.get("source") or {}
    unset = [field for field in ("firstTimestamp", "lastTimestamp", "count") if event.get(field)]
    unset += ["source"] if source.get("component") or source.get("host") else []
    errors += [invalid_value(field, "", "needs to be unset") for field in unset]
    return errors


def _validate_common_fields(event: Obj, *, newer: bool) -> ErrorList:
    about = (event.get("involvedObject") or {}).get("namespace", "")
    namespace, at = event["metadata"].get("namespace", ""), "involvedObject.namespace"
    if not event.get("eventTime"):
        astray = namespace not in ("", "default") if not about else namespace != about
        return ErrorList([invalid_value(at, about, _NAMESPACE_MISMATCH)]) if astray else ErrorList()
    errors = ErrorList()
    if not about and namespace not in ("default", "kube-system"):
        errors.invalid(at, about, _NAMESPACE_MISMATCH)
    reporter = event.get("reportingComponent", "")
    at = "reportingController" if newer else "reportingComponent"
    if not reporter:
        errors.required(at)
    errors.invalid_each(at, reporter, label_key_texts(reporter))
    for field, most in _MAX_LENGTHS.items():
        value = event.get(field, "")
        if not value:
            errors.required(field)
        if len(value.encode()) > most:
            errors.invalid(field, "", f"can have at most {most} characters")
    if len(event.get("message", "").encode()) > _MAX_NOTE_LENGTH:
        text = f"can have at most {_MAX_NOTE_LENGTH} characters"
        errors.invalid("message", "", text)
    return errors


def _validate_series(event: Obj) -> ErrorList:
    series = event.get("series")
    if series is None:
        return ErrorList()
    errors = ErrorList()
    if series.get("count", 0) < 2:
        errors.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        errors.required("series.lastObservedTime")
    return errors


def validate_event_update(new: Obj, old: Obj, *, newer: bool) -> ErrorList:
    """Validate a change of an event; in events.k8s.io/v1 only the series may change."""
    errors = _validate_common_fields(new, newer=newer)
    if not newer:
        return errors
    if new.get("series") != old.get("series"):
        errors += _validate_series(new)
    for field, shown in (
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ):
        if (new.get(field) or None) != (old.get(field) or None):
            errors.invalid(shown, _render_field(field, new), "field is immutable")
    return errors


def _render_field(field: str, event: Obj) -> object:
    value = event.get(field)
    if field in ("involvedObject", "related"):
        if value is None:
            return None
        return render_json({name: value.get(key, "") for name, key in _REFERENCE_FIELDS.items()})
    if field == "source":
        return render_json(
            {name: (value or {}).get(key, "") for name, key in _SOURCE_FIELDS.items()}
        )
    if field == "count":
        return value or 0
    return value if value is not None or field.endswith(("Time", "Timestamp")) else ""

"""Selectors of requests: labels, and the fields that each kind can be selected by.

Source: the label conversions of each kind in k8s.io/kubernetes pkg/apis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.selectors import (
    FieldTerm,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)
from pytest_kwait.simulator.api_errors import bad_request

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

_ALWAYS = ("metadata.name", "metadata.namespace")
_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "jobs.batch": ("status.successful",),
    "replicationcontrollers": ("status.replicas",),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "resourceslices.resource.k8s.io": ("spec.nodeName", "spec.driver"),
}
_NAME_ONLY = frozenset(
    {
        "certificatesigningrequests.certificates.k8s.io",
        "namespaces",
        "nodes",
        "resourceslices.resource.k8s.io",
    }
)
"""Cluster-wide kinds whose objects cannot be selected by the namespace that they do not have."""
_INTEGER_FIELDS = frozenset({"status.successful", "status.replicas"})
_RENAMED = {"status.successful": "status.succeeded"}
_EVENT_NAMES = {"regarding": "involvedObject", "reportingController": "reportingComponent"}
_OLD_EVENT_NAMES = ("involvedObject", "reportingComponent", "source")


def format_go_selector(selector: Obj | None) -> str:
    """Format a `LabelSelector` as Go prints the pointer to one."""
    if selector is None:
        return "nil"
    labels = "".join(
        f"{name}: {value}," for name, value in sorted((selector.get("matchLabels") or {}).items())
    )
    terms = "".join(
        "LabelSelectorRequirement{"
        f"Key:{expression['key']},Operator:{expression['operator']},"
        f"Values:[{' '.join(expression.get('values') or ())}],"
        "},"
        for expression in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )


def parse_labels(text: str) -> LabelSelector:
    """Parse a label selector.

    Raises:
        StatusError: 400, the selector is invalid.
    """
    try:
        return parse_label_selector(text)
    except ValueError as error:
        raise bad_request(str(error)) from None


class FieldSelector:
    """A parsed field selector; an empty one matches everything.

    Args:
        terms: the requirements.
    """

    __slots__ = ("_terms",)

    def __init__(self, terms: list[FieldTerm]) -> None:
        self._terms = terms

    def __bool__(self) -> bool:
        return bool(self._terms)

    def matches(self, obj: Obj) -> bool:
        """Return whether an object matches."""
        return all(
            (_read_field(obj, term.field) == term.value) is term.equal for term in self._terms
        )

    @property
    def name(self) -> str | None:
        """The only name that can match, None if several can."""
        for term in self._terms:
            if term.field == "metadata.name" and term.equal:
                return term.value
        return None


def parse_fields(text: str, kind: Kind) -> FieldSelector:
    """Parse a field selector for objects of `kind`.

    Raises:
        StatusError: 400, the selector is invalid or the field is not selectable.
    """
    try:
        terms = parse_field_selector(text)
    except ValueError as error:
        raise bad_request(str(error)) from None
    return FieldSelector([term._replace(field=_check_field(term.field, kind)) for term in terms])


def _check_field(field: str, kind: Kind) -> str:
    if field in _ALWAYS and not (field == "metadata.namespace" and kind.bucket in _NAME_ONLY):
        return field
    stored = field
    if kind.qualified == "events.events.k8s.io":
        first, dot, rest = field.partition(".")
        if first in _OLD_EVENT_NAMES:
            raise bad_request(f"field label not supported: {field}")
        stored = _EVENT_NAMES.get(first, first) + dot + rest
    if stored in _FIELDS.get(kind.bucket, ()):
        return _RENAMED.get(stored, stored)
    if kind.structure is not None and field in kind.structure.selectable:
        return field
    if kind.bucket == "jobs.batch":
        raise bad_request(f'field label "{field}" not supported for {kind.kind}')
    if kind.bucket == "resourceslices.resource.k8s.io":
        raise bad_request(
            f"field label not supported for {kind.api_version}, Kind={kind.kind}: {field}"
        )
    if kind.custom or kind.bucket in _FIELDS:
        raise bad_request(f"field label not supported: {field}")
    raise bad_request(
        f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _read_field(obj: Obj, field: str) -> str:
    if field == "source":
        source: str = obj.get("source", {}).get("component") or obj.get("reportingComponent", "")
        return source
    if field == "status.podIPs":
        return ",".join(entry.get("ip", "") for entry in obj.get("status", {}).get("podIPs", ()))
    value: Any = obj
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        if field in _INTEGER_FIELDS or field in _RENAMED.values():
            return "0"
        return "false" if field in ("spec.unschedulable", "spec.hostNetwork") else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)

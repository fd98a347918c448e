"""Validation of downward API references: fields of the pod, resources of its containers.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, validateObjectFieldSelector,
validateContainerResourceFieldSelector; pkg/apis/core/pods/helpers.go,
ConvertDownwardAPIFieldLabel; pkg/fieldpath/fieldpath.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import label_key_texts
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["validate_object_field_selector", "validate_resource_field_selector"]

_FIELD_LABELS = frozenset(
    [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ]
)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_MEMORY_DIVISORS = (
    "1",
    "1k",
    "1M",
    "1G",
    "1T",
    "1P",
    "1E",
    "1Ki",
    "1Mi",
    "1Gi",
    "1Ti",
    "1Pi",
    "1Ei",
)
_CPU_DIVISORS = ("1m", "1")


def validate_object_field_selector(ref: Obj, fields: tuple[str, ...], at: str) -> ErrorList:
    """Validate a pod field: one of `fields`, or a label or annotation by key."""
    errors = ErrorList()
    version, path = ref.get("apiVersion", ""), ref.get("fieldPath", "")
    if not version or not path:
        errors.required(f"{at}.{'fieldPath' if version else 'apiVersion'}")
        return errors
    name, key = path, None
    if path.endswith("']") and path.find("['") > 0:
        name, _, rest = path.partition("['")
        key = rest[:-2]
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif key is not None and name not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {path}"
    elif key is None and path == "spec.host":
        name = "spec.nodeName"
    elif key is None and path not in _FIELD_LABELS:
        problem = f"field label not supported: {path}"
    if problem:
        errors.invalid(f"{at}.fieldPath", path, f"error converting fieldPath: {problem}")
    elif key is not None:
        lowered = key.lower() if name == "metadata.annotations" else key
        errors.invalid_each(at, lowered, label_key_texts(lowered))
    elif name not in fields:
        errors.not_supported(f"{at}.fieldPath", name, fields)
    return errors


def validate_resource_field_selector(ref: Obj, at: str, *, of_volume: bool) -> ErrorList:
    """Validate a reference to a container's request or limit, with its divisor."""
    errors = ErrorList()
    resource = ref.get("resource", "")
    if of_volume and not ref.get("containerName"):
        errors.required(f"{at}.containerName")
    elif not resource:
        errors.required(f"{at}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.not_supported(f"{at}.resource", resource, _RESOURCES)
    errors += _validate_divisor(resource, ref.get("divisor", "0"), f"{at}.divisor")
    return errors


def _validate_divisor(resource: str, divisor: str, at: str) -> ErrorList:
    errors = ErrorList()
    if parse_quantity(divisor).amount == 0:
        return errors
    kind = resource.partition(".")[2]
    if kind == "cpu":
        if divisor not in _CPU_DIVISORS:
            text = "only divisor's values 1m and 1 are supported with the cpu resource"
            errors.invalid(at, resource, text)
        return errors
    called = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind)
    if resource.startswith(_HUGE_PAGES):
        called = "hugepages"
    if called is not None and divisor not in _MEMORY_DIVISORS:
        units = ", ".join(_MEMORY_DIVISORS)
        text = f"only divisor's values {units} are supported with the {called} resource"
        errors.invalid(at, resource, text)
    return errors

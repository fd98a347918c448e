"""Validation of access reviews.

Source: k8s.io/kubernetes pkg/apis/authorization/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

AUTHORIZATION_GROUP = "authorization.k8s.io"
RESOURCE_ATTRIBUTES = "resourceAttributes"
NON_RESOURCE_ATTRIBUTES = "nonResourceAttributes"


def validate_access_review(review: Obj, *, namespaced: bool, own: bool) -> ErrorList:
    """Validate an access review.

    Args:
        namespaced: it is a LocalSubjectAccessReview.
        own: it is about the caller, as a SelfSubjectAccessReview.
    """
    spec, errors = review["spec"], ErrorList()
    resource, path = spec.get(RESOURCE_ATTRIBUTES), spec.get(NON_RESOURCE_ATTRIBUTES)
    non_resource = (
        None if path is None else {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
    )
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        errors.invalid(f"spec.{NON_RESOURCE_ATTRIBUTES}", non_resource, why)
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.invalid(f"spec.{RESOURCE_ATTRIBUTES}", None, why)
    if not own and not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        errors.invalid("spec.user", "", why)
    errors += _validate_selectors(resource or {})
    metadata = {name: value for name, value in review["metadata"].items() if value}
    extra_fields = {*metadata} - {"managedFields"} - ({"namespace"} if namespaced else set())
    if extra_fields:
        why = "must be empty except for namespace" if namespaced else "must be empty"
        errors.invalid("metadata", metadata, why)
    if namespaced and resource is not None:
        namespace = resource.get("namespace", "")
        if namespace != metadata["namespace"]:
            field = f"spec.{RESOURCE_ATTRIBUTES}.namespace"
            errors.invalid(field, namespace, "must match metadata.namespace")
    if namespaced and path is not None:
        why = "disallowed on this kind of request"
        errors.invalid(f"spec.{NON_RESOURCE_ATTRIBUTES}", non_resource, why)
    return errors


def _validate_selectors(resource: Obj) -> ErrorList:
    errors = ErrorList()
    for name in ("fieldSelector", "labelSelector"):
        selector, path = resource.get(name), f"spec.{RESOURCE_ATTRIBUTES}.{name}"
        if selector is None:
            continue
        raw, requirements = selector.get("rawSelector", ""), selector.get("requirements")
        if raw and requirements:
            why = "may not specified at the same time as requirements"
            errors.invalid(f"{path}.rawSelector", raw, why)
        if not raw and not requirements:
            why = f"when {path} is specified, requirements or rawSelector is required"
            errors.required(f"{path}.requirements", why)
    return errors

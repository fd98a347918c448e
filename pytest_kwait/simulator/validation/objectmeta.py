"""Validation of object metadata: names, labels, annotations, finalizers, owner references.

Owner references must be complete, name kinds that can own objects, include at most one controller,
and be unique; repeated ones are dropped with a warning.

Source: k8s.io/apimachinery pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation;
k8s.io/kubernetes pkg/apis/core/validation/validation.go, validateFinalizerName;
k8s.io/apiserver pkg/registry/rest/update.go, validateCommonFields;
k8s.io/apiserver pkg/endpoints/handlers/rest.go, dedupOwnerReferencesAndAddWarning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pytest_kwait.apimachinery.field_errors import NEGATIVE, ErrorList, invalid_value, render_json
from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
    path_segment_texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

ValidateNameFunc: TypeAlias = "Callable[[str, bool], list[str]]"
"""Returns messages for an invalid name; True for the prefix of a generated one."""
STANDARD_FINALIZER_NAMES = ("kubernetes", "orphan", "foregroundDeletion")

_MAX_REFERENCES_SIZE = 4 * 1024 * 1024
"""Characters of all errors that show the references."""
_OWNER_REFERENCES_PATH = "metadata.ownerReferences"
_OWNER_REFERENCE_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_BANNED_OWNERS = {("v1", "Event"): "/v1, Kind=Event"}

_MAX_ANNOTATIONS_SIZE = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")

_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")

_LENIENT_FINALIZER_GROUPS = frozenset(
    # They use apimachinery's validation of metadata, not the core group's.
    [
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
    ]
)


def validate_finalizer_name(name: str, path: str) -> ErrorList:
    """Validate the name of a finalizer."""
    texts = label_key_texts(name)
    if "/" not in name and name not in STANDARD_FINALIZER_NAMES:
        texts.append("name is neither a standard finalizer name nor is it fully qualified")
    return ErrorList([invalid_value(path, name, text) for text in texts])


def validate_owner_references(references: Sequence[Obj]) -> ErrorList:
    """Validate the owner references of an object."""
    errors = ErrorList()
    controller, references_text, size = "", "", 0
    for reference in references:
        version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
        if not version or version.count("/") > 1 or version.endswith("/"):
            text = "version must not be empty"
            errors.invalid(f"{_OWNER_REFERENCES_PATH}.apiVersion", version, text)
        errors += [
            invalid_value(f"{_OWNER_REFERENCES_PATH}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not reference.get(field)
        ]
        if (version, kind) in _BANNED_OWNERS:
            text = f"{_BANNED_OWNERS[version, kind]} is disallowed from being an owner"
            errors.invalid(_OWNER_REFERENCES_PATH, render_json(_order_fields(reference)), text)
        if reference.get("controller"):
            owner_text = f"{kind}/{reference.get('name', '')}"
            if controller:
                text = (
                    "Only one reference can have Controller set to true. Found "
                    f'"true" in references for {controller} and {owner_text}'
                )
                if not references_text:
                    references_text = render_json([*map(_order_fields, references)])
                size += len(references_text)
                if size <= _MAX_REFERENCES_SIZE:
                    errors.invalid(_OWNER_REFERENCES_PATH, references_text, text)
            controller = controller or owner_text
    return errors


def _order_fields(reference: Obj) -> Obj:
    return {
        field: reference.get(field, "")
        for field in _OWNER_REFERENCE_FIELDS
        if field in reference or field in _OWNER_REFERENCE_FIELDS[:4]
    }


_SORTED_JSON = msgspec.json.Encoder(order="sorted")


def dedup_owner_references(metadata: Obj) -> str:
    """Drop repeated owner references in place; return warnings about them."""
    references: list[Obj] = metadata.get("ownerReferences") or []
    contents = _SORTED_JSON.encode_lines(references).splitlines()
    if len(set(contents)) == len(references):
        return ""
    unique_references: dict[bytes, Obj] = {}
    repeated: list[str] = []
    for content, reference in zip(contents, references, strict=True):
        if content in unique_references:
            repeated.append(reference.get("uid", ""))
        unique_references.setdefault(content, reference)
    metadata["ownerReferences"] = list(unique_references.values())
    return (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references "
        "in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(dict.fromkeys(repeated))}"
    )


def name_texts(name: str, *, label: bool = False) -> list[str]:
    """Return messages if `name` is no DNS subdomain, or with `label` no DNS label."""
    return dns_label_texts(name) if label else dns_subdomain_texts(name)


def name_is_dns_subdomain(name: str, prefix: bool) -> list[str]:
    """Return messages if `name`, or a prefix of one, is no DNS subdomain."""
    return dns_subdomain_texts(_mask_trailing_dash(name) if prefix else name)


def name_is_dns_label(name: str, prefix: bool) -> list[str]:
    """Return messages if `name`, or a prefix of one, is no DNS label."""
    return dns_label_texts(_mask_trailing_dash(name) if prefix else name)


def name_is_path_segment(name: str, prefix: bool) -> list[str]:
    """Return messages if `name`, or a prefix of one, is no segment of a path."""
    return path_segment_texts(name, prefix=prefix)


def _mask_trailing_dash(prefix: str) -> str:
    """Return a prefix without its dash: the generated suffix follows it.

    The character before it is not checked either.
    """
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix[-1] == "-" else prefix


def validate_labels(labels: dict[str, str], path: str) -> ErrorList:
    """Validate a mapping of labels."""
    errors = ErrorList()
    for key, value in sorted(labels.items()):
        errors.invalid_each(path, key, label_key_texts(key))
        errors.invalid_each(path, value, label_value_texts(value))
    return errors


def validate_label_selector(selector: Obj, path: str) -> ErrorList:
    """Validate a label selector."""
    errors = validate_labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values", [])
        if operator in ("In", "NotIn") and not values:
            errors.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.forbidden(f"{at}.values", text)
        elif operator not in _OPERATORS:
            errors.invalid(f"{at}.operator", operator, "not a valid selector operator")
        key = expression.get("key", "")
        errors.invalid_each(f"{at}.key", key, label_key_texts(key))
        for place, value in enumerate(values):
            errors.invalid_each(f"{at}.values[{place}]", value, label_value_texts(value))
    return errors


def validate_object_meta(
    obj: Obj, kind: Kind, validate_name: ValidateNameFunc = name_is_dns_subdomain
) -> ErrorList:
    """Validate the metadata of a new object."""
    metadata = obj["metadata"]
    errors = _validate_object_meta(metadata, kind, validate_name)
    return errors + _validate_finalizers(metadata) if _validates_finalizers(kind) else errors


def _validates_finalizers(kind: Kind) -> bool:
    """Return whether finalizers must be standard or qualified names."""
    return not kind.custom and kind.group not in _LENIENT_FINALIZER_GROUPS


def _validate_object_meta(metadata: Obj, kind: Kind, validate_name: ValidateNameFunc) -> ErrorList:
    errors = ErrorList()
    if prefix := metadata.get("generateName"):
        errors.invalid_each("metadata.generateName", prefix, validate_name(prefix, True))
    if name := metadata.get("name"):
        errors.invalid_each("metadata.name", name, validate_name(name, False))
    else:
        errors.required("metadata.name", "name or generateName is required")
    if not kind.namespaced:
        if metadata.get("namespace"):
            errors.forbidden("metadata.namespace", "not allowed on this type")
    elif namespace := metadata.get("namespace"):
        errors.invalid_each("metadata.namespace", namespace, dns_label_texts(namespace))
    else:
        errors.required("metadata.namespace")
    if metadata.get("generation", 0) < 0:
        errors.invalid("metadata.generation", metadata["generation"], NEGATIVE)
    errors += _validate_repeated_fields(metadata)
    finalizers = metadata.get("finalizers", ())
    errors += [
        invalid_value("metadata.finalizers", finalizer, text)
        for finalizer in finalizers
        for text in label_key_texts(finalizer)
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.invalid("metadata.finalizers", finalizers, text)
    return errors


def _validate_repeated_fields(metadata: Obj) -> ErrorList:
    """Validate fields that every validation of metadata repeats."""
    if "labels" not in metadata and "annotations" not in metadata:
        return validate_owner_references(metadata.get("ownerReferences", ()))
    return ErrorList(
        [
            *validate_labels(metadata.get("labels", {}), "metadata.labels"),
            *validate_annotations(metadata.get("annotations", {}), "metadata.annotations"),
            *validate_owner_references(metadata.get("ownerReferences", ())),
        ]
    )


def _validate_finalizers(metadata: Obj) -> ErrorList:
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return ErrorList(
        [
            invalid_value(f"metadata.finalizers[{index}]", finalizer, text)
            for index, finalizer in enumerate(metadata.get("finalizers", ()))
            if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
        ]
    )


def validate_annotations(annotations: dict[str, str], path: str) -> ErrorList:
    """Validate a mapping of annotations."""
    errors = ErrorList()
    size = 0
    for key, value in sorted(annotations.items()):
        size += len(key.encode()) + len(value.encode())
        errors.invalid_each(path, key, label_key_texts(key.lower()))
    if size > _MAX_ANNOTATIONS_SIZE:
        errors.too_long(path, _MAX_ANNOTATIONS_SIZE)
    return errors


def validate_object_meta_update(new: Obj, old: Obj, kind: Kind) -> ErrorList:
    """Validate a change of metadata, as the validation of the kind does."""
    errors = _validate_changed_fields(new, old)
    if _validates_finalizers(kind):
        errors += _validate_finalizers(new["metadata"])
    return errors


def validate_common_fields(new: Obj, kind: Kind) -> ErrorList:
    """Validate the metadata of any new object, after the validation of its kind."""
    return _validate_object_meta(new["metadata"], kind, name_is_path_segment)


def validate_common_fields_update(new: Obj, old: Obj, kind: Kind) -> ErrorList:
    """Validate a change of any metadata, before the validation of the kind."""
    return validate_common_fields(new, kind) + _validate_changed_fields(new, old)


def _validate_changed_fields(new: Obj, old: Obj) -> ErrorList:
    errors = ErrorList()
    metadata, before = new["metadata"], old["metadata"]
    if before.get("deletionTimestamp"):
        extra = sorted(set(metadata.get("finalizers", ())) - set(before.get("finalizers", ())))
        if extra:
            listed = ", ".join(f'"{name}"' for name in extra)
            errors.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new "
                f"finalizers []string{{{listed}}}",
            )
    for field in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in ("name", "namespace", "uid") or field in metadata:
            value = metadata.get(field)
            if value != before.get(field):
                errors.invalid(f"metadata.{field}", value, "field is immutable")
    return errors + _validate_repeated_fields(metadata)


def validate_delete_options(options: Obj) -> ErrorList:
    """Validate the options of a deletion."""
    errors = ErrorList()
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        errors.invalid(
            "propagationPolicy",
            policy,
            "orphanDependents and deletionPropagation cannot be both set",
        )
    valid = ("Foreground", "Background", "Orphan", "nil")
    if policy is not None and policy not in valid[:3]:
        errors.not_supported("propagationPolicy", policy, valid)
    return errors

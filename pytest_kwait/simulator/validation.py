"""Rules that all kinds share: names, labels, annotations, metadata as a whole.

Source: k8s.io/apimachinery pkg/util/validation/validation.go, pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.status_error import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = [
    "label_errors",
    "label_value_texts",
    "metadata_errors",
    "metadata_update_errors",
    "name_errors",
    "qualified_name_texts",
    "selector_errors",
]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

LABEL_MAX, SUBDOMAIN_MAX = 63, 253
_ANNOTATIONS_MAX = 256 * 1024
_PATH_KINDS = frozenset(
    # Kinds whose names only have to fit into a path.
    [
        "roles.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "events",
        "customresourcedefinitions.apiextensions.k8s.io",
    ]
)
_LABEL_KINDS = frozenset({"namespaces", "services"})


def name_errors(name: str, *, label: bool = False) -> list[str]:
    """Why `name` is no DNS subdomain, or with `label` no DNS label; empty if it is one."""
    texts = []
    most, form, rule = (
        (LABEL_MAX, _LABEL, _LABEL_RULE) if label else (SUBDOMAIN_MAX, _SUBDOMAIN, _SUBDOMAIN_RULE)
    )
    if len(name) > most:
        texts.append(f"must be no more than {most} bytes")
    if not form.fullmatch(name):
        texts.append(rule)
    return texts


def _names_of_kind(kind: Kind, name: str) -> list[str]:
    if kind.bucket in _PATH_KINDS:
        texts = [f"may not be '{name}'"] if name in (".", "..") else []
        texts += [f"may not contain '{sign}'" for sign in "/%" if sign in name]
        return texts
    return name_errors(name, label=kind.bucket in _LABEL_KINDS)


def qualified_name_texts(name: str) -> list[str]:
    """Why `name` is no key of a label: `[prefix/]name`; empty if it is one."""
    prefix, slash, rest = name.rpartition("/")
    texts = []
    if slash:
        if not prefix:
            texts.append("prefix part must be non-empty")
        elif "/" in prefix:
            return [
                "a qualified name "
                + _QUALIFIED_RULE.removeprefix("name part ")
                + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        else:
            texts += [f"prefix part {text}" for text in name_errors(prefix)]
    if not rest:
        texts.append("name part must be non-empty")
    elif len(rest) > LABEL_MAX:
        texts.append(f"name part must be no more than {LABEL_MAX} bytes")
    if not _QUALIFIED.fullmatch(rest):
        texts.append(_QUALIFIED_RULE)
    return texts


def label_value_texts(value: str) -> list[str]:
    """Why `value` is no value of a label; empty if it is one."""
    texts = [] if len(value) <= LABEL_MAX else [f"must be no more than {LABEL_MAX} bytes"]
    return texts if _VALUE.fullmatch(value) else [*texts, _VALUE_RULE]


def label_errors(labels: dict[str, str], path: str) -> list[FieldError]:
    """What is wrong with a mapping of labels."""
    errors = []
    for key, value in sorted(labels.items()):
        errors += [invalid_value(path, key, text) for text in qualified_name_texts(key)]
        errors += [invalid_value(path, value, text) for text in label_value_texts(value)]
    return errors


_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")


def selector_errors(selector: Obj, path: str) -> list[FieldError]:
    """What is wrong with a label selector object."""
    errors = label_errors(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values", [])
        if operator in ("In", "NotIn") and not values:
            errors.append(
                required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            )
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{at}.values", text))
        elif operator not in _OPERATORS:
            errors.append(
                invalid_value(f"{at}.operator", operator, "not a valid selector operator")
            )
        key = expression.get("key", "")
        errors += [invalid_value(f"{at}.key", key, text) for text in qualified_name_texts(key)]
    return errors


def metadata_errors(obj: Obj, kind: Kind) -> list[FieldError]:
    """What is wrong with an object's metadata, whatever the object is."""
    metadata = obj["metadata"]
    errors: list[FieldError] = []
    name = metadata.get("name", "")
    if prefix := metadata.get("generateName"):
        errors += [
            invalid_value("metadata.generateName", prefix, text)
            for text in _names_of_kind(kind, prefix.rstrip("-.") or "a")
        ]
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += [
            invalid_value("metadata.name", name, text) for text in _names_of_kind(kind, name)
        ]
    if kind.namespaced:
        namespace = metadata.get("namespace", "")
        errors += [
            invalid_value("metadata.namespace", namespace, text)
            for text in name_errors(namespace, label=True)
        ]
    elif metadata.get("namespace"):
        errors.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    errors += label_errors(metadata.get("labels", {}), "metadata.labels")
    errors += _annotation_errors(metadata.get("annotations", {}))
    errors += _owner_errors(metadata.get("ownerReferences", ()))
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        errors += [
            invalid_value("metadata.finalizers", finalizer, text)
            for text in qualified_name_texts(finalizer)
        ]
        if "/" not in finalizer and finalizer not in ("orphan", "foregroundDeletion", "kubernetes"):
            text = "name is neither a standard finalizer name nor is it fully qualified"
            if not kind.custom and kind.group != "apiextensions.k8s.io":
                errors.append(invalid_value(f"metadata.finalizers[{index}]", finalizer, text))
    return errors


def _annotation_errors(annotations: dict[str, str]) -> list[FieldError]:
    errors = []
    size = 0
    for key, value in sorted(annotations.items()):
        size += len(key) + len(value)
        errors += [
            invalid_value("metadata.annotations", key, text)
            for text in qualified_name_texts(key.lower())
        ]
    if size > _ANNOTATIONS_MAX:
        errors.append(too_long("metadata.annotations", _ANNOTATIONS_MAX))
    return errors


def _owner_errors(references: list[Obj] | tuple[Obj, ...]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    errors: list[FieldError] = []
    controller = ""
    for reference in references:
        if not reference.get("apiVersion", "").rpartition("/")[2]:
            text = "version must not be empty"
            errors.append(
                invalid_value(f"{path}.apiVersion", reference.get("apiVersion", ""), text)
            )
        errors += [
            invalid_value(f"{path}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not reference.get(field)
        ]
        if reference.get("controller"):
            this = f"{reference.get('kind')}/{reference.get('name')}"
            if controller:
                errors.append(
                    invalid_value(
                        path,
                        list(references),
                        "Only one reference can have Controller set to true. Found "
                        f'"true" in references for {controller} and {this}',
                    )
                )
            controller = controller or this
    return errors


def metadata_update_errors(new: Obj, old: Obj, kind: Kind) -> list[FieldError]:
    """What is wrong with a change of an object's metadata."""
    errors = metadata_errors(new, kind)
    metadata, before = new["metadata"], old["metadata"]
    if before.get("deletionTimestamp"):
        extra = sorted(set(metadata.get("finalizers", ())) - set(before.get("finalizers", ())))
        if extra:
            listed = ", ".join(f'"{name}"' for name in extra)
            errors.append(
                forbidden_field(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new "
                    f"finalizers []string{{{listed}}}",
                )
            )
    for field in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in ("name", "namespace", "uid") or field in metadata:
            value = metadata.get(field)
            if value != before.get(field):
                errors.append(invalid_value(f"metadata.{field}", value, "field is immutable"))
    return errors


def delete_option_errors(options: Obj) -> list[FieldError]:
    """What is wrong with the options of a deletion."""
    errors = []
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        errors.append(
            invalid_value(
                "propagationPolicy",
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            )
        )
    valid = ("Foreground", "Background", "Orphan", "nil")
    if policy is not None and policy not in valid[:3]:
        errors.append(not_supported("propagationPolicy", policy, valid))
    return errors

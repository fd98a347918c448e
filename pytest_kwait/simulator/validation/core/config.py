"""Validation of config maps, secrets and leases: keys, sizes, data of typed secrets.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateConfigMap, ValidateSecret;
pkg/apis/coordination/validation/validation.go; pkg/registry/core/secret/strategy.go.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import NEGATIVE, config_key_texts
from pytest_kwait.simulator.api_errors import forbidden_field, invalid_value, required, too_long
from pytest_kwait.simulator.codec.json_yaml import find_json_error
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "get_secret_warnings",
    "validate_config_map",
    "validate_immutable_data",
    "validate_lease",
    "validate_secret",
]

_MAX_SECRET_SIZE = 1 << 20
_SERVICE_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
_DATA_IMMUTABLE = "field is immutable when `immutable` is set"
_REQUIRED_KEYS = {
    # The required keys by type of secret.
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
_JSON_KEYS = {".dockercfg", ".dockerconfigjson"}
_PEM_BEGIN = re.compile(r"^-----BEGIN (.*)-----$", re.MULTILINE)


def _validate_keys(keys: Iterable[str], field: str) -> ErrorList:
    return ErrorList(
        [
            invalid_value(f"{field}[{key}]", key, text)
            for key in keys
            for text in config_key_texts(key)
        ]
    )


def validate_immutable_data(new: Obj, old: Obj, *fields: str) -> ErrorList:
    """Validate that immutable data does not change."""
    if not old.get("immutable"):
        return ErrorList()
    errors = ErrorList()
    if not new.get("immutable"):
        errors.forbidden("immutable", _DATA_IMMUTABLE)
    errors += [
        forbidden_field(field, _DATA_IMMUTABLE)
        for field in fields
        if new.get(field) != old.get(field)
    ]
    return errors


def validate_config_map(obj: Obj) -> ErrorList:
    """Validate a config map."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    errors = ErrorList()
    for key in data:
        errors += _validate_keys([key], "data")
        if key in binary:
            text = "duplicate of key present in binaryData"
            errors.invalid(f"data[{key}]", key, text)
    errors += _validate_keys(binary, "binaryData")
    size = sum(len(text.encode()) for text in data.values())
    size += sum(len(base64.b64decode(text)) for text in binary.values())
    return (
        errors
        if size <= _MAX_SECRET_SIZE
        else ErrorList([*errors, too_long("[]", _MAX_SECRET_SIZE)])
    )


def validate_secret(obj: Obj) -> ErrorList:
    """Validate a secret."""
    data, kind = obj.get("data") or {}, obj.get("type", "")
    errors = _validate_keys(data, "data")
    if sum(len(base64.b64decode(text or "")) for text in data.values()) > _MAX_SECRET_SIZE:
        errors.too_long("data", _MAX_SECRET_SIZE)
    if kind == "kubernetes.io/service-account-token" and not annotations_of(obj).get(
        _SERVICE_ACCOUNT_ANNOTATION
    ):
        errors.required(f"metadata.annotations[{_SERVICE_ACCOUNT_ANNOTATION}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        errors += [required("data[username]"), required("data[password]")]
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        errors.required("data[ssh-privatekey]")
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data:
            errors.required(f"data[{key}]")
        elif key in _JSON_KEYS and (
            why := _find_json_object_error(base64.b64decode(data[key] or ""))
        ):
            at = f"data[{key}]"
            errors.invalid(at, "<secret contents redacted>", why)
    return errors


def _find_json_object_error(content: bytes) -> str:
    """Return Go's error for a text that is no JSON object; empty for an object or null."""
    if why := find_json_error(content):
        return why
    value = json.loads(content)
    if value is None or isinstance(value, dict):
        return ""
    name = {str: "string", list: "array", bool: "bool"}.get(type(value), "number")
    return f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"


def get_secret_warnings(obj: Obj) -> list[str]:
    """Return warnings about a TLS secret without a certificate."""
    if obj.get("type") != "kubernetes.io/tls":
        return []
    data = obj.get("data") or {}
    for key, wanted, what in (
        ("tls.crt", "CERTIFICATE", "certificate"),
        ("tls.key", "PRIVATE KEY", "key"),
    ):
        found = _PEM_BEGIN.findall(base64.b64decode(data.get(key) or "").decode(errors="replace"))
        if not found:
            return [f"tls: failed to find any PEM data in {what} input"]
        if not any(kind.endswith(wanted) for kind in found):
            shown = wanted if what == "certificate" else ""
            block = (
                f'"{shown}" PEM block' if shown else 'PEM block with type ending in "PRIVATE KEY"'
            )
            return [
                f"tls: failed to find {block} in {what} input after skipping PEM blocks of the "
                f"following types: [{' '.join(found)}]"
            ]
    return []


def validate_lease(obj: Obj) -> ErrorList:
    """Validate a lease."""
    spec = obj.get("spec") or {}
    seconds, changes = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    errors = ErrorList()
    if seconds is not None and seconds <= 0:
        at = "spec.leaseDurationSeconds"
        errors.invalid(at, seconds, "must be greater than 0")
    if changes is not None and changes < 0:
        errors.invalid("spec.leaseTransitions", changes, NEGATIVE)
    return errors

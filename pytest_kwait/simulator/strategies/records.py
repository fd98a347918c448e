"""Kinds that hold facts and control nothing: config maps, secrets, events, leases."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.status_error import forbidden_field, invalid_value, required
from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["ConfigMapStrategy", "EventStrategy", "LeaseStrategy", "SecretStrategy"]

_KEY = re.compile(r"^[-._a-zA-Z0-9]+$")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)
_IMMUTABLE = "field is immutable when `immutable` is set"


def _keys(obj: Obj, field: str) -> list[FieldError]:
    return [
        invalid_value(f"{field}[{key}]", key, _KEY_RULE)
        for key in obj.get(field, {})
        if not _KEY.match(key)
    ]


def _frozen(new: Obj, old: Obj, *fields: str) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = []
    if not new.get("immutable"):
        errors.append(forbidden_field("immutable", _IMMUTABLE))
    errors += [
        forbidden_field(field, _IMMUTABLE) for field in fields if new.get(field) != old.get(field)
    ]
    return errors


class ConfigMapStrategy(Strategy):
    """Source: pkg/apis/core/validation.ValidateConfigMap."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Keys have a grammar."""
        return _keys(obj, "data") + _keys(obj, "binaryData")

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """What is immutable stays."""
        return _frozen(new, old, "data", "binaryData") + self.validate_create(new)


class SecretStrategy(Strategy):
    """Source: pkg/apis/core/v1/conversion.go, pkg/apis/core/validation.ValidateSecret."""

    def default(self, obj: Obj) -> None:
        """Text data is encoded into data, which alone is stored."""
        super().default(obj)
        obj.setdefault("type", "Opaque")
        for key, text in obj.pop("stringData", {}).items():
            data = obj.setdefault("data", {})
            data[key] = base64.b64encode(text.encode()).decode()

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Keys have a grammar, and some types need some keys."""
        errors = _keys(obj, "data")
        data = obj.get("data", {})
        if obj.get("type") == "kubernetes.io/tls":
            errors += [
                required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data
            ]
        if obj.get("type") == "kubernetes.io/service-account-token":
            account = "kubernetes.io/service-account.name"
            if not (obj["metadata"].get("annotations") or {}).get(account):
                errors.append(required(f"metadata.annotations[{account}]"))
        if obj.get("type") == "kubernetes.io/dockerconfigjson" and ".dockerconfigjson" not in data:
            errors.append(required("data[.dockerconfigjson]"))
        return errors

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The type never changes."""
        errors = _frozen(new, old, "data")
        if new.get("type") != old.get("type"):
            errors.append(invalid_value("type", new.get("type"), "field is immutable"))
        return errors + self.validate_create(new)


def decodable(text: str) -> bool:
    """Whether `text` is base64."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


class EventStrategy(Strategy):
    """Source: pkg/apis/core/validation/events.go."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """An event is stored beside what it is about."""
        about = obj.get("involvedObject", {}).get("namespace", "")
        namespace = obj["metadata"].get("namespace", "")
        if about != namespace and not (about == "" and namespace in ("default", "kube-system")):
            return [
                invalid_value("involvedObject.namespace", about, "does not match event.namespace")
            ]
        return []


class LeaseStrategy(Strategy):
    """Source: pkg/apis/coordination/validation/validation.go."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Counts are positive."""
        spec = obj.get("spec", {})
        errors = []
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            errors.append(
                invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
            )
        transitions = spec.get("leaseTransitions")
        if transitions is not None and transitions < 0:
            errors.append(
                invalid_value(
                    "spec.leaseTransitions", transitions, "must be greater than or equal to 0"
                )
            )
        return errors

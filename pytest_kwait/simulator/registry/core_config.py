"""Strategies of ConfigMaps, Secrets, ServiceAccounts, Events and Leases.

Source: k8s.io/kubernetes pkg/registry/core/{configmap,secret,event,serviceaccount}/strategy.go,
pkg/registry/coordination/lease/strategy.go.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.config import (
    get_secret_warnings,
    validate_config_map,
    validate_immutable_data,
    validate_lease,
    validate_secret,
)
from pytest_kwait.simulator.validation.core.events import validate_event, validate_event_update

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = [
    "ConfigMapStrategy",
    "EventStrategy",
    "LeaseStrategy",
    "SecretStrategy",
    "ServiceAccountStrategy",
]

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


class ConfigMapStrategy(Strategy):
    """Config maps."""

    validates_metadata_on_update = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Keys have a grammar, and all of it a size."""
        return validate_config_map(obj)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """What is immutable stays."""
        return validate_immutable_data(new, old, "data", "binaryData")


class SecretStrategy(Strategy):
    """Secrets."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Text data is encoded into data, which alone is stored."""
        super().default(obj)
        obj.setdefault("type", "Opaque")
        for key, text in obj.pop("stringData", {}).items():
            data = obj.setdefault("data", {})
            data[key] = base64.b64encode(text.encode()).decode()

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Keys have a grammar, and some types need some keys."""
        return validate_secret(obj)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """The type never changes, and what is immutable stays."""
        errors = []
        if new.get("type") != old.get("type"):
            errors.append(invalid_value("type", new.get("type"), "field is immutable"))
        return errors + validate_immutable_data(new, old, "data")

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Certificates that are none."""
        for text in get_secret_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Certificates that are none."""
        del old
        self.warn_create(new, caller)


class ServiceAccountStrategy(Strategy):
    """Service accounts."""

    validates_metadata_on_update = True

    def prepare_create(self, obj: Obj) -> None:
        """Of its secrets only names are kept."""
        super().prepare_create(obj)
        _keep_only_names(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """As for a new object."""
        super().prepare_update(new, old)
        _keep_only_names(new)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """An annotation that is on its way out."""
        if _MOUNTABLE in annotations_of(obj):
            caller.warn(
                f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate "
                "namespaces to isolate access to mounted secrets"
            )

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """The same, where it is new."""
        if _MOUNTABLE not in annotations_of(old):
            self.warn_create(new, caller)


def _keep_only_names(account: Obj) -> None:
    if "secrets" in account:
        account["secrets"] = [
            {"name": one["name"]} if one.get("name") else {} for one in account["secrets"]
        ]


class EventStrategy(Strategy):
    """Events, in both of their groups."""

    validates_metadata = False

    def default(self, obj: Obj) -> None:
        """What is learned of events is learned of their older form."""
        if not self.kind.group:
            super().default(obj)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """An event is stored beside what it is about; the newer version asks for more."""
        return validate_event(obj, newer=bool(self.kind.group))

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The newer version lets only the series change."""
        return validate_event_update(new, old, newer=bool(self.kind.group))


class LeaseStrategy(Strategy):
    """Leases."""

    def prepare_create(self, obj: Obj) -> None:
        """Coordinated election is off by default, and its fields with it."""
        super().prepare_create(obj)
        _drop_coordinated_fields(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """As for a new object."""
        super().prepare_update(new, old)
        _drop_coordinated_fields(new)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Counts are positive."""
        return validate_lease(obj)


def _drop_coordinated_fields(obj: Obj) -> None:
    spec = obj.get("spec") or {}
    for field in ("strategy", "preferredHolder"):
        spec.pop(field, None)

"""Endpoints and endpoint slices.

Source: k8s.io/kubernetes pkg/registry/core/endpoint/strategy.go,
pkg/registry/discovery/endpointslice/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import labels_of
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.addresses import get_ip_warnings
from pytest_kwait.simulator.validation.core.endpoints import (
    validate_endpoint_slice,
    validate_endpoint_subsets,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = ["EndpointSliceStrategy", "EndpointsStrategy"]

_FQDN_WARNING = "spec.addressType: FQDN endpoints are deprecated"


class EndpointsStrategy(Strategy):
    """Endpoints, as they were before there were slices."""

    validates_metadata_on_update = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Addresses and ports of each subset."""
        return validate_endpoint_subsets(obj.get("subsets") or [])

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """What stayed as it was is not looked at."""
        return [] if new.get("subsets") == old.get("subsets") else self.validate_create(new)


class EndpointSliceStrategy(Strategy):
    """Slices of endpoints."""

    def prepare_create(self, obj: Obj) -> None:
        """Topology of the version before goes."""
        super().prepare_create(obj)
        _drop_topology(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Topology of the version before goes."""
        super().prepare_update(new, old)
        if new.get("endpoints") != old.get("endpoints"):
            _drop_topology(new)

    def counts(self, new: Obj, old: Obj) -> bool:
        """Labels count as well: they say whose endpoints these are."""
        return super().counts(new, old) or labels_of(new) != labels_of(old)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Addresses of the slice's one type, ports, hints."""
        return validate_endpoint_slice(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The type of addresses never changes."""
        return validate_endpoint_slice(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """What is deprecated or odd."""
        if obj.get("addressType") == "FQDN":
            caller.warn(_FQDN_WARNING)
        self.warn_update(obj, obj, caller)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """What is odd."""
        del old
        for index, endpoint in enumerate(new.get("endpoints") or []):
            for number, address in enumerate(endpoint.get("addresses") or []):
                for text in get_ip_warnings(f"endpoints[{index}].addresses[{number}]", address):
                    caller.warn(text)


def _drop_topology(obj: Obj) -> None:
    for endpoint in obj.get("endpoints") or []:
        endpoint.pop("deprecatedTopology", None)

"""Network policies and endpoint slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import labels_of
from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["EndpointSliceStrategy", "NetworkPolicyStrategy"]


class NetworkPolicyStrategy(Strategy):
    """Source: pkg/apis/networking/v1/defaults.go."""

    def default(self, obj: Obj) -> None:
        """A policy is for what comes in, and for what goes out where it says something of that."""
        super().default(obj)
        spec = obj.get("spec")
        if isinstance(spec, dict) and not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


class EndpointSliceStrategy(Strategy):
    """Source: pkg/registry/discovery/endpointslice/strategy.go."""

    def counts(self, new: Obj, old: Obj) -> bool:
        """Labels count as well: they say whose endpoints these are."""
        return super().counts(new, old) or labels_of(new) != labels_of(old)

"""Nodes: created with the status that their kubelet knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["NodeStrategy"]


class NodeStrategy(Strategy):
    """Source: pkg/registry/core/node/strategy.go."""

    def prepare_create(self, obj: Obj) -> None:
        """A node keeps the status that it is created with."""
        status = obj.get("status", {})
        super().prepare_create(obj)
        obj["status"] = status

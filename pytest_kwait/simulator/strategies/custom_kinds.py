"""Objects of custom kinds: held to the schema of their definition.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["CustomStrategy"]


class CustomStrategy(Strategy):
    """The strategy of all custom kinds."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """All of the schema."""
        structure = self.kind.structure
        return [] if structure is None else structure.errors(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """What is new of it."""
        structure = self.kind.structure
        return [] if structure is None else structure.errors(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """What is new of the status."""
        structure = self.kind.structure
        return [] if structure is None else structure.status_errors(new, old)

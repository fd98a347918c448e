"""Objects of custom kinds: held to the schema of their definition.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import forbidden
from pytest_kwait.simulator.registry.strategy import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["CustomResourceStrategy"]


class CustomResourceStrategy(Strategy):
    """The strategy of all custom kinds."""

    def prepare_create(self, obj: Obj) -> None:
        """As for all kinds; nothing new comes once the definition is being deleted.

        Raises:
            StatusError: 403, it is.
        """
        structure = self.kind.structure
        if structure is not None and structure.terminating:
            name = obj["metadata"].get("name", "")
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(self.kind.group, self.kind.plural, name, why)
        super().prepare_create(obj)

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

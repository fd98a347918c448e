"""Runtime classes: how containers of a class are run, and where.

Source: k8s.io/kubernetes pkg/apis/node/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import dns_label_texts
from pytest_kwait.simulator.status_error import invalid_value, required
from pytest_kwait.simulator.strategies.generic import Strategy
from pytest_kwait.simulator.validation import label_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["RuntimeClassStrategy"]


class RuntimeClassStrategy(Strategy):
    """Runtime classes."""

    looks_at_metadata_again = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A handler by name, and nodes by their labels."""
        handler, scheduling = obj.get("handler", ""), obj.get("scheduling") or {}
        selector = scheduling.get("nodeSelector") or {}
        errors = label_errors(selector, "scheduling.nodeSelector")
        if not handler:
            return [*errors, required("handler")]
        return errors + [
            invalid_value("handler", handler, text) for text in dns_label_texts(handler)
        ]

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The handler never changes."""
        handler = new.get("handler", "")
        if handler == old.get("handler", ""):
            return []
        return [invalid_value("handler", handler, "field is immutable")]

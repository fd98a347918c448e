"""Who set which field: the `managedFields` of objects.

Source: sigs.k8s.io/structured-merge-diff, k8s.io/apimachinery pkg/util/managedfields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["record_update"]


def record_update(
    kind: Kind, new: Obj, old: Obj | None, caller: Caller, stamp: str, subresource: str | None = None
) -> None:
    """Note in `new` that `caller` set what differs from `old`."""
    del kind, new, old, caller, stamp, subresource

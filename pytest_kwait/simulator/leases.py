"""Renewing leases: what every node does all the time, so it costs next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.store import key_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.store import Store

__all__ = ["renew_lease"]

_LEASES = "leases.coordination.k8s.io"


def renew_lease(store: Store, namespace: str, lease: str, stamp: str) -> bool:
    """Note in a lease that its holder lives; whether there is one.

    Args:
        store: where it is kept.
        namespace: its namespace.
        lease: its name.
        stamp: now, with microseconds.
    """
    entry = store.get(_LEASES, key_of(lease, namespace))
    if entry is None:
        return False
    renewed = {
        **entry.obj,
        "metadata": {**entry.obj["metadata"]},
        "spec": {**entry.obj["spec"], "renewTime": stamp},
    }
    store.put(_LEASES, entry.key, renewed)
    return True

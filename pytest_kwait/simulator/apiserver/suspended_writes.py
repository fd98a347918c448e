"""Writes of HTTP requests: suspended while webhooks answer, retried on conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytest_kwait.simulator.registry.generic_store import retry_on_conflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = ["run_write"]

Result = TypeVar("Result")


async def run_write(api: Cluster, write: Callable[[], Result], *, retry: bool = False) -> Result:
    """Return what `write` returns; other requests are served while it waits for webhooks.

    Args:
        api: the cluster.
        write: the write.
        retry: run it anew where the object changed meanwhile; it must read the object itself.

    Raises:
        StatusError: the write is refused.
    """

    def work() -> Result:
        return retry_on_conflict(write) if retry else write()

    if not api.has_webhooks():
        return write()
    # Not at import: few clusters have webhooks.
    from pytest_kwait.simulator.suspendable import run_suspendable

    return await run_suspendable(work)

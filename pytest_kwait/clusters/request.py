"""What a run asks for when it asks for a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clusters.simulator_process import Timing

__all__ = ["ClusterRequest"]


@dataclass(frozen=True)
class ClusterRequest:
    """The settings that a cluster is chosen by, each with its source for messages.

    Args:
        kubeconfig: the kubeconfig that was given; None if none was.
        context: the context that was given; None for the kubeconfig's current one.
        kubeconfig_source: where `kubeconfig` came from, for example `env KWAIT_KUBECONFIG`.
        context_source: where `context` came from.
        timing: how long the pauses of an embedded cluster are.
        timing_source: where `timing` came from; None for the default.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    kubeconfig_source: str | None = None
    context_source: str | None = None
    timing: Timing = "fast"
    timing_source: str | None = None

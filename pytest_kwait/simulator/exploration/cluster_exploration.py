"""The hooks of a running exploration: what it does to the components of its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.exploration.kubelets import (
    delay_step,
    hold_renewal,
    hold_status,
    hold_sync,
)
from pytest_kwait.simulator.no_exploration import NoExploration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.exploration.exploration import Exploration, Held
    from pytest_kwait.simulator.objects import Obj


class ClusterExploration(NoExploration):
    """The hooks of an exploration.

    Args:
        exploration: the decisions.
    """

    def __init__(self, exploration: Exploration) -> None:
        self.exploration = exploration

    # -- kubelets

    def hold_renewal(self, node: str, renew: Callable[[], object]) -> bool:
        """Return whether a node's lease is renewed later, by `renew`."""
        return hold_renewal(self.exploration, node, renew)

    def hold_sync(self, pod: Obj, begin: Callable[[], object]) -> bool:
        """Return whether a sync of a pod begins later, by `begin`."""
        return hold_sync(self.exploration, pod, begin)

    def hold_status(self, pod: Obj, write: Callable[[], object]) -> Held | None:
        """Return the held write of a pod's status, which `write` makes; None to write it now."""
        return hold_status(self.exploration, pod, write)

    def delay_sandbox(self, pod: Obj, resume: Callable[[], object]) -> Iterable[None]:
        """Delay the sandbox of a pod."""
        return delay_step(self.exploration, "sandbox-delay", "sandbox", pod, resume)

    def delay_pull(self, image: str, pod: Obj, resume: Callable[[], object]) -> Iterable[None]:
        """Delay the pull of an image."""
        return delay_step(self.exploration, "pull-delay", f"pull {image}", pod, resume)

"""The hooks of an exploration, as they are while none runs: they do nothing.

Components call them where an exploration may delay, reorder or refuse something.
`exploration.cluster_exploration` overrides them, so that only a cluster that explores loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.objects import Obj


class Held(Protocol):
    """A call that an exploration holds back."""

    def cancel(self) -> None:
        """Never make the call."""


class NoExploration:
    """The hooks of a cluster that is not explored."""

    # -- kubelets

    def hold_renewal(self, node: str, renew: Callable[[], object]) -> bool:
        """Return whether a node's lease is renewed later, by `renew`."""
        del node, renew
        return False

    def hold_sync(self, pod: Obj, begin: Callable[[], object]) -> bool:
        """Return whether a sync of a pod begins later, by `begin`."""
        del pod, begin
        return False

    def hold_status(self, pod: Obj, write: Callable[[], object]) -> Held | None:
        """Return the held write of a pod's status, which `write` makes; None to write it now."""
        del pod, write
        return None

    def delay_sandbox(self, pod: Obj, resume: Callable[[], object]) -> Iterable[None]:
        """Delay the sandbox of a pod.

        Args:
            resume: resumes the sync, which yields what this yields meanwhile.
        """
        del pod, resume
        return ()

    def delay_pull(self, image: str, pod: Obj, resume: Callable[[], object]) -> Iterable[None]:
        """Delay the pull of an image, as `delay_sandbox` does."""
        del image, pod, resume
        return ()

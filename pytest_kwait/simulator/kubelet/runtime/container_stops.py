"""Ending containers: their preStop hooks, their turns, the signal, and the end of their grace.

Source: kuberuntime_container.go, `killContainer`; kuberuntime_termination_order.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.handlers import start_hook
from pytest_kwait.simulator.kubelet.runtime.restart_policy import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytest_kwait.simulator.clock import Timer
    from pytest_kwait.simulator.kubelet.handlers import Handler
    from pytest_kwait.simulator.kubelet.outcomes import HandlerResult
    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
    from pytest_kwait.simulator.kubelet.runtime.containers import Container
    from pytest_kwait.simulator.objects import Obj

__all__ = ["terminate_containers"]

# Seconds that a container has between its signal and its end at least.
# Source: kuberuntime_manager.go, `minimumGracePeriodInSeconds`.
_MIN_GRACE = 2.0


class _Termination:
    """The end of one container, from its hook to its signal."""

    def __init__(self, worker: PodWorker, container: Container, spec: Obj, grace: float) -> None:
        self._worker = worker
        self._began = worker.node.clock.monotonic()
        self._grace = grace
        self.container = container
        self.hooked = True
        self.signalled = False
        self._action: Handler | None = None
        self._timer: Timer | None = None
        handler = (spec.get("lifecycle") or {}).get("preStop")
        if handler and grace > 0:
            self.hooked = False
            self._action = start_hook(worker, spec, container, handler, self._hook_ended)
        if grace > 0:
            self._timer = worker.node.clock.call_later(grace, self._late, scaled=False)

    def _hook_ended(self, outcome: HandlerResult) -> None:
        if not outcome.good:
            name = self.container.name
            self._worker.container_event(name, WARNING, "FailedPreStopHook", "PreStopHook failed")
        self.hooked = True
        self._worker.resume_waiting()

    def _late(self) -> None:
        """The grace is over: neither the hook nor the others are waited for."""
        self._timer = None
        self.hooked = True
        self._worker.resume_waiting()

    @property
    def late(self) -> bool:
        """Whether the grace is over."""
        return self._timer is None

    def signal(self) -> None:
        """Send SIGTERM, and SIGKILL once what is left of the grace is over."""
        self.signalled = True
        took = int(self._worker.node.clock.monotonic() - self._began)
        self.container.stop(max(self._grace - took, _MIN_GRACE))

    def close(self) -> None:
        """Let go of what is under way."""
        if self._action is not None:
            self._action.cancel()
        if self._timer is not None:
            self._timer.cancel()


def terminate_containers(
    worker: PodWorker, running: Sequence[Container], grace: float
) -> Generator[float | None, None, None]:
    """End containers at once, sidecars after those they serve and in the order against theirs.

    Args:
        worker: their pod.
        running: what runs.
        grace: seconds; a hook and the wait for others count into it.
    """
    if not running:
        return
    spec = worker.pod["spec"]
    sidecars = [one["name"] for one in spec.get("initContainers") or () if is_sidecar(one)]
    served = {one["name"] for one in spec["containers"]}
    stops = {
        one.name: _Termination(worker, one, worker.container_spec(one.name), grace)
        for one in running
    }

    def alive(name: str) -> bool:
        return name in stops and stops[name].container.running

    def turn(name: str) -> bool:
        if name not in sidecars:
            return True
        later = sidecars[sidecars.index(name) + 1 :]
        return not any(alive(other) for other in (*served, *later))

    try:
        while any(alive(name) for name in stops):
            for name, stop in stops.items():
                if not stop.signalled and stop.hooked and (stop.late or turn(name)):
                    stop.signal()
            if any(alive(name) for name in stops):
                yield None
    finally:
        for stop in stops.values():
            stop.close()

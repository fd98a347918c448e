"""The probes of one running container: the startup probe first, then the others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.handlers import start_probe
from pytest_kwait.simulator.kubelet.prober import ProbeWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.clock import Timer
    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
    from pytest_kwait.simulator.kubelet.runtime.containers import Container
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ContainerProbes"]


class ContainerProbes:
    """What the probes of one container say.

    Args:
        worker: its pod.
        spec: the container's part of the spec.
        container: what runs.
        doom: told name, reason and grace (None: the pod's) of a container that is to be ended.
        ready: seconds until it is ready whatever its probes are; infinite for never, None where
            they decide.
    """

    def __init__(
        self,
        worker: PodWorker,
        spec: Obj,
        container: Container,
        doom: Callable[[str, str, float | None], None],
        ready: float | None = None,
    ) -> None:
        self._worker = worker
        self._spec = spec
        self._container = container
        self._doom = doom
        self._probers: dict[str, ProbeWorker] = {}
        self._said = ready is not None
        self._now_ready = False
        self._timer: Timer | None = None
        if ready is not None:
            if ready != math.inf:
                clock = worker.node.clock
                self._timer = clock.call_later(ready, self._mark_ready, scaled=False)
        elif "startupProbe" in spec:
            self._add("startupProbe")
        else:
            self._start_other_probes()

    def _mark_ready(self) -> None:
        self._now_ready = True
        self._worker.sync()

    @property
    def started(self) -> bool:
        """Whether the startup probe, if any, has succeeded."""
        prober = self._probers.get("startupProbe")
        return prober is None or prober.result

    @property
    def ready(self) -> bool:
        """Whether the readiness probe, if any, holds."""
        if self._said:
            return self._now_ready
        if "readinessProbe" not in self._spec:
            return True
        prober = self._probers.get("readinessProbe")
        return prober is not None and prober.result

    def stop(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()
        for prober in self._probers.values():
            prober.stop()

    def _start_other_probes(self) -> None:
        for field in ("livenessProbe", "readinessProbe"):
            if field in self._spec:
                self._add(field)

    def _add(self, field: str) -> None:
        worker, name, probe = self._worker, self._spec["name"], self._spec[field]

        def changed(success: bool) -> None:
            if field == "startupProbe" and success:
                self._start_other_probes()
            elif field != "readinessProbe" and not success:
                word = "startup" if field == "startupProbe" else "liveness"
                grace = probe.get("terminationGracePeriodSeconds")
                seconds = None if grace is None else float(grace)
                self._doom(name, f"failed {word} probe", seconds)
            worker.sync()

        self._probers[field] = ProbeWorker(
            worker.node.clock,
            field,
            probe,
            self._container,
            ask=lambda done: start_probe(worker, self._spec, self._container, probe, done),
            told=lambda reason, text: worker.container_event(name, WARNING, reason, text),
            changed=changed,
        )

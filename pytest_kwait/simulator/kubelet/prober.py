"""Startup, liveness and readiness probes of a running container.

The startup probe runs first; the others begin once it has succeeded.

Source: prober/worker.go, prober/prober.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.handlers import HandlerResult, ResultKind, start_probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.clock import SimClock, Timer
    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.handlers import Handler
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PROBE_KINDS", "ContainerProbes", "ProbeWorker"]

# Field of the container, and the word in events.
PROBE_KINDS = {
    "startupProbe": "Startup",
    "livenessProbe": "Liveness",
    "readinessProbe": "Readiness",
}


class ProbeWorker:
    """One probe of one running container, asked every period until it or the container ends.

    Args:
        clock: the cluster's time; a probe's times stand in manifests, so they are real seconds.
        field: which probe, one of `PROBE_KINDS`.
        probe: its spec.
        container: what is probed.
        ask: begins one question; what it is given is told the outcome.
        told: told reason and message of each probe that has something to say.
        changed: told the new result once enough probes agree.
    """

    def __init__(
        self,
        clock: SimClock,
        field: str,
        probe: Obj,
        container: Container,
        *,
        ask: Callable[[Callable[[HandlerResult], None]], Handler],
        told: Callable[[str, str], None],
        changed: Callable[[bool], None],
    ) -> None:
        self._clock = clock
        self._field = field
        self._probe = probe
        self._container = container
        self._ask = ask
        self._told = told
        self._changed = changed
        self._timer: Timer | None = None
        self._action: Handler | None = None
        self._asked = 0.0
        self._last: bool | None = None
        self._run = 0
        # Until proven otherwise: alive, but neither started nor ready.
        self.result = field == "livenessProbe"
        self._plan(probe.get("initialDelaySeconds") or 0)

    def _plan(self, seconds: float) -> None:
        self.stop()
        self._timer = self._clock.call_later(max(seconds, 0.0), self._begin, scaled=False)

    def stop(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._action is not None:
            self._action.cancel()
            self._action = None

    def _begin(self) -> None:
        self._timer = None
        if not self._container.running:
            return
        self._asked = self._clock.monotonic()
        self._action = self._ask(self._answered)

    def _again(self) -> None:
        """Ask at the next tick; ticks that pass while a question lasts are left out."""
        period = float(self._probe.get("periodSeconds") or 10)
        took = self._clock.monotonic() - self._asked
        self._plan(period - took % period)

    def _answered(self, outcome: HandlerResult) -> None:
        self._action = None
        if not self._container.running:
            return
        word = PROBE_KINDS[self._field]
        if outcome.verdict is ResultKind.ERROR:
            # It could not be asked: that counts neither way.
            state = f"errored and resulted in unknown state: {outcome.text}"
            self._told("Unhealthy", f"{word} probe {state}")
            self._again()
            return
        if outcome.verdict is ResultKind.WARNING:
            self._told("ProbeWarning", f"{word} probe warning: {outcome.text}")
        elif not outcome.good:
            self._told("Unhealthy", f"{word} probe failed: {outcome.text}")
        self._count(outcome.good)

    def _count(self, success: bool) -> None:
        self._run = self._run + 1 if success == self._last else 1
        self._last = success
        needed = self._probe.get("successThreshold" if success else "failureThreshold") or (
            1 if success else 3
        )
        decided = self._run >= needed
        done = decided and (
            self._field == "startupProbe" or (self._field == "livenessProbe" and not success)
        )
        if not done:
            self._again()
        if decided and success != self.result:
            self.result = success
            self._changed(success)
        elif decided and not success and self._field == "startupProbe":
            self._changed(False)


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
        worker: PodContext,
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

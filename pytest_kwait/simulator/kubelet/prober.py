"""Startup, liveness and readiness probes of a running container.

The startup probe runs first; the others begin once it has succeeded.

Source: prober/worker.go, prober/prober.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kwait.simulator.clock import REAL
from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.handlers import HandlerResult, ResultKind, start_probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.clock import ScheduledCall, SimClock
    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.handlers import Handler
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.objects import Obj

# The field of each probe, and its word in events.
PROBE_KINDS = {
    "startupProbe": "Startup",
    "livenessProbe": "Liveness",
    "readinessProbe": "Readiness",
}
# In fast time: the pause before the first attempt between two periods; each next one is doubled.
_FIRST_EARLY_PAUSE = 0.1


class ProbeWorker:
    """One probe of a running container, repeated until it decides or the container ends.

    A startup or readiness probe in fast time is also tried between its first two periods, because
    most programs listen a moment after the first attempt. Of these only a success counts.

    Args:
        field: a key of `PROBE_KINDS`.
        probe: the spec of the probe; its times are real seconds.
        start_handler: starts one attempt with a callback for its result.
        on_event: called with reason and message of attempts that are worth an event.
        on_change: called with the new result once the threshold is reached.
    """

    def __init__(
        self,
        clock: SimClock,
        field: str,
        probe: Obj,
        container: Container,
        *,
        start_handler: Callable[[Callable[[HandlerResult], None]], Handler],
        on_event: Callable[[str, str], None],
        on_change: Callable[[bool], None],
    ) -> None:
        self._clock = clock
        self._field = field
        self._probe = probe
        self._container = container
        self._start_handler = start_handler
        self._on_event = on_event
        self._on_change = on_change
        self._timer: ScheduledCall | None = None
        self._action: Handler | None = None
        self._started_at = 0.0
        self._last: bool | None = None
        self._streak = 0
        self._early_pause = 0.0
        """The pause before the next attempt between periods; 0 for none."""
        if clock.scale < REAL and field != "livenessProbe":
            self._early_pause = _FIRST_EARLY_PAUSE
        # Initially alive, but neither started nor ready.
        self.result = field == "livenessProbe"
        self._schedule(probe.get("initialDelaySeconds") or 0)

    def _schedule(self, seconds: float) -> None:
        self.stop()
        self._timer = self._clock.call_later(max(seconds, 0.0), self._start, scaled=False)

    def stop(self) -> None:
        """Stop probing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._action is not None:
            self._action.cancel()
            self._action = None

    def _start(self) -> None:
        self._timer = None
        if not self._container.running:
            return
        self._started_at = self._clock.monotonic()
        self._action = self._start_handler(self._on_result)

    def _schedule_next(self) -> None:
        """Schedule the next tick; ticks missed by a slow attempt are skipped."""
        self._early_pause = 0.0
        period = float(self._probe.get("periodSeconds") or 10)
        took = self._clock.monotonic() - self._started_at
        self._schedule(period - took % period)

    def _schedule_early(self) -> bool:
        """Schedule an attempt within the first period; return whether there is time for one."""
        period = float(self._probe.get("periodSeconds") or 10)
        pause = self._early_pause
        remaining_seconds = self._started_at + period - self._clock.monotonic()
        if not 0 < pause < remaining_seconds:
            return False
        self._early_pause *= 2
        self.stop()
        self._timer = self._clock.call_later(pause, self._start_early, scaled=False)
        return True

    def _start_early(self) -> None:
        self._timer = None
        if self._container.running:
            self._action = self._start_handler(self._on_early_result)

    def _on_early_result(self, outcome: HandlerResult) -> None:
        if outcome.is_success:
            self._early_pause = 0.0
            self._on_result(outcome)
            return
        self._action = None
        if self._container.running and not self._schedule_early():
            self._schedule_next()

    def _on_result(self, outcome: HandlerResult) -> None:
        self._action = None
        if not self._container.running:
            return
        word = PROBE_KINDS[self._field]
        if outcome.kind is ResultKind.ERROR:
            # An attempt that could not be made does not count.
            state = f"errored and resulted in unknown state: {outcome.text}"
            self._on_event("Unhealthy", f"{word} probe {state}")
            if not self._schedule_early():
                self._schedule_next()
            return
        if outcome.kind is ResultKind.WARNING:
            self._on_event("ProbeWarning", f"{word} probe warning: {outcome.text}")
        elif not outcome.is_success:
            self._on_event("Unhealthy", f"{word} probe failed: {outcome.text}")
        self._count(outcome.is_success)

    def _count(self, success: bool) -> None:
        self._streak = self._streak + 1 if success == self._last else 1
        self._last = success
        needed = self._probe.get("successThreshold" if success else "failureThreshold") or (
            1 if success else 3
        )
        decided = self._streak >= needed
        done = decided and (
            self._field == "startupProbe" or (self._field == "livenessProbe" and not success)
        )
        if not done and (success or not self._schedule_early()):
            self._schedule_next()
        if decided and success != self.result:
            self.result = success
            self._on_change(success)
        elif decided and not success and self._field == "startupProbe":
            self._on_change(False)


class ContainerProbes:
    """The probes of one container.

    Args:
        on_failure: called with name, reason and grace period (None: the pod's) to kill it.
        ready: seconds until readiness, whatever the probes say; infinite for never, None to probe.
    """

    def __init__(
        self,
        worker: PodContext,
        spec: Obj,
        container: Container,
        on_failure: Callable[[str, str, float | None], None],
        ready: float | None = None,
    ) -> None:
        self._worker = worker
        self._spec = spec
        self._container = container
        self._on_failure = on_failure
        self._probers: dict[str, ProbeWorker] = {}
        self._is_scripted = ready is not None
        self._scripted_ready = False
        self._timer: ScheduledCall | None = None
        if ready is not None:
            if ready != math.inf:
                clock = worker.node.clock
                self._timer = clock.call_later(ready, self._mark_ready, scaled=False)
        elif "startupProbe" in spec:
            self._start_probe("startupProbe")
        else:
            self._start_other_probes()

    def _mark_ready(self) -> None:
        self._scripted_ready = True
        self._worker.sync()

    @property
    def started(self) -> bool:
        """Return whether the startup probe, if any, has succeeded."""
        prober = self._probers.get("startupProbe")
        return prober is None or prober.result

    @property
    def ready(self) -> bool:
        """Return whether the readiness probe, if any, succeeds."""
        if self._is_scripted:
            return self._scripted_ready
        if "readinessProbe" not in self._spec:
            return True
        prober = self._probers.get("readinessProbe")
        return prober is not None and prober.result

    def stop(self) -> None:
        """Stop all probes."""
        if self._timer is not None:
            self._timer.cancel()
        for prober in self._probers.values():
            prober.stop()

    def _start_other_probes(self) -> None:
        for field in ("livenessProbe", "readinessProbe"):
            if field in self._spec:
                self._start_probe(field)

    def _start_probe(self, field: str) -> None:
        worker, name, probe = self._worker, self._spec["name"], self._spec[field]

        def on_change(success: bool) -> None:
            if field == "startupProbe" and success:
                self._start_other_probes()
            elif field != "readinessProbe" and not success:
                word = "startup" if field == "startupProbe" else "liveness"
                grace = probe.get("terminationGracePeriodSeconds")
                seconds = None if grace is None else float(grace)
                self._on_failure(name, f"failed {word} probe", seconds)
            worker.sync()

        self._probers[field] = ProbeWorker(
            worker.node.clock,
            field,
            probe,
            self._container,
            start_handler=lambda done: start_probe(
                worker, self._spec, self._container, probe, done
            ),
            on_event=lambda reason, text: worker.record_container_event(
                name, WARNING, reason, text
            ),
            on_change=on_change,
        )

"""Probes: whether a container is started, alive, ready.

Source: prober/worker.go, prober/prober.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.outcomes import HandlerResult, ResultKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.clock import SimClock, Timer
    from pytest_kwait.simulator.kubelet.handlers import Handler
    from pytest_kwait.simulator.kubelet.runtime.containers import Container
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PROBE_KINDS", "ProbeWorker"]

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

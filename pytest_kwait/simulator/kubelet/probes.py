"""Probes: whether a container is started, alive, ready.

Commands are run by the container's own shell. What would go over the network is taken to succeed,
as nothing listens here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.kubelet.containers import Container
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.sim_clock import SimClock, Timer

__all__ = ["KINDS", "Prober"]

# Field of the container, and the word in events.
KINDS = {"startupProbe": "Startup", "livenessProbe": "Liveness", "readinessProbe": "Readiness"}

# What a probe writes beyond this is cut in its event; source: prober/prober.go.
_MOST_OUTPUT = 1024


class Prober:
    """One probe of one running container, asked every period until it or the container ends.

    Args:
        clock: the cluster's time; a probe's times stand in manifests, so they are real seconds.
        field: which probe, one of `KINDS`.
        probe: its spec.
        container: what is probed.
        unhealthy: told the text of each failed probe.
        changed: told the new result once enough probes agree.
    """

    def __init__(
        self,
        clock: SimClock,
        field: str,
        probe: Obj,
        container: Container,
        *,
        unhealthy: Callable[[str], None],
        changed: Callable[[bool], None],
    ) -> None:
        self._clock = clock
        self._field = field
        self._probe = probe
        self._container = container
        self._unhealthy = unhealthy
        self._changed = changed
        self._timer: Timer | None = None
        self._last: bool | None = None
        self._run = 0
        # Until proven otherwise: alive, but neither started nor ready.
        self.result = field == "livenessProbe"
        self.plan(probe.get("initialDelaySeconds") or 0)

    def plan(self, seconds: float) -> None:
        """Ask again after `seconds`."""
        self.stop()
        self._timer = self._clock.call_later(max(seconds, 0.0), self._ask, scaled=False)

    def stop(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self) -> None:
        self._timer = None
        if not self._container.running:
            return
        success, output = self._outcome()
        self._run = self._run + 1 if success == self._last else 1
        self._last = success
        if not success:
            self._unhealthy(f"{KINDS[self._field]} probe failed: {output}")
        needed = self._probe.get("successThreshold" if success else "failureThreshold") or (
            1 if success else 3
        )
        decided = self._run >= needed
        done = decided and (
            (self._field == "startupProbe" and success)
            or (self._field != "readinessProbe" and not success)
        )
        if not done:
            self.plan(self._probe.get("periodSeconds") or 10)
        if decided and success != self.result:
            self.result = success
            self._changed(success)
        elif decided and not success and self._field == "startupProbe":
            self._changed(False)

    def _outcome(self) -> tuple[bool, str]:
        command = (self._probe.get("exec") or {}).get("command")
        if not command:
            return True, ""
        code, out, err, seconds = self._container.execute(command)
        limit = self._probe.get("timeoutSeconds") or 1
        if seconds > limit:
            return False, f'command timed out: "{" ".join(command)}" timed out after {limit}s'
        return code == 0, (out + err)[:_MOST_OUTPUT].decode(errors="replace")

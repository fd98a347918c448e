"""Who says in the cluster that the run lives: the process that owns it, for its workers as well.

Imported when a namespace is first made.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.errors import KwaitError
from pytest_kwait.plugin.distributed import run_of
from pytest_kwait.plugin.settings import run_settings
from pytest_kwait.suite.heartbeat import HOME, Heartbeat
from pytest_kwait.wait.interruption import DeadlineExceeded

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.suite.heartbeat import Pulse
    from pytest_kwait.suite.leftovers import Sweep
    from pytest_kwait.suite.settings import Settings

__all__ = ["RunPulse", "pulse_of", "pulses"]

_pulses_key = pytest.StashKey[dict[int, "RunPulse"]]()

_SWEEP_LIMIT = 30.0
"""Seconds that looking for what others left may take, beside the tests."""

_TIDY_LIMIT = 10.0
"""Seconds that looking for what this run left may take, at its end."""


class RunPulse:
    """The sign of life of this run in one cluster, and the janitor that comes with its first beat.

    Args:
        run: the id of the run.
        nonce: keeps apart runs that were given the same id.
        cluster: where it is.
        settings: the settings of the run.
    """

    def __init__(self, run: str, nonce: str, cluster: Cluster, settings: Settings) -> None:
        self._run = run
        self._nonce = nonce
        # Kept for its identity as well: nothing else may be taken for it.
        self.cluster = cluster
        self._settings = settings
        self._lock = threading.Lock()
        self._client: ApiClient | None = None
        self._heartbeat: Heartbeat | None = None
        self._janitor: threading.Thread | None = None
        self._lines: list[str] = []

    def place(self) -> str:
        """Return namespace/name of the Lease, made if need be; empty where there can be none."""
        return self._begun().place()

    def record(self, kind: str) -> None:
        """Note that an object of a kind is about to be made."""
        self._begun().record(kind)

    def end(self, *, untidy: bool, kept: bool) -> list[str]:
        """Remove what is left of the run and its sign of life; does nothing if there was none.

        Args:
            untidy: whether anybody may have left anything.
            kept: whether anything was left on purpose.

        Returns:
            what there is to tell, a line each.
        """
        with self._lock:
            heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is None:
            return []
        if self._janitor is not None:
            self._janitor.join(_TIDY_LIMIT)
        if untidy:
            self._tidy(heartbeat)
        # What was kept outside of namespaces is found by the Lease alone.
        heartbeat.end(leave=bool(heartbeat.kinds) and (kept or untidy))
        if heartbeat.problem is not None:
            self._lines.append(f"kwait: {heartbeat.problem}")
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call] # the official client has no types here
        return self._lines

    def _begun(self) -> Heartbeat:
        with self._lock:
            if self._heartbeat is None:
                self._client = self.cluster.client()
                self._heartbeat = Heartbeat(
                    self._client,
                    self._run,
                    self._nonce,
                    interval=self._settings.heartbeat,
                    namespace=self._home,
                )
                self._heartbeat.place()
                if self._settings.janitor:
                    self._janitor = threading.Thread(
                        target=self._sweep, args=(self._client,), name="kwait janitor", daemon=True
                    )
                    self._janitor.start()
            return self._heartbeat

    @property
    def _home(self) -> str:
        return self._settings.namespace or HOME

    def _sweep(self, client: ApiClient) -> None:
        from pytest_kwait.suite.janitor import Janitor

        try:
            sweep = Janitor(client, namespace=self._home).sweep(Deadline.after(_SWEEP_LIMIT))
        except (KwaitError, DeadlineExceeded) as error:
            self._lines.append(
                f"kwait: the janitor could not look for what dead runs left: {error}"
            )
        else:
            self._tell(sweep)

    def _tidy(self, heartbeat: Heartbeat) -> None:
        from pytest_kwait.suite.janitor import Janitor

        if self._client is None or not heartbeat.place():
            return
        try:
            sweep = Janitor(self._client, namespace=self._home).sweep_own(
                heartbeat.place(),
                heartbeat.kinds,
                Deadline.after(_TIDY_LIMIT),
                keep=self._settings.keep != "never",
            )
        except (KwaitError, DeadlineExceeded) as error:
            self._lines.append(f"kwait: the janitor could not look for what this run left: {error}")
        else:
            self._tell(sweep)
            if sweep.kept and self._settings.keep != "never":
                names = ", ".join(map(str, sweep.kept))
                self._lines.append(f"kwait: kept of workers that died: {names}")

    def _tell(self, sweep: Sweep) -> None:
        summary = sweep.summary()
        if summary:
            self._lines.append(f"kwait: the janitor {summary}")


def pulse_of(config: pytest.Config, cluster: Cluster) -> Pulse | None:
    """Return what says in a cluster that this run lives; None if the cluster ends with the run."""
    if cluster.provider == "embedded":
        return None
    run = run_of(config)
    shared = run.source.pulse(cluster)
    if shared is not None:
        return shared
    known = pulses(config)
    if id(cluster) not in known:
        known[id(cluster)] = RunPulse(run.id, run.nonce, cluster, run_settings(config))
    return known[id(cluster)]


def pulses(config: pytest.Config) -> dict[int, RunPulse]:
    """Return the signs of life that this process gives, by cluster."""
    return config.stash.setdefault(_pulses_key, {})

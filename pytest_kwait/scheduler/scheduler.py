"""The scheduling loop: takes one pod at a time and selects a node.

Source: kube-scheduler, scheduler.go, schedule_one.go.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from pytest_kwait import wait
from pytest_kwait.cache.sync import make_stop_context, wait_for_cache_sync

if TYPE_CHECKING:
    from pytest_kwait.cache.sync import Stop
    from pytest_kwait.scheduler.config_factory import Config
    from pytest_kwait.scheduler.scheduling_queue import QueuedPodInfo

__all__ = ["Scheduler"]

_log = logging.getLogger(__name__)

_SERIES_FLUSH_PERIOD: Final = 1.0
_QUEUE_FLUSH_PERIOD: Final = 30.0


class Scheduler:
    """Schedules and binds pods while it runs.

    One thread selects nodes, others bind. An error with a pod is logged and recorded as an event,
    and the loop continues with the next pod.

    Args:
        config: its parts.

    Source: kube-scheduler, scheduler.go, schedule_one.go.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._ctx = wait.background(config.clock)
        self._flushed_at = config.clock.monotonic()

    def run(self, stop: Stop) -> None:
        """Wait for the caches, then schedule one pod at a time until stopped.

        Returns once all requests have ended, at most a request's timeout after `stop`. A scheduler
        runs once.

        Args:
            stop: an event or a context; ends the run.

        Raises:
            WaitTimeout, WaitFailed: the caches did not sync, or cannot.
            RuntimeError: the informers were stopped before.
        """
        config = self.config
        ctx, finish = wait.with_cancel(make_stop_context(stop, config.clock))
        housekeeping = threading.Thread(
            target=wait.until_with_context,
            args=(ctx, self._keep_up, _SERIES_FLUSH_PERIOD),
            name="kwait scheduler housekeeping",
            daemon=True,
        )
        try:
            config.informers.start()
            if not wait_for_cache_sync(*config.watch.synced, stop=ctx):
                return
            for dispatcher in config.dispatchers:
                dispatcher.start()
            housekeeping.start()
            self._ctx = ctx
            wait.until_with_context(ctx, lambda _ctx: self.schedule_one(), 0)
        finally:
            finish()
            self._end()
            if housekeeping.ident is not None:
                housekeeping.join()

    def schedule_one(self) -> None:
        """Take the next pod, select a node and start the binding, or handle the failure.

        Waits for a pod if the queue is empty.

        Source: kube-scheduler, schedule_one.go, `ScheduleOne`.
        """
        config = self.config
        entry = config.next_pod(self._ctx)
        if entry is None:
            return
        algorithm = config.algorithms.get(entry.profile)
        if algorithm is None or self._is_skipped(entry):
            config.queue.done(entry)
            return
        begun = config.clock.monotonic()
        try:
            node = algorithm.schedule(entry.pod, config.node_lister)
            assumed = config.cache.assume(entry.pod, node)
        except Exception as error:  # custom predicates and invalid pods may raise any error
            config.error(entry, error, begun)
            return
        config.binding.start(entry, assumed, node, begun)

    def _is_skipped(self, entry: QueuedPodInfo) -> bool:
        """Return whether the pod should not be scheduled any more.

        Source: kube-scheduler, schedule_one.go, `skipPodSchedule`.
        """
        if entry.pod["metadata"].get("deletionTimestamp"):
            note = f"skip schedule deleting pod: {entry.key}"
            self.config.recorder.event(entry.pod, "Warning", "FailedScheduling", "Scheduling", note)
            _log.info("Skip schedule deleting pod pod=%s", entry.key)
            return True
        return self.config.cache.is_assumed(entry.pod)

    def _keep_up(self, _ctx: wait.Context) -> None:
        self.config.recorder.flush_series()
        now = self.config.clock.monotonic()
        if now - self._flushed_at >= _QUEUE_FLUSH_PERIOD:
            self._flushed_at = now
            self.config.queue.flush_unschedulable()

    def _end(self) -> None:
        config = self.config
        config.watch.unregister()
        if config.owns_informers:
            config.informers.stop()
        late = [dispatcher for dispatcher in config.dispatchers if not dispatcher.close()]
        if late:
            _log.error("requests of the scheduler exceeded their timeout")

"""The value of the fixture `kwait_scheduler`: starts schedulers that run for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import pytest

from pytest_kwait.framework.registry import WAITS
from pytest_kwait.plugin.namespaces import bind_wait
from pytest_kwait.suite.schedulers import RunningScheduler, choose_algorithm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from pytest_kwait.apimachinery.durations import Duration
    from pytest_kwait.scheduler import Binder, SchedulingAlgorithm
    from pytest_kwait.scheduler.plugins.registry import Predicate
    from pytest_kwait.suite.schedulers import PlacementFunction

__all__ = ["SchedulerFactory"]


class SchedulerFactory:
    """Starts schedulers for a test, as often as it is called, and stops them all at its end.

    One that has ended by itself fails the test's teardown.

    Args:
        request: the fixture's request.
    """

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._made: list[RunningScheduler] = []

    def __call__(
        self,
        *,
        predicates: Iterable[str | Predicate] | None = None,
        priorities: Mapping[Any, int] | None = None,
        algorithm: SchedulingAlgorithm | PlacementFunction | None = None,
        name: str | None = None,
        binder: Binder | None = None,
        pod_initial_backoff: Duration = 1,
        pod_max_backoff: Duration = 10,
        timeout: Duration | None = None,
    ) -> RunningScheduler:
        """Return a scheduler that runs; its `.name` goes into the `spec.schedulerName` of pods.

        Args:
            predicates: what keeps pods from nodes, by name or as functions; None for
                kube-scheduler's default.
            priorities: what makes a node better than others, with weights; None for the default.
            algorithm: instead of both: an object with `schedule(pod, node_lister)`, or such a
                function; returns the name of a node.
            name: what pods ask for; None for a name that nobody else has.
            binder: called as `binder(pod, node, deadline=…)` to bind; None to ask the server.
            pod_initial_backoff: how long a pod waits after its first attempt; doubled each time.
            pod_max_backoff: how long it waits at most.
            timeout: how long to wait for its caches; None for `cache_sync` of the timeout table.

        Raises:
            InvalidArgument: an argument that cannot be meant.
            WaitTimeout: its caches have not synced in time.
            WaitFailed: the server refuses it pods or nodes for good.
        """
        __tracebackhide__ = True
        scheduler = RunningScheduler(
            self._request.getfixturevalue("kwait_client"),
            choose_algorithm(predicates, priorities, algorithm),
            name,
            binder=binder,
            pod_initial_backoff=pod_initial_backoff,
            pod_max_backoff=pod_max_backoff,
        )
        scheduler.start()
        wait_for_cache_sync = bind_wait(WAITS["wait_for_cache_sync"], self._request)
        try:
            wait_for_cache_sync(*scheduler.config.watch.synced, timeout=timeout)
        except BaseException:
            scheduler.stop()
            raise
        self._made.append(scheduler)
        return scheduler

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop all schedulers; fail where one has ended by itself."""
        problems = [problem for made in self._made if (problem := made.stop()) is not None]
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

"""The value of the fixture `kwait_scheduler`: starts schedulers that run for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import pytest

from pytest_kwait.framework.registry import WAITS
from pytest_kwait.plugin.namespaces import bind_wait
from pytest_kwait.suite.schedulers import RunningScheduler, choose_algorithm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.scheduler import Binder, SchedulingAlgorithm
    from pytest_kwait.scheduler.algorithm import Predicate
    from pytest_kwait.suite.schedulers import PlacementFunction


class SchedulerFactory:
    """Starts schedulers for a test and stops them at its end.

    A scheduler that stopped by itself fails the test's teardown.
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
        """Return a running scheduler; pods select it by its `.name` as `spec.schedulerName`.

        Args:
            predicates: predicates by name or as functions; None for kube-scheduler's default.
            priorities: priorities with weights, by name or as functions; None for the default.
            algorithm: replaces both: a function, or an object with `schedule(pod,
                node_lister)`, that returns the name of a node.
            name: its scheduler name; None for a unique one.
            binder: called as `binder(pod, node, deadline=…)` to bind; None to ask the server.
            pod_initial_backoff: the back-off after a pod's first attempt; doubled each time.
            pod_max_backoff: the maximum back-off.
            timeout: the limit of its cache sync; None for `cache_sync` of the timeout table.

        Raises:
            InvalidArgument: an invalid name or option.
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
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all schedulers; raise if one has stopped by itself."""
        problems = [problem for made in self._made if (problem := made.stop()) is not None]
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

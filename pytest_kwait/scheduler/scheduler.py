"""The scheduler: its parts, and the loop that takes one pod at a time and selects a node.

Source: kube-scheduler, scheduler.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_kwait import wait
from pytest_kwait.apimachinery.arguments import (
    check_flag,
    check_function,
    check_instance,
    check_methods,
    check_number,
)
from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.cache.factory import SharedInformerFactory
from pytest_kwait.cache.sync import make_stop_context, wait_for_cache_sync
from pytest_kwait.client.rate_limiter import VALID_QPS, NoLimit, RateLimiter, TokenBucket
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.errors import InvalidArgument, KwaitError, describe_value
from pytest_kwait.scheduler.algorithm import Algorithm, AlgorithmError
from pytest_kwait.scheduler.api_dispatcher import APIDispatcher
from pytest_kwait.scheduler.cache import SchedulerCache, SharedLister
from pytest_kwait.scheduler.event_handlers import EventHandlers
from pytest_kwait.scheduler.framework.pod_info import DEFAULT_SCHEDULER
from pytest_kwait.scheduler.metrics import NoMetrics, SchedulerMetrics
from pytest_kwait.scheduler.pod_events import EventRecorder
from pytest_kwait.scheduler.schedule_one import (
    Binder,
    BindingCycle,
    DefaultBinder,
    FailureHandler,
    format_error,
)
from pytest_kwait.scheduler.scheduling_queue import MAX_UNSCHEDULABLE, SchedulingQueue
from pytest_kwait.wait.context import check_clock
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.scheduler.framework.cycle_state import NodeLister
    from pytest_kwait.scheduler.scheduling_queue import QueuedPodInfo
    from pytest_kwait.wait.context import Stop

_EVENT_THREADS = 4
_EVENT_FLUSH = 1.0
_log = logging.getLogger(__name__)

_VALID_NAMES = "use one or more names, or names to algorithms"
_METRICS_METHODS = ("attempt", "pod_scheduled", "queue_length")
_SERIES_FLUSH_PERIOD: Final = 1.0
_QUEUE_FLUSH_PERIOD: Final = 30.0


class SchedulingAlgorithm(Protocol):
    """Selects nodes for pods; implemented by `Algorithm`."""

    def schedule(self, pod: Mapping[str, Any], node_lister: NodeLister, /) -> str:
        """Return the name of the node for a pod.

        Args:
            pod: the Pod as the API has it.
            node_lister: lists the nodes with their pods.

        Raises:
            FitError: it fits no node; it is retried after a change.
            Exception: any other error; it is retried after a back-off.
        """
        ...


@dataclass(frozen=True, slots=True)
class Config:
    """The parts of a `Scheduler`, for one run.

    Args:
        algorithms: the algorithms by scheduler name.
        next_pod: returns the next pod, or None if there is none yet or the context ended.
        node_lister: lists the nodes with their pods.
        error: called with each failed attempt.
        binding: binds pods.
        informers: the informers of pods and nodes; started by the run.
        owns_informers: whether they end with the run.
        watch: the handlers that fill queue and cache.
        queue: the pods to schedule.
        cache: the pods on nodes, assumed ones included.
        dispatchers: the threads that write.
    """

    algorithms: Mapping[str, SchedulingAlgorithm]
    next_pod: Callable[[wait.Context], QueuedPodInfo | None]
    node_lister: SharedLister
    error: Callable[[QueuedPodInfo, Exception, float], None]
    binding: BindingCycle
    informers: SharedInformerFactory
    owns_informers: bool
    watch: EventHandlers
    queue: SchedulingQueue
    cache: SchedulerCache
    recorder: EventRecorder
    dispatchers: Sequence[APIDispatcher]
    metrics: SchedulerMetrics
    clock: Clock

    def __post_init__(self) -> None:
        check_function("next_pod", self.next_pod)
        check_function("error", self.error)


class ConfigFactory:
    """Creates the parts of a scheduler.

    Args:
        client: the official client, or a session over it.
        scheduler_names: the names by which pods request this scheduler; as a mapping each with its
            own algorithm.
        algorithm: the algorithm of all names; None for kube-scheduler's default one.
        qps: requests per second for bindings and conditions, and as many for events; None for no
            limit.
        burst: requests at once above `qps`; None for twice `qps`.
        bind_threads: the number of concurrent bindings.
        informers: a shared factory, which must see all namespaces; None for own informers. Besides
            pods and nodes it provides the algorithm's other objects: namespaces for affinity
            between pods; services, replication controllers, replica sets and stateful sets for
            spreading.
        binder: binds pods to nodes; None for the server's `binding` subresource.
        pod_initial_backoff: the back-off after the first attempt; doubled each time.
        pod_max_backoff: the longest back-off.
        pod_max_unschedulable: the time after which a pod is retried without any change.
        pop_from_backoff: whether pods are retried early if the active queue is empty.
        assumed_pod_ttl: the time after which an unconfirmed bound pod is no longer assumed; None
            for never, as upstream.
        request_timeout: the limit of one request.

    Raises:
        InvalidArgument: no names, an algorithm given twice, or an invalid number or duration.

    Source: kube-scheduler, scheduler.go, `New`.
    """

    def __init__(
        self,
        client: ApiClient | ApiSession,
        *,
        scheduler_names: Sequence[str] | Mapping[str, SchedulingAlgorithm] = (DEFAULT_SCHEDULER,),
        algorithm: SchedulingAlgorithm | None = None,
        qps: float | None = None,
        burst: int | None = None,
        bind_threads: int = 8,
        informers: SharedInformerFactory | None = None,
        binder: Binder | None = None,
        pod_initial_backoff: Duration = 1,
        pod_max_backoff: Duration = 10,
        pod_max_unschedulable: Duration = MAX_UNSCHEDULABLE,
        pop_from_backoff: bool = True,
        assumed_pod_ttl: Duration | None = None,
        request_timeout: Duration = 10,
        metrics: SchedulerMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if algorithm is not None:
            check_algorithm("algorithm", algorithm)
        if informers is not None:
            valid = "use a SharedInformerFactory, or None for own informers"
            check_instance("informers", informers, SharedInformerFactory, valid)
        if binder is not None:
            check_function("binder", binder, "use a function binder(pod, node, deadline=…)")
        if metrics is not None:
            valid = f"use an object with {', '.join(_METRICS_METHODS)}"
            check_methods("metrics", metrics, _METRICS_METHODS, valid)
        check_flag("pop_from_backoff", pop_from_backoff)
        check_clock("clock", clock)
        self._algorithms = _algorithms_by_name(scheduler_names, algorithm)
        self._session = client if isinstance(client, ApiSession) else ApiSession.of(client)
        self._clock = clock
        self._metrics = metrics or NoMetrics()
        self._informers = informers
        self._timeout = to_seconds(request_timeout, what="request_timeout", allow_zero=False)
        self._binder = binder or DefaultBinder(self._session)
        self._dispatchers = (
            APIDispatcher(
                "binding",
                bind_threads,
                _make_rate_limiter(qps, burst, clock),
                request_timeout=self._timeout,
                clock=clock,
            ),
            APIDispatcher(
                "scheduler events",
                _EVENT_THREADS,
                _make_rate_limiter(qps, burst, clock),
                request_timeout=self._timeout,
                flush=_EVENT_FLUSH,
                clock=clock,
            ),
        )
        self._queue = SchedulingQueue(
            initial_backoff=pod_initial_backoff,
            max_backoff=pod_max_backoff,
            max_unschedulable=pod_max_unschedulable,
            pop_from_backoff=pop_from_backoff,
            metrics=self._metrics,
            clock=clock,
        )
        self._cache = SchedulerCache(assumed_pod_ttl=assumed_pod_ttl, clock=clock)

    def create(self) -> Config:
        """Create the parts and register the event handlers; call it once.

        Raises:
            InvalidArgument: informers of one namespace only.
            RuntimeError: informers that were stopped.
        """
        informers = self._informers or SharedInformerFactory(self._session)
        if informers.namespace is not None:
            valid = "a factory whose informers see all namespaces"
            raise InvalidArgument("informers", f"of namespace {informers.namespace}", valid)
        binding, events = self._dispatchers
        recorder = EventRecorder(self._session, events, self._clock)
        error = FailureHandler(
            queue=self._queue,
            latest=informers.informer_for(PODS).store.get_by_key,
            session=self._session,
            dispatcher=binding,
            recorder=recorder,
            metrics=self._metrics,
            clock=self._clock,
        )
        cycle = BindingCycle(
            queue=self._queue,
            cache=self._cache,
            binder=self._binder,
            dispatcher=binding,
            error=error,
            recorder=recorder,
            metrics=self._metrics,
            clock=self._clock,
        )
        watch = EventHandlers(self._queue, self._cache, self._algorithms.__contains__)
        lister = SharedLister(self._cache, informers, _list_plugin_names(self._algorithms.values()))
        watch.register(informers, lister.informers)
        return Config(
            algorithms=self._algorithms,
            next_pod=self._queue.pop,
            node_lister=lister,
            error=error,
            binding=cycle,
            informers=informers,
            owns_informers=self._informers is None,
            watch=watch,
            queue=self._queue,
            cache=self._cache,
            recorder=recorder,
            dispatchers=self._dispatchers,
            metrics=self._metrics,
            clock=self._clock,
        )


def check_algorithm(what: str, value: object) -> None:
    """Check an algorithm.

    Raises:
        InvalidArgument: it has no method `schedule`, or an async one.
    """
    check_methods(what, value, ("schedule",), "use an object with schedule(pod, node_lister)")


def _algorithms_by_name(
    names: Sequence[str] | Mapping[str, SchedulingAlgorithm], algorithm: SchedulingAlgorithm | None
) -> Mapping[str, SchedulingAlgorithm]:
    given: object = names
    if isinstance(given, str) or not isinstance(given, Collection) or not given:
        raise InvalidArgument("scheduler_names", given, _VALID_NAMES)
    if not all(isinstance(name, str) and name for name in given):
        raise InvalidArgument("scheduler_names", given, _VALID_NAMES)
    if isinstance(names, Mapping):
        if algorithm is not None:
            valid = "None where scheduler_names has the algorithms"
            raise InvalidArgument("algorithm", algorithm, valid)
        for name, named in names.items():
            check_algorithm(f"scheduler_names[{name!r}]", named)
        return dict(names)
    return dict.fromkeys(names, algorithm or Algorithm())


def _list_plugin_names(algorithms: Iterable[SchedulingAlgorithm]) -> list[str]:
    """Return the names of the predicates and priorities of algorithms that have them."""
    return [
        rule
        for algorithm in algorithms
        for rules in ("predicates", "priorities")
        for rule in getattr(algorithm, rules, ())
    ]


def _make_rate_limiter(qps: float | None, burst: int | None, clock: Clock) -> RateLimiter:
    if qps is None:
        if burst is not None:
            raise InvalidArgument("burst", burst, "use None if qps is None")
        return NoLimit()
    check_number("qps", qps, VALID_QPS)
    return TokenBucket(qps, max(1, int(2 * qps)) if burst is None else burst, clock)


class Scheduler:
    """Schedules and binds pods while it runs.

    One thread selects nodes, others bind. An error with a pod is logged and recorded as an event,
    and the loop continues with the next pod.

    Args:
        config: its parts.

    Source: kube-scheduler, scheduler.go, schedule_one.go.
    """

    def __init__(self, config: Config) -> None:
        check_instance("config", config, Config, "use what ConfigFactory.create() returns")
        self.config = config
        self._ctx = wait.background(config.clock)
        self._flushed_at = config.clock.monotonic()

    def run(self, stop: Stop) -> None:
        """Wait for the caches, then schedule one pod at a time until stopped.

        Returns once all requests have ended, at most a request's timeout after `stop`. A scheduler
        runs once.

        Args:
            stop: ends the run.

        Raises:
            WaitTimeout, WaitFailed: the caches did not sync, or cannot.
            RuntimeError: the informers were stopped before.
        """
        config = self.config
        ctx, finish = wait.with_cancel(make_stop_context(stop, config.clock))
        housekeeping = Worker(
            "kwait scheduler housekeeping",
            lambda: wait.until_with_context(ctx, self._keep_up, _SERIES_FLUSH_PERIOD),
        )
        try:
            config.informers.start()
            if not wait_for_cache_sync(*config.watch.synced, stop=ctx):
                return
            for dispatcher in config.dispatchers:
                dispatcher.start(ctx)
            housekeeping.start()
            self._ctx = ctx
            wait.until_with_context(ctx, lambda _ctx: self.schedule_one(), 0)
        finally:
            finish()
            self._end()
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
            node = _select_node(algorithm, entry, config.node_lister)
            assumed = config.cache.assume(entry.pod, node)
        except Exception as error:  # custom predicates and invalid pods may raise any error
            self._handle_failure(entry, error, begun)
            return
        config.binding.start(entry, assumed, node, begun)

    def _handle_failure(self, entry: QueuedPodInfo, error: Exception, begun: float) -> None:
        config = self.config
        try:
            config.error(entry, error, begun)
        except Exception as raised:  # an error function of the user may raise anything
            text = f"the error function raised {describe_value(raised)} for pod {entry.key}"
            note = f"{text} after: {format_error(error)}"
            _log.error("Error handling a failed pod pod=%s err=%s", entry.key, note)
            config.queue.add_unschedulable(entry, entry.pod, error=True)
            config.recorder.event(entry.pod, "Warning", "FailedScheduling", "Scheduling", note)

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
        unfinished = [dispatcher for dispatcher in config.dispatchers if not dispatcher.close()]
        if unfinished:
            _log.error("requests of the scheduler exceeded their timeout")


def _select_node(algorithm: SchedulingAlgorithm, entry: QueuedPodInfo, lister: NodeLister) -> str:
    """Return the name of the node that an algorithm selects.

    Raises:
        AlgorithmError: it raised an error that does not explain itself, or returned no name.
    """
    try:
        answer: object = algorithm.schedule(entry.pod, lister)
    except KwaitError:
        raise
    except Exception as error:
        text = f"the algorithm raised {describe_value(error)} for pod {entry.key}"
        raise AlgorithmError(text) from error
    if isinstance(answer, str) and answer:
        return answer
    raise AlgorithmError(
        f"the algorithm returned {describe_value(answer)} for pod {entry.key}; it returns the name "
        "of a node, or raises FitError"
    )

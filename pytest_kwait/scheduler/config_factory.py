"""The parts of a scheduler, and the factory that makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait import wait
from pytest_kwait.cache.factory import SharedInformerFactory
from pytest_kwait.client.rate_limiter import NoLimit, RateLimiter, TokenBucket
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import Session
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.algorithm import Algorithm
from pytest_kwait.scheduler.api_dispatcher import APIDispatcher
from pytest_kwait.scheduler.binding import Binder, BindingCycle, DefaultBinder
from pytest_kwait.scheduler.cache import SchedulerCache, SharedLister
from pytest_kwait.scheduler.event_handlers import EventHandlers
from pytest_kwait.scheduler.framework.pod_info import DEFAULT_SCHEDULER
from pytest_kwait.scheduler.metrics import NoMetrics, SchedulerMetrics
from pytest_kwait.scheduler.pod_events import EventRecorder
from pytest_kwait.scheduler.scheduling_failure import FailureHandler
from pytest_kwait.scheduler.scheduling_queue import MAX_UNSCHEDULABLE, SchedulingQueue

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.scheduler.framework.cycle_state import NodeLister
    from pytest_kwait.scheduler.scheduling_queue import QueuedPodInfo

__all__ = ["DEFAULT_SCHEDULER", "Config", "ConfigFactory", "SchedulingAlgorithm"]

_EVENT_THREADS = 4
_EVENT_FLUSH = 1.0


class SchedulingAlgorithm(Protocol):
    """An `Algorithm`, or anything else that finds nodes for pods."""

    def schedule(self, pod: Mapping[str, Any], node_lister: NodeLister, /) -> str:
        """Return the name of the node that a pod goes to.

        Args:
            pod: the Pod as the API has it.
            node_lister: lists the nodes with the pods on them.

        Raises:
            FitError: it fits none; it is tried again when something has changed.
            Exception: anything else; it is tried again after a while.
        """
        ...


@dataclass(frozen=True, slots=True)
class Config:
    """What a `Scheduler` is made of; good for one run.

    Args:
        algorithms: how pods are placed, by the scheduler name that they ask for.
        next_pod: returns the next pod, or None if there is none to return yet or the context ended.
        node_lister: lists the nodes with the pods on them, and knows what pods belong to.
        error: told of each attempt that failed.
        binding: has pods bound.
        informers: the informers of pods and nodes; started by the run.
        owns_informers: whether they end with the run.
        watch: what the informers tell queue and cache.
        queue: the pods that wait.
        cache: the pods on nodes, assumed ones too.
        recorder: writes events.
        dispatchers: the threads that write.
        metrics: counts.
        clock: passes the time.
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


class ConfigFactory:
    """Makes what a scheduler is made of.

    Args:
        client: the official client, or a session over it.
        scheduler_names: the names by which pods ask for this scheduler; as a mapping each with an
            algorithm of its own.
        algorithm: the algorithm of all names; None for kube-scheduler's default one.
        qps: requests per second for bindings and conditions, and as many for events; None for any.
        burst: how many may follow one another at once; None for twice `qps`.
        bind_threads: how many pods are bound at a time.
        informers: whose informers are used; they must see all namespaces. None for informers of the
            scheduler's own. Beside pods and nodes they are asked for what the algorithm looks at:
            namespaces for affinity between pods; services, replication controllers, replica sets
            and stateful sets for spreading.
        binder: binds pods to nodes; None for the server's `binding` subresource.
        pod_initial_backoff: how long a pod waits after its first attempt; doubled each time.
        pod_max_backoff: how long it waits at most.
        pod_max_unschedulable: after how long a pod is tried again though nothing has changed.
        pop_from_backoff: whether pods are tried before their time when nothing else is to be done.
        assumed_pod_ttl: after how long a bound pod that the watch does not show is given up; None
            for never, as upstream.
        request_timeout: how long a request may take.
        metrics: counts.
        clock: passes the time.

    Raises:
        InvalidArgument: no names, an algorithm given twice, or a number or duration that is none.

    Source: kube-scheduler, scheduler.go, `New`.
    """

    def __init__(
        self,
        client: ApiClient | Session,
        *,
        scheduler_names: Sequence[str] | Mapping[str, SchedulingAlgorithm] = (DEFAULT_SCHEDULER,),
        algorithm: SchedulingAlgorithm | None = None,
        qps: float | None = None,
        burst: int | None = None,
        bind_threads: int = 8,
        informers: SharedInformerFactory | None = None,
        binder: Binder | None = None,
        pod_initial_backoff: wait.Duration = 1,
        pod_max_backoff: wait.Duration = 10,
        pod_max_unschedulable: wait.Duration = MAX_UNSCHEDULABLE,
        pop_from_backoff: bool = True,
        assumed_pod_ttl: wait.Duration | None = None,
        request_timeout: wait.Duration = 10,
        metrics: SchedulerMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._algorithms = _algorithms_by_name(scheduler_names, algorithm)
        self._session = client if isinstance(client, Session) else Session.of(client)
        self._clock = clock
        self._metrics = metrics or NoMetrics()
        self._informers = informers
        self._timeout = wait.to_seconds(request_timeout, what="request_timeout")
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
        """Make it; the informers are told of, but started by the run. To be called once.

        Raises:
            InvalidArgument: informers that see one namespace only.
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


def _algorithms_by_name(
    names: Sequence[str] | Mapping[str, SchedulingAlgorithm], algorithm: SchedulingAlgorithm | None
) -> Mapping[str, SchedulingAlgorithm]:
    if isinstance(names, str) or not names or not all(names):
        raise InvalidArgument("scheduler_names", names, "one name at least, or names to algorithms")
    if isinstance(names, Mapping):
        if algorithm is not None:
            valid = "None where scheduler_names has the algorithms"
            raise InvalidArgument("algorithm", algorithm, valid)
        return dict(names)
    return dict.fromkeys(names, algorithm or Algorithm())


def _list_plugin_names(algorithms: Iterable[SchedulingAlgorithm]) -> set[str]:
    """Return the names of the predicates and priorities, as far as algorithms have such."""
    return {
        rule
        for algorithm in algorithms
        for rules in ("predicates", "priorities")
        for rule in getattr(algorithm, rules, ())
    }


def _make_rate_limiter(qps: float | None, burst: int | None, clock: Clock) -> RateLimiter:
    if qps is None:
        if burst is not None:
            raise InvalidArgument("burst", burst, "None where qps is None")
        return NoLimit()
    return TokenBucket(qps, max(1, int(2 * qps)) if burst is None else burst, clock)

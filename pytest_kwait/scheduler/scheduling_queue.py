"""The scheduling queue: active, backing off, unschedulable and gated pods; queueing hints.

Hints find the changes of pods and nodes that can make a pod schedulable.

Source: kube-scheduler, backend/queue/scheduling_queue.go, framework/events.go.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_kwait import wait
from pytest_kwait.apimachinery.times import Duration, format_duration, to_seconds
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.framework.pod_info import DEFAULT_SCHEDULER, sum_pod_requests
from pytest_kwait.scheduler.metrics import NoMetrics, QueueName, SchedulerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Pod: TypeAlias = dict[str, Any]
MAX_UNSCHEDULABLE: Final = 300.0
"""Seconds after which an unschedulable pod is retried without any change."""

_BACKOFF_WINDOW: Final = 1.0

_UNRELATED = frozenset({"finalizers", "generation", "managedFields", "resourceVersion"})


class QueueState(Enum):
    """The part of the queue that a pod is in."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """A pod with the queue's record of its attempts.

    Args:
        pod: its last known state.
        timestamp: when it was last queued, in the clock's monotonic seconds.
        place: the part of the queue that it is in.
        attempts: the number of attempts.
        unschedulable_count: the number of attempts in which it fitted no node.
        error_count: the number of successive errors.
        cycle: the queue's cycle of its last attempt.
        changed: whether it changed during its attempt.
        backs_off_until: the end of its back-off, in monotonic seconds; None until it is needed.
        first_active: when it was first ready to be scheduled.
        ticket: identifies its valid entry of a heap.
    """

    pod: Pod
    timestamp: float
    place: QueueState = QueueState.ACTIVE
    attempts: int = 0
    unschedulable_count: int = 0
    error_count: int = 0
    cycle: int = 0
    changed: bool = False
    backs_off_until: float | None = None
    first_active: float | None = None
    ticket: int = 0

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return uid_of(self.pod)

    @property
    def key(self) -> str:
        """Namespace and name of the pod."""
        return key_of(self.pod)

    @property
    def profile(self) -> str:
        """The scheduler that the pod requests."""
        return scheduler_of(self.pod)

    @property
    def order(self) -> tuple[int, float]:
        """Its sort key: priority first, then time.

        Source: kube-scheduler, framework/plugins/queuesort/priority_sort.go.
        """
        priority = (self.pod.get("spec") or {}).get("priority") or 0
        return (-priority, self.timestamp)


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the UID of an object."""
    uid: str = obj["metadata"]["uid"]
    return uid


def key_of(obj: Mapping[str, Any]) -> str:
    """Return `namespace/name` of an object."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node that a pod is bound to; empty for none."""
    return (pod.get("spec") or {}).get("nodeName") or ""


def scheduler_of(pod: Mapping[str, Any]) -> str:
    """Return the name of the scheduler that a pod requests."""
    return (pod.get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER


def gates_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of the gates that keep a pod from being scheduled."""
    return [gate.get("name", "") for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]


_QUEUE_NAMES: Final[dict[QueueState, QueueName]] = {
    QueueState.ACTIVE: "active",
    QueueState.BACKOFF: "backoff",
    QueueState.ERROR_BACKOFF: "backoff",
    QueueState.UNSCHEDULABLE: "unschedulable",
    QueueState.GATED: "gated",
}


# Sort key and ticket are enough: tickets are unique.
_Heap: TypeAlias = list[tuple[tuple[float, ...], int, QueuedPodInfo]]


class SchedulingQueue:
    """Pods to schedule: active by priority and time, backing off, unschedulable, gated.

    An unschedulable pod waits until a change could help it, and then for the rest of its back-off.
    As upstream, that rest is skipped if the active queue is empty, except after an error. A change
    during an attempt also counts for the pod in the attempt. Any thread may add pods; one thread
    takes them.

    Args:
        initial_backoff: the first back-off; doubled each time.
        max_backoff: the longest; zero for no back-off.
        max_unschedulable: the time after which an unschedulable pod is retried without any change.
        pop_from_backoff: whether back-offs are cut short if the active queue is empty.
        metrics: receives the queues' lengths.

    Raises:
        InvalidArgument: an invalid duration, or an initial back-off above the longest.

    Source: kube-scheduler, backend/queue (scheduling_queue.go, backoff_queue.go). Changes are
    matched to pods by kind of change, where upstream calls the plugins that rejected the pod.
    """

    def __init__(
        self,
        *,
        initial_backoff: Duration = 1,
        max_backoff: Duration = 10,
        max_unschedulable: Duration = MAX_UNSCHEDULABLE,
        pop_from_backoff: bool = True,
        metrics: SchedulerMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._initial = to_seconds(initial_backoff, what="pod_initial_backoff")
        self._max = to_seconds(max_backoff, what="pod_max_backoff")
        self._max_unschedulable = to_seconds(max_unschedulable, what="max_unschedulable")
        if self._max and not 0 < self._initial <= self._max:
            valid = f"above zero and at most pod_max_backoff ({format_duration(self._max)})"
            raise InvalidArgument("pod_initial_backoff", initial_backoff, valid)
        self._pops_early = pop_from_backoff
        self._metrics = metrics or NoMetrics()
        self._clock = clock
        self._lock = threading.RLock()
        self._entries: dict[str, QueuedPodInfo] = {}
        self._tickets = itertools.count(1)
        self._active: _Heap = []
        self._backoff: _Heap = []
        self._errors: _Heap = []
        self._lengths: Counter[QueueName] = Counter()
        self._cycle = 0
        # The last cycles with a change that may help any pod, or a pod that depends on others.
        self._moved_all = self._moved_dependents = -1
        self._wake: Callable[[], None] = lambda: None

    def add(self, pod: Pod) -> None:
        """Queue a new pod; hold it while it has gates."""
        with self._lock:
            if uid_of(pod) not in self._entries:
                self._enqueue(QueuedPodInfo(pod, self._clock.monotonic()))

    def update(self, old: Pod, new: Pod) -> None:
        """Update a queued pod; queue it otherwise."""
        with self._lock:
            entry = self._entries.get(uid_of(new))
            if entry is None:
                self.add(new)
                return
            if entry.place is QueueState.IN_FLIGHT:
                # It returns with its latest state, which warrants another attempt.
                entry.changed = entry.changed or has_pod_scheduling_change(old, new)
                return
            entry.pod = new
            if entry.place is QueueState.GATED:
                if not gates_of(new):
                    self._enqueue(entry)
            elif entry.place is QueueState.UNSCHEDULABLE and has_pod_scheduling_change(old, new):
                self._retry(entry)

    def delete(self, pod: Pod) -> None:
        """Remove a deleted or bound pod; one in an attempt does not return."""
        with self._lock:
            entry = self._entries.pop(uid_of(pod), None)
            if entry is not None:
                self._leave(entry)

    def pop(self, ctx: wait.Context) -> QueuedPodInfo | None:
        """Wait for the next pod and return it; None without one.

        None means that the context ended or that the wake-up was spurious: call it again.
        """
        entry = self._take()
        if entry is not None or ctx.err() is not None:
            return entry
        woken, wake = wait.with_cancel(ctx)
        with self._lock:
            self._wake = wake
            entry, due = self._take(), self._next_due()
        if entry is None:
            woken.wait(None if math.isinf(due) else max(0.0, due - self._clock.monotonic()))
            entry = None if ctx.err() is not None else self._take()
        return entry

    def done(self, entry: QueuedPodInfo) -> None:
        """Remove a pod after its attempt: bound, deleted, or of another scheduler."""
        with self._lock:
            if self._entries.get(entry.uid) is entry and entry.place is QueueState.IN_FLIGHT:
                del self._entries[entry.uid]

    def add_unschedulable(self, entry: QueuedPodInfo, pod: Pod, *, error: bool) -> None:
        """Return a pod to the queue after a failed attempt, unless it was deleted.

        Args:
            entry: the entry returned by `pop`.
            pod: its latest state.
            error: whether the attempt had an error, so that only time can help; otherwise it fitted
                no node.
        """
        with self._lock:
            if self._entries.get(entry.uid) is not entry or entry.place is not QueueState.IN_FLIGHT:
                return
            helped = entry.changed or self._moved_all >= entry.cycle
            if not helped and self._moved_dependents >= entry.cycle:
                helped = depends_on_other_pods(pod)
            entry.pod, entry.changed = pod, False
            if error:
                entry.error_count += 1
            else:
                entry.unschedulable_count += 1
                entry.error_count = 0
            entry.timestamp, entry.backs_off_until = self._clock.monotonic(), None
            if helped or error:
                self._retry(entry)
            else:
                self._place(entry, QueueState.UNSCHEDULABLE)

    def move_all(self) -> None:
        """Retry unschedulable pods after a change that may help any of them."""
        with self._lock:
            self._moved_all = self._cycle
            self._move(lambda _pod: True)

    def move_dependents(self) -> None:
        """Retry the pods that depend on other pods, after a change of pods."""
        with self._lock:
            self._moved_dependents = self._cycle
            self._move(depends_on_other_pods)

    def flush_unschedulable(self) -> None:
        """Retry pods that have been unschedulable for too long; called every 30 s."""
        with self._lock:
            since = self._clock.monotonic() - self._max_unschedulable
            for entry in list(self._entries.values()):
                if entry.place is QueueState.UNSCHEDULABLE and entry.timestamp < since:
                    self._retry(entry)

    def pods(self, place: QueueState) -> Sequence[Pod]:
        """Return the pods at one place, in no order."""
        with self._lock:
            return [entry.pod for entry in self._entries.values() if entry.place is place]

    def __len__(self) -> int:
        """Return the number of pods, those in an attempt included."""
        return len(self._entries)

    def _move(self, chosen: Callable[[Pod], bool]) -> None:
        if not self._lengths["unschedulable"]:
            return
        for entry in list(self._entries.values()):
            if entry.place is QueueState.UNSCHEDULABLE and chosen(entry.pod):
                self._retry(entry)

    def _take(self) -> QueuedPodInfo | None:
        with self._lock:
            now = self._clock.monotonic()
            for heap, place in (
                (self._backoff, QueueState.BACKOFF),
                (self._errors, QueueState.ERROR_BACKOFF),
            ):
                while (entry := _first(heap, place)) is not None and self._end_of(entry) <= now:
                    self._place(entry, QueueState.ACTIVE)
            entry = _first(self._active, QueueState.ACTIVE)
            if entry is None and self._pops_early:
                entry = _first(self._backoff, QueueState.BACKOFF)
            if entry is None:
                return None
            self._cycle += 1
            entry.cycle = self._cycle
            entry.attempts += 1
            entry.first_active = entry.first_active or now
            entry.backs_off_until = None
            self._place(entry, QueueState.IN_FLIGHT)
            return entry

    def _next_due(self) -> float:
        ends = [math.inf]
        for heap, place in (
            (self._backoff, QueueState.BACKOFF),
            (self._errors, QueueState.ERROR_BACKOFF),
        ):
            entry = _first(heap, place)
            if entry is not None:
                ends.append(self._end_of(entry))
        return min(ends)

    def _enqueue(self, entry: QueuedPodInfo) -> None:
        self._entries[entry.uid] = entry
        self._place(entry, QueueState.GATED if gates_of(entry.pod) else QueueState.ACTIVE)

    def _retry(self, entry: QueuedPodInfo) -> None:
        if self._end_of(entry) <= self._clock.monotonic():
            self._enqueue(entry)
        else:
            self._place(
                entry, QueueState.ERROR_BACKOFF if entry.error_count else QueueState.BACKOFF
            )

    def _end_of(self, entry: QueuedPodInfo) -> float:
        """Return the end of the entry's back-off."""
        count = entry.error_count or entry.unschedulable_count
        if not count or not self._max:
            return -math.inf
        if entry.backs_off_until is None:
            pause = min(self._max, self._initial * 2.0 ** min(count - 1, 64))
            end = entry.timestamp + pause
            if self._pops_early:
                # Windows, within which priority decides the order instead of fractions of a second.
                end = (math.floor(end / _BACKOFF_WINDOW) + 1) * _BACKOFF_WINDOW
            entry.backs_off_until = end
        return entry.backs_off_until

    def _place(self, entry: QueuedPodInfo, place: QueueState) -> None:
        self._leave(entry)
        entry.place = place
        entry.ticket = ticket = next(self._tickets)
        if place is QueueState.ACTIVE:
            entry.first_active = entry.first_active or self._clock.monotonic()
            heapq.heappush(self._active, (entry.order, ticket, entry))
        elif place is QueueState.BACKOFF:
            sort_key = (self._end_of(entry), *entry.order)
            heapq.heappush(self._backoff, (sort_key, ticket, entry))
        elif place is QueueState.ERROR_BACKOFF:
            heapq.heappush(self._errors, ((self._end_of(entry),), ticket, entry))
        if place in _QUEUE_NAMES:
            self._count(_QUEUE_NAMES[place], 1)
        if place in (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.ERROR_BACKOFF):
            self._wake()

    def _leave(self, entry: QueuedPodInfo) -> None:
        if entry.ticket and entry.place in _QUEUE_NAMES:
            self._count(_QUEUE_NAMES[entry.place], -1)
        entry.ticket = 0

    def _count(self, queue: QueueName, change: int) -> None:
        self._lengths[queue] += change
        self._metrics.queue_length(queue, self._lengths[queue])


def _first(heap: _Heap, place: QueueState) -> QueuedPodInfo | None:
    """Return the first entry of a heap and drop outdated ones before it."""
    while heap:
        _, ticket, entry = heap[0]
        if entry.ticket == ticket and entry.place is place:
            return entry
        heapq.heappop(heap)
    return None


def has_node_scheduling_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether a node's change may help pods; heartbeats and cordoning do not.

    Source: kube-scheduler, framework/events.go, `NodeSchedulingPropertiesChange`.
    """
    return (
        (_spec(old).get("unschedulable") and not _spec(new).get("unschedulable"))
        or _status(old).get("allocatable") != _status(new).get("allocatable")
        or has_label_change(old, new)
        or (_spec(old).get("taints") or []) != (_spec(new).get("taints") or [])
        or _conditions(old) != _conditions(new)
        or (_metadata(old).get("annotations") or {}) != (_metadata(new).get("annotations") or {})
    )


def has_pod_scheduling_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether a waiting pod changed outside its status.

    Source: kube-scheduler, backend/queue/scheduling_queue.go, `isPodUpdated`.
    """
    if (old.get("spec") or {}) != (new.get("spec") or {}):
        return True
    before, after = (
        {name: value for name, value in _metadata(pod).items() if name not in _UNRELATED}
        for pod in (old, new)
    )
    return before != after


def has_label_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the labels changed."""
    return bool((_metadata(old).get("labels") or {}) != (_metadata(new).get("labels") or {}))


def is_scaled_down(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether a pod requests less of a resource than before; False for invalid requests.

    Source: kube-scheduler, framework/events.go, `extractPodScaleDown`.
    """
    try:
        after = sum_pod_requests(new)
        return any(amount > after.get(name, 0) for name, amount in sum_pod_requests(old).items())
    except InvalidArgument:
        return False


def depends_on_other_pods(pod: Mapping[str, Any]) -> bool:
    """Return whether the nodes of other pods can decide whether `pod` fits a node.

    Source: kube-scheduler, backend/queue/scheduling_queue.go,
    `getUnschedulablePodsWithCrossTopologyTerm`.
    """
    spec = _spec(pod)
    affinity = spec.get("affinity") or {}
    return bool(
        spec.get("topologySpreadConstraints")
        or affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
    )


def _conditions(node: Mapping[str, Any]) -> dict[str, str]:
    conditions = _status(node).get("conditions") or ()
    return {condition.get("type", ""): condition.get("status", "") for condition in conditions}


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("metadata") or {}


def _spec(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def _status(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("status") or {}

"""Observed timelines: the milestones of each object in order, and its events.

A milestone is a short text that describes the state of an object at one moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Obj = dict[str, Any]

_COUNTS = {
    "Job": ("active", "ready", "succeeded", "failed", "completedIndexes", "failedIndexes"),
    "Deployment": ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
    "ReplicaSet": ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("replicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"),
    "DaemonSet": (
        *("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"),
        *("numberUnavailable", "numberMisscheduled", "updatedNumberScheduled"),
    ),
    "PodDisruptionBudget": (
        *("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"),
    ),
    "HorizontalPodAutoscaler": ("currentReplicas", "desiredReplicas"),
}
"""Counting status fields; zero and absent are equal."""

_OBSERVING = frozenset(
    {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"}
    | {"PodDisruptionBudget", "HorizontalPodAutoscaler"}
)
_CONTAINERS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def list_milestones(obj: Obj) -> frozenset[str]:
    """Return the milestones that an object has now."""
    return frozenset(_all(obj))


def parse_count(milestone: str) -> tuple[str, int] | None:
    """Return the subject and number of a counting milestone; None for others.

    Watchers may miss counts: nothing guarantees that the first of two ready pods is observed.
    """
    name, equals, number = milestone.rpartition("=")
    return (name, int(number)) if equals and number.isdigit() else None


def _all(obj: Obj) -> Iterator[str]:
    metadata, kind = obj["metadata"], obj["kind"]
    status: Obj = obj.get("status") or {}
    yield "there"
    if "deletionTimestamp" in metadata:
        yield f"deleting within {metadata.get('deletionGracePeriodSeconds', 0)} s"
        for finalizer in metadata.get("finalizers") or ():
            yield f"kept by {finalizer}"
    for condition in status.get("conditions") or ():
        reason = condition.get("reason", "")
        yield f"{condition['type']}={condition['status']} {reason}".rstrip()
    if kind in _OBSERVING and "observedGeneration" in status:
        yield f"observed={status['observedGeneration']}"
    for name in _COUNTS.get(kind, ()):
        if status.get(name):
            yield f"{name}={status[name]}"
    if kind in _MORE:
        yield from _MORE[kind](obj, status)


def _pod(obj: Obj, status: Obj) -> Iterator[str]:
    yield f"phase={status.get('phase')}"
    if status.get("reason"):
        yield f"reason={status['reason']}"
    if status.get("nominatedNodeName"):
        yield "is promised a place"
    for kind in _CONTAINERS:
        for container in status.get(kind) or ():
            yield from _container(container)


def _node(obj: Obj, _: Obj) -> Iterator[str]:
    for taint in obj["spec"].get("taints") or ():
        yield f"tainted {taint['key']}:{taint['effect']}"


def _container(status: Obj) -> Iterator[str]:
    name = status["name"]
    if status.get("ready"):
        yield f"{name} is ready"
    if status.get("started"):
        yield f"{name} has started"
    if status.get("restartCount"):
        yield f"{name} restarts={status['restartCount']}"
    for when, state in (("", status.get("state")), ("last ", status.get("lastState"))):
        for kind, details in (state or {}).items():
            yield f"{name} {when}{kind} {_why(details or {})}".rstrip()


def _why(details: Obj) -> str:
    code = details.get("exitCode")
    reason: str = details.get("reason", "")
    return reason + ("" if code is None else f" exit code {code}")


def _job(_: Obj, status: Obj) -> Iterator[str]:
    for name in ("startTime", "completionTime"):
        if status.get(name):
            yield f"has {name}"


def _revision(obj: Obj, _: Obj) -> Iterator[str]:
    annotations = obj["metadata"].get("annotations") or {}
    if "deployment.kubernetes.io/revision" in annotations:
        yield f"revision={annotations['deployment.kubernetes.io/revision']}"


def _deployment(obj: Obj, status: Obj) -> Iterator[str]:
    yield from _revision(obj, status)
    if status.get("unavailableReplicas"):
        yield f"unavailableReplicas={status['unavailableReplicas']}"


def _replica_set(obj: Obj, status: Obj) -> Iterator[str]:
    yield from _revision(obj, status)
    yield f"wanted={obj['spec'].get('replicas', 0)}"


def _stateful_set(_: Obj, status: Obj) -> Iterator[str]:
    if status.get("currentRevision") and status["currentRevision"] == status.get("updateRevision"):
        yield "all of one revision"


def _cron_job(_: Obj, status: Obj) -> Iterator[str]:
    yield f"active jobs={len(status.get('active') or ())}"
    for name in ("lastScheduleTime", "lastSuccessfulTime"):
        if status.get(name):
            yield f"has {name}"


def _claim(_: Obj, status: Obj) -> Iterator[str]:
    yield f"phase={status.get('phase')}"


def _quota(_: Obj, status: Obj) -> Iterator[str]:
    for name, used in (status.get("used") or {}).items():
        yield f"{name} of {status['hard'][name]} used={used}"


def _slice(obj: Obj, _: Obj) -> Iterator[str]:
    endpoints = obj.get("endpoints") or ()
    for name in ("ready", "serving", "terminating"):
        number = sum(bool((each.get("conditions") or {}).get(name)) for each in endpoints)
        yield f"{name}={number}"


_MORE: dict[str, Callable[[Obj, Obj], Iterator[str]]] = {
    "Pod": _pod,
    "Node": _node,
    "Job": _job,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "CronJob": _cron_job,
    "PersistentVolumeClaim": _claim,
    "ResourceQuota": _quota,
    "EndpointSlice": _slice,
}


GONE = "gone"
_ANSWERS = "answers/steps"
_NODE = "node/{ns}"
_NOISE = frozenset({"serviceaccount/default", "configmap/kube-root-ca.crt"})
"""Default objects of every namespace."""


@dataclass
class Instance:
    """One object, from its first to its last observation."""

    kind: str
    name: str
    owner: str
    """As `kind/name`; empty without a controller."""
    index: str
    """The completion index of a job's pod; empty elsewhere."""
    revision: int
    """Of the cluster, when the object was first seen."""
    now: frozenset[str] = frozenset()
    seen: dict[str, int] = field(default_factory=dict)
    """Each milestone, and at which of the object's changes it was first seen."""
    changes: int = 0
    events: set[str] = field(default_factory=set)

    def observe(self, milestones: frozenset[str]) -> None:
        """Record the state of the object."""
        self.now = milestones
        self.changes += 1
        for milestone in milestones:
            self.seen.setdefault(milestone, self.changes)


class Timeline:
    """The observations of one scenario."""

    def __init__(self) -> None:
        self._instances: dict[str, Instance] = {}
        self._events: dict[str, set[str]] = {}
        self._answers = Instance("answers", "steps", "", "", 0)
        self.ready: set[str] = set()
        """The default objects of the namespace that were observed."""

    def observe(self, change: str, obj: Obj) -> None:
        """Record one change of a watch."""
        if obj["kind"] == "Event":
            about = obj["involvedObject"]
            key = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
            self._events.setdefault(key, set()).add(f"{obj.get('type')} {obj.get('reason')}")
            return
        metadata = obj["metadata"]
        key = f"{obj['kind'].lower()}/{metadata['name']}"
        if key in _NOISE:
            self.ready.add(key)
            return
        uid = metadata["uid"]
        if uid not in self._instances:
            self._instances[uid] = _instance(obj)
        milestones = frozenset({GONE}) if change == "DELETED" else list_milestones(obj)
        self._instances[uid].observe(milestones)

    def answered(self, text: str) -> None:
        """Record the response to an action."""
        self._answers.observe(self._answers.now | {text})

    @property
    def set_up(self) -> bool:
        """Return whether the namespace has its default objects."""
        return self.ready == _NOISE

    def objects(self) -> dict[str, list[Instance]]:
        """Return every instance by a name that is equal on every cluster."""
        sets = _numbered([each for each in self._instances.values() if each.kind == "replicaset"])
        owners = {f"{each.kind}/{each.name}": each for each in self._instances.values()}
        found: dict[str, list[Instance]] = {}
        for instance in self._instances.values():
            found.setdefault(_key(instance, owners, sets), []).append(instance)
        if self._answers.changes:
            found[_ANSWERS] = [self._answers]
        return found

    def events(self) -> dict[str, set[str]]:
        """Return types and reasons of the events of each object."""
        found: dict[str, set[str]] = {}
        names = {
            f"{instance.kind}/{instance.name}": key
            for key, instances in self.objects().items()
            for instance in instances
        }
        for key, reasons in self._events.items():
            found.setdefault(names.get(key, key), set()).update(reasons)
        return found

    def name_of(self, key: str) -> str:
        """Return the name on this cluster of a live object with the common name `key`."""
        kind, _, name = key.partition("/")
        if not name.endswith("*") and kind != "replicaset":
            return name
        living = (each for each in self.objects().get(key, ()) if GONE not in each.now)
        return min((each.name for each in living), default=name)

    def holds(self, wish: str) -> bool:
        """Return whether an awaited milestone was observed.

        Args:
            wish: `[now] [NUMBER] KIND/NAME MILESTONE[, MILESTONE...]`: so many instances (one) had,
                or have now, all of the milestones; a condition without a reason matches any, and
                `restarts>=2` matches higher counts. `KIND/NAME event TYPE REASON`: an event.
        """
        first, _, rest = wish.partition(" ")
        present = first == "now"
        if present:
            first, _, rest = rest.partition(" ")
        number = 1
        if first.isdigit():
            number = int(first)
            first, _, rest = rest.partition(" ")
        if rest.startswith("event "):
            return rest.removeprefix("event ") in self.events().get(first, ())
        wanted = rest.split(", ")
        return number <= sum(
            all(_among(each.now if present else each.seen, one) for one in wanted)
            for each in self.objects().get(first, ())
        )

    def as_json(self) -> dict[str, Any]:
        """Return everything that is compared."""
        return {
            "objects": {
                key: [
                    {"seen": each.seen, "now": sorted(each.now)}
                    for each in sorted(instances, key=lambda one: one.revision)
                ]
                for key, instances in sorted(self.objects().items())
            },
            "events": {key: sorted(reasons) for key, reasons in sorted(self.events().items())},
        }


def _among(milestones: Iterable[str], wanted: str) -> bool:
    """Return whether the milestone is present; without a reason, any reason matches."""
    counted, at_least, number = wanted.partition(">=")
    if at_least:
        counts = filter(None, map(parse_count, milestones))
        return any(name == counted and int(number) <= count for name, count in counts)
    return any(each == wanted or each.startswith(f"{wanted} ") for each in milestones)


def _instance(obj: Obj) -> Instance:
    metadata = obj["metadata"]
    owner = next(
        (
            f"{each['kind'].lower()}/{each['name']}"
            for each in metadata.get("ownerReferences") or ()
            if each.get("controller")
        ),
        "",
    )
    index = (metadata.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", "")
    revision = int(metadata["resourceVersion"])
    return Instance(obj["kind"].lower(), metadata["name"], owner, index, revision)


def _numbered(sets: list[Instance]) -> dict[str, int]:
    """Return the number of each replica set within its deployment."""
    numbers: dict[str, int] = {}
    by_owner: dict[str, int] = {}
    for each in sorted(sets, key=lambda one: one.revision):
        by_owner[each.owner] = numbers[each.name] = by_owner.get(each.owner, 0) + 1
    return numbers


def _key(instance: Instance, owners: dict[str, Instance], sets: dict[str, int]) -> str:
    if instance.kind == "node":
        return _NODE
    kind, _, owner = instance.owner.partition("/")
    if not kind or kind == "statefulset":
        return f"{instance.kind}/{instance.name}"
    if instance.kind == "replicaset":
        return f"replicaset/{owner}-{sets[instance.name]}"
    above = owners.get(instance.owner)
    if above is not None:
        owner = _key(above, owners, sets).partition("/")[2]
    index = f"-{instance.index}" if instance.index else ""
    return f"{instance.kind}/{owner}{index}-*"

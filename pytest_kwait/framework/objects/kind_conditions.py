"""Conditions of the waits of a kind, for general waits on controllers of pods.

A general wait reads its objects alone, and a controller's status hardly says why its pods do not
come. The condition of the wait of that kind reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.client.resource import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from pytest_kwait.engine.condition import Met
from pytest_kwait.framework.daemonset import DaemonSetStatus
from pytest_kwait.framework.deployment import AvailableDeployment, ConditionReason
from pytest_kwait.framework.job.conditions import (
    CONDITION_KINDS,
    JobOutcome,
    JobPods,
    JobReadiness,
    JobStatusCondition,
)
from pytest_kwait.framework.objects.lists import uid_of
from pytest_kwait.framework.predicates import AllOf, ConditionStatus, HeldPredicate, JsonPathValue
from pytest_kwait.framework.rc import RunningPods
from pytest_kwait.framework.replicaset import AvailableReplicas
from pytest_kwait.framework.statefulset import StatefulSetStatus
from pytest_kwait.framework.workload.fields import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import Condition
    from pytest_kwait.framework.predicates import ObjectPredicate

Obj: TypeAlias = "dict[str, Any]"

_READY = ("readyReplicas", "availableReplicas")


class KindConditions:
    """The conditions of the kind's own wait that a test of its objects needs, one per object.

    Args:
        test: the test of each object.
    """

    def __init__(self, resource: Resource, namespace: str, test: ObjectPredicate) -> None:
        self._resource = resource
        self._namespace = namespace
        self._leaves = tuple(_iterate_required(test))
        self._made: dict[tuple[str, int], Condition | None] = {}

    def of(self, obj: Obj) -> Condition | None:
        """Return the condition that the object's test needs now; None if its kind has none.

        It stays the same one as long as the object does.
        """
        for place, leaf in enumerate(self._leaves):
            if isinstance(leaf.evaluate(obj), Met):
                continue
            key = (uid_of(obj), place)
            if key not in self._made:
                self._made[key] = self._make(leaf, obj)
            if (condition := self._made[key]) is not None:
                return condition
        return None

    def _make(self, leaf: ConditionStatus | JsonPathValue, obj: Obj) -> Condition | None:
        name: str = obj["metadata"]["name"]
        if isinstance(leaf, ConditionStatus):
            make = _CONDITIONS.get(self._resource)
            awaited = make is not None and leaf.value.lower() == "true"
            return make(self._namespace, name, leaf.kind.lower()) if make and awaited else None
        field, value = leaf.status_field, "1" if leaf.value is None else leaf.value.strip()
        count = _COUNTS.get(self._resource)
        if count is None or not field or not value.isdecimal() or value == "0":
            return None
        return count(self._namespace, obj, field, int(value))


def _iterate_required(test: ObjectPredicate) -> Iterator[ConditionStatus | JsonPathValue]:
    """Yield the simple tests that an object must satisfy each."""
    if isinstance(test, AllOf):
        for part in test.parts:
            yield from _iterate_required(part)
    elif isinstance(test, HeldPredicate):
        yield from _iterate_required(test.test)
    elif isinstance(test, ConditionStatus | JsonPathValue):
        yield test


def _deployment_condition(namespace: str, name: str, kind: str) -> Condition | None:
    if kind != "available":
        return None
    return ConditionReason(namespace, name, "MinimumReplicasAvailable", "Available")


def _job_condition(namespace: str, name: str, kind: str) -> Condition | None:
    named = next(
        (condition_kind for condition_kind in CONDITION_KINDS if condition_kind.lower() == kind),
        None,
    )
    if named in ("Complete", "Failed"):
        return JobOutcome(namespace, name, (named,))
    if named is None:
        return None
    return JobStatusCondition(namespace, name, named, None, f"have condition {named}")


_CONDITIONS: dict[Resource, Callable[[str, str, str], Condition | None]] = {
    DEPLOYMENTS: _deployment_condition,
    JOBS: _job_condition,
}


def _deployment_count(namespace: str, obj: Obj, field: str, number: int) -> Condition | None:
    if field not in _READY:
        return None
    return AvailableDeployment(namespace, obj["metadata"]["name"], field, number)


def _replica_set_count(namespace: str, obj: Obj, field: str, number: int) -> Condition | None:
    name = obj["metadata"]["name"]
    return AvailableReplicas(namespace, name, number) if field in _READY else None


def _rc_count(namespace: str, obj: Obj, field: str, number: int) -> Condition | None:
    if field not in _READY:
        return None
    return RunningPods(REPLICATION_CONTROLLERS, namespace, obj["metadata"]["name"], number)


def _stateful_set_count(namespace: str, obj: Obj, field: str, number: int) -> Condition | None:
    if field not in (*_READY, "replicas"):
        return None
    return StatefulSetStatus(namespace, obj["metadata"]["name"], field, number)


def _daemon_set_count(namespace: str, obj: Obj, field: str, number: int) -> Condition | None:
    is_all = number == count_of(obj, "desiredNumberScheduled")
    if field not in ("numberReady", "numberAvailable") or not is_all:
        return None
    return DaemonSetStatus(namespace, obj["metadata"]["name"])


def _job_count(namespace: str, obj: Obj, field: str, number: int) -> Condition | None:
    name = obj["metadata"]["name"]
    if field == "succeeded":
        return JobPods(namespace, name, number, "Succeeded")
    return JobReadiness(namespace, name, number) if field == "ready" else None


_COUNTS: dict[Resource, Callable[[str, Obj, str, int], Condition | None]] = {
    DAEMON_SETS: _daemon_set_count,
    DEPLOYMENTS: _deployment_count,
    JOBS: _job_count,
    REPLICATION_CONTROLLERS: _rc_count,
    REPLICA_SETS: _replica_set_count,
    STATEFUL_SETS: _stateful_set_count,
}

"""Pods in controllers: predicates, ranking, creation and deletion.

Source: kube-controller-manager, controller_utils.go.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import Obj, clone, is_being_deleted, name_of, namespace_of
from pytest_kwait.simulator.request_info import internal_caller
from pytest_kwait.simulator.suspendable import run_concurrently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster


_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def safe_encode_string(digits: str) -> str:
    """Return digits in the alphabet of generated names.

    Source: apimachinery, pkg/util/rand/rand.go, `SafeEncodeString`.
    """
    return "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in digits)


def compute_template_hash(template: Obj, collisions: int = 0) -> str:
    """Return the hash of a pod template: equal for equal templates.

    Upstream hashes Go's memory layout, so that the value is opaque; only its alphabet is kept.

    Source: kube-controller-manager, controller_utils.go, `ComputeHash`.
    """
    value = 0x811C9DC5
    for byte in msgspec.json.encode([template, collisions], order="deterministic"):
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return safe_encode_string(str(value))


def _phase(pod: Obj) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def is_active(pod: Obj) -> bool:
    """Return whether the pod counts as a replica: neither finished nor being deleted."""
    return _phase(pod) not in ("Succeeded", "Failed") and not is_being_deleted(pod)


def is_terminating(pod: Obj) -> bool:
    """Return whether the pod is being deleted and has not finished yet."""
    return _phase(pod) not in ("Succeeded", "Failed") and is_being_deleted(pod)


def is_ready(pod: Obj) -> bool:
    """Return whether its Ready condition is True."""
    condition = get_condition(pod, "Ready")
    return condition is not None and condition["status"] == "True"


def seconds_until_available(pod: Obj, min_ready_seconds: float, now: float) -> float | None:
    """Return the seconds until a pod is available: 0 if available, None if not ready.

    Source: kubernetes pkg/api/v1/pod/util.go, `IsPodAvailable`.
    """
    condition = get_condition(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return None
    if min_ready_seconds <= 0:
        return 0.0
    since = condition.get("lastTransitionTime")
    if not since:
        return None
    return max(0.0, parse_time(since) + min_ready_seconds - now)


def _restarts(pod: Obj) -> int:
    status = pod.get("status") or {}
    containers = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]
    return max((container.get("restartCount", 0) for container in containers), default=0)


def _ready_since(pod: Obj) -> float:
    condition = get_condition(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return 0.0
    return (
        parse_time(condition["lastTransitionTime"]) if condition.get("lastTransitionTime") else 0.0
    )


def _deletion_cost(pod: Obj) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(
        "controller.kubernetes.io/pod-deletion-cost", "0"
    )
    try:
        return int(text)
    except ValueError:
        return 0


def rank_for_deletion(pods: Iterable[Obj], neighbours: Mapping[str, int]) -> list[Obj]:
    """Return the pods in the order in which a controller deletes them.

    Unassigned before assigned, Pending before Running, not ready before ready, lower deletion cost
    first, crowded nodes first, ready for a shorter time first, more restarts first, younger first.

    Args:
        pods: the candidates.
        neighbours: pods of the same controllers by node name.

    Source: kube-controller-manager, controller_utils.go, `ActivePodsWithRanks.Less`.
    """

    def order(pod: Obj) -> tuple[float, ...]:
        node = pod["spec"].get("nodeName") or ""
        return (
            1 if node else 0,
            {"Pending": 0, "Unknown": 1, "Running": 2}.get(_phase(pod), 2),
            1 if is_ready(pod) else 0,
            _deletion_cost(pod),
            -neighbours.get(node, 0),
            -_ready_since(pod),
            -_restarts(pod),
            -parse_time(pod["metadata"]["creationTimestamp"]),
        )

    return sorted(pods, key=order)


def make_pod_from_template(template: Obj, owner: Obj, api_version: str, kind: str) -> Obj:
    """Return a pod of the owner's template, named after the owner and controlled by it."""
    source = template.get("metadata") or {}
    # The API server truncates the prefix of generated names to keep within 63 characters.
    metadata: Obj = {"generateName": f"{name_of(owner)}-", "namespace": namespace_of(owner)}
    for field in ("labels", "annotations", "finalizers"):
        if source.get(field):
            metadata[field] = clone(source[field])
    metadata["ownerReferences"] = [make_controller_ref(owner, api_version, kind)]
    return {"metadata": metadata, "spec": clone(template["spec"])}


def slow_start_batch(count: int, initial: int, create: Callable[[int], None]) -> int:
    """Call `create(index)` `count` times in growing batches; end after a batch with an error.

    The calls of a batch wait for webhooks concurrently. Returns the number of successful calls.

    Raises:
        SlowStartError: a call failed.

    Source: kube-controller-manager, replica_set.go, `slowStartBatch`.
    """
    done = index = 0
    failures: list[StatusError] = []

    def create_at(number: int) -> None:
        nonlocal done
        try:
            create(number)
        except StatusError as error:
            failures.append(error)
        else:
            done += 1

    batch = min(count, initial)
    while batch > 0:
        numbers = range(index, index + batch)
        run_concurrently([partial(create_at, number) for number in numbers])
        index += batch
        if failures:
            raise SlowStartError(done, failures[0])
        batch = min(2 * batch, count - index)
    return done


class SlowStartError(Exception):
    """Some calls of a slow start failed.

    Args:
        done: the number of successful calls.
        cause: the first error.
    """

    def __init__(self, done: int, cause: StatusError) -> None:
        super().__init__(done, cause)
        self.done = done
        self.cause = cause


class PodControl:
    """Creates and deletes the pods of one kind of owner, with events.

    Args:
        api_version: of the owners.
        kind: of the owners.
    """

    def __init__(
        self, cluster: Cluster, recorder: EventRecorder, api_version: str, kind: str
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._kind = (api_version, kind)
        self._made: tuple[Obj, Obj] = ({}, {})
        """The last created pod, as given and as decoded."""

    def create(self, pod: Obj, owner: Obj) -> None:
        """Create `pod` for `owner`.

        Raises:
            StatusError: the API server refused; recorded as a FailedCreate event unless the
                namespace is being deleted.
        """
        try:
            if self._made[0] is not pod:
                self._made = (
                    pod,
                    self._cluster.decode(self._cluster.kinds["pods"], pod, internal_caller()),
                )
            made = clone(self._made[1])
            created = self._cluster.create("pods", made, namespace_of(owner), decoded=True)
        except StatusError as error:
            if not is_namespace_terminating(error):
                message = f"Error creating: {error.message}"
                self._recorder.event(owner, self._kind, WARNING, "FailedCreate", message)
            raise
        message = f"Created pod: {name_of(created)}"
        self._recorder.event(owner, self._kind, NORMAL, "SuccessfulCreate", message)

    def delete(self, pod: Obj, owner: Obj) -> None:
        """Delete `pod`; an absent one is fine.

        Raises:
            StatusError: the API server refused; recorded as a FailedDelete event.
        """
        name = name_of(pod)
        try:
            self._cluster.delete("pods", name, namespace_of(pod))
        except StatusError as error:
            if error.reason == "NotFound":
                return
            message = f"Error deleting: {error.message}"
            self._recorder.event(owner, self._kind, WARNING, "FailedDelete", message)
            raise
        message = f"Deleted pod: {name}"
        self._recorder.event(owner, self._kind, NORMAL, "SuccessfulDelete", message)


def is_namespace_terminating(error: StatusError) -> bool:
    """Return whether the refusal is due to a terminating namespace."""
    causes: Sequence[Obj] = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)

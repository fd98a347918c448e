"""One look at one StatefulSet: fill, heal, scale down, update; and the status of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.conditions import is_being_deleted
from pytest_kwait.simulator.controllers.pod_control import (
    SlowStartError,
    seconds_until_available,
    slow_start_batch,
)
from pytest_kwait.simulator.controllers.statefulset.stateful_pod_control import (
    KIND,
    add_identity_labels,
    calculate_counts,
    get_ordinal,
    get_phase,
    get_pod_revision,
    get_replicas,
    get_start_ordinal,
    has_identity,
    has_storage,
    is_running_and_ready,
    is_unavailable,
    make_claims,
    make_versioned_pod,
)
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.statefulset.claims import ClaimControl
    from pytest_kwait.simulator.controllers.statefulset.revisions import SetRevisions
    from pytest_kwait.simulator.event_recorder import EventRecorder

__all__ = ["StatefulSetControl"]


class StatefulSetControl:
    """What is to be done for a set now.

    Args:
        api: the cluster.
        recorder: tells what was done.
        claims: makes claims.
        stateful_set: the set.
        versions: its revisions.
        pods: its pods.

    Source: kube-controller-manager, statefulset/stateful_set_control.go, `updateStatefulSet`.
    """

    def __init__(
        self,
        api: SimulatedCluster,
        recorder: EventRecorder,
        claims: ClaimControl,
        stateful_set: Obj,
        versions: SetRevisions,
        pods: list[Obj],
    ) -> None:
        self._api = api
        self._recorder = recorder
        self._claims = claims
        self._set = stateful_set
        self._versions = versions
        self._pods = pods
        spec = stateful_set["spec"]
        self._ordered: bool = spec.get("podManagementPolicy") != "Parallel"
        self._min_ready = spec.get("minReadySeconds") or 0
        self._now = api.clock.time()
        self._first_unavailable: Obj | None = None
        self.stale = False
        """Whether a pod waits for an earlier one's claim to go."""

    def run(self) -> tuple[Obj, StatusError | None]:
        """Do it; returns the status, and what was refused."""
        replicas, condemned = self._members()
        status = self._status(self._pods)
        if is_being_deleted(self._set):
            return status, None
        for pod in [*replicas, *reversed(condemned)]:
            if is_unavailable(pod, self._min_ready, self._now):
                self._first_unavailable = pod
                break
        steps = (
            (replicas, self._keep),
            (condemned, self._own),
            (condemned, self._delete_condemned),
        )
        try:
            done = all(not self._each(pods, step) for pods, step in steps)
        except StatusError as error:
            return self._status([*replicas, *condemned]), error
        status = self._status([*replicas, *condemned])
        strategy = (self._set["spec"].get("updateStrategy") or {}).get("type")
        if not done or strategy == "OnDelete":
            return status, None
        try:
            if self._update(replicas):
                status["currentReplicas"] -= 1
        except StatusError as error:
            return status, error
        return status, None

    def _members(self) -> tuple[list[Obj], list[Obj]]:
        """Return the pods that are to be, the missing ones as they would be made, and the rest."""
        first, count = get_start_ordinal(self._set), get_replicas(self._set)
        found = {get_ordinal(pod): pod for pod in self._pods}
        versions = self._versions
        replicas = []
        for number in range(first, first + count):
            pod = found.pop(number, None)
            if pod is None:
                pod = make_versioned_pod(self._set, versions.current, versions.update, number)
            replicas.append(pod)
        condemned = sorted(
            (pod for number, pod in found.items() if number >= 0), key=get_ordinal, reverse=True
        )
        return replicas, condemned

    def _status(self, pods: list[Obj]) -> Obj:
        current, update = name_of(self._versions.current), name_of(self._versions.update)
        return {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": self._versions.collisions,
            **calculate_counts(pods, self._min_ready, current, update, self._now),
        }

    def _each(self, pods: list[Obj], step: Callable[[Obj], bool]) -> bool:
        """Take a step for each pod; in order, the first that has to wait is the last."""
        if self._ordered:
            return any(step(pod) for pod in pods)

        def take(index: int) -> None:
            step(pods[index])

        try:
            slow_start_batch(len(pods), 1, take)
        except SlowStartError as error:
            raise error.cause from None
        return False

    def _keep(self, pod: Obj) -> bool:
        """Make a pod or put it right; whether what follows has to wait for it."""
        if get_phase(pod) in ("Failed", "Succeeded"):
            if not is_being_deleted(pod):
                self._delete(pod)
            return True
        if not get_phase(pod):
            if self._claims.is_stale(self._set, pod):
                self.stale = True
                return True
            self._create(pod)
            return self._ordered
        if get_phase(pod) == "Pending":
            self._claims.make(self._set, pod)
            self._own(pod)
        if self._ordered and (
            is_being_deleted(pod)
            or not is_running_and_ready(pod)
            or seconds_until_available(pod, self._min_ready, self._now) != 0
        ):
            return True
        right = has_identity(self._set, pod) and has_storage(self._set, pod)
        if not right or not self._claims.are_owned(self._set, pod):
            self._repair_pod(pod)
        return False

    def _own(self, pod: Obj) -> bool:
        if make_claims(self._set, pod):
            self._claims.own(self._set, pod)
        return False

    def _delete_condemned(self, pod: Obj) -> bool:
        """Remove a pod that is too many; whether what follows has to wait for it."""
        if is_being_deleted(pod):
            return self._ordered
        ready = (
            is_running_and_ready(pod)
            and seconds_until_available(pod, self._min_ready, self._now) == 0
        )
        if self._ordered and not ready and pod is not self._first_unavailable:
            return True
        self._delete(pod)
        return True

    def _update(self, replicas: list[Obj]) -> bool:
        """Remove the last pod of an old revision, once those after it are there again."""
        rolling = (self._set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        for pod in reversed(replicas[rolling.get("partition") or 0 :]):
            if get_pod_revision(pod) != name_of(self._versions.update) and not is_being_deleted(
                pod
            ):
                self._delete(pod)
                return True
            if is_unavailable(pod, self._min_ready, self._now):
                return False
        return False

    def _create(self, pod: Obj) -> None:
        try:
            self._claims.make(self._set, pod)
            self._api.create("pods", pod, namespace_of(self._set))
        except StatusError as error:
            if error.reason != "AlreadyExists":
                self._tell("create", pod, error)
            raise
        self._own(pod)
        self._tell("create", pod)

    def _repair_pod(self, pod: Obj) -> None:
        try:
            self._claims.make(self._set, pod)
            self._own(pod)
            self._api.update("pods", add_identity_labels(pod))
        except StatusError as error:
            self._tell("update", pod, error)
            raise
        self._tell("update", pod)

    def _delete(self, pod: Obj) -> None:
        try:
            self._api.delete("pods", name_of(pod), namespace_of(pod))
        except StatusError as error:
            if error.reason != "NotFound":
                self._tell("delete", pod, error)
                raise
        self._tell("delete", pod)

    def _tell(self, verb: str, pod: Obj, error: StatusError | None = None) -> None:
        title = verb.capitalize()
        message = f"{title} Pod {name_of(pod)} in StatefulSet {name_of(self._set)} "
        if error is None:
            message += "successful"
            self._recorder.event(self._set, KIND, NORMAL, f"Successful{title}", message)
        else:
            message += f"failed error: {error.message}"
            self._recorder.event(self._set, KIND, WARNING, f"Failed{title}", message)

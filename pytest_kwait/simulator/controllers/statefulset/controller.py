"""The StatefulSet controller.

In reading order: the current and the update revision, one sync (create, replace, scale down,
update, status), the controller.

Source: kube-controller-manager, statefulset/{stateful_set,stateful_set_control}.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_history import (
    REVISIONS,
    compute_revision_hash,
    list_surplus_revisions,
    make_template_patch,
    next_revision_number,
    sort_revisions,
    update_revision_number,
)
from pytest_kwait.simulator.controllers.controller_refs import (
    PodOwnerIndex,
    make_controller_ref,
    split_key,
)
from pytest_kwait.simulator.controllers.pod_control import (
    SlowStartError,
    seconds_until_available,
    slow_start_batch,
)
from pytest_kwait.simulator.controllers.statefulset.stateful_pod_control import (
    KIND,
    ClaimControl,
    add_identity_labels,
    calculate_counts,
    get_ordinal,
    get_phase,
    get_pod_revision,
    get_replicas,
    get_start_ordinal,
    has_identity,
    has_storage,
    is_member_of,
    is_running_and_ready,
    is_unavailable,
    make_claims,
    make_versioned_pod,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import Obj, is_being_deleted, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

__all__ = ["Revisions", "SetRevisions", "StatefulSetControl", "StatefulSetController"]

_HASH = "controller.kubernetes.io/hash"
_MAX_NAME_LENGTH = 223


@dataclass(frozen=True, slots=True)
class SetRevisions:
    """The revisions of a set.

    Args:
        current: the revision before the update.
        update: the revision of the present template.
        collisions: the number of name collisions.
        known: all existing revisions.
    """

    current: Obj
    update: Obj
    collisions: int
    known: list[Obj]


class Revisions:
    """Finds or creates the revisions of a set.

    Args:
        revisions: its ControllerRevisions by owner.

    Source: kube-controller-manager, statefulset/stateful_set_control.go,
    `getStatefulSetRevisions`, `truncateHistory`.
    """

    def __init__(self, api: Cluster, revisions: ControllerRefManager) -> None:
        self._api = api
        self._revisions = revisions

    def of(self, stateful_set: Obj) -> SetRevisions:
        """Return the revisions of a set, including that of its present template."""
        status = stateful_set.get("status") or {}
        known = sort_revisions(
            self._revisions.claim(stateful_set, *KIND, stateful_set["spec"]["selector"])
        )
        data, collisions = make_template_patch(stateful_set["spec"]["template"]), 0
        collisions = status.get("collisionCount") or 0
        same = [one for one in known if one["data"] == data]
        if same and known[-1] is same[-1]:
            update = known[-1]
        elif same:
            update = update_revision_number(self._api, same[-1], next_revision_number(known))
        else:
            update, collisions = self._create(
                stateful_set, data, next_revision_number(known), collisions
            )
        named = [one for one in known if name_of(one) == status.get("currentRevision")]
        return SetRevisions(named[0] if named else update, update, collisions, known)

    def _create(
        self, stateful_set: Obj, data: Obj, number: int, collisions: int
    ) -> tuple[Obj, int]:
        metadata, namespace = stateful_set["metadata"], namespace_of(stateful_set)
        template = stateful_set["spec"]["template"]
        while True:
            digest = compute_revision_hash(data, collisions)
            name = f"{name_of(stateful_set)[:_MAX_NAME_LENGTH]}-{digest}"
            labels = (template.get("metadata") or {}).get("labels") or {}
            revision = {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {**labels, _HASH: digest},
                    "annotations": dict(metadata.get("annotations") or {}),
                    "ownerReferences": [make_controller_ref(stateful_set, *KIND)],
                },
                "data": data,
                "revision": number,
            }
            try:
                return self._api.create(REVISIONS, revision, namespace), collisions
            except StatusError as error:
                found = self._api.find(REVISIONS, name, namespace)
                if error.reason != "AlreadyExists" or found is None:
                    raise
                if found["data"] == data:
                    return found, collisions
                collisions += 1

    def truncate(self, stateful_set: Obj, versions: SetRevisions, pods: Iterable[Obj]) -> None:
        """Delete the oldest revisions beyond the limit that are not in use."""
        limit = stateful_set["spec"].get("revisionHistoryLimit", 10)
        if len(versions.known) <= limit:
            return
        live = {name_of(versions.current), name_of(versions.update), *map(get_pod_revision, pods)}
        for revision in list_surplus_revisions(versions.known, live, limit):
            try:
                self._api.delete(REVISIONS, name_of(revision), namespace_of(revision))
            except StatusError as error:
                if error.reason != "NotFound":
                    raise


class StatefulSetControl:
    """One sync of a set's pods.

    Args:
        claims: creates claims.
        stateful_set: the set.
        versions: its revisions.

    Source: kube-controller-manager, statefulset/stateful_set_control.go, `updateStatefulSet`.
    """

    def __init__(
        self,
        api: Cluster,
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
        """True if a pod waits for the deletion of an earlier one's claim."""

    def run(self) -> tuple[Obj, StatusError | None]:
        """Sync the pods; return the status and the first error."""
        replicas, condemned = self._list_replicas()
        status = self._status(self._pods)
        if is_being_deleted(self._set):
            return status, None
        for pod in [*replicas, *reversed(condemned)]:
            if is_unavailable(pod, self._min_ready, self._now):
                self._first_unavailable = pod
                break
        steps = (
            (replicas, self._ensure_pod),
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

    def _list_replicas(self) -> tuple[list[Obj], list[Obj]]:
        """Return the replicas, with missing ones in the form to create, and the condemned pods."""
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
        """Run a step for each pod; if ordered, stop at the first that waits."""
        if self._ordered:
            return any(step(pod) for pod in pods)

        def take(index: int) -> None:
            step(pods[index])

        try:
            slow_start_batch(len(pods), 1, take)
        except SlowStartError as error:
            raise error.cause from None
        return False

    def _ensure_pod(self, pod: Obj) -> bool:
        """Create or repair a pod; return whether the following ones have to wait for it."""
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
        """Delete a condemned pod; return whether the following ones have to wait for it."""
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
        """Delete the last pod of an old revision once those after it are healthy."""
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
                self._record_event("create", pod, error)
            raise
        self._own(pod)
        self._record_event("create", pod)

    def _repair_pod(self, pod: Obj) -> None:
        try:
            self._claims.make(self._set, pod)
            self._own(pod)
            self._api.update("pods", add_identity_labels(pod))
        except StatusError as error:
            self._record_event("update", pod, error)
            raise
        self._record_event("update", pod)

    def _delete(self, pod: Obj) -> None:
        try:
            self._api.delete("pods", name_of(pod), namespace_of(pod))
        except StatusError as error:
            if error.reason != "NotFound":
                self._record_event("delete", pod, error)
                raise
        self._record_event("delete", pod)

    def _record_event(self, verb: str, pod: Obj, error: StatusError | None = None) -> None:
        title = verb.capitalize()
        message = f"{title} Pod {name_of(pod)} in StatefulSet {name_of(self._set)} "
        if error is None:
            message += "successful"
            self._recorder.event(self._set, KIND, NORMAL, f"Successful{title}", message)
        else:
            message += f"failed error: {error.message}"
            self._recorder.event(self._set, KIND, WARNING, f"Failed{title}", message)


_SETS = "statefulsets.apps"
_NAME = "statefulset-controller"
# Seconds until a pod whose claim is being deleted is synced again.
_STALE_CLAIM = 1.0
# Seconds of delay per pod, so that the cost of a pod's change does not grow with their number.
_PAUSE_PER_POD = 0.001
_OPTIONAL = ("currentReplicas", "readyReplicas", "updatedReplicas")


class StatefulSetController:
    """Keeps the pods of each StatefulSet.

    Args:
        revisions: the cluster's ControllerRevisions by owner.
    """

    def __init__(
        self, api: Cluster, pods: ControllerRefManager, revisions: ControllerRefManager
    ) -> None:
        self._api = api
        self._pods = pods
        self._recorder = EventRecorder(api, _NAME)
        self._claims = ClaimControl(api, self._recorder)
        self._revisions = Revisions(api, revisions)
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, _NAME)
        PodOwnerIndex(api, _SETS, pods, self._queue, _PAUSE_PER_POD)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        stateful_set = self._api.find(_SETS, name, namespace)
        if stateful_set is None:
            return
        spec = stateful_set["spec"]
        pods = self._pods.claim(
            stateful_set, *KIND, spec["selector"], only=lambda pod: is_member_of(stateful_set, pod)
        )
        versions = self._revisions.of(stateful_set)
        rollout = StatefulSetControl(
            self._api, self._recorder, self._claims, stateful_set, versions, pods
        )
        status, failure = rollout.run()
        self._write(stateful_set, status)
        self._revisions.truncate(stateful_set, versions, pods)
        if failure is not None:
            raise failure
        if rollout.stale:
            self._queue.add_after(key, _STALE_CLAIM)
        now, min_ready = self._api.clock.time(), spec.get("minReadySeconds") or 0
        waits = [wait for pod in pods if (wait := seconds_until_available(pod, min_ready, now))]
        if waits:
            self._queue.add_after(key, min(waits), scaled=False)

    def _write(self, stateful_set: Obj, status: Obj) -> None:
        """Update the status; a finished rolling update leaves one revision.

        Source: statefulset/stateful_set_utils.go, `completeRollingUpdate`, `inconsistentStatus`.
        """
        wanted = get_replicas(stateful_set)
        rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"
        numbers = {status[one] for one in ("updatedReplicas", "readyReplicas", "replicas")}
        if rolling and numbers == {wanted}:
            status["currentReplicas"] = wanted
            status["currentRevision"] = status["updateRevision"]
        last = self._api.find(_SETS, name_of(stateful_set), namespace_of(stateful_set))
        if last is None or uid_of(last) != uid_of(stateful_set):
            return
        for name in _OPTIONAL:
            if not status[name]:
                del status[name]
        before = dict(last.get("status") or {})
        conditions = before.pop("conditions", None)
        if before == status:
            return
        if conditions:
            status["conditions"] = conditions
        self._api.update_status(_SETS, {**last, "status": status})

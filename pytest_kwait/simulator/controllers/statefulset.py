"""The StatefulSet controller.

In reading order: pods, their identity and their claims with owners; the current and the update
revision; one sync (create, replace, scale down, update, status); the controller.

Source: kube-controller-manager,
statefulset/{stateful_set,stateful_set_control,stateful_pod_control,stateful_set_utils}.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_history import (
    ControllerHistory,
    find_equal_revisions,
    make_template_patch,
    next_revision_number,
)
from pytest_kwait.simulator.controllers.controller_refs import OwnerIndex, make_controller_ref
from pytest_kwait.simulator.controllers.pod_control import (
    SlowStartError,
    is_ready,
    make_pod_from_template,
    seconds_until_available,
    slow_start_batch,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

KIND = ("apps/v1", "StatefulSet")
HASH_LABEL = "controller-revision-hash"
_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_MEMBER = re.compile(r"(.*)-([0-9]+)")
_CLAIMS = "persistentvolumeclaims"
_POD = ("v1", "Pod")

_SETS = "statefulsets.apps"
_NAME = "statefulset-controller"
# Seconds until a pod whose claim is being deleted is synced again.
_STALE_CLAIM = 1.0
# Seconds of delay per pod, so that the cost of a pod's change does not grow with their number.
_PAUSE_PER_POD = 0.001
_OPTIONAL = ("currentReplicas", "readyReplicas", "updatedReplicas")


def get_replicas(stateful_set: Obj) -> int:
    """Return the desired number of pods."""
    replicas: int = stateful_set["spec"].get("replicas", 1)
    return replicas


def get_start_ordinal(stateful_set: Obj) -> int:
    """Return the number of its first pod."""
    start: int = (stateful_set["spec"].get("ordinals") or {}).get("start", 0)
    return start


def get_ordinal(pod: Obj) -> int:
    """Return the number in the pod's name; -1 without one."""
    match = _MEMBER.fullmatch(name_of(pod))
    number = int(match[2]) if match else -1
    return number if number < 2**31 else -1


def is_member_of(stateful_set: Obj, pod: Obj) -> bool:
    """Return whether the pod's name belongs to the set."""
    match = _MEMBER.fullmatch(name_of(pod))
    return match is not None and match[1] == name_of(stateful_set)


def get_phase(pod: Obj) -> str:
    """Return the pod's phase; empty for a pod that is not created yet."""
    return str((pod.get("status") or {}).get("phase") or "")


def get_pod_revision(pod: Obj) -> str:
    """Return the name of the pod's revision."""
    return labels_of(pod).get(HASH_LABEL, "")


def is_running_and_ready(pod: Obj) -> bool:
    """Return whether the pod is running and ready."""
    return get_phase(pod) == "Running" and is_ready(pod)


def is_unavailable(pod: Obj, min_ready: float, now: float) -> bool:
    """Return whether the pod is terminating, or not ready for long enough."""
    return seconds_until_available(pod, min_ready, now) != 0 or is_being_deleted(pod)


def make_claim_name(stateful_set: Obj, template: Obj, ordinal: int) -> str:
    """Return the name of a pod's claim."""
    return f"{name_of(template)}-{name_of(stateful_set)}-{ordinal}"


def make_claims(stateful_set: Obj, pod: Obj) -> list[Obj]:
    """Return the claims of the pod in the form in which they are created."""
    spec, claims = stateful_set["spec"], []
    for template in spec.get("volumeClaimTemplates") or ():
        claim = clone(template)
        metadata = claim["metadata"]
        metadata["name"] = make_claim_name(stateful_set, template, get_ordinal(pod))
        metadata["namespace"] = namespace_of(stateful_set)
        chosen = (spec.get("selector") or {}).get("matchLabels") or {}
        labels = {**(metadata.get("labels") or {}), **chosen}
        if labels:
            metadata["labels"] = labels
        claim.pop("status", None)
        claims.append(claim)
    return claims


def has_identity(stateful_set: Obj, pod: Obj) -> bool:
    """Return whether name and label are those that the set assigns."""
    return is_member_of(stateful_set, pod) and labels_of(pod).get(_NAME_LABEL) == name_of(pod)


def has_storage(stateful_set: Obj, pod: Obj) -> bool:
    """Return whether the pod mounts its claims."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        claim = (volumes.get(name_of(template)) or {}).get("persistentVolumeClaim") or {}
        if claim.get("claimName") != make_claim_name(stateful_set, template, get_ordinal(pod)):
            return False
    return True


def add_identity_labels(pod: Obj) -> Obj:
    """Return the pod with the labels of its name."""
    pod = clone(pod)
    labels = pod["metadata"].setdefault("labels", {})
    labels[_NAME_LABEL] = name_of(pod)
    labels[_INDEX_LABEL] = str(get_ordinal(pod))
    return pod


def _make_pod(stateful_set: Obj, template: Obj, ordinal: int, revision: str) -> Obj:
    pod = make_pod_from_template(template, stateful_set, *KIND)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["name"] = f"{name_of(stateful_set)}-{ordinal}"
    pod = add_identity_labels(pod)
    spec = pod["spec"]
    spec["hostname"] = name_of(pod)
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = {
        name_of(claim_template): make_claim_name(stateful_set, claim_template, ordinal)
        for claim_template in stateful_set["spec"].get("volumeClaimTemplates") or ()
    }
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in claims.items()
    ]
    volumes += [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
    if volumes:
        spec["volumes"] = volumes
    pod["metadata"]["labels"][HASH_LABEL] = revision
    return pod


def make_versioned_pod(stateful_set: Obj, current: Obj, update: Obj, ordinal: int) -> Obj:
    """Return the pod with an ordinal, of the revision that it should have now.

    Args:
        current: the revision before the update.
        update: the revision of the update.
        ordinal: the pod's number.
    """
    spec = stateful_set["spec"]
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        old = get_start_ordinal(stateful_set) + (rolling.get("partition") or 0)
    elif strategy.get("type") == "RollingUpdate":
        status = stateful_set.get("status") or {}
        old = get_start_ordinal(stateful_set) + status.get("currentReplicas", 0)
    else:
        old = -1
    revision = current if ordinal < old else update
    template = {**revision["data"]["spec"]["template"]}
    template.pop("$patch", None)
    return _make_pod(stateful_set, template, ordinal, name_of(revision))


def calculate_counts(
    pods: Iterable[Obj], min_ready: float, current: str, update: str, now: float
) -> dict[str, int]:
    """Return the counts of the status.

    Source: kube-controller-manager, statefulset/stateful_set_control.go, `computeReplicaStatus`.
    """
    counts = dict.fromkeys(
        (
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "currentReplicas",
            "updatedReplicas",
        ),
        0,
    )
    for pod in pods:
        made = bool(get_phase(pod))
        counts["replicas"] += made
        if is_running_and_ready(pod):
            counts["readyReplicas"] += 1
            counts["availableReplicas"] += seconds_until_available(pod, min_ready, now) == 0
        if made and not is_being_deleted(pod):
            counts["currentReplicas"] += get_pod_revision(pod) == current
            counts["updatedReplicas"] += get_pod_revision(pod) == update
    return counts


def _policy(stateful_set: Obj) -> tuple[str, str]:
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenDeleted") or "Retain", policy.get("whenScaled") or "Retain"


def _is_condemned(stateful_set: Obj, pod: Obj) -> bool:
    index = get_ordinal(pod) - get_start_ordinal(stateful_set)
    return not 0 <= index < get_replicas(stateful_set)


def _is_reference_to(reference: Obj, obj: Obj, kind: tuple[str, str]) -> bool:
    named = (reference.get("apiVersion"), reference.get("kind"), reference.get("name"))
    return named == (*kind, name_of(obj))


def _is_stale(claim: Obj, obj: Obj, kind: tuple[str, str]) -> bool:
    """Return whether the claim is owned by an earlier object of that name."""
    for reference in claim["metadata"].get("ownerReferences") or ():
        if _is_reference_to(reference, obj, kind):
            return bool(reference["uid"] != uid_of(obj))
    return False


def _has_other_controller(claim: Obj, stateful_set: Obj, pod: Obj) -> bool:
    """Return whether another controller owns the claim, so that a policy cannot be applied."""
    if _policy(stateful_set) == ("Retain", "Retain"):
        return False
    for reference in claim["metadata"].get("ownerReferences") or ():
        if _is_reference_to(reference, stateful_set, KIND):
            if reference["uid"] != uid_of(stateful_set):
                return True
        elif _is_reference_to(reference, pod, _POD):
            if reference["uid"] != uid_of(pod):
                return True
        elif reference.get("controller"):
            return True
    return False


def calculate_owners(claim: Obj, stateful_set: Obj, pod: Obj) -> list[Obj] | None:
    """Return the owner references that the claim should have; None if it has them.

    With `whenScaled: Delete` a claim of a condemned pod belongs to the pod. Otherwise, with
    `whenDeleted: Delete`, it belongs to the set.
    """
    if _is_stale(claim, stateful_set, KIND) or _is_stale(claim, pod, _POD):
        return None
    owner_references: list[Obj] = claim["metadata"].get("ownerReferences") or []
    other_references = [
        reference
        for reference in owner_references
        if not _is_reference_to(reference, stateful_set, KIND)
        and not _is_reference_to(reference, pod, _POD)
    ]
    if not _has_other_controller(claim, stateful_set, pod):
        deleted, scaled = _policy(stateful_set)
        if scaled == "Delete" and _is_condemned(stateful_set, pod):
            if uid_of(pod):
                other_references.append(make_controller_ref(pod, *_POD))
        elif deleted == "Delete":
            other_references.append(make_controller_ref(stateful_set, *KIND))
    owners = [
        (reference["uid"], bool(reference.get("controller"))) for reference in other_references
    ]
    if owners == [
        (reference["uid"], bool(reference.get("controller"))) for reference in owner_references
    ]:
        return None
    return other_references


class ClaimControl:
    """Creates claims and maintains their owner references."""

    def __init__(self, cluster: Cluster, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder

    def is_stale(self, stateful_set: Obj, pod: Obj) -> bool:
        """Return whether a claim belongs to a deleted pod and is about to be deleted."""
        if _policy(stateful_set)[1] == "Retain":
            return False
        return any(
            claim is not None and _is_stale(claim, pod, _POD)
            for claim in map(self._find, make_claims(stateful_set, pod))
        )

    def _find(self, claim: Obj) -> Obj | None:
        return self._cluster.find(_CLAIMS, name_of(claim), namespace_of(claim))

    def make(self, stateful_set: Obj, pod: Obj) -> None:
        """Create the missing claims of the pod.

        Raises:
            StatusError: the API server refused one, or one is being deleted.
        """
        refusal = None
        for claim in make_claims(stateful_set, pod):
            name, stored_claim = name_of(claim), self._find(claim)
            if stored_claim is not None:
                if is_being_deleted(stored_claim):
                    refusal = refusal or _make_claim_error(f"pvc {name} is being deleted")
                continue
            about = f"Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)}"
            try:
                self._cluster.create(_CLAIMS, claim, namespace_of(claim))
            except StatusError as error:
                message = f"Create Claim {name} for {about} failed error: {error.message}"
                self._recorder.event(stateful_set, KIND, WARNING, "FailedCreate", message)
                refusal = refusal or _make_claim_error(
                    f"failed to create PVC {name}: {error.message}", error
                )
            else:
                message = f"Create Claim {name} {about} success"
                self._recorder.event(stateful_set, KIND, NORMAL, "SuccessfulCreate", message)
        if refusal is not None:
            raise refusal

    def are_owned(self, stateful_set: Obj, pod: Obj) -> bool:
        """Return whether the claims have the owners required by the policy."""
        return all(
            claim is None or calculate_owners(claim, stateful_set, pod) is None
            for claim in map(self._find, make_claims(stateful_set, pod))
        )

    def own(self, stateful_set: Obj, pod: Obj) -> None:
        """Set the owners of the claims as required by the policy."""
        for claim in make_claims(stateful_set, pod):
            stored_claim = self._find(claim)
            if stored_claim is None:
                continue
            if _has_other_controller(stored_claim, stateful_set, pod):
                message = (
                    f"PersistentVolumeClaim {name_of(claim)} has a conflicting OwnerReference that"
                    " acts as a manging controller, the retention policy is ignored for this claim"
                )
                self._recorder.event(stateful_set, KIND, WARNING, "ConflictingController", message)
            owners = calculate_owners(stored_claim, stateful_set, pod)
            if owners is None:
                continue
            metadata = {**stored_claim["metadata"], "ownerReferences": owners}
            if not owners:
                del metadata["ownerReferences"]
            self._cluster.update(_CLAIMS, {**stored_claim, "metadata": metadata})


def _make_claim_error(message: str, cause: StatusError | None = None) -> StatusError:
    if cause is None:
        return StatusError(409, "Conflict", message)
    return StatusError(cause.code, cause.reason, message, cause.details)


@dataclass(frozen=True, slots=True)
class StatefulSetRevisions:
    """The revisions of a set.

    Args:
        current: the revision before the update.
        update: the revision of the present template.
        collisions: the number of name collisions.
        existing: all that existed before.
    """

    current: Obj
    update: Obj
    collisions: int
    existing: list[Obj]


def get_revisions(history: ControllerHistory, stateful_set: Obj) -> StatefulSetRevisions:
    """Return the revisions of a set; that of its present template is found or created.

    Source: kube-controller-manager, statefulset/stateful_set_control.go,
    `getStatefulSetRevisions`.
    """
    status = stateful_set.get("status") or {}
    collisions = status.get("collisionCount") or 0
    existing = history.list_revisions(stateful_set)
    number = next_revision_number(existing)
    equal = find_equal_revisions(existing, make_template_patch(stateful_set["spec"]["template"]))
    if equal and existing[-1] is equal[-1]:
        update = existing[-1]
    elif equal:
        update = history.update_revision(equal[-1], number)
    else:
        update, collisions = history.create_with_unique_name(stateful_set, number, collisions)
    current = update
    for revision in existing:
        if name_of(revision) == status.get("currentRevision"):
            current = revision
    return StatefulSetRevisions(current, update, collisions, existing)


def truncate_history(
    history: ControllerHistory,
    stateful_set: Obj,
    revisions: StatefulSetRevisions,
    pods: Iterable[Obj],
) -> None:
    """Delete the oldest revisions beyond the limit that are not in use.

    Source: kube-controller-manager, statefulset/stateful_set_control.go, `truncateHistory`.
    """
    limit = stateful_set["spec"].get("revisionHistoryLimit", 10)
    if len(revisions.existing) <= limit:
        return
    live = {name_of(revisions.current), name_of(revisions.update), *map(get_pod_revision, pods)}
    unused = sum(name_of(revision) not in live for revision in revisions.existing)
    history.truncate(revisions.existing, unused - limit, lambda revision: name_of(revision) in live)


class StatefulSetControl:
    """One sync of a set's pods.

    Args:
        claims: creates claims.

    Source: kube-controller-manager, statefulset/stateful_set_control.go, `updateStatefulSet`.
    """

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventRecorder,
        claims: ClaimControl,
        stateful_set: Obj,
        revisions: StatefulSetRevisions,
        pods: list[Obj],
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._claims = claims
        self._set = stateful_set
        self._revisions = revisions
        self._pods = pods
        spec = stateful_set["spec"]
        self._ordered: bool = spec.get("podManagementPolicy") != "Parallel"
        self._min_ready = spec.get("minReadySeconds") or 0
        self._now = cluster.clock.time()
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
        pods_by_ordinal = {get_ordinal(pod): pod for pod in self._pods}
        revisions = self._revisions
        replicas = []
        for number in range(first, first + count):
            pod = pods_by_ordinal.pop(number, None)
            if pod is None:
                pod = make_versioned_pod(self._set, revisions.current, revisions.update, number)
            replicas.append(pod)
        condemned = sorted(
            (pod for number, pod in pods_by_ordinal.items() if number >= 0),
            key=get_ordinal,
            reverse=True,
        )
        return replicas, condemned

    def _status(self, pods: list[Obj]) -> Obj:
        current, update = name_of(self._revisions.current), name_of(self._revisions.update)
        return {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": self._revisions.collisions,
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
            if get_pod_revision(pod) != name_of(self._revisions.update) and not is_being_deleted(
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
            self._cluster.create("pods", pod, namespace_of(self._set))
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
            self._cluster.update("pods", add_identity_labels(pod))
        except StatusError as error:
            self._record_event("update", pod, error)
            raise
        self._record_event("update", pod)

    def _delete(self, pod: Obj) -> None:
        try:
            self._cluster.delete("pods", name_of(pod), namespace_of(pod))
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


class StatefulSetController:
    """Keeps the pods of each StatefulSet.

    Args:
        revisions: the cluster's ControllerRevisions by owner.
    """

    def __init__(
        self, cluster: Cluster, pods: ControllerRefManager, revisions: ControllerRefManager
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._recorder = EventRecorder(cluster, _NAME)
        self._claims = ClaimControl(cluster, self._recorder)
        self._history = ControllerHistory(cluster, revisions, KIND)
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, _NAME)
        OwnerIndex(cluster, _SETS, pods, self._queue, _PAUSE_PER_POD)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        stateful_set = self._cluster.find(_SETS, name, namespace)
        if stateful_set is None:
            return
        spec = stateful_set["spec"]
        pods = self._pods.claim(
            stateful_set, *KIND, spec["selector"], only=lambda pod: is_member_of(stateful_set, pod)
        )
        revisions = get_revisions(self._history, stateful_set)
        rollout = StatefulSetControl(
            self._cluster, self._recorder, self._claims, stateful_set, revisions, pods
        )
        status, failure = rollout.run()
        self._write(stateful_set, status)
        truncate_history(self._history, stateful_set, revisions, pods)
        if failure is not None:
            raise failure
        if rollout.stale:
            self._queue.add_after(key, _STALE_CLAIM)
        now, min_ready = self._cluster.clock.time(), spec.get("minReadySeconds") or 0
        waits = [wait for pod in pods if (wait := seconds_until_available(pod, min_ready, now))]
        if waits:
            self._queue.add_after(key, min(waits), scaled=False)

    def _write(self, stateful_set: Obj, status: Obj) -> None:
        """Update the status; a finished rolling update leaves one revision.

        Source: statefulset/stateful_set_utils.go, `completeRollingUpdate`, `inconsistentStatus`.
        """
        replicas = get_replicas(stateful_set)
        rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"
        numbers = {status[field] for field in ("updatedReplicas", "readyReplicas", "replicas")}
        if rolling and numbers == {replicas}:
            status["currentReplicas"] = replicas
            status["currentRevision"] = status["updateRevision"]
        last = self._cluster.find(_SETS, name_of(stateful_set), namespace_of(stateful_set))
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
        self._cluster.update_status(_SETS, {**last, "status": status})

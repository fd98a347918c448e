"""The DaemonSet controller: one pod on every eligible node.

In reading order: the nodes of a DaemonSet, its revisions, its rolling update, the controller. The
scheduler binds its pods.

Source: kube-controller-manager, daemon/daemon_controller.go, daemon/update.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import resolve_int_or_percent
from pytest_kwait.scheduler.framework.node_affinity import RequiredNodeAffinity
from pytest_kwait.scheduler.framework.object_fields import InvalidObject
from pytest_kwait.scheduler.framework.pod_info import (
    DO_NOT_SCHEDULE_EFFECTS,
    find_untolerated_taint,
    read_tolerations,
)
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_history import (
    ControllerHistory,
    find_equal_revisions,
    make_template_patch,
    new_revision,
    next_revision_number,
)
from pytest_kwait.simulator.controllers.controller_refs import OwnerIndex
from pytest_kwait.simulator.controllers.pod_control import (
    PodControl,
    SlowStartError,
    compute_template_hash,
    is_namespace_terminating,
    is_ready,
    make_pod_from_template,
    seconds_until_available,
    slow_start_batch,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
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
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

KIND = ("apps/v1", "DaemonSet")
HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION = "deprecated.daemonset.template.generation"

_SETS = "daemonsets.apps"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE = "node.kubernetes.io"
# Source: kube-controller-manager, daemon/util/daemonset_util.go,
# `AddOrUpdateDaemonPodTolerations`.
_TOLERATED = (
    (f"{_NODE}/not-ready", "NoExecute"),
    (f"{_NODE}/unreachable", "NoExecute"),
    (f"{_NODE}/disk-pressure", "NoSchedule"),
    (f"{_NODE}/memory-pressure", "NoSchedule"),
    (f"{_NODE}/pid-pressure", "NoSchedule"),
    (f"{_NODE}/unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK = (f"{_NODE}/network-unavailable", "NoSchedule")
_Pair = tuple[Obj | None, Obj | None] | None

_NAME = "daemonset-controller"
# Source: kube-controller-manager, daemon_controller.go, `BurstReplicas`; core.go,
# `startDaemonSetController` (back-off of failed pods).
_BURST = 250
_BACKOFF_FIRST = 1.0
_BACKOFF_MOST = 900.0
# Seconds of delay per pod, so that the cost of a pod's change does not grow with the nodes.
_PAUSE_PER_POD = 0.001


def find_target_node(pod: Obj) -> str | None:
    """Return the node that a pod is on or is pinned to; None if neither."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for name in term.get("matchFields") or ():
            if name["key"] == "metadata.name" and name["operator"] == "In":
                values = name.get("values") or []
                return str(values[0]) if len(values) == 1 else None
    return None


class NodePlacement:
    """The nodes that a DaemonSet's pods should run on; parsed once for all nodes.

    Source: kube-controller-manager, daemon_controller.go, `NodeShouldRunDaemonPod`.
    """

    def __init__(self, daemon_set: Obj) -> None:
        self._set = daemon_set
        template = daemon_set["spec"]["template"]
        self._spec: Obj = template["spec"]
        self._tolerations = read_tolerations({"tolerations": self._all_tolerations()})
        try:
            self._required: RequiredNodeAffinity | None = RequiredNodeAffinity(self._spec)
        except InvalidObject:
            self._required = None

    def _all_tolerations(self) -> list[Obj]:
        tolerations = [dict(toleration) for toleration in self._spec.get("tolerations") or ()]
        tolerated_taints = list(_TOLERATED)
        if self._spec.get("hostNetwork"):
            tolerated_taints.append(_TOLERATED_ON_HOST_NETWORK)
        for key, effect in tolerated_taints:
            toleration = {"key": key, "operator": "Exists", "effect": effect}
            if toleration not in tolerations:
                tolerations.append(toleration)
        return tolerations

    def on(self, node: Obj) -> tuple[bool, bool]:
        """Return whether a pod should run on `node`, and whether an existing one should stay."""
        name = name_of(node)
        if self._spec.get("nodeName") not in (None, "", name):
            return False, False
        if self._required is None or not self._required.matches(name, labels_of(node)):
            return False, False
        taints = (node.get("spec") or {}).get("taints") or ()
        repelling = [taint for taint in taints if taint.get("effect") in DO_NOT_SCHEDULE_EFFECTS]
        if find_untolerated_taint(repelling, self._tolerations) is None:
            return True, True
        evicting = [taint for taint in repelling if taint["effect"] == "NoExecute"]
        return False, find_untolerated_taint(evicting, self._tolerations) is None

    def pod(self, node: str, digest: str) -> Obj:
        """Return the pod for a node."""
        pod = make_pod_from_template(self._set["spec"]["template"], self._set, *KIND)
        labels = pod["metadata"].setdefault("labels", {})
        generation = (self._set["metadata"].get("annotations") or {}).get(GENERATION)
        if generation is not None:
            labels[GENERATION_LABEL] = generation
        labels[HASH_LABEL] = digest
        spec = pod["spec"]
        spec["tolerations"] = self._all_tolerations()
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        affinity = clone(spec.get("affinity") or {})
        on_nodes = affinity.setdefault("nodeAffinity", {})
        on_nodes[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [here]}]}
        spec["affinity"] = affinity
        return pod

    def is_new(self, pod: Obj, digest: str) -> bool:
        """Return whether a pod has the present template."""
        labels = labels_of(pod)
        generation = (self._set["metadata"].get("annotations") or {}).get(GENERATION)
        return labels.get(HASH_LABEL) == digest or (
            generation is not None and labels.get(GENERATION_LABEL) == generation
        )


class DaemonSetHistory:
    """Finds or creates the revisions of a DaemonSet.

    Args:
        history: the ControllerRevisions of DaemonSets.

    Source: kube-controller-manager, daemon/update.go.
    """

    def __init__(self, cluster: Cluster, history: ControllerHistory) -> None:
        self._cluster = cluster
        self._history = history

    def construct(self, daemon_set: Obj) -> tuple[Obj, list[Obj]]:
        """Return the revision of the present template, and the others.

        Raises:
            StatusError: the name is taken; the next sync uses another one.

        Source: `constructHistory`.
        """
        revisions = self._history.list_revisions(daemon_set)
        data = make_template_patch(daemon_set["spec"]["template"])
        old = [revision for revision in revisions if revision["data"] != data]
        number = next_revision_number(old)
        equal = find_equal_revisions(revisions, data)
        if not equal:
            return self._snapshot(daemon_set, number), old
        *duplicates, current = equal
        for duplicate in duplicates:
            self._history.delete_revision(duplicate)
        number = max(number, current["revision"])
        return self._history.update_revision(current, number), old

    def _snapshot(self, daemon_set: Obj, number: int) -> Obj:
        status = daemon_set.get("status") or {}
        collisions = status.get("collisionCount") or 0
        digest = compute_template_hash(daemon_set["spec"]["template"], collisions)
        name = f"{name_of(daemon_set)}-{digest}"
        revision = new_revision(daemon_set, KIND, number, name, {HASH_LABEL: digest})
        try:
            return self._history.create_revision(revision)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                status = {**status, "collisionCount": collisions + 1}
                self._cluster.update_status(_SETS, {**daemon_set, "status": status})
            raise

    def clean_up(self, daemon_set: Obj, old: list[Obj], pods: Iterable[Obj]) -> None:
        """Delete the oldest revisions beyond the limit that no pod has.

        Source: `cleanupHistory`.
        """
        surplus = len(old) - daemon_set["spec"].get("revisionHistoryLimit", 10)
        if surplus <= 0:
            return
        live = {labels_of(pod).get(HASH_LABEL) for pod in pods}
        self._history.truncate(
            old, surplus, lambda revision: labels_of(revision).get(HASH_LABEL) in live
        )


@dataclass(slots=True)
class PodChanges:
    """The nodes that need a pod, and the pods to delete."""

    create: list[str] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DaemonSetView:
    """The state of a DaemonSet during one sync.

    Args:
        placement: the nodes that it should run on.
        digest: the hash of its present template.
        nodes: all nodes by name.
        pods: its pods by the node they are for.
        now: seconds since the epoch.
    """

    daemon_set: Obj
    placement: NodePlacement
    digest: str
    nodes: Mapping[str, Obj]
    pods: Mapping[str, Sequence[Obj]]
    now: float

    def is_available(self, pod: Obj) -> bool:
        """Return whether the pod has been ready for long enough."""
        seconds = self.daemon_set["spec"].get("minReadySeconds") or 0
        return seconds_until_available(pod, seconds, self.now) == 0

    def is_new(self, pod: Obj) -> bool:
        """Return whether the pod has the present template."""
        return self.placement.is_new(pod, self.digest)

    def share(self, name: str, nodes: int) -> int:
        """Return `maxSurge` or `maxUnavailable` for a number of nodes, rounded up."""
        strategy = self.daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") != "RollingUpdate":
            return 0
        value = (strategy.get("rollingUpdate") or {}).get(name, 0)
        return resolve_int_or_percent(value, nodes, up=True)

    def excess(self, running: list[Obj]) -> tuple[bool, list[Obj]]:
        """Return whether a node needs another pod, and the pods to delete there."""
        surges = self.share("maxSurge", 1) > 0
        if len(running) <= 1:
            return surges and not running, []
        ordered = sort_oldest_first(running)
        if not surges:
            return False, ordered[1:]
        going: list[Obj] = []
        kept_pods: dict[bool, Obj] = {}
        for pod in ordered:
            new = labels_of(pod).get("controller-revision-hash") == self.digest
            if kept_pods.setdefault(new, pod) is not pod:
                going.append(pod)
        if len(kept_pods) == 2 and (
            not is_ready(kept_pods[False]) or self.is_available(kept_pods[True])
        ):
            going.append(kept_pods[False])
        return False, going


def sort_oldest_first(pods: Sequence[Obj]) -> list[Obj]:
    """Return the pods with a node first, then by age."""
    return sorted(
        pods,
        key=lambda pod: (
            not pod["spec"].get("nodeName"),
            pod["metadata"]["creationTimestamp"],
            name_of(pod),
        ),
    )


def plan_rolling_update(view: DaemonSetView) -> PodChanges:
    """Return the changes of one step of a rolling update.

    Source: kube-controller-manager, daemon/update.go, `rollingUpdate`.
    """
    target_nodes = {name for name, node in view.nodes.items() if view.placement.on(node)[0]}
    surge = view.share("maxSurge", len(target_nodes))
    unavailable = view.share("maxUnavailable", len(target_nodes))
    if target_nodes and not surge and not unavailable:
        unavailable = 1
    pairs = {
        node: _split_new_and_old(view, view.pods.get(node, ()))
        for node in [*view.pods, *sorted(target_nodes - view.pods.keys())]
    }
    return (
        _plan_max_surge(view, pairs, target_nodes, surge)
        if surge
        else _plan_max_unavailable(view, pairs, unavailable)
    )


def _split_new_and_old(view: DaemonSetView, pods: Sequence[Obj]) -> _Pair:
    """Return a node's new and old pod; None if there are several of either."""
    pods_by_revision: dict[bool, Obj] = {}
    for pod in pods:
        if is_being_deleted(pod):
            continue
        new = view.is_new(pod)
        if new in pods_by_revision:
            return None
        pods_by_revision[new] = pod
    return pods_by_revision.get(True), pods_by_revision.get(False)


def _plan_max_unavailable(view: DaemonSetView, pairs: Mapping[str, _Pair], most: int) -> PodChanges:
    missing, at_once, candidates = 0, [], []
    for pair in pairs.values():
        new, old = pair if pair is not None else (None, None)
        if pair is None or (new is None) == (old is None):
            missing += 1
        elif old is None:
            missing += new is not None and not view.is_available(new)
        elif not view.is_available(old):
            at_once.append(old)
            missing += 1
        elif missing < most:
            candidates.append(old)
    return PodChanges(delete=[*at_once, *candidates[: max(0, most - missing)]])


def _plan_max_surge(
    view: DaemonSetView, pairs: Mapping[str, _Pair], target_nodes: set[str], most: int
) -> PodChanges:
    change, surging, available = PodChanges(), 0, 0
    candidates: list[str] = []
    leaving: list[Obj] = []
    for node, pair in pairs.items():
        if pair is None:
            surging += 1
            continue
        new, old = pair
        pod = old or new
        available += pod is not None and view.is_available(pod)
        if old is None:
            continue
        if new is not None:
            if view.is_available(new):
                change.delete.append(old)
            else:
                surging += 1
        elif node not in target_nodes:
            (leaving if view.is_available(old) else change.delete).append(old)
        elif not view.is_available(old):
            change.create.append(node)
        elif surging < most:
            candidates.append(node)
    change.delete += leaving[: max(0, available - len(target_nodes))]
    change.create += candidates[: max(0, most - surging)]
    return change


class DaemonSetController:
    """Keeps a pod of each DaemonSet on each of its nodes.

    Args:
        revisions: the cluster's ControllerRevisions by owner.
    """

    def __init__(
        self, cluster: Cluster, pods: ControllerRefManager, revisions: ControllerRefManager
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._history = DaemonSetHistory(cluster, ControllerHistory(cluster, revisions, KIND))
        self._recorder = EventRecorder(cluster, _NAME)
        self._control = PodControl(cluster, self._recorder, *KIND)
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, _NAME)
        self._failures: dict[str, dict[str, tuple[int, float]]] = {}
        self._sets = OwnerIndex(cluster, _SETS, pods, self._queue, _PAUSE_PER_POD)
        cluster.subscribe(_SETS, self._changed)
        cluster.subscribe("nodes", self._node_changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            self._failures.pop(uid_of(new), None)

    def _node_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        if (
            old is not None
            and change != "DELETED"
            and _scheduling_fields(new) == _scheduling_fields(old)
        ):
            return
        for key in self._sets.keys:
            self._queue.add(key)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        daemon_set = self._cluster.find(_SETS, name, namespace)
        if daemon_set is None or is_being_deleted(daemon_set):
            return
        revision, old = self._history.construct(daemon_set)
        digest = labels_of(revision)[HASH_LABEL]
        placement = NodePlacement(daemon_set)
        view = self._view(daemon_set, placement, digest)
        failure = self._apply(view, self._manage(view))
        strategy = (daemon_set["spec"].get("updateStrategy") or {}).get("type")
        if failure is None and strategy != "OnDelete":
            view = self._view(daemon_set, placement, digest)
            failure = self._apply(view, plan_rolling_update(view))
        if failure is None:
            self._history.clean_up(daemon_set, old, self._pods.of(uid_of(daemon_set)))
        self._write_status(self._view(daemon_set, placement, digest))
        if failure is not None:
            raise failure

    def _view(self, daemon_set: Obj, placement: NodePlacement, digest: str) -> DaemonSetView:
        pods: dict[str, list[Obj]] = {}
        for pod in self._pods.claim(daemon_set, *KIND, daemon_set["spec"]["selector"]):
            ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            node = find_target_node(pod)
            if node is not None and not (ended and is_being_deleted(pod)):
                pods.setdefault(node, []).append(pod)
        nodes = {name_of(node): node for node in self._cluster.list("nodes")}
        now = self._cluster.clock.time()
        return DaemonSetView(daemon_set, placement, digest, nodes, pods, now)

    def _manage(self, view: DaemonSetView) -> PodChanges:
        """Return the pods to create and delete on all nodes.

        Source: kube-controller-manager, daemon_controller.go, `podsShouldBeOnNode`.
        """
        change = PodChanges()
        for name, node in view.nodes.items():
            should_run, should_continue = view.placement.on(node)
            pods = view.pods.get(name)
            if should_run and pods is None:
                change.create.append(name)
            elif should_continue and pods is not None:
                more, going = view.excess(self._running(view, name, pods, change))
                change.delete += going
                if more and should_run:
                    change.create.append(name)
            elif pods is not None:
                change.delete += [pod for pod in pods if not is_being_deleted(pod)]
        for name, pods in view.pods.items():
            if name not in view.nodes:
                change.delete += [pod for pod in pods if not pod["spec"].get("nodeName")]
        return change

    def _running(
        self, view: DaemonSetView, node: str, pods: Sequence[Obj], change: PodChanges
    ) -> list[Obj]:
        running = []
        for pod in pods:
            if is_being_deleted(pod):
                continue
            phase, about = (pod.get("status") or {}).get("phase"), f"{key_of(pod)} on node {node}"
            if phase == "Failed":
                if self._backs_off(view.daemon_set, node):
                    continue
                message = f"Found failed daemon pod {about}, will try to kill it"
                self._recorder.event(view.daemon_set, KIND, WARNING, "FailedDaemonPod", message)
                change.delete.append(pod)
            elif phase == "Succeeded":
                message = f"Found succeeded daemon pod {about}, will try to delete it"
                self._recorder.event(view.daemon_set, KIND, NORMAL, "SucceededDaemonPod", message)
                change.delete.append(pod)
            else:
                running.append(pod)
        return running

    def _backs_off(self, daemon_set: Obj, node: str) -> bool:
        """Return whether the back-off delays the removal of another failed pod there."""
        generation = (daemon_set.get("status") or {}).get("observedGeneration", 0)
        failures = self._failures.setdefault(uid_of(daemon_set), {})
        place, now = f"{generation}/{node}", self._cluster.clock.monotonic()
        count, since = failures.get(place, (0, 0.0))
        scale = self._cluster.clock.scale
        pause = min(_BACKOFF_FIRST * 2.0 ** (count - 1), _BACKOFF_MOST) * scale if count else 0.0
        if now < since + pause:
            self._queue.add_after(key_of(daemon_set), since + pause - now, scaled=False)
            return True
        # Source: client-go util/flowcontrol/backoff.go: the back-off is reset after twice its
        # maximum.
        expired = count and now - since > 2 * _BACKOFF_MOST * scale
        failures[place] = (1 if expired else count + 1, now)
        return False

    def _apply(self, view: DaemonSetView, change: PodChanges) -> StatusError | None:
        """Create and delete pods; return the first error."""
        daemon_set, nodes = view.daemon_set, change.create
        failure = None
        try:
            slow_start_batch(
                min(len(nodes), _BURST),
                1,
                lambda index: self._control.create(
                    view.placement.pod(nodes[index], view.digest), daemon_set
                ),
            )
        except SlowStartError as error:
            failure = None if is_namespace_terminating(error.cause) else error.cause
        for pod in change.delete[:_BURST]:
            self._control.delete(pod, daemon_set)
        return failure

    def _write_status(self, view: DaemonSetView) -> None:
        """Update the status if it has changed.

        Source: kube-controller-manager, daemon_controller.go, `updateDaemonSetStatus`.
        """
        daemon_set = view.daemon_set
        desired = scheduled = misplaced = ready = updated = available = 0
        for name, node in view.nodes.items():
            pods = view.pods.get(name)
            if not view.placement.on(node)[0]:
                misplaced += bool(pods)
                continue
            desired += 1
            if not pods:
                continue
            scheduled += 1
            pod = sort_oldest_first(pods)[0]
            ready += is_ready(pod)
            available += view.is_available(pod)
            updated += view.is_new(pod)
        optional = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": desired - available,
        }
        status: Obj = {
            "currentNumberScheduled": scheduled,
            "numberMisscheduled": misplaced,
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "observedGeneration": daemon_set["metadata"].get("generation", 0),
            **{name: count for name, count in optional.items() if count},
        }
        last = self._cluster.find(_SETS, name_of(daemon_set), namespace_of(daemon_set))
        if last is None or uid_of(last) != uid_of(daemon_set):
            return
        for name in ("collisionCount", "conditions"):
            if name in (last.get("status") or {}):
                status[name] = last["status"][name]
        if status != last.get("status"):
            self._cluster.update_status(_SETS, {**last, "status": status})
        seconds = daemon_set["spec"].get("minReadySeconds") or 0
        if seconds and ready != available:
            self._queue.add_after(key_of(daemon_set), seconds, scaled=False)


def _scheduling_fields(node: Obj) -> tuple[object, object]:
    return labels_of(node), (node.get("spec") or {}).get("taints")

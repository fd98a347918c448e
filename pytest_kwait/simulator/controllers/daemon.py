"""The daemon set controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import is_being_deleted
from pytest_kwait.simulator.controllers.controller_refs import key_of, split_key
from pytest_kwait.simulator.controllers.placement import (
    HASH_LABEL,
    KIND,
    NodePlacement,
    find_target_node,
)
from pytest_kwait.simulator.controllers.pod_control import (
    PodControl,
    SlowStartError,
    is_namespace_terminating,
    is_ready,
    slow_start_batch,
)
from pytest_kwait.simulator.controllers.pod_owners import PodOwnerIndex
from pytest_kwait.simulator.controllers.revisions import Revisions
from pytest_kwait.simulator.controllers.rolling import (
    DaemonSetView,
    PodChanges,
    plan_rolling_update,
    sort_oldest_first,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.api_errors import StatusError
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

__all__ = ["DaemonSetController"]

_SETS = "daemonsets.apps"
_NAME = "daemonset-controller"
# Source: kube-controller-manager, daemon_controller.go, `BurstReplicas`; core.go,
# `startDaemonSetController` (back-off of failed pods).
_BURST = 250
_BACKOFF_FIRST = 1.0
_BACKOFF_MOST = 900.0
# Seconds of patience per pod, so that a pod's change costs the same however many nodes there are.
_PAUSE_PER_POD = 0.001


class DaemonSetController:
    """Keeps a pod of each DaemonSet on each node that it is for.

    Args:
        api: the cluster.
        pods: the cluster's pods by owner.
        revisions: the cluster's ControllerRevisions by owner.
    """

    def __init__(
        self, api: SimulatedCluster, pods: ControllerRefManager, revisions: ControllerRefManager
    ) -> None:
        self._api = api
        self._pods = pods
        self._revisions = Revisions(api, revisions)
        self._recorder = EventRecorder(api, _NAME)
        self._control = PodControl(api, self._recorder, *KIND)
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, _NAME)
        self._failures: dict[str, dict[str, tuple[int, float]]] = {}
        self._sets = PodOwnerIndex(api, _SETS, pods, self._queue, _PAUSE_PER_POD)
        api.subscribe(_SETS, self._changed)
        api.subscribe("nodes", self._node_changed)

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
        daemon_set = self._api.find(_SETS, name, namespace)
        if daemon_set is None or is_being_deleted(daemon_set):
            return
        revision, old = self._revisions.of(daemon_set)
        digest = labels_of(revision)[HASH_LABEL]
        placement = NodePlacement(daemon_set)
        view = self._view(daemon_set, placement, digest)
        failure = self._apply(view, self._manage(view))
        strategy = (daemon_set["spec"].get("updateStrategy") or {}).get("type")
        if failure is None and strategy != "OnDelete":
            view = self._view(daemon_set, placement, digest)
            failure = self._apply(view, plan_rolling_update(view))
        if failure is None:
            self._revisions.clean_up(daemon_set, old, self._pods.of(uid_of(daemon_set)))
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
        nodes = {name_of(node): node for node in self._api.list("nodes")}
        now = self._api.clock.time()
        return DaemonSetView(daemon_set, placement, digest, nodes, pods, now)

    def _manage(self, view: DaemonSetView) -> PodChanges:
        """Return what nodes lack and have too much.

        Source: kube-controller-manager, daemon_controller.go, `podsShouldBeOnNode`.
        """
        change = PodChanges()
        for name, node in view.nodes.items():
            comes, stays = view.placement.on(node)
            pods = view.pods.get(name)
            if comes and pods is None:
                change.create.append(name)
            elif stays and pods is not None:
                more, going = view.excess(self._running(view, name, pods, change))
                change.delete += going
                if more and comes:
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
        """Whether it is too early to remove another failed pod there."""
        generation = (daemon_set.get("status") or {}).get("observedGeneration", 0)
        failures = self._failures.setdefault(uid_of(daemon_set), {})
        place, now = f"{generation}/{node}", self._api.clock.monotonic()
        count, since = failures.get(place, (0, 0.0))
        scale = self._api.clock.scale
        pause = min(_BACKOFF_FIRST * 2.0 ** (count - 1), _BACKOFF_MOST) * scale if count else 0.0
        if now < since + pause:
            self._queue.add_after(key_of(daemon_set), since + pause - now, scaled=False)
            return True
        # Source: client-go util/flowcontrol/backoff.go: after twice the most it starts anew.
        expired = count and now - since > 2 * _BACKOFF_MOST * scale
        failures[place] = (1 if expired else count + 1, now)
        return False

    def _apply(self, view: DaemonSetView, change: PodChanges) -> StatusError | None:
        """Make and remove pods; returns what was refused first."""
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
        """Count, and write what has changed.

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
        last = self._api.find(_SETS, name_of(daemon_set), namespace_of(daemon_set))
        if last is None or uid_of(last) != uid_of(daemon_set):
            return
        for name in ("collisionCount", "conditions"):
            if name in (last.get("status") or {}):
                status[name] = last["status"][name]
        if status != last.get("status"):
            self._api.update_status(_SETS, {**last, "status": status})
        seconds = daemon_set["spec"].get("minReadySeconds") or 0
        if seconds and ready != available:
            self._queue.add_after(key_of(daemon_set), seconds, scaled=False)


def _scheduling_fields(node: Obj) -> tuple[object, object]:
    return labels_of(node), (node.get("spec") or {}).get("taints")

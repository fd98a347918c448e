"""The disruption controller: counts the disruptions that PodDisruptionBudgets allow.

Source: kube-controller-manager, disruption/disruption.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import resolve_int_or_percent
from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.controllers.pod_control import is_ready
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    is_being_deleted,
    labels_of,
    name_of,
    namespace_of,
    owner_of,
    uid_of,
)
from pytest_kwait.simulator.registry.subresources import read_scale
from pytest_kwait.simulator.selectors import format_go_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster

_BUDGETS = "poddisruptionbudgets.policy"
_KIND = ("policy/v1", "PodDisruptionBudget")
_ALLOWED = "DisruptionAllowed"
# Seconds after which an evicted pod that still exists counts again.
_DELETION_TIMEOUT = 120.0
# Seconds after which the DisruptionTarget condition of an existing pod is reset.
_STALE_DISRUPTION_TIMEOUT = 120.0
# Seconds of delay per pod, so that the cost of a pod's change does not grow with their number.
_PAUSE_PER_POD = 0.001
_DISRUPTED = "DisruptionTarget"


class _UncountedError(Exception):
    """The expected number of pods is unknown."""


class DisruptionController:
    """Keeps `status` of the budgets of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = EventRecorder(cluster, "controllermanager")
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "disruption")
        self._stale: Workqueue[str] = Workqueue(
            cluster, self._clear_stale_disruption, "disruption stale pods"
        )
        self._selectors: dict[str, dict[str, Obj | None]] = {}
        self._pods: dict[str, dict[str, Obj]] = {}
        cluster.subscribe(_BUDGETS, self._budget_changed)
        cluster.subscribe("pods", self._pod_changed)

    def _budget_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, namespace = key_of(new), namespace_of(new)
        if change == "DELETED":
            selectors = self._selectors.get(namespace, {})
            selectors.pop(name_of(new), None)
            if not selectors:
                self._selectors.pop(namespace, None)
            self._pods.pop(key, None)
            self._queue.forget(key)
            return
        selector = new["spec"].get("selector")
        if old is None or old["spec"].get("selector") != selector:
            self._selectors.setdefault(namespace, {})[name_of(new)] = selector
            self._pods[key] = {
                uid_of(pod): pod
                for pod in self._cluster.list("pods", namespace)
                if matches_label_selector(selector, labels_of(pod))
            }
        self._queue.add(key)

    def _pod_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        if change != "DELETED" and _is_disruption_target(new):
            self._stale.add(key_of(new))
        selectors = self._selectors.get(namespace_of(new))
        if not selectors:
            return
        chosen = []
        uid = uid_of(new)
        for name, selector in selectors.items():
            key = f"{namespace_of(new)}/{name}"
            pods = self._pods.setdefault(key, {})
            known = pods.pop(uid, None) is not None
            selected = change != "DELETED" and matches_label_selector(selector, labels_of(new))
            if selected:
                pods[uid] = new
                chosen.append(name)
            if (selected or known) and (
                not (selected and known) or _counted_fields(old) != _counted_fields(new)
            ):
                self._queue.add_after(key, len(pods) * _PAUSE_PER_POD, scaled=False)
        if len(chosen) > 1 and old is not None and _counted_fields(old) != _counted_fields(new):
            message = (
                f'Pod "{namespace_of(new)}"/"{name_of(new)}" matches multiple '
                f'PodDisruptionBudgets.  Chose "{chosen[0]}" arbitrarily.'
            )
            kind, reason = ("v1", "Pod"), "MultiplePodDisruptionBudgets"
            self._recorder.event(new, kind, WARNING, reason, message)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        budget = self._cluster.find(_BUDGETS, name, namespace)
        if budget is None:
            return
        pods = list(self._pods.get(key, {}).values())
        if not pods:
            self._recorder.event(budget, _KIND, NORMAL, "NoPods", "No matching pods found")
        try:
            expected, desired = self._expected(budget, pods)
        except _UncountedError as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            reason = "CalculateExpectedPodCountFailed"
            self._recorder.event(budget, _KIND, WARNING, reason, message)
            self._record_failure(budget, str(error))
            return
        now = self._cluster.clock.time()
        disrupted, pause = self._disrupted(budget, pods, now)
        healthy = sum(
            not is_being_deleted(pod) and name_of(pod) not in disrupted and is_ready(pod)
            for pod in pods
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Obj = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        outcome = ("True", "SufficientPods", "") if allowed else ("False", "InsufficientPods", "")
        self._write(budget, status, outcome)
        if pause is not None:
            self._queue.add_after(key, pause, scaled=False)

    def _write(self, budget: Obj, status: Obj, outcome: tuple[str, str, str]) -> None:
        value, reason, message = outcome
        last = budget.get("status") or {}
        conditions = list(last.get("conditions") or ())
        before = next(
            (condition for condition in conditions if condition["type"] == _ALLOWED), None
        )
        condition = {
            "type": _ALLOWED,
            "status": value,
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": self._cluster.clock.stamp(),
            "reason": reason,
            "message": message,
        }
        if before is not None and before["status"] == value:
            condition["lastTransitionTime"] = before["lastTransitionTime"]
        if before is None:
            conditions.append(condition)
        else:
            conditions[conditions.index(before)] = condition
        status["conditions"] = conditions
        if status != last:
            self._cluster.update_status(_BUDGETS, {**budget, "status": status})

    def _record_failure(self, budget: Obj, message: str) -> None:
        """Allow no disruptions after a failed sync."""
        status = {**(budget.get("status") or {}), "disruptionsAllowed": 0}
        self._write(budget, status, ("False", "SyncFailed", message))

    def _disrupted(
        self, budget: Obj, pods: Sequence[Obj], now: float
    ) -> tuple[dict[str, str], float | None]:
        """Return the pods being disrupted, and the seconds until the first is overdue."""
        disrupted_pods = (budget.get("status") or {}).get("disruptedPods") or {}
        going: dict[str, str] = {}
        pause: float | None = None
        for pod in pods if disrupted_pods else ():
            since = disrupted_pods.get(name_of(pod))
            if since is None or is_being_deleted(pod):
                continue
            remaining_seconds = (
                parse_time(since) + _DELETION_TIMEOUT * self._cluster.clock.scale - now
            )
            if remaining_seconds <= 0:
                # Upstream names the namespace twice.
                namespace = namespace_of(budget)
                message = (
                    f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                )
                self._recorder.event(pod, ("v1", "Pod"), WARNING, "NotDeleted", message)
            else:
                going[name_of(pod)] = since
                pause = remaining_seconds if pause is None else min(pause, remaining_seconds)
        return going, pause

    def _expected(self, budget: Obj, pods: Sequence[Obj]) -> tuple[int, int]:
        """Return the expected number of pods, and how many of them must be healthy."""
        spec = budget["spec"]
        most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
        if most is not None:
            expected = self._scale(budget, pods)
            return expected, max(0, expected - resolve_int_or_percent(most, expected, up=True))
        if isinstance(least, str):
            expected = self._scale(budget, pods)
            return expected, resolve_int_or_percent(least, expected, up=True)
        return (len(pods), least) if least is not None else (0, 0)

    def _scale(self, budget: Obj, pods: Sequence[Obj]) -> int:
        """Return the sum of the replicas of the pods' controllers."""
        replicas_by_uid: dict[str, int] = {}
        unmanaged = False
        for pod in pods:
            owner = owner_of(pod)
            if owner is None:
                unmanaged = True
                continue
            if owner["uid"] in replicas_by_uid:
                continue
            scale = self._scale_of(owner, namespace_of(pod))
            if scale is None:
                raise _UncountedError(f'found no controllers for pod "{name_of(pod)}"')
            uid, replicas = scale
            replicas_by_uid[uid] = replicas
        if unmanaged:
            message = (
                "Pods selected by this PodDisruptionBudget (selector: "
                f"{format_go_selector(budget['spec'].get('selector'))}) were found to be unmanaged."
                " As a result, the status of the PDB cannot be calculated correctly, which may"
                " result in undefined behavior. To account for these pods please set"
                ' ".spec.minAvailable" field of the PDB to an integer value.'
            )
            self._recorder.event(budget, _KIND, WARNING, "UnmanagedPods", message)
        return sum(replicas_by_uid.values())

    def _scale_of(self, reference: Obj, namespace: str) -> tuple[str, int] | None:
        """Return UID and replicas of a controller; of a ReplicaSet, its Deployment's."""
        version, name = reference["apiVersion"], reference["kind"]
        kind = self._cluster.kinds.of_kind(version, name)
        if kind is None:
            raise _UncountedError(f'no matches for kind "{name}" in version "{version}"')
        if "scale" not in kind.subresources:
            resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            raise _UncountedError(f"{resource} does not implement the scale subresource")
        obj = self._cluster.find(kind.bucket, reference["name"], namespace)
        if obj is None or uid_of(obj) != reference["uid"]:
            return None
        owner = owner_of(obj)
        managed = owner is not None and owner["kind"] == "Deployment"
        if kind.bucket == "replicasets.apps" and owner is not None and managed:
            return self._scale_of(owner, namespace)
        return uid_of(obj), read_scale(kind, obj)["spec"].get("replicas", 0)

    def _clear_stale_disruption(self, key: str) -> None:
        """Reset a DisruptionTarget condition that has become stale."""
        namespace, name = split_key(key)
        pod = self._cluster.find("pods", name, namespace)
        if pod is None or not _is_disruption_target(pod):
            return
        conditions = pod["status"]["conditions"]
        target_condition = next(
            condition for condition in conditions if condition["type"] == _DISRUPTED
        )
        since, now = parse_time(target_condition["lastTransitionTime"]), self._cluster.clock.time()
        remaining_seconds = since + _STALE_DISRUPTION_TIMEOUT * self._cluster.clock.scale - now
        if remaining_seconds > 0:
            self._stale.add_after(key, remaining_seconds, scaled=False)
            return
        calm = {
            "type": _DISRUPTED,
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": self._cluster.clock.stamp(),
        }
        status = {**pod["status"]}
        status["conditions"] = [
            calm if condition is target_condition else condition for condition in conditions
        ]
        self._cluster.update_status("pods", {**pod, "status": status})


def _is_disruption_target(pod: Obj) -> bool:
    """Return whether the pod has a true DisruptionTarget condition, of any writer."""
    status = pod.get("status") or {}
    if is_being_deleted(pod) or status.get("phase") in ("Succeeded", "Failed"):
        return False
    return any(
        condition["type"] == _DISRUPTED
        and condition["status"] == "True"
        and condition.get("reason") != "TerminationByKubelet"
        for condition in status.get("conditions") or ()
    )


def _counted_fields(pod: Obj | None) -> tuple[bool, bool]:
    """Return the fields of a pod that decide how a budget counts it."""
    return (is_being_deleted(pod), is_ready(pod)) if pod is not None else (False, False)

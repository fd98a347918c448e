"""Which pods of a DaemonSet come and go: on nodes, and from one template to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import is_being_deleted
from pytest_kwait.simulator.controllers.deployment.deployment_util import resolve_int_or_percent
from pytest_kwait.simulator.controllers.pod_control import is_ready, seconds_until_available
from pytest_kwait.simulator.objects import Obj, labels_of, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.simulator.controllers.placement import NodePlacement

__all__ = ["DaemonSetView", "PodChanges", "plan_rolling_update", "sort_oldest_first"]


@dataclass(slots=True)
class PodChanges:
    """Nodes that need a pod, and pods that go."""

    create: list[str] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DaemonSetView:
    """What one look at a DaemonSet sees.

    Args:
        daemon_set: the set.
        placement: what it asks of nodes.
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
        """Whether it has been ready for long enough."""
        seconds = self.daemon_set["spec"].get("minReadySeconds") or 0
        return seconds_until_available(pod, seconds, self.now) == 0

    def is_new(self, pod: Obj) -> bool:
        """Whether it is of the present template."""
        return self.placement.is_new(pod, self.digest)

    def share(self, name: str, nodes: int) -> int:
        """Return `maxSurge` or `maxUnavailable` of so many nodes; both round up."""
        strategy = self.daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") != "RollingUpdate":
            return 0
        value = (strategy.get("rollingUpdate") or {}).get(name, 0)
        return resolve_int_or_percent(value, nodes, up=True)

    def excess(self, running: list[Obj]) -> tuple[bool, list[Obj]]:
        """Return whether one more is needed on a node, and which of those there go."""
        surges = self.share("maxSurge", 1) > 0
        if len(running) <= 1:
            return surges and not running, []
        ordered = sort_oldest_first(running)
        if not surges:
            return False, ordered[1:]
        going: list[Obj] = []
        kept: dict[bool, Obj] = {}
        for pod in ordered:
            new = labels_of(pod).get("controller-revision-hash") == self.digest
            if kept.setdefault(new, pod) is not pod:
                going.append(pod)
        if len(kept) == 2 and (not is_ready(kept[False]) or self.is_available(kept[True])):
            going.append(kept[False])
        return False, going


def sort_oldest_first(pods: Sequence[Obj]) -> list[Obj]:
    """Return the pods that have a node first, then by age."""
    return sorted(
        pods,
        key=lambda pod: (
            not pod["spec"].get("nodeName"),
            pod["metadata"]["creationTimestamp"],
            name_of(pod),
        ),
    )


def plan_rolling_update(view: DaemonSetView) -> PodChanges:
    """Return what one step of a rolling update changes.

    Source: kube-controller-manager, daemon/update.go, `rollingUpdate`.
    """
    wanted = {name for name, node in view.nodes.items() if view.placement.on(node)[0]}
    surge = view.share("maxSurge", len(wanted))
    unavailable = view.share("maxUnavailable", len(wanted))
    if wanted and not surge and not unavailable:
        unavailable = 1
    pairs = {
        node: _split_new_and_old(view, view.pods.get(node, ()))
        for node in [*view.pods, *sorted(wanted - view.pods.keys())]
    }
    return (
        _plan_max_surge(view, pairs, wanted, surge)
        if surge
        else _plan_max_unavailable(view, pairs, unavailable)
    )


_Pair = tuple[Obj | None, Obj | None] | None


def _split_new_and_old(view: DaemonSetView, pods: Sequence[Obj]) -> _Pair:
    """Return the new and the old pod of a node; None where there is more than one of either."""
    found: dict[bool, Obj] = {}
    for pod in pods:
        if is_being_deleted(pod):
            continue
        new = view.is_new(pod)
        if new in found:
            return None
        found[new] = pod
    return found.get(True), found.get(False)


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
    view: DaemonSetView, pairs: Mapping[str, _Pair], wanted: set[str], most: int
) -> PodChanges:
    change, surging, available = PodChanges(), 0, 0
    candidates: list[str] = []
    leaving: list[Obj] = []
    for node, pair in pairs.items():
        if pair is None:
            surging += 1
            continue
        new, old = pair
        seen = old or new
        available += seen is not None and view.is_available(seen)
        if old is None:
            continue
        if new is not None:
            if view.is_available(new):
                change.delete.append(old)
            else:
                surging += 1
        elif node not in wanted:
            (leaving if view.is_available(old) else change.delete).append(old)
        elif not view.is_available(old):
            change.create.append(node)
        elif surging < most:
            candidates.append(node)
    change.delete += leaving[: max(0, available - len(wanted))]
    change.create += candidates[: max(0, most - surging)]
    return change

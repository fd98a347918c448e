"""Wait until a pod's resources have the sizes of its spec.

Source: kubernetes/test/e2e/common/node/framework/podresize/resize.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.conditions import get_condition, is_condition_true
from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, TerminalState, Verdict
from pytest_kwait.engine.options import check_count
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import join_names
from pytest_kwait.framework.pod.wait import READY, PodGoal, PodGoalCondition
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import detect_not_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

Obj = dict[str, Any]

_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
_GRACES = {"Infeasible": Grace.SHORT, "Deferred": Grace.LONG, "Error": Grace.LONG}
"""Grace periods by the reason of a condition: the kubelet tries a deferred resize again."""


def _resizable_containers(pod: Obj) -> Iterator[tuple[Obj, Obj]]:
    """Yield the containers that can be resized, each with its status: all, and sidecars."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for field in ("initContainers", "containers"):
        statuses = {each.get("name"): each for each in status.get(f"{field[:-1]}Statuses") or ()}
        for container in spec.get(field) or ():
            if field == "containers" or container.get("restartPolicy") == "Always":
                yield container, statuses.get(container.get("name")) or {}


def _describe_sizes(pod: Obj) -> list[str]:
    """Return the sizes in a pod's status that are not those of its spec, as phrases."""
    found: list[str] = []
    for container, status in _resizable_containers(pod):
        found += _differences(f"container {container['name']}", container, status)
    pod_status = pod.get("status") or {}
    # Not every kubelet reports resources of the whole pod.
    if pod_status.get("resources"):
        found += _differences("the pod", pod.get("spec") or {}, pod_status)
    return found


def _differences(owner: str, wanted: Obj, status: Obj) -> Iterator[str]:
    """Yield a phrase for each size in a status that is not the wanted one."""
    resources, actual = wanted.get("resources") or {}, status.get("resources") or {}
    allocated = status.get("allocatedResources") or {}
    for field in ("requests", "limits"):
        for name, size in (resources.get(field) or {}).items():
            present = (actual.get(field) or {}).get(name)
            if not _is_size(present, size):
                yield f"{owner} has {field}.{name} {present or 'none'} instead of {size}"
            elif field == "requests" and name in allocated and not _is_size(allocated[name], size):
                yield f"{owner} is allocated {name} {allocated[name]} instead of {size}"


def _is_size(present: str | None, wanted: str) -> bool:
    if present is None:
        return False
    return present == wanted or parse_quantity(present) == parse_quantity(wanted)


def _describe_resize(pod: Obj) -> str:
    """Return the state of an unfinished resize, with its sizes; empty without one."""
    sizes = join_names(_describe_sizes(pod), limit=2)
    kind = next((each for each in (_PENDING, _IN_PROGRESS) if is_condition_true(pod, each)), "")
    if not kind:
        return sizes
    condition = get_condition(pod, kind) or {}
    state = "pending" if kind == _PENDING else "in progress"
    reason = (condition.get("reason") or "").lower()
    message = " ".join((condition.get("message") or "").split())
    text = f"its resize is {state}{f' ({reason})' if reason else ''}"
    return f"{text}{f', {sizes}' if sizes else ''}{f': {message}' if message else ''}"


def _describe_lag(pod: Obj) -> str:
    """Return the generations of a pod whose status is of an earlier one; empty otherwise."""
    generation = pod["metadata"].get("generation") or 0
    observed = (pod.get("status") or {}).get("observedGeneration") or 0
    return (
        f"generation {observed} is observed, not yet {generation}" if observed < generation else ""
    )


def _detect(pod: Obj, before: TerminalState | None) -> TerminalState | None:
    """Return why a resize will not be made; None while it may."""
    if _describe_lag(pod):
        return detect_not_ready(pod, before)
    for kind in (_PENDING, _IN_PROGRESS):
        condition = get_condition(pod, kind) or {}
        grace = _GRACES.get(condition.get("reason") or "")
        if grace is not None and condition.get("status") == "True":
            return TerminalState(_describe_resize(pod), grace)
    return detect_not_ready(pod, before)


def resized(restart_counts: Mapping[str, int] | None) -> PodGoal:
    """Return the goal of a pod whose resources have the sizes of its spec.

    Args:
        restart_counts: the numbers of restarts of containers, by name; None for any.
    """
    wanted = dict(restart_counts or {})

    def evaluate(pod: Obj) -> Verdict:
        ready = READY.evaluate(pod)
        if isinstance(ready, Failed):
            return ready
        if text := _describe_lag(pod) or _describe_resize(pod):
            return Pending(text)
        return ready if isinstance(ready, Pending) else _check_restarts(pod, wanted)

    return PodGoal("get resized", evaluate, _detect, alive=True)


def _check_restarts(pod: Obj, wanted: Mapping[str, int]) -> Verdict:
    counts = {
        container["name"]: status.get("restartCount") or 0
        for container, status in _resizable_containers(pod)
    }
    for name, count in wanted.items():
        if name not in counts:
            return Failed(f"the pod has no container {name}, but {', '.join(counts)}")
        if counts[name] != count:
            text = f"container {name} has {counts[name]} restarts instead of {count}"
            return Pending(text) if counts[name] < count else Failed(text)
    return Met()


@wait(limit="pod_start", kind=PODS, summary="a pod whose resize has been made")
def wait_for_pod_resized(
    client: ApiClient,
    namespace: str,
    name: str,
    *,
    restart_counts: Mapping[str, int] | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a ready pod once its resources have the sizes of its spec.

    The kubelet has then observed the pod's generation, no resize is pending or in progress, and the
    resources in the status of each container equal those of the spec, allocated ones included. A
    pod that was never resized meets this too. A pending resize has the condition
    `PodResizePending`, which `wait_for("pod/web", "condition=PodResizePending")` awaits.

    Args:
        restart_counts: the numbers of restarts after the resize, by container, as its
            `resizePolicy` leaves them; None for any.

    Raises:
        WaitFailed: the resize is infeasible, stays deferred or in error, a container was restarted
            more often, or the pod has ended, is being deleted, or cannot become ready.

    Source: podresize/resize.go WaitForPodResizeActuation, ExpectPodResized.
    """
    counts: object = {} if restart_counts is None else restart_counts
    if not isinstance(counts, Mapping) or not all(isinstance(each, str) for each in counts):
        valid = 'use numbers of restarts by container: {"main": 1}'
        raise InvalidArgument("restart_counts", counts, valid)
    for container, count in counts.items():
        check_count(f"restart_counts {container}", count)
    return PodGoalCondition(namespace, name, resized(restart_counts))

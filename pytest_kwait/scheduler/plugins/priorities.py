"""Priorities, one function per plugin, score feasible nodes for a pod.

Each takes the `CycleState` and the feasible nodes and returns their scores from 0 to 100 in the
same order, or None if all scores are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.scheduler.framework.object_fields import get_mappings, get_string
from pytest_kwait.scheduler.framework.pod_info import tolerates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kwait.scheduler.framework.cycle_state import CycleState
    from pytest_kwait.scheduler.framework.node_info import NodeInfo
    from pytest_kwait.scheduler.framework.pod_info import ResourceAmounts

MAX_NODE_SCORE = 100
"""The maximum score."""

_MEBIBYTE = 1024 * 1024
_MIN_THRESHOLD = 23 * _MEBIBYTE
_MAX_CONTAINER_THRESHOLD = 1000 * _MEBIBYTE


def normalize_scores(counts: Sequence[int], *, fewest_best: bool = False) -> Sequence[int]:
    """Return `counts` scaled to 100, inverted if `fewest_best`.

    Source: kube-scheduler, framework/plugins/helper/normalize_score.go, `DefaultNormalizeScore`.
    """
    highest = max(counts, default=0)
    if highest == 0:
        return [MAX_NODE_SCORE] * len(counts) if fewest_best else counts
    scaled = [MAX_NODE_SCORE * count // highest for count in counts]
    return [MAX_NODE_SCORE - score for score in scaled] if fewest_best else scaled


def score_least_allocated(cycle: CycleState, fitting: Sequence[NodeInfo]) -> Sequence[int] | None:
    """Score the average share of cpu and memory that remains free.

    Source: kube-scheduler, framework/plugins/noderesources/least_allocated.go.
    """
    requested = cycle.pod.assumed_before
    cpu, memory = requested.get("cpu", 0), requested.get("memory", 0)
    return _score_by_resources("free", _score_free, fitting, cpu, memory)


def _score_by_resources(
    name: str,
    score_node: Callable[[NodeInfo, int, int], int],
    fitting: Sequence[NodeInfo],
    cpu: int,
    memory: int,
) -> list[int]:
    """Return the scores of nodes, kept until the node changes."""
    key = (name, cpu, memory)
    scores = []
    for info in fitting:
        score = info.cached.get(key)
        if score is None:
            score = info.cache(key, score_node(info, cpu, memory))
        scores.append(score)
    return scores


def _score_free(info: NodeInfo, cpu: int, memory: int) -> int:
    total = resources = 0
    for name, amount in (("cpu", cpu), ("memory", memory)):
        capacity = info.allocatable.get(name, 0)
        if capacity:
            resources += 1
            total += max(capacity - info.assumed[name] - amount, 0) * MAX_NODE_SCORE // capacity
    return total // resources if resources else 0


def score_balanced_allocation(
    cycle: CycleState, fitting: Sequence[NodeInfo]
) -> Sequence[int] | None:
    """Score the balance of the node's use of cpu and memory with the pod added.

    Source: kube-scheduler, framework/plugins/noderesources/balanced_allocation.go.
    """
    requested = cycle.pod.requests
    cpu, memory = requested.get("cpu", 0), requested.get("memory", 0)
    if not (cpu or memory):
        return None
    return _score_by_resources("even", _score_balance, fitting, cpu, memory)


def _score_balance(info: NodeInfo, cpu: int, memory: int) -> int:
    cores, memory_there = info.allocatable.get("cpu", 0), info.allocatable.get("memory", 0)
    if not cores or not memory_there:
        # A single resource is always balanced.
        return 75
    cpu_used, memory_used = info.requested.get("cpu", 0), info.requested.get("memory", 0)
    after = _evenness((cpu_used + cpu) / cores, (memory_used + memory) / memory_there)
    before = _evenness(cpu_used / cores, memory_used / memory_there)
    return 50 + (50 + after - before) // 2


def _evenness(first: float, second: float) -> int:
    return int((1 - abs((min(first, 1.0) - min(second, 1.0)) / 2)) * MAX_NODE_SCORE)


def score_taint_toleration(cycle: CycleState, fitting: Sequence[NodeInfo]) -> Sequence[int] | None:
    """Score nodes lower that have more untolerated taints with PreferNoSchedule.

    Source: kube-scheduler, framework/plugins/tainttoleration/taint_toleration.go, `Score`.
    """
    if not any(info.discouraging for info in fitting):
        return [MAX_NODE_SCORE] * len(fitting)
    tolerations = cycle.pod.tolerations
    counts = [
        sum(
            not any(tolerates(toleration, taint) for toleration in tolerations)
            for taint in info.discouraging
        )
        for info in fitting
    ]
    return normalize_scores(counts, fewest_best=True)


def score_node_affinity(cycle: CycleState, fitting: Sequence[NodeInfo]) -> Sequence[int] | None:
    """Score the total weight of the matching preferred node affinity terms.

    Raises:
        InvalidPod: a term compares with a non-number.

    Source: kube-scheduler, framework/plugins/nodeaffinity/node_affinity.go, `Score`.
    """
    terms = cycle.pod.preferred_nodes
    if not terms:
        return None
    for _, term in terms:
        if term.unreadable is not None:
            raise cycle.pod.invalid(term.unreadable)
    return normalize_scores(
        [
            sum(weight for weight, term in terms if term.matches(info.name, info.labels))
            for info in fitting
        ]
    )


def score_image_locality(cycle: CycleState, fitting: Sequence[NodeInfo]) -> Sequence[int] | None:
    """Score the sizes of the pod's present images, weighted by the share of nodes with each.

    Source: kube-scheduler, framework/plugins/imagelocality/image_locality.go.
    """
    spec = cycle.pod.pod.get("spec") or {}
    containers = [
        *get_mappings(spec, "initContainers", "spec"),
        *get_mappings(spec, "containers", "spec"),
    ]
    names = [get_string(container, "image", "spec.containers[]") for container in containers]
    if spec.get("volumes"):
        names += _image_volumes(spec)
    image_names = [_full_name(name) for name in names]
    spread: ResourceAmounts = dict.fromkeys(image_names, 0)
    for info in cycle.nodes:
        if info.images:
            for name in spread:
                spread[name] += name in info.images
    if not any(spread.values()):
        return None
    nodes, most = len(cycle.nodes), _MAX_CONTAINER_THRESHOLD * len(containers)
    scores = []
    for info in fitting:
        weight = sum(
            int(info.images[name] * (spread[name] / nodes))
            for name in image_names
            if name in info.images
        )
        weight = min(max(weight, _MIN_THRESHOLD), most)
        scores.append(MAX_NODE_SCORE * (weight - _MIN_THRESHOLD) // (most - _MIN_THRESHOLD))
    return scores


def _image_volumes(spec: Mapping[str, object]) -> list[str]:
    volumes = get_mappings(spec, "volumes", "spec")
    images = [volume["image"] for volume in volumes if isinstance(volume.get("image"), dict)]
    return [get_string(image, "reference", "spec.volumes[].image") for image in images]


def _full_name(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"

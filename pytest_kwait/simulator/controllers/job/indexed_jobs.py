"""Completion indexes of Indexed Jobs: succeeded, failed and next ones.

Source: kube-controller-manager, job/indexed_job_utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "FAILURE_COUNT",
    "IGNORED_FAILURE_COUNT",
    "INDEX",
    "first_pending_indexes",
    "format_indexes",
    "get_completion_index",
    "get_index_failure_count",
    "get_valid_index",
    "parse_indexes",
    "split_duplicates",
]

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"

# Two neighbours are written as a list, three or more as a range.
_MIN_RANGE_LENGTH = 3


def _annotation(pod: Obj, name: str) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isdecimal() else None


def get_completion_index(pod: Obj) -> int | None:
    """Return the pod's completion index; None if it has none."""
    return _annotation(pod, INDEX)


def get_valid_index(pod: Obj, completions: int) -> int | None:
    """Return the pod's completion index; None if it has no valid one."""
    index = get_completion_index(pod)
    return index if index is not None and index < completions else None


def get_index_failure_count(pod: Obj, *, ignored_too: bool = False) -> int:
    """Return the number of failed pods of the same index before this one."""
    counted = _annotation(pod, FAILURE_COUNT) or 0
    return counted + ((_annotation(pod, IGNORED_FAILURE_COUNT) or 0) if ignored_too else 0)


def parse_indexes(text: str, completions: int) -> set[int]:
    """Parse indexes such as `1,3-5,7`, dropping those from `completions` on."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return indexes


def format_indexes(indexes: Collection[int]) -> str:
    """Format `{1, 3, 4, 5, 7}` as `1,3-5,7`; empty for none."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), None]:
        if run and (index is None or index > run[-1] + 1):
            parts.extend(
                [f"{run[0]}-{run[-1]}"]
                if len(run) >= _MIN_RANGE_LENGTH
                else [str(one) for one in run]
            )
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts)


def first_pending_indexes(count: int, completions: int, taken: Collection[int]) -> list[int]:
    """Return the `count` lowest free indexes; fewer if there are no more."""
    found: list[int] = []
    for index in range(completions):
        if len(found) >= count:
            break
        if index not in taken:
            found.append(index)
    return found


def split_duplicates(pods: Iterable[Obj], completions: int) -> tuple[list[Obj], list[Obj]]:
    """Return the pods with a duplicate or missing index, and the others."""
    remove: list[Obj] = []
    keep: dict[int, Obj] = {}
    for pod in pods:
        index = get_valid_index(pod, completions)
        if index is None or index in keep:
            remove.append(pod)
        else:
            keep[index] = pod
    return remove, list(keep.values())

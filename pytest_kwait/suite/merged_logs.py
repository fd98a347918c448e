"""Logs of several pods in one text: merged by time, each line with its pod and container.

Source: the option `--prefix` of kubectl/pkg/cmd/logs/logs.go.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.log import (
    LINE_TIME,
    has_log,
    has_previous_log,
    list_container_statuses,
)
from pytest_kwait.framework.pod.containers import list_container_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class LogPlace(NamedTuple):
    """The container of a log.

    Args:
        pod: the pod's name.
        container: the container's name.
    """

    pod: str
    container: str


def list_log_places(
    pods: Sequence[Mapping[str, Any]], container: str | None, *, previous: bool
) -> list[LogPlace]:
    """Return the containers of pods that have a log.

    Args:
        pods: the pods.
        container: the only container of each; None for all, init containers included.
        previous: whether the log is that of the previous run.

    Raises:
        InvalidArgument: no pod has such a container.
    """
    names = {name: None for pod in pods for name in list_container_names(dict(pod))}
    if container is not None and names and container not in names:
        valid = f"use a container of these pods: {', '.join(names)}"
        raise InvalidArgument("container", container, valid)
    return [
        LogPlace(pod["metadata"]["name"], status["name"])
        for pod in pods
        for status in list_container_statuses(dict(pod))
        if container in (None, status["name"])
        and (has_previous_log(status) if previous else has_log(status))
    ]


def merge_logs(logs: Mapping[LogPlace, str], *, timestamps: bool) -> str:
    """Return the lines of logs by their times, each with its pod and container before it.

    Args:
        logs: the logs, whose lines begin with their times.
        timestamps: whether the lines keep their times.
    """
    lines = merge(
        *(_split_lines(place, text, timestamps=timestamps) for place, text in logs.items()),
        key=_time_of,
    )
    return "".join(f"[pod/{line.place.pod}/{line.place.container}] {line.text}\n" for line in lines)


class _Line(NamedTuple):
    time: float
    place: LogPlace
    text: str


def _time_of(line: _Line) -> float:
    return line.time


def _split_lines(place: LogPlace, text: str, *, timestamps: bool) -> Iterator[_Line]:
    """Yield the lines of a log; one without a time has that of the line before it."""
    time = 0.0
    for line in text.removesuffix("\n").split("\n") if text else ():
        stamp = LINE_TIME.match(line)
        if stamp is not None:
            time = max(time, parse_time(stamp[1]))
        yield _Line(time, place, line if stamp is None or timestamps else line[stamp.end() :])

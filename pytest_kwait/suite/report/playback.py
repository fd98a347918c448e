"""The playback of a recording: what the page shows of a test's objects at each time of it.

A state of an object is its row of `kubectl get`, of the columns that are printed without `-o wide`;
times that count on, as AGE, are left out. Equal rows in a series are one.

A playback is bounded: objects in states that many share are left out before those in rare ones,
old changes, events and log lines before new ones.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pytest_kwait.simulator.protocol.printers.columns import (
    BUILT_IN_COLUMNS,
    GENERIC_COLUMNS,
    Columns,
    custom_resource_columns,
)
from pytest_kwait.simulator.protocol.recording.timeline import read_event
from pytest_kwait.suite.report.records import Playback, PlayedKind, truncate_middle

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.protocol.recording.files import RecordedLine, Recording

MAX_PLAYBACK = 200_000
"""Maximum bytes of a playback as JSON."""

_MAX_OBJECTS = 100
"""Objects of a kind."""
_MAX_CHANGES = 8000
_MAX_EVENTS = 200
_MAX_LOGS = 300
_MAX_STEPS = 200
_DIVISORS = (1, 2, 4, 8, 16, 32, 64)
"""Divisors of these limits, until the playback is small enough."""
_MAX_CELL = 120
_MAX_TEXT = 240

_CHANGES = frozenset({"STATE", "ADDED", "MODIFIED", "DELETED"})
_EVENTS = "events"
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_NAMESPACES = "namespaces"
_VOLUMES = "persistentvolumes"
_OF_SERVICES = frozenset({"ipaddresses.networking.k8s.io", "apiservices.apiregistration.k8s.io"})
"""Objects without a namespace that say what services and definitions say."""
_IN_EVERY_NAMESPACE = frozenset(
    {("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")}
)

_COUNTING = frozenset({"Age", "Duration", "Last Schedule"})
"""Columns of built-in kinds that change with every second."""
_AGO = re.compile(r" \(\S+ ago\)$")
"""The end of a pod's restarts."""

_FIRST_KINDS = (
    "pods",
    "replicationcontrollers",
    "services",
    "daemonsets.apps",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "horizontalpodautoscalers.autoscaling",
    "cronjobs.batch",
    "jobs.batch",
)
"""The kinds of `kubectl get all`, in its order; custom kinds are next, then all others."""

_Identity = tuple[str, str]
"""The resource and the key of an object."""


class _Change(NamedTuple):
    at: float
    identity: _Identity
    row: tuple[str, ...] | None


class _History(NamedTuple):
    """The facts of a recording that a playback may have."""

    heads: dict[str, list[str]]
    changes: list[_Change]
    events: list[tuple[float, str, str, int, str]]
    logs: list[tuple[float, str, str]]
    steps: list[tuple[float, str]]
    failure: tuple[float, str, str] | None


def make_playback(recording: Recording, redact: Callable[[str], str]) -> Playback:
    """Return the playback of a recording, of at most `MAX_PLAYBACK` bytes.

    Args:
        recording: the recording of a test.
        redact: redacts cells and messages; logs, steps and the failure are redacted already.
    """
    history = _read_history(recording, redact)
    playback = _compose(recording, history, 1)
    for divisor in _DIVISORS[1:]:
        if len(msgspec.json.encode(playback)) <= MAX_PLAYBACK:
            break
        playback = _compose(recording, history, divisor)
    return playback


def _read_history(recording: Recording, redact: Callable[[str], str]) -> _History:
    own = set(recording.header.namespaces)
    printer = _Printer(recording, redact)
    history = _History(printer.heads, [], [], [], [], None)
    failure = None
    latest: dict[_Identity, tuple[str, ...] | None] = {}
    for line in recording.lines:
        at = round(line.at, 3)
        if line.type == "LOG":
            text = truncate_middle(line.text.rstrip("\n"), _MAX_TEXT)
            history.logs.append((max(at, 0.0), f"{line.pod}/{line.container}", text))
        elif line.type == "STEP":
            history.steps.append((at, truncate_middle(line.text, _MAX_TEXT)))
        elif line.type == "FAILURE" and failure is None:
            failure = (at, line.outcome, truncate_middle(line.text, 2 * _MAX_TEXT))
        elif line.type in _CHANGES and line.resource == _EVENTS:
            if line.key.partition("/")[0] in own and line.type != "DELETED":
                event = read_event(line.object)
                if event.type == "Warning":
                    message = truncate_middle(redact(event.message), 2 * _MAX_TEXT)
                    history.events.append((at, event.subject, event.reason, event.times, message))
        elif line.type in _CHANGES and _is_shown(line, own):
            identity = (line.resource, line.key)
            row = None if line.type == "DELETED" else printer.row(line)
            if identity not in latest or latest[identity] != row:
                latest[identity] = row
                history.changes.append(_Change(at, identity, row))
    changes = _without_idle_objects(history.changes, own)
    return history._replace(changes=changes, failure=failure)


def _is_shown(line: RecordedLine, own: set[str]) -> bool:
    namespace, slash, name = line.key.partition("/")
    if slash:
        return namespace in own and (line.resource, name) not in _IN_EVERY_NAMESPACE
    if line.resource == _NAMESPACES:
        return line.key in own
    if line.resource == _VOLUMES:
        claim = (line.object.get("spec") or {}).get("claimRef") or {}
        return not claim or claim.get("namespace") in own
    return line.resource not in _OF_SERVICES


def _without_idle_objects(changes: list[_Change], own: set[str]) -> list[_Change]:
    """Leave out what has no namespace and did not change while the test's namespaces were there."""
    since = min(
        (
            change.at
            for change in changes
            if change.identity[0] == _NAMESPACES and change.identity[1] in own
        ),
        default=0.0,
    )
    moved = {change.identity for change in changes if change.at > since}
    return [
        change
        for change in changes
        if "/" in change.identity[1]
        or change.identity[0] == _NAMESPACES
        or change.identity in moved
    ]


class _Printer:
    """Prints the rows of objects.

    Args:
        recording: the recording, for its definitions of custom kinds.
        redact: redacts cells.
    """

    def __init__(self, recording: Recording, redact: Callable[[str], str]) -> None:
        self.heads: dict[str, list[str]] = {}
        """The names of the printed columns of each resource."""
        self._redact = redact
        self._columns: dict[str, tuple[Columns, list[int]]] = {}
        self._definitions = {
            line.key: line.object for line in recording.lines if line.resource == _DEFINITIONS
        }

    def row(self, line: RecordedLine) -> tuple[str, ...]:
        """Return the cells of an object but for its name; none if it cannot be printed."""
        columns, indexes = self._find(line)
        try:
            cells = columns.cells(line.object)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # The object of another program, without a field that all others have.
            return ()
        texts = [_format_cell(cells[index]) for index in indexes]
        if line.resource == "pods":
            texts = [_AGO.sub("", text) for text in texts]
        return tuple(truncate_middle(self._redact(text), _MAX_CELL) for text in texts)

    def _find(self, line: RecordedLine) -> tuple[Columns, list[int]]:
        entry = self._columns.get(line.resource)
        if entry is None:
            columns = self._columns_of(line)
            is_built_in = line.resource in BUILT_IN_COLUMNS
            indexes = [
                index
                for index, head in enumerate(columns.definitions)
                if index > 0
                and not head["priority"]
                and head["type"] != "date"
                and not (is_built_in and head["name"] in _COUNTING)
            ]
            entry = self._columns[line.resource] = (columns, indexes)
            self.heads[line.resource] = [columns.definitions[index]["name"] for index in indexes]
        return entry

    def _columns_of(self, line: RecordedLine) -> Columns:
        definition = self._definitions.get(line.resource)
        if definition is None:
            return BUILT_IN_COLUMNS.get(line.resource, GENERIC_COLUMNS)
        version = str(line.object.get("apiVersion")).rpartition("/")[2]
        for definition_version in definition["spec"]["versions"]:
            if definition_version["name"] == version:
                return custom_resource_columns(
                    definition_version.get("additionalPrinterColumns") or ()
                )
        return GENERIC_COLUMNS


def _format_cell(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    return " ".join(str(cell).split())


def _compose(recording: Recording, history: _History, divisor: int) -> Playback:
    header = recording.header
    identities, left_out = _choose_objects(history.changes, _MAX_OBJECTS // divisor)
    own = next(iter(header.namespaces), "")
    resources = sorted({resource for resource, _ in identities}, key=_rank)
    kinds = {resource: number for number, resource in enumerate(resources)}
    ordered = sorted(identities, key=lambda identity: (kinds[identity[0]], identity[1]))
    numbers = {identity: number for number, identity in enumerate(ordered)}
    changes = [change for change in history.changes if change.identity in numbers]
    changes, dropped, begin = _limit_changes(changes, _MAX_CHANGES // divisor)
    rows: dict[tuple[str, ...], int] = {}
    playback = Playback(
        round(header.started, 3),
        round(recording.end, 3),
        begin,
        kinds=[
            PlayedKind(resource, history.heads.get(resource, []), left_out.get(resource, 0))
            for resource in resources
        ],
        objects=[(kinds[resource], key.removeprefix(f"{own}/")) for resource, key in ordered],
        steps=history.steps[-(_MAX_STEPS // divisor) :],
        failure=history.failure,
        events=history.events[-(_MAX_EVENTS // divisor) :],
        logs=history.logs[-(_MAX_LOGS // divisor) :],
    )
    playback.changes = [
        (
            change.at,
            numbers[change.identity],
            -1 if change.row is None else rows.setdefault(change.row, len(rows)),
        )
        for change in changes
    ]
    playback.rows = [list(row) for row in rows]
    omitted = {
        "changes": dropped,
        "events": len(history.events) - len(playback.events),
        "logs": len(history.logs) - len(playback.logs),
    }
    playback.left_out = {name: count for name, count in omitted.items() if count}
    return playback


def _rank(resource: str) -> tuple[int, str]:
    if resource in _FIRST_KINDS:
        return _FIRST_KINDS.index(resource), resource
    return len(_FIRST_KINDS) + (resource in BUILT_IN_COLUMNS), resource


def _choose_objects(changes: list[_Change], limit: int) -> tuple[set[_Identity], dict[str, int]]:
    """Return the objects to show, and how many of each resource are left out.

    Of many objects of a kind, those whose last states are rare tell most.

    Args:
        limit: maximum objects of a kind.
    """
    last = {change.identity: change for change in changes}
    shared = Counter((change.identity[0], change.row) for change in last.values())
    by_resource: dict[str, list[_Change]] = {}
    for change in last.values():
        by_resource.setdefault(change.identity[0], []).append(change)
    identities: set[_Identity] = set()
    left_out: dict[str, int] = {}
    for resource, resource_changes in by_resource.items():
        if len(resource_changes) > limit:
            resource_changes.sort(
                key=lambda change: (shared[change.identity[0], change.row], -change.at)
            )
            left_out[resource] = len(resource_changes) - limit
        identities.update(change.identity for change in resource_changes[:limit])
    return identities, left_out


def _limit_changes(changes: list[_Change], limit: int) -> tuple[list[_Change], int, float]:
    """Return the last changes after the state before them, how many are left out, and the begin."""
    moves = [change for change in changes if change.at > 0]
    if len(moves) <= limit:
        return changes, 0, 0.0
    begin = moves[-limit - 1].at
    state = {change.identity: change.row for change in changes if change.at <= begin}
    first = [_Change(begin, identity, row) for identity, row in state.items() if row is not None]
    later = [change for change in moves if change.at > begin]
    return [*first, *later], len(moves) - len(later), begin

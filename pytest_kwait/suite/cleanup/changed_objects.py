"""Objects of the cluster that a test changed, and their restoration.

A test that cordons, taints or labels a node leaves it as it was. Each change writes, in the same
request, an annotation with what the object had before; the test's end restores that, and the
janitor does for a run that was killed. Only fields that still have the value that the test gave
them are restored.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.times import format_time, parse_time_or_none
from pytest_kwait.errors import ApiError
from pytest_kwait.framework.operations.edit import change_object, merge_patch_between
from pytest_kwait.suite.cleanup.owned_objects import (
    ANNOTATION_PREFIX,
    KEPT_LIFETIME,
    Owner,
    read_provenance,
)
from pytest_kwait.suite.cleanup.run_lease import format_kind
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.framework.operations.edit import Change

LABEL_CHANGED = f"{ANNOTATION_PREFIX}changed"
"""The label of objects that have a record, for the janitor."""

_RECORD = f"{ANNOTATION_PREFIX}undo-"
_ABSENT = {"kwait": "absent"}
"""A field that an object does not have; null would be one that it has."""

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """What an object had before a test changed it, as its annotation records it.

    Args:
        key: the annotation.
        run: the id of the run.
        test: the id of the test.
        heartbeat: namespace/name of the run's Lease; empty for none.
        expires: seconds since the epoch after which it is undone in any case.
        fields: pairs of former and given value by path; the path is a list of keys.
    """

    key: str
    run: str
    test: str
    heartbeat: str
    expires: float
    fields: tuple[tuple[tuple[str, ...], Any, Any], ...]


def read_undo_records(obj: Mapping[str, Any]) -> list[UndoRecord]:
    """Return the records of an object; those that cannot be read are left out."""
    records = []
    notes = obj["metadata"].get("annotations") or {}
    for key, text in notes.items():
        if not key.startswith(_RECORD):
            continue
        try:
            content = json.loads(text)
            expires = parse_time_or_none(content["expires"])
            fields = tuple((tuple(path), was, value) for path, was, value in content["fields"])
            if expires is not None and all(
                isinstance(part, str) for path, _, _ in fields for part in path
            ):
                records.append(
                    UndoRecord(
                        key,
                        str(content["run"]),
                        str(content["test"]),
                        str(content["heartbeat"]),
                        expires,
                        fields,
                    )
                )
        except (KeyError, TypeError, ValueError):
            continue
    return records


def restore_object(
    session: ApiSession,
    resource: Resource,
    name: str,
    namespace: str | None,
    keys: frozenset[str],
    deadline: Deadline,
) -> str | None:
    """Restore what records of an object hold, and remove these; return the failure, if any."""
    try:
        change_object(session, resource, name, namespace, partial(_restored, keys), deadline)
    except ApiError as error:
        return None if error.status == 404 else str(error)
    except DeadlineExceeded as error:
        return str(error)
    return None


def _restored(keys: frozenset[str], obj: Obj) -> Obj:
    for record in read_undo_records(obj):
        if record.key not in keys:
            continue
        fields = _to_fields(obj)
        for path, was, value in reversed(record.fields):
            if fields.get(path, _ABSENT) == value:
                if was == _ABSENT:
                    fields.pop(path, None)
                else:
                    fields[path] = was
        obj = _from_fields(obj, fields)
        metadata = obj["metadata"]
        metadata["annotations"].pop(record.key, None)
        if not any(key.startswith(_RECORD) for key in metadata["annotations"]):
            (metadata.get("labels") or {}).pop(LABEL_CHANGED, None)
    return obj


class ChangedObjects:
    """The objects that one test changed, restored at its end, last changed first.

    Args:
        session: the client for requests.
        owner: the test.
    """

    def __init__(self, session: ApiSession, owner: Owner) -> None:
        self._session = session
        self._owner = owner
        self._key = f"{_RECORD}{owner.digest[:8]}"
        self._changed: dict[tuple[Resource, str | None, str], None] = {}

    def __len__(self) -> int:
        return len(self._changed)

    def is_own(self, resource: Resource, obj: Mapping[str, Any]) -> bool:
        """Return whether an object belongs to this run, and goes with it."""
        provenance = read_provenance(resource, obj)
        return provenance is not None and provenance.owner.run == self._owner.run

    def recording(self, resource: Resource, namespace: str | None, change: Change) -> Change:
        """Return a change that also records what it changes."""

        def changed(obj: Obj) -> Obj:
            before = copy.deepcopy(obj)
            after = change(obj)
            if self.is_own(resource, before) or not merge_patch_between(before, after):
                return after
            return self.recorded(resource, namespace, before, after)

        return changed

    def recorded(self, resource: Resource, namespace: str | None, before: Obj, after: Obj) -> Obj:
        """Return a changed object with the record of its change.

        Args:
            before: the object as it was.
            after: the object as it will be.
        """
        registration, heartbeat = self._owner.registration, ""
        if registration is not None:
            heartbeat = registration.place()
            registration.record(format_kind(resource))
        earlier = {record.key: record for record in read_undo_records(before)}.get(self._key)
        fields = list(earlier.fields) if earlier is not None else []
        was, after_fields = _to_fields(before), _to_fields(after)
        for path in sorted(was.keys() | after_fields.keys()):
            old, new = was.get(path, _ABSENT), after_fields.get(path, _ABSENT)
            if old != new:
                fields.append((path, old, new))
        text = json.dumps(
            {
                "run": self._owner.run,
                "test": self._owner.test,
                "heartbeat": heartbeat,
                "expires": format_time(self._session.clock.time() + KEPT_LIFETIME),
                "fields": fields,
            }
        )
        metadata = after["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), self._key: text}
        metadata["labels"] = {**(metadata.get("labels") or {}), LABEL_CHANGED: "true"}
        self._changed[resource, namespace, before["metadata"]["name"]] = None
        return after

    def restore(self, deadline: Callable[[], Deadline]) -> list[str]:
        """Restore all objects; return what could not be restored, each with its reason."""
        problems = []
        while self._changed:
            resource, namespace, name = self._changed.popitem()[0]
            problem = restore_object(
                self._session, resource, name, namespace, frozenset({self._key}), deadline()
            )
            if problem is not None:
                problems.append(f"{resource.kind.lower()}/{name}: {problem}")
        return problems


def _to_fields(obj: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Return the fields of an object that a test can change, by path.

    Taints are fields of their own, by key and effect: controllers add some meanwhile.
    """
    fields: dict[tuple[str, ...], Any] = {}

    def add(path: tuple[str, ...], value: Any) -> None:
        if path == ("spec", "taints") and isinstance(value, list):
            for taint in value:
                fields[*path, f"{taint.get('key')}:{taint.get('effect')}"] = taint
        elif isinstance(value, dict) and value:
            for name, inner in value.items():
                add((*path, name), inner)
        else:
            fields[path] = value

    for name, value in obj.items():
        if name == "metadata":
            for part in ("labels", "annotations"):
                for key, text in (value.get(part) or {}).items():
                    if key != LABEL_CHANGED and not key.startswith(_RECORD):
                        fields["metadata", part, key] = text
        elif name not in ("apiVersion", "kind", "status"):
            add((name,), value)
    return fields


def _from_fields(obj: Obj, fields: Mapping[tuple[str, ...], Any]) -> Obj:
    """Return a copy of an object with these fields in place of its own."""
    result: Obj = {name: obj[name] for name in ("apiVersion", "kind", "status") if name in obj}
    own = obj["metadata"]
    metadata = {name: own[name] for name in own if name not in ("labels", "annotations")}
    for part in ("labels", "annotations"):
        metadata[part] = {
            key: text
            for key, text in (own.get(part) or {}).items()
            if key == LABEL_CHANGED or key.startswith(_RECORD)
        }
    result["metadata"] = metadata
    for path, value in fields.items():
        if path[:2] == ("spec", "taints") and len(path) == 3:
            result.setdefault("spec", {}).setdefault("taints", []).append(value)
            continue
        place = result
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    return result

"""The history of a worker's namespaces on any cluster, from one watch per resource.

A watch is of all namespaces, and lists only those of the worker's tests: new ones need no further
request. Where that is forbidden, each namespace has a watch of its own. Each event is written to a
journal as it arrives, so that memory holds one small entry per object; `protocol.recording` has
the format.

Of Secrets only the metadata is requested. The values that a recording hides in other texts come
from one list of them, which is sent when the recording is made.
"""

from __future__ import annotations

import io
import math
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import msgspec

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.apimachinery.times import parse_time_or_none
from pytest_kwait.cache.listwatch import ListWatch, parse_resource_version
from pytest_kwait.cache.reflector import Reflector, is_permanent
from pytest_kwait.client.resource import (
    BUILT_IN_GROUPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from pytest_kwait.client.responses import ObjectList, PartialObjectMetadata, decode_object
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.simulator.protocol.recording.files import (
    CLUSTER_JOURNAL,
    NAMESPACE_JOURNALS,
    RawLine,
    find_instance,
    merge_journals,
)
from pytest_kwait.simulator.protocol.recording.journal import (
    KEPT_SECONDS,
    RecordingJournal,
    hide_values,
    without_data,
)
from pytest_kwait.suite.artifacts.dump import (
    MAX_LOGS,
    WORKERS,
    ContainerRun,
    list_container_runs,
    read_log,
)
from pytest_kwait.suite.artifacts.recording import (
    SECRETS_TIMEOUT,
    hide_secret_values,
    learn_secret_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait.client.responses import Item
    from pytest_kwait.clock import Clock

MAX_CUSTOM_RESOURCES = 40
"""Custom resources that are watched, the first of discovery."""

MIN_WATCH_TIMEOUT = 3600.0
"""Minimum seconds after which the server ends a watch; the maximum is twice that."""

_CLUSTER_SCOPED = frozenset(
    {
        CUSTOM_RESOURCE_DEFINITIONS.qualified,
        NAMESPACES.qualified,
        NODES.qualified,
        PERSISTENT_VOLUMES.qualified,
        PRIORITY_CLASSES.qualified,
        STORAGE_CLASSES.qualified,
        VOLUME_ATTACHMENTS.qualified,
        "deviceclasses.resource.k8s.io",
        "ingressclasses.networking.k8s.io",
        "runtimeclasses.node.k8s.io",
        "volumeattributesclasses.storage.k8s.io",
    }
)
"""Watched resources without a namespace: nodes, volumes, classes, definitions."""

_MAX_UNUSED = 50
"""Definitions without objects in a recording, at most: those of a test and of its neighbours."""

_WORDS = re.compile(r"[\s/,]+")

_SYSTEM_NAMESPACES = ("kube-system", "kube-node-lease")
"""Namespaces that are busy on every cluster; the server leaves them out of watches."""

_CONCURRENT_LISTS = 4
_MAX_MISSES = 4
"""Failures in a row after which a resource that is not found counts as removed."""

_DISCOVERY_TIMEOUT = 10.0
_MAX_PAUSE = 30.0
_QUIET_SECONDS = 0.2
"""Seconds without a change after which everything before counts as reported."""

_LOOK_SECONDS = 0.02

_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(RawLine)


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str | None


class _Shape(TypedDict, total=False):
    """The fields of an object that are decoded."""

    kind: str
    metadata: _Metadata


class _Place(NamedTuple):
    """The latest line of an object in its journal.

    Args:
        revision: the object's resourceVersion.
        offset: the position of the line, in bytes.
        size: its length.
    """

    revision: int
    offset: int
    size: int


class _IndexedJournal:
    """A journal that knows the latest line of each object.

    Args:
        stem: its path without suffix.
        namespace: its namespace; None for the cluster's.
        begun: when the recording of its objects began, in seconds since the epoch.
    """

    def __init__(self, stem: Path, namespace: str | None, begun: float) -> None:
        self.journal = RecordingJournal(stem, namespace)
        self.known: dict[tuple[str, str], _Place] = {}
        self.journal.open(begun)

    def write(
        self, at: float, change: str, resource: str, key: str, revision: int, raw: bytes
    ) -> None:
        """Append the line of an object."""
        if self.journal.is_full:
            self._divide(at)
        line = self.journal.encode_change(at, change, resource, key, revision, raw)
        offset = self.journal.write(line)
        if change == "DELETED":
            self.known.pop((resource, key), None)
        else:
            self.known[resource, key] = _Place(revision, offset, len(line))

    def read(self, resource: str, key: str) -> bytes:
        """Return the latest JSON of a known object."""
        place = self.known[resource, key]
        line = _line_decoder.decode(self.journal.read(place.offset, place.size))
        return bytes(line.object)

    def _divide(self, at: float) -> None:
        """Begin a new part with the present state."""
        state = [
            (identity, place.revision, self.read(*identity))
            for identity, place in self.known.items()
        ]
        self.journal.open(at)
        lines: list[bytes] = []
        offset = 0
        for (resource, key), revision, raw in state:
            line = self.journal.encode_change(at, "STATE", resource, key, revision, raw)
            self.known[resource, key] = _Place(revision, offset, len(line))
            lines.append(line)
            offset += len(line)
        start = self.journal.write_state(b"".join(lines))
        for identity, place in self.known.items():
            self.known[identity] = place._replace(offset=start + place.offset)


class WatchedHistory:
    """Writes the history of namespaces to journals, from `enter` on.

    Requests are sent in threads of their own. None of their errors is raised: a recording must not
    change the test that it records.

    Args:
        connect: returns a new client.
        folder: where the journals are written; created if needed.
        begun: when this process began, in seconds since the epoch: what is older counts as there
            from the start.
        clock: the clock of the lines.
    """

    def __init__(
        self,
        connect: Callable[[], ApiClient],
        folder: Path,
        begun: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.folder = folder
        self.trouble = ""
        """Why writing stopped, e.g. a full disk; empty while it works."""
        self.lists = threading.BoundedSemaphore(_CONCURRENT_LISTS)
        self._connect = connect
        self._clock = clock
        self._begun = begun
        self._latest = begun
        self._changed_at = clock.monotonic()
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._entered = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_starting = True
        self._start_error = ""
        self._client: ApiClient | None = None
        self._session: ApiSession | None = None
        self._cluster: _IndexedJournal | None = None
        self._journals: dict[str, _IndexedJournal] = {}
        self._observed: dict[str, bool] = {}
        """The recorded namespaces, and whether they are known to exist."""
        self._last_observed = ""
        self._watches: dict[str, _ResourceWatch] = {}
        self._unwatched: dict[str, Resource] = {}

    @property
    def session(self) -> ApiSession | None:
        """The session of the watches; None until the cluster is connected."""
        return self._session

    def start(self) -> None:
        """Connect to the cluster, in a thread; the first namespace opens the watches."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(
                    target=self._start, name="kwait-recording", daemon=True
                )
                self._thread.start()

    def enter(self, namespace: str, *, is_new: bool) -> None:
        """Record a namespace from now on.

        Call it before the namespace is created, to miss nothing, and once it is there.

        Args:
            namespace: its name.
            is_new: whether it does not exist yet.
        """
        with self._lock:
            if self.trouble or self._stopped.is_set():
                return
            self._remove_ended()
            self._observed[namespace] = not is_new
            self._last_observed = namespace
            known = self._journals.get(namespace)
            if known is not None:
                known.journal.ended_at = None
            else:
                try:
                    self._open_journals(namespace, is_new=is_new)
                except OSError as error:
                    self._fail(error)
                    return
            watches = list(self._watches.values())
            self.start()
            self._entered.set()
        if not is_new:
            for watch in watches:
                watch.add(namespace, is_known=known is not None)

    def _open_journals(self, namespace: str, *, is_new: bool) -> None:
        if self._cluster is None:
            path = self.folder / CLUSTER_JOURNAL
            self._cluster = _IndexedJournal(path, None, self._begun)
        # What is there already counts as there when the test began.
        begun = self._now() if is_new else self._begun
        path = self.folder / NAMESPACE_JOURNALS / namespace
        self._journals[namespace] = _IndexedJournal(path, namespace, begun)

    def leave(self, namespace: str) -> None:
        """Record a namespace no longer; its journal stays for a minute."""
        with self._lock:
            self._observed.pop(namespace, None)
            if namespace in self._journals:
                self._journals[namespace].journal.ended_at = self._clock.time()
            watches = list(self._watches.values())
        for watch in watches:
            watch.remove(namespace)

    def settle(self, limit: float) -> None:
        """Wait until everything up to now is likely written.

        Args:
            limit: maximum seconds.
        """
        deadline = Deadline.after(limit, self._clock)
        begun = self._clock.monotonic()
        while not deadline.expired and not self._is_quiet(begun):
            self._clock.wait(self._stopped, _LOOK_SECONDS)
            if self._stopped.is_set():
                return

    def problems(self) -> list[str]:
        """Return what is not recorded, in a line for each reason."""
        if self._start_error:
            return [f"nothing is recorded yet: {self._start_error}"]
        reasons: dict[str, list[str]] = {}
        with self._lock:
            if self._thread is not None and self._session is None:
                return ["nothing is recorded yet: the cluster has not answered"]
            watches = list(self._watches.values())
            for name in self._unwatched:
                text = f"there are more than {MAX_CUSTOM_RESOURCES} custom resources"
                reasons.setdefault(text, []).append(name)
        for watch in watches:
            why = watch.problem or watch.describe_missing_list()
            if why:
                reasons.setdefault(why, []).append(watch.resource.qualified)
        lines = [f"{', '.join(sorted(names))} left out: {why}" for why, names in reasons.items()]
        return [*lines, *([self.trouble] if self.trouble else [])]

    def stop(self) -> None:
        """End all watches and close the journals."""
        with self._lock:
            self._stopped.set()
            self._entered.set()
            watches = list(self._watches.values())
            cluster = [] if self._cluster is None else [self._cluster]
            for indexed_journal in (*cluster, *self._journals.values()):
                indexed_journal.journal.close()
        for watch in watches:
            watch.stop()
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call] # the official client has no types here

    def observed(self) -> list[str]:
        """Return the recorded namespaces; the last one if there is none."""
        with self._lock:
            return list(self._observed) or [self._last_observed]

    def existing(self) -> list[str]:
        """Return the recorded namespaces that exist."""
        with self._lock:
            return [name for name, exists in self._observed.items() if exists]

    def write_list(
        self,
        resource: Resource,
        items: Iterable[Item],
        resource_version: str,
        namespaces: Collection[str] | None,
    ) -> None:
        """Write what has changed according to a list.

        Args:
            resource: the listed resource.
            items: its objects.
            resource_version: the version of the list.
            namespaces: the listed namespaces; None if it has none.
        """
        listed = {self._write(resource, "", item.object, item.raw) for item in items}
        revision = parse_resource_version(resource_version) or 0
        with self._lock:
            for indexed_journal in self._list_journals(resource, namespaces):
                for name, key in [*indexed_journal.known]:
                    if name == resource.qualified and key not in listed:
                        self._write_line(
                            indexed_journal, self._now(), "DELETED", name, key, revision, None
                        )

    def write_event(
        self, resource: Resource, change: str, obj: Mapping[str, Any], raw: bytes
    ) -> None:
        """Write a change; no-op for an object of another namespace.

        Args:
            change: `ADDED`, `MODIFIED` or `DELETED`.
            obj: its decoded fields.
            raw: its JSON.
        """
        self._write(resource, change, obj, raw)

    def add_definition(self, raw: bytes) -> None:
        """Watch the custom resource of a definition, once the server has it."""
        definition = decode_object(raw)
        resource = _find_custom_resource(definition)
        with self._lock:
            known = None if resource is None else self._watches.get(resource.qualified)
        if resource is not None and (known is None or known.is_removed):
            self._watch([resource])

    def watch_left_out(self) -> None:
        """Watch custom resources that had no place, as far as there is one now."""
        with self._lock:
            left_out = list(self._unwatched.values())
        self._watch(left_out)

    def _start(self) -> None:
        """Connect and open the watches; tries until it succeeds or is stopped."""
        pause = 1.0
        while not self._stopped.is_set():
            try:
                client = self._client or self._connect()
                session = ApiSession.of(client)
                session.logs_warnings = False
                self._client = client
                deadline = Deadline.after(_DISCOVERY_TIMEOUT, session.clock)
                kinds = session.list_kinds(deadline=deadline)
            except KwaitError as error:
                self._start_error = " ".join(str(error).split())
                self._is_starting = False
                self._clock.wait(self._stopped, pause)
                pause = min(2 * pause, _MAX_PAUSE)
            else:
                self._session, self._start_error = session, ""
                self._entered.wait()
                self._watch(_select_resources(kinds))
                self._is_starting = False
                return

    def _watch(self, resources: Iterable[Resource]) -> None:
        """Start to watch resources, of custom ones so many as are allowed."""
        session = self._session
        if session is None:
            return
        started: list[_ResourceWatch] = []
        with self._lock:
            if self._stopped.is_set():
                return
            custom = sum(
                not _is_built_in(watch.resource) and not watch.is_removed
                for watch in self._watches.values()
            )
            for resource in resources:
                custom += not _is_built_in(resource)
                if not _is_built_in(resource) and custom > MAX_CUSTOM_RESOURCES:
                    self._unwatched[resource.qualified] = resource
                    continue
                self._unwatched.pop(resource.qualified, None)
                watch = self._watches[resource.qualified] = _ResourceWatch(self, session, resource)
                started.append(watch)
        for watch in started:
            watch.start()

    def _is_quiet(self, since: float) -> bool:
        if self._is_starting and self._thread is not None:
            return False
        with self._lock:
            watches = list(self._watches.values())
            last = self._changed_at
        if not all(watch.is_settled for watch in watches) or self._awaits_namespace():
            return False
        return self._clock.monotonic() - max(last, since) >= _QUIET_SECONDS

    def _awaits_namespace(self) -> bool:
        """Return whether the watch of namespaces has still to report one that exists."""
        name = NAMESPACES.qualified
        with self._lock:
            watch = self._watches.get(name)
            if watch is None or watch.problem or watch.is_removed:
                return False
            existing = [namespace for namespace, exists in self._observed.items() if exists]
            journals = [(each, self._journals.get(each)) for each in existing]
            return any(
                journal is not None and (name, namespace) not in journal.known
                for namespace, journal in journals
            )

    def _list_journals(
        self, resource: Resource, namespaces: Collection[str] | None
    ) -> list[_IndexedJournal]:
        if namespaces is None:
            return [] if self._cluster is None else [self._cluster]
        return [self._journals[name] for name in namespaces if name in self._journals]

    def _journal_of(self, resource: Resource, key: str) -> _IndexedJournal | None:
        """Return the journal of an object; None for one of another namespace."""
        namespace, slash, _ = key.partition("/")
        if slash or _is(resource, NAMESPACES):
            return self._journals.get(namespace)
        return self._cluster

    def _write(self, resource: Resource, change: str, obj: Mapping[str, Any], raw: bytes) -> str:
        """Write an object; return its key. An empty change is found by what is known."""
        metadata = obj.get("metadata") or {}
        name = str(metadata.get("name"))
        key = f"{metadata['namespace']}/{name}" if metadata.get("namespace") else name
        qualified = resource.qualified
        with self._lock:
            indexed_journal = self._journal_of(resource, key)
            if indexed_journal is None or self.trouble or self._stopped.is_set():
                return key
            revision = parse_resource_version(str(metadata.get("resourceVersion"))) or 0
            known = indexed_journal.known.get((qualified, key))
            at = self._now()
            if change == "DELETED":
                if known is None:
                    return key
            elif known is not None:
                if revision <= known.revision:
                    return key
                change = "MODIFIED"
            else:
                at, change = (
                    self._find_start(indexed_journal, metadata, at) if not change else (at, "ADDED")
                )
            raw = _complete(raw, resource, typed=bool(obj.get("kind")))
            self._write_line(indexed_journal, at, change, qualified, key, revision, raw)
        return key

    def _find_start(
        self, indexed_journal: _IndexedJournal, metadata: Mapping[str, Any], now: float
    ) -> tuple[float, str]:
        """Return when a listed object came to be as far as that is known, and its change."""
        created = parse_time_or_none(metadata.get("creationTimestamp"))
        if created is None:
            return now, "ADDED"
        # Times are in whole seconds.
        if created < int(self._begun) and indexed_journal.journal.started == self._begun:
            return self._begun, "STATE"
        return min(max(created, indexed_journal.journal.started), now), "ADDED"

    def _write_line(
        self,
        indexed_journal: _IndexedJournal,
        at: float,
        change: str,
        resource: str,
        key: str,
        revision: int,
        raw: bytes | None,
    ) -> None:
        """Write a line; None for an object as it was last."""
        if self.trouble or self._stopped.is_set():
            return
        self._changed_at = self._clock.monotonic()
        try:
            raw = indexed_journal.read(resource, key) if raw is None else raw
            raw = hide_values(raw, SECRET_VALUES)
            indexed_journal.write(at, change, resource, key, revision, raw)
        except OSError as error:
            self._fail(error)

    def _now(self) -> float:
        # The clock may be set back.
        self._latest = max(self._latest, self._clock.time())
        return self._latest

    def _remove_ended(self) -> None:
        now = self._clock.time()
        for name, indexed_journal in [*self._journals.items()]:
            ended = indexed_journal.journal.ended_at
            if ended is not None and now - ended >= KEPT_SECONDS:
                indexed_journal.journal.remove()
                del self._journals[name]

    def _fail(self, error: OSError) -> None:
        """Stop writing: a full disk must not end the test that is recorded."""
        self.trouble = f"{self.folder}: {error.strerror}"
        # In a thread that holds no lock.
        threading.Thread(target=self.stop, name="kwait-recording-end", daemon=True).start()


class _ResourceWatch:
    """The watches of one resource: one of all namespaces, or one for each of the tests'.

    Args:
        history: the history that gets its events.
    """

    def __init__(self, history: WatchedHistory, session: ApiSession, resource: Resource) -> None:
        self.resource = resource
        self.problem = ""
        """Why it is not watched; empty if it is."""
        self.is_removed = False
        """True once the server has no such resource any more."""
        self._history = history
        self._session = session
        self._lock = threading.Lock()
        self._shared: _Recorder | None = None
        self._own: dict[str, _Recorder] = {}
        self._is_stopped = False

    @property
    def is_settled(self) -> bool:
        """True if all its objects are listed, or cannot be."""
        return bool(self.problem) or all(recorder.is_settled for recorder in self._recorders())

    def describe_missing_list(self) -> str:
        """Return why its objects are not listed yet; empty if they are, or are not there."""
        missing = [] if self.is_removed else [r for r in self._recorders() if not r.is_listed]
        return _describe_missing_list(missing[0].last_error) if missing else ""

    def _recorders(self) -> list[_Recorder]:
        with self._lock:
            return [*([self._shared] if self._shared else []), *self._own.values()]

    def start(self) -> None:
        """Watch all namespaces."""
        with self._lock:
            if not self._is_stopped:
                self._shared = _Recorder(self._history, self._session, self, None)
                self._shared.start()

    def add(self, namespace: str, *, is_known: bool) -> None:
        """Watch an existing namespace as well.

        Args:
            namespace: its name.
            is_known: whether it was expected before it existed.
        """
        with self._lock:
            shared = self._shared
        if shared is None:
            self._add_own(namespace)
        elif not is_known and (self.resource.namespaced or _is(self.resource, NAMESPACES)):
            shared.refresh()

    def remove(self, namespace: str) -> None:
        """End the watch of a namespace alone."""
        with self._lock:
            recorder = self._own.pop(namespace, None)
        if recorder is not None:
            recorder.stop()

    def stop(self) -> None:
        """End all watches."""
        with self._lock:
            self._is_stopped = True
        for recorder in self._recorders():
            recorder.stop()

    def give_up(self, recorder: _Recorder, error: Exception) -> None:
        """End a watch that the server refuses; try each namespace instead of all."""
        recorder.stop()
        status = error.status if isinstance(error, ApiError) else 0
        if status == 404:
            self.is_removed = True
            self._history.watch_left_out()
        elif status == 403 and recorder is self._shared and self.resource.namespaced:
            with self._lock:
                self._shared = None
            for namespace in self._history.existing():
                self._add_own(namespace)
        else:
            self.problem = _describe(error)

    def _add_own(self, namespace: str) -> None:
        with self._lock:
            is_over = self._is_stopped or self.problem or self.is_removed
            if is_over or namespace in self._own or not self.resource.namespaced:
                return
            self._own[namespace] = _Recorder(self._history, self._session, self, namespace)
            self._own[namespace].start()


class _Recorder:
    """Lists and watches a resource, and hands its objects to the history.

    Args:
        owner: the watch that it belongs to.
        namespace: the only namespace; None for all.
    """

    def __init__(
        self,
        history: WatchedHistory,
        session: ApiSession,
        owner: _ResourceWatch,
        namespace: str | None,
    ) -> None:
        resource = owner.resource
        self._history = history
        self._session = session
        self._owner = owner
        self._namespace = namespace
        self._type = PartialObjectMetadata if _is(resource, SECRETS) else _Shape
        self._listed: list[str] = []
        self._is_failing = False
        fields = None
        if namespace is None and resource.namespaced:
            own = history.observed()
            left_out = [name for name in _SYSTEM_NAMESPACES if name not in own]
            fields = ",".join(f"metadata.namespace!={name}" for name in left_out) or None
        self._reflector = Reflector(
            ListWatch(session, resource, namespace, field_selector=fields, type=self._type),
            self,
            on_error=self._on_error,
            min_watch_timeout=MIN_WATCH_TIMEOUT,
            send_list=self._list,
        )

    @property
    def is_settled(self) -> bool:
        """True if all objects are listed, or cannot be."""
        return self.is_listed or self._is_failing or self._reflector.stopped

    @property
    def is_listed(self) -> bool:
        """True once all objects were listed."""
        return bool(self._reflector.last_sync_resource_version)

    @property
    def last_error(self) -> Exception | None:
        """The error of the latest list or watch; None after success, and while it is pending."""
        return self._reflector.last_error

    def start(self) -> None:
        """List and watch in a thread."""
        threading.Thread(
            target=self._reflector.run,
            name=f"kwait-recording-{self._owner.resource.plural}",
            daemon=True,
        ).start()

    def refresh(self) -> None:
        """List again, since there is a further namespace."""
        self._reflector.refresh()

    def stop(self) -> None:
        """End the watch."""
        self._reflector.stop()

    def replace(self, items: Sequence[Item], resource_version: str) -> None:
        """Write what a list shows to have changed."""
        resource = self._owner.resource
        self._is_failing = False
        if _is(resource, CUSTOM_RESOURCE_DEFINITIONS):
            for item in items:
                self._history.add_definition(item.raw)
        has_namespace = resource.namespaced or _is(resource, NAMESPACES)
        namespaces = self._listed if has_namespace else None
        self._history.write_list(resource, items, resource_version, namespaces)

    def add(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Write a new object."""
        self._write("ADDED", obj, raw)

    def update(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Write a changed object."""
        self._write("MODIFIED", obj, raw)

    def delete(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Write the end of an object."""
        self._write("DELETED", obj, raw)

    def bookmark(self, resource_version: str) -> None:
        """Do nothing: the reflector remembers it."""

    def _write(self, change: str, obj: Mapping[str, Any], raw: bytes) -> None:
        resource = self._owner.resource
        if _is(resource, CUSTOM_RESOURCE_DEFINITIONS) and change != "DELETED":
            self._history.add_definition(raw)
        self._history.write_event(resource, change, obj, raw)

    def _list(self, deadline: Deadline) -> ObjectList:
        """List the tests' namespaces alone: the watch goes on from there in all."""
        with self._history.lists:
            resource = self._owner.resource
            names = [self._namespace] if self._namespace else self._history.observed()
            self._listed = names
            if _is(resource, NAMESPACES):
                places = [(None, f"metadata.name={name}") for name in names]
            elif resource.namespaced:
                return _merge([self._list_place(deadline, name) for name in names])
            else:
                return self._list_place(deadline, None)
            return _merge([self._list_place(deadline, *place) for place in places])

    def _list_place(
        self, deadline: Deadline, namespace: str | None, fields: str | None = None
    ) -> ObjectList:
        return self._session.list(
            self._owner.resource,
            namespace,
            field_selector=fields,
            deadline=deadline,
            type=self._type,
        )

    def _on_error(self, error: Exception) -> None:
        self._is_failing = True
        failures = self._reflector.failures_in_row
        # A definition may be established a moment before its resource is served.
        is_early = isinstance(error, ApiError) and error.status == 404 and failures < _MAX_MISSES
        if is_permanent(error, in_row=failures) and not is_early:
            self._owner.give_up(self, error)


def _merge(lists: Sequence[ObjectList]) -> ObjectList:
    """Return lists of one resource as one, which is complete up to the oldest of them."""
    if len(lists) == 1:
        return lists[0]
    oldest = min(
        lists, key=lambda object_list: parse_resource_version(object_list.resource_version) or 0
    )
    items = [item for object_list in lists for item in object_list.items]
    return ObjectList(items, oldest.resource_version, oldest.kind, oldest.api_version)


def _select_resources(kinds: Iterable[Resource]) -> list[Resource]:
    """Return the resources to watch, custom ones last."""
    watchable_kinds = [
        kind
        for kind in kinds
        if {"list", "watch"} <= kind.verbs
        and (kind.namespaced or kind.qualified in _CLUSTER_SCOPED)
        # Both groups of events serve the same ones.
        and (kind.kind != EVENTS.kind or not kind.group)
    ]
    return sorted(watchable_kinds, key=lambda kind: not _is_built_in(kind))


def _is(resource: Resource, known: Resource) -> bool:
    """Return whether a server's resource is a known one; it has more verbs, for example."""
    return resource.qualified == known.qualified


def _is_built_in(resource: Resource) -> bool:
    return not resource.group or resource.group in BUILT_IN_GROUPS


def _find_custom_resource(definition: Mapping[str, Any]) -> Resource | None:
    """Return the resource of a definition; None if it has no namespace or is not served yet."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    served = [version for version in spec.get("versions") or () if version.get("served")]
    served.sort(key=lambda version: not version.get("storage"))
    is_there = is_condition_true(definition, "Established")
    if not (is_there and served and spec.get("scope") == "Namespaced"):
        return None
    return Resource(
        group=str(spec["group"]),
        version=str(served[0]["name"]),
        plural=str(names["plural"]),
        kind=str(names["kind"]),
        namespaced=True,
    )


def _complete(raw: bytes, resource: Resource, *, typed: bool) -> bytes:
    """Return the JSON of an object with its kind, and of a Secret without data."""
    if _is(resource, SECRETS):
        secret = {**decode_object(raw), "apiVersion": resource.api_version, "kind": resource.kind}
        return _encoder.encode(without_data(secret))
    if typed:
        return raw
    # Items of lists have none.
    return b'{"apiVersion":"%b","kind":"%b",%b' % (
        resource.api_version.encode(),
        resource.kind.encode(),
        raw.lstrip()[1:],
    )


def _describe(error: Exception) -> str:
    if isinstance(error, ApiError) and error.status == 403:
        return "they cannot be listed and watched (forbidden)"
    return " ".join(str(error).split())


def _describe_missing_list(error: Exception | None) -> str:
    if error is None:
        why = "the cluster has not answered"
    elif isinstance(error, ApiError):
        # Without the path, which differs for each resource.
        why = ": ".join(filter(None, (f"{error.status or ''} {error.reason}", error.message)))
    else:
        why = str(error)
    return " ".join(f"not listed yet: {why}".split())


def read_history(
    folder: Path,
    namespaces: Sequence[str],
    session: ApiSession | None,
    deadline: Deadline,
    report: Callable[[str], object],
    *,
    started: float = math.inf,
    awaited: Iterable[str] = (),
) -> list[RawLine]:
    """Return the history of namespaces with the logs of their pods, ordered by time.

    Values of Secrets are hidden. Definitions are left out that have no object here, were not
    changed since the start of the test, and were not awaited.

    Args:
        folder: the folder of the journals.
        session: reads logs and Secrets; None to leave them out.
        deadline: when that must be finished.
        report: called with each problem.
        started: when the test started, in seconds since the epoch.
        awaited: the subjects of its waits.

    Returns:
        lines with times in seconds since the epoch.

    Raises:
        OSError: a journal cannot be read.
        InvalidArgument: a journal is corrupted.
    """
    lines = merge_journals(folder, namespaces, 0.0)
    if session is not None:
        left = max(deadline.remaining - SECRETS_TIMEOUT, deadline.remaining / 2)
        lines += _read_logs(session, lines, namespaces, deadline.at_most(left), report)
        # After the logs, which may have values of Secrets that came meanwhile.
        learn_secret_values(session, namespaces, deadline, report)
        lines.sort(key=lambda line: (line.at, line.revision))
    used = {line.resource for line in lines} | _find_definitions(lines, started, awaited)
    definitions = CUSTOM_RESOURCE_DEFINITIONS.qualified
    lines = [line for line in lines if line.resource != definitions or line.key in used]
    hide_secret_values(lines)
    return lines


def _find_definitions(lines: Sequence[RawLine], started: float, awaited: Iterable[str]) -> set[str]:
    """Return the names of definitions that a test has changed or awaited, the latest of many."""
    words = {word for subject in awaited for word in _WORDS.split(subject.lower())}
    found: dict[str, float] = {}
    for line in lines:
        if line.resource != CUSTOM_RESOURCE_DEFINITIONS.qualified or not line.key:
            continue
        is_changed = line.type != "STATE" and line.at >= started
        if is_changed or (words and words & _list_names(line)):
            found[line.key] = line.at
    return {name for _, name in sorted((at, name) for name, at in found.items())[-_MAX_UNUSED:]}


def _list_names(definition: RawLine) -> set[str]:
    """Return the names by which messages call a definition and its objects."""
    plural = definition.key.partition(".")[0]
    names = {definition.key, plural}
    if len(definition.object):
        spec = decode_object(definition.object).get("spec") or {}
        given = spec.get("names") or {}
        names |= {str(given.get(field) or plural).lower() for field in ("kind", "singular")}
    return names


def _read_logs(
    session: ApiSession,
    lines: Sequence[RawLine],
    namespaces: Sequence[str],
    deadline: Deadline,
    report: Callable[[str], object],
) -> list[RawLine]:
    """Return the lines that containers of the latest pods have logged."""
    pods: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line.resource == PODS.qualified and line.key.partition("/")[0] in namespaces:
            if line.type == "DELETED":
                pods.pop(line.key, None)
            else:
                pods[line.key] = decode_object(line.object)
    runs = [(pod, run) for pod in pods.values() for run in list_container_runs([pod])]
    runs.sort(key=lambda run: not run[1].failing)
    if len(runs) > MAX_LOGS:
        report(f"logs of {len(runs) - MAX_LOGS} of {len(runs)} containers are left out")
    if not runs:
        return []

    def read(pod: dict[str, Any], run: ContainerRun) -> list[RawLine]:
        try:
            return list(_read_log(session, pod, run, deadline))
        except KwaitError as error:
            report(f"{run}: {error}")
            return []

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="kwait-recording") as pool:
        log_parts = pool.map(lambda run: read(*run), runs[:MAX_LOGS])
        return [line for part in log_parts for line in part]


def _read_log(
    session: ApiSession, pod: dict[str, Any], run: ContainerRun, deadline: Deadline
) -> Iterator[RawLine]:
    namespace = str(pod["metadata"]["namespace"])
    text = read_log(session, namespace, run, deadline, timestamps=True)
    instance = find_instance(pod, run.container, previous=run.previous)
    # A log is divided at line feeds alone: progress bars have carriage returns.
    for line in io.StringIO(text):
        stamp, _, rest = line.partition(" ")
        at = parse_time_or_none(stamp)
        if at is not None:
            yield RawLine(
                at=at,
                type="LOG",
                namespace=namespace,
                pod=run.pod,
                container=run.container,
                instance=instance,
                text=rest,
            )

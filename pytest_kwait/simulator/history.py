"""The history of an embedded cluster, written to journals about once a second.

Each namespace has a journal until some time after its end; nodes, volumes, classes and the system's
namespaces share one. A write of an object costs one entry of a list: encoding waits for the next
flush, and what lived shorter is never encoded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.apimachinery.secret_mask import SecretMask
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, async_sleep
from pytest_kwait.simulator.protocol.recording.files import (
    CLUSTER_JOURNAL,
    NAMESPACE_JOURNALS,
    RecordedLine,
)
from pytest_kwait.simulator.protocol.recording.journal import (
    KEPT_SECONDS,
    RecordingJournal,
    hide_values,
    without_data,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import LogPlace
    from pytest_kwait.simulator.store import Change, Entry

_FLUSH_SECONDS = 1.0
_BATCH = 200
"""Changes that are written without a pause, about 5 ms."""

_SYSTEM_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
_encoder = msgspec.json.Encoder()


class HistoryJournals:
    """The journals of one cluster.

    Args:
        folder: where the journals are written; created if needed.
        clock: the wall clock, which faults of the cluster's clock do not change.
    """

    def __init__(self, cluster: Cluster, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self.folder = folder
        self.trouble = ""
        """Why writing stopped, e.g. a full disk; empty while it works."""
        self._cluster = cluster
        self._clock = clock
        self._pending: list[tuple[float, str, Change]] = []
        self._latest = clock.time()
        self._cluster_journal = RecordingJournal(folder / CLUSTER_JOURNAL, None)
        self._journals: dict[str, RecordingJournal] = {}
        self._mask = SecretMask()
        """The values of all Secrets: an operator prints those of other namespaces."""
        self._new_secrets: list[Entry] = []
        self._log_positions: dict[str, dict[str, int]] = {}
        """By namespace and container id: the number of lines that are written."""
        self._task: asyncio.Task[None] | None = None
        self._stop_listening = cluster.store.listen(self._on_change)
        for entry in cluster.store.entries("secrets"):
            self._learn(entry)
        try:
            self._cluster_journal.open(self._latest)
            self._write_state(self._cluster_journal)
            for entry in cluster.store.entries("namespaces"):
                if entry.key not in _SYSTEM_NAMESPACES:
                    self._write_state(self._open_journal(entry.key))
        except OSError as error:
            self._fail(error)

    def start(self) -> None:
        """Flush once a second, in the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def flush(self) -> None:
        """Write everything up to now."""
        while self._pending and not self.trouble:
            self._flush_batch()
        self._finish_flush()

    def stop(self) -> None:
        """Write everything up to now, and end."""
        self._stop_listening()
        if self._task is not None:
            self._task.cancel()
        self.flush()
        for journal in (self._cluster_journal, *self._journals.values()):
            journal.close()

    def _on_change(self, resource: str, change: Change) -> None:
        self._pending.append((self._clock.time(), resource, change))
        if resource == "secrets":
            self._new_secrets.append(change.new)

    async def _run(self) -> None:
        while not self.trouble:
            await async_sleep(_FLUSH_SECONDS)
            while self._new_secrets:
                self._learn(self._new_secrets.pop(0))
                await async_sleep(0)
            while self._pending and not self.trouble:
                self._flush_batch()
                await async_sleep(0)
            self._finish_flush()

    def _flush_batch(self) -> None:
        batch, self._pending = self._pending[:_BATCH], self._pending[_BATCH:]
        # First: texts from before a Secret may have its values.
        for entry in self._new_secrets:
            self._learn(entry)
        self._new_secrets.clear()
        pending_changes: list[tuple[RecordingJournal, float, str, Change]] = []
        try:
            for at, resource, change in batch:
                # The clock may be set back.
                self._latest = max(self._latest, at)
                key = change.new.key
                if resource == "namespaces" and key not in _SYSTEM_NAMESPACES:
                    if change.type == "ADDED" and key in self._journals:
                        # Changes before it belong to the part that is about to end.
                        self._write_changes(pending_changes)
                        pending_changes.clear()
                    self._on_namespace(change.type, key)
                journal = self._journal_for(key)
                if journal is not None:
                    pending_changes.append((journal, self._latest, resource, change))
            self._write_changes(pending_changes)
        except OSError as error:
            self._fail(error)

    def _write_changes(self, changes: list[tuple[RecordingJournal, float, str, Change]]) -> None:
        lines: dict[RecordingJournal, list[bytes]] = {}
        for journal, at, resource, change in changes:
            line = self._encode(journal, at, change.type, resource, change.new)
            lines.setdefault(journal, []).append(line)
        for journal, parts in lines.items():
            journal.write(b"".join(parts))

    def _finish_flush(self) -> None:
        """Write logs, divide large journals, and remove those of ended namespaces."""
        try:
            self._write_logs()
            for journal in (self._cluster_journal, *self._journals.values()):
                if journal.is_full and journal.ended_at is None:
                    journal.open(self._latest)
                    self._write_state(journal)
            for name, journal in [*self._journals.items()]:
                ended = journal.ended_at
                if ended is not None:
                    # Few files are open at a time.
                    journal.close()
                if ended is not None and self._clock.time() - ended >= KEPT_SECONDS:
                    journal.remove()
                    del self._journals[name]
                    self._log_positions.pop(name, None)
        except OSError as error:
            self._fail(error)

    def _journal_for(self, key: str) -> RecordingJournal | None:
        """Return the journal of an object; None if its namespace has ended or is unknown."""
        namespace, slash, _ = key.partition("/")
        if not slash or namespace in _SYSTEM_NAMESPACES:
            return self._cluster_journal
        journal = self._journals.get(namespace)
        return None if journal is None or journal.ended_at is not None else journal

    def _open_journal(self, namespace: str) -> RecordingJournal:
        stem = self.folder / NAMESPACE_JOURNALS / namespace
        journal = self._journals.setdefault(namespace, RecordingJournal(stem, namespace))
        journal.open(self._latest)
        return journal

    def _on_namespace(self, change: str, name: str) -> None:
        if change == "ADDED":
            self._open_journal(name)
        elif change == "DELETED" and name in self._journals:
            self._journals[name].ended_at = self._latest

    def _write_state(self, journal: RecordingJournal) -> None:
        """Write the present objects of a journal."""
        store = self._cluster.store
        parts = [
            self._encode(journal, self._latest, "STATE", resource, entry)
            for resource in store.resources()
            for entry in store.entries(resource, journal.namespace)
            if self._journal_for(entry.key) is journal
        ]
        journal.write_state(b"".join(parts))

    def _encode(
        self, journal: RecordingJournal, at: float, change: str, resource: str, entry: Entry
    ) -> bytes:
        if resource == "secrets":
            raw = _encoder.encode(without_data(entry.obj))
        else:
            raw = hide_values(entry.raw, self._mask)
            if self._cluster.store.get(resource, entry.key) is not entry:
                entry.forget_raw()
        return journal.encode_change(at, change, resource, entry.key, entry.revision, raw)

    def _learn(self, secret: Entry) -> None:
        """Hide the values of a Secret in all texts from now on."""
        self._mask.learn(secret.obj)

    def _write_logs(self) -> None:
        """Write the lines that containers have logged since the last flush."""
        if not self._cluster.kubelets:
            return
        # Faults may have set the cluster's clock.
        ahead = self._cluster.clock.time() - self._clock.time()
        lines: dict[RecordingJournal, list[bytes]] = {}
        for kubelet in self._cluster.kubelets.values():
            for place, log in kubelet.container_logs():
                journal = self._journals.get(place.namespace)
                if journal is None or journal.ended_at is not None:
                    continue
                positions = self._log_positions.setdefault(place.namespace, {})
                position = positions.get(place.instance, 0)
                positions[place.instance], new = log.read_from(position)
                lines.setdefault(journal, []).extend(
                    _encode_log(journal, place, stamp - ahead, text, self._mask)
                    for stamp, text in new
                )
        for journal, parts in lines.items():
            journal.write(b"".join(parts))

    def _fail(self, error: OSError) -> None:
        """Stop: a recording must not end the cluster that it records."""
        self.trouble = f"{self.folder}: {error.strerror}"
        self._stop_listening()
        self._pending.clear()


def _encode_log(
    journal: RecordingJournal, place: LogPlace, at: float, text: bytes, mask: SecretMask
) -> bytes:
    line = RecordedLine(
        at=round(at - journal.started, 6),
        type="LOG",
        namespace=place.namespace,
        pod=place.pod,
        container=place.container,
        instance=place.instance,
        text=mask.mask(text.decode("utf-8", "replace")),
    )
    return _encoder.encode(line) + b"\n"


class Recordings:
    """The recordings of a cluster's history that are active, by folder."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_folder: dict[str, HistoryJournals] = {}
        cluster.services.on_close(self.close)

    def record(self, folder: Path) -> HistoryJournals:
        """Record into a folder from now on; a recording that is active is written up to now."""
        journals = self._by_folder.get(str(folder))
        if journals is None:
            journals = self._by_folder[str(folder)] = HistoryJournals(self._cluster, folder)
            journals.start()
        else:
            journals.flush()
        return journals

    def stop(self) -> None:
        """Write everything up to now, and record no more."""
        for journals in self._by_folder.values():
            journals.stop()
        self._by_folder.clear()

    async def close(self) -> None:
        """Complete all recordings, when the cluster ends."""
        self.stop()


def get_recordings(cluster: Cluster) -> Recordings:
    """Return the recordings of a cluster."""
    return cluster.services.get(Recordings, lambda: Recordings(cluster))

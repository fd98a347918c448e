"""The format of recordings: JSON lines in order of time, compressed with gzip.

The first line is a `RecordingHeader`, each other one a `RecordedLine`; `docs/replay.md` describes
both. gzip, since every system reads it and the standard library has it: zstd would save a tenth of
a file and need a dependency.

Journals have the same lines without compression: those of a cluster that is killed are complete but
for their last line.
"""

from __future__ import annotations

import contextlib
import gzip
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pytest_kwait.apimachinery.times import format_duration, to_seconds
from pytest_kwait.bounds import (
    Seconds,
    check_values,
    encode_json,
    read_bounded,
    unpack,
)
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

VERSION = 1
"""The version of the format; raised whenever an older program could misread it."""

FAILURE = "failure"
"""The time of the first failure of the test, as an argument."""

JOURNAL_SUFFIX = ".jsonl"
OLDER_SUFFIX = ".older.jsonl"
"""The suffix of a journal's older part."""
CLUSTER_JOURNAL = "cluster"
"""The name of the journal of nodes, volumes, classes and system namespaces."""
NAMESPACE_JOURNALS = "namespaces"
"""The folder of the journals of other namespaces."""

_COMPRESSION = 4
_GZIP_START = b"\x1f\x8b"
_MAX_DECIMALS = 6
_encoder = msgspec.json.Encoder()

_version_decoder = msgspec.json.Decoder(dict[str, Any])


class RecordingHeader(msgspec.Struct, omit_defaults=True):
    """The first line.

    Args:
        kwait_recording: the version of the format.
        started: when the test began, in seconds since the epoch; all other times count from it.
        test: the id of the test; empty in a journal.
        namespaces: the namespaces of the test, its own first.
        version: the version of the cluster, as `v1.36.2`.
        run: the id of the run.
        worker: the worker of pytest-xdist; empty without.
        time_scale: the duration of the cluster's controllers' work relative to a real cluster's.
    """

    kwait_recording: int
    started: Seconds
    test: str = ""
    namespaces: list[str] = []
    version: str = ""
    run: str = ""
    worker: str = ""
    time_scale: Seconds = 1.0


class _LineFields(msgspec.Struct, omit_defaults=True):
    at: Seconds
    type: str
    resource: str = ""
    key: str = ""
    revision: int = 0
    namespace: str = ""
    pod: str = ""
    container: str = ""
    instance: str = ""
    text: str = ""
    goal: str = ""
    seconds: Seconds = 0.0
    outcome: str = ""
    step: str = ""
    changes: list[tuple[Seconds, str]] = []


class RecordedLine(_LineFields, omit_defaults=True):
    """One line of a recording.

    Args:
        at: its time, in seconds since the start of the test.
        type: `STATE` for an object of the start, `ADDED`, `MODIFIED` or `DELETED` for a change,
            `LOG` for a line of a container, `WAIT`, `STEP`, `FAILURE`, and `END` for the last.
        resource: the object's resource with its group, as `jobs.batch`.
        key: the object's `NAMESPACE/NAME`, or its name.
        revision: the object's resourceVersion; of a deletion, that of the deletion.
        namespace: of a log, the pod's namespace.
        pod: of a log, the pod's name.
        container: of a log, the container's name.
        instance: of a log, the container's id, which each restart changes.
        text: the line of a log; the subject of a wait; the name of a step; the failure.
        goal: of a wait, the awaited state.
        seconds: of a wait, its duration.
        outcome: of a wait, as in reports; of a failure, the phase of the test.
        step: of a wait, the steps of the test that it was in.
        changes: of a wait, the changes of its verdict, in seconds since its begin.
        object: the object; empty for other lines. A Secret has no data.
    """

    object: dict[str, Any] = {}


class RawLine(_LineFields, omit_defaults=True):
    """A line whose object is not decoded."""

    object: msgspec.Raw = msgspec.Raw()


_header_decoder = msgspec.json.Decoder(RecordingHeader)
_line_decoder = msgspec.json.Decoder(RecordedLine)
_raw_line_decoder = msgspec.json.Decoder(RawLine)


class Recording(NamedTuple):
    """A recording.

    Args:
        header: its first line.
        lines: the others, ordered by time, without the `END`.
        end: its last moment.
    """

    header: RecordingHeader
    lines: list[RecordedLine]
    end: float

    @property
    def failure(self) -> float | None:
        """The time of the first failure; None without one."""
        return next((line.at for line in self.lines if line.type == "FAILURE"), None)

    def parse_time(self, text: str, what: str) -> float:
        """Return a time of the recording in seconds: `failure`, or a duration since its start.

        Raises:
            InvalidArgument: it is no time, or not within the recording.
        """
        if text == FAILURE:
            if self.failure is None:
                raise InvalidArgument(
                    what, text, "the recording has no failure; use a time as 3.5s"
                )
            return self.failure
        seconds = to_seconds(text, what=what)
        if seconds > self.end:
            raise InvalidArgument(
                what, text, f"the recording ends at {format_duration(round(self.end, 3))}"
            )
        return seconds


def find_times(recording: Recording) -> str:
    """Return the times of a recording's end and failure, as a phrase."""
    end = format_duration(round(recording.end, 3))
    if recording.failure is None:
        return f"0s to {end}"
    return f"0s to {end}, failure at {format_duration(round(recording.failure, 3))}"


def encode_recording(header: RecordingHeader, lines: Iterable[RawLine], end: float) -> bytes:
    """Return a recording as the contents of a file.

    Args:
        lines: ordered by time.
        end: the last moment.
    """
    parts = [encode_json(header)]
    parts += [encode_json(line) for line in lines]
    parts.append(_encoder.encode({"at": round(end, _MAX_DECIMALS), "type": "END"}))
    return gzip.compress(b"\n".join((*parts, b"")), _COMPRESSION, mtime=0)


def read_recording(path: Path, what: str = "FILE") -> Recording:
    """Read a recording, or the journals of a run that was killed.

    Args:
        path: the file; of a killed run, the journal of a namespace, or a folder of journals, its
            workers' included.
        what: the name of the argument, for messages.

    Raises:
        InvalidArgument: it cannot be read, is no recording, of another version, cut or corrupted.
    """
    try:
        if path.is_dir():
            return _read_folders(path, what)
        data = read_bounded(path, what)
    except OSError as error:
        raise InvalidArgument(
            what, str(path), f"it cannot be read: {error.strerror or error}"
        ) from None
    if not data.startswith(_GZIP_START):
        _check_header(data, what, str(path))
        if path.parent.name == NAMESPACE_JOURNALS:
            names = {path.name.partition(".")[0]}
            return _merge_folders([path.parent.parent], names, what)
        return _decode(data, what, str(path))
    return _decode(_decompress(data, what, str(path)), what, str(path))


def _decompress(data: bytes, what: str, value: str) -> bytes:
    try:
        return unpack(data, what, value)
    except EOFError:
        raise _cut_error(what, value) from None
    except zlib.error as error:
        raise InvalidArgument(what, value, f"it is corrupted: {error}") from None


def _cut_error(what: str, value: str) -> InvalidArgument:
    return InvalidArgument(what, value, "it is cut: its end is missing; copy it again")


def _check_header(data: bytes, what: str, value: str) -> RecordingHeader:
    check_values(data, what, value)
    if not data.strip():
        raise InvalidArgument(what, value, "it is empty")
    first = data.partition(b"\n")[0]
    try:
        version = _version_decoder.decode(first).get("kwait_recording")
    except (msgspec.DecodeError, UnicodeDecodeError):
        version = None
    if version is None:
        raise InvalidArgument(
            what, value, "it is no recording: --kwait-record writes one, as recording.jsonl.gz"
        )
    if version != VERSION:
        raise InvalidArgument(
            what,
            value,
            f"it is a recording of version {version!r}, and this pytest-kwait reads version "
            f"{VERSION}; use the pytest-kwait that wrote it",
        )
    try:
        return _header_decoder.decode(first)
    except msgspec.ValidationError as error:
        raise InvalidArgument(what, value, f"it is corrupted: line 1: {error}") from None


def _decode(data: bytes, what: str, value: str) -> Recording:
    header = _check_header(data, what, value)
    _, _, body = data.partition(b"\n")
    whole, _, _ = body.rpartition(b"\n")
    lines: list[RecordedLine] = []
    for number, text in enumerate(whole.split(b"\n") if whole else (), 2):
        try:
            lines.append(_line_decoder.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(what, value, f"it is corrupted: line {number}: {error}") from None
    if not lines or lines[-1].type != "END":
        raise _cut_error(what, value)
    end = lines.pop().at
    return Recording(header, lines, end)


def _read_folders(folder: Path, what: str) -> Recording:
    """Read the journals of a killed run: of its cluster, or of its workers.

    Raises:
        OSError: the folder cannot be read.
    """
    folders = [
        candidate
        for candidate in (folder, *sorted(folder.iterdir()))
        if _list_journals(candidate) or _list_journals(candidate / NAMESPACE_JOURNALS)
    ]
    if folders[:1] == [folder]:
        # Its subfolder has the journals of its namespaces.
        folders = [folder]
    if not folders:
        raise InvalidArgument(what, str(folder), "it is a folder without journals of a killed run")
    names = {
        path.name.partition(".")[0]
        for journal_folder in folders
        for path in _list_journals(journal_folder / NAMESPACE_JOURNALS)
    }
    return _merge_folders(folders, names, what)


def _merge_folders(folders: Sequence[Path], namespaces: Collection[str], what: str) -> Recording:
    """Read journals of namespaces, and those of the cluster beside them.

    Raises:
        OSError: a journal cannot be read.
    """
    names = sorted(namespaces)
    raw_lines = [line for folder in folders for line in merge_journals(folder, names, 0.0, what)]
    if len(folders) > 1:
        raw_lines.sort(key=_line_order)
    started = min((line.at for line in raw_lines if _is_of(line, names)), default=None)
    if started is None:
        started = raw_lines[0].at if raw_lines else 0.0
    merged = fold(raw_lines, started)
    lines = [_line_decoder.decode(_encoder.encode(line)) for line in merged]
    end = lines[-1].at if lines else 0.0
    header = RecordingHeader(VERSION, started, namespaces=names)
    return Recording(header, lines, end)


def _is_of(line: RawLine, namespaces: Sequence[str]) -> bool:
    return (line.namespace or line.key.rpartition("/")[0]) in namespaces


def _list_journals(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{JOURNAL_SUFFIX}"))


def merge_journals(
    folder: Path, namespaces: Iterable[str], started: float, what: str = "FILE"
) -> list[RawLine]:
    """Return the lines of the cluster's journal and of namespaces, ordered by time.

    Args:
        folder: the folder of the journals.
        namespaces: the namespaces; those without a journal are left out.
        started: the time from which the result counts, in seconds since the epoch.
        what: the name of the argument, for messages.

    Raises:
        InvalidArgument: a journal is corrupted.
        OSError: a journal cannot be read.
    """
    stems = [folder / CLUSTER_JOURNAL]
    stems += [folder / NAMESPACE_JOURNALS / name for name in namespaces]
    lines: list[RawLine] = []
    for stem in stems:
        known: dict[tuple[str, str], int] = {}
        for path, data in _read_parts(stem, what):
            lines += _parse_journal(path, data, started, known, what)
    lines.sort(key=_line_order)
    return lines


def _read_parts(stem: Path, what: str) -> list[tuple[Path, bytes]]:
    """Return the parts of a journal with their contents, the older one first.

    Its writer may divide it meanwhile, which makes the current part the older one: then they are
    read again.
    """
    older = stem.with_name(stem.name + OLDER_SUFFIX)
    current = stem.with_name(stem.name + JOURNAL_SUFFIX)
    while True:
        identity = _identity_of(older)
        parts = []
        for path in (older, current):
            with contextlib.suppress(FileNotFoundError):
                parts.append((path, read_bounded(path, what)))
        if _identity_of(older) == identity:
            return parts


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return what differs between files that have had a path; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns


def _line_order(line: RawLine) -> tuple[float, int]:
    return line.at, line.revision


def find_instance(pod: Mapping[str, Any], container: str, *, previous: bool) -> str:
    """Return the id of a container's current or previous instance; empty without one.

    A container that waits shows its last instance as the current one, as a kubelet does.
    """
    status = pod.get("status") or {}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container_status in status.get(field) or ():
            if container_status["name"] == container:
                last = ((container_status.get("lastState") or {}).get("terminated") or {}).get(
                    "containerID"
                )
                waits = "waiting" in (container_status.get("state") or {})
                return str(
                    (last if previous or waits else container_status.get("containerID")) or ""
                )
    return ""


def _parse_journal(
    path: Path, data: bytes, started: float, known: dict[tuple[str, str], int], what: str
) -> Iterator[RawLine]:
    """Yield the lines of a journal, without objects that are the same in its older part."""
    if not data.partition(b"\n")[1]:
        return  # killed while it wrote the first line
    offset = _check_header(data, what, str(path)).started - started
    body, _, _ = data.partition(b"\n")[2].rpartition(b"\n")
    for number, text in enumerate(body.split(b"\n") if body else (), 2):
        try:
            line = _raw_line_decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(
                what, str(path), f"it is corrupted: line {number}: {error}"
            ) from None
        if line.key:
            identity = (line.resource, line.key)
            if line.type == "STATE" and known.get(identity) == line.revision:
                continue
            known[identity] = line.revision
        line.at = round(line.at + offset, _MAX_DECIMALS)
        yield line


def fold(lines: Sequence[RawLine], started: float) -> list[RawLine]:
    """Return lines with times from `started` on: everything before is a state of the start.

    Args:
        lines: ordered by time, in seconds since the epoch.
        started: the new start.
    """
    state: dict[tuple[str, str], RawLine] = {}
    logs: list[RawLine] = []
    later: list[RawLine] = []
    for line in lines:
        line.at = round(line.at - started, _MAX_DECIMALS)
        if line.at > 0 and line.type != "STATE":
            later.append(line)
        elif line.type == "LOG":
            line.at = min(line.at, 0.0)
            logs.append(line)
        elif line.type == "DELETED":
            state.pop((line.resource, line.key), None)
        elif line.at > 0:
            line.type = "MODIFIED" if (line.resource, line.key) in state else "ADDED"
            later.append(line)
        else:
            line.type, line.at = "STATE", 0.0
            state[line.resource, line.key] = line
    first = sorted(state.values(), key=lambda line: line.revision)
    return [*first, *logs, *later]

from __future__ import annotations

import gzip
from typing import IO, TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.recording.files import (
    VERSION,
    RawLine,
    RecordingHeader,
    find_times,
    fold,
    merge_journals,
    read_recording,
)
from pytest_kwait.simulator.protocol.recording.journal import RecordingJournal
from tests.simulator.protocol.recording.lines import (
    LINES,
    STARTED,
    change,
    log,
    recorded_pod,
    recording,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = read_recording(recording(tmp_path / "a.gz"))
    assert found.header == RecordingHeader(
        1, STARTED, "test_shop.py::test_it", ["t-1"], "v1.36.2", "r1"
    )
    assert [(line.at, line.type) for line in found.lines] == [
        (line.at, line.type) for line in LINES
    ]
    assert found.lines[1].object == recorded_pod(5)
    assert (found.end, found.failure) == (6.0, 4.2)
    assert find_times(found) == "0s to 6s, failure at 4.2s"


def test_times_are_within_the_recording(tmp_path: Path) -> None:
    found = read_recording(recording(tmp_path / "a.gz"))
    assert found.parse_time("1.5s", "--at") == 1.5
    assert found.parse_time("failure", "--at") == 4.2
    with pytest.raises(InvalidArgument) as caught:
        found.parse_time("7s", "--at")
    assert str(caught.value) == "--at='7s' is not valid: the recording ends at 6s"
    passed = read_recording(recording(tmp_path / "b.gz", LINES[:2]))
    with pytest.raises(InvalidArgument) as caught:
        passed.parse_time("failure", "--at")
    assert str(caught.value) == (
        "--at='failure' is not valid: the recording has no failure; use a time as 3.5s"
    )
    assert find_times(passed) == "0s to 6s"


def bad(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(InvalidArgument) as caught:
        read_recording(path)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(f"FILE={str(path)!r} is not valid: ")


def test_bad_files_are_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "f"
    whole = recording(tmp_path / "a.gz").read_bytes()
    plain = gzip.decompress(whole)
    cut = "it is cut: its end is missing; copy it again"
    foreign = "it is no recording: --kwait-record writes one, as recording.jsonl.gz"
    newer = plain.replace(b'"kwait_recording":1', b'"kwait_recording":2')
    torn = bytearray(whole)
    torn[-6] ^= 0xFF

    assert bad(file, b"") == "it is empty"
    assert bad(file, whole[:300]) == cut
    assert bad(file, gzip.compress(plain.rpartition(b'{"at":6')[0])) == cut
    assert bad(file, b"hello") == foreign
    assert bad(file, gzip.compress(b"\xff\x00")) == foreign
    assert bad(file, b"[1]\n") == foreign
    assert bad(file, gzip.compress(newer)) == (
        "it is a recording of version 2, and this pytest-kwait reads version 1; use the "
        "pytest-kwait that wrote it"
    )
    assert bad(file, bytes(torn)).startswith("it is corrupted: ")
    assert bad(file, gzip.compress(plain.replace(b'"STEP"', b'"STEP', 1))).startswith(
        "it is corrupted: line 4: "
    )
    assert bad(file, b'{"kwait_recording":1}\n') == (
        "it is corrupted: line 1: Object missing required field `started`"
    )


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_recording(tmp_path / "none")
    assert str(caught.value).endswith("is not valid: it cannot be read: No such file or directory")
    with pytest.raises(InvalidArgument) as caught:
        read_recording(tmp_path)
    assert str(caught.value).endswith(
        "is not valid: it is a folder without journals of a killed run"
    )


def journal(path: Path, *lines: RawLine, tail: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [RecordingHeader(VERSION, STARTED), *lines]
    path.write_bytes(b"".join(msgspec.json.encode(part) + b"\n" for part in parts) + tail)


def test_journals_of_a_killed_run_open_up_to_their_last_whole_line(tmp_path: Path) -> None:
    namespace = {"metadata": {"name": "t-1", "resourceVersion": "3"}}
    journal(tmp_path / "cluster.jsonl", change(2.0, "ADDED", 3, namespace, "namespaces"))
    own = tmp_path / "namespaces" / "t-1.jsonl"
    journal(
        own, change(2.5, "ADDED", 5, recorded_pod(5)), log(3.0, "hello\n"), tail=b'{"at":3.5,"ty'
    )
    for path in (tmp_path, own):
        found = read_recording(path)
        assert (found.header.started, found.header.namespaces) == (STARTED + 2.5, ["t-1"])
        assert [(line.at, line.type, line.key) for line in found.lines] == [
            (0.0, "STATE", "t-1"),
            (0.0, "STATE", "t-1/web"),
            (0.5, "LOG", ""),
        ]
        assert (found.end, found.failure) == (0.5, None)


def test_the_parts_of_a_journal_are_joined(tmp_path: Path) -> None:
    journal(tmp_path / "cluster.jsonl")
    older = (change(1.0, "ADDED", 5, recorded_pod(5)), change(2.0, "MODIFIED", 7, recorded_pod(7)))
    journal(tmp_path / "namespaces" / "t-1.older.jsonl", *older)
    newer = (change(2.5, "STATE", 7, recorded_pod(7)), change(3.0, "MODIFIED", 9, recorded_pod(9)))
    journal(tmp_path / "namespaces" / "t-1.jsonl", *newer)
    found = read_recording(tmp_path)
    assert [(line.at, line.type, line.revision) for line in found.lines] == [
        (0.0, "STATE", 5),
        (1.0, "MODIFIED", 7),
        (2.0, "MODIFIED", 9),
    ]


def test_the_past_becomes_the_state_of_the_start() -> None:
    gone = recorded_pod(2, name="gone")
    lines = [
        change(10.0, "ADDED", 1, recorded_pod(1)),
        change(11.0, "ADDED", 2, gone),
        log(11.5, "early\n"),
        change(12.0, "MODIFIED", 3, recorded_pod(3)),
        change(13.0, "DELETED", 4, gone),
        change(21.0, "MODIFIED", 5, recorded_pod(5)),
        change(22.0, "STATE", 6, recorded_pod(6, name="other")),
    ]
    assert [(line.at, line.type, line.revision) for line in fold(lines, 20.0)] == [
        (0.0, "STATE", 3),
        (-8.5, "LOG", 0),
        (1.0, "MODIFIED", 5),
        (2.0, "ADDED", 6),
    ]


@pytest.mark.parametrize("is_created", [True, False], ids=["divided", "before the new part"])
def test_a_journal_that_is_divided_while_it_is_read_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_created: bool
) -> None:
    def write(part: RecordingJournal, revision: int) -> None:
        part.write(part.encode_change(3.0, "ADDED", "pods", f"a/{revision}", revision, b"{}"))

    def open_file(path: Path, mode: str) -> IO[Any]:
        if path == part.path:
            monkeypatch.undo()
            if is_created:
                part.open(2.0)
                write(part, 2)
            else:
                path.replace(tmp_path / "cluster.older.jsonl")
        return open_any(path, mode)

    part = RecordingJournal(tmp_path / "cluster", None)
    part.open(0.0)
    write(part, 1)
    # The older part has been looked for, and was not there yet.
    open_any = type(tmp_path).open
    monkeypatch.setattr(type(tmp_path), "open", open_file)
    found = merge_journals(tmp_path, [], 0.0)
    part.close()

    assert [line.revision for line in found] == ([1, 2] if is_created else [1])

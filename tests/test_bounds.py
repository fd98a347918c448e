"""Bounds of recordings, journals and reports, with small bounds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import bounds
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.recording.files import (
    RawLine,
    RecordingHeader,
    encode_recording,
)
from pytest_kwait.simulator.protocol.recording.files import read_recording as read_file
from pytest_kwait.suite.report.files import read_report, render_page
from pytest_kwait.suite.report.records import Journal, JournalEntry, RunRecord, TestRecord
from pytest_kwait.suite.report.run_report import RunReport, encode_report

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = RecordingHeader(1, 0.0)
SURROGATE = "test_it[\udce9]"


def recording(*texts: str) -> bytes:
    return encode_recording(HEADER, [RawLine(0.0, "LOG", text=text) for text in texts], 1.0)


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(InvalidArgument) as caught:
        read()
    return str(caught.value)


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_is_read_up_to_its_unpacked_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(bounds, "MAX_FILE_BYTES", 1000)
    path = tmp_path / "recording.jsonl.gz"
    data = recording("a" * 500)
    path.write_bytes(data if packed else gzip.decompress(data))
    assert [line.text for line in read_file(path).lines] == ["a" * 500]
    data = recording("a" * 1000)
    path.write_bytes(data if packed else gzip.decompress(data))
    assert refusal(lambda: read_file(path)) == (
        f"FILE='{path}' is not valid: it has more than 1,000 bytes, unpacked, which is the most "
        "that is read"
    )


def test_an_archive_of_many_members_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_FILE_BYTES", 1000)
    path = tmp_path / "recording.jsonl.gz"
    path.write_bytes(recording("a") * 20)
    assert "it has more than 1,000 bytes, unpacked" in refusal(lambda: read_file(path))


def test_lines_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_LINE_BYTES", 200)
    path = tmp_path / "recording.jsonl.gz"
    path.write_bytes(recording(*["a" * 100] * 20))
    assert len(read_file(path).lines) == 20
    path.write_bytes(recording("a", "b" * 300, "c"))
    assert refusal(lambda: read_file(path)) == (
        f"FILE='{path}' is not valid: its line 3 has more than 200 bytes, which is the most that "
        "is read"
    )


def test_values_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_VALUES", 100)
    path = tmp_path / "recording.jsonl.gz"
    path.write_bytes(recording("[" * 200))
    text = "it has more than 100 values, which is the most that is read"
    assert refusal(lambda: read_file(path)).endswith(text)
    report = tmp_path / "report.json"
    report.write_bytes(b'{"kwait_report":1,"waits":[' + b"[]," * 100 + b"[]]}")
    assert refusal(lambda: read_report(report, "FILE")).endswith(text)


@pytest.mark.parametrize("number", ["1e308", "-1e308", "1e13"])
def test_a_number_of_seconds_that_no_clock_has_is_an_error(tmp_path: Path, number: str) -> None:
    report = tmp_path / "report.json"
    run = f'{{"id":"1","name":"r","started":{number}}}'
    report.write_text(f'{{"kwait_report":1,"runs":[{run}],"tests":[],"waits":[]}}')
    text = refusal(lambda: read_report(report, "FILE"))
    assert text.startswith(f"FILE='{report}' is not valid: it is a broken report: Expected")
    assert text.endswith("`$.runs[0].started`")
    path = tmp_path / "recording.jsonl"
    path.write_text(f'{{"kwait_recording":1,"started":0.0}}\n{{"at":{number},"type":"END"}}\n')
    assert "it is corrupted: line 2: Expected" in refusal(lambda: read_file(path))


def test_lone_surrogates_are_written_as_escapes(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl.gz"
    header = RecordingHeader(1, 0.0, SURROGATE)
    path.write_bytes(encode_recording(header, [RawLine(0.0, "STEP", text=SURROGATE)], 1.0))
    read = read_file(path)
    assert (read.header.test, read.lines[0].text) == ("test_it[\\udce9]",) * 2


def test_reports_and_journals_of_tests_with_lone_surrogates(tmp_path: Path) -> None:
    test = TestRecord("1", "run", SURROGATE, "passed", 0.0)
    entry = JournalEntry(run=RunRecord("run", "r", 0.0), test=test)
    journal = Journal(tmp_path / "run.journal")
    journal.write(entry)
    journal.close()
    assert json.loads(journal.path.read_bytes())["test"]["test"] == "test_it[\\udce9]"
    report = RunReport(1, runs=[RunRecord("run", "r", 0.0)], tests=[test], waits=[])
    assert b"test_it[\\\\udce9]" in encode_report(report)
    assert "test_it[\\\\udce9]" in render_page(report)


def test_a_device_without_an_end_is_read_up_to_the_limit() -> None:
    with pytest.raises(bounds.FileTooLargeError) as caught:
        bounds.read_limited(Path("/dev/zero"), 1000)
    assert str(caught.value) == "it has more than 1,000 bytes, and at most 1,000 are read"

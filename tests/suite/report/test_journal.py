from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from pytest_kwait.suite.report.records import (
    Journal,
    JournalEntry,
    RunRecord,
    WaitStarted,
    read_entries,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def run(name: str) -> JournalEntry:
    return JournalEntry(run=RunRecord(name, name, 1.0))


def names(path: Path) -> list[str]:
    return [entry.run.name for entry in read_entries(path) if entry.run]


def test_lines_are_read_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.jsonl")
    journal.write(run("one"))
    journal.write(JournalEntry(begun=WaitStarted("i", "r", "s", "g", 2.0)))
    journal.write(run("two"))
    journal.close()
    assert names(journal.path) == ["one", "two"]


def test_killed_process_loses_no_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from pytest_kwait.suite.report.records import Journal, JournalEntry\n"
        "from pytest_kwait.suite.report.records import RunRecord\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "for n in range(100): journal.write(JournalEntry(run=RunRecord(str(n), str(n), 1.0)))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert names(path) == [str(n) for n in range(100)]


def test_truncated_line_is_ignored(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.jsonl")
    journal.write(run("one"))
    with journal.path.open("ab") as file:
        file.write(b'{"run":{"id":"tw')
    assert names(journal.path) == ["one"]


def test_line_truncated_by_a_full_disk_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "a.jsonl")
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, data[:10]))
        journal.write(run("one"))
    journal.write(run("two"))
    assert names(journal.path) == ["two"]


def test_a_disk_that_is_full_fails_no_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "a.jsonl")

    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        journal.write(run("one"))
    journal.write(run("two"))
    assert journal.lost == f"{journal.path}: No space left on device"
    assert names(journal.path) == []


def test_nothing_is_written_after_the_end(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.jsonl")
    journal.close()
    journal.write(run("late"))
    journal.close()
    assert names(journal.path) == []


def test_closed_journal_has_no_file_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "a.jsonl")
    descriptor, closed, close = journal._file, [], os.close

    def closing(number: int) -> None:
        closed.append(number)
        close(number)

    monkeypatch.setattr(os, "close", closing)
    journal.close()
    # Once: the descriptor may be reused by then.
    assert journal._file == -1
    journal.close()
    assert descriptor in closed
    assert -1 not in closed
    assert journal.lost == f"{journal.path}: closed"

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.suite.artifacts.failures_file import (
    FailuresFile,
    find_shard_folders,
    read_failed_phases,
)

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = "# Failures\n\n1 failed test. Run `r1`.\n"


def shown(path: str) -> str:
    return f"shown:{path}"


def make_folder(parent: Path, name: str, **facts: Any) -> Path:
    folder = parent / name
    folder.mkdir()
    known = {"test": f"a.py::{name}", "phase": "call", "headline": "it failed", "run": "r1"}
    (folder / "evidence.json").write_text(json.dumps({**known, **facts}))
    (folder / "failure.txt").write_text("E   it failed\n")
    return folder


def write(parent: Path, text: str = _TEXT, run: str = "r1", started: float = 1.0) -> str:
    return FailuresFile(parent, run, started, lambda text: text).write(text)


def test_failed_phases_are_read_from_the_folder_of_a_test(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "one", waits=[], shard="1/2")
    (folder / "evidence-teardown.json").write_text(
        json.dumps({"test": "a.py::one", "phase": "teardown", "waits": [{"goal": "be ready"}]})
    )
    (folder / "recording.jsonl.gz").write_bytes(b"")
    teardown, call = read_failed_phases(folder, shown)
    assert (call.phase, call.text, call.shard) == ("call", "E   it failed\n", "1/2")
    assert (call.folder, call.recording) == (
        f"shown:{folder}",
        f"shown:{folder}/recording.jsonl.gz",
    )
    # A wait has all that is shown.
    assert (teardown.phase, teardown.text) == ("teardown", "")


@pytest.mark.parametrize(
    ("cluster", "files", "shown"),
    [
        ("embedded b", ["recording.jsonl.gz", "recording-b.jsonl.gz"], "recording-b.jsonl.gz"),
        ("embedded", ["recording.jsonl.gz", "recording-b.jsonl.gz"], "recording.jsonl.gz"),
        ("embedded", ["recording-b.jsonl.gz"], "recording-b.jsonl.gz"),
        ("embedded b", [], ""),
    ],
)
def test_recording_is_that_of_the_cluster_of_the_failure(
    tmp_path: Path, cluster: str, files: list[str], shown: str
) -> None:
    folder = make_folder(tmp_path, "one", cluster=cluster)
    for name in files:
        (folder / name).write_bytes(b"")
    (phase,) = read_failed_phases(folder, lambda path: path.rpartition("/")[2])
    assert phase.recording == shown


def test_unreadable_evidence_is_left_out(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "one")
    (folder / "evidence.json").write_text('{"test": "a.py::one", "pha')
    assert read_failed_phases(folder, shown) == []
    assert read_failed_phases(tmp_path / "absent", shown) == []


def test_folders_of_other_shards_are_those_of_the_same_run(tmp_path: Path) -> None:
    known, other = make_folder(tmp_path, "known"), make_folder(tmp_path, "other")
    make_folder(tmp_path, "earlier", run="r0")
    assert list(find_shard_folders(tmp_path, "r1", [known])) == [other]


def test_file_of_an_earlier_run_is_replaced_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "failures.md"
    assert write(tmp_path) == str(path)
    os.utime(path, (10, 10))
    assert write(tmp_path, "# Failures\n\nRun `r2`.\n", "r2", 20.0) == str(path)
    assert path.read_text() == "# Failures\n\nRun `r2`.\n"
    os.utime(path, (10, 10))
    FailuresFile(tmp_path, "r3", 20.0, str).remove_stale()
    assert not path.exists()
    FailuresFile(tmp_path, "r3", 20.0, str).remove_stale()


def test_file_of_a_run_beside_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "failures.md"
    write(tmp_path)
    os.utime(path, (30, 30))
    other = FailuresFile(tmp_path, "r2", 20.0, str)
    other.remove_stale()
    assert other.write("# Failures\n\nRun `r2`.\n") == str(tmp_path / "failures-r2.md")
    assert path.read_text() == _TEXT
    # A shard of the same run replaces it.
    assert write(tmp_path, _TEXT + "more", "r1", 20.0) == str(path)


def test_file_of_the_user_stays(tmp_path: Path) -> None:
    path = tmp_path / "failures.md"
    path.write_text("# My notes\n")
    os.utime(path, (10, 10))
    FailuresFile(tmp_path, "r1", 20.0, str).remove_stale()
    assert path.exists()


def test_secrets_are_hidden_and_control_characters_shown(tmp_path: Path) -> None:
    file = FailuresFile(tmp_path, "r1", 1.0, lambda text: text.replace("hunter2", "(hidden)"))
    file.write("the password hunter2\x07\n")
    assert (tmp_path / "failures.md").read_text() == "the password (hidden)\\x07\n"


def test_folder_that_cannot_be_written_to_is_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", refuse)
    file = FailuresFile(tmp_path, "r1", 1.0, str)
    assert file.write(_TEXT) == ""
    assert file.trouble == "[Errno 28] No space left on device"
    assert list(tmp_path.iterdir()) == []

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kwait.engine.failure.redaction import SECRET_VALUES, make_redactor
from pytest_kwait.suite.artifacts.folder import (
    ArtifactFolder,
    create_folder,
    make_folder_name,
    make_portable_name,
)
from tests.objects import secret


def folder(path: Path, **options: int) -> ArtifactFolder:
    return ArtifactFolder(path, make_redactor({"my-own-credential"}), **options)


def files(path: Path) -> dict[str, str]:
    found = sorted(each for each in path.rglob("*") if each.is_file())
    return {each.relative_to(path).as_posix(): each.read_text() for each in found}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("web-0", "web-0"),
        ("jobs.batch", "jobs.batch"),
        ("con", "con-"),
        ("NUL.txt", "NUL.txt-"),
        ("Web", "Web-"),
        ("a/b", "a-b-"),
        ("../..", ""),
        ("ends.", "ends-"),
        ("", "e3b0c442"),
        ("x" * 100, "x" * 80 + "-"),
    ],
)
def test_names_that_every_file_system_takes(text: str, name: str) -> None:
    found = make_portable_name(text)
    assert found.startswith(name)
    assert len(found) <= 90
    assert found.strip("-. ") == found
    assert found == text or found.rpartition("-")[2].isalnum()


def test_file_names_are_unique() -> None:
    texts = ["a/b", "a-b", "a:b", "A-b", "a-B", "con", "CON", "x" * 90, "x" * 91, ".", ".."]
    assert len({make_portable_name(text).lower() for text in texts}) == len(texts)


def test_a_folder_is_named_by_test_place_and_attempt() -> None:
    test = "tests/test_a.py::TestX::test_y[a/b-ü|*]"
    name = make_folder_name(test)
    assert name == f"tests-test_a-TestX-test_y-a-b-{name[-8:]}"
    assert (
        make_folder_name(test, worker="gw1", shard="2/4", attempt=3) == f"{name}-2-4-gw1-attempt-3"
    )
    assert make_folder_name(test, attempt=2) == f"{name}-attempt-2"
    assert make_folder_name(test.replace("a/b", "a-b")) != name
    assert make_folder_name(test.upper()).lower() != name.lower()
    assert len(make_folder_name("x" * 5000, worker="gw12", shard="100/100", attempt=12)) < 120


def test_folders_that_are_there_stay(tmp_path: Path) -> None:
    parent = tmp_path / "not" / "there"
    assert [create_folder(parent, "x").name for _ in range(3)] == ["x", "x-2", "x-3"]


def test_written_files_are_redacted(tmp_path: Path) -> None:
    made = folder(tmp_path)
    made.write("logs/a.log", "using my-own-credential and token=abcdef")
    made.problem("my-own-credential\nis refused")
    made.finish()
    assert files(tmp_path) == {
        "logs/a.log": "using (hidden) and token=(hidden)",
        "problems.txt": "(hidden) is refused\n",
    }


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    made = folder(tmp_path)
    for text in "abc":
        made.write("failure.txt", text)
    assert files(tmp_path) == {"failure.txt": "a", "failure-2.txt": "b", "failure-3.txt": "c"}


def test_long_texts_are_cut_and_say_so(tmp_path: Path) -> None:
    made = folder(tmp_path)
    made.write("start", "a" * 10 + "b" * 10, limit=10)
    made.write("end", "a" * 10 + "b" * 10, limit=10, keep="end")
    assert files(tmp_path) == {
        "start": "# cut: the first 10 of 20 bytes\naaaaaaaaaa",
        "end": "# cut: the last 10 of 20 bytes\nbbbbbbbbbb",
    }


def test_full_folder_lists_omitted_files(tmp_path: Path) -> None:
    made = folder(tmp_path, size=2000)
    made.write("one", "a" * 1500)
    made.write("two", "b" * 1500)
    made.write("three", "c" * 100)
    made.finish()
    found = files(tmp_path)
    assert list(found) == ["one", "problems.txt", "three"]
    assert found["problems.txt"] == "two is left out: the files hold 2000 bytes already\n"


def test_full_folder_is_reported_without_space(tmp_path: Path) -> None:
    made = folder(tmp_path, size=1500)
    made.write("one", "a" * 1500)
    made.write("two", "b")
    made.finish()
    assert files(tmp_path) == {
        "one": "a" * 1500,
        "problems.txt": "two is left out: the files hold 1500 bytes already\n",
    }


def test_write_errors_are_recorded(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    made = folder(place)
    made.write("a.txt", "text")
    made.problem("something")
    made.finish()
    assert made.trouble == f"[Errno 17] File exists: '{place}'"


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    made = folder(create_folder(tmp_path, "x"))
    made.path.rmdir()
    made.write("a.txt", "\ud800 text")
    assert files(tmp_path) == {"x/a.txt": "\\ud800 text"}


def test_a_whole_file_is_replaced_and_takes_its_place(tmp_path: Path) -> None:
    folder = ArtifactFolder(tmp_path / "f", make_redactor(()), size=10)
    first = folder.write_bytes("a.gz", b"12345678")
    assert folder.write_bytes("a.gz", b"abcdefghij") == first == str(tmp_path / "f" / "a.gz")
    assert (tmp_path / "f" / "a.gz").read_bytes() == b"abcdefghij"
    assert folder.write_bytes("a.gz", b"12345678901") == ""
    assert (tmp_path / "f" / "a.gz").read_bytes() == b"abcdefghij"
    assert folder.problems == ["a.gz is left out: its 11 bytes exceed the folder's 10"]


def test_a_file_that_cannot_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ArtifactFolder(tmp_path / "f", make_redactor(()))
    first = Path(folder.write_bytes("a.gz", b"first"))
    write_bytes = Path.write_bytes

    def write_half(path: Path, content: bytes) -> int:
        write_bytes(path, content[:3])
        raise OSError("full")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    assert folder.write_bytes("a.gz", b"second") == ""
    assert (folder.trouble, first.read_bytes()) == ("full", b"first")
    assert list(first.parent.iterdir()) == [first]


def test_texts_of_a_folder_control_no_terminal(tmp_path: Path) -> None:
    """Values of Secrets are hidden with a style or another sequence in them."""
    SECRET_VALUES.learn(secret(password="gr8-p@ss", token="tok\x1b[2Jen"))
    made = folder(tmp_path / "f")
    made.write("a.log", "\x1b[32mok\x1b[0m gr8-\x1b[1mp@ss\x1b[0m tok\x1b[2Jen \x1b[2J\n")
    made.problem("\x1b[2J failed")
    made.finish()
    assert files(tmp_path / "f") == {
        "a.log": "ok (hidden) (hidden) \\x1b[2J\n",
        "problems.txt": "\\x1b[2J failed\n",
    }

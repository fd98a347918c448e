"""`tar` copies files into and out of containers."""

from __future__ import annotations

import io
import tarfile

import pytest

from pytest_kwait.simulator.busybox.programs import tar as module
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output


def archive(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        folder = tarfile.TarInfo("d")
        folder.type = tarfile.DIRTYPE
        made.addfile(folder)
        for name, content in files.items():
            entry = tarfile.TarInfo(f"d/{name}")
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def members(data: bytes) -> dict[str, bytes | None]:
    with tarfile.open(fileobj=io.BytesIO(data)) as found:
        return {
            one.name: content.read() if (content := found.extractfile(one)) else None
            for one in found
        }


@pytest.mark.parametrize(
    ("argv", "root"),
    [
        (("tar", "-xmf", "-", "-C", "/tmp"), "/tmp"),
        (("tar", "xf", "-", "-C", "/"), ""),
        (("tar", "--no-same-owner", "-xmf", "-", "-C", "/tmp"), "/tmp"),
    ],
)
def test_tar_extracts_files(argv: tuple[str, ...], root: str) -> None:
    harness = ContainerHarness()
    session = harness.run(*argv, stdin=archive(a=b"1", b=b"z" * 200_000))
    assert take_output(session) == {1: b"", 2: b""}
    assert session.output.code == 0
    assert harness.files.read(f"{root}/d/a") == b"1"
    assert harness.files.read(f"{root}/d/b") == b"z" * 200_000


def test_tar_archives_files() -> None:
    harness = ContainerHarness()
    harness.run("sh", "-c", "mkdir -p /s/t/empty; echo a > /s/a; echo b > /s/t/b")
    session = harness.run("tar", "cf", "-", "/s")
    written = take_output(session)
    assert written[2] == b"tar: removing leading '/' from member names\n"
    assert members(written[1]) == {
        "s": None,
        "s/a": b"a\n",
        "s/t": None,
        "s/t/b": b"b\n",
        "s/t/empty": None,
    }
    assert members(take_output(harness.run("tar", "cf", "-", "/s/t/b"))[1]) == {"s/t/b": b"b\n"}


def test_tar_round_trip() -> None:
    harness = ContainerHarness()
    harness.run("sh", "-c", "mkdir -p /s; echo a > /s/a")
    data = take_output(harness.run("tar", "cf", "-", "/s"))[1]
    other = ContainerHarness()
    other.run("tar", "-xmf", "-", "-C", "/tmp", stdin=data)
    assert other.files.read("/tmp/s/a") == b"a\n"
    assert take_output(other.run("tar", "tf", "-", stdin=data))[1] == b"s/\ns/a\n"


def test_tar_keeps_modes_and_links() -> None:
    """A link is archived itself, with `/` at its end what it leads to."""
    harness = ContainerHarness()
    harness.run("sh", "-c", "mkdir /s; echo a > /s/a; chmod 750 /s; chmod 640 /s/a; ln -s s /l")
    data = take_output(harness.run("tar", "-cf", "-", "-C", "/", "./s", "./l"))[1]
    other = ContainerHarness()
    other.run("tar", "-xompf", "-", "-C", "/tmp", stdin=data)
    assert other.sh("stat -c %a /tmp/s /tmp/s/a; readlink /tmp/l") == "750\n640\ns\n"
    assert members(take_output(harness.run("tar", "-cf", "-", "-C", "/", "l/"))[1]) == {
        "l": None,
        "l/a": b"a\n",
    }


def test_tar_refuses_an_archive_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ARCHIVE", 9_000)
    harness = ContainerHarness()
    session = harness.run("tar", "-xf", "-", "-C", "/tmp", stdin=archive(a=b"1" * 20_000))
    text = b"tar: an archive of more than 64 MiB: not simulated by the embedded kubelet\n"
    assert take_output(session)[2] == text
    assert session.output.code == 1


def test_tar_reports_files_that_cannot_be_written() -> None:
    harness = ContainerHarness()
    harness.sh("echo file > /tmp/d")
    session = harness.run("tar", "-xf", "-", "-C", "/tmp", stdin=archive(a=b"1"))
    assert take_output(session)[2] == b"tar: can't open 'd': File exists\n"
    assert session.output.code == 1


def test_tar_does_not_write_outside_its_folder() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        made.addfile(tarfile.TarInfo("../out"))
    harness = ContainerHarness()
    harness.run("tar", "xf", "-", "-C", "/tmp", stdin=buffer.getvalue())
    assert harness.files.find("/out") is None
    assert harness.files.find("/tmp/out") is None


@pytest.mark.parametrize(
    ("argv", "stdin", "text"),
    [
        (
            ("tar", "xf", "-", "-C", "/no"),
            b"",
            "tar: can't change directory to '/no': No such file or directory\n",
        ),
        (("tar", "xf", "-"), b"", "tar: short read\n"),
        (("tar", "xf", "-"), b"x" * 2000, "tar: invalid magic\n"),
        (("tar", "xf", "/no"), None, "tar: can't open '/no': No such file or directory\n"),
        (
            ("tar", "cf", "-", "/no"),
            None,
            "tar: /no: No such file or directory\ntar: error exit delayed from previous errors\n",
        ),
        (("tar",), None, "BusyBox: usage: tar c|x|t [-f FILE] [-C DIR] [FILE]...\n"),
    ],
)
def test_tar_rejects_invalid_archives(
    argv: tuple[str, ...], stdin: bytes | None, text: str
) -> None:
    session = ContainerHarness().run(*argv, stdin=stdin)
    assert take_output(session)[2].decode() == text
    assert session.output.code == 1

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.temp_dir import TempDir, abandoned_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWNER = """
import time
from pytest_kwait.temp_dir import TempDir

folder = TempDir()
(folder.path / "kubeconfig").write_text("token")
print(folder.path, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The temporary folder of the machine: empty."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    """A process that has created a folder, and said so."""
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


_CLIENT = """
import base64, json, sys
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.clusters.cluster import Cluster
from pathlib import Path

data = base64.b64encode(b"certificate").decode()
content = {
    "apiVersion": "v1", "kind": "Config", "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {
        "server": "https://127.0.0.1:1", "certificate-authority-data": data}}],
    "users": [{"name": "a", "user": {
        "client-certificate-data": data, "client-key-data": data + "AAAA"}}],
}
file = Path(sys.argv[1])
file.write_text(json.dumps(content))
cluster = Cluster(read_kubeconfig(file).target(), provider="existing")
print(cluster.client().configuration.ssl_ca_cert, flush=True)
input()
"""


def test_certificates_of_a_killed_process_are_removed_by_the_next(
    temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kubeconfig = tmp_path_factory.mktemp("config") / "kubeconfig"
    with subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(kubeconfig)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        certificate = Path(process.stdout.readline().strip())
        process.kill()
    assert certificate.read_bytes() == b"certificate"
    (left,) = temporary.iterdir()
    assert left == certificate.parent
    assert left.name.startswith("kwait-credentials-")
    TempDir().remove()
    assert list(temporary.iterdir()) == []


def test_a_folder_is_private_and_removed_at_the_end() -> None:
    folder = TempDir("workers-")
    assert folder.path.name.startswith("kwait-workers-")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_the_folder_of_a_killed_process_is_removed_by_the_next(
    temporary: Path, owner: subprocess.Popen[str]
) -> None:
    (left,) = temporary.iterdir()
    mine = TempDir()
    assert left.exists(), "its owner lives"
    assert list(abandoned_folders()) == []
    owner.send_signal(signal.SIGSTOP)
    TempDir()
    assert left.exists(), "its owner is stopped, and lives"
    owner.kill()
    owner.wait()
    assert list(abandoned_folders()) == [left]
    TempDir()
    assert list(temporary.iterdir()) == [mine.path]


def test_a_folder_whose_removal_is_interrupted_is_removed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    left = TempDir()
    (left.path / "certificate").touch()
    (left.path / "logs").mkdir()
    with monkeypatch.context() as patch:
        # Which of the two entries comes first is the file system's choice.
        patch.setattr(Path, "unlink", interrupt)
        patch.setattr("shutil.rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            left.remove()
    assert list(abandoned_folders()) == [left.path]
    TempDir().remove()
    assert list(temporary.iterdir()) == []


def test_a_fork_neither_removes_the_folder_nor_ends_its_lock() -> None:
    mine = TempDir()
    if (child := os.fork()) == 0:
        mine.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert mine.path.exists()
    assert list(abandoned_folders()) == []


def test_other_folders_are_left_alone(temporary: Path) -> None:
    foreign = temporary / "elsewhere"
    for folder in (foreign, temporary / "kwait-notes", temporary / "kwait-new"):
        folder.mkdir()
    # The file of a folder that is just created, and that of another program.
    (temporary / "kwait-new" / "owner.new").touch()
    (foreign / "owner").touch()
    (temporary / "kwait-link").symlink_to(foreign)
    (temporary / "kwait-notes" / "owner").symlink_to(foreign / "owner")
    (temporary / "kwait-file").touch()
    before = sorted(temporary.rglob("*"))
    TempDir().remove()
    assert sorted(temporary.rglob("*")) == before


def test_no_temporary_folder_at_all_has_nothing_abandoned(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    assert list(abandoned_folders()) == []

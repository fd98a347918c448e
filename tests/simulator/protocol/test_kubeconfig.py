from __future__ import annotations

import base64
import stat
from typing import TYPE_CHECKING

import pytest
import yaml

from pytest_kwait.simulator.protocol.kubeconfig import write_kubeconfig

if TYPE_CHECKING:
    from pathlib import Path


def test_the_kubeconfig_is_whole_private_and_current(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:1", "CA", {"admin": "t1", "other": "t2"})
    written = yaml.safe_load(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert written["current-context"] == "kwait"
    cluster = written["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"CA"
    assert [user["user"]["token"] for user in written["users"]] == ["t1", "t2"]
    assert [one["context"]["user"] for one in written["contexts"]] == ["admin", "other"]
    assert list(tmp_path.iterdir()) == [path]


def test_failed_write_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="kubeconfig"):
        write_kubeconfig(tmp_path / "none" / "kubeconfig", "https://x", "CA", {"a": "b"})
    assert list(tmp_path.iterdir()) == []

"""The real kind and k3d: a cluster where a container runtime runs, else what they say without.

`python -m tools.local_clusters` builds both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools.local_clusters import find

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """
def test_it(kwait):
    assert kwait.cluster.nodes
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
"""
LISTS = {"kind": "kind get clusters", "k3d": "k3d cluster list -o json"}
NEEDS = {
    "kind": "kind needs Docker, Podman or nerdctl, installed and running",
    "k3d": "k3d needs Docker, installed and running",
}


def has_runtime() -> bool:
    try:
        return subprocess.run(["docker", "version"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.kwait_slow
@pytest.mark.parametrize("name", list(LISTS))
def test_a_run_creates_a_cluster_or_says_what_is_missing(tmp_path: Path, name: str) -> None:
    program = find(name)
    if program is None:
        pytest.skip(f"there is no {name}: `python -m tools.local_clusters` builds it")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    environment = {key: value for key, value in os.environ.items() if key[:6] != "KWAIT_"}
    environment |= {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", f"--kwait-cluster={name}"],
        cwd=tmp_path,
        env=environment,
        text=True,
        capture_output=True,
        timeout=900,
    )
    said = done.stdout + done.stderr
    if has_runtime():
        assert done.returncode == 0, said
        return
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, said
    assert f"ERROR: `{LISTS[name]}` failed (exit status 1):" in said
    assert NEEDS[name] in said
    assert "Traceback" not in said
    assert not (tmp_path / "state").exists()

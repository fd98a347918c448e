"""Error messages of `python -m tools.controlplane` where it cannot start a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_ROOT = (
    "import os, runpy, sys; os.geteuid = lambda: 1000; sys.path.insert(0, sys.argv.pop(1));"
    "runpy.run_module('tools.controlplane', run_name='__main__', alter_sys=True)"
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a control plane needs Linux")


class CommandLine:
    """Runs it with an empty cache and with the programs that the test puts on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.programs = folder / "bin"
        self.programs.mkdir()

    def __call__(self, *arguments: str, root: bool = True) -> subprocess.CompletedProcess[str]:
        start = ["-m", "tools.controlplane"] if root else ["-c", WITHOUT_ROOT, str(ROOT)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
        environment |= {"PATH": str(self.programs), "XDG_CACHE_HOME": str(self.cache)}
        return subprocess.run(
            [sys.executable, "-W", "error", *start, *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def program(self, name: str, script: str) -> None:
        """Put a program on the PATH."""
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)


@pytest.fixture
def controlplane(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def test_missing_go_error_names_version_and_source(controlplane: CommandLine) -> None:
    done = controlplane("build")
    assert done.returncode == 69
    assert done.stderr == (
        "controlplane: the control plane is built with Go 1.26, and there is no go:"
        " install Go 1.26 from https://go.dev/dl\n"
    )


def test_another_go_is_named(controlplane: CommandLine) -> None:
    controlplane.program("go", "echo go1.27.1")
    done = controlplane("run", "--no-node", "--", "true")
    assert done.returncode == 69
    assert done.stderr == (
        "controlplane: the control plane is built with Go 1.26, not with go1.27.1:"
        " install Go 1.26 from https://go.dev/dl, or set GOTOOLCHAIN=go1.26.0\n"
    )


def test_failing_go_is_reported_in_one_line(controlplane: CommandLine) -> None:
    controlplane.program("go", "echo first >&2; echo second >&2; exit 1")
    done = controlplane("build")
    assert done.returncode == 69
    assert "not with first second: install Go 1.26" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_build_that_fails_leaves_no_folder_of_programs(controlplane: CommandLine) -> None:
    controlplane.program("go", '[ "$1" = env ] && echo go1.26.5')
    done = controlplane("build")
    assert done.returncode == 1
    assert "failed with exit code 1" in done.stderr
    assert not list(controlplane.cache.rglob("kube-apiserver"))


def test_node_without_root_is_refused_with_advice(controlplane: CommandLine) -> None:
    done = controlplane("up", root=False)
    assert done.returncode == 69
    assert done.stderr == (
        "controlplane: a real node needs root: run this as root, or go without a node: --no-node\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "the following arguments are required: command"),
        (["sideways"], "invalid choice: 'sideways'"),
        (["run"], "run needs a command: run -- CMD ..."),
        (["run", "--"], "run needs a command: run -- CMD ..."),
        (["up", "--nodes", "9"], "'9' is not a number from 0 to 8"),
        (["up", "--nodes", "2", "--no-node"], "not allowed with argument"),
    ],
)
def test_wrong_use_is_a_usage_error(
    controlplane: CommandLine, arguments: list[str], text: str
) -> None:
    done = controlplane(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_status_without_a_cluster_has_its_own_exit_code(
    controlplane: CommandLine, tmp_path: Path
) -> None:
    done = controlplane("status", "--dir", str(tmp_path / "none"))
    assert done.returncode == 3
    assert done.stdout == f"no cluster runs in {tmp_path / 'none'}\n"


def test_down_without_a_cluster_succeeds(controlplane: CommandLine, tmp_path: Path) -> None:
    done = controlplane("down", "--dir", str(tmp_path / "none"))
    assert done.returncode == 0
    assert not (tmp_path / "none").exists()


def test_remains_of_a_killed_run_are_ended_by_identity(
    controlplane: CommandLine, tmp_path: Path
) -> None:
    """A state file may name a process id that now is somebody else's."""
    folder = tmp_path / "left"
    folder.mkdir()
    ours = {"pid": os.getpid(), "started": 1}
    state = {
        "supervisor": ours,
        "kubeconfig": str(folder / "kubeconfig"),
        "assets": "",
        "nodes": [],
        "cgroups": [],
        "ready": True,
        "processes": {"etcd": [ours]},
    }
    (folder / "state.json").write_text(json.dumps(state))
    assert controlplane("status", "--dir", str(folder)).returncode == 3
    assert controlplane("down", "--dir", str(folder)).returncode == 0
    assert not (folder / "state.json").exists()

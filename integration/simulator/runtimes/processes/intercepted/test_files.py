"""Programs whose calls with paths are intercepted, without capabilities or namespaces."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.intercepted import intercepted_shell
from pytest_kwait.simulator.runtimes.processes.intercepted.program import try_interception

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., str]:
    """Run a script with these mounts, and return its output."""
    refusal = try_interception(str(tmp_path)).refusal
    if refusal:
        pytest.skip(refusal)

    def run(script: str, *mounts: str) -> str:
        command = [sys.executable, "-m", intercepted_shell.__name__, f"{tmp_path}/upper", script]
        run = subprocess.run(
            [*command, *mounts], capture_output=True, text=True, timeout=60, check=False
        )
        return run.stdout + run.stderr

    return run


def test_a_volume_and_what_is_written_beside_it(
    tmp_path: Path, run_script: Callable[..., str]
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "key").write_text("value\n")
    output = run_script(
        "cd /etc/kwait-config && pwd && cat key && ls && echo x > new; cd /;"
        "echo y > /usr/kwait-new && ls /usr | grep kwait; cat /usr/kwait-new;"
        "echo z > /tmp/file && ls -a /tmp; find /etc -name key",
        f"/etc/kwait-config:{volume}:ro",
    )
    assert output.splitlines() == [
        "/etc/kwait-config",
        "value",
        "key",
        "kwait-new",
        "y",
        ".",
        "..",
        "file",
        "/etc/kwait-config/key",
        "sh: 1: cannot create new: Read-only file system",
    ]


def test_a_script_in_a_volume_with_an_interpreter_in_one(
    tmp_path: Path, run_script: Callable[..., str]
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "interpreter").write_bytes((tmp_path / "/bin/sh").resolve().read_bytes())
    (programs / "tool").write_text("#!/opt/kwait/interpreter -e\necho $1 $(basename $0)\n")
    for name in ("interpreter", "tool"):
        (programs / name).chmod(0o755)
    output = run_script("/opt/kwait/tool 1; cd /opt/kwait; ./tool 2", f"/opt/kwait:{programs}:rw")
    assert output.splitlines() == ["1 tool", "2 tool"]


def test_pipes_links_and_removals(run_script: Callable[..., str]) -> None:
    output = run_script(
        "cd /tmp; mkfifo pipe; echo through > pipe & cat pipe; wait;"
        "mkdir -p a/b; echo 1 > a/b/c; ln -s a/b l; cat l/c; mv a d; cat d/b/c; rm -r d; ls;"
        "echo out > /dev/stdout; readlink /proc/self/exe | grep -c readlink"
    )
    assert output.splitlines() == ["through", "1", "1", "l", "pipe", "out", "1"]

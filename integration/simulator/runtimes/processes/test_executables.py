"""Programs, interpreters and loaders that a container has in volumes."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.programs import PYTHON, Programs
from pytest_kwait.simulator.runtimes.processes.runtime import Exit, Mount

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.simulator.runtimes.processes.programs import Scenario

    Run = Callable[[Scenario], None]

_LOADER = Path("/lib64/ld-linux-x86-64.so.2")
_EXECUTE = """
import os, subprocess, sys
def run(*argv, executable=None, **options):
    done = subprocess.run(argv, executable=executable, capture_output=True, text=True, **options)
    print(done.returncode, done.stdout.strip() or done.stderr.strip())
run("named", "-c", "echo $0 $1", "zero", "one", executable="/opt/app/sh")
run("/opt/app/script", "one")
run("./sh", "-c", "echo relative", cwd="/opt/app")
"""


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not _LOADER.exists(), reason="needs glibc on x86_64"
)
def test_program_whose_loader_is_in_a_volume(run_pods: Run, tmp_path: Path) -> None:
    content = Path("/bin/sh").resolve().read_bytes()
    loader, own = str(_LOADER).encode(), b"/opt/app/ld.so"
    if content.count(loader) != 1:
        pytest.skip("the shell has another loader")
    shutil.copy(_LOADER, tmp_path / "ld.so")
    (tmp_path / "sh").write_bytes(content.replace(loader, own.ljust(len(loader), b"\0")))
    (tmp_path / "script").write_text("#!/opt/app/sh -e\necho $0 $1\n")
    for name in ("ld.so", "sh", "script"):
        (tmp_path / name).chmod(0o755)

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        mounts = (Mount("/opt/app", str(tmp_path)),)
        program = programs.start(sandbox, PYTHON, "-c", _EXECUTE, mounts=mounts)
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout.splitlines() == [
            "0 zero one",
            "0 /opt/app/script one",
            "0 relative",
        ]

    run_pods(scenario)

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.forked_python import ForkedPython
from tests.leftovers import find_processes

_WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


def _start(code: str, **options: Any) -> ForkedPython:
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }
    command = [sys.executable, "-P", "-c", code]
    return ForkedPython(command, text=True, **pipes, **options)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_a_fork_is_found_by_its_environment(tmp_path: Path) -> None:
    process = _start(_WAIT, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert process.stdout is not None
    process.stdout.readline()

    assert [*find_processes(tmp_path)] == [process.pid]
    process.communicate()
    assert find_processes(tmp_path) == {}


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_a_larger_environment_than_a_fork_can_show_is_an_error() -> None:
    process = _start("", env={"LARGE": " " * 1_000_000})

    output, _ = process.communicate()
    assert process.returncode == 1
    assert "ValueError: an environment of 1000007 bytes, and room for " in output


@pytest.mark.parametrize("group", [None, 0])
def test_a_fork_is_in_the_group_of_its_starter_or_in_its_own(group: int | None) -> None:
    code = "import os; print(os.getpgrp() == os.getpid(), os.getpgrp())"
    output, _ = _start(code, process_group=group).communicate()

    assert output.split() == ["False", str(os.getpgrp())] if group is None else output[:4] == "True"


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.default_int_handler])
def test_a_fork_ignores_interrupts_as_its_starter_does(handler: Any) -> None:
    kept = signal.signal(signal.SIGINT, handler)
    try:
        process = _start("import os, signal; os.kill(os.getpid(), signal.SIGINT); print('goes on')")
    finally:
        signal.signal(signal.SIGINT, kept)

    assert ("goes on" in process.communicate()[0]) is (handler is signal.SIG_IGN)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.processor_time import read_process_seconds, read_tree_seconds

TICKS = os.sysconf("SC_CLK_TCK")


def write_process(proc: Path, pid: int, parent: int, *seconds: int) -> None:
    """Write the entry of a process.

    Args:
        seconds: its own as a user and in the kernel, and those of awaited children.
    """
    times = " ".join(str(each * TICKS) for each in seconds)
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {parent} 1 1 0 -1 0 0 0 0 0 {times}")


def test_tree_has_descendants_and_those_that_have_ended(tmp_path: Path) -> None:
    write_process(tmp_path, 10, 1, 1, 2, 3, 4)
    write_process(tmp_path, 9, 10, 10, 0, 0, 0)
    write_process(tmp_path, 11, 9, 20, 0, 0, 0)
    write_process(tmp_path, 12, 1, 100, 100, 100, 100)
    (tmp_path / "13").mkdir()  # it ends while it is read
    assert read_tree_seconds(10, tmp_path) == 40


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are read from /proc")
def test_process_has_what_the_system_says() -> None:
    before = sum(os.times()[:2])
    found = read_process_seconds(os.getpid())
    rounding = 2 / TICKS
    assert before - rounding <= found <= sum(os.times()[:2]) + rounding

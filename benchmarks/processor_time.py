"""Processor time of processes.

Source: proc_pid_stat(5).
"""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_PARENT = 1
_OWN = slice(11, 13)
"""Behind the name: the time as a user and in the kernel."""
_WITH_AWAITED = slice(11, 15)
"""The same, and that of the children that it has awaited."""


def read_process_seconds(pid: int) -> float:
    """Return the seconds of a process so far."""
    return _sum_seconds(_read_fields(_PROC / str(pid))[_OWN])


def read_tree_seconds(root: int, proc: Path = _PROC) -> float:
    """Return the seconds of a process and its descendants so far, those that have ended too.

    Args:
        root: the id of the process.
        proc: the file system of processes.
    """
    children: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for folder in proc.glob("[0-9]*"):
        try:
            fields = _read_fields(folder)
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        children.setdefault(int(fields[_PARENT]), []).append(int(folder.name))
        seconds[int(folder.name)] = _sum_seconds(fields[_WITH_AWAITED])
    tree = [root]
    for pid in tree:
        tree += children.get(pid, [])
    return sum(seconds[pid] for pid in tree)


def _read_fields(folder: Path) -> list[str]:
    """Return the fields behind the name, which may have spaces."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def _sum_seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

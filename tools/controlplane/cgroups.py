"""A cgroup of its own for each node: two kubelets under one would kill each other's pods."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tools.controlplane.errors import BrokenError
from tools.controlplane.polling import poll_until


def create_cgroup(name: str) -> None:
    """Make the cgroup in every hierarchy of this machine, with all controllers there are."""
    for root, version in _list_hierarchies():
        group = root / name
        group.mkdir(exist_ok=True)
        if version == 2:
            _delegate_controllers(root)
            _delegate_controllers(group)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # In version 1 nothing may run in a group of which these are empty.
            if version == 1 and (group / setting).exists():
                (group / setting).write_text((root / setting).read_text())


def remove_cgroup(name: str, patience: float = 10) -> None:
    """Remove the cgroup once its processes have gone."""
    groups = [root / name for root, _ in _list_hierarchies()]
    if not poll_until(lambda: not [group for group in groups if not _is_removed(group)], patience):
        raise BrokenError(f"processes are left in a cgroup {name}")


def _is_removed(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()
    return not group.exists()


def _delegate_controllers(group: Path) -> None:
    for controller in (group / "cgroup.controllers").read_text().split():
        with suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _list_hierarchies() -> list[tuple[Path, int]]:
    versions = {"cgroup": 1, "cgroup2": 2}
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind in versions and os.access(where, os.W_OK):
            found.append((Path(where), versions[kind]))
    return found

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from pytest_kwait.simulator.runtimes.processes.cgroups import Cgroups, remove_cgroups
from pytest_kwait.simulator.runtimes.processes.processes import get_cluster_name, is_abandoned

OTHER = "kwait-1-0-0-0"


def test_name_of_another_pid_namespace_is_not_abandoned() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as server:
        name = get_cluster_name(server.pid, 0)
    assert is_abandoned(name)
    prefix, pid, start, namespace, number = name.split("-")
    assert not is_abandoned("-".join((prefix, pid, start, f"{int(namespace) + 1}", number)))
    assert not is_abandoned("kwait-unrelated")


def _find(name: str) -> list[str]:
    found = []
    for parent, names, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{parent}/{each}" for each in names if each == name]
    return found


def test_name_tells_whether_the_server_runs() -> None:
    name = get_cluster_name(os.getpid(), 0)
    assert name.startswith(f"kwait-{os.getpid()}-")
    assert name.endswith("-0")
    assert name != get_cluster_name(os.getpid(), 1)


def test_cgroups_of_a_dead_server_are_removed_with_the_next() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as server:
        dead = get_cluster_name(server.pid, 0)
        groups = Cgroups(dead)
        if not groups.memory and not groups.pids:
            pytest.skip(f"no cgroups can be made: {groups.reasons}")
        groups.create("container")
        own = get_cluster_name(os.getpid(), 99)
        Cgroups(own)
        remove_cgroups(OTHER)
        assert _find(dead)
    remove_cgroups(OTHER)
    assert _find(dead) == []
    assert _find(own)
    assert remove_cgroups(own)
    assert _find(own) == []


def test_processes_are_killed_with_their_cgroup() -> None:
    name = get_cluster_name(os.getpid(), 98)
    groups = Cgroups(name)
    if not groups.memory and not groups.pids:
        pytest.skip(f"no cgroups can be made: {groups.reasons}")
    created = groups.create("container")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, preexec_fn=created.join) as process:
        remove_cgroups(name)
        assert process.wait() == -signal.SIGKILL
    assert remove_cgroups(name)
    assert _find(name) == []


def test_limits() -> None:
    name = get_cluster_name(os.getpid(), 97)
    groups = Cgroups(name)
    if not groups.memory:
        pytest.skip(f"no cgroups can be made: {groups.reasons}")
    created = groups.create("container")
    created.set_limits(64 << 20, 10)
    texts = {
        path.name: path.read_text().strip()
        for folder in _find("container")
        if name in folder
        for path in Path(folder).iterdir()
        if path.name in ("memory.max", "memory.limit_in_bytes", "pids.max")
    }
    assert str(64 << 20) in texts.values()
    assert texts["pids.max"] == "10"
    created.set_memory(None)
    assert created.count_oom_kills() == 0
    created.remove()
    assert remove_cgroups(name)

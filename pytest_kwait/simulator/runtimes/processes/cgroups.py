"""Limits of memory and processes by cgroups, of version 2 where delegated, of version 1 as root.

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{memory,pids}.rst.
"""

from __future__ import annotations

import contextlib
import os
import signal

from pytest_kwait.simulator.runtimes.processes.processes import is_abandoned, kill

_UNLIMITED_V1 = "-1"


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _find_parents() -> dict[str, list[str]]:
    """Return folders of cgroups below which this process may be allowed to add some, by version."""
    own: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in _read("/proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                own[controller] = path
    parents: dict[str, list[str]] = {"v2": [], "memory": [], "pids": []}
    with contextlib.suppress(OSError):
        for line in _read("/proc/self/mountinfo").splitlines():
            fields, _, rest = line.partition(" - ")
            root, point = fields.split()[3:5]
            kind, _, options = rest.split()[:3]
            if kind == "cgroup2":
                folder = _join(point, root, own.get("", "/"))
                parents["v2"].append(folder)
                if folder != point:
                    # A cgroup with processes can have no children with limits: add beside it.
                    parents["v2"].append(os.path.dirname(folder))
            elif kind == "cgroup":
                for controller in ("memory", "pids"):
                    if controller in options.split(","):
                        parents[controller].append(_join(point, root, own.get(controller, "/")))
    return parents


def _join(point: str, root: str, path: str) -> str:
    inner = path.removeprefix(root.rstrip("/")) if root != "/" else path
    return os.path.normpath(f"{point}/{inner}")


class Cgroups:
    """The cgroups of one cluster.

    Args:
        name: as `get_cluster_name` returns.

    Attributes:
        memory: `cgroup v2`, `cgroup v1` or empty.
        pids: as above.
    """

    def __init__(self, name: str) -> None:
        self.memory = self.pids = ""
        self._folders: dict[str, str] = {}
        self.reasons: list[str] = []
        parents = _find_parents()
        for parent in parents["v2"]:
            if self._make_v2(parent, name):
                self.memory = self.pids = "cgroup v2"
                return
        for controller in ("memory", "pids"):
            for parent in parents[controller]:
                folder = f"{parent}/{name}"
                try:
                    os.mkdir(folder)
                except OSError as error:
                    self.reasons.append(f"{folder}: {os.strerror(error.errno or 0)}")
                    continue
                self._folders[controller] = folder
                setattr(self, controller, "cgroup v1")
                break

    def _make_v2(self, parent: str, name: str) -> bool:
        folder = f"{parent}/{name}"
        try:
            controllers = _read(f"{parent}/cgroup.controllers").split()
            if not {"memory", "pids"} <= set(controllers):
                self.reasons.append(f"{parent}: no memory and pids controllers")
                return False
            enabled = _read(f"{parent}/cgroup.subtree_control").split()
            if not {"memory", "pids"} <= set(enabled):
                _write(f"{parent}/cgroup.subtree_control", "+memory +pids")
            os.mkdir(folder)
        except OSError as error:
            self.reasons.append(f"{folder}: {os.strerror(error.errno or 0)}")
            return False
        try:
            _write(f"{folder}/cgroup.subtree_control", "+memory +pids")
            # Moving processes needs the right to write the common ancestor's cgroup.procs.
            os.mkdir(f"{folder}/probe")
            pid = os.fork()
            if not pid:
                code = 1
                with contextlib.suppress(OSError):
                    _write(f"{folder}/probe/cgroup.procs", "0")
                    code = 0
                os._exit(code)
            moved = os.waitpid(pid, 0)[1] == 0
            os.rmdir(f"{folder}/probe")
        except OSError as error:
            self.reasons.append(f"{folder}: {os.strerror(error.errno or 0)}")
            moved = False
        if not moved:
            _remove_tree(folder)
            return False
        self._folders["v2"] = folder
        return True

    def create(self, name: str) -> Cgroup:
        """Create the cgroup of a container, without limits; its name is unique."""
        folders = {controller: f"{folder}/{name}" for controller, folder in self._folders.items()}
        for folder in folders.values():
            os.mkdir(folder)
        return Cgroup(folders)


class Cgroup:
    """A container's cgroup: one folder per controller, or one for both."""

    def __init__(self, folders: dict[str, str]) -> None:
        self._folders = folders

    def join(self) -> None:
        """Move the calling process, and all that it will fork, into the cgroup."""
        for folder in self._folders.values():
            _write(f"{folder}/cgroup.procs", "0")

    def set_limits(self, memory: int | None, pids: int) -> None:
        """Set the limits of a new container: bytes of memory, processes and threads."""
        if memory is not None:
            self.set_memory(memory)
        for controller in ("v2", "pids"):
            if controller in self._folders:
                _write(f"{self._folders[controller]}/pids.max", str(pids))

    def set_memory(self, limit: int | None) -> None:
        """Set the memory limit in bytes.

        Raises:
            OSError: the limit is below the current usage.
        """
        if "v2" in self._folders:
            folder = self._folders["v2"]
            if limit is not None and int(_read(f"{folder}/memory.current")) > limit:
                raise OSError(16, os.strerror(16))
            _write(f"{folder}/memory.max", "max" if limit is None else str(limit))
            with contextlib.suppress(OSError):
                _write(f"{folder}/memory.swap.max", "max" if limit is None else "0")
        elif "memory" in self._folders:
            text = _UNLIMITED_V1 if limit is None else str(limit)
            path = f"{self._folders['memory']}/memory.limit_in_bytes"
            both = f"{self._folders['memory']}/memory.memsw.limit_in_bytes"
            # The limit of memory and swap is never below that of memory.
            with contextlib.suppress(OSError):
                _write(both, text)
            _write(path, text)
            with contextlib.suppress(OSError):
                _write(both, text)

    def list_processes(self) -> set[int]:
        """Return its processes."""
        return {pid for folder in self._folders.values() for pid in _list_processes(folder)}

    def count_oom_kills(self) -> int:
        """Return the number of processes that were killed for the memory limit."""
        files = (("v2", "memory.events"), ("memory", "memory.oom_control"))
        for controller, file in files:
            if controller in self._folders:
                with contextlib.suppress(OSError):
                    for line in _read(f"{self._folders[controller]}/{file}").splitlines():
                        key, _, value = line.partition(" ")
                        if key == "oom_kill":
                            return int(value)
        return 0

    def remove(self) -> None:
        """Remove it; no process may be left."""
        for folder in self._folders.values():
            _remove_tree(folder)


def remove_cgroups(name: str) -> bool:
    """Remove the cgroups of a cluster, and those of servers that no longer run.

    Their processes are killed, but may not have ended yet.

    Returns:
        False if processes still keep some of the cluster's.
    """
    removed = True
    for parents in _find_parents().values():
        for parent in parents:
            with contextlib.suppress(OSError):
                for entry in os.listdir(parent):
                    if entry == name or is_abandoned(entry):
                        _kill_tree(f"{parent}/{entry}")
                        gone = _remove_tree(f"{parent}/{entry}")
                        removed = removed and (gone or entry != name)
    return removed


def _kill_tree(folder: str) -> None:
    for parent, _, _ in os.walk(folder):
        for pid in _list_processes(parent):
            kill(pid, signal.SIGKILL)


def _list_processes(folder: str) -> set[int]:
    with contextlib.suppress(OSError):
        # 0 is a process of a PID namespace that this one does not see.
        return {int(pid) for pid in _read(f"{folder}/cgroup.procs").split()} - {0}
    return set()


def _remove_tree(folder: str) -> bool:
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                _remove_tree(entry.path)
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True

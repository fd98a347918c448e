"""Processes of containers, as /proc shows them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MARKER = "PYTEST_KWAIT_CLUSTER"
"""Variable in the environment of plain processes: the cluster that they belong to."""

# Source: include/net/tcp_states.h, `TCP_LISTEN`.
_LISTENING = "0A"
_NAME = re.compile(r"kwait-(\d+)-(\d+)-(\d+)-\d+")


def get_cluster_name(pid: int, number: int) -> str:
    """Return the name of a cluster's cgroups and processes; it tells whether its server runs.

    Args:
        pid: the server's.
        number: of the cluster in that server.
    """
    return f"kwait-{pid}-{_read_start_time(pid)}-{_read_pid_namespace()}-{number}"


def is_abandoned(name: str) -> bool:
    """Return whether this is the name of a cluster whose server has ended.

    A server in another PID namespace, of a container for example, is left alone.
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match[3]) != _read_pid_namespace():
        return False
    return _read_start_time(int(match[1])) != match[2]


def _read_pid_namespace() -> int:
    """Return the number of this process' PID namespace; 0 on a system without."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _read_start_time(pid: int) -> str:
    """Return a process' start in clock ticks after boot; empty if there is none."""
    fields = _read_stat(pid)
    return fields[19].decode() if fields else ""


def _read_stat(pid: int) -> list[bytes]:
    """Return what /proc tells of a process from its state on; empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the program's name in parentheses, and may contain anything.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def kill(pid: int, number: int) -> None:
    """Send a signal; no-op if there is no such process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def list_processes() -> list[int]:
    """Return the numbers of all processes; none on a system without /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def list_children() -> list[int]:
    """Return the children of this process, ended ones too; none on a system without /proc."""
    own = str(os.getpid()).encode()
    return [pid for pid in list_processes() if _read_stat(pid)[1:2] == [own]]


def read_resident_bytes(pid: int) -> int:
    """Return the memory of a process, with pages that it shares with others."""
    return _read_fields(f"/proc/{pid}/status", ("RssAnon", "RssShmem"))


def read_own_bytes(pid: int) -> int:
    """Return the memory of a process, with its part of shared pages; slow."""
    return _read_fields(f"/proc/{pid}/smaps_rollup", ("Pss_Anon", "Pss_Shmem"))


def _read_fields(path: str, names: Sequence[str]) -> int:
    """Return the sum of fields in KiB of a file in /proc, in bytes."""
    total = 0
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in names:
                total += int(rest.split()[0]) << 10
    return total


def is_listening(address: str, port: int) -> bool:
    """Return whether a TCP socket of this process' network namespace listens at an IPv4 address.

    Source: man 5 proc_pid_net, `/proc/net/tcp`.

    Raises:
        OSError: the system does not tell.
    """
    own = int.from_bytes(socket.inet_aton(address), sys.byteorder)
    places = {f"{word:08X}:{port:04X}" for word in (0, own)}
    mapped = int.from_bytes(b"\0\0\xff\xff", sys.byteorder)
    places |= {f"{0:032X}:{port:04X}", f"{0:016X}{mapped:08X}{own:08X}:{port:04X}"}
    for name in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{name}", encoding="ascii") as file:
            next(file)
            for line in file:
                _, local, _, state, *_ = line.split()
                if state == _LISTENING and local in places:
                    return True
    return False


def kill_marked(name: str) -> bool:
    """Kill the plain processes of a cluster, and those of servers that no longer run.

    Returns:
        Whether there were any of the cluster.
    """
    prefix = f"{MARKER}=".encode()
    had_processes = False
    for pid in list_processes():
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            marked = [variable for variable in variables if variable.startswith(prefix)]
            if not marked or _read_stat(pid)[:1] in ([b"Z"], [b"X"]):
                continue
            cluster = marked[0].removeprefix(prefix).decode(errors="replace")
            if cluster == name or is_abandoned(cluster):
                had_processes = had_processes or cluster == name
                kill(pid, signal.SIGKILL)
    return had_processes

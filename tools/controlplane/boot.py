"""The init process of a node: mounts, containerd, images, kubelet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.controlplane.polling import poll_until

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"

_OWN = (
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
)
_PATIENCE = 30.0


@dataclass(frozen=True)
class Boot:
    """The programs to start, in order."""

    containerd: list[str]
    images: str
    kubelet: list[str]
    logs: str
    name: str

    def dump(self) -> str:
        """Return it as the argument of this module's command line."""
        return json.dumps(asdict(self))


def run(boot: Boot) -> int:
    """Start the node and return as soon as one of its processes has ended."""
    _mount()
    containerd = _start(boot, "containerd", boot.containerd)
    if not _answers():
        print(f"containerd does not answer on {CONTAINERD_SOCKET}", flush=True)
        return 1
    _ctr("--namespace", "k8s.io", "images", "import", boot.images)
    kubelet = _start(boot, "kubelet", boot.kubelet)
    own = {containerd.pid: "containerd", kubelet.pid: "kubelet"}
    while True:
        # The first process of a pid namespace is the parent of all that lost theirs.
        pid, status = os.wait()
        if pid in own:
            print(f"{own[pid]} ended with {os.waitstatus_to_exitcode(status)}", flush=True)
            return 1


def _mount() -> None:
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    for folder in _OWN:
        Path(folder).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder], check=True)
    subprocess.run(["mount", "--make-rshared", "/"], check=True)


def _start(boot: Boot, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    with Path(boot.logs, f"{boot.name}-{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def _answers() -> bool:
    socket = Path(CONTAINERD_SOCKET)
    return poll_until(lambda: socket.exists() and _ctr("version", quiet=True) == 0, _PATIENCE)


def _ctr(*arguments: str, quiet: bool = False) -> int:
    return subprocess.run(
        ["ctr", "--address", CONTAINERD_SOCKET, *arguments], capture_output=quiet, check=not quiet
    ).returncode


if __name__ == "__main__":
    sys.exit(run(Boot(**json.loads(sys.argv[1]))))

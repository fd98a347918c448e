"""A real node: containerd and a kubelet in namespaces and a cgroup of their own.

All processes end with the namespaces. Each node has its own cgroup: two kubelets under one would
kill each other's pods.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane import images, node
from tools.controlplane.boot import CONTAINERD_SOCKET, Boot
from tools.controlplane.errors import BrokenError, UnavailableError
from tools.controlplane.network import DOMAIN, Namespace, Network
from tools.controlplane.polling import poll_until
from tools.controlplane.processes import Component


def create_cgroup(name: str) -> None:
    """Create the cgroup in every hierarchy of this machine, with all available controllers."""
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
    """Remove the cgroup once its processes have ended."""
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


# A file, and the Debian or Ubuntu package it comes from.
_NEEDED = {
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ptp": "containernetworking-plugins",
    "portmap": "containernetworking-plugins",
    "iptables": "iptables",
    "host-local": "containernetworking-plugins",
    "loopback": "containernetworking-plugins",
    "busybox": "busybox-static",
    "unshare": "util-linux",
    "mount": "mount",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "nft": "nftables",
}
# Another installation may be under way.
_INSTALL = ("apt-get", "install", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")
_PLUGINS = "/usr/lib/cni:/opt/cni/bin"


@dataclass(frozen=True)
class Machine:
    """A node's requirements of its machine."""

    plugins: Path
    busybox: Path
    path: str


def prepare() -> Machine:
    """Check that nodes can run here, and install the packages that are missing if possible."""
    without = "or go without a node: --no-node"
    if os.geteuid() != 0:
        raise UnavailableError(f"a real node needs root: run this as root, {without}")
    if packages := _missing():
        advice = f"apt-get install {' '.join(packages)}, {without}"
        if shutil.which("apt-get") is None:
            raise UnavailableError(f"a real node needs what these packages bring: {advice}")
        _install(packages, advice)
    plugins, busybox = _find("ptp"), find_busybox()
    if plugins is None or busybox is None or _missing():
        raise UnavailableError(f"a real node needs {', '.join(_NEEDED)} on the PATH, {without}")
    namespaces = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    if namespaces.returncode:
        raise UnavailableError(
            "a real node needs namespaces and mounts of its own, and may not make them here"
            f" ({namespaces.stderr.strip()}): run in a privileged container, {without}"
        )
    return Machine(plugins.parent, busybox, search_path())


def _missing() -> list[str]:
    return sorted({package for file, package in _NEEDED.items() if _find(file) is None})


def _install(packages: list[str], advice: str) -> None:
    print(f"installing {' '.join(packages)}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    commands = (
        ["apt-get", "update", "-q"],
        [*_INSTALL, "--no-install-recommends", *packages],
    )
    for command in commands:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            last = done.stdout.strip().splitlines()[-1:]
            raise UnavailableError(f"{' '.join(command)} failed ({' '.join(last)}): {advice}")


def _find(file: str) -> Path | None:
    found = shutil.which(file, path=f"{search_path()}:{_PLUGINS}")
    if found is None or (file == "busybox" and not _static(Path(found))):
        return None
    return Path(found)


def find_busybox() -> Path | None:
    """Return the path of busybox, which is statically linked; None without one."""
    return _find("busybox")


def _static(program: Path) -> bool:
    """Return whether a program is statically linked: no loader is named in its first page."""
    with program.open("rb") as file:
        return b"/ld-" not in file.read(4096)


def search_path() -> str:
    """Return the folders that are searched for a node's programs."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Node:
    """A node: its files and its name."""

    name: str
    folder: Path
    cgroup: str
    network: Network
    port: int
    pods: str

    def component(
        self, machine: Machine, namespace: Namespace, assets: Path, pki: Path, logs: Path
    ) -> Component:
        """Write the node's configuration and return its processes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        archive = self.folder / "images.tar"
        images.write_archive(machine.busybox, archive)
        plugins = self.folder / "cni"
        plugins.mkdir(exist_ok=True)
        _write(plugins / "10-pods.conflist", self._plugins())
        _write(self.folder / "kubelet.json", self._kubelet(pki))
        containerd = self.folder / "containerd.toml"
        containerd.write_text(_containerd(plugins, machine.plugins))
        boot = Boot(
            containerd=["containerd", "--config", str(containerd)],
            images=str(archive),
            kubelet=[
                str(assets / "kubelet"),
                f"--config={self.folder / 'kubelet.json'}",
                f"--kubeconfig={self.folder / 'kubeconfig'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.network.nodes}",
            ],
            logs=str(logs),
            name=self.name,
        )
        return _Supervised(
            self.cgroup,
            f"node {self.name}",
            namespace.wrap(
                *("unshare", "--mount", "--propagation=private", "--pid", "--fork"),
                *("--kill-child", "--", sys.executable, "-m", f"{__package__}.boot"),
                boot.dump(),
            ),
            logs / f"{self.name}.log",
            folder=Path(__file__).resolve().parents[2],
            variables={"PATH": machine.path},
        )

    def _plugins(self) -> dict[str, object]:
        return {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "ptp",
                    "ipam": {
                        "type": "host-local",
                        "dataDir": "/var/lib/cni/networks",
                        "ranges": [[{"subnet": self.pods}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
            ],
        }

    def _kubelet(self, pki: Path) -> dict[str, object]:
        little = {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.network.nodes,
            "port": self.port,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(pki / "ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "clusterDNS": [self.network.dns],
            "clusterDomain": DOMAIN,
            "cgroupRoot": f"/{self.cgroup}",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "enforceNodeAllocatable": [],
            # Unset means a client's default of five a second.
            "eventRecordQPS": 500,
            "eventBurst": 1000,
            "evictionHard": little,
            "failCgroupV1": False,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "kubeAPIBurst": 1000,
            "kubeAPIQPS": 500,
            "makeIPTablesUtilChains": False,
            "maxPods": 110,
            "oomScoreAdj": 0,
            "podLogsDir": "/var/lib/kubelet/pod-logs",
            "serializeImagePulls": False,
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            # The default is a minute or more, which every wait for an eviction would take.
            "volumeStatsAggPeriod": "10s",
        }


class _Supervised(Component):
    """A node's processes; their cgroup is created before they start."""

    def __init__(
        self,
        cgroup: str,
        name: str,
        command: list[str],
        log: Path,
        *,
        folder: Path,
        variables: dict[str, str],
    ) -> None:
        super().__init__(name, command, log, folder=folder, variables=variables)
        self._cgroup = cgroup

    def start(self) -> None:
        node.remove_cgroup(self._cgroup)
        node.create_cgroup(self._cgroup)
        super().start()


def _containerd(network: Path, plugins: Path) -> str:
    # restrict_oom_score_adj: many sandboxes do not have CAP_SYS_RESOURCE.
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = {json.dumps(CONTAINERD_SOCKET)}

[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
sandbox_image = {json.dumps(images.PAUSE)}

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {json.dumps(str(plugins))}
conf_dir = {json.dumps(str(network))}

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def _write(file: Path, content: dict[str, object]) -> None:
    file.write_text(json.dumps(content, indent=2))

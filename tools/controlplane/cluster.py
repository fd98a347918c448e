"""A cluster in a folder: its supervisor, its processes, and their cleanup."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tools.controlplane import assets
from tools.controlplane import node as cgroups
from tools.controlplane.errors import BrokenError, UnavailableError
from tools.controlplane.network import (
    Namespace,
    Network,
    NetworkServers,
    describe_dns_service,
)
from tools.controlplane.node import Machine, Node
from tools.controlplane.polling import sleep
from tools.controlplane.processes import Component, Identity, free_ports
from tools.controlplane.readiness import Readiness
from tools.controlplane.servers import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER_VARIABLE = "CONTROLPLANE_DIR"
"""The environment variable with the folder of the cluster, for commands that `run` runs."""

_PAUSE = 0.1
_LOOKS = 20
"""Looks at the processes for each look at their children."""

_NETWORKS = 256


@dataclass
class State:
    """The state file of a cluster: its addresses and processes, for users and for cleanup."""

    supervisor: Identity
    kubeconfig: str
    assets: str
    nodes: list[str] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)
    ready: bool = False
    processes: dict[str, list[Identity]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> State | None:
        """Return the contents of the file; None without one."""
        try:
            data = json.loads((folder / "state.json").read_text())
        except FileNotFoundError:
            return None
        data["supervisor"] = Identity(**data["supervisor"])
        data["processes"] = {
            name: [Identity(**each) for each in found] for name, found in data["processes"].items()
        }
        return cls(**data)

    def node_process(self, node: str) -> int:
        """Return the process id of a node's init process, which has the node's namespaces."""
        (_, init, *_) = self.processes[f"node {node}"]
        return init.pid

    def write(self, folder: Path) -> None:
        """Replace the contents of the file."""
        new = folder / "state.json.new"
        new.write_text(json.dumps(asdict(self), indent=2) + "\n")
        new.rename(folder / "state.json")


def default_folder() -> Path:
    """Return the folder of the cluster that `up` starts and `down` ends."""
    return _folders() / "up"


def new_folder() -> Folder:
    """Return a folder for one run, after removing those of killed runs."""
    _folders().mkdir(parents=True, exist_ok=True)
    with (_folders() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in _folders().glob("run-*"):
            with suppress(UnavailableError, BrokenError):
                Folder(left).discard()
        return Folder(Path(tempfile.mkdtemp(prefix="run-", dir=_folders())))


def _folders() -> Path:
    return assets.storage() / "clusters"


class Folder:
    """The folder of a cluster, locked by the process that runs it."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = (self.path / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise UnavailableError(
                f"a cluster runs in {path} already: see status, end it by down"
            ) from None

    def end(self) -> None:
        """End the processes started there; logs remain."""
        state = State.read(self.path)
        if state is not None:
            for identity in (each for found in state.processes.values() for each in found):
                identity.end()
            for cgroup in state.cgroups:
                cgroups.remove_cgroup(cgroup)
            _remove_copy(self.path / "kubeconfig", Path(state.kubeconfig))
        self._empty({"lock", "logs"})

    def clear(self) -> None:
        """End and remove the remains of an earlier run."""
        self.end()
        self._empty({"lock"})

    def discard(self) -> None:
        """Clear and remove the folder, and release its lock."""
        self.clear()
        shutil.rmtree(self.path)
        self.release()

    def release(self) -> None:
        """Release the lock."""
        self._lock.close()

    def _empty(self, keep: set[str]) -> None:
        for entry in self.path.iterdir():
            if entry.name in keep:
                continue
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _remove_copy(own: Path, copy: Path) -> None:
    with suppress(FileNotFoundError):
        if copy != own and copy.read_bytes() == own.read_bytes():
            copy.unlink()


class Cluster:
    """Starts a cluster in a locked folder, monitors it and ends it."""

    def __init__(
        self,
        folder: Folder,
        programs: Path,
        machine: Machine | None,
        nodes: int,
        kubeconfig: Path | None = None,
    ) -> None:
        self._folder = folder
        self.path = folder.path
        self._programs = programs
        self._machine = machine
        self._count = nodes
        self._components: list[Component] = []
        self._networks: list[IO[str]] = []
        self._namespace: Namespace | None = None
        self._saved_ready = False
        own = self.path / "kubeconfig"
        supervisor = Identity.of(os.getpid())
        assert supervisor is not None
        self.state = State(supervisor, str(kubeconfig or own), str(programs))
        self._kubeconfig = own

    def start(self, report: Callable[[str], None]) -> None:
        """Start everything and return when pods can run."""
        self._folder.clear()
        (self.path / "logs").mkdir()
        network = self._create_network() if self._machine and self._count else None
        plane = ControlPlane(self.path, self._programs, network)
        readiness = Readiness(plane, self._check)
        self._start(*plane.storage_and_server())
        report("waiting for the API server")
        readiness.server()
        self._start(*plane.loops())
        if network is not None:
            self._start(*self._nodes(plane, network))
        readiness.defaults()
        if network is not None:
            report(f"waiting for {', '.join(self.state.nodes)}")
            readiness.nodes(self.state.nodes)
            for path, body in describe_dns_service(network):
                readiness.create(path, body)
        plane.kubeconfig(self._kubeconfig)
        copy = Path(self.state.kubeconfig)
        if copy != self._kubeconfig:
            copy.parent.mkdir(parents=True, exist_ok=True)
            plane.kubeconfig(copy)
        self.state.ready = True
        self._save()

    def watch(self, done: Callable[[], bool]) -> None:
        """Restart ended processes until `done` returns True."""
        looks = 0
        while not done():
            ended = [each for each in self._components if each.ended() is not None]
            for component in ended:
                component.stop()
                component.start()
            # Children come a moment after their process; to look for them costs more than the rest.
            if ended or looks % _LOOKS == 0:
                self._save()
            looks += 1
            sleep(_PAUSE)

    def stop(self) -> None:
        """End everything, the nodes first; logs remain."""
        for component in reversed(self._components):
            # Nothing has to be saved, and a node's namespaces end with it.
            component.stop(signal.SIGKILL)
        self._folder.end()
        if self._namespace is not None:
            self._namespace.close()
        for network in self._networks:
            network.close()

    def _create_network(self) -> Network:
        network = Network(self._reserve("cluster"))
        self._namespace = network.create()
        return network

    def _nodes(self, plane: ControlPlane, network: Network) -> list[Component]:
        """Return the nodes, and the servers of their network."""
        assert self._machine is not None
        assert self._namespace is not None
        mark = hashlib.sha256(str(self.path).encode()).hexdigest()[:8]
        components: list[Component] = []
        for number, port in enumerate(free_ports(self._count), 1):
            name = f"node-{number}"
            node = Node(
                name,
                self.path / "nodes" / name,
                f"kwait-{mark}-{number}",
                network,
                port,
                f"10.244.{self._reserve('node')}.0/24",
            )
            network.add_route(node.pods)
            plane.node_kubeconfig(name, node.folder / "kubeconfig")
            components.append(
                node.component(
                    self._machine, self._namespace, self._programs, plane.pki, plane.logs
                )
            )
            self.state.nodes.append(name)
            self.state.cgroups.append(node.cgroup)
        kubeconfig = self.path / "network.kubeconfig"
        plane.network_kubeconfig(kubeconfig)
        servers = NetworkServers(self.path, self._programs, kubeconfig, self._machine.path)
        return components + servers.components(network, self._namespace, self.state.nodes[0])

    def _reserve(self, kind: str) -> int:
        """Reserve a number for addresses that no other cluster on this machine uses."""
        claims = _folders() / "networks"
        claims.mkdir(parents=True, exist_ok=True)
        for number in range(_NETWORKS):
            claim = (claims / f"{kind}-{number}").open("w")
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                claim.close()
                continue
            self._networks.append(claim)
            return number
        raise BrokenError(f"all of {claims} is taken")

    def _start(self, *components: Component) -> None:
        for component in components:
            self._components.append(component)
            component.start()
        self._save()

    def _check(self) -> None:
        for component in self._components:
            component.check()

    def _save(self) -> None:
        processes = {each.name: each.identities() for each in self._components}
        if processes != self.state.processes or not self._saved_ready:
            self.state.processes = processes
            self._saved_ready = self.state.ready
            self.state.write(self.path)

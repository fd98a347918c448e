"""A cluster in a folder: its supervisor, its processes, and their cleanup."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tools.controlplane import assets
from tools.controlplane import node as cgroups
from tools.controlplane.errors import BrokenError, UnavailableError
from tools.controlplane.node import Machine, Node
from tools.controlplane.polling import sleep
from tools.controlplane.processes import Component, Identity, free_ports
from tools.controlplane.readiness import Readiness
from tools.controlplane.servers import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE = 0.1
_NETWORKS = 256


@dataclass
class State:
    """What a folder tells about its cluster: enough to use it, and to end it after a crash."""

    supervisor: Identity
    kubeconfig: str
    assets: str
    nodes: list[str] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)
    ready: bool = False
    processes: dict[str, list[Identity]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> State | None:
        """Return what the folder holds, None when there is nothing."""
        try:
            data = json.loads((folder / "state.json").read_text())
        except FileNotFoundError:
            return None
        data["supervisor"] = Identity(**data["supervisor"])
        data["processes"] = {
            name: [Identity(**each) for each in found] for name, found in data["processes"].items()
        }
        return cls(**data)

    def write(self, folder: Path) -> None:
        """Replace what the folder holds."""
        new = folder / "state.json.new"
        new.write_text(json.dumps(asdict(self), indent=2) + "\n")
        new.rename(folder / "state.json")


def default_folder() -> Path:
    """Return the folder of the cluster that `up` starts and `down` ends."""
    return _folders() / "up"


def new_folder() -> Folder:
    """Return a folder for one run, after clearing what killed runs have left."""
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
    """A cluster's folder, held by a lock that goes with its holder."""

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
        """End what a holder has started; its logs stay."""
        state = State.read(self.path)
        if state is not None:
            for identity in (each for found in state.processes.values() for each in found):
                identity.end()
            for cgroup in state.cgroups:
                cgroups.remove_cgroup(cgroup)
            _remove_copy(self.path / "kubeconfig", Path(state.kubeconfig))
        self._empty({"lock", "logs"})

    def clear(self) -> None:
        """End and remove what an earlier holder has left."""
        self.end()
        self._empty({"lock"})

    def discard(self) -> None:
        """Clear the folder, remove it and let it go."""
        self.clear()
        shutil.rmtree(self.path)
        self.release()

    def release(self) -> None:
        """Let others have the folder."""
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
    """Starts a cluster in a held folder, watches over it and ends it."""

    def __init__(
        self,
        folder: Folder,
        programs: Path,
        machine: Machine | None,
        nodes: int,
        kubeconfig: Path | None = None,
    ) -> None:
        self._folder = folder
        self._path = folder.path
        self._programs = programs
        self._machine = machine
        self._count = nodes
        self._components: list[Component] = []
        self._networks: list[IO[str]] = []
        self._saved_ready = False
        own = self._path / "kubeconfig"
        supervisor = Identity.of(os.getpid())
        assert supervisor is not None
        self.state = State(supervisor, str(kubeconfig or own), str(programs))
        self._kubeconfig = own

    def start(self, tell: Callable[[str], None]) -> None:
        """Start everything and return when pods can run."""
        self._folder.clear()
        (self._path / "logs").mkdir()
        address = _address()
        if self._count and address is None:
            raise UnavailableError(
                "a real node needs a network address beside the loopback: --no-node"
            )
        plane = ControlPlane(self._path, self._programs, address)
        readiness = Readiness(plane, self._check)
        nodes = self._nodes(plane, address)
        self._start(*plane.storage_and_server())
        tell("waiting for the API server")
        readiness.server()
        self._start(*plane.loops(), *nodes)
        readiness.defaults()
        if nodes:
            tell(f"waiting for {', '.join(self.state.nodes)}")
            readiness.nodes(self.state.nodes)
        plane.kubeconfig(self._kubeconfig)
        copy = Path(self.state.kubeconfig)
        if copy != self._kubeconfig:
            copy.parent.mkdir(parents=True, exist_ok=True)
            plane.kubeconfig(copy)
        self.state.ready = True
        self._save()

    def watch(self, done: Callable[[], bool]) -> None:
        """Start again what ends, until told that it is enough."""
        while not done():
            for component in self._components:
                if component.ended() is not None:
                    component.stop()
                    component.start()
            self._save()
            sleep(_PAUSE)

    def stop(self) -> None:
        """End everything, the nodes first; the logs stay."""
        for component in reversed(self._components):
            # Nothing here is to be kept, and to be killed is what a node's namespaces are for.
            component.stop(signal.SIGKILL)
        self._folder.end()
        for network in self._networks:
            network.close()

    def _nodes(self, plane: ControlPlane, address: str | None) -> list[Component]:
        if self._machine is None or address is None:
            return []
        mark = hashlib.sha256(str(self._path).encode()).hexdigest()[:8]
        components: list[Component] = []
        for number, port in enumerate(free_ports(self._count), 1):
            name = f"node-{number}"
            node = Node(
                name,
                self._path / "nodes" / name,
                f"kwait-{mark}-{number}",
                address,
                port,
                self._network(),
            )
            plane.node_kubeconfig(name, node.folder / "kubeconfig")
            components.append(node.component(self._machine, self._programs, plane.pki, plane.logs))
            self.state.nodes.append(name)
            self.state.cgroups.append(node.cgroup)
        return components

    def _network(self) -> str:
        """Claim addresses for the pods of a node that no other cluster of this machine uses."""
        claims = _folders() / "networks"
        claims.mkdir(parents=True, exist_ok=True)
        for number in range(_NETWORKS):
            claim = (claims / str(number)).open("w")
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                claim.close()
                continue
            self._networks.append(claim)
            return f"10.244.{number}.0/24"
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
            self.state.write(self._path)


def _address() -> str | None:
    """Return the address by which this machine talks to others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])

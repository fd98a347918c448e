"""Containers of mapped images: programs that run as processes, in the sandbox of their pod.

A pod gets a sandbox if an image of it is mapped. Its other containers are simulated as ever, and
share the volumes with the programs.

Source: kuberuntime_container.go, `generateContainerConfig`; kuberuntime_sandbox.go,
`generatePodSandboxConfig`; containerd internal/cri/server/container_create_linux.go.
"""

from __future__ import annotations

import asyncio
import errno
import grp
import math
import os
import pwd
import shutil
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, ProcessSession
from pytest_kwait.simulator.kubelet.environment import (
    ContainerConfigError,
    expand,
    get_domain,
    get_hostname,
    make_hosts_file,
    make_resolver_config,
)
from pytest_kwait.simulator.kubelet.images import InvalidImageError, parse_image
from pytest_kwait.simulator.kubelet.volume_folders import PodVolumeFolders
from pytest_kwait.simulator.kubelet_api import StartError
from pytest_kwait.simulator.network.pod_network import PodNetwork, get_pod_networks
from pytest_kwait.simulator.objects import name_of, namespace_of, uid_of
from pytest_kwait.simulator.protocol.addresses import NODE_NETWORK, POD_NETWORK
from pytest_kwait.simulator.runtimes.interpreted.container import (
    SIGKILL_EXIT_CODE,
    START_FAILED_EXIT_CODE,
    Container,
    format_exec_error,
    format_start_error,
)
from pytest_kwait.simulator.runtimes.processes.links import ImageFolders, find_dangling_links
from pytest_kwait.simulator.runtimes.processes.program_network import ProgramPorts
from pytest_kwait.simulator.runtimes.processes.runtime import (
    ContainerConfig,
    ContainerRuntime,
    Mount,
    NetworkConfig,
    SandboxConfig,
    StartFailure,
    detect_isolation,
)
from pytest_kwait.temp_dir import TempDir

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.clock import ScheduledCall
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.kubelet.volumes import PodVolumes
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
    from pytest_kwait.simulator.runtimes.processes.runtime import (
        Exit,
        InputStream,
        RuntimeContainer,
        RuntimeProcess,
        Sandbox,
        Stream,
    )

_STREAMS: dict[Stream, int] = {"stdout": 1, "stderr": 2}
_DEFAULT_STORAGE = 1 << 30
# Source: kubelet config defaults, `syncFrequency`: volumes are updated with each sync of a pod.
_VOLUME_SYNC_SECONDS = 60.0
# Folders of the machine that containers have of their own.
_PRIVATE_FOLDERS = ("/tmp", "/run", "/var/tmp")  # noqa: S108
_TERMINATION_LOG = "/dev/termination-log"
_SAVE_SECONDS = 5.0
"""Maximum real seconds in which programs save what they have in folders of the machine."""


def find_mapping(cluster: Cluster, reference: str) -> ImageMapping | None:
    """Return the program that an image is mapped to; None if it is not mapped."""
    try:
        return cluster.images.find(parse_image(reference))
    except InvalidImageError:
        return None


class ClusterPrograms:
    """The container runtime of a cluster and the folders of its volumes, made on first use."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._folder: TempDir | None = None
        self._runtime: ContainerRuntime | None = None
        self._network: PodNetwork | None = None
        self._closing: asyncio.Future[None] | None = None
        self._refusal: str | None = None
        self.pods: WeakSet[PodPrograms] = WeakSet()
        self.is_closed = False
        """True once the cluster ends: nothing is started or written any more."""

    @property
    def folder(self) -> Path:
        """The private folder of volumes and of the runtime."""
        if self._folder is None:
            self._folder = TempDir("programs-")
            # Programs run as any user; what they may not see is hidden from their root.
            self._folder.path.chmod(0o711)
        return self._folder.path

    @property
    def runtime(self) -> ContainerRuntime:
        """The runtime."""
        if self._runtime is None:
            gateway = next(ip_network(POD_NETWORK).hosts())
            prefix = ip_network(POD_NETWORK).prefixlen
            network = NetworkConfig(
                f"{gateway}/{prefix}", (*self._cluster.addresses.cidrs, NODE_NETWORK)
            )
            runtime_folder = self.folder / "runtime"
            runtime_folder.mkdir(exist_ok=True)
            runtime = ContainerRuntime(runtime_folder, network, on_failed=self._on_runtime_failed)
            self._runtime = runtime
            self._network = PodNetwork(
                self._cluster, runtime, self._find_network, self._cluster.server_address
            )
            get_pod_networks(self._cluster).start(self._network)
        return self._runtime

    def _find_network(self, address: str) -> Network | None:
        for kubelet in self._cluster.kubelets.values():
            network = kubelet.find_network(address)
            if network is not None:
                return network
        return None

    async def list_missing_isolation(self) -> list[str]:
        """Return a sentence for each restriction of the isolation; empty before any program."""
        if self._runtime is None:
            return []
        try:
            return list((await self._runtime.get_isolation()).missing)
        except OSError:  # its process has ended, which events of pods tell
            return []

    async def find_isolation_refusal(self) -> str:
        """Return why programs share the machine's network and files; empty if they do not."""
        if self._refusal is None:
            runtime = self._runtime
            try:
                isolation = await (
                    detect_isolation() if runtime is None else runtime.get_isolation()
                )
            except OSError:  # programs cannot be run, which events of pods tell
                return ""
            self._refusal = isolation.refusal
        return self._refusal

    def _on_runtime_failed(self, why: str) -> None:
        """End all programs: the process that ran them has ended; the next start makes another."""
        self._runtime = None
        network, self._network = self._network, None
        if network is not None:
            get_pod_networks(self._cluster).current = None
            self._closing = asyncio.ensure_future(network.close())
        for pod in list(self.pods):
            pod.on_sandbox_lost(why)

    async def _stop_savers(self) -> None:
        """Send the stop signal to programs with writable folders, and wait a while for their end.

        All others have nothing that outlives the cluster.
        """
        savers = [container for pod in self.pods for container in pod.list_savers()]
        for container in savers:
            container.stop(_SAVE_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SAVE_SECONDS):
                for container in savers:
                    await container.exit_event.wait()

    async def close(self) -> None:
        """End all programs and remove the folders."""
        self.is_closed = True
        await self._stop_savers()
        runtime, self._runtime = self._runtime, None
        if self._network is not None:
            await self._network.close()
        if runtime is not None:
            await runtime.close()
        if self._folder is not None:
            self._folder.remove()


def get_cluster_programs(cluster: Cluster) -> ClusterPrograms:
    """Return the programs of a cluster."""
    return cluster.services.programs


class PodPrograms:
    """The sandbox of a pod whose images are mapped, and the folders of its volumes.

    Args:
        shared: the volumes that simulated containers use.
        places: returns values of the `fieldRef` paths that belong to the node.
    """

    def __init__(
        self, worker: PodContext, shared: PodVolumes, places: Callable[[], dict[str, str]]
    ) -> None:
        self._worker = worker
        self._shared = shared
        self._places = places
        self._sandbox: Sandbox | None = None
        self._ports: ProgramPorts | None = None
        self._volumes: PodVolumeFolders | None = None
        self._sync: ScheduledCall | None = None
        self._containers: list[ProgramContainer] = []
        self._stopped = False

    @property
    def sandbox(self) -> Sandbox | None:
        """The running sandbox; None without one."""
        return self._sandbox

    @property
    def volumes(self) -> PodVolumeFolders:
        """The folders of the volumes."""
        if self._volumes is None:
            worker = self._worker
            programs = get_cluster_programs(worker.cluster)
            self._shared.move_to_disk(programs.folder)
            folder = programs.folder / "pods" / uid_of(worker.pod)
            self._volumes = PodVolumeFolders(worker.cluster, folder, self._shared)
        return self._volumes

    def is_needed(self) -> bool:
        """Return whether an image of the pod is mapped."""
        spec, cluster = self._worker.pod["spec"], self._worker.cluster
        return any(
            find_mapping(cluster, container["image"]) is not None
            for kind in ("initContainers", "containers", "ephemeralContainers")
            for container in spec.get(kind) or ()
        )

    def run_sandbox(self) -> Generator[float | None, None, str]:
        """Create the sandbox and write the volumes; return why it failed, or ""."""
        worker = self._worker
        pod, programs = worker.pod, get_cluster_programs(worker.cluster)
        if programs.is_closed:
            return "the cluster is being stopped"
        if self._sandbox is not None:
            return ""
        answers: list[Sandbox | StartFailure] = []

        def on_ready(answer: Sandbox | StartFailure) -> None:
            answers.append(answer)
            if self._stopped and not isinstance(answer, StartFailure):
                answer.stop()
            worker.resume_waiting()

        try:
            self.write_volumes()
            programs.runtime.run_sandbox(self._make_config(pod), on_ready)
        except OSError as error:
            return str(error)
        programs.pods.add(self)
        while not answers:
            yield None
        answer = answers[0]
        if isinstance(answer, StartFailure):
            return answer.message
        self._sandbox = answer
        self.volumes.share_empty_dirs(pod, answer)
        self._ports = ProgramPorts(programs.runtime, worker.pod_ip or worker.node.address, answer)
        worker.network.programs = self._ports
        self._schedule_volume_sync()
        return ""

    def _make_config(self, pod: Obj) -> SandboxConfig:
        worker, spec = self._worker, pod["spec"]
        files = {
            "/etc/hostname": f"{get_hostname(pod)}\n".encode(),
            "/etc/resolv.conf": make_resolver_config(pod).encode(),
            "/etc/hosts": make_hosts_file(pod, worker.pod_ip).encode(),
        }
        security = spec.get("securityContext") or {}
        return SandboxConfig(
            id=uid_of(pod),
            hostname=get_hostname(pod),
            address=worker.pod_ip,
            domainname=get_domain(pod) if spec.get("setHostnameAsFQDN") else "",
            share_pids=bool(spec.get("shareProcessNamespace")),
            host_network=bool(spec.get("hostNetwork")),
            storage_bytes=_get_storage(pod),
            empty_dirs=self.volumes.list_empty_dirs(pod),
            files=files,
            sysctls={sysctl["name"]: sysctl["value"] for sysctl in security.get("sysctls") or ()},
            hidden=(
                str(get_cluster_programs(worker.cluster).folder),
                *worker.cluster.private_paths,
            ),
        )

    def _schedule_volume_sync(self) -> None:
        self._sync = self._worker.node.clock.call_later(_VOLUME_SYNC_SECONDS, self._sync_volumes)

    def _sync_volumes(self) -> None:
        """Write changed config maps, secrets, fields and expiring tokens."""
        if self._stopped or self._sandbox is None:
            return
        if not self._worker.node.is_kubelet_stopped:
            with suppress(OSError):
                self.write_volumes()
        self._schedule_volume_sync()

    def write_volumes(self) -> None:
        """Write the pod's API-backed volumes.

        Raises:
            OSError: they cannot be written.
        """
        if not get_cluster_programs(self._worker.cluster).is_closed:
            self.volumes.write(self._worker.pod, self._places())

    def create(self, container: ProgramContainer, config: ContainerConfig) -> RuntimeContainer:
        """Create a container in the sandbox and start its program."""
        assert self._sandbox is not None  # noqa: S101 - made before its containers
        self._containers.append(container)
        # The mappings of a run may end before its programs.
        container.may_save = self._has_writable_folders(container.name)
        self._record_dangling_links(container.name, config)
        return self._sandbox.create_container(
            config,
            on_started=container.on_started,
            on_output=container.on_output,
            on_exit=container.on_exit,
        )

    def _record_dangling_links(self, name: str, config: ContainerConfig) -> None:
        """Record the first link of the image that leads to nothing in a container."""
        worker = self._worker
        mapping = find_mapping(worker.cluster, worker.get_container_spec(name)["image"])
        if mapping is None or get_cluster_programs(worker.cluster).runtime.is_plain:
            return
        links = find_dangling_links(
            ImageFolders(
                config.visible,
                tuple(mapping.files.items()),
                tuple(mount.target for mount in config.mounts if not mount.is_of_image),
                mapping.workdir,
            )
        )
        if links:
            link, *others = links
            text = (
                f"Link {link.path} leads to {link.missing}, which is not in the container: "
                f'map it by files={{"{link.missing}": "{link.source}"}}'
            )
            if others:
                more = "one more link dangles" if len(others) == 1 else f"{len(others)} more dangle"
                text += f"; {more}, as {others[0].path}"
            worker.record_container_event(name, "Warning", "DanglingLink", text)

    def record_port_conflicts(self, name: str) -> None:
        """Record which pods hold the ports of a container that has failed.

        Without namespaces all programs share the machine's ports.
        """
        worker = self._worker
        programs = get_cluster_programs(worker.cluster)
        if programs.is_closed or not programs.runtime.is_plain:
            return
        here = f'"{namespace_of(worker.pod)}/{name_of(worker.pod)}"'
        for number, kind in list_ports(worker.get_container_spec(name)):
            holder = next(
                (
                    other_pod
                    for other_pod in programs.pods
                    if other_pod is not self and (number, kind) in other_pod.list_running_ports()
                ),
                None,
            )
            if holder is None or not _is_port_taken(number, kind):
                continue
            there = f'"{namespace_of(holder.pod)}/{name_of(holder.pod)}"'
            text = (
                f"Port {number} of pod {here} is in use by pod {there}: without namespaces all "
                "pods share the machine's ports"
            )
            worker.record_container_event(name, "Warning", "PortConflict", text)

    @property
    def pod(self) -> Obj:
        """The pod."""
        return self._worker.pod

    def describe_user(self, name: str, user: int) -> str:
        """Return a container's user with the place that it comes from."""
        spec = self._worker.get_container_spec(name)
        if (spec.get("securityContext") or {}).get("runAsUser") is not None:
            return f'runAsUser {user} of container "{name}"'
        if (self.pod["spec"].get("securityContext") or {}).get("runAsUser") is not None:
            return f"runAsUser {user} of the pod"
        mapping = find_mapping(self._worker.cluster, spec["image"])
        if mapping is not None and mapping.user:
            return f'user {user} of the mapping of "{mapping.pattern}"'
        return f"user {user}"

    def list_running_ports(self) -> set[tuple[int, str]]:
        """Return the ports that the running programs declare, with `TCP` or `UDP`."""
        return {
            port
            for container in self._containers
            if container.running
            for port in list_ports(self._worker.get_container_spec(container.name))
        }

    def list_savers(self) -> list[ProgramContainer]:
        """Return the running containers that may write to folders of the machine."""
        return [one for one in self._containers if one.running and one.may_save]

    def _has_writable_folders(self, name: str) -> bool:
        image = self._worker.get_container_spec(name)["image"]
        mapping = find_mapping(self._worker.cluster, image)
        return mapping is not None and bool(mapping.writable)

    def on_sandbox_lost(self, why: str) -> None:
        """End the containers of a sandbox that has ended by itself; the next sync makes another."""
        self._sandbox = None
        self._close_ports()
        if self._stopped:
            return
        message = f"Pod sandbox changed, it will be killed and re-created: {why}"
        self._worker.record_event("Normal", "SandboxChanged", message)
        containers, self._containers = self._containers, []
        for container in containers:
            container.on_lost()

    def _close_ports(self) -> None:
        self._worker.network.programs = None
        if self._ports is not None:
            self._ports.close()
            self._ports = None

    def stop(self) -> None:
        """End the sandbox and remove the pod's own volumes; idempotent."""
        self._stopped = True
        if self._sync is not None:
            self._sync.cancel()
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            self._close_ports()
            sandbox.stop()
        for container in self._containers:
            # The namespaces are gone; their report need not be awaited.
            container.on_lost()
        self._containers.clear()
        if self._volumes is not None:
            self._volumes.close()


def list_ports(container: Obj) -> set[tuple[int, str]]:
    """Return the numbers of a container's ports and of those that it is probed at, with kinds."""
    ports = {
        (int(port_spec["containerPort"]), str(port_spec.get("protocol") or "TCP"))
        for port_spec in container.get("ports") or ()
    }
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        for action in ("httpGet", "tcpSocket", "grpc"):
            port = ((container.get(probe) or {}).get(action) or {}).get("port")
            if isinstance(port, int):
                ports.add((port, "TCP"))
    return ports


def _is_port_taken(number: int, kind: str) -> bool:
    """Return whether a program listens at a port of the machine."""
    with socket.socket(type=socket.SOCK_DGRAM if kind == "UDP" else socket.SOCK_STREAM) as made:
        if kind != "UDP":
            # Closed connections do not count.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(("", number))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _get_storage(pod: Obj) -> int:
    """Return the bytes that the containers may write outside volumes."""
    limits = [
        ((container.get("resources") or {}).get("limits") or {}).get("ephemeral-storage")
        for container in pod["spec"]["containers"]
    ]
    if limits and all(limits):
        return sum(math.ceil(parse_quantity(limit).amount) for limit in limits if limit)
    return _DEFAULT_STORAGE


def make_program_arguments(mapping: ImageMapping, container: Obj, env: dict[str, str]) -> list[str]:
    """Return the program of a container and its arguments.

    Source: kubelet/container/helpers.go, `ExpandContainerCommandAndArgs`.
    """
    command = [expand(word, env) for word in container.get("command") or ()]
    args = [expand(argument, env) for argument in container.get("args") or ()]
    if command:
        return [*command, *args]
    return [*mapping.command, *(args or mapping.args)]


def make_container_config(
    pod: Obj,
    container: Obj,
    mapping: ImageMapping,
    container_id: str,
    env: dict[str, str],
    mounts: list[Mount],
    process_target: str | None = None,
) -> ContainerConfig:
    """Return the runtime's configuration of a container.

    Args:
        process_target: the id of the container whose processes it sees; None for its own alone.
        env: the variables of the manifest.
        mounts: the volumes.

    Raises:
        ContainerConfigError: the mapping's user does not exist.
    """
    argv = make_program_arguments(mapping, container, env)
    user, group = _find_user(mapping)
    own, of_pod = container.get("securityContext") or {}, pod["spec"].get("securityContext") or {}

    def get(field: str) -> object:
        return own[field] if own.get(field) is not None else of_pod.get(field)

    if isinstance(run_as := get("runAsUser"), int):
        # As in images, the group of a given user is 0 unless the user's entry names another.
        user, group = run_as, None
    if isinstance(run_as_group := get("runAsGroup"), int):
        group = run_as_group
    groups = [*(of_pod.get("supplementalGroups") or ())]
    if of_pod.get("fsGroup") is not None:
        groups.append(of_pod["fsGroup"])
    whole = {**mapping.env, **env}
    whole.setdefault("HOME", _find_home(user))
    if container.get("tty"):
        whole.setdefault("TERM", "xterm")
    capabilities = own.get("capabilities") or {}
    return ContainerConfig(
        id=container_id,
        argv=tuple(argv),
        env=whole,
        workdir=container.get("workingDir") or mapping.workdir,
        user=user,
        group=group,
        groups=tuple(dict.fromkeys(groups)),
        mounts=(
            *(Mount(path, path) for path in mapping.writable),
            *(
                Mount(path, source, read_only=True, is_of_image=True)
                for path, source in mapping.files.items()
            ),
            *mounts,
        ),
        visible=find_visible_paths(mapping),
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        no_new_privs=own.get("allowPrivilegeEscalation") is False,
        privileged=bool(own.get("privileged")),
        capabilities_add=tuple(capabilities.get("add") or ()),
        capabilities_drop=tuple(capabilities.get("drop") or ()),
        memory_bytes=get_memory_limit(container),
        tty=bool(container.get("tty")),
        stdin=bool(container.get("stdin")),
        termination_log=container.get("terminationMessagePath") or _TERMINATION_LOG,
        process_target=process_target,
    )


def get_memory_limit(container: Obj) -> int | None:
    """Return the memory limit of a container in bytes; None without one."""
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return math.ceil(parse_quantity(limit).amount) if limit is not None else None


def _find_user(mapping: ImageMapping) -> tuple[int | None, int | None]:
    """Return the user and group of a mapping; None for those of the container's root."""
    name, _, group_name = mapping.user.partition(":")
    user: int | None = None
    group: int | None = None
    try:
        if name:
            entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
            user, group = entry.pw_uid, entry.pw_gid
    except KeyError:
        if not name.isdigit():
            text = f"unable to find user {name}: no matching entries in passwd file"
            raise ContainerConfigError(text) from None
        user = int(name)
    try:
        if group_name:
            group = int(group_name) if group_name.isdigit() else grp.getgrnam(group_name).gr_gid
    except KeyError:
        text = f"unable to find group {group_name}: no matching entries in group file"
        raise ContainerConfigError(text) from None
    return user, group


def _find_home(user: int | None) -> str:
    try:
        return pwd.getpwuid(user or 0).pw_dir
    except KeyError:
        return "/"


def find_visible_paths(mapping: ImageMapping) -> tuple[str, ...]:
    """Return the mapped program's paths below folders that containers have of their own."""
    folders = [mapping.workdir]
    folders += [
        str(Path(entry).parent) if Path(entry).name == "bin" else entry
        for entry in mapping.env.get("PATH", "").split(os.pathsep)
    ]
    folders += mapping.env.get("PYTHONPATH", "").split(os.pathsep)
    program = shutil.which(mapping.command[0], path=mapping.env.get("PATH"))
    words = [word for word in (*mapping.command, *mapping.args) if word.startswith("/")]
    for word in [*words, *([program] if program else [])]:
        for path in (Path(word), Path(os.path.realpath(word))):
            folders.append(_find_installation(path))
    for folder in mapping.env.get("PATH", "").split(os.pathsep):
        with suppress(OSError):
            folders += _list_linked_folders(folder, Path(folder or "/").stat().st_mtime_ns)
    folders += [path for folder in dict.fromkeys(folders) for path in _list_editable(folder)]
    return tuple(
        path
        for path in dict.fromkeys(folders)
        # A copy would hide what the program writes to the machine.
        if not any(f"{path}/".startswith(f"{folder}/") for folder in mapping.writable)
        # Unlike `Path.is_dir`, False for what this user may not look at.
        if any(path.startswith(f"{folder}/") for folder in _PRIVATE_FOLDERS) and os.path.isdir(path)  # noqa: PTH112
    )


def _find_installation(program: Path) -> str:
    """Return the folder that has a program and its libraries."""
    folder = program.parent
    return str(folder.parent if folder.name == "bin" else folder)


@lru_cache(maxsize=64)
def _list_linked_folders(folder: str, _changed: int) -> tuple[str, ...]:
    """Return where programs are that a folder of PATH has as links, below private folders.

    As the interpreter of a virtual environment; once for each change of its entries.
    """
    links = [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    real = [Path(os.path.realpath(link)) for link in links]
    return tuple(
        dict.fromkeys(
            _find_installation(path)
            for path in real
            if any(str(path).startswith(f"{private}/") for private in _PRIVATE_FOLDERS)
        )
    )


def _list_editable(folder: str) -> list[str]:
    """Return the folders that a Python installation's path files name, as editable installs do."""
    if not folder:
        return []
    try:
        site_folders = list(Path(folder).glob("lib/python3*/site-packages"))
        return [
            path
            for site_folder in site_folders
            for path in _read_path_files(str(site_folder), site_folder.stat().st_mtime_ns)
        ]
    except OSError:  # of another user
        return []


@lru_cache(maxsize=64)
def _read_path_files(folder: str, _changed: int) -> tuple[str, ...]:
    """Return what the path files of a folder name; once for each change of its entries."""
    texts: list[str] = []
    for file in Path(folder).glob("*.pth"):
        with suppress(OSError):
            texts.append(file.read_text(errors="replace"))
    return tuple(line for text in texts for line in text.splitlines() if line.startswith("/"))


class _ProgramInput:
    """The input of a process.

    Args:
        closes: whether the end of the client's input ends the program's.
    """

    def __init__(self, stream: InputStream, *, closes: bool = True) -> None:
        self._stream = stream
        self._closes = closes
        self._unread = 0
        self._draining: asyncio.Task[None] | None = None

    def send(self, data: bytes) -> None:
        self._unread += len(data)
        self._stream.write(data)
        if self._draining is None:
            self._draining = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        with suppress(OSError):
            await self._stream.drain()
        self._unread, self._draining = 0, None

    def close(self) -> None:
        if self._closes:
            self._stream.close()

    def __len__(self) -> int:
        """Return the number of bytes that may be unread."""
        return self._unread


@dataclass
class ProgramContainer(Container):
    """A container that runs a program of the machine.

    Args:
        programs: the pod's programs.
        config: the runtime's configuration.
        stop_signal: the number of the signal that asks it to end.
        stdin_once: whether its input ends with the first attached client.
        changed: called after the program has started or failed to.
    """

    programs: PodPrograms = field(kw_only=True)
    config: ContainerConfig = field(kw_only=True)
    stop_signal: int = signal.SIGTERM
    stdin_once: bool = False
    changed: Callable[[], None] = lambda: None
    is_starting: bool = False
    failure: str = ""
    """Why the program could not be started."""
    may_save: bool = False
    """Whether it may write to folders of the machine."""
    exit_event: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the program has ended."""
    _process: RuntimeContainer | None = None
    _written_message: bytes = b""
    _paused: bool = False
    _update: asyncio.Future[None] | None = None

    def launch(self) -> None:
        """Start the program; `changed` is called with the result."""
        self.is_starting = True
        self._process = self.programs.create(self, self.config)

    # -- called by the runtime

    def on_started(self, failure: StartFailure | None) -> None:
        """Record the start, or why it failed."""
        if not self.is_starting:
            return
        self.is_starting = False
        if failure is None:
            self.started_at = self.clock.time()
        else:
            self.failure = format_start_error(failure.message)
            self.failure += self._describe_denial(failure)
            self.started_at, self._process = 0.0, None
            self._end(START_FAILED_EXIT_CODE, "StartError", self.failure)
        self.changed()

    def on_output(self, stream: Stream, data: bytes) -> None:
        """Log output; a slow client that is attached blocks the program."""
        self.write(_STREAMS[stream], data)
        if not self._paused and any(sink.must_wait(self._resume) for sink in self._attached_sinks):
            self._paused = True
            if self._process is not None:
                self._process.pause_output()

    def _resume(self) -> None:
        self._paused = False
        if self._process is not None:
            self._process.resume_output()

    def on_exit(self, end: Exit) -> None:
        """Record the end of the program."""
        self._process = None
        self._written_message = end.termination_log
        reason = "OOMKilled" if end.oom_killed else "Completed" if end.code == 0 else "Error"
        if reason == "Error" and self._kill is None:
            self.programs.record_port_conflicts(self.name)
        self._end(end.code, reason, "")

    def on_lost(self) -> None:
        """Record the end of a program whose sandbox has ended."""
        self._process = None
        if self.is_starting:
            self.is_starting = False
            self.started_at = self.clock.time()
            self.changed()
        if self.running:
            self._end(SIGKILL_EXIT_CODE, "Error", "")

    def _describe_denial(self, failure: StartFailure) -> str:
        """Return which user may not do what, to follow the runtime's error; empty without one."""
        if not failure.denied:
            return ""
        user = self.programs.describe_user(self.name, self.config.user or 0)
        return f": {user} may not {failure.denied}"

    # -- container

    def _end(self, code: int, reason: str, message: str) -> None:
        process, self._process = self._process, None
        super()._end(code, reason, message)
        self.exit_event.set()
        if process is not None:
            # It ends by a fault or a script, not by itself.
            process.signal(signal.SIGKILL)

    def _read_written_message(self) -> bytes:
        return self._written_message

    def stop(self, grace: float) -> None:
        """Send the stop signal, and SIGKILL after `grace` real seconds."""
        if self.running and self._kill is None and self._process is not None:
            self._process.signal(self.stop_signal)
            self._kill = self.clock.call_later(grace, self.kill, scaled=False)

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.running and self._process is not None:
            self._process.signal(signal.SIGKILL)

    def update_memory(self, limit: int | None) -> None:
        """Set the memory limit in bytes; None for no limit."""
        process = self._process
        if process is not None:
            self._update = asyncio.ensure_future(_update_memory(process, limit))

    # -- sessions

    def run(self, argv: list[str], *, stdin: bool, tty: bool) -> ProcessSession:
        """Start another command in the container; its output has the failure, if any.

        Raises:
            StartError: there is no command, or the container has ended.
        """
        process = self._process
        if not argv or process is None:
            raise StartError("args must not be empty" if process else "container is not running")
        output = OutputBuffer()
        started: list[RuntimeProcess] = []

        def on_started(failure: StartFailure | None) -> None:
            if failure is not None:
                denial = self._describe_denial(failure)
                output.fail(format_exec_error(failure.message) + denial)

        def on_output(stream: Stream, data: bytes) -> None:
            output.write(_STREAMS[stream], data)
            if output.must_wait(started[0].resume_output):
                started[0].pause_output()

        session = process.exec(
            tuple(argv), on_started=on_started, on_output=on_output,
            on_exit=lambda end: output.end(end.code), stdin=stdin, tty=tty,
        )  # fmt: skip
        started.append(session)
        program_input = _ProgramInput(session.stdin) if session.stdin is not None else None
        return ProcessSession(
            program_input, output, lambda: session.signal(signal.SIGKILL), session.resize_terminal
        )

    def attach(self, *, stdin: bool) -> ProcessSession:
        """Attach to the program."""
        output = OutputBuffer()
        process = self._process
        program_input: _ProgramInput | None = None
        if stdin and process is not None and process.stdin is not None:
            program_input = _ProgramInput(process.stdin, closes=self.stdin_once)
        self._attached_sinks.append(output)

        def leave() -> None:
            if output in self._attached_sinks:
                self._attached_sinks.remove(output)
                # Whatever it has not read must not block the program.
                output.drain()

        resize = process.resize_terminal if process is not None else None
        return ProcessSession(program_input, output, leave, resize)


async def _update_memory(process: RuntimeContainer, limit: int | None) -> None:
    # A limit below the usage is refused; the container keeps the old one.
    with suppress(OSError):
        await process.update_memory(limit)


def find_stop_signal(container: Obj) -> int:
    """Return the number of the signal that ends a container."""
    name = (container.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    base, plus, offset = name.partition("+")
    base, minus, below = (base, "", "") if plus else name.partition("-")
    number = int(getattr(signal, base, signal.SIGTERM))
    if plus and offset.isdigit():
        return number + int(offset)
    return number - int(below) if minus and below.isdigit() else number

"""Containers of mapped images: programs that run as processes, in the sandbox of their pod.

A pod gets a sandbox if an image of it is mapped. Its other containers are simulated as ever, and
share the volumes with the programs.

Source: kuberuntime_container.go, `generateContainerConfig`; kuberuntime_sandbox.go,
`generatePodSandboxConfig`; containerd internal/cri/server/container_create_linux.go.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import shutil
import signal
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, ProcessSession
from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.cri import (
    ContainerConfigError,
    CreateContainerError,
    Image,
    Notice,
    SandboxError,
)
from pytest_kwait.simulator.kubelet_api import StartError
from pytest_kwait.simulator.network.cluster_network import find_network
from pytest_kwait.simulator.network.pod_network import PodNetwork, get_pod_networks
from pytest_kwait.simulator.protocol.addresses import NODE_NETWORK, POD_NETWORK
from pytest_kwait.simulator.runtimes.container import (
    TERMINATION_LOG,
    RuntimeContainer,
    format_exec_error,
    format_spec_error,
    format_start_error,
)
from pytest_kwait.simulator.runtimes.processes import bytecode
from pytest_kwait.simulator.runtimes.processes.bytecode import BytecodeCache, find_environment
from pytest_kwait.simulator.runtimes.processes.links import ImageFolders, find_dangling_links
from pytest_kwait.simulator.runtimes.processes.plain_checks import (
    describe_remedy,
    find_missing_path,
    has_missed_token,
    is_port_taken,
    make_token_notice,
)
from pytest_kwait.simulator.runtimes.processes.program_network import ProgramPorts
from pytest_kwait.simulator.runtimes.processes.runtime import (
    ContainerConfig,
    ContainerRuntime,
    EmptyDir,
    Isolation,
    Mount,
    NetworkConfig,
    SandboxConfig,
    StartFailure,
    detect_isolation,
)
from pytest_kwait.simulator.runtimes.service import PodSandbox
from pytest_kwait.temp_dir import TempDir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.clock import ScheduledCall, SimClock
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet import cri
    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
    from pytest_kwait.simulator.runtimes.processes.bytecode import ContainerBytecode
    from pytest_kwait.simulator.runtimes.processes.runtime import (
        Exit,
        InputStream,
        RuntimeProcess,
        Sandbox,
        Stream,
    )
    from pytest_kwait.simulator.runtimes.processes.runtime import (
        RuntimeContainer as LaunchedContainer,
    )

_STREAMS: dict[Stream, int] = {"stdout": 1, "stderr": 2}
_DEFAULT_STORAGE = 1 << 30
# Source: kubelet config defaults, `syncFrequency`: volumes are updated with each sync of a pod.
_VOLUME_SYNC_SECONDS = 60.0
# Folders of the machine that containers have of their own.
_PRIVATE_FOLDERS = ("/tmp", "/run", "/var/tmp")  # noqa: S108
_PORT_SECONDS = 0.5
_LOG_LINES = 80
_SAVE_SECONDS = 5.0
"""Maximum real seconds in which programs save what they have in folders of the machine."""


class MappedImage(Image, frozen=True, kw_only=True):
    """An image that is mapped to a program."""

    mapping: ImageMapping


class ClusterPrograms:
    """The container runtime of a cluster and the folders of its volumes, made on first use."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._folder: TempDir | None = None
        self._runtime: ContainerRuntime | None = None
        self._network: PodNetwork | None = None
        self._closing: asyncio.Future[None] | None = None
        self._detected: Isolation | None = None
        self._bytecode: BytecodeCache | None = None
        self.pods: WeakSet[PodPrograms] = WeakSet()
        cluster.services.on_close(self.close)

    @property
    def is_closed(self) -> bool:
        """True once the cluster has ended: nothing is started or written any more."""
        return self._cluster.services.is_closed

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
                f"{gateway}/{prefix}",
                (*self._cluster.addresses.cidrs, NODE_NETWORK, *self._list_balanced_networks()),
            )
            runtime_folder = self.folder / "runtime"
            runtime_folder.mkdir(exist_ok=True)
            runtime = ContainerRuntime(
                runtime_folder,
                network,
                on_failed=self._on_runtime_failed,
                isolation=self._cluster.isolation,
            )
            self._runtime = runtime
            self._network = PodNetwork(
                self._cluster,
                runtime,
                lambda address: find_network(self._cluster, address),
                self._cluster.server_address,
            )
            get_pod_networks(self._cluster).start(self._network)
        return self._runtime

    @property
    def bytecode(self) -> BytecodeCache:
        """The bytecode that containers have written."""
        if self._bytecode is None:
            self._bytecode = BytecodeCache(self.folder / "bytecode")
        return self._bytecode

    def _list_balanced_networks(self) -> tuple[str, ...]:
        """Return the network of the load balancers' addresses, if there are any."""
        if not self._cluster.has_load_balancers:
            return ()
        from pytest_kwait.simulator.network.load_balancers import get_load_balancers

        return get_load_balancers(self._cluster).list_networks()

    async def list_missing_isolation(self) -> list[str]:
        """Return a sentence for each restriction of the isolation; empty before any program."""
        if self._runtime is None:
            return []
        try:
            return list((await self._runtime.get_isolation()).missing)
        except OSError:  # its process has ended, which events of pods tell
            return []

    async def detect_isolation(self) -> Isolation | None:
        """Return the isolation of programs; None if they cannot be run, as events of pods say."""
        if self._detected is None:
            runtime = self._runtime
            try:
                self._detected = await (
                    detect_isolation(self._cluster.isolation)
                    if runtime is None
                    else runtime.get_isolation()
                )
            except OSError:
                return None
        return self._detected

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
        """End all programs and remove the folders, when the cluster ends."""
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
    return cluster.services.get(ClusterPrograms, lambda: ClusterPrograms(cluster))


class PodPrograms(PodSandbox):
    """The sandbox of a pod whose images are mapped, and the folders of its volumes."""

    def __init__(self, config: cri.PodSandboxConfig, host: cri.PodHost) -> None:
        super().__init__(config, host)
        self._programs = get_cluster_programs(host.cluster)
        self._sandbox: Sandbox | None = None
        self._ports: ProgramPorts | None = None
        self._volumes: cri.VolumeFolders | None = None
        self._sync: ScheduledCall | None = None
        self._containers: list[ProgramContainer] = []
        self._without_token: set[str] = set()
        """Names of containers that have failed for want of in-cluster configuration."""
        self._stopped = False

    @property
    def volumes(self) -> cri.VolumeFolders:
        """The folders of the volumes."""
        if self._volumes is None:
            self._volumes = self.host.volumes.open_folders(self._programs.folder)
        return self._volumes

    def run(self) -> cri.Call[None]:
        """Create the sandbox and write the volumes, unless it runs.

        Raises:
            SandboxError: it could not be created.
        """
        host, programs = self.host, self._programs
        if not host.pod_ip:
            host.assign_address()
        if programs.is_closed:
            raise SandboxError("the cluster is being stopped")
        if self._sandbox is not None:
            return
        answers: list[Sandbox | StartFailure] = []

        def on_ready(answer: Sandbox | StartFailure) -> None:
            answers.append(answer)
            if self._stopped and not isinstance(answer, StartFailure):
                answer.stop()
            host.resume_waiting()

        try:
            self.write_volumes()
            runtime = programs.runtime
            network = get_pod_networks(host.cluster).current
            filtering = None if network is None else network.update_filter()
            runtime.run_sandbox(self._make_config(), on_ready)
        except OSError as error:
            raise SandboxError(str(error)) from None
        programs.pods.add(self)
        if filtering is not None:
            filtering.add_done_callback(lambda _: host.resume_waiting())
        while not answers or (filtering is not None and not filtering.done()):
            yield None
        answer = answers[0]
        if isinstance(answer, StartFailure):
            raise SandboxError(answer.message)
        self._sandbox = answer
        self.volumes.share_empty_dirs(answer.empty_dirs)
        self._ports = ProgramPorts(programs.runtime, host.pod_ip, answer)
        host.network.programs = self._ports
        self._schedule_volume_sync()

    def _make_config(self) -> SandboxConfig:
        config, address = self.config, self.host.pod_ip
        return SandboxConfig(
            id=config.uid,
            hostname=config.hostname,
            address=address,
            domainname=config.domainname,
            share_pids=config.share_pids,
            host_network=config.host_network,
            storage_bytes=(
                _DEFAULT_STORAGE if config.storage_bytes is None else config.storage_bytes
            ),
            empty_dirs=tuple(EmptyDir(*folder) for folder in self.volumes.list_empty_dirs()),
            files={
                path: content() if callable(content) else content
                for path, content in config.files(address).items()
            },
            sysctls=config.sysctls,
            hidden=(str(self._programs.folder), *self.host.cluster.private_paths),
        )

    def _schedule_volume_sync(self) -> None:
        self._sync = self.host.cluster.clock.call_later(_VOLUME_SYNC_SECONDS, self._sync_volumes)

    def _sync_volumes(self) -> None:
        """Write changed config maps, secrets, fields and expiring tokens."""
        if self._stopped or self._sandbox is None:
            return
        if not self._programs.is_closed:
            self.volumes.update()
        self._schedule_volume_sync()

    def write_volumes(self) -> None:
        """Write the pod's API-backed volumes.

        Raises:
            OSError: they cannot be written.
        """
        if not self._programs.is_closed:
            self.volumes.write()

    def create(self, container: ProgramContainer) -> LaunchedContainer:
        """Create a container in the sandbox and start its program."""
        assert self._sandbox is not None  # noqa: S101 - made before its containers
        self._containers.append(container)
        self._record_dangling_links(container)
        return self._sandbox.create_container(
            container.launch_config,
            on_started=container.on_started,
            on_output=container.on_output,
            on_exit=container.on_exit,
        )

    def _record_dangling_links(self, container: ProgramContainer) -> None:
        """Record the first link of the image that leads to nothing in a container."""
        mapping, config = container.mapping, container.launch_config
        if self._programs.runtime.is_plain:
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
            self.host.record_container_event(container.config.name, "Warning", "DanglingLink", text)

    def check_isolation(
        self, config: cri.ContainerConfig, launch_config: ContainerConfig
    ) -> cri.Call[None]:
        """Refuse a container that cannot work without namespaces, where there are none.

        Ports of a pod that is being deleted are waited for.

        Raises:
            CreateContainerError: it needs a path that it cannot have, or a port in use.
        """
        programs, cluster = self._programs, self.host.cluster
        if programs.is_closed or not programs.runtime.is_plain:
            return
        notice = find_missing_path(cluster, self.host.pod, config.name, launch_config)
        if notice is None and config.name in self._without_token:
            notice = make_token_notice(cluster.isolation)
        if notice is not None:
            raise CreateContainerError(notice.message, notice)
        for number, kind in sorted(config.ports):
            while (holder := self._find_holder(number, kind)) is not None:
                if not holder.host.deleted:
                    notice = self._make_port_notice(number, holder)
                    raise CreateContainerError(notice.message, notice)
                yield _PORT_SECONDS

    def open_bytecode(self, launch_config: ContainerConfig) -> ContainerBytecode | None:
        """Return the folder for the bytecode of a container; None if it needs none.

        Plain processes write bytecode beside the machine's own files.
        """
        programs = self._programs
        if programs.is_closed or programs.runtime.is_plain:
            return None
        config = launch_config
        environment = find_environment(config.argv, config.env, config.workdir)
        if not environment:
            return None
        try:
            return programs.bytecode.open(environment, [mount.target for mount in config.mounts])
        except OSError:  # without it imports are compiled
            return None

    def record_missing_isolation(self, container: ProgramContainer) -> None:
        """Record what a container that has failed has lacked without namespaces."""
        programs, host = self._programs, self.host
        if programs.is_closed or not programs.runtime.is_plain:
            return
        name, notices = container.config.name, []
        for number, kind in sorted(container.config.ports):
            holder = self._find_holder(number, kind)
            if holder is not None:
                notices.append(self._make_port_notice(number, holder))
        log = container.config.log.read_end(_LOG_LINES)
        if has_missed_token(host.pod, name, container.launch_config, log):
            self._without_token.add(name)
            notices.append(make_token_notice(host.cluster.isolation))
        for notice in notices:
            host.record_container_event(name, *notice)

    def _find_holder(self, number: int, kind: str) -> PodPrograms | None:
        """Return the other pod whose program declares a port and has it."""
        for other_pod in self._programs.pods:
            if other_pod is not self and (number, kind) in other_pod.list_running_ports():
                return other_pod if is_port_taken(number, kind) else None
        return None

    def _make_port_notice(self, number: int, holder: PodPrograms) -> cri.Notice:
        text = (
            f"Port {number} of pod {self} is in use by pod {holder}: without namespaces all pods "
            "share the machine's ports; use another port, or "
            f"{describe_remedy(self.host.cluster.isolation)}"
        )
        return Notice(WARNING, "PortConflict", text)

    def __str__(self) -> str:
        return f'"{self.config.namespace}/{self.config.name}"'

    def list_running_ports(self) -> set[tuple[int, str]]:
        """Return the ports that the running programs declare, with `TCP` or `UDP`."""
        return {
            port
            for container in self._containers
            if container.running
            for port in container.config.ports
        }

    def list_savers(self) -> list[ProgramContainer]:
        """Return the running containers that may write to folders of the machine."""
        return [one for one in self._containers if one.running and one.may_save]

    def on_sandbox_lost(self, why: str) -> None:
        """End the containers of a sandbox that has ended by itself; the next sync makes another."""
        self._sandbox = None
        self._close_ports()
        if self._stopped:
            return
        message = f"Pod sandbox changed, it will be killed and re-created: {why}"
        self.host.record_event("Normal", "SandboxChanged", message)
        containers, self._containers = self._containers, []
        for container in containers:
            container.on_lost()

    def _close_ports(self) -> None:
        self.host.network.programs = None
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


def find_program_arguments(mapping: ImageMapping, config: cri.ContainerConfig) -> list[str]:
    """Return the program of a container and its arguments.

    Raises:
        CreateContainerError: neither the image nor the container has any.

    Source: containerd internal/cri/opts/spec_opts.go, `WithProcessArgs`.
    """
    if config.command:
        return [*config.command, *config.args]
    argv = [*mapping.command, *(config.args or mapping.args)]
    if not argv:
        raise CreateContainerError(format_spec_error("no command specified"))
    return argv


def make_launch_config(
    mapping: ImageMapping,
    config: cri.ContainerConfig,
    mounts: Sequence[cri.Mount],
    process_target: str | None = None,
) -> ContainerConfig:
    """Return the launcher's configuration of a container.

    Args:
        mounts: the volumes.
        process_target: the name of the container whose processes it sees; None for its own alone.

    Raises:
        ContainerConfigError: the mapping's user does not exist.
        CreateContainerError: there is no command.
    """
    argv = find_program_arguments(mapping, config)
    context = config.security_context
    # As in images, the group of a given user is 0 unless the user's entry names another. The
    # image's own user need not exist then.
    user, group = context.run_as_user, None
    if user is None:
        user, group = _find_user(mapping)
    if context.run_as_group is not None:
        group = context.run_as_group
    whole = {**mapping.env, **config.envs}
    whole.setdefault("HOME", _find_home(user))
    if config.tty:
        whole.setdefault("TERM", "xterm")
    return ContainerConfig(
        id=_make_launch_id(config),
        argv=tuple(argv),
        env=whole,
        workdir=config.working_dir or mapping.workdir,
        user=user,
        group=group,
        groups=context.supplemental_groups,
        mounts=(
            *(Mount(path, path) for path in mapping.writable),
            *(
                Mount(path, source, read_only=True, is_of_image=True)
                for path, source in mapping.files.items()
            ),
            *(
                Mount(
                    mount.container_path, mount.host_path or None, mount.empty_dir or None,
                    mount.sub_path, mount.readonly,
                )
                for mount in mounts
            ),
        ),
        visible=find_visible_paths(mapping),
        read_only_root=context.readonly_rootfs,
        no_new_privs=context.no_new_privs,
        privileged=context.privileged,
        capabilities_add=context.add_capabilities,
        capabilities_drop=context.drop_capabilities,
        memory_bytes=config.resources.memory_limit_in_bytes,
        tty=config.tty,
        stdin=config.stdin,
        termination_log=config.termination_message_path or TERMINATION_LOG,
        process_target=process_target,
    )  # fmt: skip


def _make_launch_id(config: cri.ContainerConfig) -> str:
    return f"{config.name}-{config.attempt}"


def _find_user(mapping: ImageMapping) -> tuple[int | None, int | None]:
    """Return the user and group of a mapping; None for those of the container's root."""
    name, _, group_name = mapping.user.partition(":")
    remedy = (
        f': image "{mapping.pattern}" is mapped, and this machine has none of that name: give its '
        "number by user= in the mapping"
    )
    user: int | None = None
    group: int | None = None
    try:
        if name:
            entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
            user, group = entry.pw_uid, entry.pw_gid
    except KeyError:
        if not name.isdigit():
            text = f"unable to find user {name}: no matching entries in passwd file" + remedy
            raise ContainerConfigError(text) from None
        user = int(name)
    try:
        if group_name:
            group = int(group_name) if group_name.isdigit() else grp.getgrnam(group_name).gr_gid
    except KeyError:
        text = f"unable to find group {group_name}: no matching entries in group file" + remedy
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
    programs = [shutil.which(word, path=mapping.env.get("PATH")) for word in mapping.command[:1]]
    words = [word for word in (*mapping.command, *mapping.args) if word.startswith("/")]
    for word in [*words, *filter(None, programs)]:
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


class ProgramContainer(RuntimeContainer):
    """A container that runs a program of the machine.

    Args:
        pod: the programs of its pod.
        mapping: the program.
        launch_config: the launcher's configuration.
    """

    def __init__(
        self,
        clock: SimClock,
        config: cri.ContainerConfig,
        pod: PodPrograms,
        mapping: ImageMapping,
        launch_config: ContainerConfig,
    ) -> None:
        super().__init__(clock, config, pod.host.on_container_stopped)
        self.mapping = mapping
        self.launch_config = launch_config
        self.may_save = bool(mapping.writable)
        """True for a program that may write to folders of the machine."""
        self.exit_event = asyncio.Event()
        """Set once the program has ended."""
        self.failure = ""
        """Why the program could not be started."""
        self._pod = pod
        self._is_starting = False
        self._process: LaunchedContainer | None = None
        self._written_message = b""
        self._paused = False
        self._update: asyncio.Future[None] | None = None
        self._bytecode: ContainerBytecode | None = None

    def start(self) -> cri.Call[str]:
        """Start the program; return why it failed, or ""."""
        self._is_starting = True
        self._bytecode = self._pod.open_bytecode(self.launch_config)
        if self._bytecode is not None:
            config, mount = self.launch_config, Mount(bytecode.TARGET, str(self._bytecode.folder))
            env = {**config.env, bytecode.VARIABLE: bytecode.TARGET}
            self.launch_config = replace(config, env=env, mounts=(*config.mounts, mount))
        self._process = self._pod.create(self)
        while self._is_starting:
            yield None
        return self.failure

    # -- called by the runtime

    def on_started(self, failure: StartFailure | None) -> None:
        """Record the start, or why it failed."""
        if not self._is_starting:
            return
        self._is_starting = False
        if failure is None:
            self.begin(self.clock.time())
        else:
            self.failure = format_start_error(failure.message) + self._describe_denial(failure)
            self._process = None
            self.fail_to_start(self.failure)
        self._pod.host.resume_waiting()

    def on_output(self, stream: Stream, data: bytes) -> None:
        """Log output; a slow client that is attached blocks the program."""
        self.write(_STREAMS[stream], data)
        if not self._paused and any(sink.must_wait(self._resume) for sink in self.attached_sinks):
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
        if end.fault:
            name = self.config.name
            text = (
                f'The process that intercepts system calls of container "{name}" was ended by '
                f"{end.fault}, and the container with it"
            )
            self._pod.host.record_container_event(name, "Warning", "InterceptorKilled", text)
        if reason == "Error" and self._kill is None:
            self._pod.record_missing_isolation(self)
        self.exit(end.code, reason)

    def on_lost(self) -> None:
        """Record the end of a program whose sandbox has ended."""
        self._process = None
        if self._is_starting:
            self._is_starting = False
            self.begin(self.clock.time())
            self._pod.host.resume_waiting()
        self.exit_killed()

    def _describe_denial(self, failure: StartFailure) -> str:
        """Return which user may not do what, to follow the runtime's error; empty without one."""
        if not failure.denied:
            return ""
        return f": {self._describe_user()} may not {failure.denied}"

    def _describe_user(self) -> str:
        """Return the user with the place that it comes from."""
        context, user = self.config.security_context, self.launch_config.user or 0
        if context.run_as_user is not None:
            return f"runAsUser {user} of {context.run_as_user_origin}"
        if self.mapping.user:
            return f'user {user} of the mapping of "{self.mapping.pattern}"'
        return f"user {user}"

    # -- container

    def kill_processes(self) -> None:
        """Kill a program that has not ended by itself, but by a fault."""
        process, self._process = self._process, None
        if process is not None:
            process.signal(signal.SIGKILL)

    def close(self) -> None:
        """Tell the waiting callers of the end."""
        if self._bytecode is not None:
            self._bytecode.close()
        self.exit_event.set()

    def read_written_message(self) -> bytes:
        """Return the contents of the file of the termination message."""
        return self._written_message

    def stop(self, grace: float) -> None:
        """Send the stop signal, and SIGKILL after `grace` real seconds."""
        if self.running and self._kill is None and self._process is not None:
            self._process.signal(self.config.stop_signal)
            self._kill = self.clock.call_later(grace, self.kill, scaled=False)

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.running and self._process is not None:
            self._process.signal(signal.SIGKILL)

    def update_resources(self, resources: cri.LinuxContainerResources) -> None:
        """Set the memory limit; all others are not enforced."""
        super().update_resources(resources)
        process = self._process
        if process is not None:
            self._update = asyncio.ensure_future(
                _update_memory(process, resources.memory_limit_in_bytes)
            )

    # -- sessions

    def run(self, argv: Sequence[str], *, stdin: bool, tty: bool) -> ProcessSession:
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
            program_input = _ProgramInput(process.stdin, closes=self.config.stdin_once)
        self.attached_sinks.append(output)

        def leave() -> None:
            if output in self.attached_sinks:
                self.attached_sinks.remove(output)
                # Whatever it has not read must not block the program.
                output.drain()

        resize = process.resize_terminal if process is not None else None
        return ProcessSession(program_input, output, leave, resize)


async def _update_memory(process: LaunchedContainer, limit: int | None) -> None:
    # A limit below the usage is refused; the container keeps the old one.
    with suppress(OSError):
        await process.update_memory(limit)

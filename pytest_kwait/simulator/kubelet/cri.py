"""The interface between the kubelet and container runtimes, in the words of CRI.

A runtime implements `RuntimeService` and `ImageService`. The kubelet sees these and `Runtimes`, the
table that chooses a runtime for each container. What a runtime needs of the kubelet is in
`PodHost`. Everything runs on the cluster's event loop and clock.

ExecSync is an `exec` whose output is read to its end.

Source: k8s.io/cri-api pkg/apis/services.go; pkg/apis/runtime/v1/api.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import msgspec

from pytest_kwait.simulator.protocol.container_scripts import EMPTY, Script

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_kwait.simulator.busybox.os.files import Inode
    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import ProcessSession
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.image_reference import ImageReference
    from pytest_kwait.simulator.objects import Obj

T = TypeVar("T")
Call = Generator[float | None, None, T]
"""A call that may take time: `yield from` it.

It yields scaled seconds to pause, or None to wait until `PodHost.resume_waiting` is called.
"""

FileContent = bytes | Callable[[], bytes]
"""The content of a file, or a function that makes it when the file is first needed."""

SIGKILL_EXIT_CODE = 137


# -- errors


class SandboxError(Exception):
    """A sandbox could not be created; `str` is the runtime's reason."""


class ImagePullError(Exception):
    """An image cannot be pulled; `str` is the runtime's reason."""


class ContainerConfigError(Exception):
    """An object or key that a container refers to is missing; `str` is the kubelet's text."""


class Notice(NamedTuple):
    """An event that a runtime adds to those of the kubelet."""

    severity: str
    reason: str
    message: str


class CreateContainerError(Exception):
    """A container could not be created.

    Args:
        why: the runtime's reason.
        notice: an event that explains it.
    """

    def __init__(self, why: str, notice: Notice | None = None) -> None:
        super().__init__(why)
        self.notice = notice


class StartContainerError(Exception):
    """A container could not be started, and has ended.

    Args:
        why: the runtime's reason.
        notice: an event that explains it.
    """

    def __init__(self, why: str, notice: Notice | None = None) -> None:
        super().__init__(why)
        self.notice = notice


# -- images


class ImageSpec(NamedTuple):
    """An image to run.

    Args:
        image: the parsed reference.
        user_specified_image: the reference as in the manifest.
    """

    image: ImageReference
    user_specified_image: str


class Image(msgspec.Struct, frozen=True):
    """What a runtime knows of an image.

    Args:
        pinned: whether it is on every node from the start.
        uid: the user that it runs as; None if that is unknown, or a name.
        username: the user that it runs as if it is not a number.
        env: its variables that manifests may refer to.
        files: files and folders of the machine by their path, for volumes that have the image.
        stop_signal: the name or number of the signal that ends it; empty for `SIGTERM`.
    """

    spec: ImageSpec
    pinned: bool = False
    uid: int | None = None
    username: str = ""
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    files: Mapping[str, str] = msgspec.field(default_factory=dict)
    stop_signal: str = ""

    @property
    def id(self) -> str:
        """The `imageID` of container statuses."""
        return self.spec.image.image_id


class ImageService(Protocol):
    """The images of a runtime."""

    def image_status(self, spec: ImageSpec) -> Image:
        """Return what is known of an image."""

    def pull_image(self, spec: ImageSpec) -> Call[None]:
        """Pull an image.

        Raises:
            ImagePullError: it cannot be pulled; raised at once.
        """


# -- pods


class Mount(NamedTuple):
    """A volume in a container, as a folder or file of the machine.

    Args:
        container_path: absolute path in the container.
        host_path: absolute path on the machine; exclusive with `empty_dir`.
        empty_dir: name of an empty folder of the pod's sandbox.
        sub_path: path below the empty folder.
        readonly: whether writes are refused.
    """

    container_path: str
    host_path: str = ""
    empty_dir: str = ""
    sub_path: str = ""
    readonly: bool = False


class EmptyDir(NamedTuple):
    """An empty folder that the containers of a pod share.

    Args:
        size_bytes: its limit; None for the limit of the pod's storage.
        group: the group of files created in it (`fsGroup`).
    """

    name: str
    size_bytes: int | None = None
    group: int | None = None


class MemoryMounts(NamedTuple):
    """The volumes of a container, as files in memory.

    Args:
        files: contents of files by path.
        nodes: folders and files that are shared, by path.
        read_only: paths that the container may not write to.
    """

    files: Mapping[str, FileContent]
    nodes: Mapping[str, Inode]
    read_only: Sequence[str]


class ContainerMounts(Protocol):
    """The volumes of one container, in the form that its runtime needs."""

    def has(self, container_path: str) -> bool:
        """Return whether a volume is mounted at a path."""

    def in_memory(self) -> MemoryMounts:
        """Return them as files in memory.

        Raises:
            ContainerConfigError: a sub-path cannot be used.
            FileSystemError: a folder cannot be made.
        """

    def on_disk(self) -> Sequence[Mount]:
        """Return them as folders of the machine; `PodVolumes.open_folders` was called before.

        Raises:
            ContainerConfigError: a sub-path cannot be used.
            OSError: a folder cannot be made.
        """


class VolumeFolders(Protocol):
    """The volumes of a pod as folders of the machine."""

    def write(self) -> None:
        """Write the API-backed volumes.

        Raises:
            OSError: they cannot be written.
        """

    def update(self) -> None:
        """Write changed API-backed volumes, unless the kubelet is stopped."""

    def list_empty_dirs(self) -> tuple[EmptyDir, ...]:
        """Return the empty folders, which the runtime makes."""

    def share_empty_dirs(self, folders: Mapping[str, Path]) -> None:
        """Let containers with volumes in memory use the empty folders that were made."""

    def close(self) -> None:
        """Remove the folders of the pod."""


class PodVolumes(Protocol):
    """The volumes of one pod."""

    def open_folders(self, disk: Path) -> VolumeFolders:
        """Return the volumes as folders below `disk`, the same folder for a whole cluster."""


class PodHost(Protocol):
    """What the kubelet does for the runtimes of one pod.

    It has the place of CNI and of the volume manager, and takes the runtimes' events.
    """

    @property
    def pod(self) -> Obj:
        """The pod."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""

    @property
    def deleted(self) -> bool:
        """Return whether the pod's deletion has begun."""

    @property
    def network(self) -> Network:
        """The network namespace of the pod."""

    @property
    def pod_ip(self) -> str:
        """The address of the pod; empty before `assign_address`."""

    @property
    def volumes(self) -> PodVolumes:
        """The volumes of the pod."""

    def assign_address(self) -> str:
        """Connect the pod to the network, and return its address."""

    def resume_waiting(self) -> None:
        """Resume a call that waits."""

    def on_container_stopped(self, container_id: str) -> None:
        """Handle the end of a container."""

    def record_event(self, severity: str, reason: str, message: str) -> None:
        """Record an event about the pod."""

    def record_container_event(self, name: str, severity: str, reason: str, message: str) -> None:
        """Record an event about a container of the pod."""


class PodSandboxConfig(msgspec.Struct, frozen=True):
    """The sandbox of a pod.

    Args:
        uid: the pod's UID, which is the id of its sandbox.
        domainname: empty without one.
        files: returns files in every container by path, for the pod's address.
        share_pids: whether the containers see each other's processes.
        storage_bytes: limit of what the containers write outside volumes; None without one.
        sysctls: settings of the pod's namespaces by dotted name.
    """

    uid: str
    name: str
    namespace: str
    hostname: str
    domainname: str
    files: Callable[[str], Mapping[str, FileContent]]
    host_network: bool = False
    share_pids: bool = False
    storage_bytes: int | None = None
    sysctls: Mapping[str, str] = msgspec.field(default_factory=dict)


# -- containers


class LinuxContainerResources(msgspec.Struct, frozen=True, gc=False):
    """The resources of a container.

    Args:
        cpu_quota: microseconds in each `cpu_period`; None for no limit.
        memory_limit_in_bytes: None for no limit.
    """

    cpu_period: int
    cpu_quota: int | None
    cpu_shares: int
    memory_limit_in_bytes: int | None
    oom_score_adj: int


class LinuxContainerSecurityContext(msgspec.Struct, frozen=True):
    """The rights of a container.

    Args:
        run_as_user: None for the user of the image.
        run_as_user_origin: where the user comes from, for messages: `container "web"` or `the pod`.
        run_as_group: None for the group of the user.
        supplemental_groups: further groups, `fsGroup` included.
        seccomp_profile: path of a profile on the node; empty for the runtime's own.
    """

    run_as_user: int | None = None
    run_as_user_origin: str = ""
    run_as_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    privileged: bool = False
    readonly_rootfs: bool = False
    no_new_privs: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    seccomp_profile: str = ""


class ContainerLog(Protocol):
    """The log of a container, which its runtime writes."""

    def write(self, now: float, stream: int, data: bytes) -> None:
        """Append output of stdout (1) or stderr (2)."""

    def read_end(self, most: int) -> bytes:
        """Return the last lines."""

    def end(self, now: float) -> None:
        """End the log."""


class ContainerConfig(msgspec.Struct, frozen=True):
    """One instance of a container.

    Args:
        name: the name of the container in its pod.
        attempt: the number of earlier instances.
        image: as `image_status` has returned it.
        command: replaces the image's entrypoint; empty for that.
        args: replace the image's arguments.
        working_dir: empty for the image's own.
        envs: the variables.
        mounts: the volumes.
        log: takes the output.
        stdin: whether the program's input can be attached.
        stdin_once: whether the input ends with the first attached client.
        tty: whether the program has a terminal.
        stop_signal: the number of the signal that asks it to end.
        target_id: the id of the container whose processes it sees; None for its own alone.
        ports: the ports that it declares or is probed at, with `TCP` or `UDP`.
        termination_message_path: the file of the termination message.
        termination_message_from_log: whether a failure without a message takes the end of the log.
        script: how it behaves in place of its program, for the runtime that plays scripts.
    """

    name: str
    attempt: int
    image: Image
    log: ContainerLog
    mounts: ContainerMounts
    resources: LinuxContainerResources
    security_context: LinuxContainerSecurityContext
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    envs: Mapping[str, str] = msgspec.field(default_factory=dict)
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    stop_signal: int = 15
    target_id: str | None = None
    ports: frozenset[tuple[int, str]] = frozenset()
    termination_message_path: str = ""
    termination_message_from_log: bool = False
    script: Script = EMPTY


class ContainerState(Enum):
    """The state of a container; the value is its name in metrics."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a container.

    Args:
        started_at: seconds since the epoch; None before the start.
        reason: why it has ended.
        message: its termination message.
    """

    state: ContainerState = ContainerState.CREATED
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""


class ContainerRequest(Protocol):
    """A request of a probe or lifecycle hook to a container; one of the methods is called, once."""

    def send(self) -> None:
        """Send it to the program of the container."""

    def assume_success(self) -> None:
        """Let it succeed in place of a program of which nothing is known."""


class ContainerStats(NamedTuple):
    """The usage of a container.

    Args:
        memory_bytes: what its processes hold.
        writable_layer_bytes: what it has written outside volumes.
    """

    memory_bytes: int = 0
    writable_layer_bytes: int = 0


class RuntimeService(ImageService, Protocol):
    """A container runtime of a cluster.

    Sandboxes have the UIDs of their pods as ids; ids of containers are the runtime's own.
    """

    def run_pod_sandbox(self, config: PodSandboxConfig, host: PodHost) -> Call[None]:
        """Create the sandbox of a pod, unless it is up.

        It is called for the first container that needs this runtime, too: the pod's network may
        have been brought up by another one.

        Raises:
            SandboxError: it could not be created.
        """

    def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """End the sandbox with its containers, even one that is being created; idempotent."""

    def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Forget a stopped sandbox; idempotent."""

    def port_forward(self, pod_sandbox_id: str, port: int) -> PortConnection:
        """Connect to a port inside the pod."""

    def create_container(self, pod_sandbox_id: str, config: ContainerConfig) -> Call[str]:
        """Create a container, and return its id.

        Raises:
            ContainerConfigError: its configuration cannot be used.
            FileSystemError: as `ContainerMounts.in_memory`.
            OSError: as `ContainerMounts.on_disk`.
            CreateContainerError: the runtime refuses it.
        """

    def start_container(self, container_id: str) -> Call[Notice | None]:
        """Start a container; return what else the pod's events should say.

        Raises:
            StartContainerError: it could not be started.
        """

    def stop_container(self, container_id: str, timeout: float) -> None:
        """Send the stop signal, and SIGKILL after `timeout` seconds; 0: SIGKILL at once.

        `PodHost.on_container_stopped` tells of the end.
        """

    def remove_container(self, container_id: str) -> None:
        """Forget an ended container; idempotent."""

    def container_status(self, container_id: str) -> ContainerStatus:
        """Return the status of a container."""

    def container_stats(self, container_id: str) -> ContainerStats:
        """Return the usage of a container."""

    def update_container_resources(
        self, container_id: str, resources: LinuxContainerResources
    ) -> None:
        """Set the resources of a running container."""

    def exec(
        self, container_id: str, cmd: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> ProcessSession:
        """Start a command in a container.

        Raises:
            StartError: it cannot be started.
        """

    def attach(self, container_id: str, *, stdin: bool = False) -> ProcessSession:
        """Attach to the program of a container."""

    def answer_request(self, container_id: str, request: ContainerRequest) -> None:
        """Send a request to the program of a container, or answer it in place of the program.

        CRI has no such call: its containers have programs.
        """

    def inject_exit(self, container_id: str, code: int, reason: str, message: str = "") -> None:
        """End a container by a fault: at once, with a given code, reason and message.

        CRI has no such call.
        """


class PortConnection(Protocol):
    """A connection to a port that is being made."""

    def __await__(self) -> Generator[object, None, ProcessSession | None]:
        """Return the connection; None if it is refused."""


# -- the choice of a runtime


class RunningContainer(Protocol):
    """A container that can be made to fail."""

    @property
    def name(self) -> str:
        """The name of the container in its pod."""

    def finish(self, code: int, reason: str, message: str) -> None:
        """End it with a given code, reason and message."""


class PodScripts(Protocol):
    """The scripts of a pod's containers."""

    def get_script(self, container: Obj) -> Script:
        """Return the script of a container."""

    def schedule_failure(self) -> None:
        """Schedule the failure of running containers if the pod asks for one."""

    def stop(self) -> None:
        """Cancel a scheduled failure."""


class Runtimes(ImageService, Protocol):
    """The runtimes of a cluster, and the choice among them."""

    def find_for_pod(self, pod: Obj) -> RuntimeService:
        """Return the runtime that makes the sandbox of a pod."""

    def find_for_container(self, image: ImageReference, script: Script) -> RuntimeService:
        """Return the runtime of a container."""

    def make_scripts(
        self, host: PodHost, list_running: Callable[[], Iterable[RunningContainer]]
    ) -> PodScripts:
        """Return the scripts of a pod.

        Args:
            list_running: returns the running containers of the pod.
        """

"""The interpreting runtime, driven through CRI without a kubelet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pytest_kwait.simulator.busybox.os.files import File
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.image_reference import parse_image
from pytest_kwait.simulator.kubelet.cri import (
    ContainerState,
    CreateContainerError,
    ImageSpec,
    LinuxContainerSecurityContext,
    MemoryMounts,
    Notice,
    PodSandboxConfig,
    StartContainerError,
)
from pytest_kwait.simulator.kubelet.logs import ContainerLog
from pytest_kwait.simulator.runtimes.interpreted.service import InterpretedRuntime
from pytest_kwait.simulator.runtimes.scripted import ScriptedRuntime
from tests.simulator.cluster import new_cluster
from tests.simulator.runtimes.configs import NoMounts, make_config
from tests.simulator.runtimes.interpreted.container_harness import take_output

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.cri import Call, ContainerConfig
    from tests.simulator.manual_clock import ManualClock

_POD = PodSandboxConfig(
    uid="1", name="p", namespace="t", hostname="host", domainname="",
    files=lambda address: {"/etc/hosts": f"{address} host\n".encode()},
)  # fmt: skip


class _Host:
    """A pod that gets one address, and records which containers have stopped."""

    pod: Any = None
    deleted = False
    volumes: Any = None

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.network = Network()
        self.pod_ip = ""
        self.stopped: list[str] = []

    def assign_address(self) -> str:
        self.pod_ip = self.network.address = "10.244.0.9"
        return self.pod_ip

    def resume_waiting(self) -> None:
        raise AssertionError("nothing waits")

    def on_container_stopped(self, container_id: str) -> None:
        self.stopped.append(container_id)

    def record_event(self, severity: str, reason: str, message: str) -> None:
        raise AssertionError(reason)

    def record_container_event(self, name: str, severity: str, reason: str, message: str) -> None:
        raise AssertionError(reason)


class _Kubelet:
    """Calls a runtime as a kubelet does."""

    def __init__(self, make: type[InterpretedRuntime] = InterpretedRuntime) -> None:
        cluster = new_cluster()
        self.clock: ManualClock = cluster.clock  # type: ignore[assignment]
        self.runtime = make(cluster)
        self.host = _Host(cluster)
        self.log = ContainerLog()

    def finish(self, call: Call[Any]) -> tuple[list[float | None], Any]:
        """Run a call to its end; return its pauses and its result."""
        pauses = []
        while True:
            try:
                pauses.append(next(call))
            except StopIteration as done:
                return pauses, done.value

    def start(self, *command: str, **fields: Any) -> str:
        """Return the id of a started container."""
        self.finish(self.runtime.run_pod_sandbox(_POD, self.host))
        config = make_config(self.log, command=command, envs={"PATH": "/bin"}, **fields)
        return self.start_config(config)

    def start_config(self, config: ContainerConfig) -> str:
        made: str = self.finish(self.runtime.create_container("1", config))[1]
        self.finish(self.runtime.start_container(made))
        self.clock.advance()
        return made


def test_a_sandbox_takes_time_once() -> None:
    kubelet = _Kubelet()
    assert kubelet.finish(kubelet.runtime.run_pod_sandbox(_POD, kubelet.host))[0] == [0.3]
    assert kubelet.host.pod_ip == "10.244.0.9"
    assert kubelet.finish(kubelet.runtime.run_pod_sandbox(_POD, kubelet.host))[0] == []


def test_a_container_runs_to_its_end() -> None:
    kubelet = _Kubelet()
    made = kubelet.start("sh", "-c", "hostname; cat /etc/hosts; sleep 5; exit 3")
    status = kubelet.runtime.container_status(made)
    assert status.state is ContainerState.RUNNING
    kubelet.clock.advance(6)
    status = kubelet.runtime.container_status(made)
    assert (status.state, status.exit_code, status.reason) == (ContainerState.EXITED, 3, "Error")
    assert [line for _, line in kubelet.log] == [b"host\n", b"10.244.0.9 host\n"]
    assert kubelet.host.stopped == [made]
    kubelet.runtime.remove_container(made)
    kubelet.runtime.remove_container(made)
    assert kubelet.runtime.containers == {}


@pytest.mark.parametrize(
    ("command", "is_needed"),
    [(("sleep", "1"), False), (("cat", "/etc/hosts"), True), (("ls", "/dev"), True)],
)
def test_files_are_made_when_a_program_uses_one(command: tuple[str, ...], is_needed: bool) -> None:
    kubelet, made = _Kubelet(), []

    def make_hosts() -> bytes:
        made.append("/etc/hosts")
        return b"host\n"

    sandbox = replace(_POD, files=lambda _: {"/etc/hosts": make_hosts})
    kubelet.finish(kubelet.runtime.run_pod_sandbox(sandbox, kubelet.host))
    config = make_config(kubelet.log, command=command, envs={"PATH": "/bin"})
    container = kubelet.start_config(config)
    kubelet.clock.advance(2)
    status = kubelet.runtime.container_status(container)
    assert (status.state, status.message) == (ContainerState.EXITED, "")
    assert made == ["/etc/hosts"] * is_needed


class _MessageMount(NoMounts):
    """A file that another container has written."""

    def __init__(self, path: str) -> None:
        self._path = path

    def in_memory(self) -> MemoryMounts:
        return MemoryMounts({}, {self._path: File(b"by another")}, ())


@pytest.mark.parametrize(
    ("path", "mounted", "message"),
    [
        ("/dev/termination-log", "/dev/termination-log", "by another"),
        ("", "//dev/termination-log", "by another"),
        ("/dev/termination-log", "/device", ""),
        ("/message", "/message", "by another"),
        ("/etc/hosts", "/message", "10.244.0.9 host\n"),
    ],
)
def test_termination_messages_of_programs_that_use_no_file(
    path: str, mounted: str, message: str
) -> None:
    kubelet = _Kubelet()
    kubelet.finish(kubelet.runtime.run_pod_sandbox(_POD, kubelet.host))
    config = make_config(kubelet.log, command=("true",), termination_message_path=path)
    container = kubelet.start_config(replace(config, mounts=_MessageMount(mounted)))
    kubelet.clock.advance(1)
    status = kubelet.runtime.container_status(container)
    assert (status.state, status.message) == (ContainerState.EXITED, message)


def test_sessions_and_usage() -> None:
    kubelet = _Kubelet()
    made = kubelet.start("sh", "-c", "head -c 8192 /dev/zero > /file; sleep 99")
    session = kubelet.runtime.exec(made, ["wc", "-c", "/file"])
    kubelet.clock.advance()
    assert take_output(session)[1] == b"8192 /file\n"
    assert kubelet.runtime.container_stats(made).writable_layer_bytes == 8192
    attached = kubelet.runtime.attach(made)
    kubelet.runtime.stop_container(made, 0)
    assert take_output(attached) == {1: b"", 2: b""}
    assert kubelet.runtime.container_status(made).exit_code == 137


@pytest.mark.parametrize(
    ("script", "code"), [("trap 'exit 4' TERM; sleep 99 & wait", 4), ("sleep 99", 137)]
)
def test_stopping_sends_the_signal_first(script: str, code: int) -> None:
    kubelet = _Kubelet()
    made = kubelet.start("sh", "-c", script)
    kubelet.runtime.stop_container(made, 2)
    kubelet.clock.advance(3)
    assert kubelet.runtime.container_status(made).exit_code == code


def test_an_injected_exit_is_the_end() -> None:
    kubelet = _Kubelet()
    made = kubelet.start("sleep", "99")
    kubelet.runtime.inject_exit(made, 137, "OOMKilled")
    kubelet.runtime.inject_exit(made, 1, "Error")
    status = kubelet.runtime.container_status(made)
    assert (status.exit_code, status.reason) == (137, "OOMKilled")


def test_new_resources_show_in_the_files_of_the_kernel() -> None:
    kubelet = _Kubelet()
    made = kubelet.start("sleep", "99")
    resources = make_config(kubelet.log).resources
    kubelet.runtime.update_container_resources(
        made, replace(resources, memory_limit_in_bytes=1 << 20)
    )
    session = kubelet.runtime.exec(made, ["cat", "/sys/fs/cgroup/memory.max"])
    kubelet.clock.advance()
    assert take_output(session)[1].strip() == b"1048576"


def test_a_missing_program_is_an_ended_container() -> None:
    kubelet = _Kubelet()
    with pytest.raises(StartContainerError, match='exec: "nope": executable file not found in'):
        kubelet.start("nope")
    (container,) = kubelet.runtime.containers.values()
    status = container.status
    assert (status.exit_code, status.reason, status.started_at) == (128, "StartError", 0.0)


class _Request:
    """Records what a runtime does with a request."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    def send(self) -> None:
        self.answers.append("sent")

    def assume_success(self) -> None:
        self.answers.append("assumed")


@pytest.mark.parametrize(
    ("make", "image", "answer"),
    [
        (InterpretedRuntime, "busybox", "sent"),
        (InterpretedRuntime, "nginx", "assumed"),
        (ScriptedRuntime, "busybox", "assumed"),
        (ScriptedRuntime, "nginx", "assumed"),
    ],
)
@pytest.mark.parametrize("is_ended", [False, True])
def test_requests_reach_programs_that_run(
    make: type[InterpretedRuntime], image: str, answer: str, is_ended: bool
) -> None:
    kubelet, request = _Kubelet(make), _Request()
    kubelet.finish(kubelet.runtime.run_pod_sandbox(_POD, kubelet.host))
    made = kubelet.start_config(make_config(kubelet.log, parse_image(image), stdin=True))
    if is_ended:
        kubelet.runtime.stop_container(made, 0)
    kubelet.runtime.answer_request(made, request)
    assert request.answers == [answer]


def test_an_unknown_image_is_assumed_to_serve() -> None:
    kubelet = _Kubelet()
    kubelet.finish(kubelet.runtime.run_pod_sandbox(_POD, kubelet.host))
    config = make_config(kubelet.log, parse_image("nginx"))
    _, made = kubelet.finish(kubelet.runtime.create_container("1", config))
    assert kubelet.finish(kubelet.runtime.start_container(made))[1] == Notice(
        "Normal", "NotSimulated",
        'Image "docker.io/library/nginx:latest" is not simulated: its program is assumed to run '
        "until it is terminated",
    )  # fmt: skip
    kubelet.runtime.stop_container(made, 30)
    assert kubelet.runtime.container_status(made).exit_code == 0


def test_a_seccomp_profile_that_is_a_file_is_refused() -> None:
    kubelet = _Kubelet()
    kubelet.finish(kubelet.runtime.run_pod_sandbox(_POD, kubelet.host))
    context = LinuxContainerSecurityContext(seccomp_profile="/profiles/x.json")
    config = replace(make_config(kubelet.log), security_context=context)
    with pytest.raises(CreateContainerError) as refused:
        kubelet.finish(kubelet.runtime.create_container("1", config))
    assert str(refused.value) == (
        "failed to create containerd container: cannot load seccomp profile "
        '"/profiles/x.json": open /profiles/x.json: no such file or directory'
    )


def test_ports_are_forwarded_to_the_pod() -> None:
    kubelet = _Kubelet()
    kubelet.start("nc", "-l", "-p", "80", "-e", "echo", "hi")

    async def connect() -> list[bool]:
        connections = [await kubelet.runtime.port_forward("1", port) for port in (80, 81)]
        return [connection is not None for connection in connections]

    assert asyncio.run(connect()) == [True, False]


@pytest.mark.parametrize(
    ("name", "pinned", "uid"),
    [("busybox", True, 0), ("registry.invalid/busybox", False, 0), ("nginx", False, None)],
)
def test_what_is_known_of_images(name: str, pinned: bool, uid: int | None) -> None:
    runtime = InterpretedRuntime(new_cluster())
    image = runtime.image_status(ImageSpec(parse_image(name), name))
    assert (image.pinned, image.uid, image.username) == (pinned, uid, "")

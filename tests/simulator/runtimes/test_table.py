"""The choice of a container runtime, and a further one that only the table knows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

import pytest

from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, ProcessSession
from pytest_kwait.simulator.image_reference import parse_image
from pytest_kwait.simulator.kubelet.cri import (
    ContainerState,
    ContainerStats,
    ContainerStatus,
    Image,
    Notice,
    StartContainerError,
)
from pytest_kwait.simulator.kubelet_api import StartError
from pytest_kwait.simulator.protocol.container_scripts import EMPTY, Script
from pytest_kwait.simulator.protocol.image_mapping import make_image_mapping
from pytest_kwait.simulator.runtimes import table
from pytest_kwait.simulator.runtimes.interpreted.service import InterpretedRuntime
from pytest_kwait.simulator.runtimes.processes.service import ProcessRuntime
from pytest_kwait.simulator.runtimes.scripted import ScriptedRuntime
from tests.simulator.cluster import NAMESPACE, Cluster, new_cluster
from tests.simulator.runtimes.interpreted.container_harness import take_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster as ClusterProtocol
    from pytest_kwait.simulator.kubelet.cri import (
        Call,
        ContainerConfig,
        ContainerRequest,
        ImageSpec,
        LinuxContainerResources,
        PodHost,
        PodSandboxConfig,
    )
    from pytest_kwait.simulator.objects import Obj

_TERMINATED = 143


class EchoRuntime:
    """A runtime whose containers log their command and run until they are stopped."""

    made: ClassVar[list[EchoRuntime]] = []

    def __init__(self, cluster: ClusterProtocol) -> None:
        self.calls: list[str] = []
        self._clock = cluster.clock
        self._hosts: dict[str, PodHost] = {}
        self._containers: dict[str, tuple[PodHost, ContainerConfig]] = {}
        self._statuses: dict[str, ContainerStatus] = {}
        EchoRuntime.made.append(self)

    # -- images

    def image_status(self, spec: ImageSpec) -> Image:
        return Image(spec, uid=0)

    def pull_image(self, spec: ImageSpec) -> Call[None]:
        self.calls.append("PullImage")
        yield 0.5

    # -- pods

    def run_pod_sandbox(self, config: PodSandboxConfig, host: PodHost) -> Call[None]:
        if config.uid in self._hosts:
            return
        self.calls.append("RunPodSandbox")
        self._hosts[config.uid] = host
        yield 0.2
        host.assign_address()

    def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        self.calls.append("StopPodSandbox")

    def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        self.calls.append("RemovePodSandbox")
        del self._hosts[pod_sandbox_id]

    async def port_forward(self, pod_sandbox_id: str, port: int) -> ProcessSession | None:
        return _say(f"port {port}\n") if port == 80 else None

    # -- containers

    def create_container(self, pod_sandbox_id: str, config: ContainerConfig) -> Call[str]:
        yield from ()
        name = f"{config.name}-{config.attempt}"
        self.calls.append(f"CreateContainer {name}")
        self._containers[name] = self._hosts[pod_sandbox_id], config
        self._statuses[name] = ContainerStatus()
        return name

    def start_container(self, container_id: str) -> Call[Notice | None]:
        self.calls.append(f"StartContainer {container_id}")
        config = self._containers[container_id][1]
        yield 0.1
        now = self._clock.time()
        self._statuses[container_id] = ContainerStatus(ContainerState.RUNNING, now)
        if "fail" in config.command:
            self._end(container_id, 128, "StartError")
            notice = Notice("Warning", "NoEcho", "there is no echo")
            raise StartContainerError("it fails", notice)
        config.log.write(now, 1, f"{' '.join((*config.command, *config.args))}\n".encode())
        return Notice("Normal", "Echoes", "it echoes")

    def _end(self, container_id: str, code: int, reason: str, message: str = "") -> None:
        now, status = self._clock.time(), self._statuses[container_id]
        host, config = self._containers[container_id]
        self._statuses[container_id] = ContainerStatus(
            ContainerState.EXITED, status.started_at, now, code, reason, message
        )
        config.log.end(now)
        host.on_container_stopped(container_id)

    def stop_container(self, container_id: str, timeout: float) -> None:
        self.calls.append(f"StopContainer {container_id} {timeout:g}")
        self._end(container_id, _TERMINATED if timeout else 137, "Error")

    def remove_container(self, container_id: str) -> None:
        self.calls.append(f"RemoveContainer {container_id}")
        del self._containers[container_id], self._statuses[container_id]

    def container_status(self, container_id: str) -> ContainerStatus:
        return self._statuses[container_id]

    def container_stats(self, container_id: str) -> ContainerStats:
        return ContainerStats(len(container_id), 0)

    def update_container_resources(
        self, container_id: str, resources: LinuxContainerResources
    ) -> None:
        self.calls.append(f"UpdateContainerResources {resources.memory_limit_in_bytes}")

    def exec(
        self, container_id: str, cmd: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> ProcessSession:
        if cmd[0] != "echo":
            raise StartError(f"no program {cmd[0]}")
        return _say(f"{' '.join(cmd[1:])}\n", 3)

    def attach(self, container_id: str, *, stdin: bool = False) -> ProcessSession:
        return _say("attached\n")

    def answer_request(self, container_id: str, request: ContainerRequest) -> None:
        self.calls.append(f"answer {container_id}")
        if container_id.startswith("c"):
            request.send()
        else:
            request.assume_success()

    def inject_exit(self, container_id: str, code: int, reason: str, message: str = "") -> None:
        self._end(container_id, code, reason, message)


def _say(text: str, code: int = 0) -> ProcessSession:
    output = OutputBuffer()
    output.write(1, text.encode())
    output.end(code)
    return ProcessSession(None, output, lambda: None)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster with a fourth runtime."""
    row = table.Row(EchoRuntime, lambda _cluster, image, _script: image.path == "library/echo")
    monkeypatch.setattr(table, "RUNTIMES", (row, *table.RUNTIMES))
    monkeypatch.setattr(EchoRuntime, "made", [])
    return Cluster()


def _pod(*command: str, **fields: object) -> Obj:
    container = {"name": "c", "image": "echo:1", "command": [*command], **fields}
    return {"containers": [container], "terminationGracePeriodSeconds": 7}


def test_a_further_runtime_runs_pods(cluster: Cluster) -> None:
    (runtime,) = EchoRuntime.made
    cluster.create("pods", "p", _pod("hello", "$(WHO)", env=[{"name": "WHO", "value": "you"}]))
    cluster.run(5)
    pod = cluster.get("pods", "p")
    (status,) = pod["status"]["containerStatuses"]
    assert (pod["status"]["phase"], status["ready"]) == ("Running", True)
    assert status["containerID"] == "containerd://c-0"
    assert [event.partition(" ")[0] for event in cluster.events("p")[1:]] == [
        "Pulling", "Pulled", "Created", "Started", "Echoes",
    ]  # fmt: skip
    kubelet = cluster.api.kubelets[pod["spec"]["nodeName"]]
    assert [line for _, line in kubelet.logs(NAMESPACE, "p", "c")] == [b"hello you\n"]
    session = kubelet.run(NAMESPACE, "p", "c", ["echo", "x"], stdin=False, tty=False)
    assert (take_output(session)[1], session.output.code) == (b"x\n", 3)
    with pytest.raises(StartError, match=r"^no program sh$"):
        kubelet.run(NAMESPACE, "p", "c", ["sh"], stdin=False, tty=False)
    assert take_output(kubelet.attach(NAMESPACE, "p", "c", stdin=False))[1] == b"attached\n"
    ports = kubelet.network_of(NAMESPACE, "p")
    connected = asyncio.run(_connect(ports, 80))
    assert connected is not None
    assert take_output(connected)[1] == b"port 80\n"
    assert asyncio.run(_connect(ports, 81)) is None
    cluster.delete("pods", "p")
    cluster.run(10)
    assert cluster.find("pods", "p") is None
    ended = cluster.states("pods", "p", _terminated)
    assert ended[-2:] == [(_TERMINATED, "Error"), "DELETED"]
    assert runtime.calls == [
        "RunPodSandbox", "PullImage", "CreateContainer c-0", "StartContainer c-0",
        "StopContainer c-0 7", "StopPodSandbox", "StopPodSandbox", "RemoveContainer c-0",
        "RemovePodSandbox",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "is_ready"), [("c", False), ("assumed", True)])
def test_a_further_runtime_answers_probes(cluster: Cluster, name: str, is_ready: bool) -> None:
    (runtime,) = EchoRuntime.made
    probe = {"exec": {"command": ["echo", "no"]}}
    cluster.create("pods", "p", _pod(name=name, readinessProbe=probe))
    cluster.run(5)
    (status,) = cluster.get("pods", "p")["status"]["containerStatuses"]
    assert status["ready"] is is_ready
    assert f"answer {name}-0" in runtime.calls
    failure = "Unhealthy x1: Readiness probe failed: no\n"
    assert (failure in cluster.events("p")) is not is_ready


async def _connect(ports: object, port: int) -> ProcessSession | None:
    connected: ProcessSession | None = await ports.connect(port)  # type: ignore[attr-defined]
    return connected


def _terminated(pod: Obj) -> tuple[int, str] | None:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{"state": {}}]
    ended = statuses[0]["state"].get("terminated")
    return (ended["exitCode"], ended["reason"]) if ended else None


def test_failures_of_a_further_runtime_are_events(cluster: Cluster) -> None:
    cluster.create("pods", "p", {**_pod("fail"), "restartPolicy": "Never"})
    cluster.run(5)
    assert cluster.events("p")[-2:] == ["Failed x1: Error: it fails", "NoEcho x1: there is no echo"]
    assert _terminated(cluster.get("pods", "p")) == (128, "StartError")


def test_containers_of_several_runtimes_share_a_pod(cluster: Cluster) -> None:
    spec = _pod("hello")
    shell = {"name": "s", "image": "busybox", "command": ["sh", "-c", "hostname; sleep 99"]}
    cluster.create("pods", "p", {**spec, "containers": [*spec["containers"], shell]})
    cluster.run(5)
    pod = cluster.get("pods", "p")
    assert pod["status"]["phase"] == "Running"
    kubelet = cluster.api.kubelets[pod["spec"]["nodeName"]]
    assert [line for _, line in kubelet.logs(NAMESPACE, "p", "s")] == [b"p\n"]


def test_faults_and_resizes_reach_a_further_runtime(cluster: Cluster) -> None:
    (runtime,) = EchoRuntime.made
    limits = {"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}}
    cluster.create("pods", "p", _pod("hello", resources=limits))
    cluster.run(5)

    def resize(pod: Obj) -> None:
        for kind in limits:
            pod["spec"]["containers"][0]["resources"][kind]["memory"] = "128Mi"

    cluster.api.modify("pods", "p", NAMESPACE, resize, subresource="resize")
    cluster.run(5)
    assert f"UpdateContainerResources {128 << 20}" in runtime.calls
    node = cluster.get("pods", "p")["spec"]["nodeName"]
    assert cluster.api.faults.nodes[node].run_out_of_memory(NAMESPACE, "p", "c")
    cluster.run(2)
    assert (137, "OOMKilled") in cluster.states("pods", "p", _last_terminated)
    assert "CreateContainer c-1" in runtime.calls


def _last_terminated(pod: Obj) -> tuple[int, str] | None:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    ended = (statuses[0].get("lastState") or {}).get("terminated")
    return (ended["exitCode"], ended["reason"]) if ended else None


@pytest.mark.parametrize(
    ("image", "script", "runtime"),
    [
        ("busybox:1", EMPTY, InterpretedRuntime),
        ("nginx", EMPTY, InterpretedRuntime),
        ("shop/web:1", EMPTY, ProcessRuntime),
        ("busybox:1", Script(exit=1), ScriptedRuntime),
        ("shop/web:1", Script(run=5.0), ScriptedRuntime),
        ("shop/web:1", Script(ready=5.0), ProcessRuntime),
    ],
)
def test_scripts_come_before_mappings(image: str, script: Script, runtime: type) -> None:
    api = new_cluster()
    api.images.add(make_image_mapping("shop/web:*", ["/srv/web"]))
    runtimes = table.ClusterRuntimes(api)
    assert type(runtimes.find_for_container(parse_image(image), script)) is runtime


@pytest.mark.parametrize(
    ("images", "runtime"),
    [
        (["busybox"], InterpretedRuntime),
        (["busybox", "shop/web:1"], ProcessRuntime),
        (["not valid"], InterpretedRuntime),
    ],
)
def test_the_sandbox_is_made_for_the_images_of_a_pod(images: list[str], runtime: type) -> None:
    api = new_cluster()
    api.images.add(make_image_mapping("shop/web:*", ["/srv/web"]))
    pod = {"spec": {"containers": [{"name": name, "image": name} for name in images]}}
    assert type(table.ClusterRuntimes(api).find_for_pod(pod)) is runtime

"""Containers of mapped images, in a runtime that starts no process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.busybox.os.files import Directory, File, FileSystem
from pytest_kwait.simulator.busybox.os.host_files import move_to_disk
from pytest_kwait.simulator.image_reference import parse_image
from pytest_kwait.simulator.kubelet.container_config import make_container_config
from pytest_kwait.simulator.kubelet.cri import Image, ImageSpec, LinuxContainerResources
from pytest_kwait.simulator.kubelet.logs import ContainerLog
from pytest_kwait.simulator.kubelet_api import StartError
from pytest_kwait.simulator.network.pod_network import get_pod_networks
from pytest_kwait.simulator.protocol.container_scripts import EMPTY
from pytest_kwait.simulator.protocol.image_mapping import make_image_mapping
from pytest_kwait.simulator.runtimes.processes.program_container import (
    find_program_arguments,
    find_visible_paths,
    get_cluster_programs,
)
from tests.simulator.cluster import NAMESPACE, Cluster
from tests.simulator.runtimes.configs import NoMounts
from tests.simulator.runtimes.interpreted.container_harness import take_output
from tests.simulator.runtimes.processes.fake_runtime import FakeRuntime, use_fake_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait.simulator.objects import Obj

_PREFIX = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: "
)


@pytest.fixture
def runtime(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRuntime:
    cluster.api.images.add(
        make_image_mapping(
            "shop/web:*", ["/srv/web", "--serve"], args=["--port", "80"], env={"A": "image"},
            workdir="/srv", user="1000:2000",
        )
    )  # fmt: skip
    return use_fake_runtime(monkeypatch, cluster.clock, tmp_path)


def _web_spec(container: Obj | None = None, **fields: Any) -> Obj:
    web: Obj = {"name": "c", "image": "shop/web:1", **(container or {})}
    return {"containers": [web], **fields}


def _start(cluster: Cluster, container: Obj | None = None, **fields: Any) -> None:
    cluster.create("pods", "p", _web_spec(container, **fields))
    cluster.run(3)


def _state(cluster: Cluster, kind: str = "state") -> Obj:
    status: Obj = cluster.get("pods", "p")["status"]["containerStatuses"][0][kind]
    return status


def test_a_program_runs_as_its_mapping_says(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(cluster)
    config = runtime.last.config
    assert config.argv == ("/srv/web", "--serve", "--port", "80")
    assert (config.workdir, config.user, config.group) == ("/srv", 1000, 2000)
    assert (config.env["A"], config.env["HOSTNAME"]) == ("image", "p")
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"
    assert cluster.reasons("p") == ["Scheduled", "Pulled", "Created", "Started"]
    (sandbox,) = runtime.sandboxes
    pod = cluster.get("pods", "p")
    assert (sandbox.config.id, sandbox.config.hostname) == (pod["metadata"]["uid"], "p")
    assert sandbox.config.address == pod["status"]["podIP"]
    assert f"{sandbox.config.address}\tp\n".encode() in sandbox.config.files["/etc/hosts"]


class _Filtering:
    """A filter of connections that is not in effect until the test says so."""

    def __init__(self) -> None:
        self.ended = False
        self.callbacks: list[Callable[[object], None]] = []

    def done(self) -> bool:
        return self.ended

    def add_done_callback(self, callback: Callable[[object], None]) -> None:
        self.callbacks.append(callback)


def test_a_program_starts_once_its_connections_are_filtered(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    filtering = _Filtering()
    network: Any = SimpleNamespace(update_filter=lambda: filtering)
    get_pod_networks(cluster.api).current = network
    _start(cluster)
    assert (len(runtime.sandboxes), runtime.containers) == (1, [])
    filtering.ended = True
    for callback in filtering.callbacks:
        callback(filtering)
    cluster.run(1)
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        ({}, ["prog", "-x", "1"]),
        ({"args": ["2"]}, ["prog", "-x", "2"]),
        ({"command": ["other"]}, ["other"]),
        ({"command": ["other"], "args": ["$(N) $$(N) $(NO)"]}, ["other", "3 $(N) $(NO)"]),
    ],
)
def test_command_replaces_entrypoint_and_args_replace_cmd(container: Obj, argv: list[str]) -> None:
    mapping = make_image_mapping("a", ["prog", "-x"], args=["1"])
    image = Image(ImageSpec(parse_image("a"), "a"))
    config = make_container_config(
        {"metadata": {"name": "p", "namespace": "t", "uid": "1"}, "spec": {}},
        {"name": "c", **container}, image, {"N": "3"}, attempt=0, log=ContainerLog(),
        mounts=NoMounts(), node_memory=0, target_id=None, script=EMPTY,
    )  # fmt: skip
    assert find_program_arguments(mapping, config) == argv


@pytest.mark.parametrize("args", [(), ("image",)])
def test_a_container_without_a_command_is_not_created(
    cluster: Cluster, runtime: FakeRuntime, args: tuple[str, ...]
) -> None:
    cluster.api.images.add(make_image_mapping("shop/tools", args=args))
    own = {"image": "shop/tools"}
    _start(cluster, own)
    if args:
        assert runtime.last.config.argv == args
        return
    waiting = _state(cluster)["waiting"]
    message = re.sub('"[0-9a-f]{64}"', '"ID"', waiting["message"])
    text = 'failed to generate container "ID" spec: failed to generate spec: no command specified'
    assert (waiting["reason"], message) == ("CreateContainerError", text)
    assert f"Error: {waiting['message']}" in _list_messages(cluster, "Failed")


def test_a_command_of_its_own_runs_in_an_image_without_one(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    cluster.api.images.add(make_image_mapping("shop/tools"))
    _start(cluster, {"image": "shop/tools", "command": ["migrate"], "args": ["--all"]})
    assert runtime.last.config.argv == ("migrate", "--all")


def test_the_manifest_overrides_the_mapping(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(
        cluster,
        {
            "env": [{"name": "A", "value": "pod"}, {"name": "B", "value": "$(A)!"}],
            "workingDir": "/data", "tty": True, "stdin": True,
            "terminationMessagePath": "/tmp/why",
            "resources": {"limits": {"memory": "64Mi", "ephemeral-storage": "1Mi"}},
            "securityContext": {
                "runAsUser": 5, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            },
        },
        securityContext={
            "runAsGroup": 6, "fsGroup": 7, "supplementalGroups": [8],
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
        },
        shareProcessNamespace=True,
    )  # fmt: skip
    config = runtime.last.config
    assert (config.env["A"], config.env["B"], config.env["TERM"]) == ("pod", "pod!", "xterm")
    assert (config.workdir, config.user, config.group) == ("/data", 5, 6)
    assert (config.groups, config.memory_bytes) == ((8, 7), 64 << 20)
    assert (config.read_only_root, config.no_new_privs) == (True, True)
    assert (config.capabilities_add, config.capabilities_drop) == (("NET_BIND_SERVICE",), ("ALL",))
    assert (config.tty, config.stdin, config.termination_log) == (True, True, "/tmp/why")
    sandbox = runtime.sandboxes[0].config
    assert (sandbox.share_pids, sandbox.storage_bytes) == (True, 1 << 20)
    assert sandbox.sysctls == {"net.ipv4.ip_unprivileged_port_start": "0"}


@pytest.mark.parametrize(
    ("code", "oom", "reason"),
    [(0, False, "Completed"), (3, False, "Error"), (137, True, "OOMKilled")],
)
def test_the_exit_is_the_programs(
    cluster: Cluster, runtime: FakeRuntime, code: int, oom: bool, reason: str
) -> None:
    _start(cluster, restartPolicy="Never")
    runtime.last.write("stdout", b"a\nb")
    runtime.last.write("stderr", b"c\n")
    runtime.last.exit(code, oom_killed=oom, message=b"bye")
    cluster.run(3)
    ended = _state(cluster)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (code, reason, "bye")
    kubelet = cluster.api.kubelets["kwait-node-1"]
    assert [line for _, line in kubelet.logs(NAMESPACE, "p", "c")] == [b"a\n", b"c\n", b"b"]
    assert runtime.sandboxes[0].stopped


def test_the_end_of_what_intercepts_a_program_has_an_event(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    _start(cluster)
    runtime.last.exit(137, fault="SIGKILL")
    cluster.run(3)
    text = (
        'The process that intercepts system calls of container "c" was ended by SIGKILL, '
        "and the container with it"
    )
    assert _list_messages(cluster, "InterceptorKilled") == [text]
    assert len(runtime.containers) == 2


def test_a_failed_program_restarts_after_its_back_off(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    _start(cluster)
    runtime.last.exit(1)
    cluster.run(3)
    runtime.last.exit(1)
    cluster.run(3)
    assert cluster.reasons("p")[-1] == "BackOff"
    assert len(runtime.containers) == 2
    cluster.run(12)
    assert len(runtime.containers) == 3
    assert len(runtime.sandboxes) == 1
    assert [one.config.id for one in runtime.containers] == ["c-0", "c-1", "c-2"]


@pytest.mark.parametrize(
    "why",
    [
        'unable to start container process: exec: "/srv/web": stat /srv/web: no such file or '
        "directory",
        'unable to start container process: exec: "/srv/web": permission denied',
        "unable to start container process: exec /srv/web: exec format error",
    ],
)
def test_a_program_that_cannot_start_is_a_start_error(
    cluster: Cluster, runtime: FakeRuntime, why: str
) -> None:
    runtime.failures["/srv/web"] = why
    _start(cluster, restartPolicy="Never")
    ended = _state(cluster)["terminated"]
    message = f"{_PREFIX}{why}: unknown"
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (128, "StartError", message)
    assert f"Failed x1: Error: {message}" in cluster.events("p")
    assert ended["startedAt"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("image", "container", "pod", "user"),
    [
        ("web", {"runAsUser": 5}, {"runAsUser": 6}, 'runAsUser 5 of container "c"'),
        ("web", {"runAsGroup": 5}, {"runAsUser": 6}, "runAsUser 6 of the pod"),
        ("web", {}, {}, 'user 1000 of the mapping of "shop/web:*"'),
        ("plain", {}, {}, "user 0"),
    ],
)
def test_a_start_error_names_the_user_and_where_it_comes_from(
    cluster: Cluster, runtime: FakeRuntime, image: str, container: Obj, pod: Obj, user: str
) -> None:
    """After the runtime's own words, where a short message keeps it."""
    cluster.api.images.add(make_image_mapping("shop/plain", ["/srv/web"]))
    why = 'unable to start container process: exec: "/srv/web": stat /srv/web: permission denied'
    runtime.failures["/srv/web"] = why
    runtime.denied = "enter /srv (mode 0700, owner 0:0)"
    security = {"securityContext": container}
    _start(
        cluster, {"image": f"shop/{image}:latest", **security}, securityContext=pod,
        restartPolicy="Never",
    )  # fmt: skip
    message = f"{_PREFIX}{why}: unknown: {user} may not enter /srv (mode 0700, owner 0:0)"
    assert _state(cluster)["terminated"]["message"] == message
    assert f"Failed x1: Error: {message}" in cluster.events("p")


def test_a_program_in_no_folder_of_the_path_has_the_path_in_an_event(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    runtime.failures["web"] = (
        'unable to start container process: exec: "web": executable file not found in $PATH'
    )
    runtime.denied = "enter /a (mode 0700, owner 0:0)"
    env = [{"name": "PATH", "value": "/a:/b"}]
    _start(cluster, {"command": ["web"], "env": env}, restartPolicy="Never")
    assert cluster.events("p")[-1] == (
        'ProgramNotFound x1: Image "shop/web:1" is mapped: "web" is in no folder of /a:/b'
    )


def test_a_sandbox_that_cannot_be_made_is_retried(cluster: Cluster, runtime: FakeRuntime) -> None:
    runtime.sandbox_failure = "no more addresses"
    _start(cluster)
    assert cluster.events("p")[1] == (
        "FailedCreatePodSandBox x1: Failed to create pod sandbox: rpc error: code = Unknown desc = "
        "no more addresses"
    )
    assert cluster.get("pods", "p")["status"]["phase"] == "Pending"
    runtime.sandbox_failure = ""
    cluster.run(15)
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


def test_nothing_is_written_while_the_cluster_ends(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(cluster)
    programs = get_cluster_programs(cluster.api)
    folder = programs.folder
    asyncio.run(cluster.api.services.close())
    runtime.last.exit(1)
    cluster.run(120)
    assert not folder.exists()
    cluster.create("pods", "q", _web_spec())
    cluster.run(3)
    assert cluster.events("q")[1].endswith("desc = the cluster is being stopped")
    assert not folder.exists()


def test_a_stopped_program_gets_its_signal_and_then_sigkill(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    _start(cluster, terminationGracePeriodSeconds=5)
    cluster.delete("pods", "p")
    cluster.run(4)
    assert runtime.last.signals == [signal.SIGTERM]
    cluster.run(2)
    assert runtime.last.signals == [signal.SIGTERM, signal.SIGKILL]
    cluster.run(2)
    assert cluster.find("pods", "p") is None
    assert runtime.sandboxes[0].stopped


def test_a_stopped_program_gets_the_signal_of_its_image(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    cluster.api.images.add(make_image_mapping("shop/db", "db", stop_signal="INT"))
    _start(cluster, {"image": "shop/db"})
    cluster.delete("pods", "p")
    cluster.run(1)
    assert runtime.last.signals == [signal.SIGINT]


def test_a_removed_pod_ends_with_its_sandbox(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(cluster)
    cluster.delete("pods", "p", grace=0)
    assert runtime.last.signals == [signal.SIGKILL]
    assert runtime.sandboxes[0].stopped


def test_a_lost_sandbox_is_made_again(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(cluster)
    for pod in get_cluster_programs(cluster.api).pods:
        pod.on_sandbox_lost("the launcher has ended")
    cluster.run(3)
    assert (
        "SandboxChanged x1: Pod sandbox changed, it will be killed and re-created: the launcher "
        "has ended"
    ) in cluster.events("p")
    assert len(runtime.sandboxes) == 2
    assert _state(cluster, "lastState")["terminated"]["exitCode"] == 137


def _kubelet(cluster: Cluster) -> Any:
    return cluster.api.faults.nodes["kwait-node-1"]._node  # type: ignore[attr-defined]


def test_commands_run_in_the_container(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(cluster)
    kubelet = cluster.api.kubelets["kwait-node-1"]
    session = kubelet.run(NAMESPACE, "p", "c", ["ls", "/"], stdin=False, tty=True)
    cluster.run(0)
    (process,) = runtime.last.commands
    assert process.argv == ("ls", "/")
    assert session.resize is not None
    session.resize(80, 24)
    assert process.sizes == [(80, 24)]
    process.write("stdout", b"bin\n")
    process.write("stderr", b"oh\n")
    process.exit(4)
    assert take_output(session) == {1: b"bin\n", 2: b"oh\n"}
    assert session.output.code == 4


def test_a_command_that_cannot_start_has_the_runtimes_error(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    _start(cluster)
    runtime.failures["no"] = 'exec: "no": executable file not found in $PATH'
    runtime.denied = "enter /a (mode 0700, owner 0:0)"
    kubelet = cluster.api.kubelets["kwait-node-1"]
    session = kubelet.run(NAMESPACE, "p", "c", ["no"], stdin=False, tty=False)
    cluster.run(0)
    head, _, rest = session.output.failure.partition('"')
    assert head == "failed to exec in container: failed to start exec "
    assert rest.partition('": ')[2] == (
        'OCI runtime exec failed: exec failed: exec: "no": executable file not found in $PATH: '
        'unknown: user 1000 of the mapping of "shop/web:*" may not enter /a (mode 0700, owner 0:0)'
    )
    with pytest.raises(StartError, match="args must not be empty"):
        kubelet.run(NAMESPACE, "p", "c", [], stdin=False, tty=False)


def test_a_slow_client_blocks_a_command(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(cluster)
    kubelet = cluster.api.kubelets["kwait-node-1"]
    session = kubelet.run(NAMESPACE, "p", "c", ["yes"], stdin=False, tty=False)
    (process,) = runtime.last.commands
    process.write("stdout", b"y" * (1 << 20))
    assert process.paused
    asyncio.run(session.output.take())
    assert not process.paused


def test_attached_clients_see_the_program(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(cluster, {"stdin": True, "stdinOnce": True})
    kubelet = cluster.api.kubelets["kwait-node-1"]

    async def attach() -> None:
        session = kubelet.attach(NAMESPACE, "p", "c", stdin=True)
        assert session.stdin is not None
        session.stdin.send(b"hello\n")
        runtime.last.write("stdout", b"hi\n")
        assert await session.output.take() == (1, b"hi\n")
        session.stdin.close()
        await async_sleep(0)
        assert len(session.stdin) == 0

    asyncio.run(attach())
    assert runtime.last.stdin is not None
    assert (runtime.last.stdin.data, runtime.last.stdin.closed) == (b"hello\n", True)


def test_a_simulated_container_shares_volumes_with_a_program(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    shell = {
        "name": "s", "image": "busybox:1", **mount,
        "command": ["sh", "-c", "echo shell >/v/a; sleep 1; cat /v/b; echo more >>/v/a; sleep 9"],
    }  # fmt: skip
    spec = _web_spec(mount, volumes=[{"name": "v", "emptyDir": {}}])
    spec["containers"].append(shell)
    cluster.create("pods", "p", spec)
    cluster.run(0.2)
    cluster.run(0.2)
    (folder,) = runtime.sandboxes[0].empty_dirs.values()
    (folder / "b").write_text("from program\n")
    cluster.run(3)
    kubelet = cluster.api.kubelets["kwait-node-1"]
    assert [line for _, line in kubelet.logs(NAMESPACE, "p", "s")] == [b"from program\n"]
    assert (folder / "a").read_text() == "shell\nmore\n"
    (empty,) = runtime.sandboxes[0].config.empty_dirs
    assert empty.name == "v"
    mounts = {mount.target: mount.empty_dir for mount in runtime.containers[0].config.mounts}
    assert mounts["/v"] == "v"


def test_a_misspelt_image_names_the_near_pattern(cluster: Cluster, runtime: FakeRuntime) -> None:
    _start(cluster, {"image": "shop/wbe:1"})
    assert cluster.events("p")[-1] == (
        'NotSimulated x1: Image "shop/wbe:1" is not mapped: its program is assumed to run until it '
        'is terminated; did you mean the pattern "shop/web:*"?'
    )
    assert not runtime.sandboxes


def test_a_mapped_image_is_never_pulled(cluster: Cluster, runtime: FakeRuntime) -> None:
    cluster.api.images.add(make_image_mapping("registry.invalid/web", ["/srv/web"]))
    _start(cluster, {"image": "registry.invalid/web:1", "imagePullPolicy": "Never"})
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("", "container has runAsNonRoot and image will run as root"),
        ("0", "container has runAsNonRoot and image will run as root"),
        (
            "web",
            "container has runAsNonRoot and image has non-numeric user (web), cannot verify user "
            "is non-root",
        ),
    ],
)
def test_a_mapping_that_runs_as_root_breaks_run_as_non_root(
    cluster: Cluster, runtime: FakeRuntime, user: str, why: str
) -> None:
    cluster.api.images.add(make_image_mapping("shop/root", ["/srv/web"], user=user))
    _start(cluster, {"image": "shop/root", "securityContext": {"runAsNonRoot": True}})
    waiting = _state(cluster)["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"].startswith(f"{why} (pod: ")


def test_an_unknown_user_of_a_mapping_is_an_error(cluster: Cluster, runtime: FakeRuntime) -> None:
    cluster.api.images.add(make_image_mapping("shop/user", ["/srv/web"], user="nosuchuser"))
    _start(cluster, {"image": "shop/user"})
    assert _state(cluster)["waiting"]["message"] == (
        "unable to find user nosuchuser: no matching entries in passwd file: image "
        '"shop/user" is mapped, and this machine has none of that name: give its number by user= '
        "in the mapping"
    )


def test_the_user_of_a_pod_needs_none_of_its_image(cluster: Cluster, runtime: FakeRuntime) -> None:
    cluster.api.images.add(make_image_mapping("shop/user", ["/srv/web"], user="nosuch:nogroup"))
    _start(cluster, {"image": "shop/user", "securityContext": {"runAsUser": 1000}})
    assert (runtime.last.config.user, runtime.last.config.group) == (1000, None)


def test_paths_of_the_program_stay_visible_below_private_folders(tmp_path: Path) -> None:
    venv, source, editable = (tmp_path / name for name in ("venv", "src", "editable"))
    packages = venv / "lib" / "python3.11" / "site-packages"
    for folder in (venv / "bin", packages, source, editable):
        folder.mkdir(parents=True)
    (packages / "_editable_shop.pth").write_text(f"{editable}\nimport shop\n")
    (venv / "bin" / "python").touch(0o755)
    mapping = make_image_mapping(
        "a", [str(venv / "bin" / "python")], env={"PYTHONPATH": str(source)}, workdir=tmp_path
    )
    found = find_visible_paths(mapping)
    if not str(tmp_path).startswith("/tmp/"):
        pytest.skip("temporary files are not below /tmp")
    assert {str(tmp_path), str(venv), str(source), str(editable)} <= set(found)
    assert "/usr" not in found
    later = tmp_path / "later"
    later.mkdir()
    (packages / "later.pth").write_text(f"{later}\n")
    os.utime(packages, (1, 1))  # in another moment, however short the time between both is
    assert str(later) in find_visible_paths(mapping)


def test_what_a_folder_of_path_links_to_is_visible(tmp_path: Path) -> None:
    """As the interpreter of a virtual environment, with its libraries."""
    venv, python, tools = (tmp_path / name for name in ("venv", "python", "tools"))
    for folder in (venv / "bin", python / "bin", tools):
        folder.mkdir(parents=True)
    (python / "bin" / "python3").touch(0o755)
    (tools / "tool").touch(0o755)
    (venv / "bin" / "python").symlink_to("python3")
    (venv / "bin" / "python3").symlink_to(python / "bin" / "python3")
    (venv / "bin" / "tool").symlink_to(tools / "tool")
    (venv / "bin" / "sh").symlink_to("/bin/sh")
    mapping = make_image_mapping("a", ["python"], path=[venv / "bin"], workdir="/")
    if not str(tmp_path).startswith("/tmp/"):
        pytest.skip("temporary files are not below /tmp")
    found = find_visible_paths(mapping)
    assert {path for path in found if path.startswith(str(tmp_path))} == {
        str(folder) for folder in (venv, python, tools)
    }


@pytest.mark.parametrize(
    ("count", "rest"),
    [
        (1, ""),
        (2, "; one more link dangles, as {}/three"),
        (3, "; 2 more dangle, as {}/three"),
    ],
)
def test_a_dangling_link_has_a_warning_with_its_remedy(
    cluster: Cluster, runtime: FakeRuntime, tmp_path: Path, count: int, rest: str
) -> None:
    """One event for each start of a container."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "file").touch()
    for name in ("one", "three", "two")[:count]:
        (work / name).symlink_to("../file")
    cluster.api.images.add(make_image_mapping("shop/links", ["/srv/web"], files={"/srv/app": work}))
    _start(cluster, {"image": "shop/links"}, restartPolicy="Never")
    remedy = f'map it by files={{"/srv/file": "{tmp_path}/file"}}'
    text = f"Link /srv/app/one leads to /srv/file, which is not in the container: {remedy}"
    found = [one for one in cluster.events("p") if one.startswith("DanglingLink")]
    assert found == [f"DanglingLink x1: {text}{rest.format('/srv/app')}"]


def test_plain_processes_have_the_machines_links(
    cluster: Cluster, runtime: FakeRuntime, tmp_path: Path
) -> None:
    runtime.is_plain = True
    (tmp_path / "file").touch()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "one").symlink_to("../file")
    files = {"/srv/app": tmp_path / "work"}
    cluster.api.images.add(make_image_mapping("shop/links", ["/srv/web"], files=files))
    _start(cluster, {"image": "shop/links"})
    assert not [one for one in cluster.events("p") if one.startswith("DanglingLink")]


def test_a_writable_folder_is_the_machines_own(tmp_path: Path) -> None:
    """A copy would take what the program writes to it."""
    (tmp_path / "src").mkdir()
    mapping = make_image_mapping("a", ["sh"], workdir=tmp_path / "src", writable=[tmp_path])
    assert not [path for path in find_visible_paths(mapping) if path.startswith(str(tmp_path))]


def test_folders_that_cannot_be_read_are_not_visible(tmp_path: Path) -> None:
    """As a folder of another user in PATH."""
    closed = tmp_path / "closed"
    packages = closed / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    mapping = make_image_mapping(
        "a", ["sh"], env={"PATH": f"{closed / 'venv' / 'bin'}:/bin", "PYTHONPATH": str(packages)}
    )
    closed.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        found = find_visible_paths(mapping)
    finally:
        os.seteuid(user)
        closed.chmod(0o700)
    assert not [path for path in found if path.startswith(str(closed))]


def test_path_files_that_cannot_be_read_are_ignored(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "folder.pth").mkdir(parents=True)
    (packages / "shop.pth").write_text(f"{tmp_path}\n")
    mapping = make_image_mapping("a", ["sh"], env={"PATH": f"{tmp_path / 'bin'}:/bin"})
    assert str(tmp_path) in find_visible_paths(mapping)


def test_a_resized_program_gets_its_new_limit(cluster: Cluster, runtime: FakeRuntime) -> None:
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    _start(cluster, limits)
    worker = next(iter(_kubelet(cluster).workers))

    async def resize() -> None:
        container = worker.runtime_manager.record("c").current
        assert container is not None
        container.update_resources(LinuxContainerResources(100_000, None, 2, 128 << 20, 1000))
        await async_sleep(0)

    asyncio.run(resize())
    assert runtime.last.limits == [128 << 20]


def test_files_of_the_machine_are_files_of_the_shell(tmp_path: Path) -> None:
    folder = Directory({"kept": File(b"1"), "sub": Directory({"x": File(b"2")})}, owned=True)
    inner = folder.entries["sub"]
    assert move_to_disk(folder, tmp_path / "v") == tmp_path / "v"
    assert isinstance(inner, Directory)
    files = FileSystem(lambda: 0.0)
    files.mount("/v", lambda: folder)
    files.write("/v/new", b"abc")
    files.make_directory("/v/made")
    files.remove("/v/kept")
    assert files.read("/v/sub/x") == b"2"
    assert sorted(files.list_names("/v") or ()) == ["made", "new", "sub"]
    assert (tmp_path / "v" / "new").read_bytes() == b"abc"
    inner.writable_entries()["y"] = File(b"3")
    assert (tmp_path / "v" / "sub" / "y").read_bytes() == b"3"


_CONFLICT = (
    'Port {} of pod "t/p" is in use by pod "t/first": without namespaces all pods share the '
    "machine's ports; use another port, or run where --kwait-isolation=intercepted works"
)


def _list_messages(cluster: Cluster, reason: str) -> list[str]:
    """Return the messages of the events of a reason about the pod, however often they came."""
    events = [one.split(" ", 2) for one in cluster.events("p")]
    return [message for found, _, message in events if found == reason]


@contextmanager
def _hold_port(kind: int = socket.SOCK_STREAM) -> Iterator[int]:
    """Listen at a port, as the program of a pod does."""
    with socket.socket(type=kind) as held:
        held.bind(("", 0))
        if kind == socket.SOCK_STREAM:
            held.listen()
        yield held.getsockname()[1]


@pytest.mark.parametrize(
    ("protocol", "kind"), [("TCP", socket.SOCK_STREAM), ("UDP", socket.SOCK_DGRAM)]
)
@pytest.mark.parametrize("is_plain", [True, False])
def test_a_container_whose_port_another_pod_has_is_not_created(
    cluster: Cluster, runtime: FakeRuntime, protocol: str, kind: int, is_plain: bool
) -> None:
    runtime.is_plain = is_plain
    with _hold_port(kind) as port:
        container = {"ports": [{"containerPort": port, "protocol": protocol}]}
        cluster.create("pods", "first", _web_spec(container))
        cluster.run(3)
        _start(cluster, container)
        state = _state(cluster)
    if not is_plain:
        assert "running" in state
        assert "PortConflict" not in cluster.reasons("p")
        return
    text = _CONFLICT.format(port)
    assert state == {"waiting": {"reason": "CreateContainerError", "message": text}}
    assert _list_messages(cluster, "PortConflict") == [text]
    # Its port is free.
    cluster.run(30)
    assert "running" in _state(cluster)


def test_two_programs_that_start_together_for_one_port(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    """The one that fails has the event, and is not started again."""
    runtime.is_plain = True
    with _hold_port() as port:
        pass
    container = {"ports": [{"containerPort": port}]}
    cluster.create("pods", "first", _web_spec(container))
    cluster.run(3)
    _start(cluster, container)
    with socket.socket() as held:
        held.bind(("", port))
        held.listen()
        runtime.last.exit(1)
        cluster.run(1)
        text = _CONFLICT.format(port)
        assert _list_messages(cluster, "PortConflict") == [text]
        cluster.run(30)
        assert _state(cluster)["waiting"]["message"] == text


def test_a_program_waits_for_the_port_of_a_pod_that_is_being_deleted(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    runtime.is_plain = True
    with _hold_port() as port:
        container = {"ports": [{"containerPort": port}]}
        cluster.create("pods", "first", _web_spec(container))
        cluster.run(3)
        cluster.delete("pods", "first")
        _start(cluster, container)
        assert _state(cluster) == {"waiting": {"reason": "ContainerCreating"}}
    cluster.run(3)
    assert "running" in _state(cluster)
    assert "PortConflict" not in cluster.reasons("p")


def test_a_failure_beside_a_free_port_is_no_conflict(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    runtime.is_plain = True
    with _hold_port() as port:
        pass
    container = {"ports": [{"containerPort": port}]}
    cluster.create("pods", "first", _web_spec(container))
    cluster.run(3)
    _start(cluster, container, restartPolicy="Never")
    runtime.last.exit(1)
    cluster.run(3)
    assert "PortConflict" not in cluster.reasons("p")


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_container_whose_volume_is_not_at_its_path_is_not_created(
    cluster: Cluster, runtime: FakeRuntime, is_plain: bool
) -> None:
    runtime.is_plain = is_plain
    cluster.api.isolation = "none"
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/nowhere/shop"}]}
    _start(cluster, mounts, volumes=[{"name": "v", "emptyDir": {}}])
    if not is_plain:
        assert "running" in _state(cluster)
        return
    text = (
        'Volume "v" is not at /nowhere/shop: without namespaces mounts are links below '
        "$CONTAINER_SANDBOX_MOUNT_POINT; read it there and name that variable in env, or leave out "
        "--kwait-isolation=none"
    )
    assert _state(cluster) == {"waiting": {"reason": "CreateContainerError", "message": text}}
    assert _list_messages(cluster, "Failed") == [f"Error: {text}"]
    assert _list_messages(cluster, "VolumeNotMounted") == [text]


def test_a_program_that_has_missed_its_token_is_not_started_again(
    cluster: Cluster, runtime: FakeRuntime
) -> None:
    """The token that every pod has refuses none before its program has failed for it."""
    runtime.is_plain = True
    _start(cluster)
    runtime.last.write("stderr", b"ConfigException: Service token file does not exist.\n")
    runtime.last.exit(1)
    cluster.run(30)
    text = (
        "In-cluster configuration is not at /var/run/secrets/kubernetes.io/serviceaccount: without "
        "namespaces mounts are links below $CONTAINER_SANDBOX_MOUNT_POINT; give the program a "
        "kubeconfig by KUBECONFIG in env, or run where --kwait-isolation=intercepted works"
    )
    assert _list_messages(cluster, "NoInClusterConfig") == [text]
    assert _state(cluster)["waiting"] == {"reason": "CreateContainerError", "message": text}
    assert len(runtime.containers) == 1


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_programs_that_may_write_to_the_machine_end_before_the_cluster_does(
    cluster: Cluster, runtime: FakeRuntime, tmp_path: Path, ends_by_itself: bool
) -> None:
    """They save what they have, as coverage data; a program that ignores it is killed."""
    saver = make_image_mapping("shop/saver:*", ["/srv/saver"], writable=[tmp_path])
    cluster.api.images.add(saver)
    _start(cluster)
    web = runtime.last
    cluster.create("pods", "saver", _web_spec({"image": "shop/saver:1"}))
    cluster.run(3)
    signals: list[list[int]] = []

    async def close() -> None:
        closing = asyncio.ensure_future(cluster.api.services.close())
        await async_sleep(0)
        signals.extend([list(web.signals), list(runtime.last.signals)])
        assert not closing.done()
        if ends_by_itself:
            runtime.last.exit(0)
        else:
            cluster.run(6)
        await closing

    asyncio.run(close())
    assert signals == [[], [signal.SIGTERM]]
    assert (signal.SIGKILL in runtime.last.signals) is not ends_by_itself

"""Containers of mapped images run programs of the machine as a node runs images."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from kubernetes.client import CoreV1Api

from e2e.conftest import MAPPINGS, PROGRAMS
from e2e.objects import pod
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait


pytestmark = pytest.mark.needs(PROGRAMS)

_WEB, _WORKER = "kwait.test/shop/web:1", "kwait.test/shop/worker:1"
_READY = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1}


def web(name: str = "web", **more: Any) -> dict[str, Any]:
    """Return the container of the web server."""
    return {"name": name, "image": _WEB, "readinessProbe": _READY, **more}


def worker(*args: str, name: str = "worker", **more: Any) -> dict[str, Any]:
    """Return a container of the worker."""
    return {"name": name, "image": _WORKER, "args": list(args), **more}


def read(kwait: Kwait, path: str) -> str:
    """Return an answer of the web server."""
    with (
        kwait.port_forward("pod/web", 8080) as forward,
        urlopen(f"http://127.0.0.1:{forward.port}{path}", timeout=30) as answer,
    ):
        text: str = answer.read().decode()
        return text


def start(kwait: Kwait, *containers: dict[str, Any], **spec: Any) -> None:
    """Create the pod `web`; its web server ends with its signal."""
    made: dict[str, Any] = {"terminationGracePeriodSeconds": 5, **spec}
    kwait.create(pod("web", *containers, **made))


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_web_server_answers_at_the_pods_address(kwait: Kwait) -> None:
    """The mapping's environment and folder are the image's; the manifest overrides them."""
    env = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "URL", "value": "http://$(POD_IP):8080"},
    ]
    start(kwait, web(env=env))
    kwait.wait_for_pod_ready("web")
    found = kwait.get("pod/web")
    assert read(kwait, "/") == "welcome to web"
    variables = json.loads(read(kwait, "/env"))
    assert variables["URL"] == f"http://{found['status']['podIP']}:8080"
    assert (variables["SHOP"], variables["HOSTNAME"]) == ("corner", "web")
    assert kwait.logs("web").startswith("open at 8080 in /srv\n")
    assert found["status"]["podIP"] in read(kwait, "/files/etc/hosts")
    kwait.delete("pod/web")
    kwait.wait_for_pod_not_found("web")


@pytest.mark.needs(MAPPINGS)
@pytest.mark.kwait_skip_unless_programs_isolated
def test_files_are_copied_by_the_tar_of_the_machine(kwait: Kwait, tmp_path: Path) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    start(kwait, web(volumeMounts=mounts), volumes=[{"name": "shared", "emptyDir": {}}])
    kwait.wait_for_pod_ready("web")
    (tmp_path / "pages" / "new").mkdir(parents=True)
    (tmp_path / "pages" / "new" / "one").write_text("first")
    (tmp_path / "pages" / "new" / "one").chmod(0o640)

    there = kwait.copy_to("web", tmp_path / "pages", "/shared")

    assert there == "/shared/pages"
    assert read(kwait, "/files/shared/pages/new/one") == "first"
    copy = kwait.copy_from("web", "/shared/pages", tmp_path / "back") / "new" / "one"
    assert (copy.read_text(), copy.stat().st_mode & 0o777) == ("first", 0o640)


@pytest.mark.kwait_skip_unless_programs_isolated
def test_volumes_are_folders_of_the_program(kwait: Kwait) -> None:
    """Config maps, secrets, fields, tokens and empty folders are where their mounts say."""
    kwait.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "one"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "x"}},
    )
    labels = {"fieldRef": {"fieldPath": "metadata.labels"}}
    volumes = [
        {"name": "map", "configMap": {"name": "a", "defaultMode": 0o440}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "fields", "downwardAPI": {"items": [{"path": "labels", **labels}]}},
        {"name": "shared", "emptyDir": {}},
    ]
    mounts = [
        {"name": "map", "mountPath": "/config"},
        {"name": "map", "mountPath": "/one", "subPath": "k"},
        {"name": "secret", "mountPath": "/secret", "readOnly": True},
        {"name": "fields", "mountPath": "/fields"},
        {"name": "shared", "mountPath": "/shared"},
    ]
    shell = {
        "name": "shell", "image": "busybox:1.36", "volumeMounts": mounts,
        "command": ["sh", "-c", "echo from the shell > /shared/file; sleep 300"],
    }  # fmt: skip
    first = worker("write", "/shared/init", "from init", name="init", volumeMounts=mounts)
    start(
        kwait, web(volumeMounts=mounts), shell, initContainers=[first], volumes=volumes,
        labels={"app": "shop"},
    )  # fmt: skip
    kwait.wait_for_pod_ready("web")
    names = ("config/k", "one", "secret/p", "fields/labels", "shared/init", "shared/file")
    assert [read(kwait, f"/files/{name}") for name in names] == [
        "one", "one", "x", 'app="shop"', "from init", "from the shell\n",
    ]  # fmt: skip
    token = "/files/var/run/secrets/kubernetes.io/serviceaccount/namespace"
    assert read(kwait, token) == kwait.namespace
    listing = kwait.exec("web", "ls", "-la", "/config", container="web").stdout
    assert "..data -> .." in listing
    assert "k -> ..data/k" in listing
    refused = kwait.exec("web", "sh", "-c", "echo x > /config/k", container="web")
    assert refused.exit_code != 0


_IDENTITY = "echo $(id -u) $(id -g)"


def _shell(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "kwait.test/shop/shell:1", "args": [script], **more}


def _busybox(name: str, script: str, **more: Any) -> dict[str, Any]:
    command = ["sh", "-c", script]
    return {"name": name, "image": "busybox:1.36", "command": command, **more}


def test_containers_run_as_the_user_of_their_security_context(kwait: Kwait) -> None:
    """A container's own user and group replace those of its pod."""
    own = {"securityContext": {"runAsUser": 1003}}
    kwait.create(
        pod(
            "users",
            _shell("program", _IDENTITY), _shell("own", _IDENTITY, **own),
            _busybox("box", _IDENTITY), _busybox("ownbox", _IDENTITY, **own),
            securityContext={"runAsUser": 1001, "runAsGroup": 2002},
        )
    )  # fmt: skip
    kwait.wait_for_pod_success("users")
    shown = [kwait.logs("users", container=one) for one in ("program", "own", "box", "ownbox")]
    assert shown == ["1001 2002\n", "1003 2002\n"] * 2


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_read_only_root_takes_no_files(kwait: Kwait) -> None:
    """Volumes can be written as ever."""
    script = "echo x > /file || echo x > /tmp/file || echo kept > /data/file; cat /data/file"
    script = f"( {script} ) 2>&1"  # one stream, in the order of its lines
    more = {
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "v", "mountPath": "/data"}],
    }
    volumes = [{"name": "v", "emptyDir": {}}]
    containers = [_shell("program", script, **more), _busybox("box", script, **more)]
    kwait.create(pod("closed", *containers, volumes=volumes))
    kwait.wait_for_pod_success("closed")
    for container in ("program", "box"):
        lines = kwait.logs("closed", container=container).splitlines()
        assert [line.rpartition(": ")[2] for line in lines] == [
            "Read-only file system", "Read-only file system", "kept",
        ]  # fmt: skip


@pytest.mark.kwait_skip_unless_programs_isolated
def test_containers_share_the_processes_of_their_pod(kwait: Kwait) -> None:
    """Where the pod asks for it, a container can signal a program of another one."""
    waiting = "trap 'echo signalled; exit 0' USR1; touch /v/on; while :; do sleep 0.1; done"
    # The brackets keep the pattern from the command line that it is part of.
    signalling = (
        "until [ -e /v/on ]; do sleep 0.2; done; "
        "kill -USR1 $(grep -l '[e]cho signalled' /proc/[0-9]*/cmdline | head -n1 | cut -d/ -f3)"
    )
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    scripts = {"waiting": waiting, "signalling": signalling}
    containers = [_shell(name, script, **mounts) for name, script in scripts.items()]
    volumes = [{"name": "v", "emptyDir": {}}]
    kwait.create(pod("shared", *containers, shareProcessNamespace=True, volumes=volumes))
    kwait.wait_for_pod_success("shared")
    assert kwait.logs("shared", container="waiting") == "signalled\n"


def test_exit_codes_and_messages_are_the_programs(kwait: Kwait) -> None:
    """The status has the code, the reason, and the log's end where the manifest asks for it."""
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    kwait.create(
        pod("three", worker("exit", "3")),
        pod("fails", worker("fail", "out of stock", **fallback)),
    )
    kwait.wait_for_pod_no_longer_running("three")
    kwait.wait_for_pod_no_longer_running("fails")
    three, fails = (_terminated(kwait, name) for name in ("three", "fails"))
    assert (three["exitCode"], three["reason"]) == (3, "Error")
    assert "out of stock\n" in fails["message"]


def _terminated(kwait: Kwait, name: str) -> dict[str, Any]:
    status = kwait.get(f"pod/{name}")["status"]["containerStatuses"][0]
    found: dict[str, Any] = status["state"]["terminated"]
    return found


def test_the_log_has_both_streams_in_the_order_of_writes(kwait: Kwait) -> None:
    """With a moment between them, in which a real node has read the one before."""
    script = "echo 1; sleep .3; echo 2 >&2; sleep .3; echo 3; sleep .3; echo 4 >&2; exit 1"
    kwait.create(pod("ordered", _shell("main", script)))
    kwait.wait_for_pod_no_longer_running("ordered")
    assert kwait.logs("ordered") == "1\n2\n3\n4\n"


@pytest.mark.needs(MAPPINGS)
def test_the_last_lines_of_a_crash_are_in_the_order_of_writes(kwait: Kwait) -> None:
    """However fast the program writes; a real node may swap such lines."""
    lines = [f"{number} {'out' if number % 3 else 'error'}" for number in range(60)]
    script = "".join(f"echo {line}{'' if 'out' in line else ' >&2'};" for line in lines)
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    kwait.create(pod("crash", _shell("main", f"{script} exit 1", **fallback)))
    kwait.wait_for_pod_no_longer_running("crash")
    assert kwait.logs("crash").splitlines() == lines
    assert _terminated(kwait, "crash")["message"].splitlines() == lines


def test_a_program_of_another_user_opens_its_streams_again(kwait: Kwait) -> None:
    """The streams belong to it."""
    script = "echo out > /dev/stdout && sleep .3 && echo error > /dev/stderr"
    security = {"runAsUser": 1000, "runAsGroup": 1000}
    kwait.create(pod("streams", _shell("main", script, securityContext=security)))
    kwait.wait_for_pod_success("streams")
    assert kwait.logs("streams") == "out\nerror\n"


def test_a_program_over_its_memory_limit_is_oom_killed(kwait: Kwait) -> None:
    """The limit of the container holds for the process."""
    limit = {"limits": {"memory": "48Mi"}}
    kwait.create(pod("big", worker("hold", "400", resources=limit)))
    kwait.wait_for_pod_no_longer_running("big")
    found = _terminated(kwait, "big")
    assert (found["exitCode"], found["reason"]) == (137, "OOMKilled")


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_resize_changes_the_limit_of_the_process(kwait: Kwait) -> None:
    """More memory is there without a restart."""
    start(kwait, web(resources={"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}}))
    kwait.wait_for_pod_ready("web")
    amounts = {"limits": {"memory": "512Mi"}, "requests": {"memory": "512Mi"}}
    change = {"spec": {"containers": [{"name": "web", "resources": amounts}]}}
    CoreV1Api(kwait.client).patch_namespaced_pod_resize("web", kwait.namespace, change)
    kwait.wait_for_pod_condition(
        "web",
        "resized",
        lambda found: found["status"]["containerStatuses"][0]["resources"] == amounts,
    )
    found = kwait.exec("web", sys.executable, "-c", "print(len(b'x' * (200 << 20)))")
    assert (found.exit_code, found.stdout) == (0, f"{200 << 20}\n")
    assert kwait.get("pod/web")["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.kwait_skip_unless_programs_isolated
def test_commands_run_beside_the_program(kwait: Kwait) -> None:
    """`exec` sees the container's files and processes, and its errors are the runtime's."""
    start(kwait, web())
    kwait.wait_for_pod_ready("web")
    found = kwait.exec("web", "sh", "-c", "cat; hostname; exit 3", stdin="typed\n")
    assert (found.stdout, found.exit_code) == ("typed\nweb\n", 3)
    copied = kwait.exec("web", "tar", "cf", "-", "/etc/hostname", container="web")
    assert copied.exit_code == 0


def _run(kubectl: Path, kwait: Kwait, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl in the namespace of the test."""
    options = [f"--kubeconfig={kwait.cluster.kubeconfig}", f"--namespace={kwait.namespace}"]
    return subprocess.run(
        [str(kubectl), *options, *arguments],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.kwait_skip_unless_programs_isolated
def test_kubectl_copies_files_into_and_out_of_a_program(
    kwait: Kwait, kubectl: Path, tmp_path: Path
) -> None:
    """Files and folders arrive as they are, through the container's tar."""
    start(kwait, web())
    kwait.wait_for_pod_ready("web")
    stock = tmp_path / "stock"
    (stock / "inner").mkdir(parents=True)
    (stock / "apples").write_text("three\n")
    (stock / "inner" / "data").write_bytes(bytes(range(256)) * 4096)
    copied = _run(kubectl, kwait, "cp", str(stock), "web:/tmp/stock", "--container=web")
    assert copied.returncode == 0, copied.stderr
    assert read(kwait, "/files/tmp/stock/apples") == "three\n"
    kwait.exec("web", "sh", "-c", "echo four >> /tmp/stock/apples")
    copied = _run(kubectl, kwait, "cp", "web:/tmp/stock", str(tmp_path / "back"))
    assert copied.returncode == 0, copied.stderr
    assert (tmp_path / "back" / "apples").read_text() == "three\nfour\n"
    assert (tmp_path / "back" / "inner" / "data").read_bytes() == bytes(range(256)) * 4096
    _run(kubectl, kwait, "cp", "web:/tmp/nothing", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_failing_liveness_probe_restarts_the_program(kwait: Kwait) -> None:
    """The event has the kubelet's text, and the previous log stays."""
    slow, once = ({**_READY, "failureThreshold": number} for number in (60, 1))
    start(kwait, web(livenessProbe=once, startupProbe=slow), restartPolicy="Always")
    kwait.wait_for_pod_ready("web")
    kwait.exec("web", "touch", "/tmp/broken")
    kwait.wait_for_pod_condition(
        "web",
        "restarted",
        lambda found: found["status"]["containerStatuses"][0]["restartCount"] >= 1,
    )
    texts = [one["message"] for one in kwait.events("pod/web")]
    assert "Liveness probe failed: HTTP probe failed with statuscode: 503" in texts
    assert "closing the shop" in kwait.logs("web", previous=True)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("missing", 'exec: "/nowhere/program": stat /nowhere/program: no such file or directory'),
        ("unfound", 'exec: "no-such-program": executable file not found in $PATH'),
        ("text", "permission denied"),
        ("folder", "permission denied"),
    ],
)
def test_a_program_that_cannot_start_is_a_start_error(kwait: Kwait, image: str, why: str) -> None:
    """State and event have the runtime's words, with the path that was tried."""
    container = {"name": "main", "image": f"kwait.test/shop/{image}:1"}
    kwait.create(pod("bad", container))
    kwait.wait_for_pod_no_longer_running("bad")
    found = _terminated(kwait, "bad")
    assert (found["exitCode"], found["reason"]) == (128, "StartError")
    assert why in found["message"]
    events = [one["message"] for one in kwait.events("pod/bad") if one["reason"] == "Failed"]
    assert events == [f"Error: {found['message']}"]


_CLOSED = "/v/closed/serve"


def _start_behind_a_closed_folder(kwait: Kwait) -> None:
    """Create a pod whose program is in a folder of root, and whose user is another one.

    It has no capabilities: with `DAC_OVERRIDE` a node's runtime still reaches the program.
    """
    script = "mkdir -m 700 /v/closed && cp /bin/sh /v/closed/serve"
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    security = {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}}
    main = _shell("main", "", command=[_CLOSED], securityContext=security, **mounts)
    volumes = [{"name": "v", "emptyDir": {}}]
    kwait.create(pod("closed", main, initContainers=[_shell("init", script, **mounts)],
                     volumes=volumes))  # fmt: skip


@pytest.mark.kwait_skip_unless_programs_isolated("users")
def test_a_program_that_its_user_may_not_reach(kwait: Kwait) -> None:
    """State and event have the runtime's words."""
    _start_behind_a_closed_folder(kwait)
    kwait.wait_for_pod_no_longer_running("closed")
    found = _terminated(kwait, "closed")
    assert (found["exitCode"], found["reason"]) == (128, "StartError")
    assert f'exec: "{_CLOSED}": stat {_CLOSED}: permission denied' in found["message"]


@pytest.mark.kwait_skip_unless_programs_isolated("users")
@pytest.mark.needs(MAPPINGS)
def test_a_failed_wait_names_the_user_and_the_closed_folder(kwait: Kwait) -> None:
    """Its message has who may not do what."""
    _start_behind_a_closed_folder(kwait)
    with pytest.raises(WaitFailed) as caught:
        kwait.wait_for_pod_success("closed")
    denied = 'runAsUser 1000 of container "main" may not enter /v/closed (mode 0700, owner 0:0)'
    assert denied in " ".join(str(caught.value).split())

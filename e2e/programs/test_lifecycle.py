"""Hooks, sidecars, probes, signals, terminals and restarts of programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from kubernetes.client import CoreV1Api

from e2e.conftest import MAPPINGS, PROGRAMS, PROVISIONER
from e2e.kubelet_nodes import first_kubelet_node
from e2e.objects import pod
from e2e.programs.test_programs import start, web, worker

if TYPE_CHECKING:
    from pytest_kwait import Kwait


pytestmark = pytest.mark.needs(PROGRAMS)

_TCP = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
_SHELL = "kwait.test/shop/shell:1"


def shell(script: str, name: str = "shell", **more: Any) -> dict[str, Any]:
    """Return a container that runs a script in the machine's shell."""
    return {"name": name, "image": _SHELL, "args": [script], **more}


@pytest.mark.kwait_skip_unless_programs_isolated
def test_hooks_run_in_the_container(kwait: Kwait) -> None:
    """A postStart command and a preStop request reach the program before its signal."""
    shared = [{"name": "v", "mountPath": "/shared"}]
    lifecycle = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo $SHOP > /shared/started"]}},
        "preStop": {"httpGet": {"path": "/stop", "port": 8080}},
    }
    volumes = [{"name": "v", "hostPath": {"path": "/data"}}]
    start(kwait, web(lifecycle=lifecycle, volumeMounts=shared), volumes=volumes)
    kwait.wait_for_pod_ready("web")
    assert kwait.exec("web", "cat", "/shared/started").stdout == "corner\n"
    kwait.delete("pod/web")
    kwait.wait_for_pod_not_found("web")
    assert not [one for one in kwait.events("pod/web") if one["reason"].startswith("Failed")]


def test_a_failed_hook_ends_the_container(kwait: Kwait) -> None:
    """The status has the command's error."""
    lifecycle = {"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 4"]}}}
    start(kwait, web(lifecycle=lifecycle), restartPolicy="Always", terminationGracePeriodSeconds=1)
    kwait.wait_for_pod_condition(
        "web",
        "in PostStartHookError",
        lambda found: "PostStartHookError" in str(found["status"]["containerStatuses"][0]),
    )
    (event, *_) = [one for one in kwait.events("pod/web") if one["reason"] == "FailedPostStartHook"]
    assert event["message"] == "PostStartHook failed"


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_sidecar_runs_beside_the_program(kwait: Kwait) -> None:
    """It starts first, is ready before the program starts, and ends after it."""
    sidecar = web("proxy", restartPolicy="Always", startupProbe={**_TCP, "failureThreshold": 60})
    reach = (
        'wget -qO- http://127.0.0.1:8080/ || python3 -c "import urllib.request as r; '
        "print(r.urlopen('http://127.0.0.1:8080/').read().decode())\""
    )
    start(kwait, shell(reach), initContainers=[sidecar])
    kwait.wait_for_pod_success("web")
    assert "welcome to web" in kwait.logs("web", container="shell")
    statuses = kwait.get("pod/web")["status"]["initContainerStatuses"]
    assert statuses[0]["state"]["terminated"]["exitCode"] == 0


@pytest.mark.kwait_skip_unless_programs_isolated
def test_probes_of_a_closed_port_fail(kwait: Kwait) -> None:
    """A program that listens elsewhere than its probe is not ready, and its events say why."""
    probe = {"tcpSocket": {"port": 9090}, "periodSeconds": 1}
    start(kwait, web(readinessProbe=probe))
    found = kwait.wait_for_pod_running("web")["status"]["podIP"]
    kwait.wait_for_event(reason="Unhealthy")
    messages = {one["message"] for one in kwait.events("pod/web") if one["reason"] == "Unhealthy"}
    assert messages == {
        f"Readiness probe failed: dial tcp {found}:9090: connect: connection refused"
    }


@pytest.mark.kwait_skip_unless_programs_isolated
def test_grpc_probes_ask_the_program(kwait: Kwait) -> None:
    """Their events have the state that the program's health service answers."""
    probe = {"grpc": {"port": 9000}, "periodSeconds": 1, "failureThreshold": 1}
    stock = {
        "name": "stock", "image": "kwait.test/shop/stock:1", "args": ["9000"],
        "startupProbe": {**probe, "failureThreshold": 60}, "readinessProbe": probe,
    }  # fmt: skip
    start(kwait, stock, terminationGracePeriodSeconds=1)
    kwait.wait_for_pod_ready("web")
    kwait.exec("web", "touch", "/tmp/sold-out")
    text = 'Readiness probe failed: service unhealthy (responded with "NOT_SERVING")'
    kwait.wait_for_event(reason="Unhealthy", message=text)
    kwait.wait_for_pod_condition(
        "web",
        "not ready",
        lambda found: not found["status"]["containerStatuses"][0]["ready"],
    )
    kwait.exec("web", "rm", "/tmp/sold-out")
    kwait.wait_for_pod_ready("web")


def test_a_failing_grpc_liveness_probe_restarts_the_program(kwait: Kwait) -> None:
    """A check of another port is refused, and the container restarts."""
    probe = {"grpc": {"port": 9001}, "periodSeconds": 1, "failureThreshold": 1}
    stock = {
        "name": "stock", "image": "kwait.test/shop/stock:1", "args": ["9000"],
        "livenessProbe": {**probe, "timeoutSeconds": 1},
    }  # fmt: skip
    start(kwait, stock, restartPolicy="Always", terminationGracePeriodSeconds=1)
    kwait.wait_for_pod_condition(
        "web",
        "restarted",
        lambda found: found["status"]["containerStatuses"][0]["restartCount"] >= 1,
    )


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_stop_signal_reaches_the_program(kwait: Kwait) -> None:
    """Its handler runs before the container ends; a path of the node keeps what it writes."""
    script = (
        "trap 'echo bye > /data/said; exit 0' TERM; touch /data/on; while :; do sleep 0.1; done"
    )
    mounts = [{"name": "v", "mountPath": "/data"}]
    volumes = [{"name": "v", "hostPath": {"path": "/signals"}}]
    place: dict[str, Any] = {"volumes": volumes, "nodeName": first_kubelet_node(kwait)}
    ready = {"exec": {"command": ["test", "-e", "/data/on"]}, "periodSeconds": 1}
    start(kwait, shell(script, readinessProbe=ready, volumeMounts=mounts), **place)
    kwait.wait_for_pod_ready("web")
    kwait.delete("pod/web")
    kwait.wait_for_pod_not_found("web")
    kwait.create(pod("next", shell("cat /data/said", volumeMounts=mounts), **place))
    kwait.wait_for_pod_success("next")
    assert kwait.logs("next") == "bye\n"


def test_a_terminal_is_a_terminal(kwait: Kwait) -> None:
    """A program that needs a terminal has one where the manifest asks for it, else not."""
    script = "test -t 1 && echo terminal || echo pipe"
    kwait.create(pod("with", shell(script, tty=True, stdin=True)), pod("without", shell(script)))
    kwait.wait_for_pod_success("with")
    kwait.wait_for_pod_success("without")
    assert kwait.logs("with") == "terminal\n"
    assert kwait.logs("without") == "pipe\n"


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_service_proxy_of_the_api_server_reaches_programs(kwait: Kwait) -> None:
    """The proxy subresource of pods leads to the program."""
    start(kwait, web())
    kwait.wait_for_pod_ready("web")
    api = CoreV1Api(kwait.client)
    answer = api.connect_get_namespaced_pod_proxy_with_path("web:8080", kwait.namespace, "env")
    assert "corner" in answer
    with (
        kwait.port_forward("pod/web", 8080) as forward,
        urlopen(f"http://127.0.0.1:{forward.port}/files/etc/hostname", timeout=30) as reply,
    ):
        assert reply.read() == b"web\n"


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_forwarded_port_is_within_the_pod(kwait: Kwait) -> None:
    """A debugger, for example, listens on the pod's loopback interface alone."""
    ready = {"exec": {"command": ["grep", "-q", "0100007F:1F90", "/proc/net/tcp"]}}
    start(
        kwait,
        web(
            args=["8080", "127.0.0.1"],
            startupProbe={**ready, "periodSeconds": 1, "failureThreshold": 60},
        ),
    )
    kwait.wait_for_container_started("web", "web")
    with (
        kwait.port_forward("pod/web", 8080) as forward,
        urlopen(f"http://127.0.0.1:{forward.port}/", timeout=30) as answer,
    ):
        assert answer.read() == b"welcome to web"


@pytest.mark.kwait_skip_unless_programs_isolated("processes")
def test_an_ephemeral_container_sees_its_target(kwait: Kwait) -> None:
    """It joins the process namespace of the container that it debugs."""
    start(kwait, web())
    kwait.wait_for_pod_ready("web")
    script = "tr '\\0' ' ' < /proc/1/cmdline; echo"
    added = {**shell(script, "debugger"), "targetContainerName": "web"}
    CoreV1Api(kwait.client).patch_namespaced_pod_ephemeralcontainers(
        "web", kwait.namespace, {"spec": {"ephemeralContainers": [added]}}
    )
    kwait.wait_for_container_terminated("web", "debugger")
    assert "-m e2e.programs.shop.web" in kwait.logs("web", container="debugger")


@pytest.mark.needs(MAPPINGS)
def test_a_misspelt_image_is_not_run(kwait: Kwait) -> None:
    """Only what is mapped runs; the event names the pattern that was meant."""
    kwait.create(pod("web", {"name": "main", "image": "kwait.test/shop/wbe:1"}))
    kwait.wait_for_event(reason="NotSimulated")
    (event,) = [one for one in kwait.events("pod/web") if one["reason"] == "NotSimulated"]
    assert event["message"].endswith('did you mean the pattern "kwait.test/shop/web:*"?')


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.needs(PROVISIONER)
def test_a_claim_keeps_its_files_for_the_next_pod(kwait: Kwait) -> None:
    """Programs and simulated containers share a volume over time."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    mounts = [{"name": "v", "mountPath": "/data", "subPath": "inner"}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    kwait.create(
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": claim,
        },
        pod("first", worker("write", "/data/file", "kept", volumeMounts=mounts), volumes=volumes),
    )  # fmt: skip
    kwait.wait_for_pod_success("first")
    simulated = {
        "name": "main", "image": "busybox:1.36", "volumeMounts": mounts,
        "command": ["sh", "-c", "cat /data/file; echo more >> /data/file"],
    }  # fmt: skip
    kwait.create(pod("second", simulated, volumes=volumes))
    kwait.wait_for_pod_success("second")
    assert kwait.logs("second") == "kept"
    kwait.create(pod("third", worker("read", "/data/file", volumeMounts=mounts), volumes=volumes))
    kwait.wait_for_pod_success("third")
    assert "keptmore\n" in kwait.logs("third")


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_changed_config_map_reaches_the_program(kwait: Kwait) -> None:
    """The files change at once, without a restart."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    kwait.apply({**config, "data": {"k": "one"}})
    volumes = [{"name": "v", "configMap": {"name": "a"}}]
    script = "cat /config/k; until grep -q two /config/k; do sleep 0.2; done; cat /config/k"
    mounts = [{"name": "v", "mountPath": "/config"}]
    start(kwait, shell(script, volumeMounts=mounts), volumes=volumes)
    kwait.wait_for_pod_ready("web")
    kwait.apply({**config, "data": {"k": "two"}})
    kwait.wait_for_pod_success("web", timeout="3m")
    assert kwait.logs("web") == "onetwo"

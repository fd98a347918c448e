"""Programs of a run that asks for no isolation: what works, and what is refused at the pod.

The same holds where the machine refuses namespaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

_SUITE = """
import socket
import sys
from urllib.request import urlopen

import pytest

from pytest_kwait import WaitFailed

LISTEN = (
    "import signal, socket, sys; server = socket.create_server(('', int(sys.argv[1]))); "
    "signal.sigwait([signal.SIGTERM])"
)
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="session")
def kwait_images():
    return {
        "inner/listen": [sys.executable, "-c", LISTEN],
        "inner/serve": [sys.executable, "-m", "http.server"],
        "inner/shell": ["/bin/sh", "-c"],
        "inner/config": [
            sys.executable, "-c", "from kubernetes import config; config.load_incluster_config()"
        ],
    }


def create(kwait, name, image, *args, volumes=(), **more):
    container = {"name": "main", "image": f"inner/{image}", "args": list(args)}
    spec = {"containers": [container], "volumes": list(volumes), "terminationGracePeriodSeconds": 1}
    for key, value in more.items():
        (spec if key in ("serviceAccountName", "restartPolicy") else container)[key] = value
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def fail(wait, *names):
    with pytest.raises(WaitFailed) as caught:
        wait(*names)
    return " ".join(str(caught.value).split())


def has_event(kwait, name, reason, text):
    return [
        each["message"] for each in kwait.events(f"pod/{name}") if each["reason"] == reason
    ] == [text]


def test_a_second_pod_on_a_port(kwait):
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    listens = {"exec": {"command": ["grep", "-q", f"00000000:{port:04X}", "/proc/net/tcp"]}}
    more = {"ports": [{"containerPort": port}], "readinessProbe": {**listens, "periodSeconds": 1}}
    create(kwait, "first", "listen", str(port), **more)
    kwait.wait_for_pod_ready("first")
    create(kwait, "second", "listen", str(port), **more)
    text = (
        f'Port {port} of pod "{kwait.namespace}/second" is in use by pod '
        f'"{kwait.namespace}/first": without namespaces all pods share the machine\\'s ports; use '
        "another port, or leave out --kwait-isolation=none"
    )
    # A message leaves the namespace of its own objects out.
    assert text.replace(f"{kwait.namespace}/", "") in fail(kwait.wait_for_pod_ready, "second")
    assert has_event(kwait, "second", "PortConflict", text)
    kwait.delete("pod/first")
    kwait.wait_for_pod_ready("second", grace="1m")
    assert kwait.get("pod/second")["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_port_by_the_address_of_its_pod(kwait):
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    probe = {"httpGet": {"port": port}, "periodSeconds": 1}
    create(kwait, "web", "serve", str(port), readinessProbe=probe)
    kwait.wait_for_pod_ready("web")
    address = kwait.get("pod/web")["status"]["podIP"]
    client = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "300"]}
    spec = {"containers": [client], "terminationGracePeriodSeconds": 0}
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}, "spec": spec})
    kwait.wait_for_pod_ready("c")
    answer = kwait.exec("c", "wget", "-qO-", f"http://{address}:{port}/")
    assert "Directory listing" in answer.stdout, answer
    with urlopen(kwait.url("pod/web", port=port)) as answer:
        assert answer.status == 200


CONFIG_MAP = {
    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"},
}
VOLUMES = [{"name": "config", "configMap": {"name": "a"}}]
MOUNTS = [{"name": "config", "mountPath": "/nowhere/shop"}]


def test_a_volume_at_a_path_of_its_own(kwait):
    kwait.create(CONFIG_MAP)
    create(kwait, "p", "shell", "cat /nowhere/shop/k", volumes=VOLUMES, volumeMounts=MOUNTS)
    text = (
        'Volume "config" is not at /nowhere/shop: without namespaces mounts are links below '
        "$CONTAINER_SANDBOX_MOUNT_POINT; read it there and name that variable in env, or leave out "
        "--kwait-isolation=none"
    )
    assert text in fail(kwait.wait_for_pod_running, "p")
    assert has_event(kwait, "p", "VolumeNotMounted", text)


def test_programs_that_find_their_volume(kwait):
    kwait.create(CONFIG_MAP)
    more = {"volumes": VOLUMES, "volumeMounts": MOUNTS, "restartPolicy": "Never"}
    script = "cat $CONTAINER_SANDBOX_MOUNT_POINT/nowhere/shop/k"
    create(kwait, "named", "shell", script, **more)
    create(kwait, "inside", "shell", "cat k", workingDir="/nowhere/shop", **more)
    for name in ("named", "inside"):
        kwait.wait_for_pod_success(name)
        assert kwait.logs(name) == "v"


def test_an_empty_folder_over_one_of_the_machine(kwait):
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]
    volumes = [{"name": "tmp", "emptyDir": {}}]
    create(
        kwait, "p", "shell", "test -w /tmp", volumes=volumes, volumeMounts=mounts,
        restartPolicy="Never",
    )
    kwait.wait_for_pod_success("p")


TEXT = (
    "In-cluster configuration is not at /var/run/secrets/kubernetes.io/serviceaccount: without "
    "namespaces mounts are links below $CONTAINER_SANDBOX_MOUNT_POINT; give the program a "
    "kubeconfig by KUBECONFIG in env, or leave out --kwait-isolation=none"
)


def test_an_operator(kwait):
    kwait.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator"}},
        {
            "apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator"}],
        },
    )
    create(kwait, "p", "config", serviceAccountName="operator")
    assert TEXT in fail(kwait.wait_for_pod_running, "p")
    assert has_event(kwait, "p", "NoInClusterConfig", TEXT)


def test_programs_with_the_token_of_every_pod(kwait):
    create(kwait, "without", "shell", "echo fine", restartPolicy="Never")
    kwait.wait_for_pod_success("without")
    create(kwait, "with", "config", restartPolicy="OnFailure")
    assert TEXT in fail(kwait.wait_for_pod_success, "with")


def test_a_network_policy(kwait):
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    kwait.create(
        {
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "closed"}, "spec": spec,
        }
    )
    create(kwait, "p", "shell", "sleep 300")
    kwait.wait_for_pod_running("p")
    text = (
        "programs in pods are not restricted: programs are plain processes on the machine's "
        "network and files (isolation none was asked for)"
    )
    assert [
        each["message"] for each in kwait.events("networkpolicy/closed")
        if each["reason"] == "NotEnforced"
    ] == [text]


@pytest.mark.kwait_skip_unless_programs_isolated
def test_isolated(kwait):
    assert False
"""


def test_what_cannot_work_without_isolation_is_refused_at_the_pod(tmp_path: Path) -> None:
    status, output = run(tmp_path, None, _SUITE, "--kwait-isolation=none", "-rs")
    assert (status, "8 passed, 1 skipped" in output) == (0, True), output
    reason = (
        "Requires isolated programs in pods: programs are plain processes on the machine's network "
        "and files (isolation none was asked for)"
    )
    assert reason in " ".join(output.split())

"""Runs on etcd and kube-apiserver of KUBEBUILDER_ASSETS, whatever cluster this suite runs on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_kwait import wait
from pytest_kwait.cli.state_file import ProcessIdentity

SUITE = """
import pytest
from pytest_kwait import ApiError, WaitTimeout
from pytest_kwait.client.session import ApiSession

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
       "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }],
    },
}

def test_alone(kwait):
    assert kwait.cluster.provider == "binaries"
    assert kwait.cluster.nodes == ()
    assert kwait.cluster.version.startswith("v1.")
    assert ApiSession.of(kwait.client).time_scale == 1.0
    with pytest.raises(ApiError, match="serviceaccounts .default. not found"):
        kwait.get("serviceaccount/default")
    (pod,) = kwait.create(POD)
    assert pod["status"]["phase"] == "Pending"

@pytest.mark.kwait(timeout="1s")
def test_a_pod_stays_pending(kwait):
    kwait.create(POD)
    kwait.wait_for("pod/p", "jsonpath={.spec.schedulerName}=default-scheduler", timeout="4m")
    with pytest.raises(WaitTimeout, match="did not get to phase Running within 1s: Pending"):
        kwait.wait_for_pod_running("p")

@pytest.mark.kwait(timeout="4m")
def test_a_definition_is_served(kwait):
    kwait.create(WIDGETS)
    kwait.wait_for_crd_established("widgets.example.com")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
              "spec": {"size": 1}}
    kwait.create(widget)
    kwait.wait_for("widget/w", "jsonpath={.spec.size}=1")
    kwait.delete("widget/w")
    kwait.wait_for("widget/w", "delete")

def test_in_another_namespace(kwait, kwait_factory):
    with kwait_factory("other") as other:
        other.create(POD)
        assert kwait.list("pods") == []
        assert [pod["metadata"]["name"] for pod in other.list("pods")] == ["p"]
"""


WITH_CONTROLLERS = """
import pytest
from pytest_kwait import ApiError

def container(command, **more):
    return {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", command], **more}

def template(app, command, **more):
    spec = {"containers": [container(command)], **more}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}

def test_a_deployment(kwait):
    assert kwait.cluster.provider == "binaries"
    assert kwait.cluster.nodes == ("kwait-node-1", "kwait-node-2")
    kwait.create({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                 "template": template("web", "sleep 1000", terminationGracePeriodSeconds=0)},
    })
    kwait.wait_for_deployment_complete("web")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
               "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    kwait.create(service)
    kwait.wait_for("endpoints/web", lambda found: len(found["subsets"][0]["addresses"]) == 3)
    kwait.scale("deployment/web", 1)
    kwait.wait_for_deployment_complete("web")
    kwait.delete("deployment/web")
    kwait.wait_for("pods", "delete", selector="app=web")

def test_a_job(kwait):
    kwait.create({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "hello"},
        "spec": {"completions": 2,
                 "template": template("hello", "echo hello", restartPolicy="Never")},
    })
    kwait.wait_for_job_complete("hello", completions=2)
    pods = kwait.wait_for_job_pods_succeeded("hello", 2)
    assert [kwait.logs(pod["metadata"]["name"]) for pod in pods] == ["hello\\n"] * 2

def test_a_pod_has_its_account_and_runs_commands(kwait):
    (pod,) = kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                           "spec": {"containers": [container("sleep 1000")]}})
    assert pod["spec"]["serviceAccountName"] == "default"
    kwait.wait_for_pod_running("p")
    result = kwait.exec("p", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
    assert result.stdout.count(".") == 2

def test_a_namespace_goes(kwait):
    spec = {"containers": [container("sleep 1000")], "terminationGracePeriodSeconds": 1}
    kwait.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}})
    kwait.wait_for("serviceaccount/default", "create", namespace="going")
    kwait.create({"apiVersion": "v1", "kind": "Pod",
                  "metadata": {"name": "p", "namespace": "going"}, "spec": spec})
    kwait.wait_for_pod_running("p", namespace="going")
    kwait.delete("namespace/going")
    kwait.wait_for("namespace/going", "delete", timeout="60s")
"""


@pytest.fixture(autouse=True)
def assets() -> Path:
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS", ""))
    if not (folder / "etcd").exists() or not (folder / "kube-apiserver").exists():
        pytest.skip("KUBEBUILDER_ASSETS has no etcd and kube-apiserver")
    return folder


def begin(folder: Path, suite: str, *options: str) -> subprocess.Popen[str]:
    """Start to run a suite in a folder, whose subfolder is that of temporary files."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text(suite)
    (folder / "tmp").mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name[:6] != "KWAIT_"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-s", *options],
        cwd=folder,
        env={**environment, "TMPDIR": str(folder / "tmp")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "in workers"])
def test_a_suite_runs_on_binaries(tmp_path: Path, workers: tuple[str, ...]) -> None:
    with begin(tmp_path, SUITE, "--kwait-cluster=binaries", *workers) as process:
        said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert "4 passed" in said
    assert list((tmp_path / "tmp").glob("kwait-*")) == []


def test_a_suite_runs_on_binaries_with_controllers(tmp_path: Path) -> None:
    options = ("--kwait-cluster=binaries", "--kwait-controllers", "-n2")
    with begin(tmp_path, WITH_CONTROLLERS, *options) as process:
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "4 passed" in said
    assert list((tmp_path / "tmp").glob("kwait-*")) == []


WAITING = """
import os, time

def test_it(kwait):
    print(kwait.cluster.pid, kwait.cluster.kubeconfig.parent, flush=True)
    kwait.wait_for("pod/never", "condition=Ready", timeout="4m")
"""


def cluster_of(process: subprocess.Popen[str]) -> tuple[ProcessIdentity, Path]:
    """Return the supervisor and the folder that the waiting suite prints."""
    assert process.stdout is not None
    for line in process.stdout:
        first, _, rest = line.strip().rpartition(" ")
        pid = first.rpartition(" ")[2]
        if pid.isdecimal() and Path(rest).is_dir():
            identity = ProcessIdentity.of(int(pid))
            assert identity is not None
            return identity, Path(rest)
    raise AssertionError("the suite has printed no cluster")


def test_nothing_outlives_a_killed_run(tmp_path: Path) -> None:
    with begin(tmp_path, WAITING, "--kwait-cluster=binaries") as process:
        supervisor, folder = cluster_of(process)
        process.kill()
        wait.poll_immediate(0.05, 120, lambda: not supervisor.alive and not folder.exists())


def test_a_dead_control_plane_ends_waits(tmp_path: Path) -> None:
    with begin(tmp_path, WAITING, "--kwait-cluster=binaries") as process:
        supervisor, _ = cluster_of(process)
        os.kill(supervisor.pid, signal.SIGKILL)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the control plane of binaries has ended (signal 9)" in said

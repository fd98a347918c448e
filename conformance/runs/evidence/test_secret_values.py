"""Values of Secrets that a container prints are shown nowhere."""

from __future__ import annotations

import base64
import gzip
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clusters import Cluster

VALUE = "Tr0ub4dor/und drei"
FORMS = (VALUE, base64.b64encode(VALUE.encode()).decode(), "Tr0ub4dor%2Fund%20drei", "Tr0ub4dor")

SUITE = f"""
import pytest
from kubernetes.client import CoreV1Api

SECRET = {{"metadata": {{"name": "db"}}, "stringData": {{"password": "{VALUE}"}}}}
POD = '''
apiVersion: v1
kind: Pod
metadata: {{name: client}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox:1.36
    env: [{{name: WORD, valueFrom: {{secretKeyRef: {{name: db, key: password}}}}}}]
    command:
    - sh
    - -c
    - |
      echo "plain $WORD"
      printf %s "$WORD" | base64
      echo "opening db://$WORD" > /dev/termination-log
      exit 3
'''

@pytest.mark.parametrize("known", [False, True])
def test_client(kwait, kwait_client, wait_for_pod_success, known):
    if known:
        kwait.create({{"apiVersion": "v1", "kind": "Secret", **SECRET}})
    else:
        CoreV1Api(kwait_client).create_namespaced_secret(kwait.namespace, SECRET)
    kwait.apply(POD)
    try:
        wait_for_pod_success("client", timeout="2m")
    finally:
        print(kwait.logs("client"))
"""


OPERATOR_SUITE = """
import pytest
import pytest_kwait
from kubernetes.client import CoreV1Api

POD = '''
apiVersion: v1
kind: Pod
metadata: {name: operator}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "busybox:1.36", command: [sh, -c, "touch /tmp/log; tail -f /tmp/log"]}
'''

@pytest_kwait.environment(scope="run")
def operator(kwait):
    kwait.create_and_wait(POD, timeout="2m")
    yield kwait

def write(operator, kwait, client, name):
    # As an operator does: not through `kwait`, in the namespace of the test.
    value = "-".join(("gr8", "p@ss", name))
    secret = {"metadata": {"name": "generated"}, "stringData": {"password": value}}
    CoreV1Api(client).create_namespaced_secret(kwait.namespace, secret)
    operator.exec("operator", "sh", "-c", f"echo set {name} to {value} >> /tmp/log")

def signal(operator, name):
    operator.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})

@pytest.mark.xdist_group("others")
def test_first(operator, kwait, kwait_client):
    write(operator, kwait, kwait_client, "first")

@pytest.mark.xdist_group("others")
def test_second(operator, kwait, kwait_client, worker_id):
    write(operator, kwait, kwait_client, "second")
    signal(operator, "written")
    if worker_id != "master":
        operator.wait_for("configmap/read", "create", timeout="2m")

@pytest.mark.xdist_group("failing")
def test_fails(operator, kwait, kwait_client):
    write(operator, kwait, kwait_client, "third")
    operator.wait_for("configmap/written", "create", timeout="2m")
    printed = lambda pod: operator.logs("operator").count("set ") == 3
    operator.wait_for("pod/operator", printed, mode="poll", poll="200ms", timeout="2m")
    print(operator.logs("operator"))
    try:
        operator.wait_for_pod_success("operator", timeout="1s")
    finally:
        signal(operator, "read")
"""


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.own_cluster), 1])
def test_values_are_masked_wherever_a_run_writes(
    kwait_cluster: Cluster, tmp_path: Path, workers: int
) -> None:
    """In messages, artifacts, the report, JUnit and pytest's own output."""
    status, output = run(
        tmp_path,
        kwait_cluster.kubeconfig,
        SUITE,
        *(f"--kwait-context={name}" for name in [kwait_cluster.context] if name),
        f"-n{workers}",
        "-rA",
        "--log-level=INFO",
        "--junitxml=junit.xml",
        "-ojunit_logging=all",
        "--kwait-artifacts=artifacts",
        "--kwait-report=report.json",
        "--kwait-report=report.html",
    )
    assert status == 1, output
    (tmp_path / "output.txt").write_text(output)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    texts = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in files}
    del texts["test_suite.py"]

    assert [name for name, text in texts.items() if any(form in text for form in FORMS)] == []
    assert "2 failed" in output, output
    assert "| plain (hidden)" in output
    for name in ("junit.xml", "report.json", "report.html"):
        assert "plain (hidden)" in texts[name]
    logs = [text for name, text in texts.items() if name.endswith("logs/client/main.log")]
    assert logs == ["plain (hidden)\n(hidden)\n"] * 2


@pytest.mark.parametrize("dist", [pytest.param("-n0", marks=pytest.mark.own_cluster), "-n2"])
def test_values_of_other_tests_are_masked_in_the_log_of_a_shared_operator(
    kwait_cluster: Cluster, tmp_path: Path, dist: str
) -> None:
    """Of tests that have ended, of this and of other workers, in namespaces that are gone."""
    status, output = run(
        tmp_path,
        kwait_cluster.kubeconfig,
        OPERATOR_SUITE,
        *(f"--kwait-context={name}" for name in [kwait_cluster.context] if name),
        dist,
        "--dist=loadgroup",
        "-rA",
        "--junitxml=junit.xml",
        "-ojunit_logging=all",
        "--kwait-artifacts=artifacts",
        "--kwait-record=failed",
        "--kwait-report=report.json",
        "--kwait-report=report.html",
    )
    assert status == 1, output
    assert "1 failed, 2 passed" in output, output
    (tmp_path / "output.txt").write_text(output)
    texts = {
        path.relative_to(tmp_path).as_posix(): _read(path)
        for path in tmp_path.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and path.name != "test_suite.py"
    }
    assert [name for name, text in texts.items() if "gr8" in text or "p@ss" in text] == []
    shown = [f"set {name} to (hidden)" for name in ("first", "second", "third")]
    files = [
        "output.txt", "junit.xml", "report.json", "report.html",
        *(name for name in texts if name.endswith(("logs/operator/main.log", "jsonl.gz"))),
    ]  # fmt: skip
    assert len(files) == 6
    assert [(name, line) for name in files for line in shown if line not in texts[name]] == []


NAMES_SUITE = """
PASSWORD = "-".join(("gr8", "p@ss"))

def test_upgrade(kwait):
    values = {"username": "zalando", "team": "acid-team", "stage": "staging-17", "a": "other-17"}
    values["password"] = PASSWORD
    metadata = {"name": "db"}
    kwait.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}
    )
    image = "registry.example/zalando/spilo:17"
    containers = [{"name": "main", "image": image, "args": [values["password"]]}]
    kwait.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "acid-team-db"},
        "spec": {"containers": containers},
    })
    print(*values.values())
    kwait.wait_for("pod/acid-team-db", "condition=Never", timeout="2s")  # zalando/spilo
"""


def test_names_that_are_values_of_secrets_are_shown(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """Images, names of objects, and quoted lines; never a password."""
    status, output = run(
        tmp_path,
        kwait_cluster.kubeconfig,
        NAMES_SUITE,
        *(f"--kwait-context={name}" for name in [kwait_cluster.context] if name),
        "-n1",
        "-v",
        "-okwait_readable_secrets=db/stage",
        "--kwait-artifacts=artifacts",
        "--kwait-record=failed",
        "--kwait-report=report.json",
    )
    assert status == 1, output
    (tmp_path / "output.txt").write_text(output)
    texts = {
        path.name: _read(path)
        for path in tmp_path.rglob("*")
        if path.suffix in (".txt", ".json", ".yaml", ".gz")
    }
    assert [name for name, text in texts.items() if "gr8" in text or "p@ss" in text] == []
    # The cluster itself knows no names of the suite.
    cluster = {"recording.jsonl.gz"}
    assert [name for name in texts.keys() - cluster if "/(hidden)" in texts[name]] == []
    for name in ("output.txt", "failure.txt", "report.json", "pods.yaml", "recording.jsonl.gz"):
        assert "registry.example/zalando/spilo" in texts[name], name
    assert "# zalando/spilo" in output
    assert "zalando acid-team staging-17 (hidden) (hidden)" in output


def _read(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()

"""Values of Secrets that a container prints are shown nowhere."""

from __future__ import annotations

import base64
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


@pytest.mark.parametrize("workers", [0, 1])
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

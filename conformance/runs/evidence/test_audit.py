"""The audit lists waits that prove nothing, and none of a correct test."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run
from pytest_kwait.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait

SUITE = '''
import subprocess
import sys
import threading
import time

import pytest

OPEN_FOR_A_MOMENT = """
import sys
from kubernetes import client, config

config.load_kube_config(sys.argv[1])
# The classes of the API take a second to load.
api = client.ApiClient()
place = f"/api/v1/namespaces/{sys.argv[2]}/configmaps/door"
headers = {"Content-Type": "application/merge-patch+json"}
for state in ("open", "closed"):
    body = {"data": {"state": state}}
    request = api.param_serialize(
        "PATCH", place, header_params=headers, body=body, auth_settings=["BearerToken"]
    )
    assert api.call_api(*request).status == 200
"""


def door(state):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "door"},
            "data": {"state": state}}


# On a busy machine a moment may last longer than a second.
@pytest.mark.parametrize("attempt", range(3))
def test_door_that_opens_for_a_moment(kwait, kwait_cluster, attempt):
    kwait.create(door("closed"))
    kubeconfig = str(kwait_cluster.kubeconfig)
    subprocess.Popen([sys.executable, "-c", OPEN_FOR_A_MOMENT, kubeconfig, kwait.namespace])
    is_open = lambda each: each["data"]["state"] == "open"
    condition = is_open if attempt % 2 else "jsonpath={.data.state}=open"
    kwait.wait_for("configmap/door", condition, timeout="2m")  # transient
    time.sleep(1.5)


@pytest.mark.parametrize("number", range(3))
def test_door_that_is_there(kwait, number):
    kwait.create(door("open"))
    kwait.wait_for("configmap/door", "create")  # first look


def test_door_that_opens_late(kwait):
    kwait.create(door("closed"))
    threading.Timer(6.5, kwait.apply, [door("open")]).start()
    kwait.wait_for("configmap/door", "jsonpath={.data.state}=open", timeout="10s")  # late


def test_correct(kwait):
    kwait.create(door("closed"))
    threading.Timer(0.5, kwait.patch, ["configmap/door", {"data": {"state": "open"}}]).start()
    kwait.wait_for("configmap/door", "jsonpath={.data.state}=open", timeout="2m")
    kwait.patch("configmap/door", {"data": {"state": "closed"}})
    kwait.wait_for("configmap/door", "jsonpath={.data.state}=closed", timeout="2m")
    kwait.delete("configmap/door")
    time.sleep(1.2)


def test_correct_with_another_client(kwait, kwait_client):
    from kubernetes.client import CoreV1Api

    kwait.create(door("closed"))
    threading.Timer(0.5, kwait.patch, ["configmap/door", {"data": {"state": "open"}}]).start()
    kwait.wait_for("configmap/door", "jsonpath={.data.state}=open", timeout="2m")
    CoreV1Api(kwait_client).delete_namespaced_config_map("door", kwait.namespace)
    time.sleep(1.2)
'''

PODS = """
import time


def pod(script):
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"},
            "spec": {"restartPolicy": "Never", "containers": [container]}}


def test_pod_that_fails_at_once(kwait):
    kwait.create(pod("sleep 0.2; exit 3"))
    kwait.wait_for_pod_running("shop")  # transient
    time.sleep(1.5)


def test_pod_that_lasts(kwait):
    kwait.create(pod("sleep 300"))
    kwait.wait_for_pod_running("shop")
    time.sleep(1.2)
    kwait.delete_and_wait("pod/shop")
"""


def site(suite: str, comment: str) -> str:
    """Return the line of a suite that ends with a comment."""
    lines = suite.splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"  # {comment}")]
    return f"test_suite.py:{number}"


def findings(output: str) -> list[list[str]]:
    """Return the lines of each finding, without indentation."""
    table = output.partition(" kwait audit ")[2].partition("\n")[2]
    found: list[list[str]] = []
    for line in table.partition(" met wait")[0].splitlines()[:-1]:
        if not line.startswith(" "):
            found.append([])
        found[-1].append(line.strip())
    return found


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_findings(
    kwait: Kwait,
    kwait_cluster: Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    workers: list[str],
) -> None:
    status, output = run(
        tmp_path,
        kwait_cluster.kubeconfig,
        SUITE,
        "--kwait-audit",
        f"--kwait-report={tmp_path / 'report.json'}",
        *workers,
    )

    assert status == 0, output
    found = findings(output)
    assert len(found) == 3, output
    transient, late, early = found
    assert transient[0] == f"{site(SUITE, 'transient')}: wait_for"
    assert transient[1].startswith("in test_suite.py::test_door_that_opens_for_a_moment[")
    assert re.match(r"met by a transient in [1-3] of 3 observed: held for ", transient[2])
    assert transient[-1] == (
        'instead: stable_for="1s", or consistently(…) where the state must last'
    )
    assert late[0] == f"{site(SUITE, 'late')}: wait_for"
    assert re.fullmatch(r"used \d+ % of its limit: \S+s of 10s", late[2])
    assert early == [
        f"{site(SUITE, 'first look')}: wait_for",
        "in test_suite.py::test_door_that_is_there[0] and 2 more",
        "met at the first look in all of 3 runs",
        "instead: a wait for what the line before changes, or none",
    ]
    waits = json.loads((tmp_path / "report.json").read_text())["waits"]
    assert {wait["site"] for wait in waits if "broke_after" in wait.get("audit", {})} == {
        site(SUITE, "transient")
    }

    assert main(["report", "audit", str(tmp_path / "report.json")]) == 0
    assert findings(f" kwait audit \n{capsys.readouterr().out}") == found


def test_pod_that_fails_at_once(kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path) -> None:
    if kwait_cluster.provider != "embedded":
        pytest.skip("a kubelet looks at its containers once a second: it may miss this one")

    status, output = run(tmp_path, kwait_cluster.kubeconfig, PODS, "--kwait-audit")

    assert status == 0, output
    ((call, test, *text),) = findings(output)
    assert call == f"{site(PODS, 'transient')}: wait_for_pod_running"
    assert test == "in test_suite.py::test_pod_that_fails_at_once"
    assert " ".join(text).endswith(
        "then the pod has failed: container main ended with exit code 3 "
        'instead: wait_for_pod_ready, or stable_for="1s"'
    )

"""The whole way once: from a marker to a node of the embedded cluster and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_SUITE = """
import pytest

JOB = '''
apiVersion: batch/v1
kind: Job
metadata: {name: sleepers}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox:1.36
        command: [sh, -c, "echo hi; sleep 2"]
'''


@pytest.mark.kwait_manifests(JOB)
@pytest.mark.wait_for_job_pods_running("sleepers", 2, timeout="20s")
def test_job(kwait, wait_for_job_complete):
    pods = kwait.list("pods")
    assert len(pods) == 2
    wait_for_job_complete("sleepers", timeout="20s")
    assert kwait.logs(pods[0]["metadata"]["name"]) == "hi\\n"
    assert "Completed" in [event["reason"] for event in kwait.events("job/sleepers")]


@pytest.mark.wait_for_cache_sync("pods", "jobs", timeout="20s")
def test_caches(kwait):
    assert set(kwait.informers) == {"pods", "jobs.batch"}
    assert kwait.informers["jobs"].has_synced()


def test_minions(kwait, wait_for_pods_on_minions):
    kwait.apply(JOB)
    pods = wait_for_pods_on_minions("job/sleepers", timeout="20s")
    assert {pod["spec"]["nodeName"] for pod in pods} <= set(kwait.cluster.nodes)


def test_custom_resources(kwait):
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    kwait.apply(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
         "metadata": {"name": "things.example.com"},
         "spec": {"group": "example.com", "scope": "Namespaced", "names": names,
                  "versions": [version]}},
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}},
    )
    assert kwait.get("thing/one")["metadata"]["namespace"] == kwait.namespace


def test_nothing_is_left(kwait, wait_for):
    wait_for("crd/things.example.com", "delete", timeout="20s")
"""


def test_workers_pass_a_suite_on_one_embedded_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=_SUITE)
    result = pytester.runpytest_subprocess(
        "--strict-markers", "-Werror", "-ofaulthandler_timeout=60", "-n2", timeout=120
    )
    result.assert_outcomes(passed=5)


_IMAGES = """
import pytest


@pytest.fixture(scope="session")
def kwait_images():
    return {"shop/leave": ["/bin/sh", "-c", "exit 3"]}


@pytest.fixture(scope="session")
def kwait_egress():
    return ["nothing.invalid:80"]
"""
_LEAVE = """
import pytest


def test_leave(kwait, wait_for_pod_no_longer_running):
    container = {"name": "main", "image": "shop/leave"}
    spec = {"restartPolicy": "Never", "containers": [container]}
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    pod = wait_for_pod_no_longer_running("p", timeout="20s")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_lookup(kwait, wait_for_pod_success):
    command = ["sh", "-c", "until nslookup nothing.invalid; do sleep 1; done"]
    container = {"name": "main", "image": "busybox:1.36", "command": command}
    spec = {"restartPolicy": "Never", "containers": [container]}
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    wait_for_pod_success("p", timeout="20s")
"""


def test_images_and_egress_of_a_folder_hold_for_its_tests(pytester: pytest.Pytester) -> None:
    """Also if the cluster was used before by a test that does not see them."""
    pytester.makepyfile(test_a="def test_a(kwait): assert not kwait.list('pods')")
    folder = pytester.mkpydir("shop")
    (folder / "conftest.py").write_text(_IMAGES)
    (folder / "test_leave.py").write_text(_LEAVE)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "test_a.py", "shop")
    result.assert_outcomes(passed=3)

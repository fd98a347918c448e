"""Further clusters of a run: embedded ones, and an existing one, beside the run's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run
from pytest_kwait.simulator.protocol.recording.files import read_recording

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

SUITE = """
import sys
from pathlib import Path

import pytest

from pytest_kwait import WaitTimeout

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "300"]}],
    },
}


def identity(kwait):
    return kwait.get("namespace/kube-system")["metadata"]["uid"]


@pytest.mark.parametrize("number", range(2))
def test_both(kwait, kwait_factory, number):
    with kwait_factory("peer", cluster="b") as peer, kwait_factory("home") as home:
        assert identity(home) == identity(kwait) != identity(peer)
        Path(f"peer.{number}").write_text(identity(peer))
        peer.create_and_wait(POD)
        assert kwait.list("pods") == home.list("pods") == []
        further = peer.create_namespace("further")
        assert identity(further) == identity(peer)
        assert peer.as_user("jane").cluster.server == peer.cluster.server
        with pytest.raises(WaitTimeout) as late:
            peer.wait_for("pod/web", "delete", timeout="500ms")
        assert late.value.__notes__[-1] == "the wait was on cluster b"


@pytest.fixture(scope="session")
def kwait_images():
    return {"kwait.test/mapped:1": [sys.executable, "-c", "print('mapped')"]}


def test_images_and_faults(kwait_factory):
    with kwait_factory("peer", cluster="b") as peer:
        container = {"name": "main", "image": "kwait.test/mapped:1"}
        spec = {"restartPolicy": "Never", "containers": [container]}
        peer.create({**POD, "spec": spec})
        peer.wait_for_pod_success("web")
        assert peer.logs("web").strip() == "mapped"
        # Of the namespace there.
        busy = peer.cluster.faults.refuse(429, retry_after=1, times=3)
        assert [each["metadata"]["name"] for each in peer.list("pods")] == ["web"]
        assert busy.hits == 3


def test_an_api_server_alone(kwait_factory):
    with kwait_factory("peer", cluster="plain") as plain:
        assert plain.list("nodes") == []
        plain.create(POD)
        assert "nodeName" not in plain.get("pod/web")["spec"]
"""


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.own_cluster, id="one process"),
        pytest.param(("-n2",), id="workers"),
    ],
)
def test_clusters_of_names(kwait: Kwait, tmp_path: Path, options: tuple[str, ...]) -> None:
    status, said = run(
        tmp_path,
        kwait.cluster.kubeconfig,
        SUITE,
        "--kwait-clusters=b=embedded",
        "--kwait-clusters=plain=embedded --api-only",
        *options,
    )
    assert status == 0, said
    assert "4 passed" in said
    # All workers share each.
    assert (tmp_path / "peer.0").read_text() == (tmp_path / "peer.1").read_text()


SHARED = """
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def peer(kwait_factory):
    with kwait_factory("peer", cluster="live") as peer:
        peer.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
        peer.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": peer.namespace},
                "value": 1,
            }
        )
        yield peer


def test_it_fails(kwait, peer):
    Path("namespace").write_text(peer.namespace)
    peer.wait_for("configmap/missing", "create", timeout="100ms")
"""


def test_what_a_failed_test_has_on_a_further_cluster(kwait: Kwait, tmp_path: Path) -> None:
    """Its objects and its recording are in the artifacts, and nothing of it stays."""
    status, said = run(
        tmp_path,
        None,
        SHARED,
        f"--kwait-clusters=live=existing --kubeconfig={kwait.cluster.kubeconfig}",
        "--kwait-artifacts=artifacts",
        "--kwait-record=failed",
        "--kwait-deletion-wait=1m",
    )
    assert status == 1, said
    assert "kube-root-ca.crt, settings" in said.replace("\nE   ", " ")
    assert "the wait was on cluster live" in said
    namespace = (tmp_path / "namespace").read_text()
    [objects] = (tmp_path / "artifacts").glob(f"*/{namespace}/objects/configmaps.yaml")
    assert "name: settings" in objects.read_text()
    [file] = (tmp_path / "artifacts").glob("*/recording-live.jsonl.gz")
    recording = read_recording(file)
    assert recording.header.namespaces == [namespace]
    assert f"{namespace}/settings" in {line.key for line in recording.lines}
    kwait.wait_for(f"namespace/{namespace}", "delete", timeout="1m")
    kwait.wait_for(f"priorityclass/{namespace}", "delete", timeout="1m")


@pytest.mark.own_cluster
def test_a_cluster_that_is_not_declared(tmp_path: Path) -> None:
    suite = """
def test_it(kwait_factory):
    with kwait_factory("peer", cluster="c"):
        pass
"""
    status, said = run(tmp_path, None, suite, "--kwait-clusters=b=embedded")
    assert status == 1
    assert (
        "cluster='c' is not valid: the clusters are b; kwait_clusters names further ones"
        in " ".join(said.replace("\nE  ", " ").split())
    )


@pytest.mark.own_cluster
def test_a_declaration_that_cannot_be_used_ends_the_run_before_its_tests(tmp_path: Path) -> None:
    suite = "def test_it(): pass"
    status, said = run(tmp_path, None, suite, "--kwait-clusters=b=existing --kubeconfig=missing")
    assert status == 4
    assert (
        f"ERROR: kubeconfig {tmp_path}/missing (from option --kwait-clusters, cluster b) does not "
        "exist" in said
    )
    status, said = run(tmp_path, None, suite, "--kwait-clusters=b=embeded")
    assert status == 4
    assert "(from option --kwait-clusters, cluster b) is not valid" in said
    status, said = run(tmp_path, None, suite, "--kwait-clusters=b")
    assert status == 4
    assert "clusters='b' (from option --kwait-clusters) is not valid: use NAME = PROVIDER" in said

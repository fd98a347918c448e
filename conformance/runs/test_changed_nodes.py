"""Changing nodes: what a test cordons, taints and labels is restored at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

from conformance.runs.inner_runs import run
from pytest_kwait.suite.cleanup.changed_objects import LABEL_CHANGED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait import Kwait


CHANGES = """
import pytest
from pytest_kwait import InvalidArgument

def facts(node):
    taints = {each["key"]: each.get("value") for each in node["spec"].get("taints") or ()}
    labels = node["metadata"]["labels"]
    return node["spec"].get("unschedulable"), taints.get("dedicated"), labels.get("color")

@pytest.mark.kwait_disruptive
def test_changes(kwait):
    kwait.cordon("NODE")
    kwait.taint("NODE", "dedicated=web:NoSchedule", "example.com/kind:PreferNoSchedule")
    kwait.label("node/NODE", {"color": "red"})
    kwait.patch("node/NODE", {"metadata": {"labels": {"color": "blue"}}})

    assert facts(kwait.get("node/NODE")) == (True, "web", "blue")
    with pytest.raises(InvalidArgument, match="the node has dedicated:NoSchedule already, which"):
        kwait.taint("NODE", "dedicated:NoSchedule")
    assert "unschedulable" not in kwait.uncordon("NODE")["spec"]
"""


DRAIN = """
import pytest
from kubernetes.client import CoreV1Api
from pytest_kwait import InvalidArgument, WaitTimeout

LABELS = {"app": "web"}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": LABELS},
    "spec": {"nodeName": "NODE", "containers": [{"name": "main", "image": "busybox:1.36"}]},
}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}},
}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

@pytest.mark.kwait_disruptive
def test_drain(kwait):
    kwait.create(POD, BUDGET)
    # The node has no kubelet to say so.
    CoreV1Api(kwait.client).patch_namespaced_pod_status("web", kwait.namespace, {"status": RUNNING})
    kwait.wait_for("pdb/web", "jsonpath={.status.expectedPods}=1")

    with pytest.raises(InvalidArgument, match=r"has pods without a controller: .*/web; force=True"):
        kwait.drain("NODE", selector=LABELS)
    with pytest.raises(WaitTimeout, match="node NODE could not be drained within") as caught:
        kwait.drain("NODE", selector=LABELS, force=True, timeout="2s", poll="0.5s")
    kwait.delete("pdb/web")
    drained = kwait.drain("NODE", selector=LABELS, force=True, grace_period=0)

    assert f"PodDisruptionBudget {kwait.namespace}/web: " in str(caught.value)
    assert drained["spec"]["unschedulable"]
    assert kwait.list("pods", selector=LABELS) == []
"""


@pytest.fixture
def node(kwait: Kwait) -> Iterator[str]:
    """The name of a node without a kubelet, which no other test uses."""
    name = f"changed-{kwait.namespace[-5:]}"
    core: Any = CoreV1Api(kwait.client)
    taint = {"key": "example.com/changed", "value": "only", "effect": "NoSchedule"}
    core.create_node({"metadata": {"name": name}, "spec": {"taints": [taint]}})
    yield name
    core.delete_node(name)


@pytest.mark.parametrize("suite", [CHANGES, DRAIN], ids=["changes", "drain"])
def test_nodes_are_as_before_at_the_end(
    kwait: Kwait, node: str, tmp_path: Path, suite: str
) -> None:
    """In a run of its own: its tests have a lock apart from that of the others."""
    # The node, which has no kubelet, is never ready.
    options = [f"--kwait-namespace={kwait.namespace}", "--kwait-no-session-waits"]
    if kwait.cluster.context:
        options.append(f"--kwait-context={kwait.cluster.context}")
    suite = suite.replace("NODE", node)
    status, output = run(tmp_path, kwait.cluster.kubeconfig, suite, *options)

    assert status == 0, output
    found = kwait.get(f"node/{node}")
    assert "unschedulable" not in found["spec"]
    keys = {each["key"] for each in found["spec"]["taints"]}
    assert "dedicated" not in keys
    assert "example.com/kind" not in keys
    assert not found["metadata"].get("labels", {}).keys() & {"color", LABEL_CHANGED}
    assert not any(
        key.startswith("pytest-kwait/") for key in found["metadata"].get("annotations") or ()
    )

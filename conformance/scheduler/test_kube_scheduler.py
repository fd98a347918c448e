"""Our scheduling algorithm equals kube-scheduler's: feasible nodes, reasons and scores.

Needs its own control plane: `python -m tools.controlplane run -- pytest conformance/scheduler`.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.scheduler.generated_clusters import (
    NAMESPACES,
    OVERHEAD_CLASS,
    SERVICES,
    GeneratedCluster,
    generate_cluster,
)
from conformance.scheduler.kube_scheduler import NAME, KubeScheduler, run_kube_scheduler
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.clusters.provider import connect
from pytest_kwait.scheduler.algorithm import Algorithm, FitError, InvalidPod, NodeInfo
from pytest_kwait.scheduler.plugins.pod_topology_spread import collect_spread_selectors
from tools.controlplane import assets
from tools.controlplane.disposable import run_control_plane
from tools.controlplane.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WORLDS = range(10)
NODES = 12
PLACED = 30
WAITING = 20
TIMEOUT = 60.0

Obj = dict[str, Any]

_NOWHERE = {"containers": [{"name": "c", "image": "none"}], "nodeSelector": {"no": "where"}}


class Cluster:
    """A real cluster without kubelets, and its scheduler."""

    def __init__(self, session: ApiSession, referee: KubeScheduler) -> None:
        self._session = session
        self.referee = referee
        self._pool = ThreadPoolExecutor(4)
        self._leaving: list[Future[Any]] = []

    def send(self, method: str, path: str, body: Obj | None = None, **query: Any) -> Any:
        """Return the server's response."""
        answer = self._session.request(
            method, path, body=body, query=query, deadline=Deadline.after(TIMEOUT)
        )
        return json.loads(answer.data)

    def prepare(self) -> None:
        """Create the namespaces, their services, and a runtime class with overhead."""
        for name, labels in NAMESPACES.items():
            self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        for name, selector in SERVICES.items():
            service = {
                "metadata": {"name": "some"},
                "spec": {"selector": selector, "ports": [{"port": 80}]},
            }
            self.send("POST", f"/api/v1/namespaces/{name}/services", service)
        overhead = {"podFixed": {"cpu": "250m", "memory": "64Mi"}}
        self.send(
            "POST",
            "/apis/node.k8s.io/v1/runtimeclasses",
            {"metadata": {"name": OVERHEAD_CLASS}, "handler": "runc", "overhead": overhead},
        )
        accounts = "/api/v1/serviceaccounts"
        assert poll_until(lambda: self._namespaces(accounts) >= set(NAMESPACES), TIMEOUT)

    def fill(self, world: GeneratedCluster) -> None:
        """Create the nodes and the pods on them."""
        submit = self._pool.submit
        nodes = [submit(self.send, "POST", "/api/v1/nodes", node) for node in world.nodes]
        for made in (*nodes, *[submit(self._place, pod) for pod in world.placed]):
            made.result()
        assert poll_until(lambda: all(map(is_settled, self.nodes())), TIMEOUT)
        # The scheduler observes nodes slightly later, and pods in order.
        tries = count()
        assert poll_until(lambda: self._is_seen(f"w{world.seed}-try-{next(tries)}"), TIMEOUT)

    def clear(self) -> None:
        """Delete all nodes and pods."""
        while self._leaving:
            self._leaving.pop().result()
        for name in NAMESPACES:
            self.send("DELETE", f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds=0)
        self.send("DELETE", "/api/v1/nodes")

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    def nodes(self) -> list[Obj]:
        """Return the current nodes."""
        found: list[Obj] = self.send("GET", "/api/v1/nodes")["items"]
        return found

    def list(self) -> list[NodeInfo]:
        """Return all nodes with the pods on them, as input of our algorithm."""
        infos = {node["metadata"]["name"]: NodeInfo(node) for node in self.nodes()}
        for pod in self.send("GET", "/api/v1/pods")["items"]:
            if pod["spec"].get("nodeName"):
                infos[pod["spec"]["nodeName"]].add(pod)
        return list(infos.values())

    def answer(self, pod: Obj) -> tuple[Obj, str]:
        """Return the pod as stored, and the message of the scheduler's condition."""
        path = pods_of(pod)
        pod["spec"]["schedulerName"] = NAME
        taken = self.send("POST", path, pod)
        one = f"{path}/{pod['metadata']['name']}"
        messages: list[str] = []

        def is_answered() -> bool:
            conditions = self.send("GET", one)["status"].get("conditions", [])
            messages.extend(each["message"] for each in conditions if each["status"] == "False")
            return bool(messages)

        assert poll_until(is_answered, TIMEOUT, 0.01)
        self._leaving.append(self._pool.submit(self.send, "DELETE", one, gracePeriodSeconds=0))
        return taken, messages[0]

    def _is_seen(self, name: str) -> bool:
        """Return whether the scheduler also finds the pod unschedulable."""
        nowhere = {"metadata": {"name": name, "namespace": "one"}, "spec": dict(_NOWHERE)}
        taken, message = self.answer(nowhere)
        with pytest.raises(FitError) as caught:
            Algorithm().schedule(taken, self)
        return str(caught.value) == message

    def _place(self, pod: Obj) -> None:
        path = pods_of(pod)
        self.send("POST", path, pod)
        if "ending" in pod["metadata"].get("annotations", {}):
            self.send("DELETE", f"{path}/{pod['metadata']['name']}")

    def _namespaces(self, path: str) -> set[str]:
        return {each["metadata"]["namespace"] for each in self.send("GET", path)["items"]}


class Snapshot:
    """The nodes and namespaces that our algorithm is given."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
        self._nodes = nodes

    def list(self) -> Sequence[NodeInfo]:
        """Return all nodes with the pods on them."""
        return self._nodes

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace."""
        return {"kubernetes.io/metadata.name": name, **NAMESPACES.get(name, {})}

    def spread_selectors(self, pod: Obj) -> Sequence[Mapping[str, Any]]:
        """Return the selectors of the services of a pod."""
        selector = SERVICES.get(pod["metadata"]["namespace"])
        return collect_spread_selectors(pod, [{"spec": {"selector": selector}}], None)


def pods_of(pod: Obj) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"


def is_settled(node: Obj) -> bool:
    """Return whether a node's taints agree with its conditions."""
    keys = {each["key"] for each in node["spec"].get("taints", ())}
    cordoned = "node.kubernetes.io/unschedulable" in keys
    return "node.kubernetes.io/not-ready" not in keys and cordoned is bool(
        node["spec"].get("unschedulable")
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    programs = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not Path(programs).is_relative_to(assets.storage()) or not programs:
        pytest.skip("only `python -m tools.controlplane run` has a kube-scheduler to compare with")
    folder = tmp_path_factory.mktemp("placement")
    with (
        run_control_plane(folder / "cluster") as plane,
        run_kube_scheduler(Path(programs) / "kube-scheduler", plane.kubeconfig, folder) as referee,
    ):
        cluster = Cluster(ApiSession.of(connect(plane.kubeconfig).client()), referee)
        cluster.prepare()
        yield cluster
        cluster.close()


def test_feasible_nodes_reasons_and_scores_equal_kube_schedulers(cluster: Cluster) -> None:
    """200 pods, 20 each in ten clusters: feasible nodes, failure texts, and scores by plugin."""
    ours: dict[str, list[str]] = {}
    theirs: dict[str, list[str]] = {}
    our_errors: dict[str, str] = {}
    their_errors: dict[str, str] = {}
    scores: dict[str, dict[str, int]] = {}
    algorithm = Algorithm()
    for seed in WORLDS:
        world = generate_cluster(seed, NODES, PLACED, WAITING)
        cluster.fill(world)
        snapshot = Snapshot(cluster.list())
        for pod in world.waiting:
            name = pod["metadata"]["name"]
            taken, message = cluster.answer(pod)
            ours[name] = sorted(algorithm.feasible(taken, snapshot))
            theirs[name] = cluster.referee.feasible.get(name, [])
            if "the value must be an integer" in message:
                # The server accepts it, but no scheduler can parse it.
                with pytest.raises(InvalidPod, match="compares with one whole number"):
                    algorithm.schedule(taken, snapshot)
            elif len(ours[name]) > 1:
                scores[name] = algorithm.scores(taken, snapshot)
            elif not ours[name]:
                with pytest.raises(FitError) as caught:
                    algorithm.schedule(taken, snapshot)
                our_errors[name], their_errors[name] = str(caught.value), message
        cluster.clear()

    assert ours == theirs
    assert our_errors == their_errors
    assert scores == {
        pod: {node: sum(by_plugin.values()) for node, by_plugin in nodes.items()}
        for pod, nodes in cluster.referee.scores().items()
    }
    # Each outcome occurred.
    fitting = [len(nodes) for nodes in ours.values()]
    assert len(fitting) == len(WORLDS) * WAITING
    assert sum(count == 0 for count in fitting) > 20
    assert sum(1 < count < NODES for count in fitting) > 100

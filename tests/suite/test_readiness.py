from __future__ import annotations

import re
from typing import Any, cast

import pytest

from pytest_kwait.errors import ApiError
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.readiness import Readiness
from tests.suite.fakes import FakeClient, FakeCluster

ADVICE = (
    "no test that uses the cluster is run; --kwait-no-session-waits runs them all the same,\n"
    "--kwait-allowed-not-ready-nodes N lets N nodes and system pods be as they are"
)
LISTS = [
    "GET /api/v1/nodes",
    "GET /api/v1/namespaces/kube-system/pods",
    "GET /api/v1/namespaces/kube-system/replicationcontrollers",
    "GET /apis/apps/v1/namespaces/kube-system/replicasets",
    "GET /apis/apps/v1/namespaces/kube-system/daemonsets",
]


class StartingCluster(FakeCluster):
    """A cluster whose clients are counted."""

    def __init__(self) -> None:
        super().__init__(time_scale=0.1)
        self.clients: list[FakeClient] = []

    def client(self) -> Any:
        self.clients.append(super().client())
        return self.clients[-1]

    def node(self, name: str, ready: str = "True", **spec: Any) -> None:
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        self._put("/api/v1/nodes", name, "Node", spec=spec, status=status)

    def pod(self, name: str, phase: str = "Running", ready: str = "True") -> None:
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
        self._put("/api/v1/namespaces/kube-system/pods", name, "Pod", spec={}, status=status)

    def daemon_set(self, name: str, desired: int, ready: int) -> None:
        status = {"desiredNumberScheduled": desired, "numberReady": ready, "observedGeneration": 1}
        place = "/apis/apps/v1/namespaces/kube-system/daemonsets"
        self._put(place, name, "DaemonSet", status=status)

    def _put(self, place: str, name: str, kind: str, **parts: Any) -> None:
        metadata = {"name": name, "uid": name, "generation": 1}
        self.transport.objects[f"{place}/{name}"] = {"kind": kind, "metadata": metadata, **parts}


@pytest.fixture
def cluster() -> StartingCluster:
    cluster = StartingCluster()
    cluster.node("a")
    cluster.pod("dns")
    cluster.daemon_set("proxy", 1, 1)
    return cluster


def readiness(cluster: StartingCluster, **given: str) -> Readiness:
    limits = {
        "timeouts": "node_schedulable=0.1s,system_pods_startup=0.1s,system_daemonset_startup=0.1s"
    }
    given = {"poll": "10ms", "mode": "poll", **given}
    settings = Settings().merged(given, lambda definition: "flag", limits["timeouts"])
    return Readiness(cast("Any", cluster), settings)


def test_ready_cluster_costs_one_list_per_kind(cluster: StartingCluster) -> None:
    ready = readiness(cluster)
    assert [ready.problem("a"), ready.problem("b")] == ["", ""]
    assert sorted(cluster.transport.requests) == sorted(LISTS)
    assert ready.notes == []
    assert [client.closed for client in cluster.clients] == [True]


def test_problem_is_reported_in_full_once(cluster: StartingCluster) -> None:
    cluster.node("b", ready="False")
    ready = readiness(cluster)
    said = ready.problem("t.py::a")
    assert re.sub(r"after \d+ms", "after 100ms", said) == (
        "the cluster is not ready for tests:\n"
        "nodes did not all become schedulable within 100ms: 1 of 2 nodes are not, b among them: 1\n"
        "    Ready, 1 NotReady (False)\n"
        "  awaited   nodes to all become schedulable\n"
        "  limit     100ms, ended after 100ms (poll mode)\n"
        "  seen      1 Ready, 1 NotReady (False)\n"
        "  try: kubectl --kubeconfig /fake/kubeconfig describe nodes/b\n" + ADVICE
    )
    asked = list(cluster.transport.requests)
    assert ready.problem("t.py::b") == "the cluster is not ready for tests, as said of t.py::a"
    # As where a test is run again.
    assert ready.problem("t.py::a") == said
    assert cluster.transport.requests == asked
    assert not any("kube-system" in request for request in asked)


TAINTS = [{"key": "dedicated", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("node", "settings", "ready"),
    [
        ({"ready": "False"}, {}, False),
        ({"ready": "False"}, {"allowed_not_ready_nodes": "1"}, True),
        ({"ready": "False"}, {"allowed_not_ready_nodes": "-1"}, True),
        ({"ready": "False", "unschedulable": True}, {}, True),
        ({"taints": TAINTS}, {}, False),
        ({"taints": TAINTS}, {"non_blocking_taints": "x/y, dedicated"}, True),
        ({"taints": [{**TAINTS[0], "key": "node-role.kubernetes.io/control-plane"}]}, {}, True),
        (
            {"taints": [{**TAINTS[0], "key": "node-role.kubernetes.io/control-plane"}]},
            {"non_blocking_taints": ""},
            False,
        ),
    ],
)
def test_relevant_nodes(
    cluster: StartingCluster, node: dict[str, Any], settings: dict[str, str], ready: bool
) -> None:
    cluster.node("b", **node)
    assert (readiness(cluster, **settings).problem("t") == "") is ready


def test_a_cluster_without_nodes_is_ready_for_tests_of_its_api(cluster: StartingCluster) -> None:
    cluster.transport.objects.clear()
    assert readiness(cluster).problem("t") == ""


@pytest.mark.parametrize(
    ("settings", "headline"),
    [
        (
            {},
            "pods in kube-system did not come to 0 or more Running and ready, and all others",
        ),
        ({"allowed_not_ready_nodes": "1"}, ""),
        ({"min_startup_pods": "-1"}, ""),
        (
            {"allowed_not_ready_nodes": "1", "min_startup_pods": "2"},
            "pods in kube-system did not come to 2 or more Running and ready, all but 1 other",
        ),
    ],
)
def test_system_pods(cluster: StartingCluster, settings: dict[str, str], headline: str) -> None:
    cluster.pod("slow", "Pending", "False")
    said = readiness(cluster, **settings).problem("t")
    start = f"the cluster is not ready for tests: {headline}".rstrip()
    assert " ".join(said.split()).startswith(start) if headline else said == ""


def test_unready_daemon_sets_are_only_reported(cluster: StartingCluster) -> None:
    cluster.daemon_set("slow", 3, 1)
    ready = readiness(cluster)
    assert ready.problem("t") == ""
    (note,) = ready.notes
    assert note.startswith("tests have run though daemon sets in kube-system did not ")


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (LISTS[0], "nodes"),
        (LISTS[1], "pods of kube-system"),
        (LISTS[3], "pods of kube-system"),
        (LISTS[4], "daemon sets of kube-system"),
    ],
)
def test_forbidden_kinds_are_not_awaited(cluster: StartingCluster, path: str, what: str) -> None:
    method, _, path = path.partition(" ")
    denied = ApiError("no", status=403, reason="Forbidden", method=method, path=path)
    cluster.transport.refuse(method, path, denied)
    ready = readiness(cluster)
    assert ready.problem("t") == ""
    assert ready.notes == [
        f"not awaited before the first test, as forbidden: {what}: GET {path}: 403 Forbidden: no"
    ]


def test_other_errors_are_problems_except_for_daemon_sets(cluster: StartingCluster) -> None:
    for path in (LISTS[4], LISTS[0]):
        refused = ApiError("no", status=401, reason="Unauthorized", method="GET", path=path[4:])
        cluster.transport.refuse("GET", path[4:], refused)
    assert readiness(cluster).problem("t") == (
        "the cluster is not ready for tests:\nGET /api/v1/nodes: 401 Unauthorized: no\n" + ADVICE
    )
    ready = readiness(cluster)
    assert ready.problem("t") == ""
    assert ready.notes == [
        "the daemon sets of kube-system could not be looked at: "
        "GET /apis/apps/v1/namespaces/kube-system/daemonsets: 401 Unauthorized: no"
    ]


def test_cluster_state_can_be_saved(cluster: StartingCluster) -> None:
    cluster.node("b", ready="False")
    settings = Settings().merged(
        {"poll": "10ms", "mode": "poll"}, lambda definition: "flag", "node_schedulable=50ms"
    )
    ready = Readiness(cast("Any", cluster), settings, lambda of: "dumped into out/cluster")
    assert ready.problem("t").endswith(f"describe nodes/b\ndumped into out/cluster\n{ADVICE}")

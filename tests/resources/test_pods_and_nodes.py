"""The functions on pods and nodes, from call to result or message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pytest_kwait as kw
from pytest_kwait.api.objects import Response
from pytest_kwait.api.resource import NODES, PODS, REPLICA_SETS
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from tests.engine.fake_session import FakeSession, condition, pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
UP = {"metadata": {"name": "node-1"}, "status": {"conditions": [condition("Ready")]}}


def ready(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, conditions=[condition("Ready")], **more)


@MODES
def test_one_pod(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.at(2, session.put, PODS, pod("web", "Pending"))
    session.at(4, session.put, PODS, ready("web"))

    web = kw.wait_for_pod_ready(client, "ci-1", "web", mode=mode)

    assert (web["kind"], web["metadata"]["name"]) == ("Pod", "web")
    assert session.clock.monotonic() == 4.0
    if mode == "watch":
        assert session.requests == [
            "list pods metadata.name=web",
            "watch pods metadata.name=web @100",
        ]


def test_two_requests_for_each_kind(client: ApiClient, session: FakeSession) -> None:
    for name in ("a", "b"):
        session.put(PODS, ready(name))
    replicas = {"metadata": {"name": "rs"}, "spec": {"replicas": 2}}
    session.put(REPLICA_SETS, {**replicas, "status": {"readyReplicas": 1}})
    session.at(3, session.put, REPLICA_SETS, {**replicas, "status": {"readyReplicas": 2}})

    pods = kw.wait_for_almost_all_pods_ready(client, "ci-1", 2)

    assert [each["metadata"]["name"] for each in pods] == ["a", "b"]
    assert len(session.requests) == 6
    assert session.clock.monotonic() == 3.0


def test_a_pod_that_goes(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, pod("web"))
    session.at(3, session.drop, PODS, "web")

    kw.wait_for_pod_not_found(client, "ci-1", "web")

    assert session.clock.monotonic() == 3.0


def test_code_of_the_user(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, pod("web", podIP="10.0.0.1"))

    def address(each: dict[str, Any]) -> bool:
        return bool(each["status"]["podIP"])

    def broken(each: dict[str, Any]) -> bool:
        raise KeyError("hostIP")

    assert kw.wait_for_pod_condition(client, "ci-1", "web", "reachable", address)["kind"] == "Pod"
    with pytest.raises(KeyError, match="hostIP"):
        kw.wait_for_pod_condition(client, "ci-1", "web", "reachable", broken)


GOLDEN = [
    (
        pod("web", "Failed", reason="Evicted", message="low on memory"),
        0.0,
        "pod ci-1/web can no longer become ready: the pod has failed: Evicted: low on memory",
    ),
    (
        pod(
            "web",
            "Failed",
            containerStatuses=[
                {
                    "name": "main",
                    "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                }
            ],
        ),
        0.0,
        "pod ci-1/web can no longer become ready: the pod has failed: container main ended with "
        "exit code 137 (OOMKilled)",
    ),
    (
        pod("web", "Succeeded"),
        0.0,
        "pod ci-1/web can no longer become ready: the pod has succeeded",
    ),
    (
        pod("web", "Pending", metadata={"deletionTimestamp": "now"}),
        5.0,
        "pod ci-1/web can no longer become ready: the pod is being deleted",
    ),
    (
        {
            **pod(
                "web",
                "Pending",
                initContainerStatuses=[{"name": "i", "state": {"terminated": {"exitCode": 4}}}],
            ),
            "spec": {"restartPolicy": "Never"},
        },
        5.0,
        "pod ci-1/web can no longer become ready: init container i ended with exit code 4, to stay "
        "so",
    ),
    (
        {
            **pod(
                "web", containerStatuses=[{"name": "a", "state": {"terminated": {"exitCode": 0}}}]
            ),
            "spec": {"restartPolicy": "OnFailure"},
        },
        5.0,
        "pod ci-1/web can no longer become ready: container a ended with exit code 0, to stay so",
    ),
    (
        pod(
            "web",
            "Pending",
            initContainerStatuses=[
                {
                    "name": "i",
                    "restartCount": 4,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 1}},
                }
            ],
        ),
        45.0,
        "pod ci-1/web can no longer become ready: CrashLoopBackOff: init container i was restarted "
        "4 times, exit code 1",
    ),
]


@pytest.mark.parametrize(("obj", "after", "headline"), GOLDEN)
def test_doomed_pods(
    client: ApiClient, session: FakeSession, obj: Any, after: float, headline: str
) -> None:
    session.put(PODS, obj)

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pod_ready(client, "ci-1", "web")

    assert caught.value.args == (headline,)
    assert session.clock.monotonic() == after


TIMEOUTS = [
    ("wait_for_pod_running", ("web",), "pod ci-1/web did not get to phase Running"),
    ("wait_for_pod_running_ready", ("web",), "pod ci-1/web did not become Running and ready"),
    ("wait_for_pod_success", ("web",), "pod ci-1/web did not succeed"),
    ("wait_for_pod_no_longer_running", ("web",), "pod ci-1/web did not stop running"),
    ("wait_for_pod_terminated", ("web", ""), "pod ci-1/web did not fail with no reason"),
    ("wait_for_pod_failed_reason", ("web", "X"), "pod ci-1/web did not fail with reason X"),
    ("wait_for_pod_not_pending", ("web",), "pod ci-1/web did not leave phase Pending"),
    ("wait_for_pod_scheduled", ("web",), "pod ci-1/web did not get scheduled"),
    ("wait_for_pod_unschedulable", ("web",), "pod ci-1/web did not prove unschedulable"),
    ("wait_for_pod_terminating", ("web",), "pod ci-1/web did not start terminating"),
    (
        "wait_for_pod_observed_generation",
        ("web", 2),
        "pod ci-1/web did not have generation 2 observed in its status",
    ),
    (
        "wait_for_container_running",
        ("web", "a"),
        "pod ci-1/web did not have container a running",
    ),
    (
        "wait_for_container_to_fail",
        ("web", "a", "X"),
        "pod ci-1/web did not have container a fail with reason X",
    ),
    ("wait_for_number_of_pods", (1,), "pods in ci-1 did not come to exactly 1 pod"),
    (
        "wait_for_pods_running",
        (2,),
        "pods in ci-1 did not come to exactly 2 pods Running and ready",
    ),
    (
        "wait_for_pods_with_label",
        ("app=web",),
        "pods with app=web in ci-1 did not come to 1 or more",
    ),
    (
        "wait_for_pods_with_label_running_ready",
        ("app=web", 2),
        "pods with app=web in ci-1 did not come to 2 or more, all of them Running and ready",
    ),
    (
        "wait_for_pods_running_ready",
        (2, 1),
        "pods in ci-1 did not come to 2 or more Running and ready, all but 1 other",
    ),
    ("wait_for_node_ready", ("n",), "node n did not become ready"),
    ("wait_for_node_condition", ("n", "X"), "node n did not have condition X True"),
    ("wait_for_node_schedulable", ("n", False), "node n did not become unschedulable"),
    ("wait_for_all_nodes_schedulable", (), "nodes did not all become schedulable"),
    ("wait_for_nodes_ready", (2,), "nodes did not become 2, all of them ready"),
    ("wait_for_total_healthy", (), "nodes did not all become ready"),
]


@pytest.mark.parametrize(("name", "arguments", "headline"), TIMEOUTS)
def test_first_lines(client: ApiClient, name: str, arguments: Any, headline: str) -> None:
    first = ("ci-1",) if not headline.startswith("node") else ()

    with pytest.raises(WaitTimeout) as caught:
        getattr(kw, name)(client, *first, *arguments, timeout=2)

    assert caught.value.args[0].startswith(f"{headline} within 2s: ")


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("wait_for_pod_running", ("CI", "web"), {}),
    ("wait_for_pod_running", ("ci-1", "Web"), {}),
    ("wait_for_pod_condition", ("ci-1", "web", "", bool), {}),
    ("wait_for_pod_condition", ("ci-1", "web", "x", "Ready"), {}),
    ("wait_for_pod_terminated", ("ci-1", "web", None), {}),
    ("wait_for_pod_failed_reason", ("ci-1", "web", ""), {}),
    ("wait_for_pod_not_found", ("ci-1", "web", ""), {}),
    ("wait_for_pod_observed_generation", ("ci-1", "web", 0), {}),
    ("wait_for_container_running", ("ci-1", "web", 0), {}),
    ("wait_for_container_to_fail", ("ci-1", "web", "a", ""), {}),
    ("wait_for_number_of_pods", ("ci-1", -1), {}),
    ("wait_for_pods_running", ("ci-1", True), {}),
    ("wait_for_pods_with_scheduling_gates", ("ci-1", 1, "gate"), {}),
    ("wait_for_pods_with_label", ("ci-1", ""), {}),
    ("wait_for_pods_with_label_running_ready", ("ci-1", "a=b", 0), {}),
    ("wait_for_almost_all_pods_ready", ("ci-1", -1), {}),
    ("wait_for_pods_running_ready", ("ci-1", 1, -1), {}),
    ("wait_for_pods_responding", ("ci-1",), {}),
    ("wait_for_pods_responding", ("ci-1",), {"pods": "web"}),
    ("wait_for_pods_responding", ("ci-1",), {"selector": ""}),
    ("wait_for_pods_responding", ("ci-1",), {"pods": ["a"], "port": 0}),
    ("wait_for_pods_responding", ("ci-1",), {"pods": ["a"], "want_name": 1}),
    ("wait_for_pods_responding", ("ci-1",), {"pods": ["a"], "path": None}),
    ("wait_for_node_ready", ("N",), {}),
    ("wait_for_node_condition", ("n", ""), {}),
    ("wait_for_node_condition", ("n", "Ready", "True"), {}),
    ("wait_for_node_schedulable", ("n", 1), {}),
    ("wait_for_node_heartbeat_after", ("n", "yesterday"), {}),
    ("wait_for_node_heartbeat_after", ("n", "2030-01-01T00:00:00"), {}),
    ("wait_for_all_nodes_schedulable", (-1,), {}),
    ("wait_for_all_nodes_schedulable", (0, "x"), {}),
    ("wait_for_nodes_ready", (-1,), {}),
    ("wait_for_total_healthy", (["("],), {}),
    ("wait_for_pods_running_on_nodes", ("ci-1", [], 1), {}),
    ("wait_for_pods_running_on_nodes", ("ci-1", "n", 1), {}),
    ("wait_for_pods_running_on_nodes", ("ci-1", ["n"], -1), {}),
    ("wait_for_pod_running", ("ci-1", "web"), {"timeout": 0}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), BAD)
def test_nothing_is_asked_before_the_arguments_are_good(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, options: Any
) -> None:
    with pytest.raises(InvalidArgument):
        getattr(kw, name)(client, *arguments, **options)

    assert session.requests == []


class Proxy:
    """Answers requests to a proxy by their path."""

    def __init__(self, session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        monkeypatch.setattr(session, "request", self.request)

    def request(self, method: str, path: str, **_: Any) -> Response:
        self.asked.append(path)
        answer = self.answers.get(path, ApiError("no route", status=503))
        if isinstance(answer, Exception):
            raise answer
        return Response(200, {}, answer)


@pytest.fixture
def proxy(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    return Proxy(session, monkeypatch)


POD_A = "/api/v1/namespaces/ci-1/pods/a/proxy/"


@MODES
def test_pods_that_respond(
    client: ApiClient, session: FakeSession, proxy: Proxy, mode: Any
) -> None:
    session.put(PODS, pod("a"))
    session.put(PODS, pod("stranger"))
    session.at(3, proxy.answers.update, {POD_A: b"a\n"})

    (a,) = kw.wait_for_pods_responding(client, "ci-1", pods=["a"], want_name=True, mode=mode)

    assert a["metadata"]["name"] == "a"
    assert proxy.asked == [POD_A] * 3
    assert session.clock.monotonic() == 4.0
    assert kw.wait_for_pods_responding(client, "ci-1", pods=[]) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"b", "a answered 'b' instead of its name"),
        (ApiError("no route", status=503), "a answered 503: no route"),
        (ApiError("refused", reason="ConnectionRefused"), "a answered ConnectionRefused: refused"),
    ],
)
def test_pods_that_do_not_respond(
    client: ApiClient, session: FakeSession, proxy: Proxy, answer: Any, reason: str
) -> None:
    session.put(PODS, pod("a"))
    proxy.answers["/api/v1/namespaces/ci-1/pods/a:8080/proxy/name"] = answer

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pods_responding(
            client, "ci-1", pods=["a"], want_name=True, port=8080, path="/name", timeout=3
        )

    assert caught.value.args == (
        f"pod a in ci-1 did not respond within 3s: 0 of 1 pods respond: {reason}",
    )


def test_pods_that_cannot_respond(client: ApiClient, session: FakeSession, proxy: Proxy) -> None:
    session.put(PODS, pod("a", "Succeeded"))
    other = {"metadata": {"name": "a", "uid": "other"}}

    with pytest.raises(WaitFailed, match="pod a: the pod has succeeded"):
        kw.wait_for_pods_responding(client, "ci-1", pods=["a"])
    with pytest.raises(WaitFailed, match="pod a was deleted and created anew under another UID"):
        kw.wait_for_pods_responding(client, "ci-1", pods=[other])
    with pytest.raises(WaitTimeout, match="no pod matches yet"):
        kw.wait_for_pods_responding(client, "ci-1", selector="app=x", timeout=1)


def test_a_proxy_that_is_forbidden(client: ApiClient, session: FakeSession, proxy: Proxy) -> None:
    session.put(PODS, pod("a"))
    proxy.answers[POD_A] = ApiError("no", status=403, reason="Forbidden")

    with pytest.raises(ApiError, match="no"):
        kw.wait_for_pods_responding(client, "ci-1", pods=["a"])


RUNNING = "/api/v1/nodes/node-1/proxy/runningpods/"


def kubelet(*names: str, namespace: str = "ci-1") -> bytes:
    items = [{"metadata": {"name": name, "namespace": namespace}} for name in names]
    return msgspec.json.encode({"kind": "PodList", "items": items or None})


@MODES
def test_what_kubelets_run(
    client: ApiClient, session: FakeSession, proxy: Proxy, mode: Any
) -> None:
    session.put(NODES, UP)
    proxy.answers[RUNNING] = kubelet("web-a", "other")
    session.at(3, proxy.answers.update, {RUNNING: kubelet("web-b", "web-a", "other")})

    pods = kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 2, "web-", mode=mode)

    assert [each["metadata"]["name"] for each in pods] == ["web-a", "web-b"]
    assert session.clock.monotonic() == 4.0
    proxy.answers[RUNNING] = kubelet("web-a", namespace="another")
    assert kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 0) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (kubelet("a"), "1 of 2 run"),
        (ApiError("down", status=503), "the kubelet of node-1 could not be asked: down"),
        (b"<html>", "the kubelet of node-1 did not answer with a list of pods"),
    ],
)
def test_kubelets_that_run_others(
    client: ApiClient, session: FakeSession, proxy: Proxy, answer: Any, reason: str
) -> None:
    session.put(NODES, UP)
    proxy.answers[RUNNING] = answer

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 2, timeout=3)

    assert caught.value.args == (
        f"kubelet of node-1 did not run exactly 2 pods of ci-1 within 3s: {reason}",
    )


def test_nodes_whose_kubelets_cannot_be_asked(
    client: ApiClient, session: FakeSession, proxy: Proxy
) -> None:
    with pytest.raises(WaitTimeout, match="there is no node nowhere"):
        kw.wait_for_pods_running_on_nodes(client, "ci-1", ["nowhere"], 2, timeout=3)

    session.put(NODES, UP)
    session.at(5, session.drop, NODES, "node-1")
    with pytest.raises(WaitFailed, match="node node-1 was deleted"):
        kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 2)
    session.put(NODES, UP)
    proxy.answers[RUNNING] = ApiError("no", status=403, reason="Forbidden")
    with pytest.raises(ApiError, match="no"):
        kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 2)

"""Waits on pods and nodes, from call to result or message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import PODS, REPLICA_SETS
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from tests.objects import condition, pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])


def ready(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, "Running", conditions=[condition("Ready")], **more)


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
    session.put(PODS, pod("web", "Running"))
    session.at(3, session.drop, PODS, "web")

    kw.wait_for_pod_not_found(client, "ci-1", "web")

    assert session.clock.monotonic() == 3.0


def test_code_of_the_user(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, pod("web", "Running", podIP="10.0.0.1"))

    def address(each: dict[str, Any]) -> bool:
        return bool(each["status"]["podIP"])

    def broken(each: dict[str, Any]) -> bool:
        raise ValueError("hostIP")

    assert kw.wait_for_pod_condition(client, "ci-1", "web", "reachable", address)["kind"] == "Pod"
    with pytest.raises(ValueError, match="hostIP"):
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
                "web",
                "Running",
                containerStatuses=[{"name": "a", "state": {"terminated": {"exitCode": 0}}}],
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
def test_pods_that_fail_early(
    client: ApiClient, session: FakeSession, obj: Any, after: float, headline: str
) -> None:
    session.put(PODS, obj)
    session.log_texts = {f"web/{name}": "" for name in ("main", "i", "a")}

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pod_ready(client, "ci-1", "web")

    assert caught.value.args == (headline,)
    assert session.clock.monotonic() == after


def crashing(restarts: int, code: int, *, running: bool = False, ready: bool = False) -> Any:
    end = {"terminated": {"exitCode": code, "reason": "Error"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {
        "name": "main",
        "restartCount": restarts,
        "ready": ready,
        "state": {"running": {}} if running else waiting,
        "lastState": end,
    }
    return pod("web", "Running", containerStatuses=[container], labels={"app": "web"})


def crash_loop(
    session: FakeSession, life: float, *, codes: tuple[int, ...] = (3,), ready: bool = False
) -> None:
    """Let a program crash again and again, with the pauses of a kubelet."""
    session.put(PODS, pod("web", "Running", labels={"app": "web"}))
    at = life
    for restarts in range(6):
        code = codes[restarts % len(codes)]
        session.at(at, session.put, PODS, crashing(restarts, code))
        at += 10.0 * 2**restarts
        running = crashing(restarts + 1, code, running=True, ready=ready)
        session.at(at, session.put, PODS, running)
        at += life
    session.log_texts = {"web/main": "no database"}


@MODES
@pytest.mark.parametrize(
    ("life", "end", "restarts"),
    [
        (0.5, 45.5, 2),  # 45 seconds after the first crash
        (10, 60.0, 2),
        (30, 120.0, 2),  # with the third crash, as the grace has passed
        (90, 300.0, 2),
    ],
)
def test_a_crash_loop_ends_a_wait_with_the_third_crash(
    client: ApiClient, session: FakeSession, mode: Any, life: float, end: float, restarts: int
) -> None:
    crash_loop(session, life)

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pod_ready(client, "ci-1", "web", timeout="10m", mode=mode)

    text = f"CrashLoopBackOff: container main was restarted {restarts} times, exit code 3"
    assert caught.value.evidence["reason"] == text
    assert 0 <= session.clock.monotonic() - end <= 3


@MODES
def test_a_crash_loop_of_selected_pods(client: ApiClient, session: FakeSession, mode: Any) -> None:
    crash_loop(session, 30)

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pods_with_label_running_ready(
            client, "ci-1", "app=web", 1, timeout="10m", mode=mode
        )

    assert "container main was restarted 2 times, exit code 3" in caught.value.evidence["reason"]
    assert 0 <= session.clock.monotonic() - 120 <= 3


@pytest.mark.parametrize(
    "loop", [{"codes": (3, 4)}, {"ready": True}], ids=["of other kinds", "ready in between"]
)
def test_other_crashes_need_a_pause_that_outlasts_the_grace(
    client: ApiClient, session: FakeSession, loop: Any
) -> None:
    crash_loop(session, 10, **loop)

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pod_success(client, "ci-1", "web", timeout="10m")

    assert "container main was restarted 3 times" in caught.value.evidence["reason"]
    assert session.clock.monotonic() == 155.0


@pytest.mark.parametrize(
    ("limit", "restarted"),
    [
        (25, "Running, not ready (container main was restarted once, exit code 3)"),
        (59, "container main was restarted 2 times, exit code 3"),
    ],
)
def test_a_timeout_names_the_exit_code_of_a_restarted_container(
    client: ApiClient, session: FakeSession, limit: int, restarted: str
) -> None:
    crash_loop(session, 9)

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pod_ready(client, "ci-1", "web", timeout=limit, fail_fast=False)

    (headline,) = caught.value.args
    assert headline.startswith(f"pod ci-1/web did not become ready within {limit}s: ")
    assert headline.endswith(restarted)
    assert headline.count("exit code") == 1


def test_a_timeout_names_the_pod_of_a_restarted_container(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(PODS, crashing(1, 3, running=True))
    session.put(PODS, pod("idle", "Running", labels={"app": "web"}))
    session.put(PODS, {**crashing(1, 3, running=True, ready=True), "metadata": {"name": "fine"}})
    session.log_texts = {"web/main": "no database"}

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pods_with_label_running_ready(client, "ci-1", "app=web", 2, timeout=9)

    text = "(container main of pod web was restarted once, exit code 3)"
    assert caught.value.args[0].endswith(text)


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
    ("wait_for_pods_responding", ("ci-1",), {"pods": {"web": "a"}}),
    ("wait_for_pods_responding", ("ci-1",), {"selector": ""}),
    ("wait_for_pods_responding", ("ci-1",), {"pods": ["a"], "port": 0}),
    ("wait_for_pods_responding", ("ci-1",), {"pods": ["a"], "want_name": 1}),
    ("wait_for_pods_responding", ("ci-1",), {"pods": ["a"], "path": None}),
    ("wait_for_pod_port", ("ci-1", "web", 0), {}),
    ("wait_for_pod_port", ("ci-1", "web", True), {}),
    ("wait_for_pod_port", ("ci-1", "web", ""), {}),
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
    ("wait_for_pods_running_on_nodes", ("ci-1", 7, 1), {}),
    ("wait_for_pods_running_on_nodes", ("ci-1", ["n"], -1), {}),
    ("wait_for_pod_running", ("ci-1", "web"), {"timeout": 0}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), BAD)
def test_bad_arguments_send_no_request(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, options: Any
) -> None:
    with pytest.raises(InvalidArgument):
        getattr(kw, name)(client, *arguments, **options)

    assert session.requests == []


def test_a_set_that_is_late_shows_its_pods(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, pod("a", "Pending"))

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pods_running(client, "ci-1", 2, timeout=3)

    assert str(caught.value) == (
        "pods in ci-1 did not come to exactly 2 pods Running and ready within 3s: 0 of 2 pods "
        "Running\n"
        "    and ready: 1 Pending\n"
        "  awaited   pods in ci-1 to come to exactly 2 pods Running and ready\n"
        "  limit     3s, ended after 3s (watch mode)\n"
        "  seen      1 Pending\n"
        "  pods\n"
        "    a Pending on node-1\n"
        "  try: kubectl --namespace ci-1 describe pod/a"
    )

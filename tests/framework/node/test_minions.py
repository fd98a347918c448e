from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import V1Pod

from pytest_kwait import wait
from pytest_kwait.client.resource import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICATION_CONTROLLERS,
)
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.daemonset import (
    check_daemon_pod_on_nodes,
    check_present_on_nodes,
    check_running_on_all_nodes,
)
from pytest_kwait.framework.node.minions import (
    FakePodInfo,
    pods_on_minions,
    wait_for_pods_on_minions,
)
from pytest_kwait.framework.node.wait import check_ready_for_tests
from tests.advanced_clock import AdvancedClock
from tests.objects import condition, pod, workload

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
WEB = {"app": "web"}
NO_NODE = {"reason": "Unschedulable", "message": "0/1 nodes are available"}
READY = [condition("Ready")]


def web(name: str, node: str | None = "node-1", phase: str = "Running", **parts: Any) -> Any:
    return pod(name, phase, labels=WEB, nodeName=node, **parts)


def web_controller(replicas: int | None = 2, observed: int | None = 1) -> Any:
    return workload("ReplicationController", replicas=replicas, observed=observed)


def names(pods: Any) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


def reason(caught: pytest.ExceptionInfo[WaitFailed | WaitTimeout]) -> str:
    return str(caught.value.evidence["reason"])


@MODES
def test_pods_of_a_controller(client: ApiClient, session: FakeSession, mode: Any) -> None:
    info = FakePodInfo({"node-1": ["a", "b"]})
    session.put(REPLICATION_CONTROLLERS, web_controller())
    session.put(PODS, pod("stranger", "Running"))
    session.put(PODS, web("a"))
    session.at(4, session.put, PODS, web("b", None))
    session.at(6, session.put, PODS, web("b"))

    pods = wait_for_pods_on_minions(client, "ci-1", "rc/web", pod_info=info, mode=mode)

    assert names(pods) == ["a", "b"]
    assert pods[0]["kind"] == "Pod"
    assert session.clock.monotonic() == 6.0
    assert info.asked == [("node-1", "a"), ("node-1", "b")]


@MODES
def test_agents_are_queried_again_every_poll(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    info = FakePodInfo()
    session.put(PODS, web("a"))
    session.put(PODS, web("b", "node-2"))
    session.at(1, info.know, "node-1", "a")
    session.at(7, info.know, "node-2", "b")

    wait_for_pods_on_minions(
        client, "ci-1", selector=WEB, pod_info=info, mode=mode, poll=3, timeout=60
    )

    assert session.clock.monotonic() == 9.0
    assert info.asked == [
        ("node-1", "a"),
        ("node-2", "b"),
        ("node-1", "a"),
        ("node-2", "b"),
        ("node-2", "b"),
        ("node-2", "b"),
    ]


def test_a_placed_pod_is_queried_at_once(client: ApiClient, session: FakeSession) -> None:
    info = FakePodInfo({"node-1": ["a"], "node-2": ["b"]})
    session.put(PODS, web("a", None))
    session.put(PODS, web("b", None))
    session.at(1.25, session.put, PODS, web("a"))
    session.at(2.5, session.put, PODS, web("b", "node-2"))

    wait_for_pods_on_minions(client, "ci-1", selector="app=web", pod_info=info, poll=60)

    assert session.clock.monotonic() == 2.5


def test_each_kubelet_is_queried_once_per_poll(client: ApiClient, session: FakeSession) -> None:
    known = [web(name) for name in "abc"]
    for each in known:
        session.put(PODS, each)
        each["metadata"]["uid"] = f"uid-{each['metadata']['name']}"
    session.put(PODS, web("d", "node-2"))
    mirror = web("static", metadata={"annotations": {"kubernetes.io/config.mirror": "hash"}})
    session.put(PODS, mirror)
    known.append({"metadata": {"name": "static", "uid": "hash"}})
    session.kubelets["node-1"] = known
    session.at(1, session.kubelets.update, {"node-2": [{"metadata": {"uid": "uid-d"}}]})

    pods = wait_for_pods_on_minions(client, "ci-1", selector=WEB)

    assert names(pods) == ["a", "b", "c", "d", "static"]
    asked = [request for request in session.requests if request.startswith("ask")]
    assert asked == ["ask node-1", "ask node-2", "ask node-2"]


def test_a_silent_kubelet_is_outlived(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, web("a"))
    session.kubelets["node-1"] = ApiError("error trying to reach service", status=503)
    session.at(5, session.kubelets.update, {"node-1": [{"metadata": {"uid": "uid-a"}}]})

    wait_for_pods_on_minions(client, "ci-1", selector=WEB)

    assert session.clock.monotonic() == 6.0


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([], "0 of 1 pods known to their hosts: node-1 does not know pod a"),
        (
            ApiError("nodes not found", status=404),
            "0 of 1 pods known to their hosts: there is no node node-1",
        ),
        (
            ApiError("no route", status=503),
            "0 of 1 pods known to their hosts: node-1 could not be asked: no route",
        ),
    ],
)
def test_the_message_quotes_the_agent(
    client: ApiClient, session: FakeSession, answer: Any, text: str
) -> None:
    session.put(PODS, web("a"))
    session.kubelets["node-1"] = answer

    with pytest.raises(WaitTimeout) as caught:
        wait_for_pods_on_minions(client, "ci-1", selector=WEB, timeout=5)

    assert reason(caught) == text
    assert session.clock.monotonic() == 5.0


def test_news_of_pods_that_are_placed_is_no_reason_to_ask_again(
    client: ApiClient, session: FakeSession
) -> None:
    info = FakePodInfo()
    session.put(PODS, web("a"))
    for tenth in range(1, 30):
        session.at(tenth / 10, session.put, PODS, web("a", phase="Running", reason=str(tenth)))

    with pytest.raises(WaitTimeout):
        wait_for_pods_on_minions(client, "ci-1", selector=WEB, pod_info=info, poll=2, timeout=3)

    # At 0 and 2 s, and when the time is up.
    assert info.asked == [("node-1", "a")] * 3


@MODES
def test_a_minion_is_queried_once_more_at_the_limit(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    info = FakePodInfo()
    session.put(PODS, web("a", phase="Running"))
    session.at(2.5, info.know, "node-1", "a")

    pods = wait_for_pods_on_minions(
        client, "ci-1", selector=WEB, pod_info=info, mode=mode, poll=10, timeout=3
    )

    assert names(pods) == ["a"]
    assert session.clock.monotonic() == 3.0


def test_garbage_of_a_kubelet_is_final_when_it_repeats(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(PODS, web("a"))
    error = session.kubelets["node-1"] = ApiError("no list", status=200, reason="NotJSON")

    with pytest.raises(ApiError) as caught:
        wait_for_pods_on_minions(client, "ci-1", selector=WEB)

    assert caught.value is error
    assert session.clock.monotonic() == 4.0


@MODES
def test_forbidden_to_ask_kubelets_is_final(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(PODS, web("a"))
    error = session.kubelets["node-1"] = ApiError("nodes/proxy is forbidden", status=403)

    with pytest.raises(ApiError) as caught:
        wait_for_pods_on_minions(client, "ci-1", selector=WEB, mode=mode)

    assert caught.value is error


@MODES
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ZeroDivisionError("twice"), "ZeroDivisionError: twice"),
        (ConnectionError("refused"), "ConnectionError: refused"),
        (TimeoutError(), "TimeoutError"),
        (ApiError("no", status=403), "ApiError: 403: no"),
    ],
)
def test_any_error_of_a_custom_pod_info_is_not_yet(
    client: ApiClient, session: FakeSession, mode: Any, error: Exception, text: str
) -> None:
    """Source: kubernetes v0.7 cmd/integration/integration.go, podsOnMinions."""
    errors: list[Exception] = [error, error]

    def pod_info(host: str, pod: Any) -> Any:
        if errors:
            raise errors.pop()
        return pod

    session.put(PODS, web("a"))
    known: dict[str, Any] = {"selector": WEB, "pod_info": pod_info, "mode": mode, "poll": 2}

    assert names(wait_for_pods_on_minions(client, "ci-1", **known)) == ["a"]
    assert session.clock.monotonic() == 4.0

    errors += [error] * 9
    with pytest.raises(WaitTimeout) as caught:
        wait_for_pods_on_minions(client, "ci-1", **known, timeout=3)
    assert reason(caught) == (
        f"0 of 1 pods known to their hosts: node-1 could not be asked: {text}"
    )


async def find_later(host: str, pod: Any) -> Any:
    return pod


@MODES
@pytest.mark.parametrize("answer", [None, False, True, "", "web", 3, []])
def test_a_pod_info_without_a_pod_for_an_answer_knows_none(
    client: ApiClient, session: FakeSession, mode: Any, answer: object
) -> None:
    session.put(PODS, web("a"))
    pod_info: Any = lambda host, pod: answer  # noqa: E731 - what users write
    with pytest.raises(InvalidArgument) as caught:
        wait_for_pods_on_minions(client, "ci-1", selector=WEB, pod_info=pod_info, mode=mode)
    assert str(caught.value) == (
        f"result of pod_info={answer!r} is not valid: return the pod as its host knows it, or "
        "raise LookupError"
    )


@MODES
@pytest.mark.parametrize("what", ["pod_info", "result of pod_info"])
def test_an_async_pod_info_knows_no_pod(
    client: ApiClient, session: FakeSession, mode: Any, what: str
) -> None:
    session.put(PODS, web("a"))
    pod_info: Any = find_later if what == "pod_info" else lambda *given: find_later(*given)
    with pytest.raises(InvalidArgument) as caught:
        wait_for_pods_on_minions(client, "ci-1", selector=WEB, pod_info=pod_info, mode=mode)
    assert caught.value.what == what
    assert caught.value.valid == "use a function that is not async: its result is not awaited"


@MODES
def test_a_pod_info_may_answer_with_a_model(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(PODS, web("a"))
    pod_info: Any = lambda host, pod: V1Pod()  # noqa: E731 - what users write
    pods = wait_for_pods_on_minions(client, "ci-1", selector=WEB, pod_info=pod_info, mode=mode)
    assert names(pods) == ["a"]


@MODES
def test_a_pod_info_that_hangs_does_not_outlast_the_limit(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    released = threading.Event()
    calls: list[str] = []
    clock = AdvancedClock()

    def pod_info(host: str, pod: Any) -> Any:
        calls.append(host)
        clock.advance(600)
        released.wait()
        return pod

    session.put(PODS, web("a"))
    session.clock = clock
    try:
        with pytest.raises(WaitTimeout):
            wait_for_pods_on_minions(
                client, "ci-1", selector=WEB, pod_info=pod_info, mode=mode, timeout=600
            )
        (abandoned,) = (each for each in threading.enumerate() if each.name == "kwait-user-code")
        assert abandoned.daemon
        assert calls == ["node-1"]
    finally:
        released.set()
    abandoned.join(60)


def test_a_pod_info_leaves_no_thread(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, web("a"))
    used: list[str] = []

    def pod_info(host: str, pod: Any) -> Any:
        used.append(threading.current_thread().name)
        return pod

    wait_for_pods_on_minions(client, "ci-1", selector=WEB, pod_info=pod_info)

    assert used == ["kwait-user-code"]
    assert used[0] not in {each.name for each in threading.enumerate()}


def test_failures_of_pytest_in_a_pod_info_end_the_wait(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(PODS, web("a"))

    with pytest.raises(pytest.fail.Exception, match="enough"):
        wait_for_pods_on_minions(
            client, "ci-1", selector=WEB, pod_info=lambda host, pod: pytest.fail("enough")
        )


def test_moved_or_deleted_pods_are_not_believed(client: ApiClient, session: FakeSession) -> None:
    info = FakePodInfo({"node-1": ["a"]})
    session.put(PODS, web("a"))
    session.put(PODS, web("b"))
    session.at(4, session.drop, PODS, "b")

    pods = wait_for_pods_on_minions(client, "ci-1", selector=WEB, pod_info=info)

    assert names(pods) == ["a"]
    assert session.clock.monotonic() == 4.0


ABSENT = [
    (web_controller(3), "1 of 3 pods there"),
    (web_controller(None), "0 of 1 pods known to their hosts: node-1 does not know pod a"),
    (web_controller(1, observed=0), "generation 1 is not observed by its controller yet"),
    (web_controller(1, observed=None), "generation 1 is not observed by its controller yet"),
]


@pytest.mark.parametrize(("controller", "text"), ABSENT)
def test_a_controller_must_have_made_its_pods(
    client: ApiClient, session: FakeSession, controller: Any, text: str
) -> None:
    session.put(REPLICATION_CONTROLLERS, controller)
    session.put(PODS, web("a"))

    with pytest.raises(WaitTimeout) as caught:
        wait_for_pods_on_minions(
            client, "ci-1", "rc/web", pod_info=FakePodInfo(), timeout=3, mode="poll"
        )

    assert reason(caught) == text


def test_a_controller_scaled_to_none_has_arrived(client: ApiClient, session: FakeSession) -> None:
    session.put(REPLICATION_CONTROLLERS, web_controller(0))

    assert wait_for_pods_on_minions(client, "ci-1", "rc/web") == []


@pytest.mark.parametrize(
    ("resource", "target", "spec", "status"),
    [
        (DEPLOYMENTS, "deploy/web", {"replicas": 2}, {}),
        (DAEMON_SETS, "ds/web", {}, {"desiredNumberScheduled": 2}),
        (JOBS, "job/web", {"parallelism": 3, "completions": 2}, {}),
        (JOBS, "job/web", {"parallelism": 2}, {}),
    ],
)
def test_every_controller_says_how_many(
    client: ApiClient, session: FakeSession, resource: Any, target: str, spec: Any, status: Any
) -> None:
    info = FakePodInfo({"node-1": ["a", "b"]})
    spec = {"selector": {"matchLabels": WEB}, **spec}
    status = {"observedGeneration": 1, **status}
    metadata = {"name": "web", "generation": 1}
    session.put(resource, {"metadata": metadata, "spec": spec, "status": status})
    session.put(PODS, web("a"))
    session.at(3, session.put, PODS, web("b"))

    assert names(wait_for_pods_on_minions(client, "ci-1", target, pod_info=info)) == ["a", "b"]
    assert session.clock.monotonic() == 3.0


def test_a_selector_that_matches_nothing_has_not_arrived(
    client: ApiClient, session: FakeSession
) -> None:
    with pytest.raises(WaitTimeout) as caught:
        wait_for_pods_on_minions(client, "ci-1", selector=WEB, timeout=1)

    assert str(caught.value) == (
        "pods with app=web in ci-1 did not arrive on minions within 1s: no pod matches yet\n"
        "  awaited   pods with app=web in ci-1 to arrive on minions\n"
        "  limit     1s, ended after 1s (watch mode)\n"
        "  there are no pods in ci-1\n"
        "  try: kubectl --namespace ci-1 get events"
    )


@MODES
def test_given_pods_are_those_and_no_others(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    info = FakePodInfo({"node-1": ["a", "b"]})
    for name in "abc":
        session.put(PODS, web(name))
    given: list[Any] = [{"metadata": {"name": "a", "uid": "uid-a"}}, "b"]

    pods = wait_for_pods_on_minions(client, "ci-1", pods=given, pod_info=info, mode=mode)

    assert names(pods) == ["a", "b"]


def test_no_given_pods_have_arrived(client: ApiClient, session: FakeSession) -> None:
    assert wait_for_pods_on_minions(client, "ci-1", pods=[]) == []
    assert session.requests == []


@MODES
def test_given_pods_that_are_gone_end_the_wait(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    given = [{"metadata": {"name": "a", "uid": "uid-a"}}]
    with pytest.raises(WaitFailed) as caught:
        wait_for_pods_on_minions(client, "ci-1", pods=given, mode=mode)
    assert reason(caught) == "pod a is gone"

    session.put(PODS, web("b", None))
    session.at(2, session.drop, PODS, "b")
    with pytest.raises(WaitFailed) as caught:
        wait_for_pods_on_minions(client, "ci-1", pods=["b"], mode=mode)
    assert reason(caught) == "pod b is gone"

    session.put(PODS, web("c"))
    given = [{"metadata": {"name": "c", "uid": "old"}}]
    with pytest.raises(WaitFailed) as caught:
        wait_for_pods_on_minions(client, "ci-1", pods=given, mode=mode)
    assert reason(caught) == "pod c was deleted and created anew under another UID"
    assert "  option    follow_name=True waits for a new pod of this name" in str(caught.value)


@MODES
@pytest.mark.parametrize("options", [{"follow_name": True}, {"fail_fast": False}])
def test_given_pods_that_are_created_anew_may_be_followed_by_name(
    client: ApiClient, session: FakeSession, mode: Any, options: Any
) -> None:
    info = FakePodInfo({"node-1": ["a", "b"]})
    anew = web("b")
    anew["metadata"]["uid"] = "new"
    session.put(PODS, web("a"))
    session.put(PODS, web("b", None))
    session.at(2, session.drop, PODS, "b")
    session.at(4, session.put, PODS, anew)
    given: list[Any] = [{"metadata": {"name": "a", "uid": "old"}}, "b"]

    pods = wait_for_pods_on_minions(client, "ci-1", pods=given, pod_info=info, mode=mode, **options)

    assert [each["metadata"]["uid"] for each in pods] == ["uid-a", "new"]
    assert info.asked == [("node-1", "a"), ("node-1", "b")]


def test_a_followed_pod_that_does_not_come_is_named(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(PODS, web("a"))
    given: list[Any] = ["a", {"metadata": {"name": "b", "uid": "old"}}]

    with pytest.raises(WaitTimeout) as caught:
        wait_for_pods_on_minions(client, "ci-1", pods=given, follow_name=True, timeout=1)

    assert reason(caught) == "1 of 2 pods there: b was deleted, not found again yet"


def test_given_names_may_still_come(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, web("a"))

    with pytest.raises(WaitTimeout) as caught:
        wait_for_pods_on_minions(client, "ci-1", pods=["a", "b"], timeout=1)

    assert reason(caught) == "1 of 2 pods there: no b"


def test_a_pod_that_no_node_takes_ends_the_wait_after_the_grace(
    client: ApiClient, session: FakeSession
) -> None:
    says = condition("PodScheduled", "False", reason="Unschedulable", message="0/2 nodes")
    session.put(REPLICATION_CONTROLLERS, web_controller(1))
    session.put(PODS, web("a", None, conditions=[says]))

    with pytest.raises(WaitFailed) as caught:
        wait_for_pods_on_minions(client, "ci-1", "rc/web")

    assert reason(caught) == "pod a: Unschedulable: 0/2 nodes"
    assert session.clock.monotonic() == 45.0


def test_a_controller_that_is_deleted_ends_the_wait(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(REPLICATION_CONTROLLERS, web_controller())
    session.at(2, session.drop, REPLICATION_CONTROLLERS, "web")

    with pytest.raises(WaitFailed) as caught:
        wait_for_pods_on_minions(client, "ci-1", "rc/web")

    assert reason(caught) == "the replicationcontroller was deleted"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "arguments=[] is not valid: give exactly one of controller, selector and pods"),
        (
            {"controller": "rc/web", "pods": []},
            "arguments=['controller', 'pods'] is not valid: "
            "give exactly one of controller, selector and pods",
        ),
        (
            {"controller": "pod/a"},
            "controller='pod/a' is not valid: use one of rc, rs, deployment, statefulset, "
            "daemonset and job with a name: 'rc/web'",
        ),
        (
            {"controller": "rc"},
            "controller='rc' is not valid: use one of rc, rs, deployment, statefulset, "
            "daemonset and job with a name: 'rc/web'",
        ),
        ({"selector": {}}, "selector={} is not valid: use labels that select something"),
        (
            {"pods": [3]},
            "pods=3 is not valid: use names or objects of kind Pod, or a list of these, such as a "
            "PodList",
        ),
        (
            {"pods": [{"metadata": None}]},
            "pods=<object without a name> is not valid: use names or objects of kind Pod, or a "
            "list of these, such as a PodList",
        ),
        (
            {"selector": "a=b", "pod_info": 3},
            "pod_info=3 is not valid: use a callable (host, pod), or None",
        ),
    ],
)
def test_bad_arguments(client: ApiClient, arguments: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        wait_for_pods_on_minions(client, "ci-1", **arguments)

    assert str(caught.value) == text


def test_a_fake_can_forget() -> None:
    info = FakePodInfo({"node-1": ["a"]})
    assert info("node-1", {"metadata": {"name": "a"}}) == {"metadata": {"name": "a"}}

    info.forget("node-1", "a")
    with pytest.raises(LookupError, match="node-1 does not know pod a"):
        info("node-1", {"metadata": {"name": "a"}})


def test_the_condition_as_a_value(client: ApiClient, session: FakeSession) -> None:
    info = FakePodInfo({"node-1": ["a"]})
    session.put(REPLICATION_CONTROLLERS, web_controller(1))
    arrived = pods_on_minions(client, "ci-1", "rc/web", pod_info=info)
    assert repr(arrived) == "<replicationcontroller ci-1/web to have all pods on minions>"
    assert session.requests == []

    assert not arrived()
    session.at(3, session.put, PODS, web("a"))
    wait.poll_immediate(2, "1m", arrived, clock=session.clock)

    assert session.clock.monotonic() == 4.0
    assert info.asked == [("node-1", "a")]
    assert arrived()


def test_the_condition_is_false_after_a_passing_error(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(PODS, web("a"))
    info = FakePodInfo({"node-1": "a"})
    arrived = pods_on_minions(client, "ci-1", selector=WEB, pod_info=info)
    session.fail("list", PODS, ApiError("busy", status=503, retry_after=30))

    assert not arrived()
    assert session.clock.monotonic() == 0.0
    assert arrived()


def test_the_condition_raises_what_is_final(client: ApiClient, session: FakeSession) -> None:
    session.fail("list", PODS, ApiError("forbidden", status=403))
    with pytest.raises(ApiError, match="forbidden"):
        pods_on_minions(client, "ci-1", selector=WEB)()

    session.put(PODS, web("a", None, conditions=[condition("PodScheduled", "False", **NO_NODE)]))
    arrived = pods_on_minions(client, "ci-1", pods=["a"])
    with pytest.raises(WaitFailed) as caught:
        wait.poll_immediate(5, "2m", arrived, clock=session.clock)
    assert reason(caught) == "pod a: Unschedulable: 0/1 nodes are available"
    assert session.clock.monotonic() == 45.0


def test_the_condition_of_no_pods(client: ApiClient, session: FakeSession) -> None:
    assert pods_on_minions(client, "ci-1", pods=[])()
    assert session.requests == []


def test_bad_arguments_of_the_condition(client: ApiClient) -> None:
    with pytest.raises(InvalidArgument) as caught:
        pods_on_minions(client, "ci-1")
    assert str(caught.value) == (
        "arguments=[] is not valid: give exactly one of controller, selector and pods"
    )


def test_conditions_that_upstream_has_as_values(client: ApiClient, session: FakeSession) -> None:
    session.put(
        NODES, {"metadata": {"name": "node-1"}, "spec": {}, "status": {"conditions": READY}}
    )
    counts = {"desiredNumberScheduled": 1, "currentNumberScheduled": 1}
    agent: dict[str, Any] = {
        "metadata": {"name": "agent", "uid": "uid-agent", "generation": 1},
        "spec": {"selector": {"matchLabels": WEB}},
        "status": {"observedGeneration": 1, **counts},
    }
    session.put(DAEMON_SETS, agent)
    checks = [
        check_running_on_all_nodes(client, "ci-1", "agent"),
        check_daemon_pod_on_nodes(client, "ci-1", "agent", ["node-1"]),
        check_present_on_nodes(client, "ci-1", "agent", 1),
    ]

    assert check_ready_for_tests(client)()
    assert [check() for check in checks] == [False, False, False]
    owner = {"kind": "DaemonSet", "name": "agent", "uid": "uid-agent", "controller": True}
    session.put(PODS, web("a", metadata={"ownerReferences": [owner]}, conditions=READY))
    ready = {**agent["status"], "numberReady": 1, "numberAvailable": 1}
    session.put(DAEMON_SETS, {**agent, "status": ready})
    assert [check() for check in checks] == [True, True, True]

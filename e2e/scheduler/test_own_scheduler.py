"""A scheduler for one test, with a name of its own and the test's plugins."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from e2e.scheduler.conftest import NodeMaker, pod
from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler import Algorithm, FitError, NodeInfo

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.scheduler.algorithm import NodeLister
    from pytest_kwait.suite.schedulers import RunningScheduler

SchedulerMaker = Callable[..., "RunningScheduler"]
Wait = Callable[..., Any]


def test_an_algorithm_of_your_own(
    kwait: Kwait,
    kwait_scheduler: SchedulerMaker,
    wait_for_pod_scheduled: Wait,
    fake_node: NodeMaker,
) -> None:
    """A function gets the pod and the nodes, and says where the pod goes."""
    red, blue = fake_node("red"), fake_node("blue")

    def by_color(pod: Mapping[str, Any], node_lister: NodeLister) -> str:
        return {"red": red, "blue": blue}[pod["metadata"]["labels"]["color"]]

    scheduler = kwait_scheduler(algorithm=by_color)
    for number, color in enumerate(("red", "blue", "red")):
        colored = pod(f"{color}-{number}", scheduler.name)
        colored["metadata"]["labels"] = {"color": color}
        kwait.create(colored)

    placed = [wait_for_pod_scheduled(name) for name in ("red-0", "blue-1", "red-2")]
    assert [one["spec"]["nodeName"] for one in placed] == [red, blue, red]


def test_predicates_and_priorities_of_your_own(
    kwait: Kwait,
    kwait_scheduler: SchedulerMaker,
    wait_for_pod_scheduled: Wait,
    fake_node: NodeMaker,
) -> None:
    """Functions of pod and node beside kube-scheduler's own, which go by their names."""
    fake_node("small", cpu="2", size="1")
    large = fake_node("large", cpu="2", size="9")
    fake_node("full", cpu="0", size="10")

    def ours_only(_pod: Mapping[str, Any], node: NodeInfo) -> str | None:
        return None if node.labels.get("e2e") == kwait.namespace else "node(s) of others"

    def size(_pod: Mapping[str, Any], node: NodeInfo) -> int:
        return int(node.labels["size"])

    scheduler = kwait_scheduler(predicates=[ours_only, "NodeResourcesFit"], priorities={size: 1})
    needs = {"resources": {"requests": {"cpu": "1"}}}
    wanting = pod("wanting", scheduler.name)
    wanting["spec"]["containers"][0] |= needs
    kwait.create(wanting)

    assert wait_for_pod_scheduled("wanting")["spec"]["nodeName"] == large


def test_an_unschedulable_pod_is_told_what_kube_scheduler_tells(
    kwait: Kwait,
    kwait_scheduler: SchedulerMaker,
    wait_for_pod_scheduled: Wait,
    fake_node: NodeMaker,
    wait_for_event: Wait,
) -> None:
    """The same condition and event, and once a node comes the pod is placed."""
    scheduler = kwait_scheduler()
    selector = {"e2e": kwait.namespace}
    for name, by in (("ours", scheduler.name), ("theirs", "default-scheduler")):
        kwait.create(pod(name, by, nodeSelector=selector))

    told = {}
    for name in ("ours", "theirs"):
        waiting = kwait.wait_for(f"pod/{name}", "condition=PodScheduled=False")
        (condition,) = waiting["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"
        # Beside other suites the number of nodes can change from one moment to the next.
        told[name] = re.sub(r"\d+", "N", condition["message"])
    assert told["ours"] == told["theirs"]
    assert told["ours"].startswith(
        "N/N nodes are available: N node(s) didn't match Pod's node affinity/selector."
    )
    event = wait_for_event("FailedScheduling", about="pod/ours")
    assert event["type"] == "Warning"
    assert event["reportingComponent"] == scheduler.name
    assert re.sub(r"\d+", "N", event["message"]) == told["ours"]

    node = fake_node("late")
    assert wait_for_pod_scheduled("ours")["spec"]["nodeName"] == node
    event = wait_for_event("Scheduled", about="pod/ours")
    assert event["message"] == f"Successfully assigned {kwait.namespace}/ours to {node}"
    assert (event["type"], event["action"]) == ("Normal", "Binding")


def test_a_job_of_three(
    kwait: Kwait, kwait_scheduler: SchedulerMaker, wait_for_job_complete: Wait
) -> None:
    """What a controller makes is placed like anything else, and runs."""
    scheduler = kwait_scheduler()
    template = pod("", scheduler.name, restartPolicy="Never", tolerations=[])
    template["spec"]["containers"][0]["command"] = ["true"]
    kwait.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "three"},
            "spec": {
                "completions": 3,
                "parallelism": 3,
                "template": {"spec": template["spec"]},
            },
        }
    )

    assert wait_for_job_complete("three")["status"]["succeeded"] == 3


def test_a_binding_that_fails_is_tried_again(
    kwait: Kwait,
    kwait_scheduler: SchedulerMaker,
    wait_for_pod_scheduled: Wait,
    fake_node: NodeMaker,
    wait_for_event: Wait,
) -> None:
    """What the binder raises is the pod's event; another attempt follows after the back-off."""
    node = fake_node("node")
    tries: list[str] = []

    def second_time(pod: dict[str, Any], node: str, *, deadline: Any) -> None:
        tries.append(pod["metadata"]["name"])
        if len(tries) == 1:
            raise ApiError("the volumes are not there yet")
        scheduler.bind(pod, node, deadline=deadline)

    scheduler = kwait_scheduler(
        algorithm=lambda _pod, _lister: node, binder=second_time, pod_initial_backoff="50ms"
    )
    kwait.create(pod("patient", scheduler.name))

    wait_for_pod_scheduled("patient")
    assert tries == ["patient", "patient"]
    event = wait_for_event("FailedScheduling", about="pod/patient")
    assert event["message"] == "the volumes are not there yet"


def test_a_pod_that_has_a_node_already_keeps_it(
    kwait: Kwait, kwait_scheduler: SchedulerMaker, fake_node: NodeMaker, wait_for_event: Wait
) -> None:
    """Two schedulers may want the same pod: the server takes the first, the second lets go."""
    first, second = fake_node("first"), fake_node("second")

    def too_late(pod: dict[str, Any], node: str, *, deadline: Any) -> None:
        scheduler.bind(pod, first, deadline=deadline)
        scheduler.bind(pod, node, deadline=deadline)

    scheduler = kwait_scheduler(algorithm=lambda _pod, _lister: second, binder=too_late)
    kwait.create(pod("wanted", scheduler.name))

    event = wait_for_event("FailedScheduling", about="pod/wanted")
    assert f'pod wanted is already assigned to node "{first}"' in event["message"]
    found = kwait.get("pod/wanted")
    assert found["spec"]["nodeName"] == first
    assert [(one["type"], one["status"]) for one in found["status"]["conditions"]] == [
        ("PodScheduled", "True")
    ]


def test_a_gated_pod_waits_for_its_gate(
    kwait: Kwait,
    kwait_scheduler: SchedulerMaker,
    wait_for_pod_scheduled: Wait,
    fake_node: NodeMaker,
) -> None:
    """A scheduling gate holds a pod; the others pass it by."""
    node = fake_node("node")
    scheduler = kwait_scheduler(algorithm=lambda _pod, _lister: node)
    gate = [{"name": "example.com/quota"}]
    kwait.apply(pod("gated", scheduler.name, schedulingGates=gate))
    kwait.create(pod("free", scheduler.name))

    wait_for_pod_scheduled("free")
    assert "nodeName" not in kwait.get("pod/gated")["spec"]

    kwait.apply(pod("gated", scheduler.name, schedulingGates=[]))
    wait_for_pod_scheduled("gated")


def test_what_goes_wrong_with_one_pod_stops_no_other(
    kwait: Kwait,
    kwait_scheduler: SchedulerMaker,
    wait_for_pod_scheduled: Wait,
    fake_node: NodeMaker,
    wait_for_event: Wait,
) -> None:
    """An algorithm that raises, a node that vanishes, a pod that is deleted: the next pod comes."""
    node = fake_node("node")
    usual = Algorithm()

    def odd(pod: Mapping[str, Any], node_lister: NodeLister) -> str:
        name = pod["metadata"]["name"]
        if name == "confusing":
            raise KeyError("an annotation that nobody has set")
        if name == "unlucky":
            return "a-node-that-was-here"
        if name == "hopeless":
            raise FitError({})
        usual.feasible(pod, node_lister)
        return node

    scheduler = kwait_scheduler(algorithm=odd)
    for name in ("confusing", "unlucky", "hopeless"):
        kwait.create(pod(name, scheduler.name))
    messages = {
        name: wait_for_event("FailedScheduling", about=f"pod/{name}")["message"]
        for name in ("confusing", "unlucky", "hopeless")
    }
    assert messages == {
        "confusing": "'an annotation that nobody has set'",
        "unlucky": 'node "a-node-that-was-here" not found',
        "hopeless": "no nodes available to schedule pods",
    }
    kwait.delete("pod/hopeless")
    kwait.create(pod("plain", scheduler.name))
    wait_for_pod_scheduled("plain")

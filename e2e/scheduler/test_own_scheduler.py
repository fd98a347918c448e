"""A scheduler of one test, with its own name and plugins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from e2e.scheduler.conftest import NodeMaker, scheduled_pod
from pytest_kwait import ApiError, InvalidArgument
from pytest_kwait.scheduler import Algorithm, FitError, NodeInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait import Kwait, SchedulerFactory
    from pytest_kwait.scheduler import NodeLister


def test_an_algorithm_of_your_own(
    kwait: Kwait, kwait_scheduler: SchedulerFactory, fake_node: NodeMaker
) -> None:
    """A function of the pod and the nodes returns the node's name."""
    red, blue = fake_node("red"), fake_node("blue")

    def by_color(pod: Mapping[str, Any], node_lister: NodeLister) -> str:
        return {"red": red, "blue": blue}[pod["metadata"]["labels"]["color"]]

    scheduler = kwait_scheduler(algorithm=by_color)
    for number, color in enumerate(("red", "blue", "red")):
        colored = scheduled_pod(f"{color}-{number}", scheduler.name)
        colored["metadata"]["labels"] = {"color": color}
        kwait.create(colored)

    placed = [kwait.wait_for_pod_scheduled(name) for name in ("red-0", "blue-1", "red-2")]
    assert [one["spec"]["nodeName"] for one in placed] == [red, blue, red]


def test_predicates_and_priorities_of_your_own(
    kwait: Kwait, kwait_scheduler: SchedulerFactory, fake_node: NodeMaker
) -> None:
    """Functions of pod and node, together with kube-scheduler's by name."""
    fake_node("small", cpu="2", size="1")
    large = fake_node("large", cpu="2", size="9")
    fake_node("full", cpu="0", size="10")

    def ours_only(_pod: Mapping[str, Any], node: NodeInfo) -> str | None:
        return None if node.labels.get("e2e") == kwait.namespace else "node(s) of others"

    def size(_pod: Mapping[str, Any], node: NodeInfo) -> int:
        return int(node.labels["size"])

    scheduler = kwait_scheduler(predicates=[ours_only, "NodeResourcesFit"], priorities={size: 1})
    needs = {"resources": {"requests": {"cpu": "1"}}}
    wanting = scheduled_pod("wanting", scheduler.name)
    wanting["spec"]["containers"][0] |= needs
    kwait.create(wanting)

    assert kwait.wait_for_pod_scheduled("wanting")["spec"]["nodeName"] == large


@pytest.mark.parametrize(
    "options",
    [
        {"priorities": ["NodeAffinity"]},
        {"predicates": 3},
        {"algorithm": 3},
        {"binder": 3},
        {"name": 3},
        {"pod_max_backoff": "soon"},
        {"timeout": "soon"},
    ],
)
def test_an_invalid_option_is_named(
    kwait_scheduler: SchedulerFactory, options: dict[str, Any]
) -> None:
    """Nothing is started then."""
    (name,) = options
    with pytest.raises(InvalidArgument, match=f"^{name}=.* is not valid: "):
        kwait_scheduler(**options)


def test_invalid_answers_are_events_of_the_pod(
    kwait: Kwait, kwait_scheduler: SchedulerFactory, fake_node: NodeMaker
) -> None:
    """They name the function, the node, the pod, the value and what is valid."""
    node, other = fake_node("one"), fake_node("two")
    scores = {"high": 101, "low": -1, "part": 0.5}

    def fits(pod: Mapping[str, Any], info: NodeInfo) -> Any:
        if info.name not in (node, other):
            return "node(s) of others"
        name = pod["metadata"]["name"]
        if name == "error" and info.name == node:
            return pod["metadata"]["annotations"]["zone"]
        return True if name == "true" and info.name == node else None

    def rates(pod: Mapping[str, Any], info: NodeInfo) -> Any:
        return scores.get(pod["metadata"]["name"], 0) if info.name == node else 0

    scheduler = kwait_scheduler(predicates=[fits], priorities={rates: 1})
    for name in ("true", "error", *scores):
        kwait.create(scheduled_pod(name, scheduler.name))
    nothing: Any = None
    silent = kwait_scheduler(algorithm=lambda pod, nodes: nothing)
    kwait.create(scheduled_pod("none", silent.name))

    space = kwait.namespace
    for name, text in {
        "true": f"predicate fits returned True for pod {space}/true on node {node}; a predicate "
        "returns None if the pod fits, else the reason or a Rejection",
        "error": f"predicate fits raised KeyError('annotations') for pod {space}/error on node "
        f"{node}",
        **{
            name: f"priority rates returned {score} for pod {space}/{name} on node {node}; "
            "a priority returns a whole number from 0 to 100"
            for name, score in scores.items()
        },
        "none": f"the algorithm returned None for pod {space}/none; it returns the name of a node, "
        "or raises FitError",
    }.items():
        assert kwait.wait_for_event("FailedScheduling", about=f"pod/{name}")["message"] == text


def test_unschedulable_message_equals_kube_schedulers(
    kwait: Kwait, kwait_scheduler: SchedulerFactory, fake_node: NodeMaker
) -> None:
    """The same condition and event; a new node schedules the pod."""
    scheduler = kwait_scheduler()
    selector = {"e2e": kwait.namespace}
    for name, by in (("ours", scheduler.name), ("theirs", "default-scheduler")):
        kwait.create(scheduled_pod(name, by, nodeSelector=selector))

    messages = {}
    for name in ("ours", "theirs"):
        waiting = kwait.wait_for(f"pod/{name}", "condition=PodScheduled=False")
        (condition,) = waiting["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"
        # Other suites in parallel may change the number of nodes.
        messages[name] = re.sub(r"\d+", "N", condition["message"])
    assert messages["ours"] == messages["theirs"]
    assert messages["ours"].startswith(
        "N/N nodes are available: N node(s) didn't match Pod's node affinity/selector."
    )
    event = kwait.wait_for_event("FailedScheduling", about="pod/ours")
    assert event["type"] == "Warning"
    assert event["reportingComponent"] == scheduler.name
    assert re.sub(r"\d+", "N", event["message"]) == messages["ours"]

    node = fake_node("late")
    assert kwait.wait_for_pod_scheduled("ours")["spec"]["nodeName"] == node
    event = kwait.wait_for_event("Scheduled", about="pod/ours")
    assert event["message"] == f"Successfully assigned {kwait.namespace}/ours to {node}"
    assert (event["type"], event["action"]) == ("Normal", "Binding")


def test_a_job_of_three(kwait: Kwait, kwait_scheduler: SchedulerFactory) -> None:
    """Pods of a controller are scheduled and run."""
    scheduler = kwait_scheduler()
    template = scheduled_pod("", scheduler.name, restartPolicy="Never", tolerations=[])
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

    assert kwait.wait_for_job_complete("three")["status"]["succeeded"] == 3


def test_a_binding_that_fails_is_tried_again(
    kwait: Kwait, kwait_scheduler: SchedulerFactory, fake_node: NodeMaker
) -> None:
    """A binder's error becomes an event; the pod is retried after the backoff."""
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
    kwait.create(scheduled_pod("patient", scheduler.name))

    kwait.wait_for_pod_scheduled("patient")
    assert tries == ["patient", "patient"]
    event = kwait.wait_for_event("FailedScheduling", about="pod/patient")
    assert event["message"] == "the volumes are not there yet"


def test_a_pod_that_has_a_node_already_keeps_it(
    kwait: Kwait, kwait_scheduler: SchedulerFactory, fake_node: NodeMaker
) -> None:
    """Of two schedulers that bind the same pod, the second forgets it."""
    first, second = fake_node("first"), fake_node("second")

    def too_late(pod: dict[str, Any], node: str, *, deadline: Any) -> None:
        scheduler.bind(pod, first, deadline=deadline)
        scheduler.bind(pod, node, deadline=deadline)

    scheduler = kwait_scheduler(algorithm=lambda _pod, _lister: second, binder=too_late)
    kwait.create(scheduled_pod("wanted", scheduler.name))

    event = kwait.wait_for_event("FailedScheduling", about="pod/wanted")
    assert f'pod wanted is already assigned to node "{first}"' in event["message"]
    found = kwait.get("pod/wanted")
    assert found["spec"]["nodeName"] == first
    assert [(one["type"], one["status"]) for one in found["status"]["conditions"]] == [
        ("PodScheduled", "True")
    ]


def test_a_gated_pod_waits_for_its_gate(
    kwait: Kwait, kwait_scheduler: SchedulerFactory, fake_node: NodeMaker
) -> None:
    """A gated pod does not block others."""
    node = fake_node("node")
    scheduler = kwait_scheduler(algorithm=lambda _pod, _lister: node)
    gate = [{"name": "example.com/quota"}]
    kwait.apply(scheduled_pod("gated", scheduler.name, schedulingGates=gate))
    kwait.create(scheduled_pod("free", scheduler.name))

    kwait.wait_for_pod_scheduled("free")
    assert "nodeName" not in kwait.get("pod/gated")["spec"]

    kwait.apply(scheduled_pod("gated", scheduler.name, schedulingGates=[]))
    kwait.wait_for_pod_scheduled("gated")


def test_failed_pod_does_not_stop_others(
    kwait: Kwait, kwait_scheduler: SchedulerFactory, fake_node: NodeMaker
) -> None:
    """An algorithm's error, a deleted node or a deleted pod do not stop the next pod."""
    node = fake_node("node")
    usual = Algorithm()

    def odd(pod: Mapping[str, Any], node_lister: NodeLister) -> str:
        name = pod["metadata"]["name"]
        if name == "confusing":
            raise KeyError("an annotation that is not set")
        if name == "unlucky":
            return "a-node-that-was-here"
        if name == "hopeless":
            raise FitError({})
        usual.feasible(pod, node_lister)
        return node

    scheduler = kwait_scheduler(algorithm=odd)
    for name in ("confusing", "unlucky", "hopeless"):
        kwait.create(scheduled_pod(name, scheduler.name))
    messages = {
        name: kwait.wait_for_event("FailedScheduling", about=f"pod/{name}")["message"]
        for name in ("confusing", "unlucky", "hopeless")
    }
    assert messages == {
        "confusing": "the algorithm raised KeyError('an annotation that is not set') for pod "
        f"{kwait.namespace}/confusing",
        "unlucky": 'node "a-node-that-was-here" not found',
        "hopeless": "no nodes available to schedule pods",
    }
    kwait.delete("pod/hopeless")
    kwait.create(scheduled_pod("plain", scheduler.name))
    kwait.wait_for_pod_scheduled("plain")

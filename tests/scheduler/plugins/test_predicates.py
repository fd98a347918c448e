from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.scheduler.algorithm import Algorithm, FitError, Rejection
from pytest_kwait.scheduler.framework.pod_info import PodInfo
from pytest_kwait.scheduler.plugins.predicates import find_rejection, list_scheduling_gates
from tests.objects import node, pod
from tests.scheduler.nodes import Nodes, info

if TYPE_CHECKING:
    from pytest_kwait.scheduler.framework.node_info import NodeInfo

_ALGORITHM = Algorithm()
_AFFINITY = "node(s) didn't match Pod's node affinity/selector"


def _rejection(wanted: dict[str, Any], on: NodeInfo) -> Rejection | None:
    try:
        _ALGORITHM.schedule(wanted, Nodes(on))
    except FitError as error:
        return error.rejections[on.name]
    return None


def _affinity(**term: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


def _expression(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "size", "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("wanted", "on", "reasons", "resolvable"),
    [
        (pod(cpu="2"), info(), None, True),
        (pod(cpu="3"), info(), ("Insufficient cpu",), False),
        (pod(cpu="1500m"), info(pod("a", cpu="1")), ("Insufficient cpu",), True),
        (pod(memory="5Gi", cpu="3"), info(), ("Insufficient cpu", "Insufficient memory"), False),
        (pod(), info(pod("a"), pod("b"), pod("c")), ("Too many pods",), True),
        (pod(), info(unschedulable=True), ("node(s) were unschedulable",), False),
        (
            pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            info(unschedulable=True),
            None,
            True,
        ),
        (pod(nodeName="n2"), info(), ("node(s) didn't match the requested node name",), False),
        (pod(nodeName="n1"), info(), None, True),
        (
            pod(),
            info(taints=[{"key": "a", "effect": "NoSchedule"}]),
            ("node(s) had untolerated taint(s)",),
            False,
        ),
        (pod(), info(taints=[{"key": "a", "effect": "PreferNoSchedule"}]), None, True),
        (pod(nodeSelector={"size": "l"}), info(labels={"size": "s"}), (_AFFINITY,), False),
        (pod(nodeSelector={"size": "l"}), info(labels={"size": "l"}), None, True),
        (
            pod(container={"ports": [{"hostPort": 80}]}),
            info(pod("a", container={"ports": [{"hostPort": 80}]})),
            ("node(s) didn't have free ports for the requested pod ports",),
            True,
        ),
        (
            pod(container={"resources": {"requests": {"example.com/gpu": "1"}}}),
            info(),
            ("Insufficient example.com/gpu",),
            False,
        ),
    ],
)
def test_node_is_rejected_by_first_failing_predicate(
    wanted: dict[str, Any], on: NodeInfo, reasons: tuple[str, ...] | None, resolvable: bool
) -> None:
    expected = None if reasons is None else Rejection(reasons, resolvable)
    assert _rejection(wanted, on) == expected


@pytest.mark.parametrize(
    ("term", "labels", "matches"),
    [
        ({"matchExpressions": [_expression("In", "s", "l")]}, {"size": "l"}, True),
        ({"matchExpressions": [_expression("In", "s")]}, {}, False),
        ({"matchExpressions": [_expression("NotIn", "s")]}, {}, True),
        ({"matchExpressions": [_expression("NotIn", "s")]}, {"size": "s"}, False),
        ({"matchExpressions": [_expression("Exists")]}, {"size": ""}, True),
        ({"matchExpressions": [_expression("DoesNotExist")]}, {"size": ""}, False),
        ({"matchExpressions": [_expression("Gt", "3")]}, {"size": "4"}, True),
        ({"matchExpressions": [_expression("Gt", "3")]}, {"size": "3"}, False),
        ({"matchExpressions": [_expression("Lt", "3")]}, {"size": "x"}, False),
        ({"matchExpressions": [_expression("Lt", "3")]}, {"size": "2"}, True),
        ({"matchExpressions": [_expression("Gt", "many")]}, {"size": "2"}, False),
        ({}, {"size": "2"}, False),
    ],
)
def test_required_affinity_reads_labels(
    term: dict[str, Any], labels: dict[str, str], matches: bool
) -> None:
    rejection = _rejection(pod(affinity=_affinity(**term)), info(labels=labels))
    assert (rejection is None) is matches


def test_required_affinity_can_name_nodes_by_field() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    wanted = pod(affinity=_affinity(matchFields=[field]))
    unseen = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert _rejection(wanted, info()) is None
    assert _rejection(wanted, info(name="n2")) == Rejection((unseen,), resolvable=False)
    # A kubelet has its own wording.
    assert find_rejection(PodInfo(wanted), info(name="n2")) == Rejection((_AFFINITY,))
    assert find_rejection(PodInfo(wanted), info()) is None
    torn = pod(affinity=_affinity(matchFields=[field, {**field, "values": ["n2"]}]))
    assert find_rejection(PodInfo(torn), info()) == Rejection((_AFFINITY,))


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"key": "a", "value": "1", "effect": "NoSchedule"}, True),
        ({"key": "a", "value": "2", "effect": "NoSchedule"}, False),
        ({"key": "a", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Equal", "value": "1"}, True),
        ({"operator": "Equal", "value": "2"}, False),
        ({"key": "a", "value": "1", "effect": "NoExecute"}, False),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Lt", "value": "1"}, False),
    ],
)
def test_toleration_covers_a_taint(toleration: dict[str, str], covered: bool) -> None:
    taint = {"key": "a", "value": "1", "effect": "NoSchedule"}
    tainted = info(taints=[taint])
    rejection = _rejection(pod(tolerations=[toleration]), tainted)
    assert (rejection is None) is covered


def test_scheduling_gates_are_listed_in_order() -> None:
    assert list_scheduling_gates(pod(schedulingGates=[{"name": "b"}, {"name": "a"}])) == ["b", "a"]
    assert list_scheduling_gates(pod()) == []


def test_node_info_adds_and_removes_each_pod_once() -> None:
    counted = info()
    one = pod("a", cpu="500m", container={"ports": [{"hostPort": 80}]})
    one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
    counted.add(one)
    counted.add(one)
    assert (counted.pod_count, counted.requested) == (1, {"cpu": 500})
    assert set(counted.used_ports) == {("TCP", "0.0.0.0", 80)}
    counted.set_node(node(cpu="9"))
    assert counted.allocatable["cpu"] == 9000
    assert counted.remove(one)
    assert not counted.remove(one)
    assert (counted.pod_count, counted.requested) == (0, {"cpu": 0})

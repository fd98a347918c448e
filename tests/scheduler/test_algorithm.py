from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument, KwaitError
from pytest_kwait.scheduler import algorithm
from pytest_kwait.scheduler.algorithm import (
    DEFAULT_PREDICATES,
    DEFAULT_PRIORITIES,
    Algorithm,
    CycleState,
    FitError,
    InvalidNode,
    InvalidPod,
    NodeInfo,
    PerPod,
    Rejection,
    format_fit_error,
    predicate_names,
    priority_names,
    register_predicate,
    register_priority,
)
from tests.objects import node, pod
from tests.scheduler.nodes import Nodes, info

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CPU = Rejection(("Insufficient cpu",), resolvable=True)
_TAINT = Rejection(("node(s) had untolerated taint(s)",), resolvable=False)
_BOTH = Rejection(("Insufficient cpu", "Insufficient memory"), resolvable=False)


@pytest.mark.parametrize(
    ("rejections", "text"),
    [
        ([], "no nodes available to schedule pods"),
        (
            [_CPU, _CPU],
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
        ),
        (
            [_TAINT],
            "0/1 nodes are available: 1 node(s) had untolerated taint(s). "
            "no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling.",
        ),
        (
            [_CPU, _TAINT, _BOTH],
            "0/3 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), "
            "2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: "
            "1 No preemption victims found for incoming pod, "
            "2 Preemption is not helpful for scheduling.",
        ),
    ],
)
def test_fit_error_has_kube_scheduler_text(rejections: list[Rejection], text: str) -> None:
    assert format_fit_error(rejections) == text


def test_fit_error_of_a_never_preempting_pod() -> None:
    assert format_fit_error([_CPU], may_preempt=False) == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: not eligible due to preemptionPolicy=Never."
    )


def test_fit_error_without_tried_nodes_has_reason() -> None:
    assert format_fit_error([_TAINT, _TAINT], reason="pod affinity terms conflict") == (
        "0/2 nodes are available: pod affinity terms conflict. not found"
    )


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(algorithm, "_PREDICATES", dict(algorithm._PREDICATES))
        patch.setattr(algorithm, "_PRIORITIES", dict(algorithm._PRIORITIES))
        yield


def test_emptier_node_is_selected() -> None:
    busy, idle = info(pod("a", cpu="1"), name="a"), info(name="b")
    assert Algorithm().schedule(pod(cpu="500m"), Nodes(busy, idle)) == "b"


def test_ties_are_broken_by_pod_count_then_name() -> None:
    algorithm = Algorithm(priorities={})
    busy, idle, late = info(pod("a"), name="a"), info(name="b"), info(name="c")
    assert algorithm.schedule(pod(), Nodes(busy, late, idle)) == "b"


def test_fit_error_has_the_reason_of_each_node() -> None:
    small = info(name="small", cpu="1")
    tainted = info(name="t", taints=[{"key": "a", "effect": "NoSchedule"}])
    with pytest.raises(FitError) as caught:
        Algorithm().schedule(pod(cpu="2"), Nodes(small, tainted))
    assert str(caught.value) == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
        "no new claims to deallocate, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    assert caught.value.nodes == 2
    assert caught.value.predicates == {"NodeResourcesFit", "TaintToleration"}
    assert caught.value.rejections["small"] == Rejection(("Insufficient cpu",), resolvable=False)
    assert isinstance(caught.value, KwaitError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_disjoint_node_names_leave_no_node() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n1", "n2")]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    with pytest.raises(FitError) as caught:
        Algorithm().schedule(pod(affinity=affinity), Nodes(info(name="n1"), info(name="n2")))
    assert str(caught.value) == "0/2 nodes are available: pod affinity terms conflict. not found"
    assert caught.value.predicates == {"NodeAffinity"}


def test_without_nodes_nothing_is_available() -> None:
    with pytest.raises(FitError) as caught:
        Algorithm().schedule(pod(), Nodes())
    assert str(caught.value) == "no nodes available to schedule pods"


def test_feasible_nodes_are_those_that_fit_in_the_listers_order() -> None:
    nodes = Nodes(info(name="c"), info(name="a", unschedulable=True), info(name="b"))
    assert Algorithm().feasible(pod(), nodes) == ["c", "b"]
    assert Algorithm().feasible(pod(cpu="9"), nodes) == []


def test_predicates_can_be_left_out() -> None:
    cordoned = Nodes(info(unschedulable=True))
    without = [name for name in DEFAULT_PREDICATES if name != "NodeUnschedulable"]
    assert Algorithm().feasible(pod(), cordoned) == []
    assert Algorithm(without).feasible(pod(), cordoned) == ["n1"]


def test_functions_can_be_given_and_names_registered(own_names: None) -> None:
    def is_red(wanted: dict[str, Any], on: NodeInfo) -> str | None:
        return None if on.labels.get("color") == "red" else "node(s) weren't red"

    def by_rank(wanted: dict[str, Any], on: NodeInfo) -> int:
        return int(on.labels["rank"])

    nodes = Nodes(
        info(name="a", labels={"color": "red", "rank": "1"}),
        info(name="b", labels={"color": "red", "rank": "5"}),
        info(name="c", labels={"color": "blue", "rank": "9"}),
    )
    given = Algorithm([is_red], {by_rank: 2})
    assert given.feasible(pod(), nodes) == ["a", "b"]
    assert given.scores(pod(), nodes) == {"a": 2, "b": 10}
    register_predicate("Red", is_red)
    register_priority("Rank", by_rank)
    named = Algorithm(["Red"], {"Rank": 1})
    assert named.schedule(pod(), nodes) == "b"
    assert (named.predicates, named.priorities) == (("Red",), {"Rank": 1})
    assert "Red" in predicate_names()
    assert "Rank" in priority_names()
    with pytest.raises(FitError, match=r"^0/1 nodes are available: 1 node.s. weren.t red\. "):
        named.schedule(pod(), Nodes(info(labels={"rank": "1"})))


def test_priority_per_pod_scores_all_nodes_at_once() -> None:
    def by_pods(cycle: CycleState, fitting: Sequence[NodeInfo]) -> list[int]:
        return [sum(one.name == "there" for one in info.pods) for info in fitting]

    nodes = Nodes(info(name="a"), info(pod("there"), name="b"))
    assert Algorithm([], {PerPod(by_pods): 3}).scores(pod(), nodes) == {"a": 0, "b": 3}


def test_node_cache_is_bounded() -> None:
    on = info(cpu="1000")
    for number in range(1, 300):
        Algorithm().scores(pod(cpu=f"{number}m", memory="1"), Nodes(on))
    assert 0 < len(on.cached) <= 64


def test_predicate_per_pod_is_prepared_once() -> None:
    seen: list[str] = []

    def prepare(cycle: CycleState) -> None:
        seen.append(cycle.pod.name)

    Algorithm([PerPod(prepare)]).schedule(pod("one"), Nodes(info(name="a"), info(name="b")))
    assert seen == ["one"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"predicates": ["NodeNam"]},
            "predicate='NodeNam' is not valid: near it: NodeName",
        ),
        ({"predicates": "NodeName"}, "predicates='NodeName' is not valid: use a list of names"),
        ({"predicates": [7]}, "predicate=7 is not valid: use a name or a function"),
        ({"priorities": {"?": 1}}, "priority='?' is not valid: use one of ImageLocality, "),
        (
            {"priorities": {"NodeAffinity": 0}},
            "weight of NodeAffinity=0 is not valid: a whole number of at least 1",
        ),
        (
            {"percentage_of_nodes_to_score": 101},
            "percentage_of_nodes_to_score=101 is not valid: 0 to 100",
        ),
    ],
)
def test_unknown_names_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Algorithm(**arguments)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("name", ["", None, 3])
def test_names_are_strings(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="use a string that is not empty"):
        register_predicate(name, lambda wanted, on: None)


def test_defaults_are_upstreams() -> None:
    assert DEFAULT_PRIORITIES["TaintToleration"] == 3
    assert set(DEFAULT_PREDICATES) <= set(predicate_names())
    assert set(DEFAULT_PRIORITIES) <= set(priority_names())


@pytest.mark.parametrize(
    ("nodes", "percentage", "enough"),
    # Source: schedule_one_test.go, `TestNumFeasibleNodesToFind`.
    [
        (10, 0, 10),
        (10, 40, 10),
        (1000, 0, 420),
        (1000, 40, 400),
        (6000, 0, 300),
        (6000, 40, 2400),
        (150, 0, 100),
    ],
)
def test_search_ends_after_a_share_of_a_large_cluster(
    nodes: int, percentage: int, enough: int
) -> None:
    assert (
        Algorithm(percentage_of_nodes_to_score=percentage)._num_feasible_nodes_to_find(nodes)
        == enough
    )


def test_search_rotates_through_a_large_cluster() -> None:
    nodes = Nodes(*(info(name=f"n{number:03}") for number in range(250)))
    looked: list[str] = []

    def note(wanted: dict[str, Any], on: NodeInfo) -> None:
        looked.append(on.name)

    algorithm = Algorithm([note])
    for _ in range(2):
        algorithm.schedule(pod(), nodes)
    assert looked == [f"n{number:03}" for number in range(240)]
    algorithm.schedule(pod(), nodes)
    assert looked[240:] == [f"n{number % 250:03}" for number in range(240, 360)]
    assert len(algorithm.feasible(pod(), nodes)) == 250


_EXPRESSION = {"key": "a", "operator": "Sideways", "values": ["1"]}
_NODE_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [_EXPRESSION]}]
        }
    }
}


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (
            pod(cpu="1x"),
            "spec.containers[0].resources.requests.cpu='1x' (from pod default/p) is not valid: "
            "a quantity is a decimal number",
        ),
        (
            pod(cpu="-1"),
            "spec.containers[0].resources.requests.cpu='-1' (from pod default/p) is not valid: "
            "use a quantity of at least 0",
        ),
        (
            pod(container={"resources": {"requests": {"cpu": None}}}),
            "spec.containers[0].resources.requests.cpu=None (from pod default/p) is not valid: ",
        ),
        (
            pod(container={"resources": {"requests": {"cpu": ["1"]}}}),
            "spec.containers[0].resources.requests.cpu=['1'] (from pod default/p) is not valid: "
            "use a quantity",
        ),
        (
            pod(container={"resources": {"requests": ["cpu"]}}),
            "spec.containers[0].resources.requests=['cpu'] (from pod default/p) is not valid: "
            "use a mapping",
        ),
        (
            pod(affinity=_NODE_AFFINITY),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
            "nodeSelectorTerms[0].matchExpressions[0].operator='Sideways' (from pod default/p) "
            "is not valid: use one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        (
            pod(tolerations=[{"operator": "Near"}]),
            "spec.tolerations[0].operator='Near' (from pod default/p) is not valid: "
            "use one of Equal, Exists, Lt, Gt",
        ),
        (
            pod(container={"ports": [{"hostPort": "80"}]}),
            "spec.containers[0].ports[0].hostPort='80' (from pod default/p) is not valid: "
            "use a whole number",
        ),
        (pod(nodeName=3), "spec.nodeName=3 (from pod default/p) is not valid: use a string"),
        (
            {"metadata": {"name": "p"}, "spec": {"containers": [None]}},
            "spec.containers[0]=None (from pod default/p) is not valid: use a mapping",
        ),
        (
            {"metadata": {"name": "p"}, "spec": {"containers": {}}},
            "spec.containers={} (from pod default/p) is not valid: use a list",
        ),
        (
            {"metadata": [], "spec": {}},
            "metadata=[] (from pod default/) is not valid: use a mapping",
        ),
        (None, "pod=None (from pod default/) is not valid: use a mapping"),
    ],
)
def test_malformed_pod_raises_invalid_pod(wanted: Any, text: str) -> None:
    with pytest.raises(InvalidPod) as caught:
        Algorithm().schedule(wanted, Nodes(info()))
    assert str(caught.value).startswith(text)


def test_null_fields_count_as_absent() -> None:
    nothing = dict.fromkeys(
        (
            "affinity", "containers", "initContainers", "nodeName", "nodeSelector", "overhead",
            "preemptionPolicy", "resources", "schedulingGates", "tolerations",
            "topologySpreadConstraints", "volumes",
        )
    )  # fmt: skip
    for wanted in ({}, {"metadata": None, "spec": None}, {"metadata": {}, "spec": nothing}):
        assert Algorithm().feasible(wanted, Nodes(info())) == ["n1"]
        with pytest.raises(FitError):
            Algorithm().schedule(wanted, Nodes(info(pods="0")))


def test_malformed_node_raises_invalid_node() -> None:
    with pytest.raises(InvalidNode, match=r"^metadata.name=None .from node . is not valid"):
        NodeInfo({"metadata": {}})
    with pytest.raises(InvalidNode, match=r"^node=None .from node. is not valid: use a mapping"):
        NodeInfo(None)  # type: ignore[arg-type]
    good = info()
    with pytest.raises(InvalidNode) as caught:
        good.set_node(node(cpu="many"))
    assert str(caught.value).startswith("status.allocatable.cpu='many' (from node n1) is not valid")
    assert good.allocatable["cpu"] == 2000


def test_malformed_pod_is_not_counted() -> None:
    counted = info()
    with pytest.raises(InvalidPod, match=r"^metadata.uid=None .from pod default/p. is not valid"):
        counted.add({"metadata": {"name": "p"}, "spec": {}})
    bad = pod("a", cpu="1x")
    with pytest.raises(InvalidPod):
        counted.add(bad)
    assert not counted.remove(bad)
    assert counted.pod_count == 0

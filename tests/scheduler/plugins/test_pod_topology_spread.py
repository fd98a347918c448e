"""Re-expressed from framework/plugins/podtopologyspread/filtering_test.go and scoring_test.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.scheduler.algorithm import Algorithm, FitError, InvalidPod, NodeInfo
from pytest_kwait.scheduler.plugins.pod_topology_spread import (
    collect_spread_selectors,
    find_spreading_controller,
)
from tests.objects import node, pod
from tests.scheduler.nodes import Nodes, info

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOST = "kubernetes.io/hostname"
_FOO = {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}
_BAR = {"matchExpressions": [{"key": "bar", "operator": "Exists"}]}
# By node: its zone, None for none.
_ZONES = {"a": "1", "b": "1", "x": "2", "y": "2"}


def constraint(
    key: str = "zone", skew: int = 1, selector: Any = _FOO, *, soft: bool = False, **more: Any
) -> dict[str, Any]:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        "labelSelector": selector,
        **more,
    }


def labelled(name: str, *labels: str, **fields: Any) -> dict[str, Any]:
    return pod(name, namespace="default", labels=dict.fromkeys(labels, ""), **fields)


def wanting(*constraints: dict[str, Any], labels: Sequence[str] = ("foo",), **more: Any) -> Any:
    return labelled("p", *labels, topologySpreadConstraints=list(constraints), **more)


def cluster(counts: dict[str, int], zones: dict[str, str] | None = None) -> list[NodeInfo]:
    """Return nodes with as many pods labelled foo."""
    zones = _ZONES if zones is None else zones
    found = []
    for name, count in counts.items():
        labels = {_HOST: name} | ({"zone": zones[name]} if name in zones else {})
        pods = [labelled(f"{name}{number}", "foo") for number in range(count)]
        found.append(info(*pods, name=name, labels=labels, pods="110"))
    return found


_SPREAD = Algorithm(["PodTopologySpread"], {"PodTopologySpread": 1})


@pytest.mark.parametrize(
    ("wanted", "counts", "fitting"),
    [
        pytest.param(wanting(constraint()), "0/0/0/0", "abxy", id="no pods yet"),
        pytest.param(wanting(constraint(selector=_BAR)), "0/0/0/0", "abxy", id="not one of them"),
        pytest.param(wanting(constraint()), "0/0/1/1", "ab", id="by zone"),
        pytest.param(wanting(constraint(selector=None)), "0/0/1/1", "abxy", id="no selector"),
        pytest.param(wanting(constraint(selector={})), "0/0/1/1", "abxy", id="selector of all"),
        pytest.param(wanting(constraint()), "2/1/0/3", "abxy", id="3 and 3"),
        pytest.param(wanting(constraint("rack")), "0/0/0/0", "", id="label on no node"),
        pytest.param(wanting(constraint(_HOST)), "2/1/0/3", "x", id="by node"),
        pytest.param(wanting(constraint(_HOST, 2)), "2/1/0/3", "bx", id="more skew"),
        pytest.param(
            wanting(constraint(_HOST), labels=["bar"]), "2/1/0/3", "bx", id="does not count itself"
        ),
        pytest.param(
            wanting(constraint(), constraint(_HOST)), "1/1/0/2", "x", id="both constraints"
        ),
        pytest.param(
            wanting(constraint(), constraint(_HOST)), "0/0/0/1", "ab", id="both, one zone full"
        ),
        pytest.param(wanting(constraint(_HOST, soft=True)), "2/1/0/3", "abxy", id="soft"),
        pytest.param(
            wanting(constraint(_HOST, 2, minDomains=5)), "2/2/1/1", "xy", id="few domains"
        ),
        pytest.param(
            wanting(constraint(_HOST, 2, minDomains=4)), "2/2/1/1", "abxy", id="domains enough"
        ),
        pytest.param(
            wanting(constraint(_HOST, 2, minDomains=5)), "2/2/2/2", "", id="few domains, all full"
        ),
    ],
)
def test_node_fits_unless_skew_is_exceeded(
    wanted: dict[str, Any], counts: str, fitting: str
) -> None:
    numbers = dict(zip("abxy", map(int, counts.split("/")), strict=True))
    assert _SPREAD.feasible(wanted, Nodes(*cluster(numbers))) == list(fitting)


def test_nodes_without_topology_label_are_rejected() -> None:
    nodes = Nodes(*cluster({"a": 1, "b": 1, "x": 1, "y": 1}, {"a": "1", "x": "2", "y": "2"}))
    assert _SPREAD.feasible(wanting(constraint()), nodes) == ["a"]


def test_rejection_reasons_match_upstream() -> None:
    nodes = Nodes(*cluster({"a": 2, "b": 0, "x": 2}, {"a": "1", "x": "1"}))
    nodes.list()[1].set_node(node("b"))
    with pytest.raises(FitError) as caught:
        _SPREAD.schedule(wanting(constraint(_HOST, minDomains=5)), nodes)
    assert str(caught.value) == (
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing "
        "required label), 2 node(s) didn't match pod topology spread constraints. no new claims "
        "to deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for "
        "scheduling, 2 No preemption victims found for incoming pod."
    )


def test_pods_of_other_namespaces_and_terminating_pods_do_not_count() -> None:
    elsewhere, ending = labelled("a1", "foo"), labelled("a2", "foo")
    elsewhere["metadata"]["namespace"] = "other"
    ending["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    first = info(elsewhere, ending, name="a", labels={_HOST: "a"})
    second = info(labelled("b1", "foo"), name="b", labels={_HOST: "b"})
    assert _SPREAD.feasible(wanting(constraint(_HOST)), Nodes(first, second)) == ["a"]


def test_nodes_count_by_the_policies() -> None:
    """As 2/~1~/~0~/3: only the nodes that the pod selects are compared."""
    nodes = Nodes(*cluster({"a": 2, "b": 1, "x": 0, "y": 3}))
    term = {"matchExpressions": [{"key": _HOST, "operator": "In", "values": ["a", "y"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    asking: dict[str, Any] = {"affinity": {"nodeAffinity": required}}
    honoured = wanting(constraint(_HOST), **asking)
    ignored = wanting(constraint(_HOST, nodeAffinityPolicy="Ignore"), **asking)
    assert _SPREAD.feasible(honoured, nodes) == ["a", "b", "x"]
    assert _SPREAD.feasible(ignored, nodes) == ["x"]


def test_tainted_nodes_count_unless_policy_honors_taints() -> None:
    taint = {"key": "foo", "value": "bar", "effect": "NoSchedule"}
    pods = [labelled(f"a{number}", "foo") for number in range(1)]
    free = info(*pods, name="a", labels={_HOST: "a"})
    tainted = info(name="b", labels={_HOST: "b"}, taints=[taint])
    nodes = Nodes(free, tainted)
    assert _SPREAD.feasible(wanting(constraint(_HOST)), nodes) == ["b"]
    honoured = constraint(_HOST, nodeTaintsPolicy="Honor")
    assert _SPREAD.feasible(wanting(honoured), nodes) == ["a", "b"]
    tolerating = wanting(honoured, tolerations=[{"operator": "Exists"}])
    assert _SPREAD.feasible(tolerating, nodes) == ["b"]


def test_match_label_keys_narrow_the_selector() -> None:
    nodes = cluster({"a": 1, "b": 0})
    wanted = wanting(constraint(_HOST, matchLabelKeys=["revision", "absent"]))
    assert _SPREAD.feasible(wanted, Nodes(*nodes)) == ["b"]
    wanted["metadata"]["labels"]["revision"] = "2"
    assert _SPREAD.feasible(wanted, Nodes(*nodes)) == ["a", "b"]


@pytest.mark.parametrize(
    ("wanted", "counts", "scores"),
    [
        pytest.param(
            wanting(constraint(_HOST, soft=True)), "0/0/0/0", "100/100/100/100", id="none"
        ),
        pytest.param(wanting(constraint(_HOST, soft=True)), "2/1/0/3", "20/60/100/0", id="by node"),
        pytest.param(
            wanting(constraint(_HOST, soft=True, selector=None)),
            "2/1/0/3",
            "100/100/100/100",
            id="no selector",
        ),
        pytest.param(wanting(constraint(_HOST, 2, soft=True)), "2/1/0/3", "33/66/100/16", id="2"),
        pytest.param(wanting(constraint(_HOST, 3, soft=True)), "4/3/2/1", "44/66/77/100", id="3"),
        pytest.param(wanting(constraint(_HOST)), "2/1/0/3", "0/0/0/0", id="hard ones do not score"),
    ],
)
def test_domains_with_fewer_pods_score_higher(
    wanted: dict[str, Any], counts: str, scores: str
) -> None:
    numbers = dict(zip("abxy", map(int, counts.split("/")), strict=True))
    scoring = Algorithm([], {"PodTopologySpread": 1})
    expected = dict(zip("abxy", map(int, scores.split("/")), strict=True))
    assert scoring.scores(wanted, Nodes(*cluster(numbers))) == expected


def _only(*names: str) -> Algorithm:
    """Return an algorithm for which only these nodes fit."""
    return Algorithm([lambda pod, on: None if on.name in names else "no"], {"PodTopologySpread": 1})


def test_pods_on_infeasible_nodes_count_for_their_zone() -> None:
    by_node = wanting(constraint(_HOST, soft=True))
    nodes = Nodes(*cluster({"a": 4, "b": 2, "x": 1, "y": 3}))
    assert _only("a", "b", "x").scores(by_node, nodes) == {"a": 33, "b": 83, "x": 100}
    by_zone = wanting(constraint(soft=True))
    assert _only("a", "b", "x").scores(by_zone, nodes) == {"a": 75, "b": 75, "x": 100}


def test_nodes_without_topology_label_score_zero() -> None:
    nodes = cluster({"a": 4, "b": 2, "x": 1, "y": 3})
    nodes[1].set_node(node("b", labels={"n": "b"}))
    scores = _only("a", "b", "x").scores(wanting(constraint(_HOST, soft=True)), Nodes(*nodes))
    assert scores == {"a": 16, "b": 0, "x": 100}


def test_default_spreading_uses_services() -> None:
    """As if by node with a skew of 3: the nodes have no zone."""
    nodes = cluster({"a": 4, "b": 3, "x": 2, "y": 1})
    selectors = [{"matchLabels": {"foo": ""}}]
    scoring = Algorithm([], {"PodTopologySpread": 1})
    spread = scoring.scores(labelled("p", "foo"), Nodes(*nodes, selectors=selectors))
    assert spread == {"a": 44, "b": 66, "x": 77, "y": 100}
    alone = scoring.scores(labelled("p", "foo"), Nodes(*nodes))
    assert alone == {"a": 0, "b": 0, "x": 0, "y": 0}


@pytest.mark.parametrize(
    ("kind", "api_version", "found"),
    [
        ("ReplicaSet", "apps/v1", ("ReplicaSet", "web")),
        ("StatefulSet", "apps/v1", ("StatefulSet", "web")),
        ("ReplicationController", "v1", ("ReplicationController", "web")),
        ("Job", "batch/v1", None),
        ("ReplicaSet", "example.com/v1", None),
    ],
)
def test_only_spreading_controllers_are_found(
    kind: str, api_version: str, found: tuple[str, str] | None
) -> None:
    other = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "other"}
    owner = {"kind": kind, "apiVersion": api_version, "name": "web", "controller": True}
    assert find_spreading_controller({"metadata": {"ownerReferences": [other, owner]}}) == found
    assert find_spreading_controller({"metadata": {}}) is None


def test_spread_selectors_are_of_services_and_controller() -> None:
    one = labelled("p", "foo")
    services: list[dict[str, Any]] = [
        {"spec": {"selector": {"foo": ""}}},
        {"spec": {"selector": {"bar": ""}}},
        {"spec": {"selector": None}},
        {"spec": {}},
    ]
    by_service = {"matchLabels": {"foo": ""}}
    assert collect_spread_selectors(one, services, None) == [by_service]
    replica_set = {"spec": {"selector": _FOO}}
    assert collect_spread_selectors(one, [], replica_set) == [_FOO]
    controller = {"spec": {"selector": {"foo": ""}}}
    assert collect_spread_selectors(one, services, controller) == [by_service, by_service]


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (
            constraint() | {"whenUnsatisfiable": "Perhaps"},
            "spec.topologySpreadConstraints[0].whenUnsatisfiable='Perhaps' (from pod default/p) is "
            "not valid: use one of DoNotSchedule, ScheduleAnyway",
        ),
        (
            constraint() | {"topologyKey": ""},
            "spec.topologySpreadConstraints[0].topologyKey='' (from pod default/p) is not valid: "
            "use a string",
        ),
        (
            constraint() | {"maxSkew": "1"},
            "spec.topologySpreadConstraints[0].maxSkew='1' (from pod default/p) is not valid: "
            "use a whole number",
        ),
        (
            constraint(selector={"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator='Gt' "
            "(from pod default/p) is not valid: use one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            constraint(selector={"matchLabels": {"a": 1}}),
            "spec.topologySpreadConstraints[0].labelSelector.matchLabels.a=1 (from pod default/p) "
            "is not valid: use a string",
        ),
    ],
)
def test_invalid_fields_are_named(bad: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidPod) as caught:
        _SPREAD.feasible(wanting(bad), Nodes(info()))
    assert str(caught.value) == text

"""Re-expressed from the tests of noderesources, imagelocality, nodeaffinity and tainttoleration."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.scheduler.algorithm import DEFAULT_PRIORITIES, Algorithm, InvalidPod, NodeInfo
from tests.objects import pod
from tests.scheduler.nodes import Nodes, info

_MEBIBYTE = 1024 * 1024


def requests(*amounts: tuple[str, str], **spec: Any) -> dict[str, Any]:
    """Return a pod with one container per (cpu, memory)."""
    made = pod("p", **spec)
    made["spec"]["containers"] = [
        {"resources": {"requests": {"cpu": cpu, "memory": memory}}} for cpu, memory in amounts
    ]
    return made


def sized(cpu: str, memory: str, *on: tuple[str, str], name: str = "n1") -> NodeInfo:
    made = info(name=name, cpu=cpu, memory=memory, pods="110")
    for number, one in enumerate(on):
        there = requests(one)
        there["metadata"]["uid"] = f"{name}-{number}"
        made.add(there)
    return made


def scores(priority: str, wanted: dict[str, Any], *nodes: NodeInfo) -> list[int]:
    return [*Algorithm([], {priority: 1}).scores(wanted, Nodes(*nodes)).values()]


_TWO = requests(("1000", "2000"), ("2000", "3000"))


@pytest.mark.parametrize(
    ("wanted", "on", "score"),
    [
        (_TWO, sized("4000", "10000"), 37),
        (_TWO, sized("6000", "10000"), 50),
        (_TWO, sized("10000", "20000", ("3000", "0")), 57),
        (_TWO, sized("10000", "20000", ("3000", "5000")), 45),
        (_TWO, sized("10000", "50000", ("3000", "5000")), 60),
        (requests(("3000", "0")), sized("4000", "10000", ("3000", "0")), 50),
        (requests(("3000", "0")), sized("4000", "10000", ("3000", "5000")), 25),
        (_TWO, sized("0", "0"), 0),
        (_TWO, sized("4000", "0"), 25),
        # Pod-level requests are left out.
        (requests(("0", "0"), resources={"requests": {"cpu": "3"}}), sized("4", "10000"), 100),
        # 100m and 200 MiB are assumed of 2 cores and 4 GiB.
        (pod(), info(), 95),
        (pod(), info(pod("there")), 90),
    ],
)
def test_least_allocated_scores_emptier_node_higher(
    wanted: dict[str, Any], on: NodeInfo, score: int
) -> None:
    assert scores("NodeResourcesFit", wanted, on) == [score]


@pytest.mark.parametrize(
    ("wanted", "on", "score"),
    [
        # Without requests there is no score.
        (pod(), sized("10", "10000", ("3", "0")), 0),
        # 75 and 50 % used after, nothing before: 87 against 100.
        (requests(("3", "5000")), sized("4", "10000"), 68),
        (requests(("3", "5000")), sized("6", "10000"), 75),
        # 60 and 25 % after, 30 and 0 before.
        (requests(("3", "5000")), sized("10", "20000", ("3", "0")), 73),
        # More even than before.
        (requests(("0", "3000")), sized("10", "10000", ("3", "0")), 82),
        # More than the node has counts as all of it.
        (requests(("9", "0")), sized("4", "10000"), 50),
        (requests(("1", "1")), sized("4", "0"), 75),
        (requests(("1", "1")), sized("0", "0"), 75),
    ],
)
def test_evenly_used_nodes_score_higher(wanted: dict[str, Any], on: NodeInfo, score: int) -> None:
    assert scores("NodeResourcesBalancedAllocation", wanted, on) == [score]


def _with_images(name: str, **sizes: int) -> NodeInfo:
    made = info(name=name)
    images = [
        {"names": [f"example.org/{image}:latest", f"example.org/{image}:v1"], "sizeBytes": size}
        for image, size in sizes.items()
    ]
    made.set_node({**made.node, "status": {**made.node["status"], "images": images}})
    return made


def _running(*images: str, **spec: Any) -> dict[str, Any]:
    made = pod("p", **spec)
    made["spec"]["containers"] = [{"image": f"example.org/{image}"} for image in images]
    return made


_A = _with_images("a", i40=40 * _MEBIBYTE, i300=300 * _MEBIBYTE, i2000=2000 * _MEBIBYTE)
_B = _with_images("b", i250=250 * _MEBIBYTE, i10=10 * _MEBIBYTE)


@pytest.mark.parametrize(
    ("wanted", "on", "expected"),
    [
        (_running("i40", "i250"), (_A, _B), [0, 5]),
        (_running("i40", "i300"), (_A, _B), [7, 0]),
        (_running("i2000", "i10"), (_A, _B), [49, 0]),
        (_running("i2000:v1"), (_A, _B), [100, 0]),
        (_running("i40", "i300", "i2000"), (_A, info(name="c"), info(name="d")), [25, 0, 0]),
        (_running("none"), (_A, _B), [0, 0]),
        (
            _running("none", volumes=[{"image": {"reference": "example.org/i300"}}]),
            (_A, _B),
            [12, 0],
        ),
        (_running("none", initContainers=[{"image": "example.org/i300"}]), (_A, _B), [6, 0]),
    ],
)
def test_nodes_with_large_images_of_the_pod_score_higher(
    wanted: dict[str, Any], on: tuple[NodeInfo, ...], expected: list[int]
) -> None:
    assert scores("ImageLocality", wanted, *on) == expected


def _preferring(*terms: tuple[int, str, str]) -> dict[str, Any]:
    preferred = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
        }
        for weight, key, value in terms
    ]
    return pod(
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    )


_PLACES = (
    info(name="a", labels={"foo": "bar"}),
    info(name="b", labels={"foo": "bar", "zone": "1", "az": "2"}),
    info(name="c", labels={"zone": "1"}),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod(), [0, 0, 0]),
        (_preferring((2, "foo", "bar")), [100, 100, 0]),
        (_preferring((2, "foo", "bar"), (4, "zone", "1"), (5, "az", "2")), [18, 100, 36]),
        (_preferring((2, "foo", "none")), [0, 0, 0]),
        (_preferring((0, "foo", "bar")), [0, 0, 0]),
    ],
)
def test_preferred_nodes_score_by_weight(wanted: dict[str, Any], expected: list[int]) -> None:
    assert scores("NodeAffinity", wanted, *_PLACES) == expected


def test_invalid_preference_raises_only_when_scored() -> None:
    wanted = _preferring((1, "foo", "bar"))
    (term,) = wanted["spec"]["affinity"]["nodeAffinity"].popitem()[1]
    term["preference"]["matchExpressions"][0] |= {"operator": "Gt"}
    wanted["spec"]["affinity"]["nodeAffinity"] = {
        "preferredDuringSchedulingIgnoredDuringExecution": [term]
    }
    assert Algorithm().schedule(wanted, Nodes(_PLACES[0])) == "a"
    with pytest.raises(InvalidPod) as caught:
        Algorithm().schedule(wanted, Nodes(*_PLACES))
    assert str(caught.value) == (
        "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
        "matchExpressions[0].values=['bar'] (from pod default/p) is not valid: "
        "Gt compares with one whole number"
    )


def _tainted(name: str, *keys: str) -> NodeInfo:
    taints = [{"key": key, "value": "1", "effect": "PreferNoSchedule"} for key in keys]
    return info(name=name, taints=taints)


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], [100, 50, 0]),
        ([{"key": "a", "value": "1"}], [100, 100, 0]),
        ([{"operator": "Exists"}], [100, 100, 100]),
        ([{"operator": "Exists", "effect": "PreferNoSchedule"}], [100, 100, 100]),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [100, 50, 0]),
    ],
)
def test_nodes_with_prefer_no_schedule_taints_score_lower(
    tolerations: list[dict[str, str]], expected: list[int]
) -> None:
    nodes = (_tainted("a"), _tainted("b", "a"), _tainted("c", "a", "b"))
    assert scores("TaintToleration", pod(tolerations=tolerations), *nodes) == expected


def test_default_weights_match_upstream() -> None:
    assert DEFAULT_PRIORITIES == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    on = info()
    # Three times 100 for no taint, 62 for free resources, 68 for balance.
    assert Algorithm().scores(pod(cpu="1", memory="1Gi"), Nodes(on)) == {"n1": 300 + 62 + 68}

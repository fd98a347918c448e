"""Re-expressed from framework/plugins/interpodaffinity/filtering_test.go and scoring_test.go."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.scheduler.algorithm import Algorithm, FitError, InvalidPod, NodeInfo
from tests.objects import pod
from tests.scheduler.nodes import Nodes, info

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = Algorithm(["InterPodAffinity"], {"InterPodAffinity": 1})
_NAMESPACES = {"default": {}, "red": {"team": "red"}, "blue": {"team": "blue"}}


def term(key: str = "region", selector: Any = None, **more: Any) -> dict[str, Any]:
    default = {"matchExpressions": [{"key": "service", "operator": "In", "values": ["web"]}]}
    return {"topologyKey": key, "labelSelector": default if selector is None else selector, **more}


def weighted(*terms: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    return {_PREFERRED: [{"weight": weight, "podAffinityTerm": one} for weight, one in terms]}


def beside(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {_REQUIRED: list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {_REQUIRED: list(terms)}}


def served_pod(
    name: str = "p",
    service: str = "web",
    *,
    namespace: str = "default",
    affinity: Any = None,
    **labels: str,
) -> dict[str, Any]:
    labels = {"service": service, **labels}
    return pod(name, namespace=namespace, labels=labels, affinity=affinity)


def nodes(*pods_on: list[dict[str, Any]], regions: str = "aab") -> Nodes:
    """Return nodes n0, n1, … with these pods; the first two are in region a, the third in b."""
    found: list[NodeInfo] = []
    for number, (pods, region) in enumerate(zip(pods_on, regions, strict=False)):
        labels = {"host": f"n{number}", "region": region}
        found.append(info(*pods, name=f"n{number}", labels=labels, pods="110"))
    return Nodes(*found, namespaces=_NAMESPACES)


_WEB = [served_pod("there")]
_DB = [served_pod("there", "db")]
_ELSEWHERE = [served_pod("there", namespace="red")]


def _selecting(**expression: Any) -> dict[str, Any]:
    return {"matchExpressions": [expression]}


@pytest.mark.parametrize(
    ("wanted", "on_first", "fitting"),
    [
        pytest.param(served_pod(), _WEB, "012", id="asks for nothing"),
        pytest.param(served_pod(affinity=beside(term())), _WEB, "01", id="beside, in its region"),
        pytest.param(
            served_pod(affinity=beside(term("host"))), _WEB, "0", id="beside, on its node"
        ),
        pytest.param(served_pod(affinity=beside(term("rack"))), _WEB, "", id="label on no node"),
        pytest.param(served_pod("p", "db", affinity=beside(term())), _DB, "", id="no pod there"),
        pytest.param(served_pod(affinity=beside(term())), _DB, "012", id="the first of its kind"),
        pytest.param(
            served_pod(affinity=beside(term(), term("host", {"matchLabels": {"service": "db"}}))),
            _WEB,
            "",
            id="no pod is meant by both terms",
        ),
        pytest.param(served_pod(affinity=beside(term())), _ELSEWHERE, "012", id="own namespace"),
        pytest.param(
            served_pod(affinity=beside(term(namespaces=["red"]))), _ELSEWHERE, "01", id="named"
        ),
        pytest.param(
            served_pod(affinity=beside(term(namespaceSelector={"matchLabels": {"team": "red"}}))),
            _ELSEWHERE,
            "01",
            id="namespace by label",
        ),
        pytest.param(
            served_pod(affinity=beside(term(namespaceSelector={"matchLabels": {"team": "blue"}}))),
            _ELSEWHERE,
            "",
            id="namespace by other label",
        ),
        pytest.param(
            served_pod(affinity=beside(term(namespaceSelector={}))), _ELSEWHERE, "01", id="any one"
        ),
        pytest.param(served_pod(affinity=apart(term())), _WEB, "2", id="apart, in its region"),
        pytest.param(served_pod(affinity=apart(term("host"))), _WEB, "12", id="apart, on its node"),
        pytest.param(served_pod(affinity=apart(term("rack"))), _WEB, "012", id="apart, no place"),
        pytest.param(served_pod(affinity=apart(term())), _DB, "012", id="apart from others"),
        pytest.param(
            served_pod(affinity=apart(term("host"), term("region", {"matchLabels": {"x": "y"}}))),
            _WEB,
            "12",
            id="apart by one of two terms",
        ),
        pytest.param(
            # Selectors that hold without any label mean all namespaces; so does kube-scheduler.
            served_pod(
                affinity=apart(
                    term(namespaceSelector=_selecting(key="team", operator="DoesNotExist"))
                )
            ),
            _ELSEWHERE,
            "2",
            id="namespaces without a label",
        ),
        pytest.param(
            served_pod(revision="2", affinity=apart(term(matchLabelKeys=["revision"]))),
            [served_pod("there", revision="1")],
            "012",
            id="apart from its own revision",
        ),
        pytest.param(
            served_pod(revision="1", affinity=apart(term(mismatchLabelKeys=["revision"]))),
            [served_pod("there", revision="1")],
            "012",
            id="apart from other revisions",
        ),
        pytest.param(
            served_pod(revision="2", affinity=apart(term(mismatchLabelKeys=["revision"]))),
            [served_pod("there", revision="1")],
            "2",
            id="apart from that revision",
        ),
    ],
)
def test_node_fits_by_pods_in_its_domain(
    wanted: dict[str, Any], on_first: list[dict[str, Any]], fitting: str
) -> None:
    cluster = nodes(on_first, [], [])
    assert _AFFINITY.feasible(wanted, cluster) == [f"n{number}" for number in fitting]


@pytest.mark.parametrize(
    ("there", "fitting"),
    [
        (served_pod("there", "db", namespace="red", affinity=apart(term())), "2"),
        (served_pod("there", "db", namespace="red", affinity=apart(term("host"))), "12"),
        (served_pod("there", "db", namespace="red", affinity=apart(term("rack"))), "012"),
        (served_pod("there", "db", namespace="red", affinity=beside(term())), "012"),
        (served_pod("there", namespace="blue", affinity=apart(term())), "012"),
        (served_pod("there", namespace="blue", affinity=apart(term(namespaces=["red"]))), "2"),
        (
            served_pod(
                "there",
                affinity=apart(term(namespaceSelector={"matchLabels": {"team": "red"}})),
            ),
            "2",
        ),
        (
            served_pod(
                "there",
                affinity=apart(
                    term(namespaceSelector=_selecting(key="team", operator="DoesNotExist"))
                ),
            ),
            "012",
        ),
    ],
)
def test_existing_anti_affinity_rejects_pods(there: dict[str, Any], fitting: str) -> None:
    newcomer = served_pod(namespace="red")
    cluster = nodes([there], [], [])
    assert _AFFINITY.feasible(newcomer, cluster) == [f"n{number}" for number in fitting]
    cluster.list()[0].remove(there)
    assert _AFFINITY.feasible(newcomer, cluster) == ["n0", "n1", "n2"]


def test_rejection_reasons_match_upstream() -> None:
    keeping = served_pod("there", "db", affinity=apart(term("host")))
    cluster = nodes([keeping], [served_pod("web")], [])
    wanted = served_pod(affinity=beside(term()) | apart(term("host")))
    with pytest.raises(FitError) as caught:
        _AFFINITY.schedule(wanted, cluster)
    assert str(caught.value) == (
        "0/3 nodes are available: 1 node(s) didn't match pod affinity rules, 1 node(s) didn't "
        "match pod anti-affinity rules, 1 node(s) didn't satisfy existing pods anti-affinity "
        "rules. no new claims to deallocate, preemption: 0/3 nodes are available: 1 Preemption is "
        "not helpful for scheduling, 2 No preemption victims found for incoming pod."
    )


def test_namespaces_without_labels_have_the_name_label() -> None:
    class Bare:
        def list(self) -> list[NodeInfo]:
            return [info(*_ELSEWHERE, name="n0", labels={"host": "n0"})]

    named = {"matchLabels": {"kubernetes.io/metadata.name": "red"}}
    wanted = served_pod(affinity=apart(term("host", namespaceSelector=named)))
    assert _AFFINITY.feasible(wanted, Bare()) == []
    other = {"matchLabels": {"kubernetes.io/metadata.name": "blue"}}
    wanted = served_pod(affinity=apart(term("host", namespaceSelector=other)))
    assert _AFFINITY.feasible(wanted, Bare()) == ["n0"]


def test_missing_namespace_does_not_match() -> None:
    lost = served_pod("there", namespace="lost")
    wanted = served_pod(affinity=beside(term(namespaceSelector={"matchLabels": {"team": "red"}})))
    assert _AFFINITY.feasible(wanted, nodes([lost], [], [])) == []


_SCORED = served_pod(affinity={"podAffinity": weighted((5, term()))})


@pytest.mark.parametrize(
    ("wanted", "pods_on", "scores"),
    [
        pytest.param(served_pod(), ([served_pod("a")], [], []), "0/0/0", id="asks for nothing"),
        pytest.param(_SCORED, ([served_pod("a")], [], []), "100/100/0", id="beside, by region"),
        pytest.param(
            _SCORED,
            ([served_pod("a"), served_pod("b")], [], [served_pod("c")]),
            "100/100/0",
            id="the region with more",
        ),
        pytest.param(
            served_pod(affinity={"podAffinity": weighted((8, term("host")), (2, term("region")))}),
            ([], [served_pod("a")], []),
            "20/100/0",
            id="two terms",
        ),
        pytest.param(
            served_pod(affinity={"podAntiAffinity": weighted((5, term("host")))}),
            ([served_pod("a")], [], []),
            "0/100/100",
            id="apart",
        ),
        pytest.param(
            served_pod(),
            (
                [served_pod("a", "db", affinity={"podAffinity": weighted((5, term("host")))})],
                [served_pod("b", "db", affinity={"podAffinity": weighted((10, term("host")))})],
                [],
            ),
            "50/100/0",
            id="wanted by those there",
        ),
        pytest.param(
            served_pod(),
            (
                [served_pod("a", "db", affinity={"podAntiAffinity": weighted((5, term("host")))})],
                [],
                [],
            ),
            "0/100/100",
            id="not wanted by those there",
        ),
        pytest.param(
            served_pod(),
            ([served_pod("a", "db", affinity=beside(term()))], [], []),
            "100/100/0",
            id="required by those there",
        ),
        pytest.param(
            served_pod(
                affinity={
                    "podAffinity": weighted((8, term("region"))),
                    "podAntiAffinity": weighted((5, term("host"))),
                }
            ),
            ([served_pod("a")], [], []),
            "37/100/0",
            id="in the region, not on the node",
        ),
    ],
)
def test_domains_score_by_their_pods(
    wanted: dict[str, Any], pods_on: tuple[list[dict[str, Any]], ...], scores: str
) -> None:
    expected = {f"n{number}": int(score) for number, score in enumerate(scores.split("/"))}
    scoring = Algorithm([], {"InterPodAffinity": 1})
    assert scoring.scores(wanted, nodes(*pods_on)) == expected


@pytest.mark.parametrize(
    ("affinity", "text"),
    [
        (
            beside({"labelSelector": {}}),
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]."
            "topologyKey=None (from pod default/p) is not valid: use a string",
        ),
        (
            apart(term(selector={"matchExpressions": [{"key": "a", "operator": "Like"}]})),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]."
            "labelSelector.matchExpressions[0].operator='Like' (from pod default/p) is not valid: "
            "use one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            {"podAffinity": {_PREFERRED: [{"weight": "1", "podAffinityTerm": term()}]}},
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]."
            "weight='1' (from pod default/p) is not valid: use a whole number",
        ),
        (
            apart(term(namespaces="red")),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]."
            "namespaces='red' (from pod default/p) is not valid: use a list of strings",
        ),
    ],
)
def test_invalid_fields_are_named(affinity: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidPod) as caught:
        _AFFINITY.feasible(served_pod(affinity=affinity), nodes([], [], []))
    assert str(caught.value) == text

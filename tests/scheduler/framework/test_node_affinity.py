"""Node selector terms: which nodes match, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.scheduler.framework.node_affinity import (
    NodeSelectorTerm,
    RequiredNodeAffinity,
    read_preferred_node_affinity,
)
from pytest_kwait.scheduler.framework.object_fields import InvalidObject

if TYPE_CHECKING:
    from collections.abc import Sequence

LABELS = {"disk": "ssd", "cores": "8"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


def named(operator: str, *names: str) -> dict[str, Any]:
    return {
        "matchFields": [{"key": "metadata.name", "operator": operator, "values": [*names]}],
    }


def required(*terms: dict[str, Any], **spec: Any) -> dict[str, Any]:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}
    return {"affinity": affinity, **spec}


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        ({}, False),
        (label("disk", "In", "hdd", "ssd"), True),
        (label("disk", "In", "hdd"), False),
        (label("rack", "In", "a"), False),
        (label("disk", "NotIn", "hdd"), True),
        (label("disk", "NotIn", "ssd"), False),
        (label("rack", "NotIn", "a"), True),
        (label("disk", "Exists"), True),
        (label("rack", "Exists"), False),
        (label("rack", "DoesNotExist"), True),
        (label("disk", "DoesNotExist"), False),
        (label("cores", "Gt", "7"), True),
        (label("cores", "Gt", "8"), False),
        (label("cores", "Lt", "+9"), True),
        (label("cores", "Lt", "-1"), False),
        (label("disk", "Gt", "1"), False),
        (label("rack", "Lt", "1"), False),
        (named("In", "n1", "n2"), True),
        (named("NotIn", "n1"), False),
        ({**label("disk", "Exists"), **named("In", "n2")}, False),
        ({**label("rack", "Exists"), **named("In", "n1")}, False),
    ],
)
def test_a_term_matches_a_node_by_its_labels_and_its_name(
    term: dict[str, Any], matches: bool
) -> None:
    assert NodeSelectorTerm(term, "term").matches("n1", LABELS) is matches


@pytest.mark.parametrize("values", [(), ("many",), ("1", "2"), ("1.5",), ("٣",)])
def test_a_comparison_with_no_number_never_matches(values: Sequence[str]) -> None:
    term = NodeSelectorTerm(label("cores", "Gt", *values), "term")
    assert not term.matches("n1", LABELS)
    assert str(term.unreadable) == (
        f"term.matchExpressions[0].values={[*values]!r} is not valid: "
        "Gt compares with one whole number"
    )


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (label("disk", "Is", "ssd"), (
            "term.matchExpressions[0].operator='Is' is not valid: "
            "use one of In, NotIn, Exists, DoesNotExist, Gt, Lt"
        )),
        (named("Exists"), (
            "term.matchFields[0].operator='Exists' is not valid: use one of In, NotIn"
        )),
        ({"matchExpressions": ["disk"]}, (
            "term.matchExpressions[0]='disk' is not valid: use a mapping"
        )),
        ({"matchFields": {}}, "term.matchFields={} is not valid: use a list"),
    ],
)  # fmt: skip
def test_an_invalid_term_is_refused(term: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        NodeSelectorTerm(term, "term")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, None),
        (required(named("In", "n1", "n2")), {"n1", "n2"}),
        (required(named("In", "n1"), named("In", "n2")), {"n1", "n2"}),
        (required({"matchFields": [*named("In", "n1", "n2")["matchFields"],
                                   *named("In", "n2", "n3")["matchFields"]]}), {"n2"}),
        (required(named("In", "n1"), label("disk", "Exists")), None),
        (required(named("NotIn", "n1")), None),
        (required(), None),
    ],
)  # fmt: skip
def test_the_only_nodes_that_an_affinity_can_match(
    spec: dict[str, Any], names: set[str] | None
) -> None:
    assert RequiredNodeAffinity(spec).names == names


@pytest.mark.parametrize(
    ("spec", "exists", "matches"),
    [
        ({}, False, True),
        ({"nodeSelector": {"disk": "ssd"}}, True, True),
        ({"nodeSelector": {"disk": "hdd"}}, True, False),
        (required(label("rack", "Exists"), label("disk", "Exists")), True, True),
        (required(label("disk", "Exists"), nodeSelector={"disk": "hdd"}), True, False),
        (required(), True, False),
    ],
)
def test_required_affinity_is_the_selector_and_one_of_its_terms(
    spec: dict[str, Any], exists: bool, matches: bool
) -> None:
    affinity = RequiredNodeAffinity(spec)
    assert (bool(affinity), affinity.matches("n1", LABELS)) == (exists, matches)


def test_preferred_terms_have_weights_and_requirements() -> None:
    terms = [
        {"weight": 5, "preference": label("disk", "Exists")},
        {"weight": 0, "preference": label("disk", "Exists")},
        {"weight": 7, "preference": {}},
    ]
    ((weight, term),) = read_preferred_node_affinity(
        {"affinity": {"nodeAffinity": {PREFERRED: terms}}}
    )
    assert weight == 5
    assert term.matches("n1", LABELS)
    assert read_preferred_node_affinity({}) == []

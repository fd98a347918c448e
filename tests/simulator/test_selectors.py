from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.selectors import format_label_selector, matches_label_selector
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.scheme import Scheme
from pytest_kwait.simulator.selectors import parse_fields, parse_labels

LABELS = {"tier": "front", "n": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("", True),
        ("tier=front", True),
        ("tier==front", True),
        ("tier=back", False),
        ("tier!=back", True),
        ("none!=back", True),
        ("tier in (front, back)", True),
        ("tier in (a,b),n", False),
        ("tier notin (front)", False),
        ("none notin (front)", True),
        ("tier", True),
        ("none", False),
        ("!none", True),
        ("! tier", False),
        ("n>4", True),
        ("n<5", False),
        ("tier>4", False),
        ("empty=", True),
        ("empty in ()", True),
        ("empty in (,)", True),
        ("tier in (in,front)", True),
        ("none=", False),
    ],
)
def test_selectors_match_as_upstream(text: str, matched: bool) -> None:
    assert parse_labels(text).matches(LABELS) is matched


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        (
            "a bogus x",
            "unable to parse requirement: found 'bogus', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("a in front", "unable to parse requirement: found 'front' expected: '('"),
        ("a in (front", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a==)", "unable to parse requirement: found ')', expected: identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' "
            "operators, the value must be an integer",
        ),
    ],
)
def test_invalid_selector_errors_equal_upstreams(text: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_labels(text)
    assert refused.value.code == 400
    assert refused.value.message == message


def test_selector_objects_match_and_spell_themselves() -> None:
    selector = {
        "matchLabels": {"tier": "front"},
        "matchExpressions": [
            {"key": "n", "operator": "In", "values": ["5", "4"]},
            {"key": "empty", "operator": "Exists"},
            {"key": "none", "operator": "DoesNotExist"},
            {"key": "tier", "operator": "NotIn", "values": ["back"]},
        ],
    }
    assert matches_label_selector(selector, LABELS)
    assert not matches_label_selector(selector, {"tier": "front"})
    assert not matches_label_selector(None, LABELS)
    assert format_label_selector(selector) == "empty,n in (4,5),!none,tier=front,tier notin (back)"


KINDS = Scheme()
POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "n"},
    "spec": {"nodeName": "x", "hostNetwork": True},
    "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}]},
}


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name=a,", True),
        ("metadata.name!=a", False),
        ("spec.nodeName==x,status.phase!=Failed", True),
        ("spec.nodeName=", False),
        ("spec.hostNetwork=true", True),
        ("status.podIPs=1.2.3.4", True),
        ("status.nominatedNodeName=", True),
        ("metadata.name=a\\,b", False),
    ],
)
def test_pods_are_selected_by_their_fields(text: str, matched: bool) -> None:
    assert parse_fields(text, KINDS["pods"]).matches(POD) is matched


def test_name_selector_yields_one_name() -> None:
    assert parse_fields("metadata.name=a", KINDS["pods"]).name == "a"
    assert parse_fields("metadata.name!=a", KINDS["pods"]).name is None


@pytest.mark.parametrize(
    ("resource", "text", "message"),
    [
        ("pods", "spec.x=y", "field label not supported: spec.x"),
        ("jobs.batch", "status.active=1", 'field label "status.active" not supported for Job'),
        ("nodes", "metadata.namespace=n", "field label not supported: metadata.namespace"),
        (
            "resourceslices.resource.k8s.io",
            "spec.x=y",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x",
        ),
        ("events.events.k8s.io", "source=x", "field label not supported: source"),
        (
            "configmaps",
            "data.a=b",
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("pods", "nope", "invalid selector: 'nope'; can't understand 'nope'"),
        ("pods", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ("pods", "metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("pods", "metadata.name=\\a", "invalid field selector: invalid escape sequence: \\a"),
    ],
)
def test_unsupported_fields_are_refused(resource: str, text: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_fields(text, KINDS[resource])
    assert refused.value.code == 400
    assert refused.value.message == message


def test_events_of_the_newer_group_go_by_their_newer_names() -> None:
    event = {"involvedObject": {"name": "x"}, "source": {"component": "kubelet"}}
    selector = parse_fields("regarding.name=x", KINDS["events.events.k8s.io"])
    assert selector.matches(event)
    assert parse_fields("source=kubelet", KINDS["events"]).matches(event)


def test_a_count_that_is_not_there_is_zero() -> None:
    assert parse_fields("status.successful=0", KINDS["jobs.batch"]).matches({"status": {}})

from __future__ import annotations

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.selectors import format_selector, matches_selector, parse_labels

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
def test_what_is_no_selector_is_refused_in_upstreams_words(text: str, message: str) -> None:
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
    assert matches_selector(selector, LABELS)
    assert not matches_selector(selector, {"tier": "front"})
    assert not matches_selector(None, LABELS)
    assert format_selector(selector) == "empty,n in (4,5),!none,tier=front,tier notin (back)"

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.selectors import (
    compile_label_selector,
    format_label_selector,
    get_labels,
    normalize_field_selector,
    normalize_label_selector,
)
from pytest_kwait.errors import InvalidArgument


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "app=web",
        "app==web",
        "app!=web",
        "app=",
        " app = web , tier ",
        "!old",
        "! old",
        "tier in (a,b)",
        "tier in(a, b)",
        "tier notin (a)",
        "tier in ()",
        "tier in (,a)",
        "n>3,m<4",
        "in=notin",
        "example.com/role=x_Y.z-1,batch.kubernetes.io/controller-uid=0f-1",
        "!y,app=web,tier in (a,b),x,zone notin (c)",
        "a" * 63 + "=" + "b" * 63,
    ],
)
def test_selectors_that_the_server_takes(text: str) -> None:
    assert normalize_label_selector(text) == text


@pytest.mark.parametrize("selector", [None, "", {}])
def test_everything(selector: Any) -> None:
    assert normalize_label_selector(selector) is None


def test_mapping() -> None:
    assert normalize_label_selector({"app": "web", "tier": None}) == "app=web,tier"
    assert normalize_field_selector({"metadata.name": "a"}) == "metadata.name=a"
    assert normalize_field_selector("spec.nodeName=,status.phase!=Running") is not None


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ("app=web,", "found '', expected: identifier after ','"),
        (",app=web", "found ',', expected: !, identifier, or 'end of string'"),
        ("=web", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "found '', expected: identifier"),
        ("app=web=blue", "found '=', expected: ',' or 'end of string'"),
        ("app=a b", "found 'b', expected: ',' or 'end of string'"),
        ("tier in a,b", "found 'a' expected: '('"),
        ("app=web,tier in (a", "found '', expected: ',' or ')'"),
        ("tier in (a=b)", "found '=', expected: ',' or ')'"),
        ("-app=web", "'-app' is not a label key"),
        ("a/b/c=d", "'a/b/c' is not a label key"),
        ("Example.com/a=b", "'Example.com/a' is not a label key"),
        ("app=-web", "'-web' is not a label value"),
        ("app=" + "b" * 64, f"{'b' * 64!r} is not a label value"),
        ("a" * 64, f"{'a' * 64!r} is not a label key"),
        ("n>x", "'x' is not a whole number"),
        ("n<-4", "'-4' is not a label value"),
        ({"app": "a b"}, "'a b' is not a label value"),
        ({"app!": "a"}, "'app!' is not a label key"),
        ({"tier in (a)": None}, "'tier in (a)' is not a label key"),
    ],
)
def test_no_selector(selector: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        normalize_label_selector(selector)
    assert str(caught.value) == (
        f"selector={selector!r} is not valid: {problem}; "
        "a label selector is written like 'app=web,tier in (a,b),!old'"
    )


@pytest.mark.parametrize("value", [3, ["app"], {"app": 3}, {3: "a"}])
def test_neither_text_nor_mapping(value: Any) -> None:
    for text in (normalize_label_selector, normalize_field_selector):
        with pytest.raises(InvalidArgument):
            text(value)


LABELS = {"app": "web", "tier": "front", "empty": "", "weight": "7", "example.com/zone": "a"}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, True),
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier=front", True),
        ("app=web,tier=back", False),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=web", True),
        ("missing=web", False),
        ("empty=", True),
        ("app=", False),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("! app", False),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("missing in (db,)", False),
        ("app notin (db,cache)", True),
        ("app notin (web)", False),
        ("missing notin (web)", True),
        ("app in (web,db),tier notin (back,middle),!missing", True),
        ("example.com/zone in (a,b)", True),
        ("weight>6", True),
        ("weight > 7", False),
        ("weight<8", True),
        ("app<8", False),
        ("missing>1", False),
        ({"app": "web", "tier": None}, True),
        ({"app": "web", "missing": None}, False),
    ],
)
def test_selects_as_the_server_does(selector: Any, selected: bool) -> None:
    assert compile_label_selector(selector)(LABELS) is selected


def test_what_the_server_would_refuse_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        compile_label_selector("app in web")
    assert str(caught.value) == (
        "selector='app in web' is not valid: found 'web' expected: '('; "
        "a label selector is written like 'app=web,tier in (a,b),!old'"
    )


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {"labels": None}}])
def test_an_object_without_labels_has_none(obj: dict[str, Any]) -> None:
    assert get_labels(obj) == {}


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"matchLabels": None, "matchExpressions": None}, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {
                "matchLabels": {"app": "web"},
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["a", "b"]},
                    {"key": "zone", "operator": "NotIn", "values": ["c"]},
                    {"key": "x", "operator": "Exists"},
                    {"key": "y", "operator": "DoesNotExist", "values": None},
                ],
            },
            "app=web,tier in (a,b),x,!y,zone notin (c)",
        ),
    ],
)
def test_label_selector(selector: dict[str, Any] | None, text: str) -> None:
    assert format_label_selector(selector) == text

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.labels import compile_label_selector, get_labels
from pytest_kwait.errors import InvalidArgument

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
        "selector='app in web' is not valid: 'app in web' is no requirement on a label; "
        "a label selector is written like 'app=web,tier in (a,b),!old'"
    )


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {"labels": None}}])
def test_an_object_without_labels_has_none(obj: dict[str, Any]) -> None:
    assert get_labels(obj) == {}

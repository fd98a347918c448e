from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.selectors import normalize_field_selector, normalize_label_selector
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
        "n>3,m<-4",
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
        ("app=web,", "'' is no name of a label"),
        (",app=web", "'' is no name of a label"),
        ("=web", "'' is no name of a label"),
        ("!", "'' is no name of a label"),
        ("app=web=blue", "'app=web=blue' is no requirement on a label"),
        ("app=a b", "'app=a b' is no requirement on a label"),
        ("tier in a,b", "'tier in a,b' is no requirement on a label"),
        ("app=web,tier in (a", "'tier in (a' is no requirement on a label"),
        ("tier in (a=b)", "'a=b' is no value of a label"),
        ("-app=web", "'-app' is no name of a label"),
        ("a/b/c=d", "'a/b/c' is no name of a label"),
        ("Example.com/a=b", "'Example.com/a' is no name of a label"),
        ("app=-web", "'-web' is no value of a label"),
        ("app=" + "b" * 64, f"{'b' * 64!r} is no value of a label"),
        ("a" * 64, f"{'a' * 64!r} is no name of a label"),
        ("n>x", "'x' is no whole number"),
        ({"app": "a b"}, "'a b' is no value of a label"),
        ({"app!": "a"}, "'app!' is no name of a label"),
        ({"tier in (a)": None}, "'tier in (a)' is no name of a label"),
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

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.selectors_part import format_label_selector
from pytest_kwait.engine.targets import Target, parse_target
from pytest_kwait.errors import InvalidArgument


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, None),
        ({}, None),
        ({"matchLabels": None, "matchExpressions": None}, None),
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
            "!y,app=web,tier in (a,b),x,zone notin (c)",
        ),
    ],
)
def test_label_selector(selector: dict[str, Any] | None, text: str | None) -> None:
    assert format_label_selector(selector) == text


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("deployment/web", Target("deployment", "web")),
        ("pods", Target("pods", "")),
        ("widgets.v1.example.com/w", Target("widgets.v1.example.com", "w")),
    ],
)
def test_target(text: str, target: Target) -> None:
    assert parse_target("target", text) == target


@pytest.mark.parametrize("value", ["", "/web", "pods/", "a/b/c", "pods/a b", None, 3])
def test_no_target(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_target("target", value)

    assert str(caught.value) == (
        f"target={value!r} is not valid: use 'kind/name' or 'kind', for example 'deployment/web'"
    )

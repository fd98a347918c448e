from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import V1Node, V1ObjectMeta, V1Pod, V1PodList, V1Service

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import parse_named_uids

_DICT = {"metadata": {"name": "a", "uid": "1"}}
_MODEL = V1Pod(metadata=V1ObjectMeta(name="a", uid="1"))
_USE = "use names or objects of kind Pod, or a list of these, such as a PodList"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("abc", {"abc": ""}),
        (["abc", "b"], {"abc": "", "b": ""}),
        (("b", _DICT, _MODEL), {"b": "", "a": "1"}),
        (_DICT, {"a": "1"}),
        (_MODEL, {"a": "1"}),
        ({"kind": "PodList", "items": [_DICT, {"metadata": {"name": "b"}}]}, {"a": "1", "b": ""}),
        ({"kind": "List", "items": []}, {}),
        (V1PodList(items=[_MODEL]), {"a": "1"}),
        (V1PodList(items=[]), {}),
        ([], {}),
        ((name for name in ("a", "b")), {"a": "", "b": ""}),
        ({"kind": "Pod", **_DICT}, {"a": "1"}),
    ],
)
def test_names_objects_models_and_lists_are_taken(given: Any, named: dict[str, str]) -> None:
    assert parse_named_uids("pods", given, "Pod", empty=True) == named


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (3, f"pods=3 is not valid: {_USE}"),
        (None, f"pods=None is not valid: {_USE}"),
        (b"abc", f"pods=b'abc' is not valid: {_USE}"),
        ({"web": 1}, f"pods=<object without a name> is not valid: {_USE}"),
        ([None], f"pods=None is not valid: {_USE}"),
        ([["a"]], f"pods=['a'] is not valid: {_USE}"),
        ({"kind": "Node", **_DICT}, f"pods=<Node a> is not valid: {_USE}"),
        (
            {"kind": "NodeList", "items": [_DICT]},
            f"pods=<NodeList without a name> is not valid: {_USE}",
        ),
        (
            V1Node(kind="Node", metadata=V1ObjectMeta(name="n")),
            f"pods=<Node n> is not valid: {_USE}",
        ),
        (V1Service(), f"pods=<Service without a name> is not valid: {_USE}"),
        ([V1Pod()], f"pods=<Pod without a name> is not valid: {_USE}"),
        (
            "Abc",
            "pods='Abc' is not valid: use a DNS name: up to 253 lower-case letters, digits, '-' "
            "and '.', with a letter or digit at both ends of each part",
        ),
    ],
)
def test_other_values_are_refused_without_a_dump(given: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_named_uids("pods", given, "Pod", empty=True)
    assert str(caught.value) == text


def test_an_empty_list_is_refused_where_one_is_needed() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_named_uids("pods", V1PodList(items=[]), "Pod")
    assert str(caught.value) == "pods=[] is not valid: at least one Pod is needed"


def test_an_object_of_another_namespace_is_refused() -> None:
    there = {"kind": "Pod", "metadata": {"name": "a", "namespace": "b", "uid": "1"}}
    assert parse_named_uids("pods", there, "Pod", namespace="b") == {"a": "1"}
    assert parse_named_uids("pods", _DICT, "Pod", namespace="b") == {"a": "1"}
    with pytest.raises(InvalidArgument) as caught:
        parse_named_uids("pods", [there], "Pod", namespace="c")
    assert str(caught.value) == (
        "pods=<Pod a> is not valid: it is of namespace b; use objects of c, or another namespace="
    )

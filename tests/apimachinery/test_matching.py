from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.matching import MAX_DEPTH, check_tree, compare

READY = {"type": "Ready", "status": "True", "reason": "R"}
SEEN: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web"}, "finalizers": []},
    "spec": {
        "replicas": 3,
        "paused": False,
        "containers": [{"name": "a", "image": "i:1"}, {"name": "b", "args": ["x", "(y)"]}],
    },
    "status": {"conditions": [{"type": "Available", "status": "False"}, READY], "ratio": 1.0},
}


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"spec": {"replicas": 3}},
        {"spec": {"replicas": 3.0, "paused": False, "missing": None}},
        {"metadata": {"labels": {"app.kubernetes.io/name": "web"}, "finalizers": []}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}], "ratio": 1}},
        {"spec": {"containers": [{"name": "b"}]}},
        {"spec": {"containers": [{"name": "b", "args": ["x", "\\(y)"]}]}},
        {"spec": {"containers": [{"image": "i:1"}, {}]}},
        {"spec": {"replicas": "(@ > `2`)", "missing": None}},
        {"spec": {"(length(containers))": 2, "(replicas > `2`)": True}},
        {"(status.conditions[?type=='Ready'])": [{"status": "True"}]},
        {"(status.conditions[?type=='Ready'].status | [0])": "True"},
        {"spec": {"~.containers": {"name": "(length(@) == `1`)"}}},
        {"~.(spec.containers[*].name)": "(contains(['a', 'b'], @))"},
        {"metadata": {"~.labels": "web", "ownerReferences": {"a": {"b": None}}}},
    ],
)
def test_match(tree: Any) -> None:
    check_tree(tree)
    assert compare(tree, SEEN) == []


@pytest.mark.parametrize(
    ("tree", "differences"),
    [
        ({"spec": {"replicas": 1}}, ["spec.replicas is 3, awaited 1"]),
        ({"spec": {"replicas": "3"}}, ['spec.replicas is 3, awaited "3"']),
        ({"spec": {"paused": 0}}, ["spec.paused is false, awaited 0"]),
        ({"spec": {"replicas": None}}, ["spec.replicas is 3, awaited (not there)"]),
        ({"spec": {"more": {"a": 1}}}, ['spec.more is (not there), awaited {"a": 1}']),
        ({"spec": {"replicas": [3]}}, ["spec.replicas is 3, awaited [3]"]),
        (
            {"metadata": {"labels": {"app.kubernetes.io/name": "db"}}},
            ['metadata.labels[\'app.kubernetes.io/name\'] is "web", awaited "db"'],
        ),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "X"}]}},
            [
                'status.conditions[Ready].status is "True", awaited "False"',
                'status.conditions[X] is (not there), awaited {"type": "X"}',
            ],
        ),
        (
            {"metadata": {"finalizers": ["a"]}},
            ['metadata.finalizers is 0 items: [], awaited 1 item: ["a"]'],
        ),
        (
            {"spec": {"containers": [{"name": "b", "args": ["x", "z"]}]}},
            ['spec.containers[b].args[1] is "(y)", awaited "z"'],
        ),
        ({"spec": {"replicas": "(@ > `3`)"}}, ["spec.replicas is 3, awaited (@ > `3`)"]),
        ({"spec": {"more": "(@ > `3`)"}}, ["spec.more is (not there), awaited (@ > `3`)"]),
        ({"spec": {"(length(containers))": 1}}, ["spec.(length(containers)) is 2, awaited 1"]),
        (
            {"spec": {"(length(more))": 1}},
            [
                "spec.(length(more)) is (not evaluated: In function length(), invalid type for "
                "value: None, expected one of: ['string', 'array', 'object'], received: \"null\"),"
                " awaited 1"
            ],
        ),
        (
            {"spec": {"~.containers": {"image": "i:1"}}},
            ['spec.~.containers[1].image is (not there), awaited "i:1"'],
        ),
        # Nothing that holds for each of no items is an assertion.
        ({"metadata": {"~.finalizers": "a"}}, ['metadata.~.finalizers is [], awaited "a"']),
        # Items that share a key, or have none, are compared one by one.
        (
            {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}},
            ['spec.containers[1].name is "b", awaited "a"'],
        ),
    ],
)
def test_differences(tree: Any, differences: list[str]) -> None:
    check_tree(tree)
    assert [str(each) for each in compare(tree, SEEN)] == differences


def test_difference_of_a_whole_value() -> None:
    assert [str(each) for each in compare({"a": 1}, [])] == ['it is [], awaited {"a": 1}']


def nested(depth: int) -> Any:
    tree: Any = 1
    for _ in range(depth):
        tree = {"a": tree}
    return tree


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({"a": "(b"}, None),
        ({"a": "(b c)"}, "a: 'b c' is no JMESPath expression: "),
        ({"a": [{"(x())": 1}]}, "a[0].(x()): 'x()' is no JMESPath expression: Unknown function: x"),
        ({"a": {"~.": 1}}, "a['']: name a field after '~.', or an expression"),
        (nested(MAX_DEPTH), None),
        (nested(MAX_DEPTH + 1), "it nests more than 100 levels deep"),
    ],
)
def test_invalid_trees(tree: Any, problem: str | None) -> None:
    if problem is None:
        check_tree(tree)
        return
    with pytest.raises(ValueError, match=r"^") as caught:
        check_tree(tree)
    assert str(caught.value).startswith(problem)

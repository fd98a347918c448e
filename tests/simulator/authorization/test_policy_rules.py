from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.simulator.authorization.rbac import (
    MAX_UNCOVERED_VERBS,
    format_rule,
    rule_allows,
    uncovered_rules,
)
from pytest_kwait.simulator.request_info import AuthorizationAttributes, User
from tests.examples import scaled

JANE = User("jane")
READ = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
SCALE = {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["*"]}
ONE = {"apiGroups": ["apps"], "resources": ["*"], "resourceNames": ["web"], "verbs": ["*"]}
PATHS = {"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}
ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
ALL_PATHS = {"nonResourceURLs": ["*"], "verbs": ["*"]}


@pytest.mark.parametrize(
    ("rule", "verb", "group", "resource", "subresource", "name", "allowed"),
    [
        (READ, "get", "", "pods", "", "a", True),
        (READ, "list", "", "pods", "", "", True),
        (READ, "get", "", "pods", "log", "a", True),
        (READ, "get", "", "pods", "exec", "a", False),
        (READ, "watch", "", "pods", "", "", False),
        (READ, "get", "x", "pods", "", "a", False),
        (SCALE, "update", "apps", "deployments", "scale", "a", True),
        (SCALE, "update", "apps", "deployments", "", "a", False),
        (ONE, "delete", "apps", "deployments", "", "web", True),
        (ONE, "get", "apps", "deployments", "status", "web", True),
        (ONE, "get", "apps", "deployments", "", "db", False),
        (ONE, "list", "apps", "deployments", "", "", False),
        (PATHS, "get", "", "pods", "", "", False),
        (ALL, "anything", "any", "thing", "at-all", "x", True),
        ({}, "get", "", "pods", "", "", False),
    ],
)
def test_resource_rules(
    rule: dict[str, Any],
    verb: str,
    group: str,
    resource: str,
    subresource: str,
    name: str,
    allowed: bool,
) -> None:
    asked = AuthorizationAttributes(JANE, verb, group, resource, subresource, name, "default")
    assert rule_allows(rule, asked) is allowed


@pytest.mark.parametrize(
    ("rule", "verb", "path", "allowed"),
    [
        (PATHS, "get", "/metrics", True),
        (PATHS, "get", "/metrics/x", False),
        (PATHS, "get", "/logs/", True),
        (PATHS, "get", "/logs/a/b", True),
        (PATHS, "get", "/logs", False),
        (PATHS, "post", "/metrics", False),
        (ALL_PATHS, "post", "/", True),
        (ALL, "get", "/metrics", False),
    ],
)
def test_non_resource_rules(rule: dict[str, Any], verb: str, path: str, allowed: bool) -> None:
    assert rule_allows(rule, AuthorizationAttributes(JANE, verb, path=path)) is allowed


@pytest.mark.parametrize(
    ("owned", "wanted", "lacking"),
    [
        ([READ], [READ], []),
        ([ALL], [READ, SCALE, ONE], []),
        ([ALL], [PATHS], ['{NonResourceURLs:["/logs/*"], Verbs:["get"]}', "metrics"]),
        ([ALL_PATHS], [PATHS], []),
        ([], [{"apiGroups": [], "resources": ["pods"], "verbs": ["get"]}], []),
        (
            [READ],
            [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "delete"]}],
            [
                '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "delete"]}',
                '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
            ],
        ),
        ([SCALE], [{"apiGroups": ["x"], "resources": ["a/scale"], "verbs": ["get"]}], []),
        (
            [ONE],
            [{"apiGroups": ["apps"], "resources": ["x"], "verbs": ["get"]}],
            ['{APIGroups:["apps"], Resources:["x"], Verbs:["get"]}'],
        ),
        (
            [ONE],
            [
                {
                    "apiGroups": ["apps"],
                    "resources": ["x"],
                    "resourceNames": ["web", "db"],
                    "verbs": ["get", "list"],
                }
            ],
            ['{APIGroups:["apps"], Resources:["x"], ResourceNames:["db"], Verbs:["get" "list"]}'],
        ),
    ],
)
def test_rules_not_covered_by_the_granting_user(
    owned: list[dict[str, Any]], wanted: list[dict[str, Any]], lacking: list[str]
) -> None:
    found = sorted(format_rule(rule) for rule in uncovered_rules(owned, wanted))
    assert len(found) == len(lacking)
    assert all(text in rule for text, rule in zip(lacking, found, strict=True))


NAMES = st.lists(st.sampled_from(["a", "b", "a/x", "*/x", "*"]), max_size=3)
PATH_NAMES = st.lists(st.sampled_from(["/a", "/a/b", "/a*", "*"]), max_size=2)
RULES = st.lists(
    st.fixed_dictionaries(
        {"verbs": NAMES, "apiGroups": NAMES, "resources": NAMES},
        optional={"resourceNames": NAMES, "nonResourceURLs": PATH_NAMES},
    ),
    max_size=3,
)


def single_rules(rule: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Return verb, group, resource, subresource and name of each request of a rule."""
    names = rule.get("resourceNames") or [""]
    resources = [resource.partition("/") for resource in rule["resources"]]
    return [
        (verb, group, resource, subresource, name)
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource, _, subresource in resources
        for name in names
    ]


@settings(max_examples=scaled(200), deadline=None)
@given(owned=RULES, wanted=RULES)
def test_rules_are_covered_if_one_owned_rule_allows_each_part(
    owned: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> None:
    lacking = {
        request
        for rule in wanted
        for request in single_rules(rule)
        if not any(rule_allows(owner, AuthorizationAttributes(JANE, *request)) for owner in owned)
    }
    found = {
        request
        for rule in uncovered_rules(owned, wanted)
        if "resources" in rule
        for request in single_rules(rule)
    }
    assert found == lacking


def test_uncovered_rules_of_a_huge_product_end_at_a_limit() -> None:
    names = [f"name-{number}" for number in range(5000)]
    huge = {"apiGroups": names, "resources": names, "verbs": names}
    found = uncovered_rules([READ], [huge])
    assert sum(len(rule["verbs"]) for rule in found) == MAX_UNCOVERED_VERBS
    assert uncovered_rules([ALL], [huge]) == []

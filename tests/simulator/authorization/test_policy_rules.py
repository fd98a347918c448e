from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.authorization.rbac import format_rule, rule_allows, uncovered_rules
from pytest_kwait.simulator.request_info import AuthorizationAttributes, User

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

"""Rules of roles: whether one allows something, and whether some cover others.

Source: k8s.io/kubernetes pkg/apis/rbac/v1/evaluation_helpers.go,
pkg/registry/rbac/validation/policy_compact.go,
k8s.io/component-helpers auth/rbac/validation/policy_comparator.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kwait.simulator.authorization.attributes import Attributes
    from pytest_kwait.simulator.objects import Obj

__all__ = ["format_rule", "rule_allows", "uncovered_rules"]

_WILDCARD = "*"
_RULE_FIELDS = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def _rule_list(rule: Obj, field: str) -> Sequence[str]:
    found: Sequence[str] = rule.get(field) or ()
    return found


def rule_allows(rule: Obj, asked: Attributes) -> bool:
    """Whether the rule allows what is asked."""
    verbs = _rule_list(rule, "verbs")
    if asked.verb not in verbs and _WILDCARD not in verbs:
        return False
    if asked.path is not None:
        return any(_path_matches(url, asked.path) for url in _rule_list(rule, "nonResourceURLs"))
    groups = _rule_list(rule, "apiGroups")
    if asked.group not in groups and _WILDCARD not in groups:
        return False
    resources = _rule_list(rule, "resources")
    if (
        _WILDCARD not in resources
        and asked.full_resource not in resources
        and not (asked.subresource and f"*/{asked.subresource}" in resources)
    ):
        return False
    names = _rule_list(rule, "resourceNames")
    return not names or asked.name in names


def _path_matches(url: str, path: str) -> bool:
    return url in (_WILDCARD, path) or (
        url.endswith(_WILDCARD) and path.startswith(url.rstrip(_WILDCARD))
    )


def uncovered_rules(owned: Sequence[Obj], wanted: Iterable[Obj]) -> list[Obj]:
    """What `wanted` allows and `owned` does not, one resource and one name a rule."""
    left = [
        part
        for rule in wanted
        for part in _split_rule(rule)
        if not any(_covers(owner, part) for owner in owned)
    ]
    return _compact(left)


def _split_rule(rule: Obj) -> Iterator[Obj]:
    """The rule in rules of one verb and one resource or one path each."""
    verbs = _rule_list(rule, "verbs")
    names = _rule_list(rule, "resourceNames")
    for group in _rule_list(rule, "apiGroups"):
        for resource in _rule_list(rule, "resources"):
            for verb in verbs:
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                if not names:
                    yield part
                for name in names:
                    yield {**part, "resourceNames": [name]}
    for url in _rule_list(rule, "nonResourceURLs"):
        for verb in verbs:
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(owner: Obj, part: Obj) -> bool:
    for field in ("verbs", "apiGroups"):
        owned = _rule_list(owner, field)
        if _WILDCARD not in owned and not set(_rule_list(part, field)) <= set(owned):
            return False
    resources = _rule_list(owner, "resources")
    if _WILDCARD not in resources and not all(
        resource in resources
        or ("/" in resource and f"*/{resource.partition('/')[2]}" in resources)
        for resource in _rule_list(part, "resources")
    ):
        return False
    urls = _rule_list(owner, "nonResourceURLs")
    if not all(
        any(_url_covers(url, path) for url in urls) for path in _rule_list(part, "nonResourceURLs")
    ):
        return False
    names, asked = _rule_list(owner, "resourceNames"), _rule_list(part, "resourceNames")
    return not names or (bool(asked) and set(asked) <= set(names))


def _url_covers(owner: str, path: str) -> bool:
    return owner == path or (owner.endswith(_WILDCARD) and path.startswith(owner.rstrip(_WILDCARD)))


def _compact(parts: Iterable[Obj]) -> list[Obj]:
    """The parts with the verbs of one resource and name together."""
    compacted: list[Obj] = []
    simple: dict[tuple[str, ...], Obj] = {}
    for part in parts:
        if "nonResourceURLs" in part:
            compacted.append(part)
            continue
        key = (part["apiGroups"][0], part["resources"][0], *part.get("resourceNames", ()))
        if key in simple:
            simple[key]["verbs"] += part["verbs"]
        else:
            simple[key] = {**part, "verbs": list(part["verbs"])}
    return [*compacted, *simple.values()]


def format_rule(rule: Obj) -> str:
    """The rule as refusals show it: `{APIGroups:["apps"], Resources:["x"], Verbs:["get"]}`."""
    parts = []
    for label, field in _RULE_FIELDS:
        values = _rule_list(rule, field)
        if values:
            quoted = " ".join(json.dumps(value, ensure_ascii=False) for value in values)
            parts.append(f"{label}:[{quoted}]")
    return "{" + ", ".join(parts) + "}"

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

__all__ = ["allows", "missing", "shown"]

_ALL = "*"
_SHOWN = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def _of(rule: Obj, field: str) -> Sequence[str]:
    found: Sequence[str] = rule.get(field) or ()
    return found


def allows(rule: Obj, asked: Attributes) -> bool:
    """Whether the rule allows what is asked."""
    verbs = _of(rule, "verbs")
    if asked.verb not in verbs and _ALL not in verbs:
        return False
    if asked.path is not None:
        return any(_path_matches(url, asked.path) for url in _of(rule, "nonResourceURLs"))
    groups = _of(rule, "apiGroups")
    if asked.group not in groups and _ALL not in groups:
        return False
    resources = _of(rule, "resources")
    if (
        _ALL not in resources
        and asked.full_resource not in resources
        and not (asked.subresource and f"*/{asked.subresource}" in resources)
    ):
        return False
    names = _of(rule, "resourceNames")
    return not names or asked.name in names


def _path_matches(url: str, path: str) -> bool:
    return url in (_ALL, path) or (url.endswith(_ALL) and path.startswith(url.rstrip(_ALL)))


def missing(owned: Sequence[Obj], wanted: Iterable[Obj]) -> list[Obj]:
    """What `wanted` allows and `owned` does not, one resource and one name a rule."""
    left = [
        part
        for rule in wanted
        for part in _parts(rule)
        if not any(_covers(owner, part) for owner in owned)
    ]
    return _compact(left)


def _parts(rule: Obj) -> Iterator[Obj]:
    """The rule in rules of one verb and one resource or one path each."""
    verbs = _of(rule, "verbs")
    names = _of(rule, "resourceNames")
    for group in _of(rule, "apiGroups"):
        for resource in _of(rule, "resources"):
            for verb in verbs:
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                if not names:
                    yield part
                for name in names:
                    yield {**part, "resourceNames": [name]}
    for url in _of(rule, "nonResourceURLs"):
        for verb in verbs:
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(owner: Obj, part: Obj) -> bool:
    for field in ("verbs", "apiGroups"):
        owned = _of(owner, field)
        if _ALL not in owned and not set(_of(part, field)) <= set(owned):
            return False
    resources = _of(owner, "resources")
    if _ALL not in resources and not all(
        resource in resources
        or ("/" in resource and f"*/{resource.partition('/')[2]}" in resources)
        for resource in _of(part, "resources")
    ):
        return False
    urls = _of(owner, "nonResourceURLs")
    if not all(
        any(_url_covers(url, path) for url in urls) for path in _of(part, "nonResourceURLs")
    ):
        return False
    names, asked = _of(owner, "resourceNames"), _of(part, "resourceNames")
    return not names or (bool(asked) and set(asked) <= set(names))


def _url_covers(owner: str, path: str) -> bool:
    return owner == path or (owner.endswith(_ALL) and path.startswith(owner.rstrip(_ALL)))


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


def shown(rule: Obj) -> str:
    """The rule as refusals show it: `{APIGroups:["apps"], Resources:["x"], Verbs:["get"]}`."""
    parts = []
    for label, field in _SHOWN:
        values = _of(rule, field)
        if values:
            quoted = " ".join(json.dumps(value, ensure_ascii=False) for value in values)
            parts.append(f"{label}:[{quoted}]")
    return "{" + ", ".join(parts) + "}"

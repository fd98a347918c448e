"""Cluster roles whose rules are collected from others by their labels.

Source: k8s.io/kubernetes pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import labels_of, name_of
from pytest_kwait.simulator.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["aggregate_rules"]


def aggregate_rules(role: Obj, roles: Iterable[Obj]) -> list[Obj]:
    """The rules of those of `roles` that the role selects, each once, in order of their names."""
    rules: list[Obj] = []
    others = sorted((other for other in roles if name_of(other) != name_of(role)), key=name_of)
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        for other in others:
            if matches_selector(selector, labels_of(other)):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules

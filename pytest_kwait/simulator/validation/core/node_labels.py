"""Labels of nodes that are on their way out.

Source: k8s.io/kubernetes pkg/api/node/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["DEPRECATED_NODE_LABELS", "get_node_selector_term_warnings"]

DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
"""What is said of each."""


def get_node_selector_term_warnings(terms: list[Obj], at: str) -> list[str]:
    """What is said of the terms of a node selector at the path `at`."""
    return [
        f"{at}[{index}].matchExpressions[{number}].key: {rule['key']} is "
        f"{DEPRECATED_NODE_LABELS[rule['key']]}"
        for index, term in enumerate(terms)
        for number, rule in enumerate(term.get("matchExpressions") or [])
        if rule.get("key") in DEPRECATED_NODE_LABELS
    ]

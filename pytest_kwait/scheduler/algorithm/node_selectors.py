"""Which nodes a pod asks for by their labels and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["matches_node_selector", "node_matches_pod_affinity"]


def _requirement_holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    present = requirement["key"] in labels
    actual = labels.get(requirement["key"], "")
    values = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return present and actual in values
        case "NotIn":
            return not present or actual not in values
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case "Gt":
            return present and _compare(actual, values) > 0
        case "Lt":
            return present and _compare(actual, values) < 0
    return False


def _compare(actual: str, values: Any) -> int:
    """-1, 0 or 1; 0 too where either side is no whole number, so that neither Gt nor Lt holds."""
    try:
        left, right = int(actual), int(values[0])
    except (ValueError, IndexError):
        return 0
    return (left > right) - (left < right)


def matches_node_selector(selector: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether one of the selector's terms holds for `node`; an empty term never does.

    Source: component-helpers, scheduling/corev1/nodeaffinity/nodeaffinity.go, `NodeSelector.Match`.
    """
    metadata = node.get("metadata") or {}
    labels = metadata.get("labels") or {}
    fields = {"metadata.name": metadata.get("name", "")}
    for term in selector.get("nodeSelectorTerms") or ():
        expressions = term.get("matchExpressions") or ()
        by_field = term.get("matchFields") or ()
        if not expressions and not by_field:
            continue
        if all(_requirement_holds(one, labels) for one in expressions) and all(
            _requirement_holds(one, fields) for one in by_field
        ):
            return True
    return False


def node_matches_pod_affinity(pod: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether `node` has the labels of the pod's `nodeSelector` and meets its required affinity."""
    spec = pod.get("spec") or {}
    labels = (node.get("metadata") or {}).get("labels") or {}
    for key, wanted in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != wanted:
            return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matches_node_selector(required, node)

"""Namespaces that are on their way out: what keeps them, in the words of their own status."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["describe_remaining"]

_CONTENT_REMAINING = re.compile(r"([^\s.,]+)\.(\S*) has (\d+) resource instances")
_FINALIZERS_REMAINING = re.compile(r"(\S+) in (\d+) resource instances")

_DELETION_FAILURES = {
    "NamespaceDeletionDiscoveryFailure": "its kinds cannot be discovered",
    "NamespaceDeletionGroupVersionParsingFailure": "its kinds cannot be read",
    "NamespaceDeletionContentFailure": "what is in it cannot be deleted",
}


def describe_remaining(namespace: dict[str, Any]) -> str:
    """Return why a namespace is still there, as its status and its finalizers tell it.

    Source: kube-controller-manager, namespace/deletion/status_condition_utils.go.
    """
    if not namespace["metadata"].get("deletionTimestamp"):
        return "still there, nobody is deleting it"
    reasons = "; ".join(_reasons(namespace))
    return f"being deleted{': ' if reasons else ''}{reasons}"


def _reasons(namespace: dict[str, Any]) -> Iterator[str]:
    conditions = {
        condition.get("type"): " ".join((condition.get("message") or "").split())
        for condition in (namespace.get("status") or {}).get("conditions") or ()
        if condition.get("status") == "True"
    }
    for kind, text in _DELETION_FAILURES.items():
        if kind in conditions:
            yield f"{text}: {conditions[kind] or 'no message is given'}"
    content = conditions.get("NamespaceContentRemaining")
    if content is not None:
        left = [
            f"{count} {plural}{'.' if group else ''}{group}"
            for plural, group, count in _CONTENT_REMAINING.findall(content)
        ]
        yield f"{', '.join(left)} left" if left else content or "something is left in it"
    held = conditions.get("NamespaceFinalizersRemaining")
    if held is not None:
        holds = [
            f"{name} on {count} {'object' if count == '1' else 'objects'}"
            for name, count in _FINALIZERS_REMAINING.findall(held)
        ]
        yield f"held by {', '.join(holds)}" if holds else held or "held by finalizers"
    own = [
        *(one for one in (namespace.get("spec") or {}).get("finalizers") or ()),
        *(namespace["metadata"].get("finalizers") or ()),
    ]
    # The one that every namespace has is the namespace controller's own.
    others = [str(one) for one in own if one != "kubernetes"]
    if others:
        yield f"held by its own finalizers {', '.join(others)}"

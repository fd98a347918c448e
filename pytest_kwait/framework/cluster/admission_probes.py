"""Objects made up to be seen by an admission webhook: created as a dry run, never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["PROBE_KINDS", "build_probe"]

_PROBE_CONTENTS: Mapping[Resource, dict[str, Any]] = {
    CONFIG_MAPS: {},
    SECRETS: {},
    SERVICE_ACCOUNTS: {},
    SERVICES: {"spec": {"ports": [{"port": 80}]}},
    PODS: {"spec": {"containers": [{"name": "probe", "image": "probe"}]}},
}

PROBE_KINDS = ", ".join(resource.plural for resource in _PROBE_CONTENTS)
"""What an object can be made up of, as it stands in a sentence."""


def build_probe(webhooks: Iterable[Mapping[str, Any]]) -> tuple[Resource, dict[str, Any]] | None:
    """Return an object whose creation the first of some webhooks is asked about, and its kind.

    It has no name of its own, and the labels that the webhook's objectSelector wants to be equal
    to something. None where the rules speak of no kind that can be made up, or of no creation.

    Args:
        webhooks: as a configuration lists them.
    """
    for webhook in webhooks:
        labels = (webhook.get("objectSelector") or {}).get("matchLabels") or {}
        for rule in webhook.get("rules") or ():
            for resource, content in _PROBE_CONTENTS.items():
                if _is_about_creation(rule, resource):
                    metadata = {"generateName": "kwait-probe-", "labels": dict(labels)}
                    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
                    return resource, {**kind, "metadata": metadata, **content}
    return None


def _is_about_creation(rule: Mapping[str, Any], resource: Resource) -> bool:
    """Return whether a rule is about the creation of objects of a kind in a namespace."""
    wanted = (
        ("operations", "CREATE"),
        ("apiGroups", resource.group),
        ("apiVersions", resource.version),
        ("resources", resource.plural),
    )
    return rule.get("scope") in (None, "*", "Namespaced") and all(
        {value, "*", "*/*"} & set(rule.get(key) or ()) for key, value in wanted
    )

"""Cluster roles whose rules a controller collects from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_rules_of_parts_are_those_of_the_whole(kwait: Kwait) -> None:
    """The rules follow a part that comes later, too."""
    label = {"aggregate-to": kwait.namespace}

    def make_part(name: str, verb: str) -> dict[str, object]:
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"{kwait.namespace}-{name}", "labels": label},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}],
        }

    whole = f"{kwait.namespace}-whole"
    kwait.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": whole},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
            "rules": [],
        },
        make_part("a", "get"),
    )
    kwait.wait_for(f"clusterrole/{whole}", "jsonpath={.rules[0].verbs[0]}=get", timeout="1m")

    kwait.create(make_part("b", "list"))

    kwait.wait_for(f"clusterrole/{whole}", "jsonpath={.rules[1].verbs[0]}=list", timeout="1m")

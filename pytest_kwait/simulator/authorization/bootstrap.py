"""The roles and bindings that every cluster starts with.

They come from `data/roles.json.gz`, which `tools/simulator_data/bootstrap_roles.py` makes from a running API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.authorization.aggregation import aggregate_rules
from pytest_kwait.simulator.authorization.rbac import CLUSTER_ROLES
from pytest_kwait.simulator.names import new_uid
from pytest_kwait.simulator.scheme import read_data
from pytest_kwait.simulator.store import key_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["install_bootstrap_roles"]


def install_bootstrap_roles(api: SimulatedCluster) -> None:
    """Store them as they are: what the server itself makes needs no checks."""
    stamp = api.clock.stamp()
    content = read_data("roles.json.gz")
    _aggregate_cluster_roles(content[CLUSTER_ROLES])
    for resource, objects in content.items():
        kind = api.kinds[resource]
        for bare in objects:
            given = bare.pop("metadata")
            name, namespace = given["name"], given.get("namespace", "")
            metadata = {**given, "uid": new_uid(), "creationTimestamp": stamp}
            obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, **bare}
            api.store.put(kind.bucket, key_of(name, namespace), obj)


def _aggregate_cluster_roles(roles: list[Obj]) -> None:
    """Fill in the rules that come from other roles, some of which collect theirs as well."""
    collecting = [role for role in roles if role.get("aggregationRule")]
    changed = True
    while changed:
        changed = False
        for role in collecting:
            rules = aggregate_rules(role, roles)
            changed = changed or rules != role["rules"]
            role["rules"] = rules

"""The cluster role aggregation controller: updates the rules of aggregated ClusterRoles.

Source: kube-controller-manager, clusterroleaggregation_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.authorization.rbac import (
    AGGREGATION_MANAGER,
    CLUSTER_ROLES,
    aggregate_rules,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster


class ClusterRoleAggregationController:
    """Follows all cluster roles, since any of them may select any other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "cluster-role-aggregation")
        self._collecting: dict[str, None] = {}
        cluster.subscribe(CLUSTER_ROLES, self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        name = name_of(new)
        if change == "DELETED" or not new.get("aggregationRule"):
            self._collecting.pop(name, None)
        else:
            self._collecting[name] = None
        for collecting in self._collecting:
            self._queue.add(collecting)

    def _sync(self, name: str) -> None:
        role = self._cluster.find(CLUSTER_ROLES, name)
        if role is None or not role.get("aggregationRule"):
            return
        rules = aggregate_rules(role, self._cluster.list(CLUSTER_ROLES))
        if rules != (role.get("rules") or []):
            kind = self._cluster.kind_of(CLUSTER_ROLES)
            configuration = {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": name},
                "rules": rules,
            }
            self._cluster.apply(CLUSTER_ROLES, configuration, manager=AGGREGATION_MANAGER)

"""The status of FlowSchemas: whether the priority level that each names exists.

Source: k8s.io/apiserver pkg/util/flowcontrol/apf_controller.go, `syncFlowSchemaStatus`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, name_of
from pytest_kwait.simulator.request_info import applying_caller

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

FLOW_SCHEMAS = "flowschemas.flowcontrol.apiserver.k8s.io"
_LEVELS = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
_AUTOUPDATE = "apf.kubernetes.io/autoupdate-spec"
_DANGLING = "Dangling"
_FIELD_MANAGER = "api-priority-and-fairness-config-consumer-v1"


def is_bootstrap_schema(schema: Obj) -> bool:
    """Return whether it is one of kube-apiserver's own, which have a status from the start."""
    return _AUTOUPDATE in (schema["metadata"].get("annotations") or {})


class FlowSchemaStatusController:
    """Maintains the Dangling condition of FlowSchemas."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "flowschema-status")
        cluster.subscribe(FLOW_SCHEMAS, self._schema_changed)
        cluster.subscribe(_LEVELS, self._level_changed)

    def _schema_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED":
            self._queue.add(name_of(new))

    def _level_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "MODIFIED":
            return
        for schema in self._cluster.list(FLOW_SCHEMAS):
            if _level_of(schema) == name_of(new):
                self._queue.add(name_of(schema))

    def _sync(self, name: str) -> None:
        schema = self._cluster.find(FLOW_SCHEMAS, name)
        if schema is None:
            return
        level = _level_of(schema)
        level_exists = self._cluster.find(_LEVELS, level) is not None
        reference = (
            f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
        )
        content = {
            "type": _DANGLING,
            "status": "False" if level_exists else "True",
            "reason": "Found" if level_exists else "NotFound",
            "message": (
                f"{reference} {'and it exists' if level_exists else 'but there is no such object'}"
            ),
        }
        conditions = (schema.get("status") or {}).get("conditions") or []
        before: Obj = next(
            (condition for condition in conditions if condition["type"] == _DANGLING), {}
        )
        if all(before.get(field) == value for field, value in content.items()):
            return

        def set_condition(changed: Obj) -> None:
            status = changed.get("status") or {}
            other_conditions = [
                condition
                for condition in status.get("conditions") or ()
                if condition["type"] != _DANGLING
            ]
            # Upstream sets the time with every change, of the message too.
            condition = {**content, "lastTransitionTime": self._cluster.clock.stamp()}
            changed["status"] = {**status, "conditions": [*other_conditions, condition]}

        caller = applying_caller(_FIELD_MANAGER)
        self._cluster.modify(
            FLOW_SCHEMAS, name, "", set_condition, subresource="status", caller=caller
        )


def _level_of(schema: Obj) -> str:
    name: str = schema["spec"]["priorityLevelConfiguration"]["name"]
    return name

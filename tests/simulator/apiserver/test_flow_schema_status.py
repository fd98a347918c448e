"""The Dangling condition of FlowSchemas."""

from __future__ import annotations

from typing import Any

from tests.simulator.cluster import Cluster

Obj = dict[str, Any]

_SCHEMAS = "flowschemas.flowcontrol.apiserver.k8s.io"
_LEVELS = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"


def _schema(level: str) -> Obj:
    spec = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": 500}
    return {"metadata": {"name": "mine"}, "spec": spec}


def _dangling(cluster: Cluster, name: str = "mine") -> Obj:
    (condition,) = cluster.api.get(_SCHEMAS, name)["status"]["conditions"]
    return {key: value for key, value in condition.items() if key != "lastTransitionTime"}


def _condition(level: str, *, found: bool) -> Obj:
    end = "and it exists" if found else "but there is no such object"
    return {
        "type": "Dangling",
        "status": "False" if found else "True",
        "reason": "Found" if found else "NotFound",
        "message": "This FlowSchema references the PriorityLevelConfiguration object named "
        f'"{level}" {end}',
    }


def test_a_schema_without_its_priority_level_is_dangling() -> None:
    cluster = Cluster(nodes=0)
    cluster.api.create(_SCHEMAS, _schema("none"))
    cluster.run(1)
    assert _dangling(cluster) == _condition("none", found=False)
    limited = {"limitResponse": {"type": "Reject"}}
    level = {"metadata": {"name": "none"}, "spec": {"type": "Limited", "limited": limited}}
    cluster.api.create(_LEVELS, level)
    cluster.run(1)
    assert _dangling(cluster) == _condition("none", found=True)
    cluster.api.delete(_LEVELS, "none")
    cluster.run(1)
    assert _dangling(cluster) == _condition("none", found=False)


def test_bootstrap_schemas_are_not_dangling() -> None:
    cluster = Cluster(nodes=0)
    assert _dangling(cluster, "probes") == _condition("exempt", found=True)
    cluster.api.create(_SCHEMAS, _schema("exempt"))
    cluster.run(1)
    assert _dangling(cluster) == _condition("exempt", found=True)
    assert not [each for each in cluster.history if each[2]["metadata"]["name"] == "probes"]

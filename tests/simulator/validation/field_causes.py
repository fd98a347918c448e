"""Causes of the 422 errors with which a cluster rejects objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.request_info import Caller

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]


def get_create_causes(
    api: SimulatedCluster, resource: str, obj: Obj, namespace: str = "default"
) -> list[str]:
    """The causes for which a new object is refused, as `field: message`; empty if it is taken."""
    kind = api.kind_of(resource)
    body = {"metadata": {"name": "a"}, **clone(obj)}
    try:
        api.create(
            resource, body, namespace if kind.namespaced else "", caller=Caller(dry_run=True)
        )
    except StatusError as error:
        return get_causes(error)
    return []


def get_update_causes(api: SimulatedCluster, resource: str, old: Obj, change: Obj) -> list[str]:
    """The causes for which `old`, as stored, cannot be made `change`; its metadata is kept."""
    new = {**change, "metadata": {**old["metadata"], **change.get("metadata", {})}}
    try:
        api.update(resource, new, caller=Caller(dry_run=True))
    except StatusError as error:
        return get_causes(error)
    return []


def get_causes(error: StatusError) -> list[str]:
    """The causes of a refusal."""
    assert error.code == 422, error
    assert error.details is not None
    return [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]]

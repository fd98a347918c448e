"""What makes pods: how a controller selects them, and how many it is to have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.selectors_part import format_label_selector
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import (
    BUILT_IN,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from pytest_kwait.engine.options import check_name
from pytest_kwait.engine.targets import parse_target
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.single_object import SingleObject

__all__ = ["CONTROLLERS", "desired_pods", "parse_controller", "selector_of"]

CONTROLLERS = (
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
)


def parse_controller(what: str, value: object) -> tuple[Resource, str]:
    """Return the kind and the name of the controller that a text like `rc/web` means.

    Raises:
        InvalidArgument: it means none.
    """
    valid = "use one of rc, rs, deployment, statefulset, daemonset and job with a name: 'rc/web'"
    kind, name = parse_target(what, value)
    resource = match_resource(BUILT_IN.values(), kind, None)
    if resource is None or resource not in CONTROLLERS or not name:
        raise InvalidArgument(what, value, valid)
    return resource, check_name(what, name)


def selector_of(resource: Resource, spec: dict[str, Any]) -> str | None:
    """Return the text of a controller's selector; None for other kinds, or where it has none."""
    selector = spec.get("selector")
    if resource not in CONTROLLERS or not isinstance(selector, dict):
        return None
    if resource == REPLICATION_CONTROLLERS:
        selector = {"matchLabels": selector}
    return format_label_selector(selector)


def desired_pods(controller: SingleObject) -> int:
    """Return how many pods a controller is to have."""
    if controller.resource == DAEMON_SETS:
        return int(controller.status.get("desiredNumberScheduled") or 0)
    if controller.resource == JOBS:
        parallelism = controller.spec.get("parallelism")
        completions = controller.spec.get("completions")
        parallelism = 1 if parallelism is None else int(parallelism)
        return parallelism if completions is None else min(parallelism, int(completions))
    replicas = controller.spec.get("replicas")
    return 1 if replicas is None else int(replicas)

"""Samples of cluster objects in terminal states, as Kubernetes 1.36 reported them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest_kwait as kw
from pytest_kwait.client.resource import (
    CUSTOM_RESOURCE_DEFINITIONS,
    HORIZONTAL_POD_AUTOSCALERS,
    NAMESPACES,
    Resource,
)
from pytest_kwait.errors import WaitFailed, WaitTimeout
from pytest_kwait.framework.cluster.api_server import API_SERVICES
from pytest_kwait.framework.cluster.webhooks import wait_for_webhook_ready
from pytest_kwait.framework.registry import condition_of
from tests.objects import condition, definition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession


@dataclass(frozen=True)
class FailingClusterWait:
    """A state of an object that ends a wait, or the nearest to it that does not.

    Args:
        wait: waits for what will not come, over a client.
        resource: the object's kind.
        obj: the object.
        error: how the wait ends.
    """

    wait: Callable[[ApiClient], Any]
    resource: Resource
    obj: dict[str, Any]
    error: type[Exception] = WaitFailed

    def enter(self, session: FakeSession) -> None:
        """Let a session show it."""
        session.put(self.resource, self.obj)
        session.kubectl_args = ("--kubeconfig", "/home/me/.kube/config", "--context", "ci")


def _gadgets(*conditions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return definition("gadgets", "Gadget", conditions=list(conditions), **fields)


def _established(client: ApiClient) -> Any:
    return kw.wait_for_crd_established(client, "gadgets.example.com")


_GOING = {"name": "ci-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
_CONFLICT = '"Widget" is already in use'
_HOOKS = (
    condition_of(wait_for_webhook_ready)("ci-1", "validatingwebhookconfiguration/guard")
    .sources()[0]
    .resource
)
_OFF = "scaling is disabled since the replica count of the target is zero"

FAILING_CLUSTER_WAITS = {
    "namespace-terminating": FailingClusterWait(
        lambda client: kw.wait_for_pod_ready(client, "ci-1", "late"),
        NAMESPACES,
        {"metadata": _GOING},
    ),
    "namespace-kept": FailingClusterWait(
        lambda client: kw.wait_for_namespaces_deleted(client, "ci-1"),
        NAMESPACES,
        {
            "metadata": _GOING,
            "status": {
                "conditions": [
                    condition(
                        "NamespaceContentRemaining",
                        reason="SomeResourcesRemain",
                        message="Some resources are remaining: configmaps. has 1 resource "
                        "instances, widgets.example.com has 2 resource instances",
                    ),
                    condition(
                        "NamespaceFinalizersRemaining",
                        reason="SomeFinalizersRemain",
                        message="Some content in the namespace has finalizers remaining: "
                        "example.com/hold in 3 resource instances",
                    ),
                ]
            },
        },
        error=WaitTimeout,
    ),
    "definition-names-taken": FailingClusterWait(
        _established,
        CUSTOM_RESOURCE_DEFINITIONS,
        _gadgets(
            condition("NamesAccepted", "False", reason="KindConflict", message=_CONFLICT),
            condition(
                "Established", "False", reason="NotAccepted", message="not all names are accepted"
            ),
        ),
    ),
    "definition-deleted": FailingClusterWait(
        _established,
        CUSTOM_RESOURCE_DEFINITIONS,
        _gadgets(condition("Established"), deletionTimestamp="2026-01-01T00:00:00Z"),
    ),
    "api-service-without-service": FailingClusterWait(
        lambda client: kw.wait_for_api_service_available(client, "v1.example.com"),
        API_SERVICES,
        {
            "metadata": {"name": "v1.example.com"},
            "spec": {"service": {"namespace": "ci-1", "name": "api"}},
            "status": {
                "conditions": [
                    condition(
                        "Available",
                        "False",
                        reason="ServiceNotFound",
                        message='service/api in "ci-1" is not present',
                    )
                ]
            },
        },
    ),
    "webhook-unproven": FailingClusterWait(
        lambda client: kw.wait_for_webhook_ready(
            client, "ci-1", "validatingwebhookconfiguration/guard", timeout="1m"
        ),
        _HOOKS,
        {
            "metadata": {"name": "guard"},
            "webhooks": [
                {
                    "name": "guard.example.com",
                    "failurePolicy": "Ignore",
                    "rules": [
                        {
                            "operations": ["CREATE"],
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["pods"],
                        }
                    ],
                }
            ],
        },
    ),
    "autoscaler-switched-off": FailingClusterWait(
        lambda client: kw.wait_for_hpa_replicas(client, "ci-1", "web", 2),
        HORIZONTAL_POD_AUTOSCALERS,
        {
            "metadata": {"name": "web"},
            "spec": {"minReplicas": 1, "maxReplicas": 4},
            "status": {
                "currentReplicas": 0,
                "conditions": [
                    condition("ScalingActive", "False", reason="ScalingDisabled", message=_OFF)
                ],
            },
        },
    ),
    "autoscaler-keeps-to-less": FailingClusterWait(
        lambda client: kw.wait_for_hpa_replicas(client, "ci-1", "web", 5),
        HORIZONTAL_POD_AUTOSCALERS,
        {
            "metadata": {"name": "web"},
            "spec": {"minReplicas": 1, "maxReplicas": 4},
            "status": {"currentReplicas": 4, "desiredReplicas": 4},
        },
    ),
}

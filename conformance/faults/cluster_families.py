"""Waits on the cluster itself, and on extensions of its API."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from conformance.faults.family import POLL, Family
from e2e.objects import definition
from pytest_kwait import (
    wait_for_api_server_healthy,
    wait_for_api_service_available,
    wait_for_authorization_update,
    wait_for_crd_established,
    wait_for_event,
    wait_for_hpa_replicas,
    wait_for_kube_root_ca,
    wait_for_namespaces_deleted,
    wait_for_node_ready,
    wait_for_webhook_ready,
)
from pytest_kwait.client.resource import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    NAMESPACES,
    Resource,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from conformance.faults.family import Place

_ROLES = ("rbac.authorization.k8s.io", "v1")
ROLES = Resource(*_ROLES, "roles", "Role", namespaced=True)
ROLE_BINDINGS = Resource(*_ROLES, "rolebindings", "RoleBinding", namespaced=True)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False
)


class NamespaceWait(Family):
    """A namespace that is deleted."""

    title = "namespace that is deleted"

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, f"kwait-faults-{secrets.token_hex(4)}")

    def prepare(self) -> None:
        """Create the namespace."""
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        self.place.create(NAMESPACES, made)

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its deletion."""
        return wait_for_namespaces_deleted(client, self.name, timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Delete it."""
        self.place.delete(NAMESPACES, self.name)

    def is_expected_result(self, result: Any) -> bool:
        """Nothing."""
        return result is None

    def dispose(self) -> None:
        """Delete it unless a wait has."""
        self.place.remove(NAMESPACES, self.name)


class RootAuthorityWait(NamespaceWait):
    """A namespace that gets its default objects."""

    title = "root CA of a namespace"

    def prepare(self) -> None:
        """Leave the namespace to be made later."""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its config map."""
        return wait_for_kube_root_ca(client, self.name, timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Create the namespace."""
        super().prepare()

    def is_expected_result(self, result: Any) -> bool:
        """The config map."""
        return "ca.crt" in result["data"]


class EventWait(Family):
    """An event about a pod."""

    title = "event"

    def prepare(self) -> None:
        """Leave the event to be written later."""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for its reason."""
        return wait_for_event(
            client, self.place.namespace, "Shown", about="pod/shy", timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Write the event."""
        about = {"kind": "Pod", "name": "shy", "namespace": self.place.namespace}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name},
            "involvedObject": about,
            "reason": "Shown",
            "message": "it shows itself",
            "type": "Normal",
        }
        self.place.create(EVENTS, event)

    def is_expected_result(self, result: Any) -> bool:
        """The event."""
        return bool(result["metadata"]["name"] == self.name)


class RightsWait(Family):
    """A user that gets a right."""

    title = "authorization"
    watches = 0
    asks = "post subjectaccessreviews"

    def prepare(self) -> None:
        """Create an unbound role."""
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
        version = ROLES.api_version
        role = {"apiVersion": version, "kind": "Role", "metadata": {"name": self.name}}
        self.place.create(ROLES, {**role, "rules": [rule]})

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until the user jane has the right."""
        return wait_for_authorization_update(
            client, self.place.namespace, "jane", "list", "pods", timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Bind the role to the user."""
        group = ROLES.group
        binding = {
            "apiVersion": ROLE_BINDINGS.api_version,
            "kind": "RoleBinding",
            "metadata": {"name": self.name},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": self.name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}],
        }
        self.place.create(ROLE_BINDINGS, binding)

    def is_expected_result(self, result: Any) -> bool:
        """An access review that allows it."""
        return bool(result["status"]["allowed"])


class HealthWait(Family):
    """An API server that is healthy all the time."""

    title = "health of the API server"
    watches = 0
    asks = "get /readyz"
    lasts = False

    def prepare(self) -> None:
        """Leave it as it is."""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is healthy."""
        wait_for_api_server_healthy(client, timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Leave it as it is."""

    def is_expected_result(self, result: Any) -> bool:
        """Nothing."""
        return result is None


class NodeWait(HealthWait):
    """A node that is ready all the time."""

    title = "node"
    watches = 1
    asks = ""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is."""
        return wait_for_node_ready(client, self.place.node, timeout=timeout, poll=POLL)

    def is_expected_result(self, result: Any) -> bool:
        """The node."""
        return bool(result["metadata"]["name"] == self.place.node)


class DefinitionWait(Family):
    """A custom kind that is served."""

    title = "custom resource definition"
    asks = "list widgets"

    def __init__(self, place: Place, name: str) -> None:
        self.group = f"g{secrets.token_hex(4)}.example.com"
        super().__init__(place, f"widgets.{self.group}")

    def prepare(self) -> None:
        """Leave the definition to be made later."""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is served."""
        return wait_for_crd_established(client, self.name, timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Create the definition."""
        self.place.create(CUSTOM_RESOURCE_DEFINITIONS, definition(self.group, "widgets", "Widget"))

    def is_expected_result(self, result: Any) -> bool:
        """The definition."""
        return bool(result["status"]["acceptedNames"]["kind"] == "Widget")

    def dispose(self) -> None:
        """Delete it."""
        self.place.remove(CUSTOM_RESOURCE_DEFINITIONS, self.name)


class WebhookWait(Family):
    """A webhook that answers."""

    title = "admission webhook"
    asks = "post configmaps"

    def prepare(self) -> None:
        """Start its server, without a configuration in the API server."""
        # The documentation's table is generated without a server.
        from e2e.cluster.webhook_server import Server, deny, serving

        self._stack = ExitStack()
        self._server = self._stack.enter_context(serving(Server(deny)))

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it refuses a config map."""
        name = f"validatingwebhookconfiguration/{self.place.namespace}"
        return wait_for_webhook_ready(
            client, self.place.namespace, name, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Create its configuration."""
        from e2e.cluster.webhook_server import webhook

        self.place.create(WEBHOOKS, webhook(self._server, self.place.namespace))

    def is_expected_result(self, result: Any) -> bool:
        """The configuration."""
        return bool(result["metadata"]["name"] == self.place.namespace)

    def dispose(self) -> None:
        """Delete it, and stop its server."""
        self.place.remove(WEBHOOKS, self.place.namespace)
        self._stack.close()


class ApiServiceWait(Family):
    """A local APIService that becomes available."""

    title = "APIService"

    def __init__(self, place: Place, name: str) -> None:
        self.group = f"g{secrets.token_hex(4)}.example"
        super().__init__(place, f"v1.{self.group}")

    def prepare(self) -> None:
        """Leave it to be made later."""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is available."""
        return wait_for_api_service_available(client, self.name, timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Register it."""
        spec = {
            "group": self.group,
            "version": "v1",
            "groupPriorityMinimum": 10,
            "versionPriority": 10,
        }
        version = API_SERVICES.api_version
        head = {"apiVersion": version, "kind": "APIService", "metadata": {"name": self.name}}
        self.place.create(API_SERVICES, {**head, "spec": spec})

    def is_expected_result(self, result: Any) -> bool:
        """The APIService."""
        return bool(result["metadata"]["name"] == self.name)

    def dispose(self) -> None:
        """Remove it."""
        self.place.remove(API_SERVICES, self.name)


class AutoscalerWait(Family):
    """An autoscaler that counts replicas."""

    title = "autoscaler"

    def prepare(self) -> None:
        """Create one without a target: its controller leaves the counts unset."""
        target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "nowhere"}
        autoscaler = {
            "apiVersion": HORIZONTAL_POD_AUTOSCALERS.api_version,
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": self.name},
            "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4},
        }
        self.place.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler)

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait for two replicas."""
        return wait_for_hpa_replicas(
            client,
            self.place.namespace,
            self.name,
            2,
            timeout=timeout,
            poll=POLL,
            # The target that is not there is a failure once the grace is over.
            fail_fast=False,
        )

    def fulfill(self) -> None:
        """Write the counts."""
        status = {"currentReplicas": 2, "desiredReplicas": 2}
        self.place.patch_status(HORIZONTAL_POD_AUTOSCALERS, self.name, status)

    def is_expected_result(self, result: Any) -> bool:
        """The autoscaler."""
        return bool(result["status"]["currentReplicas"] == 2)


CLUSTER_FAMILIES: tuple[type[Family], ...] = (
    NamespaceWait,
    RootAuthorityWait,
    EventWait,
    RightsWait,
    HealthWait,
    NodeWait,
    DefinitionWait,
    WebhookWait,
    ApiServiceWait,
    AutoscalerWait,
)

"""NamespaceLifecycle: nothing is created in a missing or terminating namespace.

Source: k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle/admission.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.api_errors import forbidden, not_found

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = ["NamespaceLifecycle"]

_PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle(AdmissionPlugin):
    """The NamespaceLifecycle plugin."""

    def __init__(self, api: Cluster) -> None:
        self._namespaces = api.store.present("namespaces")

    def admit(self, attributes: Attributes) -> None:
        """Deny creations in missing or terminating namespaces.

        Raises:
            StatusError: 404 without the namespace, 403 in a terminating one, 403 for the deletion
                of a permanent namespace.
        """
        kind, namespace = attributes.kind, attributes.namespace
        if kind.bucket == "namespaces":
            if attributes.operation == "DELETE" and attributes.name in _PROTECTED_NAMESPACES:
                raise attributes.forbidden("this namespace may not be deleted")
            return
        if not kind.namespaced or attributes.operation == "DELETE":
            return
        found = self._namespaces.get(namespace)
        if found is None:
            raise not_found("", "namespaces", namespace)
        if attributes.operation == "CREATE" and found.obj["metadata"].get("deletionTimestamp"):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(
                kind.group,
                kind.plural,
                attributes.name or "Unknown",
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated",
                [cause],
            )

"""Service accounts: one without permissions, and one that reads its namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubernetes.config import new_client_from_config

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait import Kwait


READER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: reader}]
"""
"""The account `reader`, with the rights of `view`."""


def user_name(kwait: Kwait) -> str:
    """Return what the server calls the service account `default`."""
    return f"system:serviceaccount:{kwait.namespace}:default"


def bind(kwait: Kwait, role: str, *, everywhere: bool = False) -> None:
    """Let it do what a ClusterRole allows, in its namespace or everywhere."""
    kind = "ClusterRoleBinding" if everywhere else "RoleBinding"
    kwait.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": f"{kwait.namespace}-{role}" if everywhere else role},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "default", "namespace": kwait.namespace}
            ],
        }
    )


def client_of_default(kwait: Kwait) -> ApiClient:
    """Return a client that is the service account `default`."""
    read: Any = new_client_from_config
    client: ApiClient = read(str(kwait.kubeconfig_for("default")))
    return client

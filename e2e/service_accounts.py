"""A service account without permissions, with a kubeconfig for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config

if TYPE_CHECKING:
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait import Kwait


def kubeconfig_of_default(kwait: Kwait, folder: Path) -> Path:
    """Return a kubeconfig for the service account `default` of the test's namespace."""
    request: Any = {"spec": {"audiences": [], "expirationSeconds": 600}}
    answer = CoreV1Api(kwait.client).create_namespaced_service_account_token(
        "default", kwait.namespace, request
    )
    assert answer.status is not None
    kubeconfig = yaml.safe_load(kwait.cluster.kubeconfig.read_text())
    for user in kubeconfig["users"]:
        user["user"] = {"token": answer.status.token}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    return path


def user_name(kwait: Kwait) -> str:
    """Return what the server calls that service account."""
    return f"system:serviceaccount:{kwait.namespace}:default"


def bind(kwait: Kwait, role: str, *, everywhere: bool = False) -> None:
    """Let that service account do what a ClusterRole allows, in its namespace or everywhere."""
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


def client_of_default(kwait: Kwait, folder: Path) -> ApiClient:
    """Return a client that is that service account."""
    path = kubeconfig_of_default(kwait, folder)
    read: Any = new_client_from_config
    client: ApiClient = read(str(path), context=kwait.cluster.context)
    return client

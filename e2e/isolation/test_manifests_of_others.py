"""Manifests of others: moved to the test's namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_kwait import Kwait

# As `helm template` and kubebuilder write them.
SHOP = """
apiVersion: v1
kind: Namespace
metadata: {name: shop-system, labels: {team: shop}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller, namespace: shop-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: controller, namespace: shop-system}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: controller, namespace: shop-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: controller}
subjects: [{kind: ServiceAccount, name: controller, namespace: shop-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "shop-{{ id }}"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: controller, namespace: shop-system}]
---
apiVersion: v1
kind: Service
metadata: {name: webhook, namespace: shop-system}
spec: {selector: {app: shop}, ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: "shop-{{ id }}"}
webhooks:
- name: shop.example.com
  clientConfig: {service: {name: webhook, namespace: shop-system}}
  rules: [{apiGroups: [shop.example.com], apiVersions: [v1], resources: [shops], operations: ["*"]}]
  sideEffects: None
  admissionReviewVersions: [v1]
"""


@pytest.mark.parametrize("verb", ["apply", "create"])
def test_a_manifest_of_another_namespace_moves(kwait: Kwait, verb: str) -> None:
    """Its accounts have their rights there, and its webhooks their services."""
    getattr(kwait, verb)(SHOP, namespace=True, id=kwait.namespace)

    account = f"system:serviceaccount:{kwait.namespace}:controller"
    kwait.wait_for_authorization_update(account, "create", "configmaps")
    kwait.wait_for_authorization_update(account, "list", "pods", namespace="default")
    hook = kwait.get(f"validatingwebhookconfiguration/shop-{kwait.namespace}")
    service = hook["webhooks"][0]["clientConfig"]["service"]
    assert (service["name"], service["namespace"]) == ("webhook", kwait.namespace)
    assert kwait.get(f"namespace/{kwait.namespace}")["metadata"]["labels"]["team"] == "shop"
    assert not [each for each in kwait.list("ns") if each["metadata"]["name"] == "shop-system"]


@pytest.mark.kwait_manifests(
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop-system"},
    },
    namespace=True,
)
def test_a_marker_moves_as_well(kwait: Kwait) -> None:
    assert kwait.get("configmap/settings")


def test_namespaces_are_moved_one_by_one(kwait: Kwait) -> None:
    peer = kwait.create_namespace("peer")
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}

    kwait.apply(
        {**kind, "metadata": {"name": "a", "namespace": "shop"}},
        {**kind, "metadata": {"name": "b", "namespace": "bank"}},
        {**kind, "metadata": {"name": "c"}},
        namespace={"shop": True, "bank": peer.namespace},
    )

    assert kwait.get("cm/a")
    assert kwait.get("cm/c")
    assert peer.get("cm/b")

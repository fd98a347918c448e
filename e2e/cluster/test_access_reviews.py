"""Waiting for permissions: the authorizer sees new roles with a delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.raising import times_out

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.typing import WaitForAuthorizationUpdate, WaitForAuthzUpdate


READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list]}
- {apiGroups: [apps], resources: [deployments], resourceNames: [web], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}
"""


def test_wait_for_granted_and_revoked_permissions(kwait: Kwait) -> None:
    kwait.wait_for_authorization_update("jane", "list", "pods", False, timeout="4m")
    kwait.apply(READER)

    review = kwait.wait_for_authorization_update("jane", "list", "pods", timeout="4m")
    assert "reader" in review["status"]["reason"]
    kwait.wait_for_authorization_update("jane", "get", "pods/log", timeout="4m")
    kwait.wait_for_authorization_update("joe", "get", "po", groups=["readers"], timeout="4m")
    kwait.wait_for_named_authorization_update("jane", "get", "deployments", "web", timeout="4m")
    kwait.wait_for_named_authorization_update(
        "jane", "get", "deployments", "db", False, timeout="4m"
    )

    kwait.delete("rolebinding/reader")
    kwait.wait_for_authorization_update("jane", "list", "pods", False, timeout="4m")


def test_wait_for_cluster_wide_permissions(
    wait_for_authorization_update: WaitForAuthorizationUpdate,
    wait_for_authz_update: WaitForAuthzUpdate,
) -> None:
    """Members of `system:masters` may do everything."""
    masters = ["system:masters"]

    wait_for_authorization_update("root", "*", "nodes", groups=masters, timeout="4m")
    wait_for_authorization_update(
        "root", "list", "secrets", groups=masters, all_namespaces=True, timeout="4m"
    )
    everything = {"verb": "*", "group": "*", "resource": "*"}
    wait_for_authz_update("root", everything, groups=masters, timeout="4m")


def test_missing_permissions_time_out(
    wait_for_authorization_update: WaitForAuthorizationUpdate,
) -> None:
    times_out(
        "user jane did not become allowed to list pods",
        wait_for_authorization_update,
        "jane",
        "list",
        "pods",
    )

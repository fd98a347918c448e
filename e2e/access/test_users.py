"""Other users of the cluster: impersonated ones, and service accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException, CoreV1Api

from e2e.objects import config_map, container, job, pod
from e2e.raising import raises
from e2e.service_accounts import READER
from pytest_kwait import ApiError, WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


RBAC = "rbac.authorization.k8s.io"


def bind(
    kwait: Kwait, role: str, kind: str, subject: str, *, kind_of_role: str = "ClusterRole"
) -> None:
    """Give a user or a group the rights of a role in the test's namespace."""
    kwait.create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{subject}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": kind_of_role, "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": kind, "name": subject}],
        }
    )


def who_is(kwait: Kwait) -> dict[str, Any]:
    """Return the user of its requests, as the server sees it."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    [answer] = kwait.create(review | {"metadata": {"generateName": "me-"}})
    user: dict[str, Any] = answer["status"]["userInfo"]
    return user


def test_a_user_has_its_own_rights(kwait: Kwait) -> None:
    jane = kwait.as_user("jane")
    with raises(ApiError, 'User "jane" cannot list resource "pods"'):
        jane.list("pods")
    kwait.create_and_wait(pod("web", container()))
    with raises(ApiError, 'User "jane" cannot .* resource "pods/exec"'):
        jane.exec("web", "true")

    bind(kwait, "view", "User", "jane")
    kwait.wait_for_authorization_update("jane", "list", "pods", timeout="4m")
    assert [each["metadata"]["name"] for each in jane.list("pods")] == ["web"]
    with raises(ApiError, 'User "jane" cannot patch resource "configmaps"'):
        jane.apply(config_map("settings"))


def test_groups_uid_and_attributes_of_a_user(kwait: Kwait) -> None:
    jörg = kwait.as_user(
        "jörg",
        groups=["developers", "on call"],
        uid="1234",
        extra={"example.com/scopes": ["read", "write"], "team": ["a"]},
    )
    assert who_is(jörg) == {
        "username": "jörg",
        "uid": "1234",
        "groups": ["developers", "on call", "system:authenticated"],
        "extra": {"example.com/scopes": ["read", "write"], "team": ["a"]},
    }


def test_objects_of_a_group(kwait: Kwait) -> None:
    bind(kwait, "edit", "Group", "developers")
    jane = kwait.as_user("jane", groups=["developers"])
    kwait.wait_for_authorization_update(
        "jane", "patch", "configmaps", groups=["developers"], timeout="4m"
    )
    [applied] = jane.apply(config_map("settings"))
    assert kwait.get("configmap/settings")["metadata"]["uid"] == applied["metadata"]["uid"]
    jane.wait_for("configmap/settings", "create")
    jane.delete_and_wait("configmap/settings")


def test_the_official_client_is_that_of_the_user(kwait: Kwait) -> None:
    kwait.apply(READER)
    for user, name in (
        (kwait.as_user("jane", groups=["a", "b"]), "jane"),
        (kwait.as_service_account("reader"), f"system:serviceaccount:{kwait.namespace}:reader"),
    ):
        with pytest.raises(ApiException) as refused:
            CoreV1Api(user.client).list_namespaced_secret(kwait.namespace)
        assert f'User \\"{name}\\" cannot list resource' in str(refused.value.body)


def test_a_service_account(kwait: Kwait) -> None:
    kwait.apply(READER)
    name = f"system:serviceaccount:{kwait.namespace}:reader"
    kwait.wait_for_authorization_update(name, "list", "pods", timeout="4m")
    reader = kwait.as_service_account("reader")
    assert who_is(reader)["username"] == name
    assert reader.list("pods") == []
    with raises(ApiError, f'User "{name}" cannot patch resource "configmaps"'):
        reader.apply(config_map("settings"))


def test_a_failed_wait_of_a_user_shows_what_the_run_sees(kwait: Kwait) -> None:
    """Its requests are those of the user, who may read neither logs nor events."""
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    ]
    role = {"kind": "Role", "metadata": {"name": "jobs"}, "rules": rules}
    kwait.create({"apiVersion": f"{RBAC}/v1", **role})
    bind(kwait, "jobs", "User", "jane", kind_of_role="Role")
    kwait.wait_for_authorization_update("jane", "create", "jobs", timeout="4m")

    jane = kwait.as_user("jane")
    jane.create(job("broken", container(script="echo cannot go on; exit 3"), backoffLimit=0))
    with raises(WaitFailed, "cannot go on") as failed:
        jane.wait_for_job_complete("broken", timeout="4m")
    assert failed.value.__notes__ == ["the wait's requests were those of user jane"]


def test_a_further_namespace_of_a_user(kwait: Kwait) -> None:
    peer = kwait.as_user("jane").create_namespace("peer")
    assert who_is(peer)["username"] == "jane"
    with raises(ApiError, 'User "jane" cannot list resource "pods"'):
        peer.list("pods")

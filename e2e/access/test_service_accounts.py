"""Acting as a service account: permissions and error messages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiClient, ApiException, Configuration, CoreV1Api

from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

    Wait = Callable[..., Any]

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


def acting(bench: Kwait, token: str) -> CoreV1Api:
    """A client of the same cluster that shows this token and nothing else."""
    there: Any = bench.client.configuration
    ours: Any = Configuration()
    ours.host, ours.ssl_ca_cert = there.host, there.ssl_ca_cert
    ours.api_key = {"BearerToken": f"Bearer {token}"}
    return CoreV1Api(ApiClient(ours))


def refusal(error: pytest.ExceptionInfo[ApiException]) -> tuple[Any, str]:
    """Status and text of what the server refuses."""
    return error.value.status, str(error.value.body)


def is_nobody(user: CoreV1Api, namespace: str) -> bool:
    """Whether the server does not know who that is."""
    try:
        user.list_namespaced_pod(namespace)
    except ApiException as error:
        return bool(error.status == 401)
    return False


def test_a_service_account_with_a_role(kwait: Kwait, wait_for_authorization_update: Wait) -> None:
    """The token is asked for; what the account may do is its roles' alone."""
    kwait.apply(READER)
    user = f"system:serviceaccount:{kwait.namespace}:reader"
    wait_for_authorization_update(user, "list", "pods", timeout="4m")
    request: Any = {"spec": {"expirationSeconds": 600}}
    answer: Any = CoreV1Api(kwait.client).create_namespaced_service_account_token(
        "reader", kwait.namespace, request
    )
    reader = acting(kwait, answer.status.token)

    assert reader.list_namespaced_pod(kwait.namespace).items == []
    with pytest.raises(ApiException) as refused:
        reader.list_namespaced_secret(kwait.namespace)
    status, text = refusal(refused)
    assert status == 403
    assert f'User \\"{user}\\" cannot list resource \\"secrets\\" in API group \\"\\"' in text
    with pytest.raises(ApiException) as refused:
        reader.list_pod_for_all_namespaces()
    assert "at the cluster scope" in refusal(refused)[1]


def test_a_token_that_is_kept_in_a_secret(kwait: Kwait) -> None:
    """It comes a moment after the secret, and is nobody's once the secret is gone."""
    kwait.apply(READER)
    notes = {"kubernetes.io/service-account.name": "reader"}
    kwait.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "key", "annotations": notes},
            "type": "kubernetes.io/service-account-token",
        }
    )
    found = kwait.wait_for(
        "secret/key", lambda secret: "token" in (secret.get("data") or {}), timeout="4m"
    )
    data = found["data"]
    assert base64.b64decode(data["namespace"]).decode() == kwait.namespace
    assert data["ca.crt"]
    reader = acting(kwait, base64.b64decode(data["token"]).decode())
    kwait.delete("secret/key")

    # A real server may remember for some seconds whose it was.
    wait.poll_immediate(0.1, 240, lambda: is_nobody(reader, kwait.namespace))


def test_an_unknown_token_is_unauthorized(kwait: Kwait) -> None:
    """Unlike one who may not, who is known."""
    with pytest.raises(ApiException) as refused:
        acting(kwait, "unknown").list_namespaced_pod(kwait.namespace)
    assert refusal(refused)[0] == 401

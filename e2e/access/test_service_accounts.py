"""Acting as a service account: permissions and error messages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import (
    ApiClient,
    ApiException,
    AuthenticationV1Api,
    Configuration,
    CoreV1Api,
)

from e2e.objects import container, pod
from e2e.service_accounts import READER, bind, client_of_default
from pytest_kwait import WaitTimeout, wait, wait_for

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def acting(kwait: Kwait, token: str) -> CoreV1Api:
    """Return a client of the same cluster with this token only."""
    there: Any = kwait.client.configuration
    ours: Any = Configuration()
    ours.host, ours.ssl_ca_cert = there.host, there.ssl_ca_cert
    ours.api_key = {"BearerToken": f"Bearer {token}"}
    return CoreV1Api(ApiClient(ours))


def refusal(error: pytest.ExceptionInfo[ApiException]) -> tuple[Any, str]:
    """Return status and message of a refusal."""
    return error.value.status, str(error.value.body)


def is_nobody(user: CoreV1Api, namespace: str) -> bool:
    """Return whether the server rejects the token."""
    try:
        user.list_namespaced_pod(namespace)
    except ApiException as error:
        return bool(error.status == 401)
    return False


def test_a_service_account_with_a_role(kwait: Kwait) -> None:
    """The account's roles determine the rights of its requested token."""
    kwait.apply(READER)
    user = f"system:serviceaccount:{kwait.namespace}:reader"
    kwait.wait_for_authorization_update(user, "list", "pods", timeout="4m")
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
    """The controller adds it to the secret; without the secret it is invalid."""
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

    # A real server caches tokens for some seconds.
    wait.poll_immediate(0.1, 240, lambda: is_nobody(reader, kwait.namespace))


def test_the_token_that_is_mounted_into_a_pod(kwait: Kwait) -> None:
    """Its review names the account, the pod and the node."""
    script = "cat /var/run/secrets/kubernetes.io/serviceaccount/token"
    kwait.create(pod("p", container(script=script)))
    found = kwait.wait_for_pod_success("p")
    token = kwait.logs("p")

    request: Any = {"spec": {"token": token.strip()}}
    review: Any = AuthenticationV1Api(kwait.client).create_token_review(request)

    assert review.status.authenticated
    assert review.status.user.username == f"system:serviceaccount:{kwait.namespace}:default"
    extra = review.status.user.extra
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [found["metadata"]["uid"]]
    assert extra["authentication.kubernetes.io/node-name"] == [found["spec"]["nodeName"]]


def test_an_unknown_token_is_unauthorized(kwait: Kwait) -> None:
    """An invalid token is 401, a missing right 403."""
    with pytest.raises(ApiException) as refused:
        acting(kwait, "unknown").list_namespaced_pod(kwait.namespace)
    assert refusal(refused)[0] == 401


def test_a_failed_wait_of_a_user_who_may_read_no_roles(kwait: Kwait) -> None:
    """Its message has nothing of operators, and no error about them."""
    bind(kwait, "view")
    with client_of_default(kwait) as client, pytest.raises(WaitTimeout) as caught:
        wait_for(client, kwait.namespace, "configmap/missing", "create", timeout="2s")
    evidence = caught.value.evidence
    assert (evidence["refusals"], evidence["records"], evidence["errors"]) == ((), (), ())
    assert "kube-root-ca.crt" in str(caught.value)

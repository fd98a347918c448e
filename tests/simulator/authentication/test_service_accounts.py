from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.authentication.service_accounts import (
    ISSUER,
    TOKEN_REQUESTS,
    InvalidToken,
    TokenSigner,
    parse_unverified_claims,
)
from pytest_kwait.simulator.request_info import internal_caller
from tests.objects import pod

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from tests.simulator.manual_clock import ManualClock


def ask(api: SimulatedCluster, **spec: Any) -> dict[str, Any]:
    account = api.get("serviceaccounts", "default", "default")
    request = api.decode(TOKEN_REQUESTS, {"spec": spec}, internal_caller())
    return api.accounts.issue(account, request)


def token(api: SimulatedCluster, **spec: Any) -> str:
    return str(ask(api, **spec)["status"]["token"])


def advance(api: SimulatedCluster, seconds: float) -> None:
    cast("ManualClock", api.clock).advance(seconds)


def reference(kind: str, name: str, **more: str) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "name": name, **more}


def test_a_token_is_a_service_accounts(api: SimulatedCluster) -> None:
    found = api.accounts.user_of(token(api))
    assert found is not None
    user, audiences = found
    assert user.name == "system:serviceaccount:default:default"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default")
    assert user.uid == api.get("serviceaccounts", "default", "default")["metadata"]["uid"]
    assert audiences == [ISSUER]


def test_a_token_expires_a_minute_late(api: SimulatedCluster) -> None:
    given = token(api, expirationSeconds=600)
    advance(api, 659)
    assert api.accounts.user_of(given)
    advance(api, 2)
    with pytest.raises(InvalidToken, match=r"^service account token has expired$"):
        api.accounts.user_of(given)


def test_the_token_of_a_pods_volume_lasts_a_year(api: SimulatedCluster) -> None:
    api.create("pods", pod(), "default")
    given = ask(api, expirationSeconds=3607, boundObjectRef=reference("Pod", "p"))
    claims = parse_unverified_claims(given["status"]["token"])
    assert claims is not None
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] == 3607
    assert given["status"]["expirationTimestamp"] == "2026-01-01T01:00:07Z"


def test_bound_token_is_invalid_after_its_object(api: SimulatedCluster) -> None:
    api.create("pods", pod(), "default")
    given = token(api, boundObjectRef=reference("Pod", "p"))
    assert api.accounts.user_of(given)
    api.delete("pods", "p", "default", grace=0)
    with pytest.raises(InvalidToken, match=r"^service account token has been invalidated$"):
        api.accounts.user_of(given)
    api.create("pods", pod(), "default")
    with pytest.raises(
        InvalidToken, match=r"^pod UID \(.*\) does not match service account pod ref"
    ):
        api.accounts.user_of(given)


def test_token_is_invalid_after_its_account(api: SimulatedCluster) -> None:
    given = token(api)
    api.delete("serviceaccounts", "default", "default")
    with pytest.raises(InvalidToken, match=r'^serviceaccounts "default" not found$'):
        api.accounts.user_of(given)
    api.create("serviceaccounts", {"metadata": {"name": "default"}}, "default")
    with pytest.raises(InvalidToken, match=r"^service account UID \(.*\) does not match claim \("):
        api.accounts.user_of(given)


def test_a_pod_of_another_account(api: SimulatedCluster) -> None:
    api.create("serviceaccounts", {"metadata": {"name": "robot"}}, "default")
    api.create("pods", pod(serviceAccountName="robot"), "default")
    with pytest.raises(StatusError) as refused:
        token(api, boundObjectRef=reference("Pod", "p"))
    assert refused.value.message == (
        'cannot bind token for serviceaccount "default" to pod running with different '
        "serviceaccount name."
    )


def test_the_token_of_a_secret_is_the_secrets(api: SimulatedCluster) -> None:
    account = api.get("serviceaccounts", "default", "default")
    notes = {"kubernetes.io/service-account.name": "default"}
    secret = api.create("secrets", {"metadata": {"name": "s", "annotations": notes}}, "default")
    given = api.accounts.legacy(account, secret)
    with pytest.raises(InvalidToken, match=r"^Token does not match server's copy$"):
        api.accounts.user_of(given)
    data = {"token": base64.b64encode(given.encode()).decode()}
    api.modify("secrets", "s", "default", lambda one: one.update(data=data))
    found = api.accounts.user_of(given)
    assert found is not None
    assert found[0].name == "system:serviceaccount:default:default"
    assert found[0].extra == {}
    invalid = {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}
    api.modify("secrets", "s", "default", lambda one: one["metadata"].update(invalid))
    with pytest.raises(InvalidToken, match=r"^the token in secret default/s for service account"):
        api.accounts.user_of(given)
    api.delete("secrets", "s", "default")
    with pytest.raises(InvalidToken, match=r"^Token has been invalidated$"):
        api.accounts.user_of(given)


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.b.c", "a.b.c.d", "..", "é.é.é", "e30.W10.x"])
def test_foreign_tokens_are_ignored(api: SimulatedCluster, text: str) -> None:
    assert api.accounts.user_of(text) is None


def test_foreign_signature_is_refused(api: SimulatedCluster) -> None:
    claims = parse_unverified_claims(token(api))
    assert claims is not None
    with pytest.raises(InvalidToken, match=r"^invalid signature, no keys found$"):
        api.accounts.user_of(TokenSigner().sign(claims))


@pytest.mark.parametrize("change", ["claims", "cut", "empty", "bad"])
def test_a_signature_that_does_not_fit(api: SimulatedCluster, change: str) -> None:
    given = token(api)
    head, body, signature = given.split(".")
    claims = {
        **(parse_unverified_claims(given) or {}),
        "sub": "system:serviceaccount:kube-system:default",
    }
    other = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    forged = {
        "claims": f"{head}.{other}.{signature}",
        "cut": given[:-8],
        "empty": f"{head}.{body}.",
        "bad": f"{head}.{body}.{'A' * 86}",
    }[change]
    with pytest.raises(InvalidToken, match=r"^go-jose/go-jose: error in cryptographic primitive$"):
        api.accounts.user_of(forged)

"""Waits that ask the API server: access reviews and `/readyz`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.errors import ApiError, InvalidArgument, WaitTimeout
from pytest_kwait.framework.cluster.authorization import (
    wait_for_authorization_update,
    wait_for_authz_update,
)
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession
    from tests.framework.fake_server import FakeServer

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])


REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def reviewed(allowed: bool, **status: Any) -> dict[str, Any]:
    return {"kind": "SubjectAccessReview", "status": {"allowed": allowed, **status}}


@MODES
def test_rights_that_come(
    client: ApiClient, session: FakeSession, server: FakeServer, mode: Any
) -> None:
    server.answers[REVIEWS] = reviewed(False)
    session.at(0.25, server.answers.update, {REVIEWS: reviewed(True, reason="by role r")})

    review = kw.wait_for_authorization_update(
        client, "ci-1", "jane", "list", "deploy", groups=["dev"], mode=mode
    )

    assert review["status"] == {"allowed": True, "reason": "by role r"}
    assert session.clock.monotonic() == pytest.approx(0.3)
    assert server.asked[0][2]["spec"] == {
        "user": "jane",
        "groups": ["dev"],
        "resourceAttributes": {
            "namespace": "ci-1",
            "verb": "list",
            "group": "apps",
            "resource": "deployments",
        },
    }


@pytest.mark.parametrize(
    ("resource", "options", "attributes"),
    [
        ("pods/log", {}, {"namespace": "ci-1", "resource": "pods", "subresource": "log"}),
        ("nodes", {}, {"resource": "nodes"}),
        ("pods", {"all_namespaces": True}, {"resource": "pods"}),
        (
            "widgets.example.com",
            {},
            {"namespace": "ci-1", "group": "example.com", "resource": "widgets"},
        ),
        ("*.apps", {}, {"namespace": "ci-1", "group": "apps", "resource": "*"}),
    ],
)
def test_the_review_holds_user_and_attributes(resource: str, options: Any, attributes: Any) -> None:
    condition = condition_of(wait_for_authorization_update)(
        "ci-1", "jane", "get", resource, **options
    )

    asked = condition.probe_targets()[0]["spec"]["resourceAttributes"]
    assert asked == {**attributes, "verb": "get"}


@pytest.mark.parametrize(
    ("answer", "arguments", "text"),
    [
        (
            reviewed(False, evaluationError="role r not\nfound"),
            ("get", "pods/log"),
            "user jane did not become allowed to get pods/log in ci-1 within 5s: not allowed: "
            "role r not found",
        ),
        (
            reviewed(True, reason="by role r"),
            ("get", "deployments", "web", False),
            "user jane did not stop being allowed to get deployments.apps web in ci-1 within 5s: "
            "still allowed: by role r",
        ),
        (
            {"status": None},
            ("*", "nodes"),
            "user jane did not become allowed to * nodes within 5s: not allowed",
        ),
    ],
)
def test_rights_that_do_not_come(
    client: ApiClient, server: FakeServer, answer: Any, arguments: Any, text: str
) -> None:
    server.answers[REVIEWS] = answer
    wait = kw.wait_for_authorization_update
    if len(arguments) > 2:
        wait = kw.wait_for_named_authorization_update  # type: ignore[assignment]  # a longer one

    with pytest.raises(WaitTimeout) as caught:
        wait(client, "ci-1", "jane", *arguments)

    assert caught.value.args == (text,)
    assert str(caught.value).endswith("get rolebindings,clusterrolebindings")
    # Each 100 ms, and when the time is up.
    assert len(server.asked) == 51


def test_reviews_that_are_refused(client: ApiClient, server: FakeServer) -> None:
    server.answers[REVIEWS] = ApiError("no", status=403, reason="Forbidden")

    with pytest.raises(ApiError, match="no"):
        kw.wait_for_authz_update(client, "jane", {"verb": "get", "resource": "pods"})


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("", "get", "pods"), {}, "user='' is not valid: use a text"),
        (("jane", None, "pods"), {}, "verb=None is not valid: use a text"),
        (
            ("jane", "get", "pods", 1),
            {},
            "allowed=1 is not valid: use True or False",
        ),
        (
            ("jane", "get", "pods"),
            {"groups": "dev"},
            "groups='dev' is not valid: use a list of groups",
        ),
        (
            ("jane", "get", "pods"),
            {"all_namespaces": None},
            "all_namespaces=None is not valid: use True or False",
        ),
    ],
)
def test_bad_rights(arguments: Any, options: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        condition_of(wait_for_authorization_update)("ci-1", *arguments, **options)

    assert str(caught.value) == text


def test_bad_attributes() -> None:
    with pytest.raises(InvalidArgument) as caught:
        condition_of(wait_for_authz_update)("jane", {"verbs": "get"})

    assert str(caught.value) == (
        "attributes={'verbs': 'get'} is not valid: use some of namespace, verb, group, version, "
        "resource, subresource, name, fieldSelector, labelSelector"
    )


@MODES
def test_a_server_that_becomes_healthy(
    client: ApiClient, session: FakeSession, server: FakeServer, mode: Any
) -> None:
    server.answers["/readyz"] = ApiError("refused", reason="ConnectionRefused")
    failing = ApiError("etcd; poststarthook/rbac", status=500)
    session.at(1, server.answers.update, {"/readyz": failing})
    session.at(2, server.answers.update, {"/readyz": ApiError("not yet", status=403)})
    session.at(3, server.answers.update, {"/readyz": b"[+]ping ok\nreadyz check passed\n"})

    kw.wait_for_api_server_healthy(client, mode=mode)

    assert session.clock.monotonic() == pytest.approx(3.0, abs=0.11)
    assert server.asked[0][:2] == ("GET /readyz", {"verbose": "true"})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ApiError("etcd; log", status=500), "/readyz answers 500: etcd; log"),
        (ApiError("127.0.0.1: refused", reason="ConnectionRefused"), "127.0.0.1: refused"),
        (DeadlineExceeded("late"), "no answer within 5s"),
    ],
)
def test_a_server_that_stays_ill(
    client: ApiClient, server: FakeServer, answer: Exception, reason: str
) -> None:
    server.answers["/readyz"] = answer

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_api_server_healthy(client, timeout=2)

    assert caught.value.args == (f"API server did not become healthy within 2s: {reason}",)
    assert str(caught.value).endswith("try: kubectl get '--raw=/readyz?verbose'")


def test_health_that_is_refused(client: ApiClient, server: FakeServer) -> None:
    server.answers["/readyz"] = ApiError("no", status=403, reason="Forbidden")

    with pytest.raises(ApiError, match="no"):
        kw.wait_for_api_server_healthy(client)


@MODES
def test_a_page_of_a_proxy_is_not_a_healthy_answer(
    client: ApiClient, server: FakeServer, mode: Any
) -> None:
    server.answers["/readyz"] = b"<html>It works!</html>"

    with pytest.raises(ApiError) as caught:
        kw.wait_for_api_server_healthy(client, mode=mode)

    assert (
        str(caught.value)
        == "GET /readyz: 201 NotJSON: expected the checks of a server, got It works!"
    )
    assert len(server.asked) == 3


@MODES
def test_a_server_that_stays_healthy(
    client: ApiClient, session: FakeSession, server: FakeServer, mode: Any
) -> None:
    server.answers["/readyz"] = b"ok"
    session.at(0.5, server.answers.update, {"/readyz": ApiError("etcd", status=500)})
    session.at(1.0, server.answers.update, {"/readyz": b"[+]ping ok\nreadyz check passed\n"})

    kw.wait_for_api_server_healthy(client, stable_for="2s", mode=mode)

    assert session.clock.monotonic() == pytest.approx(3.1, abs=0.15)

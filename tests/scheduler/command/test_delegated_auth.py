from __future__ import annotations

import logging
from typing import Any

import pytest

from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler.command import CommandError
from pytest_kwait.scheduler.command.delegated_auth import (
    ALLOWED,
    ANONYMOUS,
    AccessDecision,
    Authenticator,
    DelegatedAuthorizer,
    TTLCache,
    UserInfo,
    fetch_client_authorities,
    read_certificate_user,
)
from pytest_kwait.testing import FakeClock
from tests.scheduler.command.reviewing import Reviewer

KNOWN = {
    "authenticated": True,
    "user": {
        "username": "ann",
        "uid": "7",
        "groups": ["dev", "system:authenticated"],
        "extra": {"scopes": ["a"]},
    },
}
ANN = UserInfo("ann", ("dev", "system:authenticated"), "7", {"scopes": ["a"]})
CERTIFICATE = {
    "subject": (
        (("organizationName", "dev"),),
        (("organizationName", "ops"),),
        (("commonName", "bob"),),
    )
}
BOB = UserInfo("bob", ("dev", "ops", "system:authenticated"))


def by_token(spec: dict[str, Any]) -> dict[str, Any]:
    return KNOWN if spec["token"] == "good" else {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize(
    ("header", "certificate", "user"),
    [
        ("Bearer good", None, ANN),
        ("bearer   good  ", None, ANN),
        ("Bearer good and more", None, ANN),
        ("Bearer bad", None, None),
        (None, None, ANONYMOUS),
        ("", None, ANONYMOUS),
        ("Bearer", None, ANONYMOUS),
        ("Bearer ", None, ANONYMOUS),
        ("Basic Z29vZA==", None, ANONYMOUS),
        (None, CERTIFICATE, BOB),
        ("Bearer bad", CERTIFICATE, BOB),
        (None, {"subject": ((("organizationName", "dev"),),)}, ANONYMOUS),
        (None, {}, ANONYMOUS),
    ],
)
def test_caller_is_authenticated(
    header: str | None, certificate: dict[str, Any] | None, user: UserInfo | None
) -> None:
    assert Authenticator(Reviewer(by_token).session).authenticate(header, certificate) == user


def test_tokens_are_ignored_without_a_reviewer() -> None:
    assert Authenticator(None).authenticate("Bearer good", None) == ANONYMOUS


def test_every_user_is_authenticated() -> None:
    reviewer = Reviewer(lambda _spec: {"authenticated": True, "user": {"username": "x"}})
    user = Authenticator(reviewer.session).authenticate("Bearer t", None)
    assert user == UserInfo("x", ("system:authenticated",))
    assert read_certificate_user({}) is None


def test_token_answers_are_cached_until_they_expire() -> None:
    clock = FakeClock()
    reviewer = Reviewer(by_token)
    authenticator = Authenticator(reviewer.session, 10, clock)
    for header in ("Bearer good", "Bearer bad") * 3:
        authenticator.authenticate(header, None)
    assert [spec["token"] for spec in reviewer.asked] == ["good", "bad"]
    clock.sleep(10)
    authenticator.authenticate("Bearer good", None)
    assert len(reviewer.asked) == 3


def test_token_answers_are_not_cached_without_ttl() -> None:
    reviewer = Reviewer(by_token)
    authenticator = Authenticator(reviewer.session, 0)
    assert [authenticator.authenticate("Bearer good", None) for _ in range(2)] == [ANN, ANN]
    assert len(reviewer.asked) == 2


def test_failed_token_review_denies_access(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_spec: dict[str, Any]) -> dict[str, Any]:
        raise ApiError("not for you", status=403, reason="Forbidden")

    reviewer = Reviewer(refuse)
    authenticator = Authenticator(reviewer.session)
    with caplog.at_level(logging.ERROR):
        assert authenticator.authenticate("Bearer good", None) is None
        assert authenticator.authenticate("Bearer good", None) is None
    assert len(reviewer.asked) == 2, "no answer is kept"
    assert caplog.messages[0] == ("Unable to authenticate the request: 403 Forbidden: not for you")


class Extended(Reviewer):
    """Publishes, or does not publish, client certificate authorities."""

    def __init__(self, found: dict[str, Any] | None) -> None:
        super().__init__(lambda _spec: {})
        self._found = found

    def get(self, _resource: object, name: str, namespace: str, **_options: object) -> Any:
        assert (name, namespace) == ("extension-apiserver-authentication", "kube-system")
        if self._found is None:
            raise ApiError("not there", status=404, reason="NotFound")
        return self._found


def test_client_authorities_are_fetched() -> None:
    found = Extended({"data": {"client-ca-file": "PEM"}})
    assert fetch_client_authorities(found.session, tolerate=False) == "PEM"
    assert fetch_client_authorities(Extended({}).session, tolerate=False) is None


def test_missing_client_authorities_can_be_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert fetch_client_authorities(Extended(None).session, tolerate=True) is None
    assert caplog.messages == [
        "Error looking up in-cluster authentication configuration: 404 NotFound: not there",
        "Continuing without it: client certificates are ignored",
    ]
    with pytest.raises(CommandError) as caught:
        fetch_client_authorities(Extended(None).session, tolerate=False)
    assert str(caught.value) == (
        "unable to load configmap based client CA file: 404 NotFound: not there"
    )


AUTHORIZATION_ANN = UserInfo("ann", ("dev",), "7", {"scopes": ["a"]})


def by_user(spec: dict[str, Any]) -> dict[str, Any]:
    if spec["user"] == "ann":
        return {"allowed": True}
    if spec["user"] == "both":
        return {"allowed": True, "denied": True, "reason": "denied"}
    return {"allowed": False, "reason": "no role"}


@pytest.mark.parametrize(
    ("user", "path", "permission"),
    [
        (AUTHORIZATION_ANN, "/metrics", ALLOWED),
        (UserInfo("x", ("system:masters",)), "/metrics", ALLOWED),
        (UserInfo("x"), "/metrics", AccessDecision(False, "no role")),
        (UserInfo("both"), "/metrics", AccessDecision(False, "denied")),
        (ANONYMOUS, "/healthz", ALLOWED),
        (ANONYMOUS, "/healthz/ping", AccessDecision(False, "no role")),
        (ANONYMOUS, "/open/any", ALLOWED),
        (ANONYMOUS, "/open", AccessDecision(False, "no role")),
        (ANONYMOUS, "/", ALLOWED),
    ],
)
def test_access_is_authorized(user: UserInfo, path: str, permission: AccessDecision) -> None:
    authorizer = DelegatedAuthorizer(Reviewer(by_user).session, ("/healthz", "open/*", "/"))
    assert authorizer.authorize(user, "get", path) == permission


def test_access_review_has_user_and_path() -> None:
    reviewer = Reviewer(by_user)
    authorizer = DelegatedAuthorizer(reviewer.session)
    authorizer.authorize(AUTHORIZATION_ANN, "post", "/x")
    authorizer.authorize(UserInfo("bob"), "get", "/y")
    assert reviewer.asked == [
        {
            "nonResourceAttributes": {"path": "/x", "verb": "post"},
            "user": "ann",
            "groups": ["dev"],
            "uid": "7",
            "extra": {"scopes": ["a"]},
        },
        {"nonResourceAttributes": {"path": "/y", "verb": "get"}, "user": "bob", "groups": []},
    ]


def test_only_listed_paths_are_allowed_without_a_reviewer() -> None:
    authorizer = DelegatedAuthorizer(None, ("/healthz",))
    assert authorizer.authorize(AUTHORIZATION_ANN, "get", "/metrics") == AccessDecision(False)
    assert authorizer.authorize(AUTHORIZATION_ANN, "get", "/healthz") == ALLOWED


def test_access_answers_are_cached_by_their_own_ttl() -> None:
    clock = FakeClock()
    reviewer = Reviewer(by_user)
    authorizer = DelegatedAuthorizer(reviewer.session, (), 10, 5, clock)
    for user in (AUTHORIZATION_ANN, UserInfo("bob")) * 3:
        authorizer.authorize(user, "get", "/metrics")
    assert [spec["user"] for spec in reviewer.asked] == ["ann", "bob"]
    clock.sleep(5)
    for user in (AUTHORIZATION_ANN, UserInfo("bob")):
        authorizer.authorize(user, "get", "/metrics")
    assert [spec["user"] for spec in reviewer.asked] == ["ann", "bob", "bob"]


def test_failed_access_review_is_not_cached() -> None:
    def refuse(_spec: dict[str, Any]) -> dict[str, Any]:
        raise ApiError("not for you", status=403, reason="Forbidden")

    reviewer = Reviewer(refuse)
    authorizer = DelegatedAuthorizer(reviewer.session)
    for _ in range(2):
        with pytest.raises(ApiError):
            authorizer.authorize(AUTHORIZATION_ANN, "get", "/metrics")
    assert len(reviewer.asked) == 2


def test_oldest_cached_answers_are_evicted_first() -> None:
    answers: TTLCache[int] = TTLCache(FakeClock(), most=2)
    for number in range(3):
        answers.put(number, number, 60)
    assert [answers.get(number) for number in range(3)] == [None, 1, 2]

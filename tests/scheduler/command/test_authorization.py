from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler.command.authorization import ALLOWED, AccessDecision, Authorizer
from pytest_kwait.scheduler.command.delegated_auth import ANONYMOUS, UserInfo
from pytest_kwait.scheduler.command.expiring_answers import TTLCache
from pytest_kwait.testing import FakeClock
from tests.scheduler.command.reviewing import Reviewer

ANN = UserInfo("ann", ("dev",), "7", {"scopes": ["a"]})


def by_user(spec: dict[str, Any]) -> dict[str, Any]:
    if spec["user"] == "ann":
        return {"allowed": True}
    if spec["user"] == "both":
        return {"allowed": True, "denied": True, "reason": "denied"}
    return {"allowed": False, "reason": "no role"}


@pytest.mark.parametrize(
    ("user", "path", "permission"),
    [
        (ANN, "/metrics", ALLOWED),
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
def test_access_is_decided(user: UserInfo, path: str, permission: AccessDecision) -> None:
    authorizer = Authorizer(Reviewer(by_user).session, ("/healthz", "open/*", "/"))
    assert authorizer.authorize(user, "get", path) == permission


def test_review_says_who_asks_for_what() -> None:
    reviewer = Reviewer(by_user)
    authorizer = Authorizer(reviewer.session)
    authorizer.authorize(ANN, "post", "/x")
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


def test_nothing_more_is_allowed_where_nobody_reviews() -> None:
    authorizer = Authorizer(None, ("/healthz",))
    assert authorizer.authorize(ANN, "get", "/metrics") == AccessDecision(False)
    assert authorizer.authorize(ANN, "get", "/healthz") == ALLOWED


def test_answers_are_kept_each_for_its_time() -> None:
    clock = FakeClock()
    reviewer = Reviewer(by_user)
    authorizer = Authorizer(reviewer.session, (), 10, 5, clock)
    for user in (ANN, UserInfo("bob")) * 3:
        authorizer.authorize(user, "get", "/metrics")
    assert [spec["user"] for spec in reviewer.asked] == ["ann", "bob"]
    clock.sleep(5)
    for user in (ANN, UserInfo("bob")):
        authorizer.authorize(user, "get", "/metrics")
    assert [spec["user"] for spec in reviewer.asked] == ["ann", "bob", "bob"]


def test_failure_to_review_is_not_an_answer() -> None:
    def refuse(_spec: dict[str, Any]) -> dict[str, Any]:
        raise ApiError("not for you", status=403, reason="Forbidden")

    reviewer = Reviewer(refuse)
    authorizer = Authorizer(reviewer.session)
    for _ in range(2):
        with pytest.raises(ApiError):
            authorizer.authorize(ANN, "get", "/metrics")
    assert len(reviewer.asked) == 2


def test_the_oldest_answers_go_first() -> None:
    answers: TTLCache[int] = TTLCache(FakeClock(), most=2)
    for number in range(3):
        answers.put(number, number, 60)
    assert [answers.get(number) for number in range(3)] == [None, 1, 2]

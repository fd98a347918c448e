from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler.command.authorization import Authorizer
from pytest_kwait.scheduler.command.delegated_auth import Authenticator
from pytest_kwait.scheduler.command.endpoints import HTTPRequest, HTTPResponse, Routes
from pytest_kwait.scheduler.command.health import HealthCheck, UnhealthyError
from tests.scheduler.command.reviewing import Reviewer

SNIFF = {"X-Content-Type-Options": "nosniff"}


def fail() -> None:
    raise UnhealthyError("it is <ill>")


GOOD = HealthCheck("good", lambda: None)
BAD = HealthCheck("bad", fail)
HEALTH: dict[str, list[HealthCheck]] = {"healthz": [GOOD, BAD], "livez": [], "readyz": [GOOD]}


def by_token(spec: dict[str, Any]) -> dict[str, Any]:
    name = spec["token"]
    return {"authenticated": name != "stranger", "user": {"username": name}}


def by_user(spec: dict[str, Any]) -> dict[str, Any]:
    if spec["user"] == "nobody-can-say":
        raise ApiError("not for you", status=403, reason="Forbidden")
    return {"allowed": spec["user"] == "reader", "reason": "no <role>" * (spec["user"] == "why")}


ENDPOINTS = Routes(
    HEALTH,
    {"/metrics": lambda accept: ("text/x", f"as {accept}".encode())},
    Authenticator(Reviewer(by_token).session),
    Authorizer(Reviewer(by_user).session, ("/healthz", "/livez", "/readyz")),
)


def ask(target: str, user: str | None = "reader", method: str = "GET") -> HTTPResponse:
    headers = {"accept": "that"} | ({"authorization": f"Bearer {user}"} if user else {})
    return ENDPOINTS.answer(HTTPRequest(method, target, headers))


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        ("/livez", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/livez/ping", 200, "ok"),
        ("/livez/other", 404, "404 page not found\n"),
        ("/livez/", 404, "404 page not found\n"),
        ("/readyz", 200, "ok"),
        (
            "/healthz",
            500,
            "[+]good ok\n[-]bad failed: reason withheld\nhealthz check failed\n",
        ),
        ("/healthz?exclude=bad", 200, "ok"),
        (
            "/healthz?exclude=bad&exclude=x&exclude=y&verbose=",
            200,
            "[+]good ok\n[+]bad excluded: ok\n"
            'warn: some health checks cannot be excluded: no matches for "x","y"\n'
            "healthz check passed\n",
        ),
        ("/healthz/good", 200, "ok"),
        ("/healthz/bad", 500, "internal server error: it is <ill>\n"),
        ("/metrics", 200, "as that"),
        ("/metrics?x=1", 200, "as that"),
        ("/metrics/", 404, "404 page not found\n"),
        ("/", 404, "404 page not found\n"),
        ("//metrics", 404, "404 page not found\n"),
    ],
)
def test_path_answers(target: str, status: int, text: str) -> None:
    answer = ask(target)
    assert (answer.status, answer.body.decode()) == (status, text)


def test_reason_of_a_failed_check_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ask("/healthz")
    assert caplog.messages == ["healthz check failed: bad\n[-]bad failed: it is <ill>"]


def test_stranger_is_told_that_it_is_not_known() -> None:
    answer = ask("/healthz", "stranger")
    assert (answer.status, answer.content_type) == (401, "application/json")
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (None, 'forbidden: User "system:anonymous" cannot get path "/metrics"'),
        ("other", 'forbidden: User "other" cannot get path "/metrics"'),
        ("<b>", 'forbidden: User "&lt;b&gt;" cannot get path "/metrics"'),
        ("why", 'forbidden: User "why" cannot get path "/metrics": no <role>'),
    ],
)
def test_caller_without_the_right_is_told_so(user: str | None, message: str) -> None:
    answer = ask("/metrics", user)
    assert (answer.status, answer.content_type, answer.headers) == (403, "application/json", SNIFF)
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }


def test_unknown_paths_are_nobodys_business() -> None:
    assert ask("/nope", None).status == 403
    assert ask("/nope").status == 404


def test_nothing_is_shown_when_nobody_can_say() -> None:
    answer = ask("/metrics", "nobody-can-say")
    assert answer == HTTPResponse(
        500,
        b'Internal Server Error: "/metrics": 403 Forbidden: not for you\n',
        headers=SNIFF,
    )


def test_only_reading_is_served() -> None:
    assert ask("/metrics", method="POST") == HTTPResponse(
        405, b"405 method not allowed\n", headers={**SNIFF, "Allow": "GET"}
    )
    assert ask("/metrics", None, "POST").status == 403
    assert ask("/livez", method="HEAD").status == 200


def test_insecure_port_asks_nobody() -> None:
    answer = ENDPOINTS.insecure().answer(HTTPRequest("GET", "/metrics", {"accept": "x"}))
    assert (answer.status, answer.content_type, answer.body) == (200, "text/x", b"as x")

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.cel.expressions import (
    CompilationError,
    EvaluationError,
    Expression,
    compile_expression,
)
from pytest_kwait.simulator.cel.library.authz import AUTHORIZER, make_authorizer

TYPES = {"authorizer": "Authorizer", "authorizer.requestResource": "ResourceCheck"}
JANE = {"name": "jane", "groups": ["team"]}
OWN = {"group": "", "resource": "pods", "subresource": "", "name": "p", "namespace": "n"}


class FakeAuthorizer:
    """Lets everything be, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def __call__(self, check: dict[str, Any]) -> tuple[bool, str]:
        self.asked.append({key: one for key, one in check.items() if key != "@type"})
        return True, "because"

    def evaluate(self, text: str) -> Any:
        token = AUTHORIZER.set(self)
        try:
            values = {"authorizer": make_authorizer(JANE, OWN)}
            return Expression(text).evaluate(values)
        finally:
            AUTHORIZER.reset(token)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("authorizer.path('/x')", {"user": JANE, "path": "/x"}),
        (
            "authorizer.group('apps').resource('deployments')",
            {"user": JANE, "group": "apps", "resource": "deployments"},
        ),
        (
            "authorizer.group('').resource('pods').subresource('log').namespace('n').name('p')",
            {"user": JANE, **OWN, "subresource": "log"},
        ),
        ("authorizer.requestResource", {"user": JANE, **OWN}),
        (
            "authorizer.serviceAccount('n', 'a').path('/x')",
            {
                "user": {
                    "name": "system:serviceaccount:n:a",
                    "groups": [
                        "system:serviceaccounts",
                        "system:serviceaccounts:n",
                        "system:authenticated",
                    ],
                },
                "path": "/x",
            },
        ),
    ],
)
def test_authorization_attributes(text: str, asked: dict[str, Any]) -> None:
    decider = FakeAuthorizer()
    decision = f"{text}.check('get')"
    whole = f"{decision}.allowed() && {decision}.reason() == 'because'"
    assert compile_expression(whole, TYPES).result == "BOOL"
    assert decider.evaluate(whole) is True
    assert decider.asked[0] == {**asked, "verb": "get"}


def test_a_decision_has_no_error() -> None:
    assert FakeAuthorizer().evaluate("authorizer.path('/x').check('get').errored()") is False


def test_three_checks_exceed_the_cost_limit() -> None:
    asked = "authorizer.path('/x').check('get').allowed()"
    with pytest.raises(EvaluationError, match=r"^operation cancelled: actual cost limit exceeded$"):
        FakeAuthorizer().evaluate(" && ".join([asked] * 3))


def test_a_path_is_never_empty() -> None:
    with pytest.raises(EvaluationError, match=r"^path must not be empty$"):
        FakeAuthorizer().evaluate("authorizer.path('').check('get').allowed()")


def test_a_group_check_needs_a_resource() -> None:
    with pytest.raises(CompilationError) as refused:
        compile_expression("authorizer.group('').check('x').allowed()", TYPES)
    assert str(refused.value) == (
        "ERROR: <input>:1:27: found no matching overload for 'check' applied to "
        "'kubernetes.authorization.GroupCheck.(string)'\n"
        " | authorizer.group('').check('x').allowed()\n"
        " | ..........................^"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("['a', 'b', 'a'].indexOf('a')", 0),
        ("['a', 'b', 'a'].lastIndexOf('a')", 2),
        ("[1, 2].indexOf(3)", -1),
        ("'abcb'.indexOf('b')", 1),
        ("'abcb'.indexOf('b', 2)", 3),
        ("'abcb'.lastIndexOf('b')", 3),
        ("'abcb'.lastIndexOf('b', 2)", 1),
        ("'abc'.indexOf('')", 0),
        ("'a.indexOf(b)'.indexOf('indexOf(')", 2),
    ],
)
def test_error_positions(text: str, value: int) -> None:
    assert compile_expression(text, {}).evaluate({}) == value

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.api.objects import Response
from pytest_kwait.api.session import Session
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.permissions import lacking, needed_rights

from .fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Iterable

_REVIEWS = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHOAMI = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"


class Authorizer(FakeTransport):
    """Answers what one may do.

    Args:
        denied: verb and resource of what one may not.
        trouble: what is answered instead; None for nothing.
    """

    def __init__(self, denied: Iterable[str], trouble: ApiError | None = None) -> None:
        super().__init__()
        self.denied = set(denied)
        self.trouble = trouble
        self.asked: list[dict[str, str]] = []
        self.together: threading.Barrier | None = None

    def send(self, method: str, path: str, **options: Any) -> Response:
        self.requests.append(f"{method} {path}")
        if self.trouble is not None:
            raise self.trouble
        body = json.loads(options["body"])
        if path.endswith("/selfsubjectreviews"):
            body["status"] = {"userInfo": {"username": "system:serviceaccount:ci:runner"}}
        else:
            if self.together is not None:
                self.together.wait(10)
            what = body["spec"]["resourceAttributes"]
            self.asked.append(what)
            body["status"] = {"allowed": f"{what['verb']} {what['resource']}" not in self.denied}
        return Response(201, {}, json.dumps(body).encode())


def told(transport: FakeTransport, *, namespace: str | None = None, keeps: bool = False) -> str:
    client: Any = FakeClient(transport)
    rights = needed_rights(namespace=namespace, keeps=keeps)
    return lacking(Session.of(client), rights, "context 'lab' in kubeconfig /k")


def test_everything_is_listed_at_once_with_what_to_do() -> None:
    denied = ["create namespaces", "patch namespaces", "watch serviceaccounts"]
    assert told(Authorizer(denied), keeps=True) == (
        "user 'system:serviceaccount:ci:runner' may not do on context 'lab' in kubeconfig /k what "
        "pytest-kwait needs for itself:\n"
        "  create namespaces\n"
        "  patch namespaces\n"
        "  watch serviceaccounts in every namespace\n"
        "grant it that; or give --kwait-namespace NAME: tests then share the namespace of that "
        "name, which must exist, and what they make in it is removed one by one"
    )


def test_a_namespace_that_is_given_must_be_readable() -> None:
    transport = Authorizer(["get namespaces"])
    assert told(transport, namespace="team") == (
        "user 'system:serviceaccount:ci:runner' may not do on context 'lab' in kubeconfig /k what "
        "pytest-kwait needs for itself:\n"
        "  get namespaces team\n"
        "grant it that"
    )
    assert transport.asked == [
        {"verb": "get", "group": "", "resource": "namespaces", "name": "team", "namespace": "team"}
    ]


def test_whoever_may_everything_is_not_told_anything() -> None:
    transport = Authorizer([])
    assert told(transport) == ""
    assert transport.requests == [_REVIEWS] * 6


def test_nothing_is_asked_that_is_not_needed() -> None:
    transport = Authorizer([])
    told(transport)
    assert sorted(f"{each['verb']} {each['resource']}" for each in transport.asked) == [
        "create namespaces",
        "delete namespaces",
        "list configmaps",
        "list serviceaccounts",
        "watch configmaps",
        "watch serviceaccounts",
    ]


def test_what_may_be_granted_in_the_namespace_is_not_missed_before() -> None:
    assert told(Authorizer(["delete namespaces", "list serviceaccounts"])) == ""


@pytest.mark.parametrize("status", [0, 403, 404, 500])
def test_a_server_that_does_not_say_refuses_nothing(status: int) -> None:
    transport = Authorizer([], ApiError("no", status=status, reason="Trouble"))
    assert told(transport) == ""
    assert len(transport.requests) == 6


def test_all_are_asked_at_the_same_time() -> None:
    transport = Authorizer([])
    transport.together = threading.Barrier(6)
    assert told(transport) == ""


def test_who_it_is_is_not_always_known() -> None:
    class Secretive(Authorizer):
        def send(self, method: str, path: str, **options: Any) -> Response:
            if f"{method} {path}" == _WHOAMI:
                raise ApiError("no", status=404, reason="NotFound")
            return super().send(method, path, **options)

    assert told(Secretive(["create namespaces"])).startswith("the user of the run may not do on ")

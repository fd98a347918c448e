from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_kwait.client.responses import Response
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.namespaces.permissions import (
    MissingRights,
    find_missing_rights,
    needed_rights,
)
from tests.suite.fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Iterable

_REVIEWS = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHOAMI = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"


class Authorizer(FakeTransport):
    """Answers what one may do.

    Args:
        denied: verbs and resources that are forbidden; empty for an administrator.
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
            what = body["spec"]["resourceAttributes"]
            if self.together is not None and what["verb"] != "*":
                self.together.wait(10)
            self.asked.append(what)
            right = f"{what['verb']} {'/'.join((what['resource'], what.get('subresource', '')))}"
            everything = what["verb"] == "*"
            allowed = not self.denied if everything else right.rstrip("/") not in self.denied
            body["status"] = {"allowed": allowed}
        return Response(201, {}, json.dumps(body).encode())


def told(transport: FakeTransport, **settings: Any) -> MissingRights:
    client: Any = FakeClient(transport)
    given = Settings().merged(settings, lambda _: "option")
    return find_missing_rights(
        ApiSession.of(client), needed_rights(given), "context 'lab' in kubeconfig /k"
    )


_WHO = "user 'system:serviceaccount:ci:runner' may not do on context 'lab' in kubeconfig /k what "


def test_all_missing_rights_are_listed_with_advice() -> None:
    denied = [
        "create namespaces",
        "patch namespaces",
        "get serviceaccounts",
        "watch serviceaccounts",
        "list namespaces",
        "list pods",
        "get pods/log",
        "update leases",
        "create leases",
    ]
    assert told(Authorizer(denied), keep="failed") == (
        f"{_WHO}pytest-kwait needs for itself:\n"
        "  create, patch namespaces\n"
        "  get, watch serviceaccounts in every namespace\n"
        "and what runs go on without:\n"
        "  create, update leases.coordination.k8s.io in default: what it leaves if it is killed "
        "stays until it expires, and no serial test is run\n"
        "  list namespaces: what dead runs have left stays, and nothing bounds how many namespaces "
        "there are at a time\n"
        "  list pods in every namespace: failures are told without them\n"
        "  get pods/log in every namespace: failures are told without them\n"
        "  list pods in kube-system: not awaited before the first test\n"
        "grant it that; or give --kwait-namespace NAME: tests then share the namespace of that "
        "name, which must exist, and what they make in it is removed one by one",
        (),
    )


def test_optional_rights_refuse_nothing() -> None:
    transport = Authorizer(["list events", "watch nodes"])
    assert told(transport) == (
        "",
        (
            f"{_WHO}runs go on without:",
            "  list events in every namespace: failures are told without them",
            "  watch nodes: not awaited before the first test",
        ),
    )


def test_rights_in_a_given_namespace() -> None:
    transport = Authorizer(["get namespaces", "delete leases", "list pods", "list namespaces"])
    assert told(transport, namespace="team", session_waits=False) == (
        f"{_WHO}pytest-kwait needs for itself:\n"
        "  get namespaces team\n"
        "and what runs go on without:\n"
        "  delete leases.coordination.k8s.io in team: what it leaves if it is killed stays until "
        "it expires, and no serial test is run\n"
        "  list namespaces: what dead runs have left stays\n"
        "  list pods in team: failures are told without them\n"
        "grant it that",
        (),
    )
    asked = [each for each in transport.asked if each["resource"] != "leases"]
    assert sorted(asked, key=str) == sorted(
        [
            {"verb": "*", "group": "*", "resource": "*"},
            {
                "verb": "get",
                "group": "",
                "resource": "namespaces",
                "name": "team",
                "namespace": "team",
            },
            {"verb": "list", "group": "", "resource": "namespaces"},
            {"verb": "list", "group": "", "resource": "pods", "namespace": "team"},
            {"verb": "list", "group": "", "resource": "events", "namespace": "team"},
            {
                "verb": "get",
                "group": "",
                "resource": "pods",
                "namespace": "team",
                "subresource": "log",
            },
        ],
        key=str,
    )


def test_administrators_need_one_review() -> None:
    transport = Authorizer([])
    assert told(transport) == ("", ())
    assert transport.requests == [_REVIEWS]


def test_documented_role_has_exactly_the_needed_rights() -> None:
    text = (Path(__file__).parents[3] / "docs" / "namespaces.md").read_text()
    found = re.search(r"```yaml\n(.*?)```", text, re.S)
    assert found is not None
    role = yaml.safe_load(found[1])
    granted = [
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    transport = Authorizer(["nothing"])
    told(transport, keep="failed")
    asked = {
        (each["group"], "/".join([each["resource"], *filter(None, [each.get("subresource")])]), v)
        for each in transport.asked
        if (v := each["verb"]) != "*"
    }
    # Secrets are listed on failures alone: their right is not checked.
    assert sorted(granted) == sorted([*asked, ("", "secrets", "list")])


@pytest.mark.parametrize(
    ("settings", "right", "asked"),
    [
        ({}, "patch namespaces", 0),
        ({"keep": "always"}, "patch namespaces", 1),
        ({}, "watch configmaps", 1),
        ({"mode": "poll"}, "watch configmaps", 0),
        ({"mode": "poll"}, "list configmaps", 1),
        ({"session_waits": False}, "list nodes", 0),
        ({"namespace": "team"}, "create namespaces", 0),
        ({"namespace": "team"}, "get configmaps", 0),
    ],
)
def test_only_needed_rights_are_reviewed(settings: dict[str, Any], right: str, asked: int) -> None:
    transport = Authorizer(["nothing"])
    told(transport, **settings)
    assert [f"{each['verb']} {each['resource']}" for each in transport.asked].count(right) == asked


def test_rights_granted_in_the_namespace_are_not_missing() -> None:
    assert told(Authorizer(["delete namespaces", "list serviceaccounts"])) == ("", ())


@pytest.mark.parametrize("status", [0, 403, 404, 500])
def test_failed_reviews_refuse_nothing(status: int) -> None:
    transport = Authorizer([], ApiError("no", status=status, reason="Trouble"))
    assert told(transport) == ("", ())
    assert len(transport.requests) == 30


def test_reviews_run_in_parallel() -> None:
    transport = Authorizer(["nothing"])
    transport.together = threading.Barrier(3)
    # The first one alone, then three times nine.
    assert told(transport, mode="poll") == ("", ())
    assert len(transport.requests) == 28


def test_user_name_may_be_unknown() -> None:
    class Secretive(Authorizer):
        def send(self, method: str, path: str, **options: Any) -> Response:
            if f"{method} {path}" == _WHOAMI:
                raise ApiError("no", status=404, reason="NotFound")
            return super().send(method, path, **options)

    assert told(Secretive(["create namespaces"])).refusal.startswith(
        "the user of the run may not do on "
    )

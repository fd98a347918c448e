from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

from pytest_kwait.client.impersonation import Impersonation, impersonate, parse_impersonation
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ApiError, InvalidArgument
from tests.client.scripted_server import Exchange, ScriptedServer, answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.clock import Deadline

_EXTRA = {"example.com/scopes 100%": ("read", "write"), "Team": ("a",)}
_JÖRG = Impersonation("jörg", ("devs", "on call"), "1234", _EXTRA)


def pairs_of(exchange: Exchange) -> list[tuple[str, str]]:
    return [pair for pair in exchange.header_pairs if pair[0].startswith("impersonate-")]


def test_headers_have_a_line_for_each_value() -> None:
    assert _JÖRG.headers() == (
        ("impersonate-user", "jörg"),
        ("impersonate-group", "devs"),
        ("impersonate-group", "on call"),
        ("impersonate-uid", "1234"),
        ("impersonate-extra-example.com%2Fscopes%20100%25", "read"),
        ("impersonate-extra-example.com%2Fscopes%20100%25", "write"),
        ("impersonate-extra-team", "a"),
    )
    assert Impersonation("jane").headers() == (("impersonate-user", "jane"),)


def test_fields_of_a_kubeconfig() -> None:
    assert _JÖRG.kubeconfig_fields() == {
        "as": "jörg",
        "as-groups": ["devs", "on call"],
        "as-uid": "1234",
        "as-user-extra": {"example.com/scopes 100%": ["read", "write"], "Team": ["a"]},
    }
    assert Impersonation("jane").kubeconfig_fields() == {"as": "jane"}


# As the official client before 37 calls it.
@pytest.mark.filterwarnings("ignore:HTTPResponse.getheader:DeprecationWarning")
def test_all_requests_of_a_client_are_those_of_the_user(soon: Deadline) -> None:
    with ScriptedServer(answer({"items": [], "metadata": {}})) as server:
        client = server.client()
        impersonate(client, _JÖRG)
        session = ApiSession.of(client)
        session.request("GET", "/version", deadline=soon)
        CoreV1Api(client).list_namespaced_pod("a")
        with pytest.raises(ApiError):
            session.exec("a", "web", ["true"], deadline=soon)
        session.close()
    sent = [(name.lower(), value) for name, value in _JÖRG.headers()]
    assert [pairs_of(each) for each in server.requests] == [sent, sent, sent]


@pytest.mark.filterwarnings("ignore:HTTPResponse.getheader:DeprecationWarning")
def test_a_request_may_name_another_user(soon: Deadline) -> None:
    with ScriptedServer(answer({"items": [], "metadata": {}})) as server:
        client = server.client()
        impersonate(client, Impersonation("jane", ("devs",)))
        client.set_default_header("Impersonate-User", "john")  # type: ignore[no-untyped-call]
        CoreV1Api(client).list_namespaced_pod("a")
    assert pairs_of(server.requests[0]) == [("impersonate-user", "john")]


def test_attributes_of_a_user_are_checked() -> None:
    given: dict[str, Iterable[str]] = {"scopes": iter(["read"])}
    parsed = parse_impersonation("jane", {"devs"}, "1", given)
    assert parsed == Impersonation("jane", ("devs",), "1", {"scopes": ("read",)})
    assert parse_impersonation("jane", (), "", None) == Impersonation("jane")


_GROUPS = "use a list of the groups' names, for example ['devs']"
_ATTRIBUTES = "use a mapping of names to lists of texts, for example {'scopes': ['read']}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", (), "", None), "name='' is not valid: use a string that is not empty"),
        ((7, (), "", None), "name=7 is not valid: use a string that is not empty"),
        (("jane", "devs", "", None), f"groups='devs' is not valid: {_GROUPS}"),
        (("jane", None, "", None), f"groups=None is not valid: {_GROUPS}"),
        (("jane", ["devs", ""], "", None), f"groups='' is not valid: {_GROUPS}"),
        (("jane", (), 7, None), "uid=7 is not valid: use the user's UID as a text"),
        (("jane", (), "", ["a"]), f"extra=['a'] is not valid: {_ATTRIBUTES}"),
        (("jane", (), "", {"a": "b"}), f"extra a='b' is not valid: {_ATTRIBUTES}"),
        (("jane", (), "", {"": ["b"]}), "extra='' is not valid: use a string that is not empty"),
    ],
)
def test_an_invalid_user_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_impersonation(*arguments)
    assert str(refused.value) == message


def test_a_refusal_is_as_any(soon: Deadline) -> None:
    status = {"kind": "Status", "reason": "Forbidden", "message": 'User "jane" cannot', "code": 403}
    with ScriptedServer(answer(json.dumps(status).encode(), 403)) as server:
        client = server.client()
        impersonate(client, Impersonation("jane"))
        with pytest.raises(ApiError, match="403 Forbidden"):
            ApiSession.of(client).request("GET", "/api", deadline=soon)

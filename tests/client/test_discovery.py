from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, Resource
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ApiError, InvalidArgument
from tests.client.scripted_server import Exchange, Handler, ScriptedServer, answer

if TYPE_CHECKING:
    from pytest_kwait.clock import Deadline

WIDGET = {
    "resource": "widgets",
    "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
    "scope": "Namespaced",
    "singularResource": "widget",
    "shortNames": ["wdg", "po"],
    "verbs": ["get", "list"],
    "subresources": [{"subresource": "status"}],
}
SERVICE = {
    "resource": "services",
    "responseKind": {"kind": "Service"},
    "scope": "Namespaced",
    "singularResource": "service",
    "shortNames": ["ksvc"],
}
GADGET = {"resource": "gadgets", "responseKind": {"kind": "Gadget"}, "scope": "Cluster"}


def groups(*items: tuple[str, str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {"metadata": {"name": name}, "versions": [{"version": version, "resources": entries}]}
            for name, version, entries in items
        ],
    }


CORE = groups(("", "v1", []))
APIS = groups(("serving.knative.dev", "v1", [SERVICE]), ("example.com", "v1", [WIDGET]))
LEGACY: dict[str, object] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"kind": "APIResourceList", "resources": []},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "example.com",
                "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                "preferredVersion": {"version": "v1"},
            },
            {"name": "metrics.k8s.io", "versions": [{"version": "v1beta1"}]},
        ],
    },
    "/apis/example.com/v1": {
        "resources": [
            {
                "name": "widgets",
                "singularName": "widget",
                "namespaced": True,
                "kind": "Widget",
                "verbs": ["get", "list"],
                "shortNames": ["wdg", "po"],
            },
            {"name": "widgets/status", "kind": "Widget", "namespaced": True, "verbs": ["get"]},
        ]
    },
    "/apis/example.com/v1beta1": {"resources": [{"name": "widgets", "kind": "Widget"}]},
}
FOUND = Resource(
    group="example.com",
    version="v1",
    plural="widgets",
    kind="Widget",
    namespaced=True,
    singular="widget",
    short_names=("wdg", "po"),
    verbs=frozenset({"get", "list"}),
    subresources=frozenset({"status"}),
)


def legacy(exchange: Exchange) -> None:
    body = LEGACY.get(exchange.path)
    if body is None:
        exchange.answer(b"service unavailable", 503)
    else:
        exchange.answer(body)


def resolved(
    handlers: list[Handler], deadline: Deadline, *asked: tuple[str, str | None]
) -> tuple[list[Resource], list[str]]:
    with ScriptedServer(*handlers) as server:
        session = ApiSession.of(server.client())
        try:
            found = [session.resolve(*names, deadline=deadline) for names in asked]
        finally:
            session.close()
        return found, [exchange.path for exchange in server.requests]


@pytest.mark.parametrize(
    ("kind", "api_version", "qualified"),
    [
        ("Pod", None, "pods"),
        ("pods", None, "pods"),
        ("po", None, "pods"),
        ("PODS", "v1", "pods"),
        ("deploy", None, "deployments.apps"),
        ("deployment.apps", None, "deployments.apps"),
        ("deployments.v1.apps", None, "deployments.apps"),
        ("Job", "batch/v1", "jobs.batch"),
        ("ingresses.networking.k8s.io", None, "ingresses.networking.k8s.io"),
        ("ingress.networking", None, "ingresses.networking.k8s.io"),
        ("pods.v1.", None, "pods"),
    ],
)
def test_built_in_kinds_need_no_request(
    kind: str, api_version: str | None, qualified: str, soon: Deadline
) -> None:
    found, requests = resolved([answer()], soon, (kind, api_version))
    assert [resource.qualified for resource in found] == [qualified]
    assert requests == []


def test_other_kinds_are_read_from_the_server_once(soon: Deadline) -> None:
    asked = [("Widget", None), ("wdg", None), ("widgets.example.com", None), ("po", None)]
    found, requests = resolved([answer(CORE), answer(APIS)], soon, *asked)
    assert found == [FOUND, FOUND, FOUND, BUILT_IN["pods"]]
    assert requests == ["/api", "/apis"]


def test_servers_without_aggregated_discovery_are_read_by_group(soon: Deadline) -> None:
    asked = [("Widget", None), ("widget", "example.com/v1beta1")]
    found, requests = resolved([legacy], soon, *asked)
    assert found[0] == FOUND
    assert found[1].api_version == "example.com/v1beta1"
    # The extension server that is down does not hide the others.
    assert requests == ["/api", "/api/v1", "/apis", *list(LEGACY)[3:], requests[-1]]
    assert requests[-1] == "/apis/metrics.k8s.io/v1beta1"


def test_a_kind_that_came_later_is_found(soon: Deadline) -> None:
    later = groups(("example.com", "v1", [WIDGET, GADGET]))
    handlers = [answer(CORE), answer(APIS), answer(CORE), answer(later)]
    found, requests = resolved(handlers, soon, ("Widget", None), ("Gadget", None))
    assert [resource.kind for resource in found] == ["Widget", "Gadget"]
    assert not found[1].namespaced
    assert requests == ["/api", "/apis"] * 2


def test_a_built_in_kind_of_another_group_is_that_group_s(soon: Deadline) -> None:
    asked = [("Service", None), ("Service", "serving.knative.dev/v1"), ("ksvc", None)]
    found, _ = resolved([answer(CORE), answer(APIS)], soon, *asked)
    assert [resource.qualified for resource in found] == [
        "services",
        "services.serving.knative.dev",
        "services.serving.knative.dev",
    ]


@pytest.mark.parametrize(
    ("kind", "api_version", "message"),
    [
        (
            "wigdets",
            None,
            "kind='wigdets' is not valid: the server has no such kind; "
            "near: widgets.example.com (example.com/v1)",
        ),
        (
            "Widget",
            "example.com/v2",
            "kind='Widget' is not valid: the server has no such kind in example.com/v2; "
            "near: widgets.example.com (example.com/v1)",
        ),
        (
            "jbo",
            None,
            "kind='jbo' is not valid: the server has no such kind; near: jobs.batch (batch/v1)",
        ),
        ("xyzzy", None, "kind='xyzzy' is not valid: the server has no such kind"),
        ("", None, "kind='' is not valid: the server has no such kind"),
    ],
)
def test_unknown_kinds_name_those_that_are_near(
    kind: str, api_version: str | None, message: str, soon: Deadline
) -> None:
    with pytest.raises(InvalidArgument) as raised:
        resolved([answer(CORE), answer(APIS)], soon, (kind, api_version))
    assert str(raised.value) == message


def test_refused_discovery_is_an_error(soon: Deadline) -> None:
    status = {"kind": "Status", "message": "no", "reason": "Forbidden"}
    with pytest.raises(ApiError) as raised:
        resolved([answer(status, 403)], soon, ("Widget", None))
    assert str(raised.value) == "GET /api: 403 Forbidden: no"


def test_an_answer_that_is_no_discovery_is_shown(soon: Deadline) -> None:
    with pytest.raises(ApiError) as raised:
        resolved([answer(b"<p>Hello</p>")], soon, ("Widget", None))
    assert str(raised.value) == ("GET /api: 200 NotJSON: expected a list of API groups, got Hello")


def test_an_answer_that_lacks_what_it_must_have_is_an_error(soon: Deadline) -> None:
    broken = groups(("example.com", "v1", [{"responseKind": {"kind": "Widget"}}]))
    with pytest.raises(ApiError) as raised:
        resolved([answer(CORE), answer(broken)], soon, ("Widget", None))
    assert str(raised.value) == (
        "GET /apis: 200 NotJSON: expected a list of API groups, got KeyError('resource')"
    )


def test_names_count_before_short_names_and_whole_groups_before_beginnings() -> None:
    def resource(group: str, plural: str, *short_names: str) -> Resource:
        return Resource(group, "v1", plural, plural.title(), True, short_names=short_names)

    short, full = resource("a.io", "cats", "ct"), resource("b.io", "ct")
    longer, exact = resource("a.io.x", "ct"), resource("a.io", "ct")
    assert match_resource([short, full], "ct") is full
    assert match_resource([longer, exact], "ct.a.io") is exact
    assert match_resource([longer], "ct.a") is longer
    assert match_resource([], "ct") is None

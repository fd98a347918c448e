from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from pytest_kwait.client.resource import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS
from pytest_kwait.client.responses import ObjectMeta, PartialObjectMetadata
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.write_options import JSON_PATCH
from pytest_kwait.errors import ApiError, InvalidArgument
from tests.client.scripted_server import Handler, ScriptedServer, answer, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.clock import Deadline

OBJECT = {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}, "data": {"k": "v"}}
COLLECTION = "/api/v1/namespaces/a/configmaps"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(answer({"kind": "Answer"})) as running:
        yield running


@pytest.fixture
def session(server: ScriptedServer) -> Iterator[ApiSession]:
    session = ApiSession.of(server.client())
    yield session
    session.close()


@pytest.mark.parametrize(
    ("call", "method", "path", "query", "content_type", "body"),
    [
        pytest.param(
            lambda s, d: s.get(CONFIG_MAPS, "c", "a", deadline=d),
            "GET",
            f"{COLLECTION}/c",
            {},
            None,
            None,
            id="get",
        ),
        pytest.param(
            lambda s, d: s.get(NODES, "n", subresource="proxy/pods", deadline=d),
            "GET",
            "/api/v1/nodes/n/proxy/pods",
            {},
            None,
            None,
            id="get a part",
        ),
        pytest.param(
            lambda s, d: s.server_version(deadline=d),
            "GET",
            "/version",
            {},
            None,
            None,
            id="version",
        ),
        pytest.param(
            lambda s, d: s.create(CONFIG_MAPS, OBJECT, deadline=d),
            "POST",
            COLLECTION,
            {"fieldManager": ["pytest-kwait"]},
            "application/json",
            OBJECT,
            id="create",
        ),
        pytest.param(
            lambda s, d: s.create(
                PODS, {"target": {"name": "n"}}, "b", name="p", subresource="binding", deadline=d
            ),
            "POST",
            "/api/v1/namespaces/b/pods/p/binding",
            {"fieldManager": ["pytest-kwait"]},
            "application/json",
            {"target": {"name": "n"}},
            id="create a part",
        ),
        pytest.param(
            lambda s, d: s.replace(
                CONFIG_MAPS, OBJECT, "b", field_manager="m", dry_run=True, deadline=d
            ),
            "PUT",
            "/api/v1/namespaces/b/configmaps/c",
            {"fieldManager": ["m"], "dryRun": ["All"]},
            "application/json",
            OBJECT,
            id="replace",
        ),
        pytest.param(
            lambda s, d: s.apply(CONFIG_MAPS, OBJECT, deadline=d),
            "PATCH",
            f"{COLLECTION}/c",
            {"fieldManager": ["pytest-kwait"], "force": ["true"]},
            "application/apply-patch+yaml",
            OBJECT,
            id="apply",
        ),
        pytest.param(
            lambda s, d: s.apply(
                DEPLOYMENTS,
                {"metadata": {"name": "c"}},
                "a",
                force=False,
                subresource="status",
                deadline=d,
            ),
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/c/status",
            {"fieldManager": ["pytest-kwait"], "force": ["false"]},
            "application/apply-patch+yaml",
            {"metadata": {"name": "c"}},
            id="apply a part without force",
        ),
        pytest.param(
            lambda s, d: s.patch(CONFIG_MAPS, "c", {"data": None}, "a", deadline=d),
            "PATCH",
            f"{COLLECTION}/c",
            {"fieldManager": ["pytest-kwait"]},
            "application/merge-patch+json",
            {"data": None},
            id="merge patch",
        ),
        pytest.param(
            lambda s, d: s.patch(
                CONFIG_MAPS, "c", [{"op": "remove"}], "a", content_type=JSON_PATCH, deadline=d
            ),
            "PATCH",
            f"{COLLECTION}/c",
            {"fieldManager": ["pytest-kwait"]},
            "application/json-patch+json",
            [{"op": "remove"}],
            id="JSON patch",
        ),
        pytest.param(
            lambda s, d: s.delete(CONFIG_MAPS, "c", "a", deadline=d),
            "DELETE",
            f"{COLLECTION}/c",
            {},
            "application/json",
            {"kind": "DeleteOptions", "apiVersion": "v1"},
            id="delete",
        ),
        pytest.param(
            lambda s, d: s.delete(
                CONFIG_MAPS,
                "c",
                "a",
                uid="u",
                resource_version="5",
                grace_period_seconds=0,
                propagation_policy="Foreground",
                dry_run=True,
                deadline=d,
            ),
            "DELETE",
            f"{COLLECTION}/c",
            {},
            "application/json",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "preconditions": {"uid": "u", "resourceVersion": "5"},
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Foreground",
                "dryRun": ["All"],
            },
            id="delete with conditions",
        ),
    ],
)
def test_verbs_send_method_path_and_query(
    call: Callable[[ApiSession, Deadline], object],
    method: str,
    path: str,
    query: dict[str, list[str]],
    content_type: str | None,
    body: object,
    session: ApiSession,
    server: ScriptedServer,
    soon: Deadline,
) -> None:
    assert call(session, soon) == {"kind": "Answer"}
    (request,) = server.requests
    assert (request.method, request.path, request.query) == (method, path, query)
    assert request.headers.get("content-type") == content_type
    assert (request.json if request.body else None) == body


def test_logs_are_text(soon: Deadline) -> None:
    with ScriptedServer(answer(b"caf\xc3\xa9 \xff\n")) as server:
        session = ApiSession.of(server.client())
        text = session.logs(
            "a",
            "p",
            container="c",
            previous=True,
            tail_lines=5,
            since_seconds=6,
            timestamps=True,
            limit_bytes=7,
            deadline=soon,
        )
        assert text == "café \ufffd\n"
        assert session.logs("a", "p", since_time=1.9, deadline=soon) == text
        session.close()
    first, second = server.requests
    assert first.path == "/api/v1/namespaces/a/pods/p/log"
    assert first.query == {
        "container": ["c"],
        "previous": ["true"],
        "tailLines": ["5"],
        "sinceSeconds": ["6"],
        "timestamps": ["true"],
        "limitBytes": ["7"],
    }
    assert first.headers["accept"] == "*/*"
    assert second.query == {"sinceTime": ["1970-01-01T00:00:01Z"]}


def test_any_request_can_be_made(soon: Deadline) -> None:
    with ScriptedServer(answer(b"ok", 200, X_Served_By="me")) as server:
        session = ApiSession.of(server.client())
        response = session.request(
            "GET", "/readyz", query={"verbose": True, "x": None, "y": ["1", "2"]}, deadline=soon
        )
        assert (response.status, response.data) == (200, b"ok")
        assert response.headers["x-served-by"] == "me"
        assert server.requests[0].target == "/readyz?verbose=true&y=1&y=2"
        session.request("POST", "/x", body=b"raw", content_type="text/plain", deadline=soon)
        assert server.requests[1].body == b"raw"
        assert server.requests[1].headers["content-type"] == "text/plain"
        session.close()


def test_dates_of_yaml_are_sent_as_the_api_writes_them(
    session: ApiSession, server: ScriptedServer, soon: Deadline
) -> None:
    given = {"metadata": {"name": "c"}, "data": {"at": datetime(2026, 1, 2, tzinfo=UTC)}}
    session.create(CONFIG_MAPS, given, "a", deadline=soon)
    assert server.requests[0].json["data"] == {"at": "2026-01-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("obj", "namespace", "message"),
    [
        (
            {"metadata": {"name": "c"}},
            None,
            "namespace=None is not valid: ConfigMap lives in a namespace, name it",
        ),
        (
            {"metadata": None},
            "a",
            "metadata.name=None is not valid: the name of the object to write",
        ),
        (
            {"metadata": {"name": "a/b"}},
            "a",
            "name='a/b' is not valid: a name that is not empty, . or .., without / and %",
        ),
        (
            {"metadata": {"name": "c"}, "data": 1j},
            "a",
            "body={'metadata': {'name': 'c'}, 'data': 1j} is not valid: values that JSON has "
            "(Encoding objects of type complex is unsupported)",
        ),
    ],
)
def test_invalid_requests_are_refused_before_sending(
    obj: dict[str, Any],
    namespace: str | None,
    message: str,
    session: ApiSession,
    server: ScriptedServer,
    soon: Deadline,
) -> None:
    with pytest.raises(InvalidArgument) as raised:
        session.apply(CONFIG_MAPS, obj, namespace, deadline=soon)
    assert str(raised.value) == message
    assert server.requests == []


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"<html><style>a{}</style><b>Sign  in</b></html>", "Sign in"),
        (b"", "nothing"),
        (b"[1]", "[1]"),
        (b"\x00\x01" + b"x" * 300, "??" + "x" * 197 + "…"),
    ],
    ids=["a page", "nothing", "no object", "binary"],
)
def test_an_answer_that_is_no_object_is_shown(data: bytes, shown: str, soon: Deadline) -> None:
    with ScriptedServer(answer(data)) as server:
        session = ApiSession.of(server.client())
        with pytest.raises(ApiError) as raised:
            session.get(CONFIG_MAPS, "c", "a", deadline=soon)
        assert str(raised.value) == (
            f"GET {COLLECTION}/c: 200 NotJSON: expected an object as JSON, got {shown}"
        )
        session.close()


def test_warnings_of_the_server_are_logged(
    soon: Deadline, caplog: pytest.LogCaptureFixture
) -> None:
    warning = '299 - "unknown field \\"bogus\\"", 299 - "deprecated, in v2"'
    with ScriptedServer(answer({}, Warning=warning)) as server, caplog.at_level(logging.WARNING):
        session = ApiSession.of(server.client())
        session.create(CONFIG_MAPS, {}, "a", deadline=soon)
        session.close()
    assert caplog.messages == [
        f'POST {COLLECTION}: unknown field "bogus"',
        f"POST {COLLECTION}: deprecated, in v2",
    ]


def test_warnings_are_not_logged_where_they_concern_no_test(
    soon: Deadline, caplog: pytest.LogCaptureFixture
) -> None:
    warning = '299 - "deprecated, in v2"'
    with ScriptedServer(answer({}, Warning=warning)) as server, caplog.at_level(logging.WARNING):
        session = ApiSession.of(server.client())
        session.logs_warnings = False
        session.create(CONFIG_MAPS, {}, "a", deadline=soon)
        session.close()
    assert caplog.messages == []


PATH = "/api/v1/namespaces/a/pods"
GONE = {"kind": "Status", "status": "Failure", "message": "too old", "reason": "Expired"}


class Trimmed(TypedDict, total=False):
    metadata: ObjectMeta


def page(*names: str, version: str = "10", more: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
    items = [{"metadata": {"name": name}, "spec": {"x": 1}} for name in names]
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}


def listed(
    handlers: list[Handler], deadline: Deadline, **options: Any
) -> tuple[Any, list[dict[str, list[str]]]]:
    with ScriptedServer(*handlers) as server:
        session = ApiSession.of(server.client())
        try:
            found = session.list(PODS, "a", deadline=deadline, **options)
        finally:
            session.close()
        assert {exchange.path for exchange in server.requests} == {PATH}
        return found, [exchange.query for exchange in server.requests]


def names(found: Any) -> list[str]:
    return [item.object["metadata"]["name"] for item in found.items]


def test_a_list_is_its_items_and_their_moment(soon: Deadline) -> None:
    found, queries = listed(
        [answer(page("p", "q"))],
        soon,
        label_selector={"app": "web", "old": None},
        field_selector="spec.nodeName=n",
        resource_version="0",
    )
    assert names(found) == ["p", "q"]
    assert (found.kind, found.api_version, found.resource_version) == ("PodList", "v1", "10")
    assert found.items[0].object == {"metadata": {"name": "p"}, "spec": {"x": 1}}
    assert found.items[0].raw == b'{"metadata": {"name": "p"}, "spec": {"x": 1}}'
    assert queries == [
        {
            "labelSelector": ["app=web,old"],
            "fieldSelector": ["spec.nodeName=n"],
            "resourceVersion": ["0"],
            "limit": ["500"],
        }
    ]


def test_pages_are_followed(soon: Deadline) -> None:
    pages = [answer(page("p", more="t1")), answer(page("q", more="t2")), answer(page("r"))]
    found, queries = listed(pages, soon, limit=1, resource_version="7", label_selector="a=b")
    assert names(found) == ["p", "q", "r"]
    assert queries == [
        {"labelSelector": ["a=b"], "resourceVersion": ["7"], "limit": ["1"]},
        {"labelSelector": ["a=b"], "limit": ["1"], "continue": ["t1"]},
        {"labelSelector": ["a=b"], "limit": ["1"], "continue": ["t2"]},
    ]


def test_a_list_that_expires_between_pages_is_read_again_in_one_piece(soon: Deadline) -> None:
    pages = [answer(page("p", more="t1")), answer(GONE, 410), answer(page("p", "q", version="11"))]
    found, queries = listed(pages, soon, limit=1)
    assert names(found) == ["p", "q"]
    assert found.resource_version == "11"
    assert queries == [{"limit": ["1"]}, {"limit": ["1"], "continue": ["t1"]}, {}]


def test_a_first_page_that_has_expired_is_an_error(soon: Deadline) -> None:
    with pytest.raises(ApiError) as raised:
        listed([answer(GONE, 410)], soon, resource_version="5")
    assert str(raised.value) == f"GET {PATH}: 410 Expired: too old"


def test_everything_at_once_needs_no_limit(soon: Deadline) -> None:
    assert listed([answer(page())], soon, limit=None)[1] == [{}]


def test_null_items_are_none(soon: Deadline) -> None:
    found, _ = listed([answer({**page(), "items": None})], soon)
    assert found.items == []


def test_only_the_named_fields_are_decoded(soon: Deadline) -> None:
    found, _ = listed([answer(encoded(page("p")))], soon, type=Trimmed)
    assert found.items[0].object == {"metadata": {"name": "p"}}
    assert found.items[0].raw == b'{"metadata":{"name":"p"},"spec":{"x":1}}'


def test_an_item_of_another_shape_comes_whole(soon: Deadline) -> None:
    odd = {"metadata": None, "spec": 1}
    found, _ = listed([answer({**page(), "items": [odd]})], soon, type=Trimmed)
    assert found.items[0].object == odd


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"kind": "Pod", "metadata": {}}, '{"kind": "Pod", "metadata": {}}'),
        ({"items": 3}, '{"items": 3}'),
        ({"items": ["x"]}, '{"items": ["x"]}'),
        (b"<h1>Sign in</h1>", "Sign in"),
    ],
    ids=["an object", "no items", "no objects", "a page"],
)
def test_unreadable_list_is_quoted(body: object, shown: str, soon: Deadline) -> None:
    with pytest.raises(ApiError) as raised:
        listed([answer(body)], soon)
    assert str(raised.value) == (f"GET {PATH}: 200 NotJSON: expected a list of pods, got {shown}")


@pytest.mark.parametrize("whole", [False, True])
def test_metadata_alone_is_requested_and_whole_objects_are_accepted(
    soon: Deadline, whole: bool
) -> None:
    event = {
        "type": "ADDED",
        "object": {"metadata": {"name": "p"}} | ({"spec": {}} if whole else {}),
    }
    with ScriptedServer(answer(page("p")), answer(encoded(event))) as server:
        session = ApiSession.of(server.client())
        found = session.list(PODS, "a", deadline=soon, type=PartialObjectMetadata)
        with session.watch(
            PODS, "a", resource_version="1", deadline=soon, type=PartialObjectMetadata
        ) as watch:
            seen = [each.object for each in watch]
        session.close()

    assert [item.object for item in found.items] == seen == [{"metadata": {"name": "p"}}]
    assert [exchange.headers["accept"] for exchange in server.requests] == [
        f"application/json;as={kind};g=meta.k8s.io;v=v1,application/json"
        for kind in ("PartialObjectMetadataList", "PartialObjectMetadata")
    ]


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        ("0.1", 0.1),
        ("1", 1.0),
        ("0", 1.0),
        ("-1", 1.0),
        ("2", 1.0),
        ("nan", 1.0),
        ("inf", 1.0),
        ("fast", 1.0),
    ],
)
def test_the_cluster_says_its_time_in_its_answers(soon: Deadline, text: str, scale: float) -> None:
    with ScriptedServer(answer(OBJECT, Kwait_Time_Scale=text)) as server:
        session = ApiSession.of(server.client())
        assert (session.time_scale, session.has_controllers) == (1.0, True)
        session.get(CONFIG_MAPS, "c", "a", deadline=soon)
        assert (session.time_scale, session.has_controllers) == (scale, True)
        session.close()


def test_refusals_and_watches_say_how_the_cluster_is_too(soon: Deadline) -> None:
    refusal = answer(status=403, Kwait_Time_Scale="0.1", Kwait_Controllers="none")
    with ScriptedServer(refusal) as server:
        session = ApiSession.of(server.client())
        with pytest.raises(ApiError):
            session.get(CONFIG_MAPS, "c", "a", deadline=soon)
        assert (session.time_scale, session.has_controllers) == (0.1, False)
        session.close()
        session = ApiSession.of(server.client())
        with (
            pytest.raises(ApiError),
            session.watch(CONFIG_MAPS, "a", resource_version="1", deadline=soon),
        ):
            pass
        assert (session.time_scale, session.has_controllers) == (0.1, False)
        session.close()


def test_what_the_cluster_has_said_stays_if_an_answer_says_nothing(soon: Deadline) -> None:
    said = iter([{"Kwait-Time-Scale": "0.1"}, {}])
    with ScriptedServer(lambda exchange: exchange.answer(OBJECT, 200, next(said))) as server:
        session = ApiSession.of(server.client())
        for _ in range(2):
            session.get(CONFIG_MAPS, "c", "a", deadline=soon)
            assert session.time_scale == 0.1
        session.close()

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from pytest_kwait.client.resource import PODS
from pytest_kwait.client.responses import ObjectMeta, PartialObjectMetadata
from pytest_kwait.client.session import Session
from pytest_kwait.errors import ApiError
from tests.client.scripted_server import Handler, ScriptedServer, answer, encoded

if TYPE_CHECKING:
    from pytest_kwait.clock import Deadline

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
        session = Session.of(server.client())
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
def test_what_is_no_list_is_shown(body: object, shown: str, soon: Deadline) -> None:
    with pytest.raises(ApiError) as raised:
        listed([answer(body)], soon)
    assert str(raised.value) == (f"GET {PATH}: 200 NotJSON: expected a list of pods, got {shown}")


@pytest.mark.parametrize("whole", [False, True])
def test_metadata_alone_is_asked_for_and_whole_objects_will_do(soon: Deadline, whole: bool) -> None:
    event = {
        "type": "ADDED",
        "object": {"metadata": {"name": "p"}} | ({"spec": {}} if whole else {}),
    }
    with ScriptedServer(answer(page("p")), answer(encoded(event))) as server:
        session = Session.of(server.client())
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

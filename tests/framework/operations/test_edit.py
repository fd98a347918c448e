"""Patching, updating, labelling and annotating one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.operations.edit import (
    annotate,
    label,
    merge_patch_between,
    patch,
    update,
)
from tests.suite.fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.client.responses import Response

PATH = "/api/v1/namespaces/ci-1/configmaps/a"
CONFLICT = ApiError("the object has been changed", status=409, reason="Conflict")


@pytest.fixture
def transport() -> FakeTransport:
    transport = FakeTransport()
    metadata = {"name": "a", "uid": "uid-a", "resourceVersion": "1", "labels": {"tier": "web"}}
    transport.objects[PATH] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return transport


@pytest.fixture
def client(transport: FakeTransport) -> ApiClient:
    return cast("ApiClient", FakeClient(transport))


def test_labels_are_set_and_removed(client: ApiClient, transport: FakeTransport) -> None:
    found = label(client, "ci-1", "cm/a", {"team": "a"})

    assert found["metadata"]["labels"] == {"tier": "web", "team": "a"}
    assert transport.requests == [f"GET {PATH}", f"PATCH {PATH}"]
    label(client, "ci-1", "cm/a", {"tier": None})
    assert transport.objects[PATH]["metadata"]["labels"] == {"team": "a"}


def test_the_same_label_again_writes_nothing(client: ApiClient, transport: FakeTransport) -> None:
    label(client, "ci-1", "cm/a", {"tier": "web"})

    assert transport.requests == [f"GET {PATH}"]


def test_another_value_needs_overwrite(client: ApiClient, transport: FakeTransport) -> None:
    with pytest.raises(InvalidArgument) as caught:
        label(client, "ci-1", "cm/a", {"tier": "api"})

    assert str(caught.value) == (
        "labels tier='api' is not valid: it is 'web' already, which overwrite=True replaces"
    )
    label(client, "ci-1", "cm/a", {"tier": "api"}, overwrite=True)
    assert transport.objects[PATH]["metadata"]["labels"] == {"tier": "api"}


def test_the_change_cause_is_always_overwritten(client: ApiClient) -> None:
    annotate(client, "ci-1", "cm/a", {"kubernetes.io/change-cause": "one", "note": "x"})
    found = annotate(client, "ci-1", "cm/a", {"kubernetes.io/change-cause": "two"})

    assert found["metadata"]["annotations"] == {"kubernetes.io/change-cause": "two", "note": "x"}
    with pytest.raises(InvalidArgument, match="it is 'x' already"):
        annotate(client, "ci-1", "cm/a", {"note": "y"})


def test_a_conflict_reads_again(client: ApiClient, transport: FakeTransport) -> None:
    transport.refuse("PUT", PATH, CONFLICT)

    def change(found: dict[str, Any]) -> None:
        found["data"] = {"x": "1"}

    found = update(client, "ci-1", "cm/a", change)

    assert found["data"] == {"x": "1"}
    assert transport.requests == [f"GET {PATH}", f"PUT {PATH}"] * 2


class _LostAnswers:
    """A transport whose next write fails, stored or not, after which a second try conflicts."""

    def __init__(self, transport: FakeTransport, error: ApiError, *, stored: bool = True) -> None:
        self._send = transport.send
        self._transport = transport
        self._error: ApiError | None = error
        self._stored = stored

    def send(self, method: str, path: str, **options: Any) -> Response:
        error = self._error
        if method == "GET" or error is None:
            return self._send(method, path, **options)
        self._error = None
        if self._stored:
            self._send(method, path, **options)
        self._transport.refuse(method, path, CONFLICT)
        raise error


_CUT = ApiError("cut", reason="ConnectionReset")


@pytest.mark.parametrize(
    ("error", "stored", "count"),
    [
        (_CUT, True, 2),
        (ApiError("gateway", status=504), True, 2),
        (_CUT, False, 2),
        (ApiError("refused", reason="ConnectionRefused"), False, 2),
    ],
)
def test_a_change_whose_answer_was_lost_is_made_once(
    client: ApiClient,
    transport: FakeTransport,
    monkeypatch: pytest.MonkeyPatch,
    error: ApiError,
    stored: bool,
    count: int,
) -> None:
    def increase(found: dict[str, Any]) -> None:
        found["data"] = {"count": str(int(found["data"]["count"]) + 1)}

    transport.objects[PATH]["data"] = {"count": "1"}
    monkeypatch.setattr(transport, "send", _LostAnswers(transport, error, stored=stored).send)
    found = update(client, "ci-1", "cm/a", increase)
    assert found["data"] == {"count": str(count)} == transport.objects[PATH]["data"]


@pytest.mark.parametrize(
    "error",
    [
        ApiError("busy", status=503, retry_after=1.0),
        ApiError("busy", status=429),
        ApiError('Internal error occurred: failed calling webhook "w": x', status=500),
    ],
    ids=str,
)
def test_an_equal_change_of_another_writer_is_not_taken_for_a_refused_one(
    client: ApiClient, transport: FakeTransport, monkeypatch: pytest.MonkeyPatch, error: ApiError
) -> None:
    def increase(found: dict[str, Any]) -> None:
        found["data"] = {"count": str(int(found["data"]["count"]) + 1)}

    transport.objects[PATH]["data"] = {"count": "1"}
    # The answer is that of the other writer.
    monkeypatch.setattr(transport, "send", _LostAnswers(transport, error).send)
    assert update(client, "ci-1", "cm/a", increase)["data"] == {"count": "3"}


def test_a_label_whose_answer_was_lost_is_no_error(
    client: ApiClient, transport: FakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "send", _LostAnswers(transport, _CUT).send)

    def once(found: dict[str, Any]) -> dict[str, Any]:
        assert "team" not in found["metadata"]["labels"]
        labels = {**found["metadata"]["labels"], "team": "a"}
        identity = {"apiVersion": "v1", "kind": "ConfigMap"}
        return {**identity, "metadata": {"name": "a", "labels": labels}, "status": {"x": 1}}

    found = update(client, "ci-1", "cm/a", once)
    assert found["metadata"]["labels"] == {"tier": "web", "team": "a"}


BAD: dict[str, tuple[Callable[[ApiClient], object], str]] = {
    "no labels": (
        lambda client: label(client, "ci-1", "cm/a", {}),
        "labels={} is not valid: use a mapping of names to texts, and to None for those to "
        'remove: {"team": "a"}',
    ),
    "a value that is no label's": (
        lambda client: label(client, "ci-1", "cm/a", {"a": "no label"}),
        "labels a='no label' is not valid: not a value; use a mapping of names to texts, and to "
        'None for those to remove: {"team": "a"}',
    ),
    "a type of patch": (
        lambda client: patch(client, "ci-1", "cm/a", {}, type=cast("Any", "best")),
        "type='best' is not valid: use 'strategic', 'merge', 'json' or 'apply'",
    ),
    "operations as fields": (
        lambda client: patch(client, "ci-1", "cm/a", [], type="merge"),
        "patch=[] is not valid: use a list of operations with type='json', a mapping of fields "
        "with any other",
    ),
    "no function": (
        lambda client: update(client, "ci-1", "cm/a", cast("Any", 3)),
        "change=3 is not valid: use a function that changes an object",
    ),
    "a result that is no object": (
        lambda client: update(client, "ci-1", "cm/a", lambda found: 3),
        "change=3 is not valid: its result is no object; return one, or None",
    ),
    "a result without metadata": (
        lambda client: update(client, "ci-1", "cm/a", lambda found: {"data": {}}),
        "change={'data': {}} is not valid: its result has no metadata; return a whole object, or "
        "None",
    ),
    "an object without metadata": (
        lambda client: update(client, "ci-1", "cm/a", lambda found: found.clear()),
        "change={} is not valid: its result has no metadata; return a whole object, or None",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(client: ApiClient, name: str) -> None:
    call, said = BAD[name]

    with pytest.raises(InvalidArgument) as caught:
        call(client)

    assert str(caught.value) == said


def test_kinds_without_strategic_patches_are_merged(
    client: ApiClient, transport: FakeTransport
) -> None:
    transport.refuse("PATCH", PATH, ApiError("no such type", status=415))

    assert patch(client, "ci-1", "cm/a", {"data": {"x": "1"}})["data"] == {"x": "1"}


def test_a_json_patch_is_not_sent_twice(client: ApiClient, transport: FakeTransport) -> None:
    transport.refuse("PATCH", PATH, ApiError("cut", reason="ConnectionReset"))

    with pytest.raises(ApiError, match="cut"):
        patch(client, "ci-1", "cm/a", [{"op": "add", "path": "/data", "value": {}}])

    assert transport.requests == [f"PATCH {PATH}"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_merge_patches(
    before: dict[str, Any], after: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert merge_patch_between(before, after) == expected

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiserver.responses import (
    entries_to_requested_version,
    to_requested_version,
)
from pytest_kwait.simulator.managedfields.apply import apply_object
from tests.simulator.apiextensions.fake_conversion_webhook import Converter, Obj, server

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.store import Change


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Converter:
    return Converter(monkeypatch)


def test_object_is_stored_in_the_storage_version_with_defaults(hook: Converter) -> None:
    stored = hook.create(server("v1", address="h:80"))
    assert hook.asked == ["v2"]
    assert stored["apiVersion"] == "example.com/v2"
    assert stored["spec"] == {"host": "h", "port": "80", "zone": "z"}
    assert hook.read("v1")["spec"] == {"address": "h:80"}
    assert hook.read("v1")["metadata"] == stored["metadata"]


def test_objects_in_the_requested_version_need_no_webhook(hook: Converter) -> None:
    hook.create(server("v2", host="h", port="80"))
    kind = hook.kind("v2")
    assert (
        asyncio.run(to_requested_version(kind, hook.api.entry(kind, "a", "default").obj))["spec"][
            "host"
        ]
        == "h"
    )
    assert hook.asked == []


def test_objects_are_validated_in_the_written_version(hook: Converter) -> None:
    hook.create(server("v1", address="h:80000"))
    with pytest.raises(StatusError, match=r"spec.address: Too long: may not be more than 9 bytes"):
        hook.create(server("v1", "b", address="host:80000"))
    with pytest.raises(StatusError, match=r"spec.port: Too long: may not be more than 3 bytes"):
        hook.create(server("v2", "b", host="h", port="80000"))


def test_converted_change_updates_field_managers(hook: Converter) -> None:
    hook.create(server("v2", host="h", port="80", zone="y"))
    kind = hook.kind("v1")

    def apply(caller: Any) -> Obj:
        applied = server("v1", address="i:80")
        caller.manager = "applier"
        return apply_object(hook.api, kind, applied, None, caller, force=True)[0]

    with pytest.raises(StatusError, match=r'conflict with "me" using example.com/v2: .spec.host'):
        hook.write(
            lambda caller: apply_object(
                hook.api, kind, server("v1", address="i:80"), None, caller, force=False
            )[0]
        )
    stored = hook.write(apply)
    fields = {
        (one["manager"], one["apiVersion"]): one["fieldsV1"]
        for one in stored["metadata"]["managedFields"]
    }
    assert fields == {
        ("applier", "example.com/v1"): {"f:spec": {"f:address": {}}},
        ("me", "example.com/v2"): {"f:spec": {".": {}, "f:port": {}, "f:zone": {}}},
    }


def test_update_is_converted_to_the_storage_version(hook: Converter) -> None:
    hook.create(server("v2", host="h", port="80", zone="y"))
    seen = hook.read("v1")
    new = {**seen, "spec": {"address": "i:81"}}
    stored = hook.write(lambda caller: hook.api.update(hook.kind("v1"), new, caller=caller))
    assert stored["spec"] == {"host": "i", "port": "81", "zone": "z"}
    assert stored["metadata"]["generation"] == 2
    again = hook.read("v1")
    assert (
        hook.write(lambda caller: hook.api.update(hook.kind("v1"), again, caller=caller))[
            "metadata"
        ]
        == (again["metadata"])
    )


def test_lists_cache_converted_entries(hook: Converter) -> None:
    hook.create(server("v2", "a", host="h", port="80"))
    hook.create(server("v2", "b", host="i", port="80"))
    kind = hook.kind("v1")

    def listed() -> list[str]:
        entries = hook.api.store.entries(kind.bucket)
        found = asyncio.run(_listed(entries))
        return [entry.obj["spec"]["address"] for entry in found]

    async def _listed(entries: Any) -> Any:
        return await entries_to_requested_version(kind, entries)

    assert listed() == ["h:80", "i:80"]
    assert listed() == ["h:80", "i:80"]
    assert hook.asked == ["v1", "v1"]
    hook.api.modify(kind.bucket, "b", "default", lambda one: one["spec"].update(host="j"))
    assert listed() == ["h:80", "j:80"]
    assert hook.asked == ["v1", "v1", "v1"]


def test_conversion_may_change_labels_and_annotations_only(hook: Converter) -> None:
    stored = hook.create(server("v2", host="h", port="80"))

    def bend(review: Obj) -> None:
        metadata = review["response"]["convertedObjects"][0]["metadata"]
        metadata |= {"labels": {"a": "b"}, "generation": 7, "finalizers": ["a.b/c"]}

    hook.bend = bend
    assert hook.read("v1")["metadata"] == {**stored["metadata"], "labels": {"a": "b"}}


def _object(**fields: Any) -> Callable[[Obj], None]:
    return lambda review: review["response"]["convertedObjects"][0].update(fields)


def _metadata(**fields: Any) -> Callable[[Obj], None]:
    return lambda review: review["response"]["convertedObjects"][0]["metadata"].update(fields)


def _response(**fields: Any) -> Callable[[Obj], None]:
    return lambda review: review["response"].update(fields)


FAILED = "conversion webhook for example.com/v2, Kind=Server failed: "
RETURNED = "conversion webhook for example.com/v2, Kind=Server returned "
OBJECT = f"{RETURNED}invalid object"
NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("bend", "text"),
    [
        (_metadata(name="b"), f"{OBJECT}: must have the same name: a != b"),
        (_metadata(namespace="b"), f"{OBJECT}: must have the same namespace: default != b"),
        (_object(metadata=5), f"{OBJECT}: must have the same name: a != "),
        (
            _object(apiVersion="x.y/v7"),
            f"{OBJECT} at index 0: invalid groupVersion (expected example.com/v1, received x.y/v7)",
        ),
        (
            _object(kind="Odd"),
            f"{OBJECT} at index 0: invalid kind (expected Server, received Odd)",
        ),
        (
            _metadata(labels={"a b": "c"}),
            f'{RETURNED}invalid metadata: metadata.labels: Invalid value: "a b": {NAME}',
        ),
        (
            _metadata(annotations={"a b": "c"}),
            f'{RETURNED}invalid metadata: metadata.annotation: Invalid value: "a b": {NAME}',
        ),
        (
            _metadata(labels={"a": 5}),
            f"{RETURNED}invalid metadata: metadata.labels[a] must be a string, but is int64 in "
            "converted object",
        ),
        (
            _metadata(labels=[1]),
            f"{RETURNED}invalid metadata: invalid metadata.labels of type []interface {{}} in "
            "converted object",
        ),
        (_response(convertedObjects=[]), f"{RETURNED}0 objects, expected 1"),
        (_response(convertedObjects=[None]), "unexpected end of JSON input"),
        (
            _response(convertedObjects=["x"]),
            "json: cannot unmarshal string into Go value of type map[string]interface {}",
        ),
        (
            _response(convertedObjects=[{"apiVersion": "example.com/v1"}]),
            "Object 'Kind' is missing in '{\"apiVersion\": \"example.com/v1\"}'",
        ),
        (_response(result={"status": "Failed", "message": "no way"}), f"{FAILED}no way"),
        (
            _response(result={"status": "Failed"}),
            f"{FAILED}response.result.status was 'Failed', not 'Success'",
        ),
        (_response(result=None), f"{FAILED}response.result.status was '', not 'Success'"),
        (_response(uid="x"), f'{FAILED}expected response.uid="u", got "x"'),
        (lambda review: review.pop("response"), f"{FAILED}no response provided"),
        (
            lambda review: review.update(kind="Odd"),
            f'{FAILED}no kind "Odd" is registered for version "apiextensions.k8s.io/v1" in scheme '
            '"pkg/runtime/scheme.go:111"',
        ),
        (
            lambda review: review.update(apiVersion="apiextensions.k8s.io/v1beta1"),
            f"{FAILED}converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown "
            "conversion",
        ),
        (
            lambda review: [review.pop(field) for field in ("kind", "apiVersion")],
            f"{FAILED}expected webhook response of apiextensions.k8s.io/v1, "
            "Kind=ConversionReview, got /, Kind=",
        ),
        (
            lambda _: b"hello",
            f"{FAILED}couldn't get version/kind; json parse error: json: cannot unmarshal string "
            'into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }',
        ),
    ],
)
def test_invalid_conversion_responses_are_rejected(
    hook: Converter, bend: Callable[[Obj], object], text: str
) -> None:
    hook.create(server("v2", host="h", port="80"))
    hook.bend = bend
    with pytest.raises(StatusError) as refused:
        hook.read("v1")
    assert (refused.value.code, refused.value.reason) == (500, "")
    assert refused.value.message == text


def test_conversion_timeout_is_an_error(hook: Converter) -> None:
    hook.create(server("v2", host="h", port="80"))
    url = "https://127.0.0.1:1/convert?timeout=30s"
    hook.failure = f'Post "{url}": context deadline exceeded'
    late = " (Client.Timeout exceeded while awaiting headers)"
    with pytest.raises(StatusError) as refused:
        hook.read("v1")
    assert refused.value.message == FAILED + hook.failure + late


def test_list_with_failed_conversion_is_retryable(hook: Converter) -> None:
    hook.create(server("v2", host="h", port="80"))
    hook.failure = "EOF"
    kind = hook.kind("v1")
    with pytest.raises(StatusError) as refused:
        asyncio.run(_entries(hook))
    assert refused.value.code == 429
    assert refused.value.headers == {"Retry-After": "1"}
    assert refused.value.message == (
        f"storage is (re)initializing: failed to list {kind.api_version}, Kind=Server: {FAILED}EOF"
    )


async def _entries(hook: Converter) -> Any:
    kind = hook.kind("v1")
    return await entries_to_requested_version(kind, hook.api.store.entries(kind.bucket))


def test_failed_conversion_prevents_writes_and_deletions(hook: Converter) -> None:
    hook.create(server("v2", host="h", port="80"))
    hook.failure = "EOF"
    with pytest.raises(StatusError, match=r"webhook for example.com/v1, .* failed: EOF"):
        hook.create(server("v1", "b", address="h:80"))
    kind = hook.kind("v1")
    with pytest.raises(StatusError, match=r"webhook for example.com/v2, .* failed: EOF"):
        hook.write(lambda caller: hook.api.delete(kind, "a", "default", caller=caller))
    assert [entry.key for entry in hook.api.store.entries(kind.bucket)] == ["default/a"]


def test_watch_sends_converted_changes(hook: Converter) -> None:
    kind, before = hook.kind("v1"), hook.api.store.revision
    assert kind.structure is not None
    webhook = kind.structure.conversion
    assert webhook is not None
    hook.create(server("v2", host="h", port="80"))
    hook.api.delete(hook.kind("v2"), "a", "default")

    async def changes() -> list[Change]:
        return [
            await webhook.convert_change(one, kind)
            for one in hook.api.store.since(kind.bucket, before)
        ]

    found = asyncio.run(changes())
    assert [(one.type, one.new.obj["spec"]) for one in found] == [
        ("ADDED", {"address": "h:80"}),
        ("DELETED", {"address": "h:80"}),
    ]
    versions = [int(one.new.obj["metadata"]["resourceVersion"]) for one in found]
    assert versions == [before + 1, before + 2]

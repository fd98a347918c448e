"""Conversion of custom objects between versions, by the webhook of their definition.

The webhook is called on every read of one object, on every write, and once for each state that
lists and watches show. Only labels and annotations of the response's metadata are used.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go
(getConvertedObjectsFromResponse, validateConvertedObject, restoreObjectMeta).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.apimachinery.field_errors import aggregate_errors
from pytest_kwait.simulator.admission.webhooks.admission_reviews import (
    InvalidReviewError,
    decode_review,
    unexpected_type_text,
    unknown_conversion_text,
)
from pytest_kwait.simulator.admission.webhooks.webhook_client import (
    build_call,
    call_webhooks,
    fetch_replies,
)
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiextensions.schema_validation import go_type_name
from pytest_kwait.simulator.codec.json_yaml import json_type_name
from pytest_kwait.simulator.store import Entry, with_revision
from pytest_kwait.simulator.validation.objectmeta import validate_annotations, validate_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookCall, WebhookReply
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Change

_GROUP = "apiextensions.k8s.io"
_KIND = "ConversionReview"
_VERSIONS = ("v1", "v1beta1")
_CALL_FAILED = "failed to call webhook: "
_DEADLINE = "context deadline exceeded"
_TIMEOUT_SUFFIX = " (Client.Timeout exceeded while awaiting headers)"
_SECONDS = 30
_MAX_CONCURRENT_CALLS = 16
"""The number of concurrent calls for one list."""


class _ReviewResponse(msgspec.Struct):
    """The raw objects of a response."""

    convertedObjects: list[msgspec.Raw]  # noqa: N815 - as it is sent


class _Review(msgspec.Struct):
    response: _ReviewResponse


_DECODER = msgspec.json.Decoder(_Review)


def parse_converted_object(reply: WebhookReply, version: str, obj: Obj, kind: Kind) -> Obj:
    """Return the object of a webhook's response.

    Args:
        reply: the response.
        version: the version of the review.
        obj: the original object.
        kind: the requested version.

    Raises:
        ValueError: the call failed or the response is invalid; the text is the server's own.
    """
    group, _, version_name = str(obj["apiVersion"]).rpartition("/")
    webhook_text = f"conversion webhook for {group}/{version_name}, Kind={obj['kind']}"
    try:
        objects = _parse_objects(reply, version)
    except ValueError as error:
        raise ValueError(f"{webhook_text} failed: {error}") from None
    if len(objects) != 1:
        raise ValueError(f"{webhook_text} returned {len(objects)} objects, expected 1")
    converted = objects[0]
    if converted is None:
        raise ValueError("unexpected end of JSON input")
    if not isinstance(converted, dict):
        name = json_type_name(converted)
        raise ValueError(
            f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"
        )
    if not converted.get("kind"):
        raise ValueError(f"Object 'Kind' is missing in '{_raw_object(reply)}'")
    where = f"{webhook_text} returned invalid object"
    if converted.get("apiVersion") != kind.api_version:
        raise ValueError(
            f"{where} at index 0: invalid groupVersion (expected {kind.api_version}, received "
            f"{converted.get('apiVersion', '')})"
        )
    if converted["kind"] != obj["kind"]:
        raise ValueError(
            f"{where} at index 0: invalid kind (expected {obj['kind']}, received "
            f"{converted['kind']})"
        )
    metadata = converted.get("metadata")
    metadata_given = metadata if isinstance(metadata, dict) else {}
    for field, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = obj["metadata"].get(field, ""), metadata_given.get(field, "")
        if before != after:
            raise ValueError(f"{where}: must have the same {name}: {before} != {after}")
    try:
        return {**converted, "metadata": _restore_metadata(obj["metadata"], converted)}
    except ValueError as error:
        raise ValueError(f"{webhook_text} returned invalid metadata: {error}") from None


def _parse_objects(reply: WebhookReply, version: str) -> list[Any]:
    """Return the objects in a response.

    Raises:
        ValueError: the response is invalid.
    """
    if reply.failure:
        why = reply.failure.removeprefix(_CALL_FAILED)
        raise ValueError(why + _TIMEOUT_SUFFIX if why.endswith(_DEADLINE) else why)
    try:
        review = decode_review(reply.body)
    except InvalidReviewError as error:
        raise ValueError(str(error).removeprefix(_CALL_FAILED)) from None
    api_version, name = str(review.get("apiVersion", "")), str(review.get("kind", ""))
    if (api_version, name) != (f"{_GROUP}/{version}", _KIND):
        _check_review_type(api_version, name, version)
    response = review.get("response")
    if not isinstance(response, dict):
        raise ValueError("no response provided")
    uid = response.get("uid", "")
    if version == "v1" and uid != reply.uid:
        raise ValueError(f'expected response.uid="{reply.uid}", got "{uid}"')
    result = response.get("result") or {}
    status = result.get("status", "")
    if status != "Success":
        why = f"response.result.status was '{status}', not 'Success'"
        raise ValueError(result.get("message") or why)
    objects = response.get("convertedObjects") or []
    return objects if isinstance(objects, list) else []


def _check_review_type(api_version: str, name: str, version: str) -> None:
    """Check kind and apiVersion of a response; v1beta1 may omit them.

    Raises:
        ValueError: they are wrong.
    """
    group, _, answered = api_version.rpartition("/")
    if api_version and name:
        if name != _KIND or group != _GROUP or answered not in _VERSIONS:
            where = '"pkg/runtime/scheme.go:111"'
            raise ValueError(
                f'no kind "{name}" is registered for version "{api_version}" in scheme {where}'
            )
        raise ValueError(unknown_conversion_text(api_version, name, version, _KIND))
    if version == "v1":
        raise ValueError(unexpected_type_text(api_version, name, _GROUP, _KIND))


def _raw_object(reply: WebhookReply) -> str:
    review = _DECODER.decode(reply.body)
    return bytes(review.response.convertedObjects[0]).decode()


def _restore_metadata(original: Obj, converted: Obj) -> Obj:
    """Return the original metadata with the labels and annotations of the response.

    Raises:
        ValueError: they are invalid.
    """
    metadata = dict(original)
    converted_metadata: Obj = converted["metadata"]
    for field in ("labels", "annotations"):
        value = converted_metadata.get(field)
        if value is None:
            metadata.pop(field, None)
            continue
        if not isinstance(value, dict):
            raise ValueError(
                f"invalid metadata.{field} of type {go_type_name(value)} in converted object"
            )
        for key, text in value.items():
            if not isinstance(text, str):
                raise ValueError(
                    f"metadata.{field}[{key}] must be a string, but is {go_type_name(text)} in "
                    "converted object"
                )
        if value != original.get(field):
            errors = (
                validate_labels(value, "metadata.labels")
                if field == "labels"
                else validate_annotations(value, "metadata.annotation")
            )
            if errors:
                raise ValueError(aggregate_errors(errors))
        metadata[field] = value
    return metadata


class WebhookConverter:
    """Converts objects by the webhook of one definition.

    Args:
        name: the definition's name.
        webhook: its `spec.conversion.webhook`.
    """

    def __init__(self, cluster: Cluster, name: str, webhook: Obj) -> None:
        self._cluster = cluster
        self._name = name
        self._config: Obj = webhook["clientConfig"]
        self._review = next(
            version for version in webhook["conversionReviewVersions"] if version in _VERSIONS
        )
        self._converted: dict[tuple[str, str], Entry] = {}
        """The entries shown last by lists and watches, by version and key."""

    def convert(self, obj: Obj, kind: Kind) -> Obj:
        """Convert an object during a write.

        Raises:
            StatusError: 500, the webhook fails or its response is invalid.
        """
        [reply] = call_webhooks([self._call(obj, kind)])
        return self._parse_reply_object(obj, kind, reply)

    async def convert_for_read(self, obj: Obj, kind: Kind) -> Obj:
        """Convert an object for a read.

        Raises:
            StatusError: 500, the webhook fails or its response is invalid.
        """
        [reply] = await fetch_replies([self._call(obj, kind)])
        return self._parse_reply_object(obj, kind, reply)

    async def convert_entries(self, entries: Sequence[Entry], kind: Kind) -> list[Entry]:
        """Convert the entries of a list; those shown before are cached.

        Raises:
            StatusError: 500, the webhook fails or its response is invalid.
        """
        missing = [entry for entry in entries if self._cached_entry(entry, kind) is None]
        for start in range(0, len(missing), _MAX_CONCURRENT_CALLS):
            portion = missing[start : start + _MAX_CONCURRENT_CALLS]
            replies = await fetch_replies([self._call(entry.obj, kind) for entry in portion])
            for entry, reply in zip(portion, replies, strict=True):
                obj = self._parse_reply_object(entry.obj, kind, reply)
                self._cache_entry(kind, Entry(entry.key, obj, entry.revision))
        cached_entries = [self._cached_entry(entry, kind) for entry in entries]
        self._evict_deleted(kind)
        return [
            cached_entry or entry
            for cached_entry, entry in zip(cached_entries, entries, strict=True)
        ]

    async def convert_change(self, change: Change, kind: Kind) -> Change:
        """Convert a change for a watch.

        Raises:
            StatusError: 500, the webhook fails or its response is invalid.
        """
        old = change.old
        if old is not None:
            [old] = await self.convert_entries([old], kind)
        if change.type == "DELETED" and old is not None:
            gone = Entry(change.new.key, with_revision(old.obj, change.revision), change.revision)
            self._converted.pop((kind.version, change.new.key), None)
            return change._replace(new=gone, old=old)
        [new] = await self.convert_entries([change.new], kind)
        return change._replace(new=new, old=old)

    def _cached_entry(self, entry: Entry, kind: Kind) -> Entry | None:
        if entry.obj["apiVersion"] == kind.api_version:
            return entry
        cached_entry = self._converted.get((kind.version, entry.key))
        if cached_entry is None or cached_entry.revision != entry.revision:
            return None
        return cached_entry

    def _cache_entry(self, kind: Kind, entry: Entry) -> None:
        self._converted[kind.version, entry.key] = entry

    def _evict_deleted(self, kind: Kind) -> None:
        """Remove the entries of deleted objects once the cache is too large."""
        store = self._cluster.store
        if len(self._converted) <= 64 + 8 * store.count(kind.bucket):
            return
        for version, key in tuple(self._converted):
            if store.get(kind.bucket, key) is None:
                del self._converted[version, key]

    def _call(self, obj: Obj, kind: Kind) -> WebhookCall:
        metadata = {
            key: value for key, value in obj["metadata"].items() if key != "resourceVersion"
        }
        request: Obj = {
            "desiredAPIVersion": kind.api_version,
            "objects": [{**obj, "metadata": metadata}],
        }
        return build_call(
            self._cluster,
            self._config,
            self._review,
            request,
            _SECONDS,
            review={
                "kind": _KIND,
                "apiVersion": f"{_GROUP}/{self._review}",
                "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
            },
        )

    def _parse_reply_object(self, obj: Obj, kind: Kind, reply: WebhookReply) -> Obj:
        """Parse a response and prune its object."""
        try:
            converted_object = parse_converted_object(reply, self._review, obj, kind)
        except ValueError as error:
            raise StatusError(500, "", str(error)) from None
        structure = kind.structure
        return (
            converted_object if structure is None else structure.prune_converted(converted_object)
        )

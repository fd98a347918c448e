"""What a conversion webhook's answer says, and whether it may.

Of metadata nothing but labels and annotations is taken over.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go, funcs
getConvertedObjectsFromResponse, validateConvertedObject, restoreObjectMeta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.apiextensions.findings import go_type_name
from pytest_kwait.simulator.validation.objectmeta import annotation_errors, label_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookReply
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["parse_converted_object"]

_GROUP = "apiextensions.k8s.io"
_KIND = "ConversionReview"
_VERSIONS = ("v1", "v1beta1")
_CALL_FAILED = "failed to call webhook: "
_DEADLINE = "context deadline exceeded"
_TIMEOUT_SUFFIX = " (Client.Timeout exceeded while awaiting headers)"


class _ReviewResponse(msgspec.Struct):
    """An object of an answer, as it was written."""

    convertedObjects: list[msgspec.Raw]  # noqa: N815 - as it is sent


class _Review(msgspec.Struct):
    response: _ReviewResponse


_DECODER = msgspec.json.Decoder(_Review)


def parse_converted_object(reply: WebhookReply, version: str, obj: Obj, kind: Kind) -> Obj:
    """The object that a webhook made of `obj`.

    Args:
        reply: what it answered.
        version: of the review.
        obj: what it was asked to convert.
        kind: the version that it was asked for.

    Raises:
        ValueError: it failed, or answered what cannot be; the text is the server's own.
    """
    group, _, given = str(obj["apiVersion"]).rpartition("/")
    who = f"conversion webhook for {group}/{given}, Kind={obj['kind']}"
    try:
        objects = _parse_objects(reply, version)
    except ValueError as error:
        raise ValueError(f"{who} failed: {error}") from None
    if len(objects) != 1:
        raise ValueError(f"{who} returned {len(objects)} objects, expected 1")
    made = objects[0]
    if made is None:
        raise ValueError("unexpected end of JSON input")
    if not isinstance(made, dict):
        name = {list: "array", str: "string", bool: "bool"}.get(type(made), "number")
        raise ValueError(
            f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"
        )
    if not made.get("kind"):
        raise ValueError(f"Object 'Kind' is missing in '{_raw_object(reply)}'")
    where = f"{who} returned invalid object"
    if made.get("apiVersion") != kind.api_version:
        raise ValueError(
            f"{where} at index 0: invalid groupVersion (expected {kind.api_version}, received "
            f"{made.get('apiVersion', '')})"
        )
    if made["kind"] != obj["kind"]:
        raise ValueError(
            f"{where} at index 0: invalid kind (expected {obj['kind']}, received {made['kind']})"
        )
    metadata = made.get("metadata")
    told = metadata if isinstance(metadata, dict) else {}
    for field, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = obj["metadata"].get(field, ""), told.get(field, "")
        if before != after:
            raise ValueError(f"{where}: must have the same {name}: {before} != {after}")
    try:
        return {**made, "metadata": _restore_metadata(obj["metadata"], made)}
    except ValueError as error:
        raise ValueError(f"{who} returned invalid metadata: {error}") from None


def _parse_objects(reply: WebhookReply, version: str) -> list[Any]:
    """The objects in an answer.

    Raises:
        ValueError: there is no such answer.
    """
    if reply.failure:
        why = reply.failure.removeprefix(_CALL_FAILED)
        raise ValueError(why + _TIMEOUT_SUFFIX if why.endswith(_DEADLINE) else why)
    # Not at import: that module is loaded with the first webhook.
    from pytest_kwait.simulator.admission.webhooks.admission_reviews import (
        InvalidReviewError,
        decode_review,
    )

    try:
        review = decode_review(reply.body)
    except InvalidReviewError as error:
        raise ValueError(str(error).removeprefix(_CALL_FAILED)) from None
    given, name = str(review.get("apiVersion", "")), str(review.get("kind", ""))
    if (given, name) != (f"{_GROUP}/{version}", _KIND):
        _check_review_type(given, name, version)
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


def _check_review_type(given: str, name: str, version: str) -> None:
    """Hold an answer to being a review; older ones need not say that they are.

    Raises:
        ValueError: it is something else.
    """
    group, _, answered = given.rpartition("/")
    if given and name:
        if name != _KIND or group != _GROUP or answered not in _VERSIONS:
            where = '"pkg/runtime/scheme.go:111"'
            raise ValueError(
                f'no kind "{name}" is registered for version "{given}" in scheme {where}'
            )
        raise ValueError(
            f"converting ({answered}.{name}) to ({version}.{_KIND}): unknown conversion"
        )
    if version == "v1":
        raise ValueError(
            f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got "
            f"{group}/{answered}, Kind={name}"
        )


def _raw_object(reply: WebhookReply) -> str:
    """The object of an answer as it was written."""
    review = _DECODER.decode(reply.body)
    return bytes(review.response.convertedObjects[0]).decode()


def _restore_metadata(original: Obj, made: Obj) -> Obj:
    """The metadata of `original` with the labels and annotations of what was made of it.

    Raises:
        ValueError: they are none.
    """
    metadata = dict(original)
    given: Obj = made["metadata"]
    for field in ("labels", "annotations"):
        value = given.get(field)
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
                label_errors(value, "metadata.labels")
                if field == "labels"
                else annotation_errors(value, "metadata.annotation")
            )
            texts = list(dict.fromkeys(map(str, errors)))
            if texts:
                raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        metadata[field] = value
    return metadata

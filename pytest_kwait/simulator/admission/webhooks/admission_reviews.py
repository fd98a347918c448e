"""AdmissionReview: build the request, read the response.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/{request,errors}.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.json_yaml import json_type_name
from pytest_kwait.simulator.conversion import to_version

if TYPE_CHECKING:
    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

_VERSIONS = ("v1", "v1beta1")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class InvalidReviewError(Exception):
    """A webhook's response is invalid; the text is the server's."""


@dataclass(frozen=True, slots=True)
class ReviewResponse:
    """A webhook's response.

    Args:
        allowed: whether the request is allowed.
        patch: the changes as JSON patch operations.
        status: the status of a denial.
        warnings: warnings for the client.
    """

    allowed: bool
    patch: list[Any]
    status: Obj
    warnings: tuple[str, ...]


def choose_review_version(webhook: Obj) -> str:
    """Return the first supported version of reviews; empty for none."""
    known = (
        version for version in webhook.get("admissionReviewVersions", ()) if version in _VERSIONS
    )
    return next(known, "")


def build_admission_request(kind: Kind, attributes: Attributes) -> Obj:
    """Return the `request` of a review, with objects in the version `kind`."""
    requested = attributes.requested_kind or attributes.kind
    caller = attributes.caller
    object_kind, original = (
        attributes.subresource_kind or kind,
        attributes.subresource_kind or requested,
    )
    request: Obj = {
        "kind": _group_version_field(object_kind, "kind", object_kind.kind),
        "resource": _group_version_field(kind, "resource", kind.plural),
        "requestKind": _group_version_field(original, "kind", original.kind),
        "requestResource": _group_version_field(requested, "resource", requested.plural),
        "operation": attributes.operation,
        "userInfo": caller.identity.info(),
        "object": to_reviewed_version(object_kind, attributes.obj),
        "oldObject": to_reviewed_version(object_kind, attributes.old),
        "dryRun": caller.dry_run,
        "options": _operation_options(attributes),
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    return request


def _group_version_field(kind: Kind, field: str, name: str) -> Obj:
    return {"group": kind.group, "version": kind.version, field: name}


def to_reviewed_version(kind: Kind, obj: Obj | None) -> Obj | None:
    """Return an object in the version `kind`, with kind and apiVersion."""
    if obj is None:
        return None
    return {"kind": kind.kind, "apiVersion": kind.api_version, **to_version(kind, obj)}


def _operation_options(attributes: Attributes) -> Obj | None:
    if attributes.operation == "CONNECT":
        return None
    caller = attributes.caller
    options: Obj = {"kind": _OPTIONS[attributes.operation], "apiVersion": "meta.k8s.io/v1"}
    if caller.dry_run:
        options["dryRun"] = ["All"]
    if attributes.operation == "DELETE":
        return {**attributes.options, **options}
    return options | caller.write_options


def parse_review_response(body: bytes, uid: str, version: str, *, mutating: bool) -> ReviewResponse:
    """Parse a webhook's response.

    Args:
        body: the response.
        uid: the UID of the request.
        version: the version of the request.
        mutating: whether a patch is allowed.

    Raises:
        InvalidReviewError: the response is invalid.
    """
    review = decode_review(body)
    type_meta = (review.get("apiVersion", ""), review.get("kind", ""))
    known = f"admission.k8s.io/{version}"
    if type_meta != (known, "AdmissionReview") and all(type_meta):
        why = unknown_conversion_text(*type_meta, version, "AdmissionReview")
        raise InvalidReviewError(f"failed to call webhook: {why}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise _response_error("webhook response was absent")
    patch, kind = response.get("patch") or "", response.get("patchType")
    if version == "v1":
        if response.get("uid", "") != uid:
            response_uid = response.get("uid", "")
            raise _response_error(f'expected response.uid="{uid}", got "{response_uid}"')
        if type_meta != ("admission.k8s.io/v1", "AdmissionReview"):
            raise _response_error(
                unexpected_type_text(*type_meta, "admission.k8s.io", "AdmissionReview")
            )
        _check_patch(patch, kind, mutating=mutating)
    elif not mutating:
        patch = ""
    return ReviewResponse(
        bool(response.get("allowed")),
        _check_operations(patch),
        response.get("status") or response.get("result") or {},
        tuple(str(text) for text in response.get("warnings") or ()),
    )


def unknown_conversion_text(api_version: str, kind: str, version: str, review: str) -> str:
    """Return the error of a response of another type than the version's review."""
    version_name = api_version.rpartition("/")[2]
    return f"converting ({version_name}.{kind}) to ({version}.{review}): unknown conversion"


def unexpected_type_text(api_version: str, kind: str, group: str, review: str) -> str:
    """Return the error of a response without the type of the group's v1 review."""
    given_group, _, version = api_version.rpartition("/")
    return (
        f"expected webhook response of {group}/v1, Kind={review}, got "
        f"{given_group}/{version}, Kind={kind}"
    )


def decode_review(body: bytes) -> Obj:
    """Decode the review in a response.

    Raises:
        InvalidReviewError: it is not a JSON object.
    """
    if not body:
        raise InvalidReviewError(
            "failed to call webhook: 0-length response with status code: 200 and content type: "
            "application/json"
        )
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        review = ""  # The server parses YAML, where most texts are strings.
    if not isinstance(review, dict):
        name = json_type_name(review)
        raise InvalidReviewError(
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot "
            f"unmarshal {name} into Go value of type struct {{ APIVersion string "
            '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
    return review


def _response_error(why: str) -> InvalidReviewError:
    return InvalidReviewError(f"received invalid webhook response: {why}")


def _check_patch(patch: str, kind: str | None, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise _response_error("validating webhook may not return response.patch")
        if kind is not None:
            raise _response_error("validating webhook may not return response.patchType")
        return
    if patch and kind is None:
        raise _response_error("webhook returned response.patch but not response.patchType")
    if not patch and kind is not None:
        raise _response_error("webhook returned response.patchType but not response.patch")
    if kind == "":
        raise _response_error('webhook returned invalid response.patchType of ""')
    if patch and kind != "JSONPatch":
        raise InvalidReviewError(f'unsupported patch type "{kind}"')


def _check_operations(patch: str) -> list[Any]:
    if not patch:
        return []
    try:
        operations = json.loads(base64.b64decode(patch, validate=True))
    except json.JSONDecodeError as error:
        end = error.pos >= len(error.doc.rstrip()) - 1
        sign = error.doc[error.pos : error.pos + 1]
        why = (
            "unexpected end of JSON input"
            if end
            else f"invalid character '{sign}' looking for beginning of value"
        )
        raise _patch_error(why) from None
    except (binascii.Error, ValueError) as error:
        raise _patch_error(str(error)) from None
    if not isinstance(operations, list):
        name = json_type_name(operations)
        raise _patch_error(f"json: cannot unmarshal {name} into Go value of type jsonpatch.Patch")
    return operations


def _patch_error(why: str) -> InvalidReviewError:
    return InvalidReviewError(f"received undecodable patch in webhook response: {why}")


def denial_error(name: str, status: Obj) -> StatusError:
    """Return the error of a webhook's denial, with a code of at least 400."""
    code = int(status.get("code") or 0)
    message, reason = status.get("message", ""), status.get("reason", "")
    text = f'admission webhook "{name}" denied the request'
    text = f"{text}: {message or reason}" if message or reason else f"{text} without explanation"
    return StatusError(max(code, 400), reason, text, status.get("details"))

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pytest_kwait.simulator.admission.webhooks.admission_reviews import (
    InvalidReviewError,
    parse_review_response,
)

_REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
_STRUCT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
    '"json:\\"kind,omitempty\\"" }'
)


def body(response: Any, **review: Any) -> bytes:
    return json.dumps({**_REVIEW, "response": response, **review}).encode()


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            b"",
            "failed to call webhook: 0-length response with status code: 200 and content type: "
            "application/json",
        ),
        (
            b"hello",
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot "
            f"unmarshal string into Go value of type {_STRUCT}",
        ),
        (
            b"[]",
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot "
            f"unmarshal array into Go value of type {_STRUCT}",
        ),
        (body(None), "received invalid webhook response: webhook response was absent"),
        (
            body({"uid": "v"}),
            'received invalid webhook response: expected response.uid="u", got "v"',
        ),
        (
            body({"uid": "u"}, apiVersion="admission.k8s.io/v1beta1"),
            "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): "
            "unknown conversion",
        ),
        (
            body({"uid": "u"}, apiVersion="", kind=""),
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, "
            "Kind=AdmissionReview, got /, Kind=",
        ),
        (
            body({"uid": "u", "patch": encoded("[]")}),
            "received invalid webhook response: webhook returned response.patch but not "
            "response.patchType",
        ),
        (
            body({"uid": "u", "patchType": "JSONPatch"}),
            "received invalid webhook response: webhook returned response.patchType but not "
            "response.patch",
        ),
        (
            body({"uid": "u", "patchType": "Odd", "patch": encoded("[]")}),
            'unsupported patch type "Odd"',
        ),
        (
            body({"uid": "u", "patchType": "JSONPatch", "patch": encoded("{}")}),
            "received undecodable patch in webhook response: json: cannot unmarshal object into Go "
            "value of type jsonpatch.Patch",
        ),
        (
            body({"uid": "u", "patchType": "JSONPatch", "patch": encoded("{")}),
            "received undecodable patch in webhook response: unexpected end of JSON input",
        ),
    ],
)
def test_invalid_responses_are_rejected(answer: bytes, why: str) -> None:
    with pytest.raises(InvalidReviewError) as error:
        parse_review_response(answer, "u", "v1", mutating=True)
    assert str(error.value) == why


@pytest.mark.parametrize("field", ["patch", "patchType"])
def test_validating_webhook_may_return_no_patch(field: str) -> None:
    with pytest.raises(InvalidReviewError) as error:
        parse_review_response(
            body({"uid": "u", "allowed": True, field: "x"}), "u", "v1", mutating=False
        )
    assert str(error.value) == (
        f"received invalid webhook response: validating webhook may not return response.{field}"
    )


def test_v1beta1_responses_are_checked_loosely() -> None:
    answer = body(
        {"allowed": True, "patch": encoded('[{"op":"remove","path":"/a"}]')},
        apiVersion="admission.k8s.io/v1beta1",
    )
    assert parse_review_response(answer, "u", "v1beta1", mutating=True).patch == [
        {"op": "remove", "path": "/a"}
    ]
    assert parse_review_response(answer, "u", "v1beta1", mutating=False).patch == []

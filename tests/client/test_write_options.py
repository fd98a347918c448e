from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_kwait.client.resource import CONFIG_MAPS, DEPLOYMENTS
from pytest_kwait.client.responses import Response
from pytest_kwait.client.write_options import (
    describe_unknown_fields,
    is_typed_patch_error,
    parse_field_validation,
)
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, InvalidArgument

_SCHEMAS = {
    "apps.Deployment": {
        "properties": {
            "spec": {"default": {}, "allOf": [{"$ref": "#/components/schemas/apps.Spec"}]},
            "metadata": {"$ref": "#/components/schemas/meta"},
        },
        "x-kubernetes-group-version-kind": [
            {"group": "apps", "version": "v1", "kind": "Deployment"}
        ],
    },
    "apps.Spec": {
        "properties": {
            "replicas": {"type": "integer"},
            "selector": {"type": "object"},
            "containers": {"items": {"properties": {"image": {}, "name": {}}}},
            "labelled": {"additionalProperties": {"properties": {"colour": {}}}},
        }
    },
    "meta": {"properties": {"labels": {"additionalProperties": {"type": "string"}}}},
}


class OneAnswer:
    def __init__(self, answer: bytes | ApiError) -> None:
        self._answer = answer
        self.paths: list[str] = []

    def send(self, method: str, path: str, **options: Any) -> Response:
        self.paths.append(path)
        if isinstance(self._answer, ApiError):
            raise self._answer
        return Response(200, {}, self._answer)


def described(error: ApiError, answer: bytes | ApiError | None = None) -> str:
    schemas = json.dumps({"components": {"schemas": _SCHEMAS}}).encode()
    transport: Any = OneAnswer(schemas if answer is None else answer)
    return describe_unknown_fields(transport, DEPLOYMENTS, error, Deadline.after(60))


def refused(*fields: str) -> ApiError:
    listed = ", ".join(f'unknown field "{field}"' for field in fields)
    message = f'Deployment in version "v1" cannot be handled: strict decoding error: {listed}'
    return ApiError(message, status=400, reason="BadRequest")


def undeclared(text: str) -> ApiError:
    message = f"failed to create typed patch object (ci/web; apps/v1, Kind=Deployment): {text}"
    return ApiError(message, status=500)


_SELECTOR = 'unknown field "spec.slector"; did you mean spec.selector?'


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (refused("spec.slector"), _SELECTOR),
        (undeclared(".spec.slector: field not declared in schema"), _SELECTOR),
        (
            undeclared(
                'errors:\n  .spec.containers[name="a.b]"].imge: field not declared in schema\n'
                "  .spec.replcias: field not declared in schema"
            ),
            'unknown fields "spec.containers[name="a.b]"].imge", "spec.replcias"; did you mean '
            'spec.containers[name="a.b]"].image, spec.replicas?',
        ),
        (
            refused("spec.containers[0].imge", "metdata"),
            'unknown fields "spec.containers[0].imge", "metdata"; did you mean '
            "spec.containers[0].image, metadata?",
        ),
        (
            refused("spec.labelled.x.color"),
            'unknown field "spec.labelled.x.color"; did you mean spec.labelled.x.colour?',
        ),
        (
            refused("spec.zzz"),
            'unknown field "spec.zzz"; fields of spec are containers, labelled, replicas, selector',
        ),
        (refused("zzz"), 'unknown field "zzz"; fields are metadata, spec'),
        (refused("metadata.labels.x.y"), 'unknown field "metadata.labels.x.y"'),
        (undeclared(".spec.replicas: expected numeric (int or float), got string"), ""),
        (ApiError('unknown field "spec.slector"', status=422), ""),
        (ApiError("strict decoding error: duplicate field", status=400), ""),
    ],
)
def test_unknown_fields_have_the_nearest_known_ones(error: ApiError, text: str) -> None:
    assert described(error) == text


@pytest.mark.parametrize(
    "answer", [ApiError("gone", status=404), b"no JSON", b"{}", b'{"components": {"schemas": {}}}']
)
def test_unknown_fields_are_described_without_a_schema(answer: bytes | ApiError) -> None:
    assert described(refused("spec.slector"), answer) == 'unknown field "spec.slector"'


def test_schemas_of_the_core_group_have_their_own_path() -> None:
    transport: Any = OneAnswer(b"{}")
    describe_unknown_fields(transport, CONFIG_MAPS, refused("dta"), Deadline.after(60))
    describe_unknown_fields(transport, DEPLOYMENTS, refused("spc"), Deadline.after(60))
    assert transport.paths == ["/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"]


def test_only_failures_of_the_schema_are_typed_patch_errors() -> None:
    assert is_typed_patch_error(undeclared(".spec.a: field not declared in schema"))
    assert not is_typed_patch_error(ApiError("etcdserver: leader changed", status=500))


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("strict", "Strict"),
        ("warn", "Warn"),
        ("ignore", "Ignore"),
        (True, "Strict"),
        (False, "Ignore"),
    ],
)
def test_modes_are_those_of_kubectl(value: object, mode: str) -> None:
    assert parse_field_validation(value) == mode


@pytest.mark.parametrize("value", ["Strict", None, 1, [], "no"])
def test_other_modes_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_field_validation(value)
    assert str(caught.value) == (
        f"validate={value!r} is not valid: use 'strict', 'warn' or 'ignore'"
    )

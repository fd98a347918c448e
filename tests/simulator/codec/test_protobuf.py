from __future__ import annotations

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.protobuf import MAGIC, decode_envelope


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def envelope(api_version: bytes, kind: bytes, message: bytes) -> bytes:
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, message)


def test_a_config_map() -> None:
    metadata = field(1, b"a") + field(11, field(1, b"x") + field(2, b"y")) + field(8, b"")
    message = field(1, metadata) + field(2, field(1, b"k") + field(2, b"v"))
    message += field(3, field(1, b"b") + field(2, b"\x00\x01"))
    assert decode_envelope(envelope(b"v1", b"ConfigMap", message)) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "a", "labels": {"x": "y"}, "creationTimestamp": None},
        "data": {"k": "v"},
        "binaryData": {"b": "AAE="},
    }


def test_numbers_times_and_numbers_or_texts() -> None:
    port = field(3, 80) + field(4, field(1, 1) + field(3, b"http"))
    spec = field(1, port)
    message = field(1, field(8, field(1, 1767225600))) + field(2, spec)
    decoded = decode_envelope(envelope(b"v1", b"Service", message))
    assert decoded["spec"] == {"ports": [{"port": 80, "targetPort": "http"}]}
    assert decoded["metadata"] == {"creationTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("seconds", "nanos", "second", "micro"),
    [
        (-62_135_596_798, 1_999, "0001-01-01T00:00:02Z", "0001-01-01T00:00:02.000001Z"),
        (-30_610_224_001, 0, "0999-12-31T23:59:59Z", "0999-12-31T23:59:59.000000Z"),
        (253_402_300_799, 999_999_999, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times_of_any_year_have_four_digits_and_keep_microseconds(
    seconds: int, nanos: int, second: str, micro: str
) -> None:
    moment = field(1, seconds % (1 << 64)) + field(2, nanos)
    message = field(1, field(8, moment)) + field(2, field(4, moment))
    decoded = decode_envelope(envelope(b"coordination.k8s.io/v1", b"Lease", message))
    assert decoded["metadata"] == {"creationTimestamp": second}
    assert decoded["spec"] == {"renewTime": micro}


def test_time_beyond_the_calendar_is_refused() -> None:
    message = field(1, field(8, field(1, 1 << 62)))
    with pytest.raises(StatusError) as refused:
        decode_envelope(envelope(b"v1", b"ConfigMap", message))
    assert refused.value.message == (
        "the protobuf body cannot be decoded: proto: 4611686018427387904 s since 1970 is outside "
        "of the years 1 to 9999"
    )


def test_parts_of_structs_that_json_shows_inline() -> None:
    volume = field(1, b"v") + field(2, field(2, b""))  # volumeSource { emptyDir {} }
    message = field(2, field(1, volume))
    decoded = decode_envelope(envelope(b"v1", b"Pod", message))
    assert decoded["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_parts_within_parts_that_json_shows_inline() -> None:
    rule = field(1, b"a.example") + field(2, field(1, field(1, field(1, b"/"))))
    message = field(2, field(3, rule))
    decoded = decode_envelope(envelope(b"networking.k8s.io/v1", b"Ingress", message))
    assert decoded["spec"] == {"rules": [{"host": "a.example", "http": {"paths": [{"path": "/"}]}}]}


def test_lists_that_are_the_values_of_a_map() -> None:
    extra = field(1, b"scopes") + field(2, field(1, b"a") + field(1, b"b"))
    message = field(2, field(5, extra))
    kind = b"SubjectAccessReview"
    decoded = decode_envelope(envelope(b"authorization.k8s.io/v1", kind, message))
    assert decoded["spec"] == {"extra": {"scopes": ["a", "b"]}}


def test_schemas_with_several_types() -> None:
    text = field(5, b"string")
    properties = [
        (b"a", field(24, field(1, field(5, b"object")))),
        (b"b", field(24, field(2, text) + field(2, text))),
        (b"c", field(30, field(1, 1))),
        (b"d", field(30, field(1, 1) + field(2, text))),
        (b"e", field(32, field(1, b"x") + field(2, field(2, b"y") + field(2, b"z")))),
        (b"f", field(8, field(1, b"[1]"))),
    ]
    schema = b"".join(field(29, field(1, name) + field(2, one)) for name, one in properties)
    message = field(2, field(7, field(4, field(1, schema))))
    kind = b"CustomResourceDefinition"
    decoded = decode_envelope(envelope(b"apiextensions.k8s.io/v1", kind, message))
    (version,) = decoded["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"]["properties"] == {
        "a": {"items": {"type": "object"}},
        "b": {"items": [{"type": "string"}, {"type": "string"}]},
        "c": {"additionalProperties": True},
        "d": {"additionalProperties": {"type": "string"}},
        "e": {"dependencies": {"x": ["y", "z"]}},
        "f": {"default": [1]},
    }


def test_negative_numbers() -> None:
    options = field(1, (1 << 64) - 1)
    decoded = decode_envelope(envelope(b"v1", b"DeleteOptions", options))
    assert decoded["gracePeriodSeconds"] == -1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"nope", "the protobuf body does not start with the prefix of Kubernetes' objects"),
        (envelope(b"v1", b"Nope", b""), 'no kind "Nope" is registered for version "v1"'),
        (
            envelope(b"v1", b"Pod", b"\x0a\x7f"),
            "the protobuf body cannot be decoded: a field is longer than the message",
        ),
    ],
)
def test_invalid_objects_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        decode_envelope(data)
    assert (refused.value.code, refused.value.message) == (400, message)

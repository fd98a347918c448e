from __future__ import annotations

import pytest

from pytest_kwait.simulator.protobuf import MAGIC, decode_envelope
from pytest_kwait.simulator.status_error import StatusError


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    return bytes([number << 3 | 2]) + varint(len(value)) + value


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


def test_parts_of_structs_that_json_shows_inline() -> None:
    volume = field(1, b"v") + field(2, field(2, b""))  # volumeSource { emptyDir {} }
    message = field(2, field(1, volume))
    decoded = decode_envelope(envelope(b"v1", b"Pod", message))
    assert decoded["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


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
def test_what_is_no_object_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        decode_envelope(data)
    assert (refused.value.code, refused.value.message) == (400, message)

"""The protobuf form of objects that kubectl's typed creates send.

Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf, and the generated.proto files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.status_error import unsupported_media_type

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["MAGIC", "decode_envelope"]

MAGIC = b"k8s\x00"


def decode_envelope(data: bytes) -> Obj:
    """The object in a protobuf body.

    Raises:
        StatusError: 415.
    """
    del data
    raise unsupported_media_type("application/json, application/yaml")

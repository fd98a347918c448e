"""Transforms: change objects before a store keeps them, to save memory or hide data.

Ported from client-go `tools/cache` (shared_informer.go SetTransform, delta_fifo.go TransformFunc).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from pytest_kwait.errors import KwaitError

if TYPE_CHECKING:
    from pytest_kwait.cache.store import Object

TransformFunc: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the object to store; may change it in place, except its name and UID."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class TransformError(KwaitError):
    """A transform raised, or returned no object; the object must not be stored.

    Args:
        key: the object's key.
        problem: the cause.
    """

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        return f"the transform of {self.key} {self.problem}"


def apply_transform(transform: TransformFunc, key: str, raw: bytes) -> bytes:
    """Return the JSON of a transformed object.

    Args:
        transform: the user's function.
        key: the object's key, for the error.
        raw: the object's JSON.

    Raises:
        TransformError: the function raised, or returned no object.
    """
    try:
        transformed: Object = transform(_decode(raw))
    except Exception as error:  # user code may raise anything; the waits report it
        raise TransformError(key, f"raised {type(error).__name__}: {error}") from error
    # Despite its type, a function without a return statement gives None.
    value: object = transformed
    if not isinstance(value, Mapping):
        raise TransformError(key, f"returned {value!r}, not an object")
    try:
        return _encode(value)
    except (TypeError, ValueError) as error:
        raise TransformError(key, f"returned what is no JSON: {error}") from error

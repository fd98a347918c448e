"""Names that the server makes up.

Source: k8s.io/apiserver pkg/storage/names/generate.go.
"""

from __future__ import annotations

import random
import uuid

__all__ = ["generate_name", "new_uid", "random_suffix"]

_SIGNS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_MAX = 63
_random = random.Random()  # noqa: S311 - names have to differ, not to be secret


def random_suffix(length: int = _SUFFIX) -> str:
    """`length` signs that make no words."""
    return "".join(_random.choices(_SIGNS, k=length))


def generate_name(prefix: str) -> str:
    """`prefix` and a suffix, cut to the length of a DNS label."""
    return prefix[: _MAX - _SUFFIX] + random_suffix()


def new_uid() -> str:
    """A random UUID."""
    return str(uuid.UUID(int=_random.getrandbits(128), version=4))

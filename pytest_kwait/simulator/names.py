"""Names that the server makes up.

Source: k8s.io/apiserver pkg/storage/names/generate.go.
"""

from __future__ import annotations

import random

__all__ = ["generate_name", "new_uid", "random_suffix"]

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_LENGTH = 63
_random = random.Random()  # noqa: S311 - names have to differ, not to be secret


def random_suffix(length: int = _SUFFIX_LENGTH) -> str:
    """`length` signs that make no words."""
    return "".join(_random.choices(_ALPHABET, k=length))


def generate_name(prefix: str) -> str:
    """`prefix` and a suffix, cut to the length of a DNS label."""
    return prefix[: _MAX_LENGTH - _SUFFIX_LENGTH] + random_suffix()


def new_uid() -> str:
    """A random UUID."""
    # As `uuid.UUID(int=…, version=4)` has it, which costs three times as much.
    text = f"{_random.getrandbits(128):032x}"
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"

"""How many generated examples and seeds tests try: a quarter, or with an option all."""

from __future__ import annotations

from hypothesis import settings


def scaled(number: int) -> int:
    """Return how many of a number of examples are tried.

    A quarter of them, and all with `--hypothesis-profile=thorough`.
    """
    return max(1, number * settings().max_examples // 100)

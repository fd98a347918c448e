"""Installed distributions, whose metadata a process reads once.

pytest reads those of all distributions as it starts, which is a fifth of most runs that tests
start.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from importlib.metadata import Distribution
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest


@functools.lru_cache(maxsize=8)
def _list_distributions(_path: tuple[str, ...]) -> list[Distribution]:
    return [*importlib.metadata.Distribution.discover()]


def _distributions(**options: Any) -> Iterable[Distribution]:
    if options:
        return Distribution.discover(**options)
    return iter(_list_distributions(tuple(sys.path)))


def keep_distributions(patch: pytest.MonkeyPatch) -> None:
    """Have all runs of this process use the metadata that the first one has read."""
    patch.setattr(importlib.metadata, "distributions", _distributions)
    for name in ("entry_points", "files", "metadata"):
        kept: Any = functools.cached_property(vars(Distribution)[name].fget)
        kept.__set_name__(Distribution, name)
        patch.setattr(Distribution, name, kept)

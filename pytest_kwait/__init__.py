"""Kubernetes end-to-end waits for pytest: each wait is a function, a fixture and a marker.

Its names, those of `public_names`, are imported when they are first used: `import pytest_kwait`
costs next to nothing. For building on it: the packages `wait`, `cache` and `clusters`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kwait.public_names import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Import a public name or module on its first use (PEP 562)."""
    names = import_module(f"{__name__}.public_names")
    value = names.__all__ if name == "__all__" else names.__getattr__(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    names = import_module(f"{__name__}.public_names")
    return sorted({*globals(), *names.__all__, *names.MODULES})

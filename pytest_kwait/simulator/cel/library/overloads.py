"""Overloads: how a library declares and implements a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Overload = tuple[str, tuple[str, ...], str]
"""Name (with a leading dot for a member function), argument types, and result type."""

Overloads = dict[Overload, "Callable[..., Any]"]

"""The CEL function `jsonpatch.escapeKey`.

Source: k8s.io/apiserver pkg/cel/library/jsonpatch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ESCAPE_KEY", "FUNCTIONS"]

ESCAPE_KEY = "jsonpatch_escapeKey"
"""The declared name of `jsonpatch.escapeKey`; with a dot, CEL would look up a member function."""


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    (ESCAPE_KEY, ("string",), "string"): _escape_key,
}
"""The implementations by name, argument types and result type."""

"""Label and field selectors as users write them, and as the API takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pytest_kwait.errors import InvalidArgument

__all__ = ["Selector", "selector_text"]

Selector: TypeAlias = str | Mapping[str, str | None]
"""The API's own text (`app=web,tier in (a,b)`), or a mapping of which every pair must hold."""


def selector_text(selector: Selector | None, *, what: str = "selector") -> str | None:
    """Return the text of a selector; None for one that selects everything.

    A pair of a mapping means equality, a label that only has to exist has the value None.

    Args:
        selector: text, mapping or None.
        what: the name of the argument, for the error.

    Raises:
        InvalidArgument: neither text nor a mapping of texts.
    """
    if selector is None or isinstance(selector, str):
        return selector or None
    # From a marker or a manifest anything may come, whatever the types say.
    given: object = selector
    if not isinstance(given, Mapping):
        raise InvalidArgument(what, given, "a text like 'app=web' or a mapping of texts")
    terms = []
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str | None):
            raise InvalidArgument(what, dict(given), "a mapping of texts to texts or None")
        terms.append(key if value is None else f"{key}={value}")
    return ",".join(terms) or None

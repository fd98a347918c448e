"""What users name objects by: `kind/name`."""

from __future__ import annotations

from typing import NamedTuple

from pytest_kwait.errors import InvalidArgument

__all__ = ["Target", "parse_target"]


class Target(NamedTuple):
    """A kind, and one object of it.

    Args:
        kind: a kind, plural, singular or short name, perhaps with its group.
        name: the object's name; empty for the kind as a whole.
    """

    kind: str
    name: str


def parse_target(what: str, value: object) -> Target:
    """Return the kind and the name that a text like `deployment/web` or `pods` means.

    Raises:
        InvalidArgument: it is no such text.
    """
    if isinstance(value, str):
        kind, slash, name = value.partition("/")
        if kind and bool(slash) == bool(name) and "/" not in name and not set(value) & set(" %"):
            return Target(kind, name)
    raise InvalidArgument(what, value, "use 'kind/name' or 'kind', for example 'deployment/web'")

"""Users, as authentication finds them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["User"]


@dataclass(frozen=True, slots=True)
class User:
    """A user and the groups that they are in."""

    name: str
    groups: tuple[str, ...] = ()

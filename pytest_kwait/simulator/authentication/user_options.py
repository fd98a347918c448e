"""Users that are named by option, and get a client certificate: `NAME` or `NAME=GROUP,...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.users import User

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["parse_users"]

_RESERVED_NAMES = ("kwait", "kwait-admin", "kwait-powerless")
_MAX_NAME_LENGTH = 64
"""Characters of a name in a certificate, by RFC 5280."""


def parse_users(options: Sequence[str]) -> list[User]:
    """The users.

    Raises:
        ValueError: an option names nobody, somebody twice, or a name that is the cluster's own.
    """
    users: dict[str, User] = {}
    for option in options:
        name, equals, listed = option.partition("=")
        groups = tuple(listed.split(",")) if equals else ()
        if not name or "" in groups:
            raise ValueError(f"{option!r} is neither NAME nor NAME=GROUP,...")
        for part in (name, *groups):
            if len(part) > _MAX_NAME_LENGTH:
                raise ValueError(f"{part!r} has more than {_MAX_NAME_LENGTH} characters")
        if name in _RESERVED_NAMES:
            raise ValueError(f"{name!r} is a name of the cluster's own")
        if name in users:
            raise ValueError(f"{name!r} is given twice")
        users[name] = User(name, groups)
    return list(users.values())

"""Several named objects of one kind, each known by its own UID."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.options import check_name
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kwait.client.resource import Resource

__all__ = ["NamedObjectStore", "parse_named_uids"]


class NamedObjectStore:
    """The book of a source of named objects; others of the same source are passed over.

    Args:
        resource: their kind.
        uids: their UIDs by name; an empty one to take the first one seen for the one that is meant.
    """

    def __init__(self, resource: Resource, uids: Mapping[str, str]) -> None:
        self._named = {name: SingleObject(resource, name, uid) for name, uid in uids.items()}
        self._there: dict[str, SingleObject] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Note what one of them looks like."""
        sighting = self._named.get(obj["metadata"]["name"])
        if sighting is not None:
            sighting.put(obj, raw, now)
            self._there[obj["metadata"].get("uid") or obj["metadata"]["name"]] = sighting

    def drop(self, uid: str) -> None:
        """Note that one of them is gone."""
        sighting = self._there.pop(uid, None)
        if sighting is not None:
            sighting.drop(uid)

    def uids(self) -> Collection[str]:
        """Return the UIDs of those that are there."""
        return self._there.keys()

    @property
    def sightings(self) -> Collection[SingleObject]:
        """All of them, in the order in which they were named."""
        return self._named.values()


def parse_named_uids(what: str, given: object) -> dict[str, str]:
    """Return the UIDs of objects by their names; empty where only the name is given.

    Args:
        what: the argument that they were given for.
        given: a list, at least one long, of objects as the API has them, or of their names.

    Raises:
        InvalidArgument: anything else.
    """
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise InvalidArgument(what, given, "use a list of objects or names, at least one")
    named: dict[str, str] = {}
    for each in given:
        metadata = each.get("metadata") if isinstance(each, Mapping) else {"name": each}
        if not isinstance(metadata, Mapping):
            raise InvalidArgument(what, each, "use objects as the API has them, or their names")
        named[check_name(what, metadata.get("name"))] = str(metadata.get("uid") or "")
    return named

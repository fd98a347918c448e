"""One named object over time: not created yet, present, deleted, or re-created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.engine.condition import ObjectReference
from pytest_kwait.engine.object_counter import decode_whole
from pytest_kwait.engine.verdicts import Failed, Patience, Pending

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kwait.client.resource import Resource

__all__ = ["SingleObject"]


class SingleObject:
    """The sink of a source of one object.

    The object's identity is the first UID seen; an object with the same name and another UID is a
    different object.

    Args:
        resource: its kind.
        uid: its UID, if known in advance.
    """

    def __init__(self, resource: Resource, name: str, uid: str = "") -> None:
        self.resource = resource
        self.name = name
        self.uid = uid
        self.current: dict[str, Any] | None = None
        self.deleted = False
        self.changes = 0
        """The number of changes seen; derived values are valid until the next."""
        self._raw = b""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Set the object."""
        self.current = obj
        self.changes += 1
        self._raw = raw
        self.uid = self.uid or obj["metadata"].get("uid") or ""

    def drop(self, uid: str) -> None:
        """Remove the object, if it has this UID."""
        if uid in self.uids():
            self.current = None
            self.changes += 1
            self.deleted = True

    def uids(self) -> Collection[str]:
        """Return its UID while it is present."""
        return () if self.current is None else (self.current["metadata"].get("uid") or "",)

    @property
    def noun(self) -> str:
        """The kind as a noun in a sentence."""
        return self.resource.singular or self.resource.kind.lower()

    def missing_verdict(self) -> Pending | Failed | None:
        """Return the verdict on a missing or re-created object; None if it is present.

        Pending for an object not seen yet; failed at once for a deleted or re-created one.
        """
        if self.current is None:
            if self.deleted:
                return Failed(f"the {self.noun} was deleted")
            return Pending("not found yet", absent=True)
        if self.uids() != (self.uid,):
            return Failed(f"the {self.noun} was deleted and created anew under another UID")
        return None

    def ending(self) -> Failed | None:
        """Return the failure of an object that is being deleted; None otherwise."""
        if self.current is not None and self.current["metadata"].get("deletionTimestamp"):
            return Failed(f"the {self.noun} is being deleted", Patience.SHORT)
        return None

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec; empty without one."""
        return (self.current or {}).get("spec") or {}

    @property
    def status(self) -> dict[str, Any]:
        """Its status; empty without one."""
        return (self.current or {}).get("status") or {}

    def condition(self, kind: str) -> dict[str, Any] | None:
        """Return the first status condition of a type; None without one."""
        return get_condition(self.current or {}, kind)

    def holds(self, kind: str) -> dict[str, Any] | None:
        """Return the status condition of a type if its status is True; None otherwise."""
        condition = self.condition(kind)
        return condition if condition is not None and condition.get("status") == "True" else None

    def object(self) -> dict[str, Any]:
        """Return the whole object as last received."""
        return decode_whole(self.resource, self._raw)

    def reference(self) -> ObjectReference:
        """Return its name for evidence and hints."""
        return ObjectReference(
            self.resource.kind,
            self.name,
            self.uid,
            self.resource.qualified,
            exists=self.current is not None,
        )

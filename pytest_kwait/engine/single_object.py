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
    """The book of a source of one object.

    The UID of the first one seen is its identity: an object of the same name with another UID is
    not the one that was awaited.

    Args:
        resource: its kind.
        name: its name.
        uid: its UID, where that is known before it is seen.
    """

    def __init__(self, resource: Resource, name: str, uid: str = "") -> None:
        self.resource = resource
        self.name = name
        self.uid = uid
        self.current: dict[str, Any] | None = None
        self.deleted = False
        self.changes = 0
        """How many times it was seen to change: what was worked out of it holds until the next."""
        self._raw = b""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Note what the object looks like."""
        self.current = obj
        self.changes += 1
        self._raw = raw
        self.uid = self.uid or obj["metadata"].get("uid") or ""

    def drop(self, uid: str) -> None:
        """Note that the object is gone."""
        if uid in self.uids():
            self.current = None
            self.changes += 1
            self.deleted = True

    def uids(self) -> Collection[str]:
        """Return its UID while it is there."""
        return () if self.current is None else (self.current["metadata"].get("uid") or "",)

    @property
    def noun(self) -> str:
        """The kind as it stands in a sentence."""
        return self.resource.singular or self.resource.kind.lower()

    def missing_verdict(self) -> Pending | Failed | None:
        """Return the verdict where the object is not there, or not the one it was; else None.

        Not there yet is pending, since it may still be created; gone after it was seen is final,
        and so is another object of the same name.
        """
        if self.current is None:
            if self.deleted:
                return Failed(f"the {self.noun} was deleted")
            return Pending("not found yet", absent=True)
        if self.uids() != (self.uid,):
            return Failed(f"the {self.noun} was deleted and created anew under another UID")
        return None

    def ending(self) -> Failed | None:
        """Return the verdict where the object is being deleted; else None."""
        if self.current is not None and self.current["metadata"].get("deletionTimestamp"):
            return Failed(f"the {self.noun} is being deleted", Patience.SHORT)
        return None

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec; empty where there is none."""
        return (self.current or {}).get("spec") or {}

    @property
    def status(self) -> dict[str, Any]:
        """Its status; empty where there is none."""
        return (self.current or {}).get("status") or {}

    def condition(self, kind: str) -> dict[str, Any] | None:
        """Return the first status condition of that type; None where there is none."""
        return get_condition(self.current or {}, kind)

    def holds(self, kind: str) -> dict[str, Any] | None:
        """Return the status condition of that type if its status is True; else None."""
        condition = self.condition(kind)
        return condition if condition is not None and condition.get("status") == "True" else None

    def object(self) -> dict[str, Any]:
        """Return the object as it came last."""
        return decode_whole(self.resource, self._raw)

    def reference(self) -> ObjectReference:
        """Return how evidence and hints name it."""
        return ObjectReference(
            self.resource.kind,
            self.name,
            self.uid,
            self.resource.qualified,
            exists=self.current is not None,
        )

"""What there is of a kind, where the one that was awaited by its name is not among it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from pytest_kwait.client.responses import ObjectMeta

if TYPE_CHECKING:
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Source

__all__ = ["ExistingObjects", "list_existing"]

NAMES = 10
_SIMILAR = 3


class _Named(TypedDict):
    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class ExistingObjects:
    """The objects of a kind.

    Args:
        resource: the kind, as kubectl knows it.
        namespace: where; None for a cluster-scoped kind.
        missing: the name that is not among them.
        names: the names that are most like it, then the first of the others, ten in all.
        count: how many objects there are.
    """

    resource: str
    namespace: str | None
    missing: str
    names: tuple[str, ...]
    count: int


def list_existing(session: Session, source: Source, deadline: Deadline) -> ExistingObjects | None:
    """Return what there is instead of a named object; None where it is there after all.

    Raises:
        ApiError: the server refuses, or cannot be asked.
        DeadlineExceeded: the answer was not there in time.
    """
    missing = source.name or ""
    listed = session.list(source.resource, source.namespace, deadline=deadline, type=_Named)
    names = sorted(item.object["metadata"]["name"] for item in listed.items)
    if missing in names:
        return None
    near = difflib.get_close_matches(missing, names, n=_SIMILAR)
    shown = [*near, *(name for name in names if name not in near)][:NAMES]
    return ExistingObjects(
        source.resource.qualified, source.namespace, missing, tuple(shown), len(names)
    )

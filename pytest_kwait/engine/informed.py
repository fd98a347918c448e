"""Watches that waits need not open: an informer of this process has one that brings the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.cache.selection import ResourceCollection
from pytest_kwait.cache.shared_watch import SHARED_WATCHES

if TYPE_CHECKING:
    from pytest_kwait.cache.shared_watch import SharedWatchFollower
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Source

__all__ = ["follow_informer"]


def follow_informer(
    session: Session, source: Source, version: str, deadline: Deadline
) -> SharedWatchFollower | None:
    """Return what an informer's watch brings of a source after a version; None if nobody watches.

    The informer may watch more: all namespaces, or all objects where the source is one of them or
    those with certain labels. What a wait is told is the same as by a watch of its own, since it
    lists for itself before it follows. It ends where the informer stops or has trouble, and the
    wait goes on by a watch of its own.

    Args:
        session: who asks the server: the same one as the informer's.
        source: what the wait looks at.
        version: the version of the wait's list.
        deadline: when the watch is over.
    """
    collection = ResourceCollection.of(
        source.resource, source.namespace, source.selector, source.field_selector
    )
    return SHARED_WATCHES.follow(
        session, collection, version, deadline=deadline, shape=source.fields, by_labels=True
    )

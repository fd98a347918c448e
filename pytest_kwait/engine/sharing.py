"""One stream per collection and fields, however many waits of this process look at it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.engine.shared_stream import SharedStream

if TYPE_CHECKING:
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Source
    from pytest_kwait.engine.shared_stream import Subscriber, Subscription

__all__ = ["subscribe"]

_Key: TypeAlias = tuple[int, str, str | None, str | None, Any]


class _Streams:
    """The streams that can be joined."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[_Key, SharedStream] = {}

    def reset_after_fork(self) -> None:
        """Forget them: a forked child has none of its parent's threads."""
        self.__init__()  # type: ignore[misc]  # a lock that was held while forking stays held


_streams = _Streams()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_streams.reset_after_fork)


def subscribe(
    session: Session, source: Source, audience: Subscriber, deadline: Deadline
) -> Subscription:
    """Return a share in the stream of a source, which is opened where there is none.

    Waits share a stream when they ask over the same client for the same kind, namespace,
    selectors and fields. Each has its own deadline, its own verdict and its own errors.

    Args:
        session: who asks the server.
        source: what to look at.
        audience: who is told.
        deadline: when the wait ends.
    """
    # The session lives at least as long as a stream that can be found.
    path = source.resource.path(source.namespace)
    key = (id(session), path, source.field_selector, source.selector, source.fields)
    with _streams.lock:
        stream = _streams.open.get(key)
        share = stream.join(source, audience, deadline) if stream is not None else None
        while share is None:
            stream = _streams.open[key] = SharedStream(
                session, source, lambda ended: _remove_stream(key, ended)
            )
            share = stream.join(source, audience, deadline)
    return share


def _remove_stream(key: _Key, stream: SharedStream) -> None:
    with _streams.lock:
        if _streams.open.get(key) is stream:
            del _streams.open[key]

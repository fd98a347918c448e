"""Explored watches: late events, bookmarks, and early ends.

The order of the events of one watch never changes: an event behind a late one waits, too. An event
that is not sent ends the watch, so the client never misses one between two that it got.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.api_errors import expired
from pytest_kwait.simulator.exploration.exploration import LateCalls, make_stable_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.api_errors import StatusError
    from pytest_kwait.simulator.exploration.exploration import Exploration


class WatchActions(NamedTuple):
    """What a watch offers to an exploration.

    Args:
        send: sends a chunk.
        bookmark: returns the chunk of a bookmark at a revision; None if the client wants none.
        end: ends the watch cleanly.
        cut: breaks its connection.
    """

    send: Callable[[bytes], object]
    bookmark: Callable[[int], bytes] | None
    end: Callable[[], object]
    cut: Callable[[], object]


class ExploredWatch:
    """The events of one watch under an exploration.

    Args:
        resource: the plural name of the resource.
        namespace: the namespace; empty for all.
        actions: what the watch offers.
        client: the client that watches.
    """

    def __init__(
        self,
        exploration: Exploration,
        resource: str,
        namespace: str,
        actions: WatchActions,
        client: str = "",
    ) -> None:
        self.exploration = exploration
        self._subject = f"watch {namespace}/{resource} {client}"
        self._text = exploration.add_client(f"watch {resource}", client)
        self._label, self._start = exploration.start_watch(self._text, namespace)
        self._namespace = namespace
        self._actions = actions
        self._late = LateCalls(exploration)
        self._has_ended = False
        self._has_sent = False
        self._held_initial = 0
        """Initial events that are held back."""

    @property
    def is_late(self) -> bool:
        """Return whether events are held back."""
        return len(self._late) > 0

    def find_expiry(self, revision: int, latest: int) -> StatusError | None:
        """Return the error of a watch that starts at an earlier revision, or None.

        Args:
            revision: the revision that the client has seen; 0 for any.
            latest: the latest revision of the cluster.
        """
        if not 0 < revision < latest:
            return None
        if not self.exploration.decide_refusal("watch-expired", self._start, self._subject):
            self.exploration.accept(self._subject)
            return None
        self.exploration.end_watch(self._text, self._label)
        return expired(f"too old resource version: {revision} ({latest})")

    def skips_bookmark(self) -> bool:
        """Return whether a bookmark that is due is left out."""
        event = self.exploration.event(f"{self._label} BOOKMARK", self._namespace)
        return self.exploration.decide("bookmark-skip", event) is not None

    def close(self) -> None:
        """Drop what is held back: the watch has ended."""
        self._has_ended = True
        self._late.clear()

    def send(
        self, chunk: bytes, change: str, name: str, revision: int, namespace: str = ""
    ) -> None:
        """Send an event now or later, or end the watch in front of it.

        Args:
            chunk: the event.
            change: its type.
            name: the name of its object.
            namespace: the namespace of its object; empty for none.
        """
        if self._has_ended:
            return
        decide = self.exploration.decide
        text = f"{self._label} {change} {make_stable_name(name)}"
        event = self.exploration.event(text, name, namespace)
        stop = None
        if not self._held_initial:
            if decide("watch-cut", event) is not None:
                stop = self._actions.cut
            # No server ends a watch before its first event, which clients take for a failure.
            elif self._has_sent and decide("watch-end", event) is not None:
                stop = self._actions.end
        if stop is not None:
            self.close()
            self.exploration.end_watch(self._text, self._label)
            stop()
            return
        self._enqueue(chunk, decide("watch-delay", event) or 0.0)
        bookmark = self._actions.bookmark
        if bookmark is not None and decide("bookmark-extra", event) is not None:
            self._enqueue(bookmark(revision), 0.0)

    def send_initial(self, chunk: bytes, name: str, namespace: str = "") -> None:
        """Send an event of the initial state, now or later.

        No watch ends before all of them are sent: their revisions are in no order, so a client that
        went on from the last one would miss objects.

        Args:
            chunk: the event.
            name: the name of its object; empty for the bookmark at the end.
            namespace: the namespace of its object; empty for none.
        """
        late = 0.0
        if name:
            text = f"{self._label} ADDED {make_stable_name(name)}"
            event = self.exploration.event(text, name, namespace)
            late = self.exploration.decide("watch-delay", event) or 0.0
        self._enqueue(chunk, late, is_initial=True)

    def _enqueue(self, chunk: bytes, seconds: float, *, is_initial: bool = False) -> None:
        self._held_initial += is_initial

        def send() -> None:
            self._held_initial -= is_initial
            self._has_sent = True
            self._actions.send(chunk)

        self._late.add(seconds, send)

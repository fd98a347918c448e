"""Explored watches: late events, bookmarks, and early ends.

The order of the events of one watch never changes: an event behind a late one waits, too. An event
that is not sent ends the watch, so the client never misses one between two that it got.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import expired
from pytest_kwait.simulator.exploration.exploration import LateCalls, make_stable_name
from pytest_kwait.simulator.no_exploration import UnexploredWatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.api_errors import StatusError
    from pytest_kwait.simulator.exploration.exploration import Exploration
    from pytest_kwait.simulator.no_exploration import ExplorableWatch
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.store import Change


class ExploredWatch(UnexploredWatch):
    """The events of one watch under an exploration.

    Args:
        client: the client that watches.
    """

    def __init__(self, exploration: Exploration, watch: ExplorableWatch, client: str = "") -> None:
        super().__init__(watch)
        namespace, _, resource = watch.place
        self._exploration = exploration
        self._subject = f"watch {namespace}/{resource} {client}"
        self._text = exploration.add_client(f"watch {resource}", client)
        self._label, self._start = exploration.start_watch(self._text, namespace)
        self._namespace = namespace
        self._late = LateCalls(exploration)
        self._has_ended = False
        self._has_sent = False
        self._held_initial = 0
        """Initial events that are held back."""

    @property
    def is_late(self) -> bool:
        """Return whether events are held back."""
        return len(self._late) > 0

    def is_of(self, exploration: object) -> bool:
        """Return whether an exploration holds them back."""
        return exploration is self._exploration

    def find_expiry(self, revision: int, latest: int) -> StatusError | None:
        """Return the error of a watch that starts at an earlier revision, or None.

        Args:
            revision: the revision that the client has seen; 0 for any.
            latest: the latest revision of the cluster.
        """
        if not 0 < revision < latest:
            return None
        if not self._exploration.decide_refusal("watch-expired", self._start, self._subject):
            self._exploration.accept(self._subject)
            return None
        self._exploration.end_watch(self._text, self._label)
        return expired(f"too old resource version: {revision} ({latest})")

    def skips_bookmark(self) -> bool:
        """Return whether a bookmark that is due is left out."""
        event = self._exploration.event(f"{self._label} BOOKMARK", self._namespace)
        return self._exploration.decide("bookmark-skip", event) is not None

    def close(self) -> None:
        """Drop what is held back: the watch has ended."""
        self._has_ended = True
        self._late.clear()

    def send_change(self, chunk: bytes, change: Change) -> None:
        """Send the event of a change, now or later."""
        if self._exploration.has_ended and not self.is_late:
            super().send_change(chunk, change)
            return
        metadata = change.new.obj["metadata"]
        namespace = metadata.get("namespace", "")
        self.send(chunk, change.type, metadata["name"], change.revision, namespace)

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
        decide = self._exploration.decide
        text = f"{self._label} {change} {make_stable_name(name)}"
        event = self._exploration.event(text, name, namespace)
        stop = None
        if not self._held_initial:
            if decide("watch-cut", event) is not None:
                stop = self._watch.cut
            # No server ends a watch before its first event, which clients take for a failure.
            elif self._has_sent and decide("watch-end", event) is not None:
                stop = self._watch.end
        if stop is not None:
            self.close()
            self._exploration.end_watch(self._text, self._label)
            stop()
            return
        self._enqueue(chunk, decide("watch-delay", event) or 0.0)
        if self._watch.wants_bookmarks and decide("bookmark-extra", event) is not None:
            self._enqueue(self._watch.make_bookmark(revision), 0.0)

    def send_initial(self, chunks: Iterator[tuple[bytes, Obj]]) -> None:
        """Send the initial state, each event now or later.

        No watch ends before all of them are sent: their revisions are in no order, so a client that
        went on from the last one would miss objects.
        """
        for chunk, metadata in chunks:
            self._send_initial(chunk, metadata.get("name", ""), metadata.get("namespace", ""))

    def _send_initial(self, chunk: bytes, name: str, namespace: str) -> None:
        """Send an event of the initial state; without a name the bookmark at its end."""
        late = 0.0
        if name:
            text = f"{self._label} ADDED {make_stable_name(name)}"
            event = self._exploration.event(text, name, namespace)
            late = self._exploration.decide("watch-delay", event) or 0.0
        self._enqueue(chunk, late, is_initial=True)

    def _enqueue(self, chunk: bytes, seconds: float, *, is_initial: bool = False) -> None:
        self._held_initial += is_initial

        def send() -> None:
            self._held_initial -= is_initial
            self._has_sent = True
            self._watch.buffer.send(chunk)

        self._late.add(seconds, send)

"""One source kept up to date by a thread of its own: list, then watch from there, for ever.

The list and the watch are the two requests that a quiet wait costs. The watch goes on where it was
after an ordinary end; it is listed anew after 410, after a watch that ended at once without an
event (a server that has nothing to say about our version says so this way), and every few minutes
in case an event was lost on the way.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.engine.error_policy import Decision, Troubles, ask, retry_pauses
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import Context, background, with_deadline
from pytest_kwait.wait.interruption import Canceled, DeadlineExceeded

if TYPE_CHECKING:
    from pytest_kwait.api.session import Session
    from pytest_kwait.api.watch import Watch
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Source

__all__ = ["Audience", "Stream", "enter_list"]

RELIST = 300.0
"""Seconds after which a source is listed anew even if nothing seems wrong."""

INACTIVITY = 90.0
"""Seconds of silence after which a watch counts as dead: bookmarks come about every minute."""

INSTANT = 1.0
"""A watch that ends within so many seconds and without an event cannot be trusted."""

_RESET = 120.0
_random = random.Random()  # noqa: S311 - spreads relists, keeps no secret


class Audience(Protocol):
    """Who is told what a stream has seen; called in the stream's thread."""

    def listed(self, source: Source, items: list[tuple[dict[str, Any], bytes]]) -> None:
        """Take over all objects that there are."""
        ...

    def changed(self, source: Source, kind: str, obj: dict[str, Any], raw: bytes) -> None:
        """Take over one change: `ADDED`, `MODIFIED` or `DELETED`."""
        ...

    def troubled(self, source: Source, error: ApiError) -> None:
        """Hear of an error that is retried."""
        ...

    def broken(self, source: Source, error: BaseException) -> None:
        """Hear of what ends the stream: a final error, or one of the code that was called."""
        ...


class Stream:
    """Keeps one source up to date until it is closed.

    Args:
        session: who asks the server.
        source: what to look at.
        audience: who is told.
        deadline: when it ends by itself.
    """

    def __init__(
        self, session: Session, source: Source, audience: Audience, deadline: Deadline
    ) -> None:
        self._session = session
        self._source = source
        self._audience = audience
        self._ctx, self._cancel = with_deadline(background(deadline.clock), deadline)
        self._deadline = deadline
        self._troubles = Troubles(session.clock)
        self._version = ""
        self._outdated = threading.Event()
        self._outdated.set()
        self._relist_at = 0.0
        self._watch: Watch | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._run, name=f"kwait-watch-{source.resource.plural}", daemon=True
        )

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def refresh(self) -> None:
        """List anew, at once: what a watch has not told of late may be its silence."""
        with self._lock:
            self._outdated.set()
            watch = self._watch
        if watch is not None:
            watch.close()

    def close(self) -> None:
        """End at once; nothing is told afterwards but what is being told already."""
        with self._lock:
            self._cancel()
            watch = self._watch
        if watch is not None:
            watch.close()

    def _run(self) -> None:
        pauses = retry_pauses().delay_with_reset(self._session.clock, _RESET)
        try:
            pauses.until(self._ctx, True, True, self._follow)
        except (Canceled, DeadlineExceeded):
            return
        except BaseException as error:  # the waiting thread raises it
            self._audience.broken(self._source, error)

    def _follow(self, ctx: Context) -> bool:
        """List where needed, then watch until the watch ends; never done."""
        try:
            while ctx.err() is None and self._watch_once():
                self._troubles.over()
        except ApiError as error:
            decision = self._troubles.meet(error)
            if ctx.err() is not None:
                return False
            if decision is Decision.STOP:
                raise
            if decision is Decision.RELIST:
                self._outdated.set()
            self._audience.troubled(self._source, error)
            if error.retry_after:
                ctx.wait(error.retry_after)
        return False

    def _list(self) -> None:
        source = self._source
        self._outdated.clear()
        try:
            answer = ask(
                lambda deadline: self._session.list(
                    source.resource,
                    source.namespace,
                    label_selector=source.selector,
                    field_selector=source.field_selector,
                    deadline=deadline,
                    type=source.fields,
                ),
                self._deadline,
            )
        except (ApiError, DeadlineExceeded):
            self._outdated.set()
            raise
        self._version = answer.resource_version
        if self._ctx.err() is None:
            self._audience.listed(source, [(item.object, item.raw) for item in answer.items])

    def _watch_once(self) -> bool:
        """List if needed, watch until the watch ends; return whether to go on without a pause."""
        clock = self._session.clock
        source = self._source
        if self._outdated.is_set() or clock.monotonic() >= self._relist_at:
            self._relist_at = clock.monotonic() + RELIST * (1 + _random.random() / 5)
            self._list()
        left = self._relist_at - clock.monotonic()
        begun = clock.monotonic()
        events = 0
        # The client's own limit is for servers that do not keep the one they are asked for.
        limit = self._deadline.at_most(left + 5)
        watch = self._session.watch(
            source.resource,
            source.namespace,
            label_selector=source.selector,
            field_selector=source.field_selector,
            resource_version=self._version,
            inactivity=INACTIVITY,
            timeout_seconds=max(1, round(left)),
            deadline=limit,
            type=source.fields,
        )
        with self._lock:
            if self._ctx.err() is not None:
                return False
            if self._outdated.is_set():
                return True
            self._watch = watch
        try:
            with watch:
                for event in watch:
                    events += 1
                    self._version = event.resource_version or self._version
                    if event.type != "BOOKMARK":
                        if self._ctx.done.is_set():
                            return False
                        self._audience.changed(source, event.type, event.object, event.raw)
        except DeadlineExceeded:
            if self._deadline.expired:
                raise
        finally:
            self._watch = None
        if self._outdated.is_set() or clock.monotonic() - begun >= INSTANT:
            return True
        if events == 0:
            self._outdated.set()
        return False


def enter_list(source: Source, items: list[tuple[dict[str, Any], bytes]], now: float) -> None:
    """Make a source's book say what a list says: what is not in it is gone."""
    present = {obj["metadata"].get("uid") or obj["metadata"]["name"] for obj, _ in items}
    for uid in [uid for uid in source.book.uids() if uid not in present]:
        source.book.drop(uid)
    for obj, raw in items:
        source.book.put(obj, raw, now)

"""Keeps one process' part in the lock of a cluster while its tests run: renewals, and one watch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pytest_kwait.cache.listwatch import ListWatch
from pytest_kwait.cache.shared_informer import SharedInformer
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.lock.leases import QUEUE_SELECTOR, read_queue
from pytest_kwait.suite.lock.lock import ClusterLock
from pytest_kwait.suite.lock.lock_ledger import LockLeases
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubernetes.client import ApiClient

__all__ = ["LockRenewer"]

_LEAVE_TIMEOUT = 5.0
"""Seconds that the end may take."""


class LockRenewer:
    """The lock of a process, with the threads that renew it and watch its queue.

    Args:
        client: the client; for this object alone.
        namespace: where the Leases are.
        who: whom people know this process by.
        duration: seconds after which this process has vanished if it does not renew its Lease.
        owner: name and UID of the Lease of the run; None for none.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        who: str,
        duration: float,
        owner: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        session = Session.of(client)
        self._clock = session.clock
        self.lock = ClusterLock(LockLeases(session, namespace, who, duration, owner))
        self._wake = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="kwait lock", daemon=True)
        self._informer = SharedInformer(
            ListWatch(session, LEASES, namespace, label_selector=QUEUE_SELECTOR),
            # What goes wrong with the watch delays others, and ends no test.
            on_error=lambda error: None,
            name="the queue of serial tests",
        )
        self._informer.add_event_handler(
            add=self._heard,
            update=lambda old, new: self._heard(new),
            delete=lambda obj: self._heard(None),
        )

    def start(self) -> None:
        """Begin to watch and to renew."""
        self._informer.start()
        self._thread.start()

    def end(self) -> str | None:
        """Take part no more; return what went wrong, None for nothing."""
        self._ended = True
        self._wake.set()
        self._informer.stop()
        self._thread.join(_LEAVE_TIMEOUT)
        problem = None
        try:
            self.lock.leave(Deadline.after(_LEAVE_TIMEOUT, self._clock))
        except (ApiError, DeadlineExceeded) as error:
            problem = (
                f"a Lease of the lock {self.lock.place} stays, and holds serial tests up for "
                f"{self.lock.duration}s: {error}"
            )
        self._client.close()  # type: ignore[no-untyped-call] # the official client has no types here
        return problem

    def _heard(self, lock: Mapping[str, Any] | None) -> None:
        if self.lock.on_queue_change(read_queue(lock)):
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._clock.wait(self._wake, self.lock.pace)
            self._wake.clear()
            if self._ended:
                return
            # Who may not watch looks from time to time.
            self.lock.maintain(look=self._informer.permanent_error is not None)

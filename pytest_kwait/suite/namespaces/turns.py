"""How many namespaces a run has at a time, and how quickly it makes them: no more than agreed.

Those that are being deleted count, since they still cost the cluster what is in them; those that
were kept do not, since nobody would ever come after them. What is there is counted by the server,
and only once as many have been made as there may be.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.client.responses import decode_object
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.owned_objects import ANNOTATION_PREFIX, LABEL_RUN, run_label_value
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from pytest_kwait.client.session import Session

__all__ = ["NamespaceQuota"]

_QUOTA_POLL_INTERVAL = 0.5
_UNLISTED_SECONDS = 5.0
"""Seconds after which a namespace that was never seen is taken for one that is gone again.

Less than a real one takes to go; that of a request that was tried again for longer is counted when
it is seen.
"""


class NamespaceQuota:
    """Lets namespaces of one run be made, one after the other.

    Args:
        session: the requests; for this object alone.
        run: the id of the run.
        limit: how many there may be at a time.
        rate: how many may be made in a second; as many at once after a pause.
        sources: where limit and rate were given.
    """

    def __init__(
        self, session: Session, run: str, *, limit: int, rate: float, sources: tuple[str, str]
    ) -> None:
        self._session = session
        self._clock = session.clock
        self._selector = f"{LABEL_RUN}={run_label_value(run)}"
        self._limit = limit
        self._rate = rate
        self._sources = sources
        self._lock = threading.Lock()
        self._taken: dict[str, float] = {}
        self._seen: set[str] = set()
        self._going = 0
        self._burst = max(1.0, rate)
        self._credit = self._burst
        self._credited = self._clock.monotonic()
        self.problem: str | None = None
        """Why there is no bound on the number, in one line; None where there is one."""

    def take(self, name: str, seconds: float) -> str:
        """Return once a namespace may be made, or why it may not; empty if it may.

        Args:
            name: its name.
            seconds: how long that may last; 0 asks nobody, and tells how things are.
        """
        deadline = Deadline.after(seconds, self._clock)
        # Whoever holds the lock is next; it gives up in time.
        if not self._lock.acquire(timeout=deadline.remaining):
            return self._reason()
        try:
            while len(self._taken) >= self._limit and self.problem is None:
                self._count(deadline)
                if len(self._taken) < self._limit or self.problem is not None:
                    break
                if deadline.remaining <= _QUOTA_POLL_INTERVAL:
                    return self._reason()
                self._clock.sleep(_QUOTA_POLL_INTERVAL)
            if not self._paced(deadline):
                return self._reason()
            if self.problem is None:
                self._taken[name] = self._clock.monotonic()
            return ""
        finally:
            self._lock.release()

    def _count(self, deadline: Deadline) -> None:
        """Forget those that are gone, and those that are kept."""
        if deadline.expired:
            return
        asked = self._clock.monotonic()
        try:
            answer = request_with_retry(
                lambda deadline: self._session.request(
                    "GET",
                    NAMESPACES.path(None),
                    query={"labelSelector": self._selector},
                    deadline=deadline,
                ),
                deadline,
            )
        except (ApiError, DeadlineExceeded) as error:
            if not (isinstance(error, ApiError) and error.status == 403):
                # The server may answer next time.
                return
            self.problem = (
                f"nothing bounds how many namespaces there are at a time, as they cannot be "
                f"listed: {error}"
            )
            return
        listed = {
            each["metadata"]["name"]: each["metadata"]
            for each in decode_object(answer.data).get("items") or []
        }
        self._seen |= listed.keys() & self._taken.keys()
        there = {
            name: metadata
            for name, metadata in listed.items()
            if (metadata.get("annotations") or {}).get(ANNOTATION_PREFIX + "kept") != "true"
        }
        self._taken = {
            name: taken
            for name, taken in self._taken.items()
            if name in there or (name not in self._seen and asked - taken < _UNLISTED_SECONDS)
        }
        self._seen &= self._taken.keys()
        self._going = sum(bool(there[name].get("deletionTimestamp")) for name in self._seen)

    def _paced(self, deadline: Deadline) -> bool:
        """Return True once one more may be made in this second, False if that is too late."""
        now = self._clock.monotonic()
        self._credit = min(self._burst, self._credit + (now - self._credited) * self._rate)
        self._credited = now
        pause = (1.0 - self._credit) / self._rate
        if pause > deadline.remaining:
            return False
        self._clock.sleep(pause)
        self._credit -= 1.0
        return True

    def _reason(self) -> str:
        limit, rate = self._sources
        return (
            f"the run has {len(self._taken)} namespaces, {self._going} of them being deleted, and "
            f"may have {self._limit} at a time (--kwait-namespace-limit from {limit}) and make "
            f"{self._rate:g} a second (--kwait-namespace-rate from {rate}); to see them: "
            f"kubectl get namespaces -l {self._selector}"
        )

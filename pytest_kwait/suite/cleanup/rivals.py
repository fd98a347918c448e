"""Two runs with one id: found by the Lease of the other, once that has shown that it lives.

Each makes its Lease before it looks for others, so that of two that begin together at least one
sees the other. A run that was killed and begins again under its old id finds a Lease of its own
past, which nobody renews: it is watched until that must have been done, and no longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.responses import decode_object
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.liveness import RunLease, read_run_lease
from pytest_kwait.suite.cleanup.owned_objects import (
    LABEL_RUN,
    LABEL_SHARD,
    run_label_value,
    shard_label_value,
)
from pytest_kwait.suite.cleanup.run_lease import RENEWALS_PER_DURATION, read_server_time
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline

__all__ = ["DuplicateRun", "find_duplicate_run"]

_LATE_FACTOR = 1.5
"""How many intervals after a renewal the next one must have come."""

_POLL_INTERVAL = 1.0


class DuplicateRun(NamedTuple):
    """Another run of the same id.

    Args:
        lease: its Lease.
        holder: who holds that: host and process.
        created: when it was made, as the server has it.
    """

    lease: RunLease
    holder: str
    created: str

    @property
    def overdue(self) -> float:
        """Seconds after a renewal by which the next one must have come if it lives."""
        return _LATE_FACTOR * self.lease.duration / RENEWALS_PER_DURATION

    def message(self, run: str, source: str) -> str:
        """Say what is wrong, and what to do.

        Args:
            run: the id.
            source: where this run has it from.
        """
        return (
            f"two runs go by the id {run!r} (from {source}): this one, and one that {self.holder} "
            f"began at {self.created} and that is still going on (Lease {self.lease.place}). Give "
            "each its own --kwait-run-id; parts of one run tell themselves apart by --kwait-shard"
        )


def find_duplicate_run(
    session: Session,
    run: str,
    shard: str,
    place: str,
    deadline: Deadline,
    tell: Callable[[str], object] = lambda line: None,
) -> DuplicateRun | None:
    """Return an earlier run of the same id and shard that goes on; None if there is none.

    Nobody is found where Leases may not be listed: but for their id, the two never meet.

    Args:
        session: the requests.
        run: the id.
        shard: our part of the suite; empty without shards. Other parts of a run share its id.
        place: namespace/name of our own Lease.
        deadline: when it must be over; whoever has not shown life by then counts as dead.
        tell: called with one line where somebody must be watched.
    """
    clock = deadline.clock
    try:
        rivals, now = _list_runs(session, run, shard, place, deadline)
        own = rivals.pop(place, None)
        # Those that came later see us, and give way.
        open_ones = {
            each: rival
            for each, rival in rivals.items()
            if not rival.lease.ended and (own is None or rival.created <= own.created)
        }
        started, told = clock.monotonic(), False
        while True:
            elapsed = clock.monotonic() - started
            for each, rival in list(open_ones.items()):
                age = max(now - rival.lease.renewed, 0.0) if now is not None else 0.0
                if age + elapsed > rival.overdue:
                    del open_ones[each]
            if not open_ones or deadline.remaining <= _POLL_INTERVAL:
                return None
            if not told:
                tell(f"a run {run} was here a moment ago: looking whether it lives")
                told = True
            clock.sleep(_POLL_INTERVAL)
            seen, _ = _list_runs(session, run, shard, place, deadline)
            for each, rival in list(open_ones.items()):
                current = seen.get(each)
                if current is None or current.lease.uid != rival.lease.uid or current.lease.ended:
                    del open_ones[each]
                elif current.lease.version != rival.lease.version:
                    return current
    except (ApiError, DeadlineExceeded):
        return None


def _list_runs(
    session: Session, run: str, shard: str, place: str, deadline: Deadline
) -> tuple[dict[str, DuplicateRun], float | None]:
    """Return the runs of an id by the place of their Lease, our own as well; and the time there."""
    answer = request_with_retry(
        lambda deadline: session.request(
            "GET",
            LEASES.path(place.partition("/")[0]),
            query={"labelSelector": f"{LABEL_RUN}={run_label_value(run)}"},
            deadline=deadline,
        ),
        deadline,
    )
    found = {}
    for obj in decode_object(answer.data).get("items") or []:
        lease = read_run_lease(obj)
        labels = obj["metadata"].get("labels") or {}
        if lease is not None and labels.get(LABEL_SHARD, "") == shard_label_value(shard):
            holder = str((obj.get("spec") or {}).get("holderIdentity") or "somebody")
            created = str(obj["metadata"].get("creationTimestamp"))
            found[lease.place] = DuplicateRun(lease, holder, created)
    return found, read_server_time(answer.headers)

"""Candidates for a lease, each a process that can be paused, killed and cut off from the server."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import Duration, format_duration, to_seconds
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.session import Session
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.failure.timeline import Timeline
from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError, WaitTimeout
from pytest_kwait.leaderelection import LeaderElector, LeaseLock
from pytest_kwait.suite.election.candidate import Candidate, LeaderTerm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.suite.bound_wait import TimeBudget

__all__ = ["Candidates"]

_STOP_TIMEOUT = 5.0
"""Seconds that candidates have to end in good order."""

_MIN_TIMEOUT = 0.1
"""Seconds for a leader to be there where a test has no more time."""

_LEADER_TIMEOUT = 60.0
"""Seconds in which there should be a leader: processes have to start, and a lease to run out."""


class Candidates:
    """An election among processes of this machine.

    Each leads in turn, as the lease has it, and does nothing then but note that it does. Who has
    lost its leadership competes again.

    Args:
        cluster: where the lease is.
        client: the client that the election is looked at with.
        namespace: where the lease is.
        number: how many candidates, named `candidate-0` and so on.
        lease: the name of the Lease; one that somebody else competes for as well will do.
        lease_duration: how long others wait before they take over; as all durations, shorter than
            usual, for tests to be quick.
        renew_deadline: how long a leader that cannot renew stays one.
        retry_period: the pause between tries.
        release_on_cancel: whether a leader that is stopped gives the lease back.
        allowance: what the test's own limit leaves to a wait; None without one.

    Raises:
        InvalidArgument: an argument that cannot be meant.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: ApiClient,
        namespace: str,
        number: int = 3,
        *,
        lease: str = "kwait-leader-election",
        lease_duration: Duration = 3,
        renew_deadline: Duration = 2,
        retry_period: Duration = 0.5,
        release_on_cancel: bool = True,
        allowance: Callable[[], TimeBudget | None] = lambda: None,
    ) -> None:
        check_count("number", number, least=1)
        if not isinstance(release_on_cancel, bool):
            raise InvalidArgument("release_on_cancel", release_on_cancel, "use True or False")
        durations: dict[str, Any] = {
            "lease_duration": to_seconds(lease_duration, what="lease_duration"),
            "renew_deadline": to_seconds(renew_deadline, what="renew_deadline"),
            "retry_period": to_seconds(retry_period, what="retry_period"),
        }
        lock = LeaseLock(client, namespace, lease, "nobody")
        LeaderElector(  # for its checks
            lock, on_started_leading=bool, on_stopped_leading=bool, **durations
        )
        self.lease = lock.describe()
        """Namespace and name of the Lease."""
        self._namespace, self._name = namespace, lease
        self._session = Session.of(client)
        self._allowance = allowance
        self._changed = threading.Condition()
        told: dict[str, Any] = {
            "kubeconfig": str(cluster.kubeconfig),
            "context": cluster.context,
            "namespace": namespace,
            "lease": lease,
            "options": {**durations, "release_on_cancel": release_on_cancel},
        }
        self.candidates: Sequence[Candidate] = ()
        """The candidates, ended ones too."""
        try:
            for index in range(number):
                candidate = Candidate(f"candidate-{index}", told, client, self._changed)
                self.candidates = (*self.candidates, candidate)
        except BaseException:  # an interrupt too must not leave processes behind
            self.stop()
            raise

    def __len__(self) -> int:
        return len(self.candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __getitem__(self, index: int) -> Candidate:
        return self.candidates[index]

    def __repr__(self) -> str:
        return f"<Candidates for lease {self.lease}: {', '.join(map(str, self.candidates))}>"

    @property
    def leaders(self) -> list[Candidate]:
        """Those that lead now, by the lease as they know it; more than one is what must not be."""
        return [each for each in self.candidates if each.leads]

    @property
    def terms(self) -> list[LeaderTerm]:
        """All leaderships so far, as the candidates have noted them, in order."""
        terms = [term for each in self.candidates for term in each.terms]
        return sorted(terms, key=lambda term: term.started)

    @property
    def holder(self) -> str:
        """Who holds the Lease, as the server has it; empty for nobody. Not only candidates can.

        Raises:
            ApiError: the server does not show it.
        """
        return str(self._read().get("holderIdentity") or "")

    def leader(
        self, timeout: Duration = _LEADER_TIMEOUT, *, besides: Candidate | None = None
    ) -> Candidate:
        """Return the candidate that leads, once one does.

        Args:
            timeout: the limit.
            besides: who is not meant, for example the one before, which leads as long as its lease
                runs, paused or not.

        Raises:
            KwaitError: none can, as all have ended.
            WaitTimeout: none did within the limit; says how each one is.
        """
        limit = asked = to_seconds(timeout, what="timeout", allow_zero=False)
        allowance = self._allowance()
        if allowance is not None and allowance.seconds < asked:
            # In tenths, for the sake of the message.
            limit = max(math.floor(allowance.seconds * 10) / 10, _MIN_TIMEOUT)
        deadline = Deadline.after(limit)
        meant = [each for each in self.candidates if each is not besides]
        found = self._wait_for_leader(meant, deadline)
        if found is not None:
            return found
        if not deadline.expired:
            raise KwaitError(f"no candidate of lease {self.lease} can lead: {self._state()}")
        error = WaitTimeout(
            f"no candidate of lease {self.lease} led within {format_duration(limit)}: "
            f"{self._state()}"
        )
        if allowance is not None and limit < asked:
            error.add_note(
                f"its limit of {format_duration(asked)} was cut to {format_duration(limit)} to "
                f"end before {allowance.reason}"
            )
        raise error

    def _wait_for_leader(self, meant: Sequence[Candidate], deadline: Deadline) -> Candidate | None:
        """Return who leads; None once the time is over, or nobody is left."""
        timeline, began = Timeline(), SYSTEM_CLOCK.monotonic()
        pending = ActiveWait(f"lease {self.lease}", "have a leader", deadline, timeline, began)
        with ACTIVE_WAITS.entered(pending):
            while not deadline.expired and any(each.alive for each in meant):
                with self._changed:
                    for each in meant:
                        if each.leads:
                            return each
                    timeline.record(
                        SYSTEM_CLOCK.monotonic() - began, ", ".join(map(str, self.candidates))
                    )
                    self._changed.wait(min(deadline.remaining, 1.0))
        return None

    def steal(self, holder: str = "thief", lease_duration: Duration | None = None) -> None:
        """Write somebody else into the Lease, whoever holds it: its leader must notice and stop.

        Args:
            holder: whom.
            lease_duration: how long those wait that see it, from then on; None to keep what it is.

        Raises:
            ApiError: there is no Lease, or the server refuses.
            InvalidArgument: an empty name, or no duration.
        """
        if not holder:
            raise InvalidArgument("holder", holder, "use a name")
        stolen: dict[str, Any] = {"holderIdentity": holder}
        if lease_duration is not None:
            seconds = to_seconds(lease_duration, what="lease_duration", allow_zero=False)
            stolen["leaseDurationSeconds"] = math.ceil(seconds)
        request_with_retry(
            lambda left: self._session.patch(
                LEASES, self._name, {"spec": stolen}, self._namespace, deadline=left
            ),
            Deadline.after(_STOP_TIMEOUT),
        )

    def stop(self) -> None:
        """End all candidates, in good order where they can: the lease is then given back."""
        for each in self.candidates:
            each.begin_stop()
        deadline = Deadline.after(_STOP_TIMEOUT)
        for each in self.candidates:
            each.end_stop(deadline)

    def _state(self) -> str:
        for each in self.candidates:
            each.drain_output()
        states = ", ".join(map(str, self.candidates))
        try:
            held = self.holder
        except KwaitError as error:
            return f"{states}; the lease cannot be read: {error}"
        said = [each.said[-1] for each in self.candidates if each.said]
        last = f"; {said[0]}" if said else ""
        return f"{states}; the lease is held by {held or 'nobody'}{last}"

    def _read(self) -> dict[str, Any]:
        try:
            lease = request_with_retry(
                lambda left: self._session.get(LEASES, self._name, self._namespace, deadline=left),
                Deadline.after(_STOP_TIMEOUT),
            )
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        return lease.get("spec") or {}

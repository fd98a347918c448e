"""Candidates for a lease, each a process that can be paused, killed and cut off from the server."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

from pytest_kwait.api.resource import LEASES
from pytest_kwait.api.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.election import LeaderElector, LeaseLock
from pytest_kwait.engine.error_policy import retrying
from pytest_kwait.engine.options import check_count
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError, WaitTimeout
from pytest_kwait.suite.candidate import Candidate, Term
from pytest_kwait.wait.durations import Duration, format_duration, to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.provider import Cluster

__all__ = ["Candidates"]

_STOP_LIMIT = 5.0
"""Seconds that candidates have to end in good order."""

_LEADER_LIMIT = 60.0
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
    def terms(self) -> list[Term]:
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
        self, timeout: Duration = _LEADER_LIMIT, *, besides: Candidate | None = None
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
        limit = to_seconds(timeout, what="timeout", allow_zero=False)
        deadline = Deadline.after(limit)
        meant = [each for each in self.candidates if each is not besides]
        while not deadline.expired and any(each.alive for each in meant):
            with self._changed:
                leaders = [each for each in meant if each.leads]
                if leaders:
                    return leaders[0]
                self._changed.wait(min(deadline.remaining, 1.0))
        if not deadline.expired:
            raise KwaitError(f"no candidate of lease {self.lease} can lead: {self._state()}")
        raise WaitTimeout(
            f"no candidate of lease {self.lease} led within {format_duration(limit)}: "
            f"{self._state()}"
        )

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
        retrying(
            lambda left: self._session.patch(
                LEASES, self._name, {"spec": stolen}, self._namespace, deadline=left
            ),
            Deadline.after(_STOP_LIMIT),
        )

    def stop(self) -> None:
        """End all candidates, in good order where they can: the lease is then given back."""
        for each in self.candidates:
            each.begin_stop()
        deadline = Deadline.after(_STOP_LIMIT)
        for each in self.candidates:
            each.end_stop(deadline)

    def _state(self) -> str:
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
            lease = retrying(
                lambda left: self._session.get(LEASES, self._name, self._namespace, deadline=left),
                Deadline.after(_STOP_LIMIT),
            )
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        return lease.get("spec") or {}

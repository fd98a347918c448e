"""Failover of a leader that is killed, frozen, cut off, or loses its lease.

`kwait_leader_election(3)` starts three candidates for one Lease, each a process of its own; they
compete with whatever else knows the Lease, for example the operator under test. A leader acts every
50 ms: it asks whether it still leads, and notes the moment at which it asked.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import wait
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.leaderelection import LeaderElector, LeaseLock

if TYPE_CHECKING:
    from pytest_kwait import Candidate, Candidates, Kwait, LeaderElectionFactory
    from pytest_kwait.wait import Context

LEASE, RENEW, RETRY = 3.0, 2.0, 0.5
"""The default durations of candidates, in seconds."""

MARGIN = 3.0
"""Tolerance in seconds for requests and the start of a thread."""

TRIES = 3
"""The number of tries; a busy machine may delay a candidate."""


def never_two(election: Candidates) -> bool:
    """Return whether each leadership ended before the next one began."""
    return all(
        before.ended is not None and before.ended <= after.started
        for before, after in itertools.pairwise(election.terms)
    )


def lost(candidate: Candidate) -> bool:
    """Wait for the end of a candidate's last leadership; return whether it has ended."""
    wait.poll_immediate(0.05, 240, lambda: candidate.terms[-1].ended is not None)
    return True


def test_a_killed_leader_is_followed_within_lease_and_retry(
    kwait_leader_election: LeaderElectionFactory,
) -> None:
    """A killed leader does not release its lease; the others wait for its expiry."""
    for _ in range(TRIES):
        election = kwait_leader_election(3)
        first = election.leader()

        killed = SYSTEM_CLOCK.monotonic()
        first.kill()
        second = election.leader()

        assert second is not first
        assert election.holder == second.identity
        assert never_two(election)
        if second.terms[0].started - killed <= LEASE + RETRY + MARGIN:
            return
    pytest.fail(f"none of {TRIES} followed in time")


def test_a_frozen_leader_wakes_as_none(kwait_leader_election: LeaderElectionFactory) -> None:
    """A leader stopped past its lease does not act before it has acquired it again."""
    election = kwait_leader_election(2)
    frozen = election.leader()
    frozen.pause()
    other = election.leader(ignoring=frozen)
    woken = SYSTEM_CLOCK.monotonic()
    frozen.resume()

    assert lost(frozen)
    wait.poll_immediate(0.05, 240, lambda: other.identity in frozen.seen)
    assert max(frozen.acts) < woken
    other.stop()
    assert election.holder != other.identity, "it was not given back"
    assert election.leader() is frozen

    again = frozen.terms[1]
    assert [act for act in frozen.acts if woken <= act < again.started] == []
    assert never_two(election)


def test_a_stolen_lease_ends_the_leadership(kwait_leader_election: LeaderElectionFactory) -> None:
    """The leader detects another holder at its next renewal."""
    election = kwait_leader_election(1)
    leader = election.leader()

    stolen = SYSTEM_CLOCK.monotonic()
    election.steal("thief")

    assert lost(leader)
    assert leader.terms[0].last_act - stolen <= RETRY + MARGIN
    assert election.holder == "thief"
    assert leader.seen[:2] == [leader.identity, "thief"]
    assert election.leader() is leader  # the thief never renews
    assert leader.terms[1].started - stolen >= LEASE


def test_a_leader_that_is_cut_off_stops_within_its_renew_deadline(
    kwait_leader_election: LeaderElectionFactory,
) -> None:
    """Its connections stay open without data, detected only by timeouts."""
    election = kwait_leader_election(2)
    lonely = election.leader()
    lonely.cut_off()
    cut = SYSTEM_CLOCK.monotonic()

    assert lost(lonely)
    assert lonely.terms[0].last_act - cut <= RENEW + MARGIN
    other = election.leader()
    assert other is not lonely

    lonely.reconnect()
    wait.poll_immediate(0.05, 240, lambda: other.identity in lonely.seen)
    assert other.leads
    assert never_two(election)


def test_leader_in_the_test_process_loses_its_lease(
    kwait: Kwait, kwait_leader_election: LeaderElectionFactory
) -> None:
    """An operator competes with a candidate: it waits, leads, and stops on request."""
    election = kwait_leader_election(1, lease="operator")
    assert election.leader().identity == election.holder
    leads, stopped = threading.Event(), threading.Event()

    def operate(ctx: Context) -> None:
        leads.set()
        ctx.wait(60)

    operator = LeaderElector(
        LeaseLock(kwait.client, kwait.namespace, "operator", "operator-1"),
        lease_duration=LEASE,
        renew_deadline=RENEW,
        retry_period=RETRY,
        on_started_leading=operate,
        on_stopped_leading=stopped.set,
    )
    running = threading.Thread(target=operator.run, args=(threading.Event(),))
    running.start()
    assert not leads.wait(1)

    election[0].stop()
    assert leads.wait(30)
    assert election.holder == "operator-1"

    election.steal()
    assert stopped.wait(30)
    running.join()
    assert not operator.is_leader

"""Leader election on a real API server: the lease passes on, and can be taken away."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait.leaderelection import LeaderElector, LeaseLock

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.wait import Context


def begin(leads: threading.Event, _ctx: Context) -> None:
    """Lead."""
    leads.set()


def test_a_leader_that_stops_hands_over_at_once(kwait: Kwait) -> None:
    stops = {name: threading.Event() for name in "ab"}
    leads = {name: threading.Event() for name in "ab"}
    threads = []
    for name in "ab":
        candidate = LeaderElector(
            LeaseLock(kwait.client, kwait.namespace, "boss", name),
            lease_duration=15,
            renew_deadline=10,
            retry_period="500ms",
            release_on_cancel=True,
            on_started_leading=partial(begin, leads[name]),
            on_stopped_leading=lambda: None,
        )
        threads.append(threading.Thread(target=candidate.run, args=(stops[name],)))
        threads[-1].start()
        if name == "a":
            assert leads["a"].wait(30)
    try:
        assert not leads["b"].is_set()
        stops["a"].set()
        assert leads["b"].wait(10)
    finally:
        for stop in stops.values():
            stop.set()
        for thread in threads:
            thread.join(30)

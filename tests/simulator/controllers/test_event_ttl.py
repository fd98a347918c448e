from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.event_ttl import EventTTL
from tests.simulator.cluster import new_cluster
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster


def tell(api: SimulatedCluster, name: str) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    api.create("events", {"metadata": {"name": name}, "involvedObject": about}, "default")


def told(api: SimulatedCluster) -> list[str]:
    return [event["metadata"]["name"] for event in api.list("events", "default")]


def clock_of(api: SimulatedCluster) -> ManualClock:
    assert isinstance(api.clock, ManualClock)
    return api.clock


def test_oldest_events_beyond_limit_are_deleted() -> None:
    api = new_cluster()
    EventTTL(api, most=2)
    for name in ("a", "b", "c"):
        tell(api, name)
    api.modify("events", "a", "default", lambda event: event.update(count=2))
    tell(api, "d")
    clock_of(api).advance(0)
    assert told(api) == ["a", "d"]


def test_event_stays_for_an_hour_after_it_was_last_written() -> None:
    api = new_cluster()
    EventTTL(api)
    tell(api, "a")
    tell(api, "b")
    clock_of(api).advance(3000)
    api.modify("events", "a", "default", lambda event: event.update(count=2))
    clock_of(api).advance(1000)
    assert told(api) == ["a"]
    clock_of(api).advance(3600)
    assert told(api) == []

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.event_recorder import NORMAL, EventRecorder, SchedulingRecorder
from pytest_kwait.simulator.exploration.exploration import Exploration
from tests.simulator.exploration.seeds import explore, find_seed, hold_for
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

KIND = ("v1", "ConfigMap")


class Room:
    """A cluster under an exploration, an object and a recorder."""

    def __init__(self, name: str, *events: str) -> None:
        self.clock = ManualClock()
        self.api = SimulatedCluster(self.clock)
        self.api.bootstrap()
        self.thing = self.api.create("configmaps", {"metadata": {"name": "m"}}, "default")
        self.recorder = EventRecorder(self.api, "tester")
        seed = find_seed("harsh", [(name, event) for event in events])
        only = [f"{name}@{event}" for event in events]
        self.exploration = Exploration(self.clock, seed, "harsh", only)
        explore(self.api, self.exploration)

    def record(self, reason: str = "Done") -> None:
        self.recorder.event(self.thing, KIND, NORMAL, reason, "ok")

    def events(self) -> list[Obj]:
        found = self.api.list("events", "default")
        return sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))


def test_late_event_has_the_time_at_which_it_happened_and_delays_the_next() -> None:
    room = Room("event-delay", "event tester First m 1")
    hold_for(room.exploration, 5)
    room.record("First")
    room.clock.advance(2)
    room.record("Second")
    assert room.events() == []
    room.clock.advance(3)
    assert [(one["reason"], one["firstTimestamp"]) for one in room.events()] == [
        ("First", "2026-01-01T00:00:00Z"),
        ("Second", "2026-01-01T00:00:02Z"),
    ]


def test_end_writes_late_events_at_once() -> None:
    room = Room("event-delay", "event tester Done m 1")
    room.record()
    room.exploration.end()
    explore(room.api, None)
    room.record("After")
    room.clock.advance(0)
    assert [one["reason"] for one in room.events()] == ["Done", "After"]


def test_repetition_is_not_counted() -> None:
    room = Room("event-drop", "event tester Done m 2")
    for _ in range(3):
        room.record()
    assert [one["count"] for one in room.events()] == [2]


def test_repetition_becomes_an_event_of_its_own() -> None:
    room = Room("event-recount", "event tester Done m 2")
    for _ in range(3):
        room.record()
    assert [one["count"] for one in room.events()] == [1, 2]


@pytest.mark.parametrize("name", ["event-drop", "event-recount"])
def test_first_event_is_written_once(name: str) -> None:
    room = Room(name, "event tester Done m 1")
    room.record()
    assert [one["count"] for one in room.events()] == [1]
    assert room.exploration.applied == []


def test_event_of_the_scheduler_is_late() -> None:
    room = Room("event-delay", "event default-scheduler Scheduled p 1")
    recorder = SchedulingRecorder(room.api, "default-scheduler")
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"}}
    recorder.event(pod, NORMAL, "Scheduled", "Binding", "ok")
    assert room.events() == []
    room.clock.advance(2)
    (event,) = room.events()
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"

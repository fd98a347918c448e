from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder, SchedulingRecorder
from pytest_kwait.simulator.request_info import internal_caller
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_KIND = ("v1", "ConfigMap")


class Room:
    """A cluster, something that happens to, and a recorder."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.api = SimulatedCluster(self.clock)
        self.api.bootstrap()
        self.thing = self.api.create("configmaps", {"metadata": {"name": "m"}}, "default")
        self.recorder = EventRecorder(self.api, "tester", "host-1")

    def events(self) -> list[Obj]:
        found = self.api.list("events", "default")
        return sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))


@pytest.fixture
def room() -> Room:
    return Room()


def test_event_has_object_source_and_time(room: Room) -> None:
    room.recorder.event(room.thing, _KIND, WARNING, "Broken", "It broke", field_path="data{k}")
    (event,) = room.events()
    assert event["metadata"]["name"].startswith("m.")
    assert event["involvedObject"] == {
        "kind": "ConfigMap",
        "namespace": "default",
        "name": "m",
        "uid": room.thing["metadata"]["uid"],
        "apiVersion": "v1",
        "resourceVersion": room.thing["metadata"]["resourceVersion"],
        "fieldPath": "data{k}",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Broken", "It broke")
    assert event["source"] == {"component": "tester", "host": "host-1"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert (event["count"], event["reportingComponent"]) == (1, "tester")
    assert event["reportingInstance"] == "host-1"


def test_repeated_event_is_counted(room: Room) -> None:
    for _ in range(3):
        room.recorder.event(room.thing, _KIND, NORMAL, "Done", "ok")
        room.clock.advance(5)
    (event,) = room.events()
    assert (event["count"], event["lastTimestamp"]) == (3, "2026-01-01T00:00:10Z")
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"


def test_deleted_event_is_created_again(room: Room) -> None:
    room.recorder.event(room.thing, _KIND, NORMAL, "Done", "ok")
    room.api.delete("events", room.events()[0]["metadata"]["name"], "default")
    room.recorder.event(room.thing, _KIND, NORMAL, "Done", "ok")
    assert [event["count"] for event in room.events()] == [1]


def test_similar_events_are_combined(room: Room) -> None:
    for number in range(15):
        room.recorder.event(room.thing, _KIND, NORMAL, "Done", f"part {number}")
    told = {event["message"]: event["count"] for event in room.events()}
    assert told == {
        **{f"part {number}": 1 for number in range(9)},
        "(combined from similar events): part 14": 6,
    }


def test_repeated_similar_events_keep_their_form(room: Room) -> None:
    for number in range(9):
        room.recorder.event(room.thing, _KIND, NORMAL, "Done", f"part {number}")
    for number in (*range(9, 14), 9, 9, *range(9)):
        room.recorder.event(room.thing, _KIND, NORMAL, "Done", f"part {number}")
    counts = {event["message"]: event["count"] for event in room.events()}
    assert counts == {
        **{f"part {number}": 2 for number in range(9)},
        "(combined from similar events): part 9": 7,
    }


def test_similar_events_are_separate_again_after_a_while(room: Room) -> None:
    for number in range(10):
        room.recorder.event(room.thing, _KIND, NORMAL, "Done", f"part {number}")
    room.clock.advance(601)
    room.recorder.event(room.thing, _KIND, NORMAL, "Done", "late")
    assert room.events()[-1]["message"] == "late"


def test_events_of_one_object_are_rate_limited(room: Room) -> None:
    for number in range(30):
        room.recorder.event(room.thing, _KIND, NORMAL, f"Reason{number}", "x")
    assert len(room.events()) == 25
    room.clock.advance(301)
    room.recorder.event(room.thing, _KIND, NORMAL, "Again", "x")
    room.recorder.event(room.thing, _KIND, NORMAL, "Never", "x")
    assert [event["reason"] for event in room.events()][25:] == ["Again"]


def test_events_of_cluster_wide_objects_are_in_default(room: Room) -> None:
    namespace = room.api.get("namespaces", "kube-system")
    room.recorder.event(namespace, ("v1", "Namespace"), NORMAL, "Seen", "x")
    assert "namespace" not in room.events()[0]["involvedObject"]


def test_events_in_a_deleted_namespace_are_dropped(room: Room) -> None:
    thing = {"metadata": {"name": "m", "namespace": "gone", "uid": "u"}}
    room.recorder.event(thing, _KIND, NORMAL, "Done", "ok")
    assert room.events() == []


def test_scheduler_counts_in_series_for_the_same_version_of_a_pod(room: Room) -> None:
    recorder = SchedulingRecorder(room.api, "default-scheduler")
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"}}
    for _ in range(2):
        recorder.event(pod, WARNING, "FailedScheduling", "Scheduling", "no")
    newer = {"metadata": {**pod["metadata"], "resourceVersion": "2"}}
    recorder.event(newer, WARNING, "FailedScheduling", "Scheduling", "no")
    first, second = room.events()
    assert (first["series"]["count"], first["eventTime"]) == (2, "2026-01-01T00:00:00.000000Z")
    assert "series" not in second
    assert (second["action"], second["reportingComponent"]) == ("Scheduling", "default-scheduler")
    assert second["reportingInstance"] == "default-scheduler-kwait"
    assert "count" not in second or second["count"] == 0


@pytest.mark.parametrize("message", ["something happened", ""])
@pytest.mark.parametrize("field_path", [None, "data{k}"])
def test_created_events_equal_decoded_ones(
    room: Room, message: str, field_path: str | None
) -> None:
    node = {"metadata": {"name": "n"}}
    room.recorder.event(room.thing, _KIND, NORMAL, "Done", message, field_path=field_path)
    room.recorder.event(node, ("v1", "Node"), NORMAL, "Done", message, field_path=field_path)
    SchedulingRecorder(room.api, "default-scheduler").event(
        room.thing, NORMAL, "Scheduled", "Binding", message or "m"
    )
    made = room.events()
    assert len(made) == 3
    for event in made:
        assert room.api.decode(room.api.kinds["events"], event, internal_caller()) == event

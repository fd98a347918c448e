from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.rate_limiter import NoLimit
from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler.api_dispatcher import APIDispatcher
from pytest_kwait.scheduler.pod_events import EventRecorder
from tests.scheduler.fakes import FakeApiServer, queued_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Obj = dict[str, Any]


class RecorderHarness:
    """A recorder, and the server that it writes to."""

    def __init__(self) -> None:
        self.server = FakeApiServer()
        self.clock = self.server.fake_clock
        self.dispatcher = APIDispatcher(
            "events", 1, NoLimit(), request_timeout=10, clock=self.clock
        )
        self.recorder = EventRecorder(self.server, self.dispatcher, self.clock)
        self.dispatcher.start()

    def fail(self, obj: Obj | None = None, note: str = "no room") -> None:
        self.recorder.event(
            obj or queued_pod("a"), "Warning", "FailedScheduling", "Scheduling", note
        )

    def until(self, count: int) -> list[tuple[str, str, Obj]]:
        self.server.until(lambda: len(self.server.written) >= count)
        return self.server.written

    def answer(self, *answers: ApiError | None) -> None:
        """Answer the next requests so."""
        left = list(answers)

        def give(_body: Obj) -> None:
            answer = left.pop(0) if left else None
            if answer is not None:
                raise answer

        self.server.answers[""] = give


@pytest.fixture
def harness() -> Iterator[RecorderHarness]:
    harness = RecorderHarness()
    yield harness
    harness.dispatcher.close()


def test_event_has_fields_of_kube_scheduler(harness: RecorderHarness) -> None:
    harness.fail()
    ((method, path, event),) = harness.until(1)
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"a.{1_767_225_600 * 10**9:x}", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "mine",
        "reportingInstance": f"mine-{platform.node()}",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "a",
            "namespace": "default",
            "uid": "uid-a",
            "resourceVersion": "1",
        },
        "note": "no room",
        "type": "Warning",
    }


def test_repeated_event_becomes_a_series_written_once(harness: RecorderHarness) -> None:
    harness.fail()
    harness.until(1)
    harness.clock.advance(5)
    for _ in range(3):
        harness.fail()
    method, path, patch = harness.until(2)[1]
    name = harness.server.written[0][2]["metadata"]["name"]
    assert (method, path) == ("PATCH", f"/apis/events.k8s.io/v1/namespaces/default/events/{name}")
    assert patch == {"series": {"count": patch["series"]["count"], **LAST_AT_5}}
    harness.recorder.flush_series()
    assert len(harness.server.written) == 2


LAST_AT_5 = {"lastObservedTime": "2026-01-01T00:00:05.000000Z"}


def test_series_is_written_again_at_its_end(harness: RecorderHarness) -> None:
    harness.fail()
    harness.until(1)
    harness.fail()
    harness.until(2)
    harness.clock.advance(5)
    harness.fail()
    harness.fail()
    harness.clock.advance(359)
    harness.recorder.flush_series()
    assert len(harness.server.written) == 2
    harness.clock.advance(1)
    harness.recorder.flush_series()
    assert harness.until(3)[2][2] == {"series": {"count": 4, **LAST_AT_5}}
    harness.fail()
    assert harness.until(4)[3][0] == "POST"


def test_long_series_is_written_every_half_hour(harness: RecorderHarness) -> None:
    harness.fail()
    harness.until(1)
    harness.fail()
    harness.until(2)
    for _ in range(6):
        harness.clock.advance(300)
        harness.fail()
        harness.recorder.flush_series()
    assert harness.until(3)[2][2]["series"]["count"] == 8


@pytest.mark.parametrize(
    "other",
    [
        queued_pod("b"),
        queued_pod("a", version=2),
        queued_pod("a", uid="2"),
        queued_pod("a", scheduler="other"),
    ],
    ids=["pod", "version", "uid", "scheduler"],
)
def test_different_events_are_separate(harness: RecorderHarness, other: Obj) -> None:
    harness.fail()
    harness.fail(other)
    assert [method for method, _, _ in harness.until(2)] == ["POST", "POST"]
    names = {event["metadata"]["name"] for _, _, event in harness.server.written}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("note", "written"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("ä" * 600, "ä" * 510 + " ..."),
    ],
)
def test_long_note_is_cut(harness: RecorderHarness, note: str, written: str) -> None:
    harness.fail(note=note)
    assert harness.until(1)[0][2]["note"] == written


def test_long_event_name_is_replaced(harness: RecorderHarness) -> None:
    harness.fail(queued_pod("a" * 250))
    assert len(harness.until(1)[0][2]["metadata"]["name"]) == 36


def test_refused_event_is_logged_and_dropped(
    harness: RecorderHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.answer(ApiError("no events for you", status=403, reason="Forbidden"))
    harness.fail()
    harness.until(1)
    wait_until(lambda: caplog.messages, harness)
    assert caplog.messages[0].endswith("was refused: 403 Forbidden: no events for you")
    harness.clock.advance(60)
    harness.recorder.flush_series()
    assert len(harness.server.written) == 1


def test_failed_event_is_retried_after_ten_seconds(harness: RecorderHarness) -> None:
    harness.answer(ApiError("refused", reason="ConnectionRefused"))
    harness.fail()
    harness.until(1)
    wait_until(lambda: harness.recorder._retries, harness)
    harness.clock.advance(9.9)
    harness.recorder.flush_series()
    assert len(harness.server.written) == 1
    harness.clock.advance(0.1)
    harness.recorder.flush_series()
    first, second = harness.until(2)
    assert first == second


def test_event_is_dropped_after_twelve_attempts(
    harness: RecorderHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.answer(*[ApiError("refused", reason="ConnectionRefused")] * 20)
    harness.fail()
    for tries in range(1, 12):
        wait_until(lambda: harness.recorder._retries, harness)
        assert len(harness.until(tries)) == tries
        harness.clock.advance(10)
        harness.recorder.flush_series()
    harness.until(12)
    wait_until(lambda: caplog.messages, harness)
    assert caplog.messages[0].endswith("could not be written: ConnectionRefused: refused")
    assert not harness.recorder._retries


def test_series_of_a_deleted_event_is_created_again(harness: RecorderHarness) -> None:
    harness.answer(None, ApiError("gone", status=404, reason="NotFound"))
    harness.fail()
    harness.until(1)
    harness.fail()
    assert [method for method, _, _ in harness.until(3)] == ["POST", "PATCH", "POST"]
    assert harness.server.written[2][2]["series"]["count"] == 2


def wait_until(holds: Callable[[], object], harness: RecorderHarness) -> None:
    """Wait for the thread's work after its request."""
    for _ in range(500):
        if holds():
            return
        harness.dispatcher._workers[0].join(0.01)
    raise AssertionError(harness.server.written)

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.rate_limiter import NoLimit
from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler.api_dispatcher import APIDispatcher
from pytest_kwait.scheduler.pod_events import EventRecorder
from tests.scheduler.fakes import FakeServer, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Obj = dict[str, Any]


class Bench:
    """A recorder, and the server that it writes to."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.clock = self.server.fake_clock
        self.dispatcher = APIDispatcher(
            "events", 1, NoLimit(), request_timeout=10, clock=self.clock
        )
        self.recorder = EventRecorder(self.server, self.dispatcher, self.clock)
        self.dispatcher.start()

    def fail(self, obj: Obj | None = None, note: str = "no room") -> None:
        self.recorder.event(obj or pod("a"), "Warning", "FailedScheduling", "Scheduling", note)

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
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.dispatcher.close()


def test_event_has_fields_of_kube_scheduler(bench: Bench) -> None:
    bench.fail()
    ((method, path, event),) = bench.until(1)
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


def test_repeated_event_becomes_a_series_written_once(bench: Bench) -> None:
    bench.fail()
    bench.until(1)
    bench.clock.advance(5)
    for _ in range(3):
        bench.fail()
    method, path, patch = bench.until(2)[1]
    name = bench.server.written[0][2]["metadata"]["name"]
    assert (method, path) == ("PATCH", f"/apis/events.k8s.io/v1/namespaces/default/events/{name}")
    assert patch == {"series": {"count": patch["series"]["count"], **LAST_AT_5}}
    bench.recorder.flush_series()
    assert len(bench.server.written) == 2


LAST_AT_5 = {"lastObservedTime": "2026-01-01T00:00:05.000000Z"}


def test_series_is_written_again_at_its_end(bench: Bench) -> None:
    bench.fail()
    bench.until(1)
    bench.fail()
    bench.until(2)
    bench.clock.advance(5)
    bench.fail()
    bench.fail()
    bench.clock.advance(359)
    bench.recorder.flush_series()
    assert len(bench.server.written) == 2
    bench.clock.advance(1)
    bench.recorder.flush_series()
    assert bench.until(3)[2][2] == {"series": {"count": 4, **LAST_AT_5}}
    bench.fail()
    assert bench.until(4)[3][0] == "POST"


def test_long_series_is_written_every_half_hour(bench: Bench) -> None:
    bench.fail()
    bench.until(1)
    bench.fail()
    bench.until(2)
    for _ in range(6):
        bench.clock.advance(300)
        bench.fail()
        bench.recorder.flush_series()
    assert bench.until(3)[2][2]["series"]["count"] == 8


@pytest.mark.parametrize(
    "other",
    [pod("b"), pod("a", version=2), pod("a", uid="2"), pod("a", scheduler="other")],
    ids=["pod", "version", "uid", "scheduler"],
)
def test_different_events_are_separate(bench: Bench, other: Obj) -> None:
    bench.fail()
    bench.fail(other)
    assert [method for method, _, _ in bench.until(2)] == ["POST", "POST"]
    names = {event["metadata"]["name"] for _, _, event in bench.server.written}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("note", "written"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("ä" * 600, "ä" * 510 + " ..."),
    ],
)
def test_long_note_is_cut(bench: Bench, note: str, written: str) -> None:
    bench.fail(note=note)
    assert bench.until(1)[0][2]["note"] == written


def test_long_event_name_is_replaced(bench: Bench) -> None:
    bench.fail(pod("a" * 250))
    assert len(bench.until(1)[0][2]["metadata"]["name"]) == 36


def test_refused_event_is_logged_and_dropped(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.answer(ApiError("no events for you", status=403, reason="Forbidden"))
    bench.fail()
    bench.until(1)
    wait_until(lambda: caplog.messages, bench)
    assert caplog.messages[0].endswith("was refused: 403 Forbidden: no events for you")
    bench.clock.advance(60)
    bench.recorder.flush_series()
    assert len(bench.server.written) == 1


def test_failed_event_is_retried_after_ten_seconds(bench: Bench) -> None:
    bench.answer(ApiError("refused", reason="ConnectionRefused"))
    bench.fail()
    bench.until(1)
    wait_until(lambda: bench.recorder._retries, bench)
    bench.clock.advance(9.9)
    bench.recorder.flush_series()
    assert len(bench.server.written) == 1
    bench.clock.advance(0.1)
    bench.recorder.flush_series()
    first, second = bench.until(2)
    assert first == second


def test_event_is_dropped_after_twelve_attempts(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.answer(*[ApiError("refused", reason="ConnectionRefused")] * 20)
    bench.fail()
    for tries in range(1, 12):
        wait_until(lambda: bench.recorder._retries, bench)
        assert len(bench.until(tries)) == tries
        bench.clock.advance(10)
        bench.recorder.flush_series()
    bench.until(12)
    wait_until(lambda: caplog.messages, bench)
    assert caplog.messages[0].endswith("could not be written: ConnectionRefused: refused")
    assert not bench.recorder._retries


def test_series_of_a_deleted_event_is_created_again(bench: Bench) -> None:
    bench.answer(None, ApiError("gone", status=404, reason="NotFound"))
    bench.fail()
    bench.until(1)
    bench.fail()
    assert [method for method, _, _ in bench.until(3)] == ["POST", "PATCH", "POST"]
    assert bench.server.written[2][2]["series"]["count"] == 2


def wait_until(holds: Callable[[], object], bench: Bench) -> None:
    """Wait for the thread's work after its request."""
    for _ in range(500):
        if holds():
            return
        bench.dispatcher._threads[0].join(0.01)
    raise AssertionError(bench.server.written)

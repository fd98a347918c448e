from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import JOBS, PODS, Resource
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import WaitTimeout
from pytest_kwait.suite.informers import EventHistory, Informers, RecordedInformers
from tests.cache.fakes import PATIENCE, Live, LiveWatch, event, pod_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.clock import Deadline


class RecordingSession(Live):
    """A session with pods and jobs that records its requests."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        super().__init__(*objects)
        self.asked: list[dict[str, Any]] = []

    def resolve(self, kind: str, *, deadline: Deadline) -> Resource:
        return {"pods": PODS, "po": PODS, "jobs": JOBS}[kind]

    def watch(self, resource: Resource, namespace: str | None = None, **more: Any) -> LiveWatch:
        self.asked.append({"resource": resource, "namespace": namespace, **more})
        return super().watch(resource, namespace, **more)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> RecordingSession:
    cluster = RecordingSession(pod_at("a", 1))
    monkeypatch.setattr(ApiSession, "of", staticmethod(lambda client: cluster))
    return cluster


@pytest.fixture
def informers(cluster: RecordingSession) -> Iterator[RecordedInformers]:
    informers = RecordedInformers(object(), "ci", label_selector="app=web")  # type: ignore[arg-type] # ApiSession.of is replaced
    yield informers
    informers.stop()
    assert all(each.join(PATIENCE) for each in informers.informers)


def test_history_has_initial_objects_and_changes(
    informers: RecordedInformers, cluster: RecordingSession
) -> None:
    informers.start("pods")
    watch = cluster.next_watch()
    watch.put(event("ADDED", pod_at("b", 11)))
    watch.put(event("MODIFIED", pod_at("a", 12)))
    watch.put(event("DELETED", pod_at("b", 13)))
    events = informers.wait_for_events("pods", lambda events: len(events) == 4)

    assert [str(each) for each in events] == ["added a", "added b", "updated a", "deleted b"]
    assert [each.initial for each in events] == [True, False, False, False]
    assert (events[2].old, events[2].object) == (pod_at("a", 1), pod_at("a", 12))
    assert (events[3].name, events[3].namespace) == ("b", "default")
    assert informers.events("pods", "b") == [events[1], events[3]]
    assert cluster.asked[0]["label_selector"] == "app=web"
    assert cluster.asked[0]["namespace"] == "ci"


def test_history_of_an_informer_is_shared(
    informers: RecordedInformers, cluster: RecordingSession
) -> None:
    informers.start("pods")
    informers.start("po", "jobs")
    assert len(informers.registrations) == 2
    assert all(each.done.wait(PATIENCE) for each in informers.registrations)
    assert [str(each) for each in informers.events("po")] == ["added a"]
    assert set(informers) == {"pods", "jobs.batch"}


def test_awaited_events_end_the_wait(
    informers: RecordedInformers, cluster: RecordingSession
) -> None:
    informers.start("pods")
    watch = cluster.next_watch()
    later = threading.Timer(0.05, lambda: watch.put(event("DELETED", pod_at("a", 11))))
    later.start()
    events = informers.wait_for_events(
        "pods", lambda events: events and events[-1].what == "deleted", name="a", timeout="60s"
    )
    assert [each.what for each in events] == ["added", "deleted"]
    later.join()


def test_timeout_lists_missing_and_received_events() -> None:
    history = EventHistory("pods in namespace ci")
    history.on_add(pod_at("a"), True)
    history.on_update(pod_at("a"), pod_at("a", 2))
    with pytest.raises(WaitTimeout) as caught:
        history.until(lambda events: False, 0)
    assert str(caught.value) == (
        "the events of pods in namespace ci did not come to what was awaited within 0s; "
        "all: added a, updated a"
    )
    with pytest.raises(WaitTimeout) as caught:
        history.until(lambda events: False, "10ms", "b")
    assert str(caught.value) == (
        "the events of pods in namespace ci named b did not come to what was awaited within 10ms; "
        "all: none"
    )
    for number in range(10):
        history.on_delete(pod_at(f"p{number}"))
    with pytest.raises(WaitTimeout, match=r"the last 10 of 12: deleted p0, .*, deleted p9$"):
        history.until(lambda events: False, 0)


def test_unstarted_informer_is_an_error(informers: RecordedInformers) -> None:
    informers.start("pods")
    with pytest.raises(KeyError) as caught:
        informers.events("jobs")
    assert str(caught.value) == repr("no informer of 'jobs' was started; there is pods")


def test_informers_without_a_history_have_no_handlers(cluster: RecordingSession) -> None:
    informers = Informers(object(), "ci")  # type: ignore[arg-type] # ApiSession.of is replaced
    informers.start("pods")
    assert informers["pods"]._handlers == []
    informers.stop()
    assert informers["pods"].join(PATIENCE)

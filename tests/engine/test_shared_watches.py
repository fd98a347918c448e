from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.cache.collection_watch import COLLECTION_WATCHES
from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import Condition, Source
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.pod_fields import PodFields
from pytest_kwait.engine.waiter import subscribe, wait_for_condition
from pytest_kwait.errors import ApiError
from pytest_kwait.framework.events import EventSource
from pytest_kwait.framework.registry import condition_of
from tests.engine.fake_session import FakeSession
from tests.objects import created_job, job_pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.cache.collection_watch import Subscription
    from pytest_kwait.client.responses import ObjectList, WatchEvent


class GatedSession(FakeSession):
    """Holds lists back until the gate is open; says when one has come to it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()

    def list(self, *args: Any, **options: Any) -> ObjectList:
        try:
            return super().list(*args, **options)
        finally:
            self.at_gate.set()
            assert self.gate.wait(60.0)


class RecordingSubscriber:
    """An subscriber that writes down what it is told."""

    def __init__(self, session: FakeSession, *, fields: Any = None, name: str | None = None):
        self.heard: list[str] = []
        self.source = Source(
            PODS,
            "ci-1",
            ObjectCounter(lambda pod, _: ObjectState("pod")),
            name,
            selector=None if name else "app=web",
            fields=fields,
        )
        self._session = session

    def join(self, seconds: float = 1000.0) -> Subscription:
        return subscribe(self._session, self.source, self, Deadline.after(seconds))

    def on_list(self, items: Sequence[Any], resource_version: str, requested_at: float) -> None:
        names = (item.object["metadata"]["name"] for item in items)
        self.heard.append(f"listed {' '.join(names)}".strip())

    def on_events(self, events: Sequence[WatchEvent]) -> None:
        self.heard += [f"{event.type} {event.object['metadata']['name']}" for event in events]

    def on_error(self, verb: str, error: Exception) -> None:
        assert isinstance(error, ApiError)
        self.heard.append(f"troubled {error.message}")

    def on_end(self, error: BaseException) -> None:
        self.heard.append(f"broken {error}")


@pytest.fixture
def session() -> Iterator[GatedSession]:
    yield GatedSession()
    for thread in readers():
        thread.join(60.0)
    assert readers() == []
    assert COLLECTION_WATCHES.open == {}


def readers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("kwait-watch-")]


def web(name: str, phase: str = "Running") -> dict[str, Any]:
    return job_pod(name, phase, labels={"app": "web"})


def close(*shares: Subscription) -> None:
    for share in shares:
        share.close()


def test_twenty_waits_have_one_watch(session: GatedSession) -> None:
    session.put(PODS, web("a"))
    session.gate.clear()
    ears = [RecordingSubscriber(session) for _ in range(20)]
    shares = [ears[0].join()]
    assert session.at_gate.wait(60.0)
    shares += [ear.join() for ear in ears[1:]]
    session.gate.set()
    session.script_clock.settle()
    assert len(readers()) == 1
    session.put(PODS, web("b"))
    session.script_clock.settle()

    # The list that was on its way when nineteen of them came is not for them.
    assert session.requests == ["list pods app=web"] * 2 + ["watch pods app=web @101"]
    assert ears[0].heard == ["listed a", "listed a", "ADDED b"]
    assert [ear.heard for ear in ears[1:]] == [["listed a", "ADDED b"]] * 19
    close(*shares)


def test_other_field_selectors_have_watches_of_their_own(session: GatedSession) -> None:
    first, second = RecordingSubscriber(session), RecordingSubscriber(session)
    for ear, name in ((first, "a"), (second, "b")):
        book: ObjectCounter = ObjectCounter(lambda pod, _: ObjectState("pod"))
        ear.source = EventSource(PODS, "ci-1", book, kind="Pod", about=name)
    shares = [first.join(), second.join()]
    session.script_clock.settle()

    for name in ("a", "b"):
        assert session.count(f"watch pods involvedObject.kind=Pod,involvedObject.name={name}") == 1
    close(*shares)


def test_late_subscriber_gets_only_lists_requested_after_it_joined(session: GatedSession) -> None:
    first, second = RecordingSubscriber(session), RecordingSubscriber(session)
    session.put(PODS, web("a"))
    shares = [first.join()]
    session.script_clock.settle()
    session.silently(session.put, PODS, web("b"))
    shares.append(second.join())
    session.script_clock.settle()

    assert first.heard == ["listed a", "listed a b"]
    assert second.heard == ["listed a b"]
    assert [watch.closed for _, watch in session.watches] == [True, False]
    close(*shares)


def test_watch_ends_with_its_last_subscriber(session: GatedSession) -> None:
    first, second = RecordingSubscriber(session), RecordingSubscriber(session)
    shares = [first.join(), second.join()]
    session.script_clock.settle()
    before = list(session.requests)
    shares[0].close()
    session.put(PODS, web("a"))
    session.script_clock.settle()
    assert first.heard[-1] == "listed"
    assert second.heard[-1] == "ADDED a"
    assert session.requests == before
    shares[1].close()
    shares[1].close()
    assert session.watches[-1][1].closed


def test_other_fields_names_and_clients_have_watches_of_their_own(session: GatedSession) -> None:
    ears = [
        RecordingSubscriber(session),
        RecordingSubscriber(session, fields=PodFields),
        RecordingSubscriber(session, name="a"),
        RecordingSubscriber(GatedSession()),
    ]
    shares = [ear.join() for ear in ears]
    assert len(COLLECTION_WATCHES.open) == 4
    close(*shares)


def test_refusal_ends_all_waits_of_the_watch_and_no_later_one(session: GatedSession) -> None:
    session.fail("list", PODS, ApiError("no", status=403, reason="Forbidden"))
    session.gate.clear()
    first, second, third = (
        RecordingSubscriber(session),
        RecordingSubscriber(session),
        RecordingSubscriber(session),
    )
    shares = [first.join(), second.join()]
    session.gate.set()
    for thread in readers():
        thread.join(60.0)
    assert [first.heard, second.heard] == [["broken 403 Forbidden: no"]] * 2
    shares.append(third.join())
    session.script_clock.settle()
    assert third.heard == ["listed"]
    close(*shares)


def test_subscriber_during_a_retry_pause_gets_a_watch_of_its_own(
    session: GatedSession,
) -> None:
    session.fail("list", PODS, ApiError("busy", status=503, retry_after=500.0))
    first, second = RecordingSubscriber(session), RecordingSubscriber(session)
    shares = [first.join()]
    session.script_clock.settle()
    assert first.heard == ["troubled busy"]
    shares.append(second.join())
    session.script_clock.settle()
    assert second.heard == ["listed"]
    close(*shares)


def test_deadline_of_a_closed_subscription_does_not_limit_others(session: GatedSession) -> None:
    session.gate.clear()
    first, second = RecordingSubscriber(session), RecordingSubscriber(session)
    short, long = first.join(5.0), second.join(1000.0)
    short.close()
    session.gate.set()
    session.script_clock.settle()
    assert second.heard == ["listed"]
    long.close()


def test_forked_child_has_no_collection_watches(session: GatedSession) -> None:
    share = RecordingSubscriber(session).join()
    kept = dict(COLLECTION_WATCHES.open)
    COLLECTION_WATCHES.reset_after_fork()
    assert COLLECTION_WATCHES.open == {}
    COLLECTION_WATCHES.open.update(kept)
    session.script_clock.settle()
    share.close()


class Counted(Condition):
    """A condition that is never met, and hangs in the caller's thread where it is told to."""

    subject, goal = "pods", "come"
    runs_user_code = True

    def __init__(self, hang: threading.Event | None = None) -> None:
        self.sink = ObjectCounter(lambda pod, _: ObjectState("pod"))
        self.hang = hang
        self.hangs = threading.Event()
        self._sources = (Source(PODS, "ci-1", self.sink, selector="app=web"),)

    def sources(self) -> Any:
        return self._sources

    def verdict(self) -> Any:
        from pytest_kwait.engine.condition import Met, Pending

        if self.hang is not None and len(self.sink) == 1:
            self.hangs.set()
            assert self.hang.wait(60.0)
        return Met() if len(self.sink) == 3 else Pending(f"{len(self.sink)} pods")

    def summarize(self) -> str:
        return ""

    def result(self) -> int:
        return len(self.sink)

    def scope(self) -> Any:
        raise AssertionError("it was met")


class PatientSession(GatedSession):
    """On the clock of the machine: its waits run in threads of their own."""

    def __init__(self) -> None:
        super().__init__()
        from pytest_kwait.clock import SYSTEM_CLOCK

        self.clock = SYSTEM_CLOCK


def test_hanging_user_code_delays_only_its_own_wait() -> None:
    session, hang = PatientSession(), threading.Event()
    stuck, free = Counted(hang), Counted()
    ends: dict[str, int] = {}

    def wait(name: str, condition: Any) -> None:
        ends[name] = wait_for_condition(session, condition, WaitSettings(timeout=120.0))

    session.put(PODS, web("a"))
    threads = [
        threading.Thread(target=wait, args=args) for args in (("stuck", stuck), ("free", free))
    ]
    threads[0].start()
    assert stuck.hangs.wait(60.0)
    threads[1].start()
    while len(free.sink) < 1:
        threads[1].join(0.01)
    session.put(PODS, web("b"))
    session.put(PODS, web("c"))
    threads[1].join(60.0)
    assert ends == {"free": 3}
    hang.set()
    threads[0].join(60.0)
    assert ends == {"free": 3, "stuck": 3}


def test_error_of_a_verdict_ends_only_its_own_wait() -> None:
    session = PatientSession()

    class Faulty(Counted):
        runs_user_code = False

        def verdict(self) -> Any:
            if len(self.sink) == 2:
                raise LookupError("its own")
            return super().verdict()

    faulty, sound = Faulty(), Counted()
    ends: dict[str, Any] = {}

    def wait(name: str, condition: Any) -> None:
        try:
            ends[name] = wait_for_condition(session, condition, WaitSettings(timeout=120.0))
        except LookupError as error:
            ends[name] = str(error)

    threads = [
        threading.Thread(target=wait, args=args) for args in (("faulty", faulty), ("sound", sound))
    ]
    session.put(PODS, web("a"))
    for thread in threads:
        thread.start()
    while len(faulty.sink) < 1 or len(sound.sink) < 1:
        threads[0].join(0.01)
    session.put(PODS, web("b"))
    threads[0].join(60.0)
    session.put(PODS, web("c"))
    threads[1].join(60.0)
    assert ends == {"faulty": "its own", "sound": 3}


def test_waits_on_a_job_and_on_its_pods_share_the_watch_of_the_job() -> None:
    from pytest_kwait.framework.job.wait import wait_for_job_complete, wait_for_job_pods_running

    session = PatientSession()
    session.put(JOBS, created_job(spec={"parallelism": 1, "completions": 1}))
    session.gate.clear()
    results: list[Any] = []

    def wait(condition: Any) -> None:
        results.append(wait_for_condition(session, condition, WaitSettings(timeout=120.0)))

    conditions: list[Any] = [
        condition_of(wait_for_job_pods_running)("ci-1", "sleepers", 1) for _ in range(5)
    ]
    conditions += [condition_of(wait_for_job_complete)("ci-1", "sleepers") for _ in range(5)]
    threads = [threading.Thread(target=wait, args=(each,)) for each in conditions]
    for thread in threads:
        thread.start()
    while len(COLLECTION_WATCHES.open) != 1 or len(_only_stream()._subscriptions) != 10:
        threads[0].join(0.01)
    session.gate.set()
    while len(COLLECTION_WATCHES.open) != 2:
        threads[0].join(0.01)
    while session.count("watch") < 2:
        threads[0].join(0.01)
    session.put(PODS, job_pod("a"))
    while len(results) < 5:
        threads[0].join(0.01)
    ended = [{"type": "Complete", "status": "True"}]
    session.put(JOBS, created_job(status={"succeeded": 3, "conditions": ended}))
    for thread in threads:
        thread.join(60.0)
    assert len(results) == 10
    assert session.count("list jobs") == 2
    assert session.count("watch jobs") == 1


def _only_stream() -> Any:
    return next(iter(COLLECTION_WATCHES.open.values()))


def test_met_wait_leaves_no_watch_and_no_thread() -> None:
    session = PatientSession()
    threading.Timer(0.1, session.put, (PODS, web("a"))).start()
    threading.Timer(0.1, session.put, (PODS, web("b"))).start()
    threading.Timer(0.2, session.put, (PODS, web("c"))).start()
    condition = Counted()
    condition.runs_user_code = False

    assert wait_for_condition(session, condition, WaitSettings(timeout=120.0)) == 3

    # The caller is let by before the connection is closed.
    for thread in readers():
        thread.join(60.0)
    assert readers() == []
    assert COLLECTION_WATCHES.open == {}
    assert all(watch.closed for _, watch in session.watches)

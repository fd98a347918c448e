"""Waits beside an informer of the same collection: its watch is theirs as well."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache
from pytest_kwait.cache.collection_watch import COLLECTION_WATCHES
from pytest_kwait.cache.listwatch import SHARED_WATCHES
from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.engine.pod_fields import PodFields
from pytest_kwait.errors import ApiError
from pytest_kwait.framework.registry import condition_of
from tests.cache.fakes import PATIENCE, until
from tests.engine.test_shared_watches import PatientSession, RecordingSubscriber, web
from tests.objects import created_job, job_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Running:
    """A session with an informer of pods, and waits beside it."""

    def __init__(self, session: PatientSession) -> None:
        self.session = session
        self._informers: list[cache.SharedInformer] = []
        self._subscriptions: list[Any] = []

    def inform(self, namespace: str | None = "ci-1", **where: Any) -> cache.SharedInformer:
        collection = cache.ListWatch(self.session, PODS, namespace, **where)
        informer = cache.SharedInformer(collection)
        self._informers.append(informer)
        watches = self.session.count("watch")
        informer.start()
        until(lambda: self.session.count("watch") > watches)
        return informer

    def listen(self, **where: Any) -> RecordingSubscriber:
        ear = RecordingSubscriber(self.session, **where)
        self._subscriptions.append(ear.join())
        until(lambda: ear.heard)
        return ear

    def close(self) -> None:
        for share in self._subscriptions:
            share.close()
        for informer in self._informers:
            informer.stop()
            for _, watch in self.session.watches:
                watch.close()
            assert informer.join(PATIENCE)


@pytest.fixture
def session() -> PatientSession:
    return PatientSession()


@pytest.fixture
def running(session: PatientSession) -> Iterator[Running]:
    running = Running(session)
    yield running
    running.close()
    until(lambda: COLLECTION_WATCHES.open == {})
    assert SHARED_WATCHES._of_session == {}


@pytest.mark.parametrize("namespace", ["ci-1", None])
@pytest.mark.parametrize("labels", [None, "app=web"])
def test_wait_beside_an_informer_lists_and_opens_no_watch(
    session: PatientSession, running: Running, namespace: str | None, labels: str | None
) -> None:
    session.put(PODS, web("a"))
    running.inform(namespace, label_selector=labels)
    ear = running.listen(fields=PodFields)
    session.put(PODS, web("b"))
    session.drop(PODS, "a")
    until(lambda: len(ear.heard) == 3)

    assert ear.heard == ["listed a", "ADDED b", "DELETED a"]
    assert session.requests == [
        " ".join(filter(None, ("list pods", labels))),
        " ".join(filter(None, ("watch pods", labels, "@101"))),
        "list pods app=web",
    ]


def test_wait_on_one_object_gets_only_its_events(session: PatientSession, running: Running) -> None:
    running.inform()
    ear = running.listen(name="b")
    for name in ("a", "b", "c"):
        session.put(PODS, job_pod(name))
    session.drop(PODS, "b")
    until(lambda: len(ear.heard) == 3)

    assert ear.heard == ["listed", "ADDED b", "DELETED b"]
    assert session.count("watch") == 1


def test_object_that_loses_its_label_is_deleted_for_the_wait(
    session: PatientSession, running: Running
) -> None:
    session.put(PODS, web("a"))
    running.inform()
    ear = running.listen()
    session.put(PODS, job_pod("a", labels={}))
    session.put(PODS, job_pod("a", "Failed", labels={}))
    session.put(PODS, web("a"))
    until(lambda: len(ear.heard) == 3)
    assert ear.heard == ["listed a", "DELETED a", "MODIFIED a"]


def test_writes_before_the_wait_are_listed_though_the_informer_is_behind(
    session: PatientSession, running: Running
) -> None:
    session.put(PODS, web("a"))
    informer = running.inform()
    late = list(session._history)
    session.silently(session.put, PODS, web("a", "Succeeded"))
    session.silently(session.put, PODS, web("b"))
    assert len(informer.store) == 1
    ear = running.listen()
    # Now the informer hears of it; the wait knows it by its list.
    stale = web("a", "Succeeded")
    stale["metadata"] |= {"uid": "uid-a", "namespace": "ci-1", "resourceVersion": "102"}
    session.send(PODS, ("MODIFIED", stale))
    session.put(PODS, web("c"))
    until(lambda: len(ear.heard) == 2)

    assert late == session._history[:1]
    assert ear.heard == ["listed a b", "ADDED c"]
    assert session.count("watch") == 1


def test_waits_share_the_informers_watch_among_one_another(
    session: PatientSession, running: Running
) -> None:
    running.inform()
    ears = [running.listen(), running.listen(fields=PodFields), running.listen(name="a")]
    session.put(PODS, web("a"))
    until(lambda: all(ear.heard[-1] == "ADDED a" for ear in ears))
    assert session.count("watch") == 1


def _stop(informer: cache.SharedInformer, session: PatientSession) -> None:
    informer.stop()


def _fail(informer: cache.SharedInformer, session: PatientSession) -> None:
    session.fail("list", PODS, *[ApiError("no", status=403, reason="Forbidden")] * 50)
    session.watches[0][1].send(ApiError("too old", status=410, reason="Expired"))


def _cut(informer: cache.SharedInformer, session: PatientSession) -> None:
    session.watches[0][1].send(ApiError("cut", status=0, reason="ConnectionReset"))


@pytest.mark.parametrize("end", [_stop, _fail, _cut])
def test_wait_opens_its_own_watch_when_the_informer_ends(
    session: PatientSession,
    running: Running,
    end: Callable[[cache.SharedInformer, PatientSession], None],
) -> None:
    session.put(PODS, web("a"))
    informer = running.inform()
    ear = running.listen()
    session.put(PODS, web("b"))
    until(lambda: ear.heard[-1] == "ADDED b")
    lists = session.count("list pods app=web")
    end(informer, session)
    # After a cut the informer may be back, and followed again, before the wait asks for itself.
    until(lambda: session.count("watch") >= 2)
    session.put(PODS, web("c"))
    until(lambda: ear.heard[-1] == "ADDED c")

    assert ear.heard == ["listed a", "ADDED b", "ADDED c"]
    assert session.count("list pods app=web") == lists == 1


def test_wait_leaves_an_informer_that_is_silent_for_too_long(
    session: PatientSession, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.inform()
    ear = running.listen()
    (published,) = SHARED_WATCHES._of_session[id(session)]
    assert published.silence == 90.0
    published.alive_at -= 90.0
    for share in next(iter(COLLECTION_WATCHES.open.values()))._subscriptions:
        share.refresh()
    until(lambda: session.count("watch pods app=web") == 1)
    session.put(PODS, web("a"))
    until(lambda: ear.heard[-1] == "ADDED a")
    assert published.ended


def test_other_collections_and_clients_have_watches_of_their_own(
    session: PatientSession, running: Running
) -> None:
    running.inform("other")
    running.inform(label_selector="app=db")
    running.listen()
    until(lambda: session.count("watch pods app=web") == 1)

    elsewhere = Running(PatientSession())
    elsewhere.listen()
    until(lambda: elsewhere.session.count("watch pods app=web") == 1)
    elsewhere.close()


def test_wait_on_a_job_follows_the_informer_of_pods_and_watches_the_job(
    session: PatientSession, running: Running
) -> None:
    from pytest_kwait.engine.options import WaitSettings
    from pytest_kwait.engine.waiter import wait_for_condition
    from pytest_kwait.framework.job.wait import wait_for_job_pods_running

    running.inform()
    session.put(JOBS, created_job(spec={"parallelism": 1, "completions": 1}))

    def bring_about() -> None:
        until(lambda: session.count("watch jobs"))
        session.put(PODS, job_pod("a"))

    later = threading.Thread(target=bring_about)
    later.start()
    pods = wait_for_condition(
        session,
        condition_of(wait_for_job_pods_running)("ci-1", "sleepers", 1),
        WaitSettings(timeout=120.0),
    )
    later.join()
    assert [each["metadata"]["name"] for each in pods] == ["a"]
    assert (session.count("watch pods"), session.count("watch jobs")) == (1, 1)

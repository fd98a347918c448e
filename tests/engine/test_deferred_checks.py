"""Objects that nobody can create: their namespace is being deleted."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.client.resource import CONFIG_MAPS, NAMESPACES, PODS
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
GOING = {"metadata": {"name": "ci-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
STAYS = {"metadata": {"name": "ci-1"}}


class There:
    """A pod is there, or gone."""

    runs_user_code = False
    subject = "pod ci-1/web"

    def __init__(self, *, gone: bool = False, namespace: str | None = "ci-1") -> None:
        self.pod = SingleObject(PODS, "web")
        self.gone = gone
        self._sources = (Source(PODS, namespace, self.pod, "web"),)
        self.goal = "go away" if gone else "come"

    def sources(self) -> Any:
        return self._sources

    def verdict(self) -> Verdict:
        absent = self.pod.missing_verdict()
        if self.gone:
            return Met() if absent else Pending("still there")
        return absent or Met()

    def seen(self) -> str:
        return ""

    def result(self) -> Any:
        return "result"

    def scope(self) -> EvidenceScope:
        return EvidenceScope(None)


def wait(session: FakeSession, condition: Any = None, **options: Any) -> Any:
    return wait_for_condition(session, condition or There(), WaitSettings(**options))


@MODES
def test_a_namespace_that_goes(mode: Any) -> None:
    """It is read after 5 s, and believed 5 s later."""
    session = FakeSession()
    session.put(NAMESPACES, GOING)

    with pytest.raises(WaitFailed) as caught:
        wait(session, timeout=60, mode=mode, poll=1.0)

    assert str(caught.value) == (
        "pod ci-1/web can no longer come: namespace ci-1 is being deleted: nothing can be "
        "created in\n"
        "    it\n"
        "  awaited   pod ci-1/web to come\n"
        f"  limit     1m0s, ended after 10s ({mode} mode)\n"
        "  timeline\n"
        "       0.0s  not found yet\n"
        "       5.0s  final if it holds for 5s: namespace ci-1 is being deleted: nothing can be "
        "cr...\n"
        "      10.0s  namespace ci-1 is being deleted: nothing can be created in it\n"
        "  try: kubectl get events"
    )
    if mode == "watch":
        assert session.count("get namespaces ci-1") == 2
        assert session.count("list pods") == 3
        assert session.count("watch") <= 3


@MODES
def test_an_object_that_comes_in_time(mode: Any) -> None:
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.at(4, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=60, mode=mode) == "result"
    assert session.count("get") == 0


@MODES
def test_an_object_that_comes_after_all(mode: Any) -> None:
    """What is there was not kept out, whatever the namespace says."""
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.at(8, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=60, mode=mode) == "result"
    assert session.clock.monotonic() == 8.0


def test_a_namespace_that_is_made_anew() -> None:
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.at(7, session.put, NAMESPACES, STAYS)
    session.at(70, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=100) == "result"
    assert session.clock.monotonic() == 70.0


def test_a_namespace_that_is_made_anew_while_nobody_looks() -> None:
    """It is read again before it is believed."""
    session = FakeSession()
    session.put(NAMESPACES, STAYS)
    session.at(12, session.put, NAMESPACES, GOING)
    session.at(22, session.put, NAMESPACES, STAYS)
    session.at(70, session.put, PODS, {"metadata": {"name": "web"}})

    assert wait(session, timeout=100) == "result"
    assert session.clock.monotonic() == 70.0


def test_a_namespace_that_stays_is_read_ever_more_seldom() -> None:
    session = FakeSession()
    session.put(NAMESPACES, STAYS)

    with pytest.raises(WaitTimeout):
        wait(session, timeout=300)

    # After 5, 10, 20, 40, 80, and then every 60 seconds.
    assert session.count("get namespaces") == 8
    assert session.count("list pods") <= 12


def test_a_namespace_that_goes_in_the_middle() -> None:
    session = FakeSession()
    session.put(NAMESPACES, STAYS)
    session.at(12, session.put, NAMESPACES, GOING)

    with pytest.raises(WaitFailed):
        wait(session, timeout=300)
    assert session.clock.monotonic() == 25.0


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_namespace_that_cannot_be_read(status: int) -> None:
    """Not everybody may; and one that is not there may come."""
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.fail("get", NAMESPACES, *(ApiError("no", status=status) for _ in range(9)))

    with pytest.raises(WaitTimeout, match="not found yet"):
        wait(session, timeout=60)


def test_graces_and_fail_fast_hold_for_it_too() -> None:
    session = FakeSession()
    session.put(NAMESPACES, GOING)

    with pytest.raises(WaitFailed):
        wait(session, timeout=60, grace=1.0)
    assert session.clock.monotonic() == 2.0
    with pytest.raises(WaitTimeout):
        wait(session, timeout=60, fail_fast=False)
    assert session.count("get") == 2


def test_what_is_to_go_away_is_no_matter() -> None:
    session = FakeSession()
    session.put(NAMESPACES, GOING)
    session.put(CONFIG_MAPS, {"metadata": {"name": "web"}})
    session.put(PODS, {"metadata": {"name": "web"}})
    session.at(30, session.drop, PODS, "web")

    assert wait(session, There(gone=True), timeout=60) == "result"
    assert session.count("get") == 0


def test_what_is_in_no_namespace_is_listed_once() -> None:
    session = FakeSession()

    with pytest.raises(WaitTimeout):
        wait(session, There(namespace=None), timeout=60)
    assert (session.count("get"), session.count("list pods metadata.name=web")) == (0, 1)

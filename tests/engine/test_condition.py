"""Base class of conditions: a condition names only the parts that it has."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Met,
    ObjectSink,
    Pending,
    Source,
    Verdict,
    iterate_leaves,
)
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from tests.engine.fake_session import FakeSession
from tests.objects import job_pod


class Uids(ObjectSink):
    """The UIDs of a source's objects."""

    def __init__(self) -> None:
        self.seen: dict[str, None] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        self.seen[obj["metadata"]["uid"]] = None

    def drop(self, uid: str) -> None:
        self.seen.pop(uid, None)

    def uids(self) -> Any:
        return self.seen.keys()


class TwoPods(Condition):
    """It names what has no default, and no more."""

    subject, goal = "pods", "be two"

    def __init__(self) -> None:
        self.pods = Uids()
        self._sources = (Source(PODS, "ci-1", self.pods),)

    def verdict(self) -> Verdict:
        return Met() if len(self.pods.seen) == 2 else Pending(f"{len(self.pods.seen)} pods")

    def result(self) -> int:
        return len(self.pods.seen)


def test_optional_parts_have_defaults() -> None:
    condition = TwoPods()
    assert not condition.runs_user_code
    assert not condition.awaits_absence
    assert not condition.is_trivial
    assert condition.probe is None
    assert condition.session is None
    assert condition.due == math.inf
    assert condition.deferred_source() is None
    assert condition.deferred_verdict() is None
    assert list(condition.deferred_conditions()) == []
    assert condition.deferred_failures_needed() == 1
    assert condition.summarize() == ""
    assert condition.scope() == EvidenceScope(None)
    assert list(iterate_leaves(condition)) == [condition]
    condition.set_time(1.0, fresh=True)


def test_a_sink_without_pods_has_none_that_are_being_created() -> None:
    sink = Uids()
    assert not sink.has_creating()
    assert list(sink.creating()) == []
    sink.mark_creating({}, {})


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_a_wait_for_a_condition_without_optional_parts(mode: Any) -> None:
    session = FakeSession()
    session.put(PODS, job_pod("a"))
    session.at(2, session.put, PODS, job_pod("b"))
    settings = WaitSettings(timeout=60.0, mode=mode, poll=1.0)
    assert wait_for_condition(session, TwoPods(), settings) == 2


def test_a_condition_needs_a_verdict_and_a_result() -> None:
    with pytest.raises(TypeError, match=r"result.*verdict"):
        Condition()  # type: ignore[abstract] # the mistake that is tested

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait, Holding, WaitObserver
from pytest_kwait.engine.audit import CURRENT_AUDIT, Auditor
from pytest_kwait.engine.condition import Failed, Met
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import WaitFailed
from pytest_kwait.framework.objects.combinators import all_of, not_
from pytest_kwait.framework.objects.wait import general_condition
from pytest_kwait.framework.pod.wait import wait_for_pod_not_found, wait_for_pod_running
from pytest_kwait.framework.registry import condition_of
from tests.engine.fake_session import FakeSession
from tests.objects import job_pod

if TYPE_CHECKING:
    from collections.abc import Iterator


class Waits(WaitObserver):
    """Audited waits for a pod on a session whose time the test moves."""

    def __init__(self) -> None:
        self.session = FakeSession()
        self.auditor = Auditor(self.session.clock)
        self.ended: list[ActiveWait] = []

        self.held = threading.Event()

    def on_end(self, wait: ActiveWait) -> None:
        self.ended.append(wait)

    def on_change(self, wait: ActiveWait) -> None:
        if wait.holding is not None:
            self.held.set()

    def satisfying(self, test: Any) -> Any:
        """Wait for a callable, then let the pod fail."""
        self.put("Running")
        found = self.wait(general_condition("ci-1", "pod/a", test).on([PODS]))
        self.session.at(0.25, self.put, "Failed")
        self.session.clock.sleep(0.5)
        assert self.held.wait(60.0)
        return found

    def running(self, **options: Any) -> Any:
        condition = condition_of(wait_for_pod_running)("ci-1", "a")
        return self.wait(condition, **options)

    def wait(self, condition: Any, **options: Any) -> Any:
        settings = WaitSettings(**({"timeout": 60.0} | options))
        return wait_for_condition(self.session, condition, settings)

    def put(self, phase: str) -> None:
        self.session.put(PODS, job_pod("a", phase))

    def sleep(self, seconds: float) -> None:
        """Let time pass until every reader has nothing left to do."""
        self.session.clock.sleep(seconds)
        self.session.script_clock.settle()

    @property
    def holding(self) -> Holding:
        holding = self.ended[-1].holding
        assert holding is not None
        return holding


@pytest.fixture
def waits() -> Iterator[Waits]:
    waits = Waits()
    waits.auditor.start()
    ACTIVE_WAITS.add(waits)
    yield waits
    ACTIVE_WAITS.remove(waits)
    waits.auditor.stop()
    for thread in threading.enumerate():
        if thread.name.startswith(("kwait-watch-", "kwait-audit")):
            thread.join(60.0)
            assert not thread.is_alive()


def test_state_that_ends_before_the_next_action_is_a_transient(waits: Waits) -> None:
    waits.put("Running")
    waits.running()
    waits.session.at(0.25, waits.put, "Failed")
    waits.sleep(0.5)
    assert waits.holding.broke_after == 0.25
    assert waits.holding.reason == "the pod has failed: no reason is given"
    assert waits.session.requests == [
        "list pods metadata.name=a",
        "watch pods metadata.name=a @101",
    ]


def test_state_that_returns_was_a_transient_nevertheless(waits: Waits) -> None:
    waits.put("Running")
    waits.running()
    waits.session.at(0.25, waits.put, "Pending")
    waits.session.at(0.5, waits.put, "Running")
    waits.sleep(2.0)
    assert waits.holding.broke_after == 0.25


def test_state_that_lasts_a_second_held(waits: Waits) -> None:
    waits.put("Running")
    waits.running()
    waits.session.at(1.5, waits.put, "Failed")
    waits.sleep(2.0)
    waits.auditor.end_observations()
    assert (waits.holding.unchecked, waits.holding.broke_after) == ("", None)


def test_watch_ends_after_a_second(waits: Waits) -> None:
    waits.put("Running")
    waits.running()
    waits.sleep(1.5)
    for thread in threading.enumerate():
        if thread.name == "kwait-watch-pods":
            thread.join(60.0)
            assert not thread.is_alive()
    assert waits.holding.broke_after is None


@pytest.mark.parametrize(
    ("event", "thread", "ends"),
    [
        ("http.client.send", "MainThread", True),
        ("subprocess.Popen", "MainThread", True),
        ("socket.connect", "Thread-1", True),
        ("http.client.send", "kwait-aio", True),
        ("http.client.send", "kwait-watch-pods", False),
        ("http.client.send", "kwait heartbeat", False),
        ("open", "MainThread", False),
    ],
)
def test_action_of_the_test_ends_the_observation(
    waits: Waits, event: str, thread: str, ends: bool
) -> None:
    waits.put("Running")
    waits.running()
    acting = threading.Thread(target=sys.audit, args=(event,), name=thread)
    acting.start()
    acting.join()
    waits.session.at(0.25, waits.put, "Failed")
    waits.sleep(0.5)
    assert waits.holding.broke_after == (None if ends else 0.25)


def test_next_wait_ends_the_observation(waits: Waits) -> None:
    waits.put("Running")
    waits.running()
    waits.session.at(0.25, waits.session.drop, PODS, "a")
    waits.wait(general_condition("ci-1", "pod/a", "delete").on([PODS]))
    first = waits.ended[0].holding
    assert first is not None
    assert (first.unchecked, first.broke_after) == ("", None)


def test_result_is_the_state_in_which_the_wait_was_met(
    waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits.put("Running")
    condition = condition_of(wait_for_pod_running)("ci-1", "a")
    result = condition.result

    def late_result() -> Any:
        waits.put("Failed")
        waits.sleep(0.0)
        return result()

    monkeypatch.setattr(condition, "result", late_result, raising=False)
    assert waits.wait(condition)["status"]["phase"] == "Running"
    waits.sleep(0.5)
    assert waits.holding.broke_after == 0.0


@pytest.mark.parametrize(
    ("condition", "options", "reason"),
    [
        (
            lambda: condition_of(wait_for_pod_running)("ci-1", "a"),
            {"mode": "poll"},
            "poll mode watches nothing",
        ),
        (
            lambda: condition_of(wait_for_pod_not_found)("ci-1", "b"),
            {},
            "what is gone stays gone",
        ),
    ],
    ids=["poll", "gone"],
)
def test_wait_that_cannot_be_observed_says_why(
    waits: Waits, condition: Any, options: dict[str, Any], reason: str
) -> None:
    waits.put("Running")
    waits.wait(condition(), **options)
    assert waits.holding.unchecked == reason


@pytest.mark.parametrize(
    ("first", "options", "expected"),
    [
        ("Running", {}, True),
        ("Pending", {}, False),
        ("Running", {"stable_for": 1.0}, False),
    ],
)
@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_wait_met_at_its_first_look(
    waits: Waits, mode: str, first: str, options: dict[str, Any], expected: bool
) -> None:
    waits.put(first)
    waits.session.at(1.0, waits.put, "Running")
    waits.running(mode=mode, **options)
    assert waits.ended[-1].met_at_first_look is expected


def test_failed_wait_is_not_observed(waits: Waits) -> None:
    waits.put("Succeeded")
    with pytest.raises(WaitFailed):
        waits.running()
    assert waits.ended[-1].holding is None


def test_ended_audit_observes_nothing(waits: Waits) -> None:
    waits.auditor.stop()
    assert CURRENT_AUDIT.auditor is None
    waits.put("Running")
    waits.running()
    assert waits.ended[-1].holding is None


PHASES = ["Running"]
SEEN: list[str] = []


def is_running(pod: Any) -> bool:
    return pod["status"]["phase"] in PHASES


def notes_phases(pod: Any) -> bool:
    SEEN.append(pod["status"]["phase"])
    return is_running(pod)


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (lambda pod: pod["status"]["phase"] == "Running", "<lambda> says False"),
        (is_running, "is_running says False"),
        (functools.partial(lambda phases, pod: pod["status"]["phase"] in phases, PHASES), None),
        (all_of("create", is_running), "is_running says False"),
        (not_(lambda pod: pod["status"]["phase"] == "Failed"), "it does satisfy <lambda>"),
        (lambda pod: Met() if is_running(pod) else Failed("it has failed"), "it has failed"),
        (notes_phases, "notes_phases says False"),
    ],
    ids=["lambda", "function", "partial", "all", "not", "verdict", "notes"],
)
def test_state_of_a_callable_that_ends_is_a_transient(
    waits: Waits, test: Any, reason: str | None
) -> None:
    SEEN.clear()
    assert waits.satisfying(test)["status"]["phase"] == "Running"
    assert waits.holding.unchecked == ""
    assert waits.holding.broke_after is not None
    assert waits.holding.reason == (reason or "partial says False")
    # The audit called a copy.
    assert (["Running"] if test is notes_phases else []) == SEEN


def test_callable_whose_state_lasts_held(waits: Waits) -> None:
    waits.put("Running")
    waits.wait(general_condition("ci-1", "pod/a", is_running).on([PODS]))
    waits.session.at(0.25, waits.put, "Running")
    # The auditor's thread, which may just begin to wait a second, is no reader.
    while not waits.held.wait(0.01):
        waits.sleep(2.0)
    assert (waits.holding.unchecked, waits.holding.broke_after) == ("", None)


class Phases:
    def holds(self, pod: Any) -> bool:
        return is_running(pod)


def raises(pod: Any) -> bool:
    if not is_running(pod):
        raise RuntimeError
    return True


def fails_test(pod: Any) -> bool:
    if not is_running(pod):
        pytest.fail("no")
    return True


def sends(pod: Any) -> bool:
    if not is_running(pod):
        with contextlib.suppress(Exception):
            sys.audit("http.client.send")
            SENT.append("request")
    return is_running(pod)


SENT: list[str] = []


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (Phases().holds, "its callable uses objects of the test"),
        (lambda pod, phases=Phases(): phases.holds(pod), "its callable uses objects of the test"),  # noqa: B008 - an object of the test
        (raises, "its callable raised RuntimeError"),
        (fails_test, "its callable raised Failed"),
        (sends, "its callable sends requests"),
    ],
    ids=["method", "default", "raises", "fails", "sends"],
)
def test_callable_that_cannot_be_observed_says_why(waits: Waits, test: Any, reason: str) -> None:
    waits.satisfying(test)
    assert (waits.holding.unchecked, waits.holding.broke_after) == (reason, None)
    assert SENT == []
    assert waits.session.requests == [
        "list pods metadata.name=a",
        "watch pods metadata.name=a @101",
    ]

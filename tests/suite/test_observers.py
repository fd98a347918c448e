from __future__ import annotations

import dataclasses

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ActiveWait, WaitContext
from pytest_kwait.engine.failure.wait_report import Timeline, WaitReport
from pytest_kwait.suite.observers import WaitInfo, describe_wait
from pytest_kwait.testing import FakeClock


class _Context(WaitContext):
    def __init__(self, *namespaces: str) -> None:
        self._namespaces = namespaces

    def namespaces(self) -> tuple[str, ...]:
        return self._namespaces

    def hide(self, text: str) -> str:
        return text.replace("hunter2", "***")


def _wait(*namespaces: str) -> ActiveWait:
    clock = FakeClock()
    wait = ActiveWait(
        "pod a/hunter2",
        "run",
        Deadline.after(30.0, clock),
        Timeline(),
        clock.monotonic(),
        limit=60.0,
        name="wait_for_pod_running",
        context=_Context(*namespaces),
    )
    wait.timeline.record(0.0, "Pending:\n  hunter2")
    clock.advance(2.5)
    return wait


def test_a_wait_at_its_start() -> None:
    assert describe_wait(_wait("a")) == WaitInfo(
        name="wait_for_pod_running", subject="pod a/***", goal="run", namespace="a", limit=60.0
    )


@pytest.mark.parametrize("namespaces", [(), ("a", "b")])
def test_a_wait_without_one_namespace(namespaces: tuple[str, ...]) -> None:
    assert describe_wait(_wait(*namespaces)).namespace == ""


@pytest.mark.parametrize(
    ("outcome", "trouble", "headline"),
    [
        ("met", "", ""),
        ("timed out", "", "pod a/*** did not run: timed out: Pending: ***"),
        ("error", "500 of hunter2", "pod a/*** did not run: error: 500 of ***"),
    ],
)
def test_a_wait_at_its_end(outcome: str, trouble: str, headline: str) -> None:
    wait = _wait("a")
    wait.record_outcome(outcome, retries=2, trouble=trouble)
    wait.end()
    info = describe_wait(wait)
    assert (info.outcome, info.elapsed, info.retries) == (outcome, 2.5, 2)
    assert info.headline == headline


def test_the_headline_of_a_report() -> None:
    wait = _wait("a")
    wait.record_outcome("failed early")
    wait.end()
    wait.record_report(
        WaitReport("pod a/b", "run", True, "no image", 60.0, 2.5, "watch", "", timeline=Timeline())
    )
    assert describe_wait(wait).headline == "pod a/b can no longer run: no image"


def test_a_wait_that_was_interrupted_before_a_verdict() -> None:
    wait = ActiveWait("pod a/b", "run", Deadline.after(9.0, FakeClock()), Timeline(), 0.0)
    wait.end()
    assert describe_wait(wait).headline == "pod a/b did not run: interrupted"


def test_it_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        describe_wait(_wait()).outcome = "met"  # type: ignore[misc]

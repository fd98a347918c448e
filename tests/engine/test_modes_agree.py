from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.api.resource import PODS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import WaitFailed, WaitTimeout
from pytest_kwait.resources.object_conditions import ManyObjects, OneObject
from pytest_kwait.resources.object_tests import parse_test
from tests.engine.fake_session import FakeSession, condition, pod

if TYPE_CHECKING:
    from collections.abc import Callable

STATES = st.sampled_from(["gone", "pending", "ready", "failed", "stuck"])
HISTORIES = st.lists(st.tuples(st.sampled_from("ab"), STATES), max_size=6)
TESTS = st.sampled_from(["condition=Ready", "create", "delete", "jsonpath={.status.phase}=Running"])
LIMIT = 30.0


def change(session: FakeSession, name: str, state: str) -> None:
    if state == "gone":
        if session._objects.get("pods", {}).get(name):
            session.drop(PODS, name)
        return
    if state == "ready":
        obj = pod(name, labels={"app": "web"}, conditions=[condition("Ready")])
    elif state == "stuck":
        obj = pod(name, "Pending", labels={"app": "web"}, waiting=("InvalidImageName", "no"))
    else:
        obj = pod(name, state.capitalize(), labels={"app": "web"})
    session.put(PODS, obj)


def outcome(mode: Any, history: list[tuple[str, str]], make: Callable[[], Any]) -> tuple[str, Any]:
    session = FakeSession()
    # Each state lasts for longer than the pause between two looks: both modes can see it.
    for number, (name, state) in enumerate(history):
        session.at(2.5 * number + 0.25, change, session, name, state)
    options = WaitSettings(timeout=LIMIT, poll=1.0, mode=mode)
    try:
        found = wait_for_condition(
            session, make(), options, Deadline.after(LIMIT, session.script_clock)
        )
    except (WaitFailed, WaitTimeout) as error:
        return type(error).__name__, error.evidence["reason"]
    return "met", found


@settings(max_examples=30, deadline=None)
@given(HISTORIES, TESTS, st.booleans())
def test_both_modes_come_to_the_same(history: list[tuple[str, str]], text: str, many: bool) -> None:
    def make() -> Any:
        if many:
            return ManyObjects(PODS, "ci-1", "app=web", parse_test(text), None)
        return OneObject(PODS, "ci-1", "a", parse_test(text))

    assert outcome("watch", history, make) == outcome("poll", history, make)

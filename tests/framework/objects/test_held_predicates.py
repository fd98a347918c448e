"""Timed parts of combined conditions: each part and object has its own timer."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_kwait.client.resource import CONFIG_MAPS, PODS, SECRETS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import WaitFailed, WaitTimeout
from pytest_kwait.framework.objects.combinators import (
    all_of,
    any_of,
    consistently,
    not_,
    stable_for,
)
from pytest_kwait.framework.objects.lists import at_least
from pytest_kwait.framework.objects.wait import general_condition
from tests.engine.fake_session import FakeSession
from tests.engine.test_modes_agree import TROUBLES, befall
from tests.examples import scaled
from tests.objects import condition, pod

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
READY = [condition("Ready")]
UNREADY = [condition("Ready", "False")]
IS_READY = "condition=Ready"
RUNS = "jsonpath={.status.phase}=Running"
APP = {"app": "web"}


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


def state(ready: bool, phase: str = "Running", name: str = "a", **more: Any) -> dict[str, Any]:
    return pod(name, phase, labels=APP, conditions=READY if ready else UNREADY, **more)


def wait(
    session: FakeSession, test: Any, mode: Any = "watch", target: Any = "pod/a", **more: Any
) -> Any:
    """Wait for up to a minute; return what came."""
    options = {name: more.pop(name) for name in ("stable_for", "fail_fast") if name in more}
    general = general_condition("ci-1", target, test, **more)
    kinds = {"pod": PODS, "pods": PODS, "cm": CONFIG_MAPS, "secret": SECRETS}
    awaited = general.on([kinds[one.kind] for one in general.targets])
    limit = WaitSettings(timeout=60.0, poll=1.0, mode=mode, **options)
    return wait_for_condition(session, awaited, limit, Deadline.after(60.0, session.clock))


def reason(error: Any) -> Any:
    return error.value.evidence["reason"]


@MODES
def test_both_at_once(session: FakeSession, mode: Any) -> None:
    """One has held for its time when the other comes."""
    session.put(PODS, state(True, "Pending"))
    session.at(20, session.put, PODS, state(True))

    wait(session, all_of(stable_for(10, IS_READY), RUNS), mode)

    assert session.clock.monotonic() == 20.0


@MODES
def test_the_time_runs_out_without_any_event(session: FakeSession, mode: Any) -> None:
    session.put(PODS, state(True))

    found = wait(session, all_of(stable_for(10, IS_READY), RUNS), mode)

    assert session.clock.monotonic() == 10.0
    assert found["metadata"]["name"] == "a"
    if mode == "watch":
        # An expired timer counts only after everything was listed again.
        assert (session.count("list pods"), session.count("watch pods")) == (2, 2)


@MODES
def test_a_break_starts_one_time_anew_and_no_other(session: FakeSession, mode: Any) -> None:
    session.put(PODS, state(True))
    session.at(4, session.put, PODS, state(False))
    session.at(6, session.put, PODS, state(True))

    wait(session, all_of(stable_for(10, IS_READY), stable_for(12, RUNS)), mode)

    assert session.clock.monotonic() == 16.0


@MODES
def test_a_part_that_has_held_may_break_again(session: FakeSession, mode: Any) -> None:
    session.put(PODS, state(True, "Pending"))
    session.at(15, session.put, PODS, state(False, "Pending"))
    session.at(20, session.put, PODS, state(False))
    session.at(25, session.put, PODS, state(True))

    wait(session, all_of(stable_for(10, IS_READY), RUNS), mode)

    assert session.clock.monotonic() == 35.0


@MODES
def test_whichever_comes_first(session: FakeSession, mode: Any) -> None:
    session.put(PODS, state(True, "Pending"))

    wait(session, any_of(stable_for(10, IS_READY), RUNS), mode)
    assert session.clock.monotonic() == 10.0

    session.at(5, session.put, PODS, state(True))
    wait(session, any_of(stable_for(20, IS_READY), RUNS), mode)
    assert session.clock.monotonic() == 15.0


@MODES
def test_a_time_ends_while_another_object_may_fail(session: FakeSession, mode: Any) -> None:
    """Both are listed once more for it, at the end of the grace, and one for the message."""
    session.put(PODS, pod("b", "Pending"))
    session.put(PODS, state(True, name="a"))
    session.at(1, session.put, PODS, pod("b", "Pending", waiting=("InvalidImageName", "no")))

    with pytest.raises(WaitFailed, match="InvalidImageName"):
        wait(session, all_of(stable_for(2, IS_READY), "create"), mode, target=["pod/b", "pod/a"])

    assert session.clock.monotonic() == 6.0
    if mode == "watch":
        assert session.count("list pods") == 7


@MODES
def test_a_test_is_used_by_many_waits(session: FakeSession, mode: Any) -> None:
    """Each wait has its own timers."""
    session.put(PODS, state(True))
    test = all_of(stable_for(10, IS_READY), RUNS)

    for end in (10.0, 20.0):
        wait(session, test, mode)
        assert session.clock.monotonic() == end


@MODES
def test_never_for_so_long(session: FakeSession, mode: Any) -> None:
    """The opposite of a time holds while it is not over."""
    session.put(PODS, state(True))
    wait(session, not_(stable_for(10, IS_READY)), mode)
    assert session.clock.monotonic() == 0.0

    session.at(15, session.put, PODS, state(False))
    wait(session, all_of(stable_for(12, RUNS), not_(stable_for(10, IS_READY))), mode)
    assert session.clock.monotonic() == 15.0


@MODES
def test_consistently_stays_met_after_its_duration(session: FakeSession, mode: Any) -> None:
    session.put(PODS, state(True, "Pending"))
    session.at(12, session.put, PODS, state(False, "Pending"))
    session.at(20, session.put, PODS, state(False))

    wait(session, all_of(consistently(10, IS_READY), RUNS), mode)

    assert session.clock.monotonic() == 20.0


@MODES
def test_a_broken_consistently_fails(session: FakeSession, mode: Any) -> None:
    session.put(PODS, state(True, "Pending"))
    session.at(4, session.put, PODS, state(False, "Pending"))

    with pytest.raises(WaitFailed) as caught:
        wait(session, all_of(consistently(10, IS_READY), RUNS), mode)
    assert reason(caught) == "it held for 4s only: Ready is False"

    session.at(3, session.put, PODS, state(False))
    wait(session, any_of(consistently(10, IS_READY), RUNS), mode)
    assert session.clock.monotonic() == 7.0


@MODES
def test_the_opposite_of_from_now_on(session: FakeSession, mode: Any) -> None:
    session.put(PODS, state(True))
    session.at(4, session.put, PODS, state(False))
    wait(session, not_(consistently(10, IS_READY)), mode)
    assert session.clock.monotonic() == 4.0

    with pytest.raises(WaitFailed) as caught:
        wait(session, not_(consistently(10, RUNS)), mode)
    assert session.clock.monotonic() == 14.0
    goal = "have {.status.phase} equal to 'Running' from now for 10s"
    assert reason(caught) == f"it does {goal}"
    headline = " ".join(str(caught.value).split())
    assert headline.startswith(f"pod ci-1/a can no longer not {goal}: it does {goal}")


def test_twice_the_opposite_is_the_same() -> None:
    held = stable_for(10, IS_READY)

    assert not_(not_(held)) == held
    assert not_(all_of(held, IS_READY)) == any_of(not_(held), not_(IS_READY))


@MODES
def test_times_within_times(session: FakeSession, mode: Any) -> None:
    """The outer one runs while the inner one has held."""
    session.put(PODS, state(True))

    wait(session, stable_for(5, all_of(stable_for(10, IS_READY), RUNS)), mode)
    assert session.clock.monotonic() == 15.0
    wait(session, all_of(stable_for(5, stable_for(10, IS_READY)), RUNS), mode)
    assert session.clock.monotonic() == 30.0
    wait(session, all_of(stable_for(10, IS_READY), RUNS), mode, stable_for=5.0)
    assert session.clock.monotonic() == 45.0


@MODES
def test_an_object_that_is_not_there(session: FakeSession, mode: Any) -> None:
    """Not there yet breaks a time; to be gone for a time has its own."""
    session.at(3, session.put, PODS, state(True))

    wait(session, all_of(stable_for(10, IS_READY), RUNS), mode)
    assert session.clock.monotonic() == 13.0
    session.at(4, session.drop, PODS, "a")
    assert wait(session, any_of(stable_for(10, "delete"), all_of("create", "delete")), mode) is None
    assert session.clock.monotonic() == 27.0


@MODES
@pytest.mark.parametrize("user_code", [False, True])
def test_each_object_has_its_own_time(session: FakeSession, mode: Any, user_code: bool) -> None:
    """In a selection, an object that restarts its timer or comes late delays only itself."""
    session.put(PODS, state(True, name="a"))
    session.put(PODS, state(True, name="b"))
    session.at(4, session.put, PODS, state(False, name="b"))
    session.at(6, session.put, PODS, state(True, name="b"))
    session.at(8, session.put, PODS, state(True, name="c"))
    runs: Any = (lambda obj: obj["status"]["phase"] == "Running") if user_code else RUNS
    test = all_of(stable_for(10, IS_READY), runs)

    found = wait(session, test, mode, "pods", selector=APP, count=at_least(1))
    assert ([obj["metadata"]["name"] for obj in found], session.clock.monotonic()) == (["a"], 10.0)
    found = wait(session, test, mode, "pods", selector=APP)
    assert [obj["metadata"]["name"] for obj in found] == ["a", "b", "c"]
    assert session.clock.monotonic() == 20.0


@MODES
@pytest.mark.parametrize("user_code", [False, True])
def test_an_object_made_anew_starts_anew(session: FakeSession, mode: Any, user_code: bool) -> None:
    session.put(PODS, state(True, metadata={"uid": "one"}))
    session.at(5.5, session.drop, PODS, "a")
    session.at(5.5, session.put, PODS, state(True, metadata={"uid": "two"}))
    runs: Any = (lambda obj: obj["status"]["phase"] == "Running") if user_code else RUNS

    wait(session, all_of(stable_for(10, IS_READY), runs), mode, "pods", selector=APP)

    assert session.clock.monotonic() == (15.5 if mode == "watch" else 16.0)


@MODES
def test_several_targets(session: FakeSession, mode: Any) -> None:
    session.put(PODS, state(True))
    session.at(5, session.put, PODS, state(True, name="b"))

    wait(session, all_of(stable_for(10, IS_READY), RUNS), mode, ["pod/a", "pod/b"])

    assert session.clock.monotonic() == 15.0


def test_pending_reasons_name_the_missing_duration(session: FakeSession) -> None:
    session.put(PODS, state(True, "Pending"))

    with pytest.raises(WaitTimeout) as caught:
        wait(session, all_of(stable_for("2m", IS_READY), RUNS))

    assert str(caught.value).splitlines()[0] == (
        "pod ci-1/a did not have condition Ready=True for 2m0s and have {.status.phase} equal to"
    )
    assert reason(caught) == (
        "it holds, and must for 2m0s; {.status.phase} is 'Pending', not 'Running'"
    )


def test_a_stuck_pod_fails_a_held_predicate_too(session: FakeSession) -> None:
    stuck = pod("a", "Pending", waiting=("InvalidImageName", "no"))
    session.put(PODS, stuck)

    with pytest.raises(WaitFailed, match="InvalidImageName"):
        wait(session, all_of(stable_for(10, IS_READY), "create"))
    assert session.clock.monotonic() == 5.0


def test_secrets_stay_hidden(session: FakeSession) -> None:
    session.put(SECRETS, {"metadata": {"name": "s"}, "data": {"k": "c2VjcmV0"}})
    hidden = stable_for(2, "jsonpath={.data.k}=b3RoZXI")

    for test in (
        all_of(hidden, "create"),
        all_of(not_(not_(hidden)), not_(stable_for(1, "create"))),
    ):
        with pytest.raises(WaitTimeout) as caught:
            wait(session, test, target="secret/s")
        assert "c2VjcmV0" not in str(caught.value)
        assert "b3RoZXI" not in str(caught.value)


STATES = st.sampled_from(["ready", "unready", "pending", "gone"])
HISTORIES = st.lists(st.tuples(st.sampled_from("ab"), STATES), max_size=7)
# States last for a multiple of 2.5 s: neither mode can mistake one that is shorter than these.
HELD = stable_for(3.0, IS_READY)
STEADY = consistently(4.0, RUNS)
CONDITIONS = {
    "all": all_of(HELD, RUNS),
    "any": any_of(HELD, "jsonpath={.status.phase}=Pending"),
    "none": all_of(not_(HELD), not_(IS_READY)),
    "steady": all_of(STEADY, HELD),
    "not steady": any_of(not_(STEADY), HELD),
    "two": all_of(HELD, stable_for(5.5, RUNS)),
    "within": stable_for(3.0, any_of(HELD, not_(RUNS))),
}


def outcome(
    mode: Any, history: list[tuple[str, str]], troubles: list[Any], name: str, many: bool
) -> Any:
    session, births = FakeSession(), iter(range(100))
    session.put(PODS, state(True, metadata={"uid": "first"}))
    uids = {"a": "first"}

    def change(pod_name: str, what: str) -> None:
        there = pod_name in session._objects["pods"]
        if what == "gone":
            if there:
                session.drop(PODS, pod_name)
            return
        if not there:
            uids[pod_name] = f"{pod_name}-{next(births)}"
        phase = "Pending" if what == "pending" else "Running"
        uid = {"uid": uids[pod_name]}
        session.put(PODS, state(what == "ready", phase, pod_name, metadata=uid))

    for number, (pod_name, what) in enumerate(history):
        session.at(2.5 * number + 0.25, change, pod_name, what)
    for second, what in troubles:
        session.at(second, befall, session, what)
    more = {"target": "pods", "selector": APP} if many else {}
    try:
        found = wait(session, CONDITIONS[name], mode, **more)
    except (WaitFailed, WaitTimeout) as error:
        text = str(error.evidence["reason"]).replace(" and created anew under another UID", "")
        return type(error).__name__, re.sub(r"held for \S+ only", "held for a while only", text)
    objects = found if isinstance(found, list) else [found]
    return "met", [obj and (obj["metadata"]["uid"], obj["status"]) for obj in objects]


@settings(max_examples=scaled(40), deadline=None)
@given(HISTORIES, TROUBLES, st.sampled_from(sorted(CONDITIONS)), st.booleans())
@example([("a", "ready"), ("b", "pending"), ("a", "pending"), ("b", "gone")], [], "steady", True)
def test_both_modes_come_to_the_same(
    history: list[tuple[str, str]], troubles: list[Any], name: str, many: bool
) -> None:
    watched = outcome("watch", history, troubles, name, many)
    assert watched == outcome("poll", history, [], name, many)

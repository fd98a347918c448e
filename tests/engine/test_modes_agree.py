from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import Failed, Grace, Met
from pytest_kwait.engine.options import Mode, WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.framework.job.wait import (
    wait_for_job_complete,
    wait_for_job_failed,
    wait_for_job_pods_running,
    wait_for_job_pods_succeeded,
)
from pytest_kwait.framework.objects.conditions import ManyObjects, OneObject
from pytest_kwait.framework.pod.list_wait import (
    wait_for_number_of_pods,
    wait_for_pods_running,
    wait_for_pods_running_ready,
)
from pytest_kwait.framework.pod.wait import (
    wait_for_pod_not_found,
    wait_for_pod_running,
    wait_for_pod_success,
)
from pytest_kwait.framework.predicates import parse_predicate
from pytest_kwait.framework.registry import condition_of
from tests.engine.fake_session import FakeSession
from tests.examples import scaled
from tests.objects import condition, created_job, job_pod

if TYPE_CHECKING:
    from collections.abc import Callable

STATES = st.sampled_from(["gone", "pending", "ready", "failed", "stuck", "succeeded"])
HISTORIES = st.lists(st.tuples(st.sampled_from("ab"), STATES), max_size=6)
# A job may be made anew at once, which no look shows to have been gone; one pod of several may
# not: for that moment the others are all there are.
JOB_STATES = st.sampled_from(["gone", "there", "suspended", "complete", "failed", "reborn"])
JOB_HISTORIES = st.lists(
    st.one_of(st.tuples(st.sampled_from("ab"), STATES), st.tuples(st.just("job"), JOB_STATES)),
    max_size=7,
)
# What befalls the watches alone, and when. Few: they are opened again after ever longer pauses,
# and must not be blind for as long as a state lasts.
TROUBLES = st.lists(
    st.tuples(st.floats(0.3, 20.0), st.sampled_from(["expired", "reset", "ended", "bookmark"])),
    max_size=3,
)
MODES = st.sampled_from(["watch", "poll"])
TESTS = st.sampled_from(["condition=Ready", "create", "delete", "jsonpath={.status.phase}=Running"])
LIMIT = 30.0
JOB_LABEL = "batch.kubernetes.io/controller-uid"
FIRST_JOB = "job-0"
POD_WAITS: dict[str, Callable[[], Any]] = {
    "none": lambda: condition_of(wait_for_number_of_pods)("ci-1", 0, selector="app=web"),
    "two": lambda: condition_of(wait_for_number_of_pods)("ci-1", 2, selector="app=web"),
    "two running": lambda: condition_of(wait_for_pods_running)("ci-1", 2, selector="app=web"),
    "one ready": lambda: condition_of(wait_for_pods_running_ready)("ci-1", 1, selector="app=web"),
    "a running": lambda: condition_of(wait_for_pod_running)("ci-1", "a"),
    "a succeeded": lambda: condition_of(wait_for_pod_success)("ci-1", "a"),
    "a gone": lambda: condition_of(wait_for_pod_not_found)("ci-1", "a"),
}
JOB_WAITS: dict[str, Callable[[], Any]] = {
    "one running": lambda: condition_of(wait_for_job_pods_running)("ci-1", "sleepers", 1),
    "two running": lambda: condition_of(wait_for_job_pods_running)("ci-1", "sleepers", 2),
    "two succeeded": lambda: condition_of(wait_for_job_pods_succeeded)("ci-1", "sleepers", 2),
    "complete": lambda: condition_of(wait_for_job_complete)("ci-1", "sleepers"),
    "failed": lambda: condition_of(wait_for_job_failed)("ci-1", "sleepers"),
}


def change(session: FakeSession, name: str, state: str) -> None:
    births = getattr(session, "births", 0)
    session.births = births + (state in ("gone", "reborn"))  # type: ignore[attr-defined]
    resource = JOBS if name == "job" else PODS
    there = session._objects.get(resource.plural, {}).get("sleepers" if name == "job" else name)
    if state in ("gone", "reborn") and there:
        session.drop(resource, there["metadata"]["name"])
    if state == "gone":
        return
    # A state is one of the object that is there; a new object has another UID.
    uid = there["metadata"]["uid"] if there and state != "reborn" else f"{name}-{session.births}"  # type: ignore[attr-defined]
    session.put(resource, made_job(uid, state) if name == "job" else made_pod(name, uid, state))


def made_pod(name: str, uid: str, state: str) -> dict[str, Any]:
    more: dict[str, Any] = {
        "labels": {"app": "web", JOB_LABEL: FIRST_JOB},
        "metadata": {"uid": uid},
    }
    if state == "ready":
        return job_pod(name, conditions=[condition("Ready")], **more)
    if state == "stuck":
        return job_pod(name, "Pending", waiting=("InvalidImageName", "no"), **more)
    return job_pod(name, state.capitalize(), **more)


def made_job(uid: str, state: str) -> dict[str, Any]:
    spec = {"parallelism": 2, "completions": 2, "suspend": state == "suspended"}
    ends = {"complete": "Complete", "failed": "Failed"}
    status = {"conditions": [condition(ends[state], reason="Said")]} if state in ends else {}
    return created_job(uid=uid, spec=spec, status=status)


def befall(session: FakeSession, what: str) -> None:
    for resource in (JOBS, PODS):
        if what == "bookmark":
            session.bookmark(resource)
        elif what == "ended":
            session.send(resource, None)
        elif what == "expired":
            session.send(resource, ApiError("too old", status=410, reason="Expired"))
        else:
            session.send(resource, ApiError("reset by peer", reason="ConnectionReset"))


def verdict_now(session: FakeSession, made: Any) -> Any:
    """Return the verdict of a condition on what is there."""
    listed: set[Any] = set()
    while missing := [source for source in made.sources() if source not in listed]:
        for source in missing:
            listed.add(source)
            deadline = Deadline.after(LIMIT, session.script_clock)
            source.replace(source.list_watch(session).list(deadline).items, 0.0)
    return made.verdict()


def outcome(
    mode: Any,
    history: list[tuple[str, str]],
    errors: list[tuple[float, str]],
    make: Callable[[], Any],
) -> tuple[str, Any]:
    session = FakeSession()
    # Each state lasts for longer than the pause between two looks: both modes can see it.
    for number, (name, state) in enumerate(history):
        session.at(2.5 * number + 0.25, change, session, name, state)
    for second, what in errors:
        session.at(second, befall, session, what)
    options = WaitSettings(timeout=LIMIT, poll=1.0, mode=mode)
    try:
        found = wait_for_condition(
            session, make(), options, Deadline.after(LIMIT, session.script_clock)
        )
    except (WaitFailed, WaitTimeout) as error:
        # An object that is replaced at once is seen to go by a watch alone.
        reason = str(error.evidence["reason"]).replace(" and created anew under another UID", "")
        return type(error).__name__, reason
    objects = found if isinstance(found, list) else [found]
    return "met", [obj and (obj["metadata"]["uid"], obj["status"]) for obj in objects]


@settings(max_examples=scaled(40), deadline=None)
@given(HISTORIES, TROUBLES, TESTS, st.booleans())
def test_both_modes_come_to_the_same_on_any_object(
    history: list[tuple[str, str]], errors: list[tuple[float, str]], text: str, many: bool
) -> None:
    def make() -> Any:
        if many:
            return ManyObjects(PODS, "ci-1", "app=web", parse_predicate(text), None)
        return OneObject(PODS, "ci-1", "a", parse_predicate(text))

    assert outcome("watch", history, errors, make) == outcome("poll", history, [], make)


@settings(max_examples=scaled(40), deadline=None)
@given(HISTORIES, TROUBLES, st.sampled_from(sorted(POD_WAITS)))
def test_both_modes_come_to_the_same_on_pods(
    history: list[tuple[str, str]], errors: list[tuple[float, str]], wait: str
) -> None:
    make = POD_WAITS[wait]
    assert outcome("watch", history, errors, make) == outcome("poll", history, [], make)


@settings(max_examples=scaled(40), deadline=None)
@given(JOB_HISTORIES, TROUBLES, st.sampled_from(sorted(JOB_WAITS)))
def test_both_modes_come_to_the_same_on_a_job(
    history: list[tuple[str, str]], errors: list[tuple[float, str]], wait: str
) -> None:
    make = JOB_WAITS[wait]
    history = [("job", "there"), *history]
    assert outcome("watch", history, errors, make) == outcome("poll", history, [], make)


@settings(max_examples=scaled(80), deadline=None)
@given(JOB_HISTORIES, st.sampled_from(sorted(JOB_WAITS)), MODES, st.floats(0.05, 9.9))
def test_last_look_decides_by_what_no_watch_has_sent(
    history: list[tuple[str, str]], wait: str, mode: Mode, before: float
) -> None:
    session = FakeSession()
    change(session, "job", "there")
    first = session._objects["jobs"]["sleepers"]["metadata"]["uid"]

    def change_all() -> None:
        for name, state in history:
            change(session, name, state)

    # Looks at 0, 10 and 20 s; the last one at 30 s.
    session.at(LIMIT - before, session.silently, change_all)
    wait_settings = WaitSettings(timeout=LIMIT, poll=10.0, mode=mode, grace=LIMIT)
    deadline = Deadline.after(LIMIT, session.script_clock)
    ended = "met"
    try:
        wait_for_condition(session, JOB_WAITS[wait](), wait_settings, deadline)
    except (WaitFailed, WaitTimeout) as error:
        ended = type(error).__name__

    assert session.clock.monotonic() == LIMIT
    last = session._objects["jobs"].get("sleepers")
    verdict = verdict_now(session, JOB_WAITS[wait]())
    if last is None or last["metadata"]["uid"] != first:
        assert ended == "WaitFailed"
    elif isinstance(verdict, Met) and verdict.settled:
        assert ended == "met"
    elif isinstance(verdict, Failed) and verdict.grace is Grace.NONE:
        assert ended == "WaitFailed"
    else:
        assert ended == "WaitTimeout"


def expected_end(states: list[str], *, follows: bool, fails_fast: bool) -> tuple[str, str]:
    """Return how a wait for completion ends over the states of a job, and the decisive UID."""
    session = FakeSession()
    known = ""
    for state in states:
        change(session, "job", state)
        there = session._objects["jobs"].get("sleepers") if "jobs" in session._objects else None
        uid = there["metadata"]["uid"] if there else ""
        known = uid if follows else known or uid
        if known and uid != known:
            return ("failed", known) if fails_fast else ("timed out", "")
        if state == "complete":
            return "met", uid
        if state == "failed" and fails_fast:
            return "failed", uid
    return "timed out", ""


@settings(max_examples=scaled(120), deadline=None)
@given(
    st.lists(st.sampled_from(["gone", "there", "complete", "failed", "reborn"]), max_size=8),
    st.sampled_from([None, False, True]),
    st.booleans(),
    MODES,
)
def test_only_an_awaited_job_counts(
    states: list[str], follow_name: bool | None, fail_fast: bool, mode: Mode
) -> None:
    """The first one of its name that is seen; any of its name with `follow_name`."""
    session = FakeSession()
    for number, state in enumerate(states):
        session.at(2.5 * number + 0.25, change, session, "job", state)
    wait_settings = WaitSettings(
        timeout=LIMIT, poll=1.0, mode=mode, fail_fast=fail_fast, follow_name=follow_name
    )
    made = JOB_WAITS["complete"]()
    deadline = Deadline.after(LIMIT, session.script_clock)
    try:
        found = wait_for_condition(session, made, wait_settings, deadline)
        ended, uid = "met", found["metadata"]["uid"]
    except WaitFailed as error:
        ended = "failed"
        (uid,) = (each["uid"] for each in error.evidence["objects"])
    except WaitTimeout:
        ended, uid = "timed out", ""

    follows = not fail_fast if follow_name is None else follow_name
    assert (ended, uid) == expected_end(states, follows=follows, fails_fast=fail_fast)

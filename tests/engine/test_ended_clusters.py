from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.client.availability import ClusterEnded
from pytest_kwait.client.resource import JOBS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS
from pytest_kwait.engine.options import Mode, WaitSettings
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.framework.job.wait import wait_for_job_complete
from pytest_kwait.framework.registry import condition_of
from tests.engine.fake_session import FakeSession
from tests.engine.test_modes_agree import (
    JOB_HISTORIES,
    JOB_WAITS,
    POD_WAITS,
    TROUBLES,
    befall,
    change,
)
from tests.examples import scaled
from tests.objects import created_job

ENDED = "the embedded cluster has ended (signal 9)"
STOPPED = "the embedded cluster does not answer: its process 7 is stopped (SIGSTOP)"
STOP = 4.0
"""Seconds after which a stopped process is reported."""

LAST_ROUND = 2.0
"""Seconds that the round of lists after the limit may take."""

OUTAGE = "API server https://10.0.0.1:6443 has refused connections for 10s (7 tries)"
MODES = st.sampled_from(["watch", "poll"])
ANY_WAIT = JOB_WAITS | {f"pods: {name}": make for name, make in POD_WAITS.items()}
STEPS = st.tuples(st.sampled_from(["list", "watch", "event"]), st.integers(1, 12))
"""A request that gets no answer, or the last event that is read."""


@settings(max_examples=scaled(80), deadline=None)
@given(
    JOB_HISTORIES,
    TROUBLES,
    st.sampled_from(sorted(JOB_WAITS)),
    MODES,
    st.sampled_from([0.05, 1.0, 600.0]),
    st.floats(0.0, 25.0),
)
def test_waits_end_with_their_cluster_at_any_step(
    history: list[tuple[str, str]],
    troubles: list[tuple[float, str]],
    wait: str,
    mode: Mode,
    poll: float,
    end: float,
) -> None:
    """A wait that is not over before ends at once, whatever pause it is in."""
    session = FakeSession()
    for number, (name, state) in enumerate([("job", "there"), *history]):
        session.at(2.5 * number + 0.25, change, session, name, state)
    for second, what in troubles:
        session.at(second, befall, session, what)
    session.at(end, session.availability.report_problem, ENDED)
    options = WaitSettings(timeout=900.0, poll=poll, mode=mode)
    raised: list[ClusterEnded] = []
    try:
        deadline = Deadline.after(900.0, session.script_clock)
        wait_for_condition(session, JOB_WAITS[wait](), options, deadline)
    except WaitFailed:
        pass
    except ClusterEnded as error:
        raised.append(error)
    assert [str(error) for error in raised] == [ENDED] * len(raised)
    assert all(error.__notes__[0].startswith("while waiting for ") for error in raised)
    assert not raised or session.clock.monotonic() >= end - 1e-6
    assert session.clock.monotonic() <= end + 0.2
    assert ACTIVE_WAITS.waits() == []


class Loss:
    """A server that is lost at a step of a wait.

    Args:
        fate: `ended` or `stopped`, as reported by the owner of its process; `refused` or `silent`.
    """

    def __init__(self, session: FakeSession, fate: str) -> None:
        self._session = session
        self._fate = fate
        self.at: float | None = None

    def begin(self) -> None:
        session = self._session
        self.at = session.clock.monotonic()
        if self._fate == "ended":
            session.availability.report_problem(ENDED)
        elif self._fate == "stopped":
            session.begin_outage("silent")
            session.at(STOP, session.availability.report_problem, STOPPED)
        else:
            session.begin_outage("refused" if self._fate == "refused" else "silent")

    def ends_wait(self, limit: float) -> tuple[str, float]:
        """Return the text that the error of a wait must begin with, and its latest time."""
        assert self.at is not None
        if self._fate == "ended":
            return ENDED, self.at
        if self._fate == "stopped" and self.at + STOP <= limit:
            return STOPPED, self.at + STOP
        clause = "has refused connections" if self._fate == "refused" else "has not answered"
        return f"API server https://fake {clause} for ", limit + LAST_ROUND


def run_until_lost(session: FakeSession, wait: str, settings: WaitSettings, loss: Loss) -> str:
    """Return how a wait ends whose server may be lost; check its error if it is."""
    notes = ["while waiting for "]
    try:
        deadline = Deadline.after(settings.timeout, session.script_clock)
        wait_for_condition(session, ANY_WAIT[wait](), settings, deadline)
        outcome, text = "met", ""
    except WaitFailed:
        outcome, text = "failed", ""
    except WaitTimeout as error:
        outcome, text = "timed out", error.evidence["reason"]
    except ClusterEnded as error:
        outcome, text, notes = "ended", str(error), error.__notes__
    finally:
        session.close()
    assert notes[0].startswith("while waiting for ")
    over = session.clock.monotonic()
    assert over <= settings.timeout + LAST_ROUND + 0.001
    assert ACTIVE_WAITS.waits() == []
    if loss.at is None:
        return outcome
    if outcome in ("met", "failed"):
        assert over == loss.at, "nothing is known of a server that is lost"
        return outcome
    line, latest = loss.ends_wait(settings.timeout)
    assert text.startswith(line)
    assert over <= latest + 0.2
    assert outcome == ("timed out" if line.startswith("API server") else "ended")
    assert outcome == "ended" or "; last seen: " in text
    return outcome


FATES = st.sampled_from(["ended", "stopped", "refused", "silent"])


@settings(max_examples=scaled(150), deadline=None)
@given(
    JOB_HISTORIES,
    TROUBLES,
    st.sampled_from(sorted(ANY_WAIT)),
    MODES,
    st.sampled_from([0.5, 10.0]),
    STEPS,
    FATES,
)
def test_waits_name_a_server_that_is_lost_at_any_step(
    history: list[tuple[str, str]],
    troubles: list[tuple[float, str]],
    wait: str,
    mode: Mode,
    poll: float,
    step: tuple[str, int],
    fate: str,
) -> None:
    session = FakeSession()
    for number, (name, state) in enumerate([("job", "there"), *history]):
        session.at(2.5 * number + 0.25, change, session, name, state)
    for second, what in troubles:
        session.at(second, befall, session, what)
    loss = Loss(session, fate)
    session.at_step(*step, loss.begin)
    run_until_lost(session, wait, WaitSettings(timeout=40.0, poll=poll, mode=mode), loss)


@settings(max_examples=scaled(60), deadline=None)
@given(st.sampled_from(sorted(JOB_WAITS)), MODES, st.booleans(), FATES)
def test_waits_name_a_server_that_is_lost_in_the_last_look(
    wait: str, mode: Mode, second: bool, fate: str
) -> None:
    """The first list of that look, or the second, gets no answer."""
    session = FakeSession()
    session.put(JOBS, created_job())
    loss = Loss(session, fate)
    poll, limit = 7.0, 30.0
    session.at(limit - 0.5, session.at_step, "list", 1 + second, loss.begin)
    settings = WaitSettings(timeout=limit, poll=poll, mode=mode)
    outcome = run_until_lost(session, wait, settings, loss)
    assert loss.at == limit
    assert outcome == ("ended" if fate == "ended" else "timed out")


def test_ended_cluster_is_no_error_to_retry() -> None:
    session = FakeSession()
    sent: list[float] = []

    def send(deadline: Deadline) -> None:
        sent.append(session.clock.monotonic())
        session.availability.check()
        raise ApiError("reset", reason="ConnectionReset")

    session.at(5, session.availability.report_problem, ENDED)
    with pytest.raises(ClusterEnded):
        request_with_retry(send, Deadline.after(900, session.clock))
    assert sent[-2] < 5 <= sent[-1]


def test_error_of_a_retried_request_names_its_tries() -> None:
    session = FakeSession()

    def send(deadline: Deadline) -> None:
        raise ApiError("https://10.0.0.1: refused", reason="ConnectionRefused")

    with pytest.raises(ApiError) as caught:
        request_with_retry(send, Deadline.after(10, session.clock))
    message, _, tries = str(caught.value).partition(" (")
    assert message == "ConnectionRefused: https://10.0.0.1: refused"
    assert tries.endswith(" tries in 10s)")


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    session = FakeSession()
    session.put(JOBS, created_job())
    monkeypatch.setattr(session.availability, "describe_outage", lambda: OUTAGE)
    return session


def run(session: FakeSession, mode: Any) -> None:
    condition = condition_of(wait_for_job_complete)("ci-1", "sleepers")
    wait_for_condition(session, condition, WaitSettings(timeout=10.0, mode=mode))


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_headline_names_a_server_that_does_not_answer(silent: FakeSession, mode: str) -> None:
    with pytest.raises(WaitTimeout) as caught:
        run(silent, mode)
    assert caught.value.evidence["reason"].startswith(f"{OUTAGE}; last seen: ")
    headline = str(caught.value).replace("\n    ", " ")
    assert headline.startswith(
        f"job ci-1/sleepers did not become complete within 10s: {OUTAGE}; last seen: "
    )


def test_live_status_names_a_server_that_does_not_answer(silent: FakeSession) -> None:
    seen: list[str] = []
    silent.at(5, lambda: seen.extend(map(str, ACTIVE_WAITS.waits())))
    with pytest.raises(WaitTimeout):
        run(silent, "watch")
    (line,) = seen
    assert f"to become complete: {OUTAGE}; last seen: " in line

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.engine.failure.wait_report import WaitReport
from pytest_kwait.engine.options import Mode, WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.framework.job.wait import (
    wait_for_job_complete,
    wait_for_job_pods_running,
    wait_for_job_pods_succeeded,
)
from pytest_kwait.framework.registry import condition_of
from tests.engine.fake_session import FakeSession, Silence
from tests.objects import condition, created_job, job_pod

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture(autouse=True)
def _no_reader_survives() -> Any:
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("kwait-watch-"):
            thread.join(60.0)
            assert not thread.is_alive()


def running(session: FakeSession, count: int = 3, **options: Any) -> Any:
    settings = WaitSettings(**({"timeout": 60.0} | options))
    return wait_for_condition(
        session, condition_of(wait_for_job_pods_running)("ci-1", "sleepers", count), settings
    )


def names(objects: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


@MODES
def test_returns_what_is_there_already(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())
    for name in "cab":
        session.put(PODS, job_pod(name))

    pods = running(session, mode=mode)

    assert names(pods) == ["a", "b", "c"]
    assert pods[0]["kind"] == "Pod"
    assert pods[0]["apiVersion"] == "v1"
    assert pods[0]["spec"]["nodeName"] == "node-1"
    assert session.clock.monotonic() == 0.0


@MODES
def test_waits_for_the_job_to_be_created_and_its_pods_to_run(
    session: FakeSession, mode: Mode
) -> None:
    session.at(3, session.put, JOBS, created_job())
    for second, name in ((4, "a"), (5, "b"), (6, "c")):
        session.at(second, session.put, PODS, job_pod(name, "Pending"))
        session.at(second + 3, session.put, PODS, job_pod(name))

    pods = running(session, mode=mode)

    assert names(pods) == ["a", "b", "c"]
    assert session.clock.monotonic() == (9.0 if mode == "watch" else 10.0)


def test_costs_two_requests_per_watched_resource_however_long(session: FakeSession) -> None:
    session.put(JOBS, created_job())
    for second, name in ((10, "a"), (50, "b"), (200, "c")):
        session.at(1, session.put, PODS, job_pod(name, "Pending"))
        session.at(second, session.put, PODS, job_pod(name))

    running(session, timeout=280.0)

    selector = "batch.kubernetes.io/controller-uid=uid-sleepers"
    assert sorted(session.requests) == [
        "list jobs metadata.name=sleepers",
        f"list pods {selector}",
        "watch jobs metadata.name=sleepers @101",
        f"watch pods {selector} @101",
    ]


@MODES
def test_pods_of_an_earlier_job_of_the_same_name_do_not_count(
    session: FakeSession, mode: Mode
) -> None:
    session.put(JOBS, created_job(uid="new"))
    for name in "abc":
        session.put(PODS, job_pod(f"old-{name}", owner="old"))

    with pytest.raises(WaitTimeout) as caught:
        running(session, mode=mode, timeout=5.0)

    assert caught.value.evidence["reason"] == "0 of 3 pods Running"


@MODES
def test_list_that_fails_until_the_deadline_is_the_reason(session: FakeSession, mode: Mode) -> None:
    session.fail("list", JOBS, *[ApiError("the server is busy", status=503)] * 100)

    with pytest.raises(WaitTimeout) as caught:
        running(session, mode=mode, timeout=5.0)

    assert caught.value.evidence["reason"] == "cannot list jobs.batch: the server is busy"


@MODES
def test_deadline_is_kept(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())

    with pytest.raises(WaitTimeout):
        running(session, mode=mode, timeout=7.5)

    assert session.clock.monotonic() == 7.5


@MODES
def test_deleted_job_ends_the_wait(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())
    session.at(4, session.drop, JOBS, "sleepers")

    with pytest.raises(WaitFailed) as caught:
        running(session, mode=mode)

    assert caught.value.evidence["reason"] == "the job was deleted"
    assert session.clock.monotonic() == 4.0
    option = "  option    follow_name=True waits for a new job of this name"
    report = caught.value.report
    assert isinstance(report, WaitReport)
    assert option in str(caught.value).splitlines()
    assert option in report.shorten(72).lines


def test_job_recreated_between_two_polls_is_another_one(session: FakeSession) -> None:
    session.put(JOBS, created_job())
    session.at(3, session.drop, JOBS, "sleepers")
    session.at(3, session.put, JOBS, created_job(uid="another"))

    with pytest.raises(WaitFailed) as caught:
        running(session, mode="poll")

    reason = "the job was deleted and created anew under another UID"
    assert caught.value.evidence["reason"] == reason
    assert "follow_name=True waits for a new job of this name" in str(caught.value)


@MODES
def test_other_failures_do_not_name_the_option_to_follow_a_name(
    session: FakeSession, mode: Mode
) -> None:
    session.put(JOBS, created_job(status={"conditions": [condition("Failed")]}))

    with pytest.raises(WaitFailed) as caught:
        running(session, mode=mode)

    assert "follow_name" not in str(caught.value)


def test_job_recreated_while_no_watch_was_open_is_another_one(session: FakeSession) -> None:
    session.put(JOBS, created_job())

    def replace() -> None:
        session.silently(session.drop, JOBS, "sleepers")
        session.silently(session.put, JOBS, created_job(uid="another"))
        session.send(JOBS, ApiError("too old resource version", status=410, reason="Expired"))

    session.at(30, replace)

    with pytest.raises(WaitFailed) as caught:
        running(session)

    reason = "the job was deleted and created anew under another UID"
    assert caught.value.evidence["reason"] == reason


@MODES
@pytest.mark.parametrize("options", [{"fail_fast": False}, {"follow_name": True}])
def test_a_new_job_of_the_name_is_followed(
    session: FakeSession, mode: Mode, options: dict[str, Any]
) -> None:
    session.put(JOBS, created_job())
    session.at(3, session.drop, JOBS, "sleepers")
    session.at(9, session.put, JOBS, created_job(uid="another"))
    session.at(10, session.put, PODS, job_pod("a", owner="another"))

    pods = running(session, 1, mode=mode, timeout=20.0, **options)

    assert names(pods) == ["a"]
    assert 10.0 <= session.clock.monotonic() <= 12.0


@MODES
def test_a_new_job_of_the_name_is_awaited_after_the_first(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())
    session.at(3, session.drop, JOBS, "sleepers")

    with pytest.raises(WaitTimeout) as caught:
        running(session, 1, mode=mode, follow_name=True, timeout=20.0)

    assert caught.value.evidence["reason"] == "the job was deleted, not found again yet"


@MODES
def test_a_followed_job_fails_early_by_its_own_state(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())
    session.at(3, session.drop, JOBS, "sleepers")
    failed = {"conditions": [condition("Failed", reason="BackoffLimitExceeded", message="no")]}
    session.at(9, session.put, JOBS, created_job(uid="another", status=failed))

    with pytest.raises(WaitFailed) as caught:
        running(session, 1, mode=mode, follow_name=True, timeout=20.0)

    assert caught.value.evidence["reason"] == (
        "the job failed: BackoffLimitExceeded: no, with 0 pods Running"
    )


@MODES
def test_failed_job_ends_the_wait_at_once(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())
    ended = [condition("Failed", reason="BackoffLimitExceeded", message="Job has reached\nit")]
    session.at(6, session.put, JOBS, created_job(status={"conditions": ended}))

    with pytest.raises(WaitFailed) as caught:
        wait_for_condition(
            session,
            condition_of(wait_for_job_complete)("ci-1", "sleepers"),
            WaitSettings(60.0, mode=mode),
        )

    reason = "the job failed: BackoffLimitExceeded: Job has reached it"
    assert caught.value.evidence["reason"] == reason
    assert session.clock.monotonic() == 6.0


@MODES
def test_a_terminal_pod_ends_the_wait_after_the_short_grace(
    session: FakeSession, mode: Mode
) -> None:
    session.put(JOBS, created_job())
    bad = job_pod("a", "Pending", waiting=("ErrImagePull", "manifest unknown"))
    session.at(2, session.put, PODS, bad)

    with pytest.raises(WaitFailed) as caught:
        running(session, mode=mode)

    assert caught.value.evidence["reason"] == "pod a: ErrImagePull: manifest unknown"
    assert session.clock.monotonic() == (7.0 if mode == "watch" else 8.0)


@MODES
def test_a_terminal_state_that_passes_within_its_grace_does_not_fail(
    session: FakeSession, mode: Mode
) -> None:
    session.put(JOBS, created_job())
    for name in "abc":
        bad = job_pod(
            name, "Pending", waiting=("CreateContainerConfigError", "configmap not found")
        )
        session.at(2, session.put, PODS, bad)
        session.at(44, session.put, PODS, job_pod(name))

    assert names(running(session, mode=mode)) == ["a", "b", "c"]


@MODES
def test_a_terminal_state_must_hold_without_a_break(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())
    bad = job_pod("a", "Pending", waiting=("ErrImagePull", "i/o timeout"))
    session.at(2, session.put, PODS, bad)
    session.at(40, session.put, PODS, job_pod("a", "Pending"))
    session.at(44, session.put, PODS, bad)

    with pytest.raises(WaitFailed):
        running(session, mode=mode, timeout=120.0)

    assert session.clock.monotonic() == (89.0 if mode == "watch" else 90.0)


def test_an_expired_grace_fails_only_after_another_list(session: FakeSession) -> None:
    session.put(JOBS, created_job())
    bad = job_pod("a", "Pending", waiting=("ErrImagePull", "manifest unknown"))
    session.put(PODS, bad)
    for name in "abc":
        session.at(4, session.silently, session.put, PODS, job_pod(name))

    pods = running(session)

    assert names(pods) == ["a", "b", "c"]
    assert session.clock.monotonic() == 5.0
    assert session.count("list pods") == 2


@MODES
def test_stable_for_restarts_when_the_condition_breaks(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job(spec={"parallelism": 1, "completions": None}))
    session.at(2, session.put, PODS, job_pod("a"))
    session.at(6, session.put, PODS, job_pod("a", "Pending"))
    session.at(8, session.put, PODS, job_pod("a"))

    running(session, 1, mode=mode, stable_for=10.0)

    assert session.clock.monotonic() == 18.0


@MODES
def test_forbidden_ends_the_wait_at_once(session: FakeSession, mode: Mode) -> None:
    error = ApiError("pods is forbidden", status=403, reason="Forbidden")
    session.put(JOBS, created_job())
    session.fail("list", PODS, error)

    with pytest.raises(ApiError) as caught:
        running(session, mode=mode)

    assert caught.value is error
    assert caught.value.__notes__ == ["while waiting for job ci-1/sleepers to have 3 pods Running"]
    assert session.clock.monotonic() == 0.0


@MODES
def test_forbidden_right_after_an_outage_must_hold(session: FakeSession, mode: Mode) -> None:
    away = ApiError("connection refused", reason="ConnectionRefused")
    forbidden = ApiError("roles are not read yet", status=403, reason="Forbidden")
    session.put(JOBS, created_job())
    session.put(PODS, job_pod("a"))
    session.fail("list", JOBS, away, forbidden)

    running(session, 1, mode=mode, poll=1.0)

    session.fail("list", JOBS, away, *[forbidden] * 100)
    started = session.clock.monotonic()
    with pytest.raises(ApiError) as caught:
        running(session, 1, mode=mode, poll=1.0)

    assert caught.value is forbidden
    assert 5.0 <= session.clock.monotonic() - started <= 15.0


@MODES
def test_server_errors_are_retried_and_reported(session: FakeSession, mode: Mode) -> None:
    refused = ApiError("connection refused", reason="ConnectionRefused")
    busy = ApiError("etcdserver: leader changed", status=500, reason="InternalError")
    session.put(JOBS, created_job())
    session.fail("list", JOBS, refused, busy)

    with pytest.raises(WaitTimeout) as caught:
        running(session, mode=mode, timeout=30.0)

    assert caught.value.evidence["api_errors"] == 2
    assert (
        caught.value.evidence["last_api_error"] == "500 InternalError: etcdserver: leader changed"
    )
    first = caught.value.evidence["timeline"][0]["text"]
    assert first.endswith(": connection refused")


@MODES
def test_a_list_without_an_answer_is_not_waited_for_to_the_end(
    session: FakeSession, mode: Mode
) -> None:
    session.put(JOBS, created_job(spec={"parallelism": 1, "completions": 1}))
    session.put(PODS, job_pod("a"))
    session.fail("list", JOBS, Silence("no complete answer within 30s"))

    running(session, 1, mode=mode)

    assert 30.0 <= session.clock.monotonic() <= 32.0
    assert session.count("list jobs") == 2


@MODES
def test_retry_after_is_honoured_and_cut_off_by_the_deadline(
    session: FakeSession, mode: Mode
) -> None:
    session.put(JOBS, created_job())
    for name in "abc":
        session.put(PODS, job_pod(name))
    session.fail("list", JOBS, ApiError("slow down", status=429, retry_after=20.0))

    running(session, mode=mode)

    assert session.clock.monotonic() >= 20.0

    session.fail("list", JOBS, ApiError("slow down", status=429, retry_after=500.0))
    begun = session.clock.monotonic()
    with pytest.raises(WaitTimeout):
        running(session, mode=mode, timeout=30.0)
    assert session.clock.monotonic() == pytest.approx(begun + 30.0, abs=0.001)


@MODES
def test_objects_are_listed_once_more_when_the_time_is_up(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())
    for name in "abc":
        session.at(1.0, session.put, PODS, job_pod(name))

    running(session, mode=mode, poll=10.0, timeout=3.0)

    assert session.clock.monotonic() == (1.0 if mode == "watch" else 3.0)


def test_the_last_list_finds_changes_that_a_silent_watch_has_not_sent(
    session: FakeSession,
) -> None:
    session.put(JOBS, created_job())
    for name in "ab":
        session.put(PODS, job_pod(name))
    session.at(1.0, session.silently, session.put, PODS, job_pod("c"))

    running(session, mode="watch", timeout=3.0)

    assert session.clock.monotonic() == 3.0


@MODES
def test_errors_of_the_last_list_leave_the_reason_of_the_timeout(
    session: FakeSession, mode: Mode
) -> None:
    session.put(JOBS, created_job())
    session.put(PODS, job_pod("a"))
    session.at(2.9, session.fail, "list", PODS, ApiError("no", status=403))

    with pytest.raises(WaitTimeout) as caught:
        running(session, mode=mode, poll=10.0, timeout=3.0)

    assert caught.value.evidence["reason"] == "1 of 3 pods Running: 1 Running"


def test_limit_of_zero_evaluates_once(session: FakeSession) -> None:
    session.put(JOBS, created_job())

    with pytest.raises(WaitTimeout):
        running(session, mode="poll", timeout=0.0)

    assert session.count("list jobs metadata.name=sleepers") == 1


@MODES
def test_garbage_is_final_when_it_repeats(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())
    garbage = [ApiError("expected a list, got <p>", status=200, reason="NotJSON") for _ in range(3)]
    session.fail("list", JOBS, *garbage)

    with pytest.raises(ApiError) as caught:
        running(session, mode=mode)

    assert caught.value is garbage[-1]


def test_garbage_with_a_right_list_between_does_not_repeat(session: FakeSession) -> None:
    session.put(JOBS, created_job())
    garbage = ApiError("expected a watch event, got <p>", status=200, reason="NotJSON")
    session.fail("list", JOBS, garbage)
    session.fail("watch", JOBS, garbage, garbage)
    for name in "abc":
        session.at(20, session.put, PODS, job_pod(name))

    assert len(running(session)) == 3


def test_expired_watch_lists_again(session: FakeSession) -> None:
    session.put(JOBS, created_job())

    def expire() -> None:
        for name in "abc":
            session.silently(session.put, PODS, job_pod(name))
        session.send(PODS, ApiError("too old resource version", status=410, reason="Expired"))

    session.at(30, expire)

    assert names(running(session)) == ["a", "b", "c"]
    assert session.count("list pods") == 2


def test_watch_that_ends_cleanly_goes_on_where_it_was(session: FakeSession) -> None:
    session.put(JOBS, created_job())
    session.put(PODS, job_pod("a", "Pending"))
    session.at(30, session.bookmark, PODS)
    session.at(40, session.send, PODS, None)
    for name in "abc":
        session.at(50, session.put, PODS, job_pod(name))

    running(session)

    assert session.count("list pods") == 1
    selector = "batch.kubernetes.io/controller-uid=uid-sleepers"
    assert f"watch pods {selector} @103" in session.requests


def test_watch_that_ends_at_once_and_empty_is_not_trusted(session: FakeSession) -> None:
    session.put(JOBS, created_job())

    def end() -> None:
        for name in "abc":
            session.silently(session.put, PODS, job_pod(name))
        session.send(PODS, None)

    session.at(0.5, end)

    running(session)

    assert session.count("list pods") == 2
    assert session.clock.monotonic() < 1.0


def test_endless_instant_closes_are_no_storm(session: FakeSession) -> None:
    session.put(JOBS, created_job())
    for tenth in range(1, 600):
        session.at(tenth / 10, session.send, PODS, None)

    with pytest.raises(WaitTimeout):
        running(session)

    assert session.count("list pods") < 60


def test_lost_connection_is_watched_from_where_it_was(session: FakeSession) -> None:
    session.put(JOBS, created_job())
    session.at(30, session.send, PODS, ApiError("reset", reason="ConnectionReset"))
    for name in "abc":
        session.at(40, session.put, PODS, job_pod(name))

    running(session)

    assert session.count("list pods") == 1
    assert session.count("watch pods") == 2


def test_lost_events_are_found_by_the_safety_list(session: FakeSession) -> None:
    session.put(JOBS, created_job())
    for name in "abc":
        session.at(20, session.silently, session.put, PODS, job_pod(name))
    session.at(400, session.send, PODS, None)

    running(session, timeout=900.0)

    assert session.clock.monotonic() == 400.0
    assert session.count("list pods") == 2


@MODES
def test_ctrl_c_ends_the_wait_and_says_what_was_awaited(session: FakeSession, mode: Mode) -> None:
    session.put(JOBS, created_job())

    def interrupt() -> None:
        raise KeyboardInterrupt

    session.at(5, interrupt)

    with pytest.raises(KeyboardInterrupt) as caught:
        running(session, mode=mode)

    assert caught.value.__notes__ == [
        "while waiting for job ci-1/sleepers to have 3 pods Running; last seen: 0 of 3 pods Running"
    ]


def test_every_change_of_the_verdict_is_logged(
    session: FakeSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pytest_kwait.wait")
    session.put(JOBS, created_job(spec={"parallelism": 1, "completions": 1}))
    session.at(1, session.put, PODS, job_pod("a", "Pending"))
    session.at(2, session.put, PODS, job_pod("a", "Pending"))
    session.at(3, session.send, PODS, ApiError("too old", status=410, reason="Expired"))
    session.at(3.25, session.put, PODS, job_pod("a"))

    running(session, 1)

    assert [record.getMessage() for record in caplog.records] == [
        "job ci-1/sleepers to have 1 pod Running: after 0s: 0 of 1 pod Running",
        "job ci-1/sleepers to have 1 pod Running: after 1s: 0 of 1 pod Running: 1 Pending",
        "job ci-1/sleepers to have 1 pod Running: after 3.2s: met",
    ]
    assert {(record.name, record.levelname) for record in caplog.records} == {
        ("pytest_kwait.wait", "INFO")
    }


@MODES
def test_succeeded_pods_are_counted_without_their_job_being_done(
    session: FakeSession, mode: Mode
) -> None:
    session.put(JOBS, created_job())
    session.put(PODS, job_pod("a", "Succeeded"))
    session.at(4, session.put, PODS, job_pod("b", "Succeeded"))
    settings = WaitSettings(60.0, mode=mode)

    pods = wait_for_condition(
        session, condition_of(wait_for_job_pods_succeeded)("ci-1", "sleepers", 2), settings
    )

    assert names(pods) == ["a", "b"]

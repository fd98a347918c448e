"""Waits on Jobs, from call to result or message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import EVENTS, JOBS, PODS
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.job.wait import (
    get_job_pods,
    wait_for_job_complete,
    wait_for_job_failed,
    wait_for_job_finish,
    wait_for_job_pods_running,
    wait_for_job_pods_succeeded,
)
from tests.objects import condition, created_job, job_pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession


def ended(kind: str, **more: Any) -> Any:
    return created_job(status={"conditions": [condition(kind, **more)], "succeeded": 3})


def test_pods_of_a_job(client: ApiClient, session: FakeSession) -> None:
    session.put(JOBS, created_job())
    owners = [{"uid": "another", "controller": True}]
    for each in (job_pod("b"), job_pod("a"), job_pod("x", owner="old")):
        session.put(PODS, each)
    session.put(PODS, job_pod("c", metadata={"ownerReferences": owners}))
    session.fail("list", PODS, ApiError("busy", status=503))

    pods = get_job_pods(client, "ci-1", "sleepers")

    assert [each["metadata"]["name"] for each in pods] == ["a", "b"]
    assert (pods[0]["apiVersion"], pods[0]["kind"]) == ("v1", "Pod")


def test_pods_of_no_job(client: ApiClient) -> None:
    with pytest.raises(ApiError) as caught:
        get_job_pods(client, "ci-1", "sleepers")

    assert caught.value.status == 404


def test_running_and_succeeded_pods(client: ApiClient, session: FakeSession) -> None:
    session.put(JOBS, created_job())
    session.put(PODS, job_pod("a"))
    session.put(PODS, job_pod("b", "Succeeded"))

    (running,) = wait_for_job_pods_running(client, "ci-1", "sleepers", 1)
    (succeeded,) = wait_for_job_pods_succeeded(client, "ci-1", "sleepers", 1, mode="poll")

    assert running["metadata"]["name"] == "a"
    assert succeeded["metadata"]["name"] == "b"


def test_ends_return_the_job(client: ApiClient, session: FakeSession) -> None:
    session.put(JOBS, ended("Complete", reason="CompletionsReached"))

    complete = wait_for_job_complete(client, "ci-1", "sleepers", "CompletionsReached", 3)
    finished = wait_for_job_finish(client, "ci-1", "sleepers")

    assert complete["kind"] == finished["kind"] == "Job"
    assert complete["spec"]["parallelism"] == 3

    session.put(JOBS, ended("Failed"))
    failed = wait_for_job_failed(client, "ci-1", "sleepers")
    assert failed["status"]["conditions"] == [{"type": "Failed", "status": "True"}]


def test_failed_job_says_why(client: ApiClient, session: FakeSession) -> None:
    session.kubectl_args = ("--context", "kind")
    container = {"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    session.put(JOBS, created_job())
    session.put(PODS, job_pod("sleepers-a", "Failed", containerStatuses=[container]))
    session.log_texts = {"sleepers-a/main": "no database\n"}
    about = {"kind": "Job", "name": "sleepers", "uid": "uid-sleepers"}
    warning = {"metadata": {"name": "e"}, "type": "Warning", "involvedObject": about}
    session.put(EVENTS, warning | {"reason": "BackoffLimitExceeded", "message": "the limit"})
    reasons = {"reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
    session.at(4, session.put, JOBS, ended("Failed", **reasons))

    with pytest.raises(WaitFailed) as caught:
        wait_for_job_complete(client, "ci-1", "sleepers", timeout="2m")

    assert str(caught.value) == (
        "job ci-1/sleepers can no longer become complete: the job failed: BackoffLimitExceeded: "
        "Job\n"
        "    has reached the limit\n"
        "  awaited   job ci-1/sleepers to become complete\n"
        "  limit     2m0s, ended after 4s (watch mode)\n"
        "  seen      1 Failed; 3 counted as succeeded by the job\n"
        "  timeline\n"
        "       0.0s  0 of 3 succeeded: 1 Failed\n"
        "       4.0s  the job failed: BackoffLimitExceeded: Job has reached the limit\n"
        "  pods\n"
        "    sleepers-a Failed on node-1\n"
        "      main: terminated, exit code 3: Error\n"
        "  warnings\n"
        "    BackoffLimitExceeded (job/sleepers): the limit\n"
        "  log of sleepers-a/main\n"
        "    | no database\n"
        "  try: kubectl --context kind --namespace ci-1 describe pod/sleepers-a"
    )


def test_pod_that_never_starts_says_why(client: ApiClient, session: FakeSession) -> None:
    session.put(JOBS, created_job())
    missing = ("CreateContainerConfigError", 'configmap "settings" not found')
    session.put(PODS, job_pod("sleepers-a", "Pending", waiting=missing))

    with pytest.raises(WaitFailed) as caught:
        wait_for_job_pods_running(client, "ci-1", "sleepers", 3)

    assert session.clock.monotonic() == 45.0
    assert str(caught.value) == (
        "job ci-1/sleepers can no longer have 3 pods Running: pod sleepers-a:\n"
        '    CreateContainerConfigError: configmap "settings" not found\n'
        "  awaited   job ci-1/sleepers to have 3 pods Running\n"
        "  limit     15m0s, ended after 45s (watch mode)\n"
        "  seen      1 Pending (CreateContainerConfigError); 0 counted as succeeded by the job\n"
        "  timeline\n"
        "       0.0s  final if it holds for 45s: pod sleepers-a: CreateContainerConfigError: "
        "confi...\n"
        '      45.0s  pod sleepers-a: CreateContainerConfigError: configmap "settings" not found\n'
        "  pods\n"
        "    sleepers-a Pending on node-1\n"
        '      main: waiting: CreateContainerConfigError: configmap "settings" not found\n'
        "  try: kubectl --namespace ci-1 describe pod/sleepers-a"
    )


def test_job_that_never_comes_says_so(client: ApiClient, session: FakeSession) -> None:
    with pytest.raises(WaitTimeout) as caught:
        wait_for_job_finish(client, "ci-1", "pi", timeout=3)

    assert isinstance(caught.value, TimeoutError)
    assert str(caught.value) == (
        "job ci-1/pi did not finish within 3s: not found yet\n"
        "  awaited   job ci-1/pi to finish\n"
        "  limit     3s, ended after 3s (watch mode)\n"
        "  there are no jobs.batch in ci-1\n"
        "  try: kubectl --namespace ci-1 get jobs.batch"
    )


def test_bad_arguments_send_no_request(client: ApiClient, session: FakeSession) -> None:
    misspelt: Any = {"moed": "poll"}
    calls: list[Any] = [
        lambda: wait_for_job_pods_running(client, "ci-1", "sleepers", -1),
        lambda: wait_for_job_pods_succeeded(client, "ci-1", "Sleepers", 1),
        lambda: wait_for_job_complete(client, "CI", "sleepers"),
        lambda: wait_for_job_complete(client, "ci-1", "sleepers", reason=""),
        lambda: wait_for_job_complete(client, "ci-1", "sleepers", completions=-3),
        lambda: wait_for_job_finish(client, "ci-1", "sleepers", timeout="never"),
        lambda: wait_for_job_failed(client, "ci-1", "sleepers", **misspelt),
        lambda: get_job_pods(client, "ci-1", "sleepers", timeout=0),
    ]

    for call in calls:
        with pytest.raises(InvalidArgument):
            call()

    assert session.requests == []

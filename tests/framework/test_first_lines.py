"""The first line of every failure message, one row per wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, CONFIG_MAPS, JOBS
from pytest_kwait.errors import WaitFailed, WaitTimeout
from pytest_kwait.framework.registry import WAITS
from tests.objects import condition, created_job

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

FAILED = created_job(status={"conditions": [condition("Failed")]})
COMPLETE = created_job(status={"conditions": [condition("Complete")]})


@pytest.fixture(autouse=True)
def _kinds(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(kind: str, api_version: str | None = None, **_: Any) -> Any:
        return match_resource(BUILT_IN.values(), kind, api_version)

    monkeypatch.setattr(session, "resolve", resolve)


TIMEOUTS = [
    (
        "wait_for_job_pods_running",
        ("sleepers", 1),
        "job ci-1/sleepers did not have 1 pod Running within 2s: not found yet",
    ),
    (
        "wait_for_job_pods_succeeded",
        ("sleepers", 2),
        "job ci-1/sleepers did not have 2 pods Succeeded within 2s: not found yet",
    ),
    (
        "wait_for_job_complete",
        ("sleepers", "CompletionsReached", 3),
        "job ci-1/sleepers did not become complete with reason CompletionsReached and 3 pods "
        "succeeded within 2s: not found yet",
    ),
    (
        "wait_for_job_failed",
        ("sleepers",),
        "job ci-1/sleepers did not fail within 2s: not found yet",
    ),
    (
        "wait_for_job_finish",
        ("sleepers",),
        "job ci-1/sleepers did not finish within 2s: not found yet",
    ),
    (
        "wait_for_pods_on_minions",
        ("deploy/web",),
        "deployment ci-1/web did not have all pods on minions within 2s: not found yet",
    ),
    (
        "wait_for",
        ("cm/c", "create"),
        "configmap ci-1/c did not get created within 2s: not found yet",
    ),
    (
        "wait_for",
        ("cm/there", "delete"),
        "configmap ci-1/there did not get deleted within 2s: still there, not being deleted",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "headline"), TIMEOUTS)
def test_timeouts(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, headline: str
) -> None:
    session.put(CONFIG_MAPS, {"metadata": {"name": "there"}})

    with pytest.raises(WaitTimeout) as caught:
        WAITS[name].function(client, "ci-1", *arguments, timeout=2)

    assert caught.value.args == (headline,)


FAILURES = [
    (
        "wait_for_job_pods_running",
        ("sleepers", 1),
        FAILED,
        "job ci-1/sleepers can no longer have 1 pod Running: the job failed, with 0 pods Running",
    ),
    (
        "wait_for_job_complete",
        ("sleepers",),
        FAILED,
        "job ci-1/sleepers can no longer become complete: the job failed",
    ),
    (
        "wait_for_job_failed",
        ("sleepers",),
        COMPLETE,
        "job ci-1/sleepers can no longer fail: the job is complete",
    ),
    (
        "wait_for_job_finish",
        ("sleepers",),
        created_job(spec={"suspend": True}),
        "job ci-1/sleepers can no longer finish: the job is suspended",
    ),
    (
        "wait_for",
        ("job/sleepers", "condition=Complete"),
        FAILED,
        "job ci-1/sleepers can no longer have condition Complete=True: the job is failed",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "the_job", "headline"), FAILURES)
def test_failures(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, the_job: Any, headline: str
) -> None:
    session.put(JOBS, the_job)

    with pytest.raises(WaitFailed) as caught:
        WAITS[name].function(client, "ci-1", *arguments)

    assert caught.value.args == (headline,)

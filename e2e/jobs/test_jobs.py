"""Waiting for the pods of a job and for its end: by fixture, marker and function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait
from e2e.raising import times_out

if TYPE_CHECKING:
    from pytest_kwait import Kwait, Mode
    from pytest_kwait.typing import WaitForJobFinish, WaitForJobPodsRunning


def test_job_fixture(kwait: Kwait, wait_for_job_pods_running: WaitForJobPodsRunning) -> None:
    """The fixture knows the test's cluster, namespace and settings."""
    kwait.apply("sleepers.yaml")

    pods = wait_for_job_pods_running("sleepers", 3)

    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert {pod["metadata"]["namespace"] for pod in pods} == {kwait.namespace}


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_fewer_pods_on_the_way_to_all_do_not_count(kwait: Kwait, mode: Mode) -> None:
    kwait.apply("sleepers.yaml")

    times_out(
        "3 pods Running, 1 more than awaited",
        kwait.wait_for_job_pods_running,
        "sleepers",
        2,
        mode=mode,
    )


@pytest.mark.kwait_manifests("sleepers.yaml")
@pytest.mark.wait_for_job_pods_running("sleepers", 3, timeout="4m")
def test_job_marker(kwait: Kwait) -> None:
    """The marker is a precondition: the body starts when it holds."""
    job = kwait.get("job/sleepers")

    assert job["status"]["active"] == 3


@pytest.mark.kwait_manifests("sleepers.yaml")
def test_job_function(kwait: Kwait) -> None:
    """The function takes any client of the official library."""
    pods = pytest_kwait.wait_for_job_pods_running(
        kwait.client, kwait.namespace, "sleepers", 3, timeout="4m", poll="1s"
    )

    assert len({pod["metadata"]["uid"] for pod in pods}) == 3


@pytest.mark.kwait_manifests("sleepers.yaml")
def test_poll_mode_has_the_same_result(kwait: Kwait) -> None:
    """`mode="poll"` lists every `poll` interval, as the Kubernetes framework does."""
    polled = kwait.wait_for_job_pods_running("sleepers", 3, mode="poll", poll="200ms")
    watched = kwait.wait_for_job_pods_running("sleepers", 3, mode="watch")

    def uids(pods: list[dict[str, Any]]) -> set[str]:
        return {pod["metadata"]["uid"] for pod in pods}

    assert uids(polled) == uids(watched)


@pytest.mark.kwait_manifests("greeting.yaml")
def test_job_complete(kwait: Kwait) -> None:
    """Status, pods and logs of a finished Job."""
    job = kwait.wait_for_job_complete("greeting", completions=2)
    pods = kwait.wait_for_job_pods_succeeded("greeting", 2)

    assert job["status"]["succeeded"] == 2
    assert [kwait.logs(pod["metadata"]["name"]) for pod in pods] == ["hello from a job\n"] * 2


@pytest.mark.kwait_manifests("greeting.yaml", "hopeless.yaml")
def test_job_finished(wait_for_job_finish: WaitForJobFinish) -> None:
    """`wait_for_job_finish` takes success and failure alike."""

    def ends(job: dict[str, Any]) -> set[str]:
        return {c["type"] for c in job["status"]["conditions"] if c["status"] == "True"}

    assert "Complete" in ends(wait_for_job_finish("greeting"))
    assert "Failed" in ends(wait_for_job_finish("hopeless"))


@pytest.mark.kwait_manifests("hopeless.yaml")
def test_job_failed(kwait: Kwait) -> None:
    """A test of a Job's failure."""
    job = kwait.wait_for_job_failed("hopeless")

    assert job["status"]["failed"] == 1


def test_pods_of_an_earlier_job_of_the_same_name_do_not_count(kwait: Kwait) -> None:
    """Pods are found by the Job's UID, without those of an earlier Job."""
    kwait.apply("sleepers.yaml")
    before = kwait.wait_for_job_pods_running("sleepers", 3)
    kwait.delete("job/sleepers", propagation="Orphan")
    kwait.wait_for("job/sleepers", "delete")
    kwait.apply("sleepers.yaml")

    after = kwait.wait_for_job_pods_running("sleepers", 3)

    assert {p["metadata"]["uid"] for p in before}.isdisjoint(p["metadata"]["uid"] for p in after)


@pytest.mark.kwait_manifests("sleepers.yaml")
def test_get_job_pods(kwait: Kwait) -> None:
    """`get_job_pods` is one look without waiting."""
    kwait.wait_for_job_pods_running("sleepers", 3)

    assert len(pytest_kwait.get_job_pods(kwait.client, kwait.namespace, "sleepers")) == 3

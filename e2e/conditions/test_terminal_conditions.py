"""Conditions that an object's own status rules out fail a wait early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import TYPO, container, job, pod, replica_set
from e2e.raising import raises
from e2e.workloads.quotas import hold_to_quota
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_a_phase_of_a_pod_that_cannot_start(kwait: Kwait) -> None:
    kwait.create(pod("typo", container(**TYPO)))

    with raises(WaitFailed, "can no longer have .* equal to 'Running': InvalidImageName"):
        kwait.wait_for("pod/typo", "jsonpath={.status.phase}=Running", timeout="4m")


def test_a_phase_after_the_last(kwait: Kwait) -> None:
    kwait.create(pod("done", container(script="true")))
    kwait.wait_for("pod/done", "jsonpath={.status.phase}=Succeeded", timeout="4m")

    with raises(WaitFailed, "the pod has ended: Succeeded"):
        kwait.wait_for("pod/done", "jsonpath={.status.phase}=Running", timeout="4m")


def test_numbers_of_a_job_that_has_failed(kwait: Kwait) -> None:
    kwait.create(job("pi", container(script="false"), backoffLimit=0))

    with raises(WaitFailed, "the job is (failed|about to fail)"):
        kwait.wait_for("job/pi", "jsonpath={.status.succeeded}=1", timeout="4m")


def test_replicas_that_a_quota_refuses(kwait: Kwait) -> None:
    hold_to_quota(kwait, pods="1")
    kwait.create(replica_set("web", 2))

    kwait.wait_for("replicaset/web", "jsonpath={.status.replicas}=1", timeout="4m")
    with raises(WaitFailed, "exceeded quota: few"):
        kwait.wait_for(
            "replicaset/web", "jsonpath={.status.readyReplicas}=2", timeout="4m", grace=0
        )

"""Jobs with pods that the server rejects, which only events report."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from e2e.objects import job
from e2e.raising import raises
from e2e.workloads.quotas import hold_to_quota
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def of_account(name: str, account: str) -> dict[str, Any]:
    made = job(name)
    made["spec"]["template"]["spec"]["serviceAccountName"] = account
    return made


def test_job_pods_rejected_by_pod_security(kwait: Kwait) -> None:
    """The message has the refusal's text."""
    enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": kwait.namespace, "labels": enforce}
    kwait.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    kwait.create(job("root"))

    with raises(WaitFailed, 'FailedCreate: pods "root-\\S+" is forbidden: violates PodSecurity "r'):
        kwait.wait_for_job_pods_running("root", 1, timeout="4m", grace="500ms")


def test_job_pods_rejected_by_quota(kwait: Kwait) -> None:
    """The quota rejects further pods until it is freed."""
    hold_to_quota(kwait, pods="1")
    kwait.create(job("two", parallelism=2, completions=2))

    assert len(kwait.wait_for_job_pods_running("two", 1)) == 1
    with raises(WaitFailed, 'FailedCreate: pods "two-\\S+" is forbidden: exceeded quota: few'):
        kwait.wait_for_job_complete("two", timeout="4m", grace="500ms")

    freed = threading.Timer(1.0, kwait.delete, ["resourcequota/few"])
    freed.start()
    # The controller may pause for a minute between its tries, which is longer than the usual grace.
    assert len(kwait.wait_for_job_pods_running("two", 2, grace="2m")) == 2
    freed.join()


def test_job_waits_for_its_service_account(kwait: Kwait) -> None:
    """A temporary refusal is tolerated for the grace."""
    kwait.create(of_account("late", "late"))

    with raises(WaitFailed, 'FailedCreate: .*serviceaccount "late" not found'):
        kwait.wait_for_job_finish("late", timeout="4m", grace="500ms")

    kwait.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "late"}})
    assert kwait.wait_for_job_ready("late", 1, grace="2m")["status"]["ready"] == 1

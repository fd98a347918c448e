"""Waiting for rollouts as `kubectl rollout status` does, but failing early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import NEVER_READY, deployment
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def set_of(kind: str, name: str, container: dict[str, Any] | None = None) -> dict[str, Any]:
    made = deployment(name, 1, container)
    made["kind"] = kind
    if kind == "DaemonSet":
        del made["spec"]["replicas"]
    return made


def test_deployment_rollout(kwait: Kwait) -> None:
    """Each rollout is one: the status of the one before does not count."""
    kwait.apply(deployment("web", 1))
    kwait.wait_for_rollout_status("deployment/web", 1)
    kwait.apply(deployment("web", 1, {"command": ["sh", "-c", "sleep 301"]}))

    web = kwait.wait_for_rollout_status("deploy/web", 2)

    assert web["status"]["updatedReplicas"] == 1
    with raises(WaitFailed, r"desired revision \(1\) is different from the running revision \(2\)"):
        kwait.wait_for_rollout_status("deployments.apps/web", 1)


def test_rollout_messages_equal_kubectls(kwait: Kwait) -> None:
    kwait.create(deployment("slow", 1, NEVER_READY))

    times_out(
        'Waiting for deployment "slow" rollout to finish: 0 of 1 updated rep',
        kwait.wait_for_rollout_status,
        "deployment/slow",
    )


def test_rollout_with_missed_progress_deadline(kwait: Kwait) -> None:
    """With what the pods are stuck in, where they are."""
    kwait.create(
        deployment(
            "huge", 1, {"resources": {"requests": {"cpu": "999"}}}, progressDeadlineSeconds=1
        )
    )

    with raises(
        WaitFailed,
        r'deployment "huge" exceeded its progress deadline \(pod huge-\S+: Unschedulable: 0/',
    ):
        kwait.wait_for_rollout_status("deployment/huge", timeout="4m", grace="3s")


def test_daemon_set_rollout(kwait: Kwait) -> None:
    kwait.apply(set_of("DaemonSet", "agent"))
    first = kwait.wait_for_rollout_status("ds/agent")["status"]
    assert first["numberAvailable"] == first["desiredNumberScheduled"]

    kwait.apply(set_of("DaemonSet", "agent", {"image": "Busybox:not a tag"}))

    with raises(WaitFailed, r"daemonset \S+ can no longer roll out: pod agent-\S+: InvalidIm"):
        kwait.wait_for_rollout_status("daemonset/agent", timeout="4m", grace=0)


def test_stateful_set_rollout(kwait: Kwait) -> None:
    kwait.apply(set_of("StatefulSet", "db"))
    assert kwait.wait_for_rollout_status("sts/db")["status"]["readyReplicas"] == 1

    kwait.apply(set_of("StatefulSet", "db", {"image": "Busybox:not a tag"}))

    with raises(WaitFailed, "statefulset .* can no longer roll out: pod db-0: InvalidImageN"):
        kwait.wait_for_rollout_status("statefulset/db", timeout="4m", grace=0)


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
def test_only_rolling_updates_have_a_status(kwait: Kwait, kind: str) -> None:
    manifest = set_of(kind, "by-hand")
    manifest["spec"]["updateStrategy"] = {"type": "OnDelete"}
    kwait.create(manifest)

    with raises(WaitFailed, "rollout status is only available for RollingUpdate strategy type"):
        kwait.wait_for_rollout_status(f"{kind.lower()}/by-hand")

"""The blocking rolling update, which replaces one pod after another."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import (
    NEVER_READY,
    daemon_set,
    deployment,
    replica_set,
    replication_controller,
    stateful_set,
)
from e2e.raising import raises
from pytest_kwait import WaitTimeout, rolling_update
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pytest_kwait import Kwait, RollingUpdate


@pytest.mark.parametrize("made", [replication_controller("web", 2), deployment("web", 2)])
def test_all_pods_are_replaced(kwait: Kwait, made: dict[str, Any]) -> None:
    """With `watch` it ends when the last pod is ready; by default it polls every 5 s."""
    kwait.create(made)
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=2)
    before = {each["metadata"]["uid"] for each in kwait.list("pods")}

    pods = kwait.rolling_update(f"{made['kind']}/web", "500ms", mode="watch")

    assert len(pods) == 2
    assert not before & {each["metadata"]["uid"] for each in pods}


def test_a_new_template_gets_into_the_pods(kwait: Kwait) -> None:
    """Unlike the controller itself, it replaces the pods of a changed template."""
    kwait.create(replication_controller("web", 1))
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=1)
    changed = replication_controller("web", 1)
    changed["spec"]["template"]["metadata"]["labels"]["version"] = "2"
    kwait.apply(changed)
    assert kwait.list("pods", selector="version=2") == []

    (new,) = rolling_update(
        kwait.client, kwait.namespace, "rc/web", "100ms", poll="200ms", timeout="4m"
    )

    assert new["metadata"]["labels"]["version"] == "2"


def test_pods_are_replaced_one_by_one(kwait: Kwait, kwait_rolling_update: RollingUpdate) -> None:
    """It pauses after each pod; pods need not be ready."""
    kwait.create(replication_controller("web", 3))
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=3)
    before = {each["metadata"]["uid"] for each in kwait.list("pods")}

    began = SYSTEM_CLOCK.monotonic()
    pods = kwait_rolling_update("rc/web", "500ms", mode="watch")

    assert SYSTEM_CLOCK.monotonic() - began >= 3 * 0.5
    assert len(pods) == 3
    assert not before & {each["metadata"]["uid"] for each in pods}


@pytest.mark.parametrize(
    "made",
    [
        replication_controller("web", 2),
        replica_set("web", 2),
        deployment("web", 2),
        stateful_set("web", 2),
        daemon_set("web"),
    ],
    ids=lambda made: made["kind"],
)
def test_strictly_each_replacement_is_ready_before_the_next_deletion(
    kwait: Kwait, kubelets: tuple[str, ...], made: dict[str, Any]
) -> None:
    """Pods are identified by UID, as a stateful set reuses names."""
    target = f"{made['kind']}/web"
    count = made["spec"].get("replicas") or len(kubelets)
    kwait.create(made)
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=count)
    before = {each["metadata"]["uid"] for each in kwait.list("pods")}

    pods = kwait.rolling_update(target, 0, strict=True)

    assert len(pods) == count
    assert not before & {each["metadata"]["uid"] for each in pods}
    # Times are whole seconds; pods created in the same one are sorted by readiness.
    in_order = sorted(
        pods, key=lambda pod: (str(pod["metadata"]["creationTimestamp"]), ready_since(pod))
    )
    for earlier, later in itertools.pairwise(in_order):
        assert ready_since(earlier) <= later["metadata"]["creationTimestamp"]


def test_a_replacement_that_never_becomes_ready_keeps_the_others(kwait: Kwait) -> None:
    """The old pods were ready before the template changed; one of them is spared."""
    kwait.create(replication_controller("web", 2))
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=2)
    changed = replication_controller("web", 2)
    changed["spec"]["template"]["spec"]["containers"][0] |= NEVER_READY
    kwait.apply(changed)

    # Once: each update deletes a pod.
    with raises(WaitTimeout, r"not have a ready pod in the place of web-\w+ within 10s: 0 of 1"):
        kwait.rolling_update("rc/web", 0, strict=True, timeout="10s")

    old = [pod for pod in kwait.list("pods") if ready_since(pod)]
    assert len(old) == 1


def ready_since(pod: dict[str, Any]) -> str:
    """Return when a pod became ready; empty for one that is not."""
    return next(
        (
            str(each["lastTransitionTime"])
            for each in pod["status"].get("conditions") or ()
            if each["type"] == "Ready" and each["status"] == "True"
        ),
        "",
    )

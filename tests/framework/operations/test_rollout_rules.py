"""kubectl's own cases of `rollout status`, and the cases that it leaves open."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.framework.operations.rollout import (
    daemon_set_rollout,
    deployment_rollout,
    stateful_set_rollout,
)

ONLY_ROLLING = Failed("rollout status is only available for RollingUpdate strategy type")
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


def workload(generation: int, spec: Any, status: Any, revision: str = "") -> dict[str, Any]:
    annotations = {"deployment.kubernetes.io/revision": revision} if revision else None
    metadata = {"name": "foo", "generation": generation, "annotations": annotations}
    return {"metadata": metadata, "spec": spec, "status": status}


def deployment(
    generation: int, replicas: int | None, *counts: int, observed: int = 1, **more: Any
) -> dict[str, Any]:
    names = ("replicas", "updatedReplicas", "availableReplicas")
    status = {"observedGeneration": observed, **dict(zip(names, counts, strict=True))}
    revision = more.pop("revision", "")
    return workload(generation, {"replicas": replicas}, status | more, revision)


LEAD = 'Waiting for deployment "foo" rollout to finish'


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        # kubectl's
        (
            deployment(0, 1, 1, 0, 1),
            Pending(f"{LEAD}: 0 out of 1 new replicas have been updated..."),
        ),
        (deployment(1, 1, 2, 1, 2), Pending(f"{LEAD}: 1 old replicas are pending termination...")),
        (
            deployment(1, 2, 2, 2, 1),
            Pending(f"{LEAD}: 1 of 2 updated replicas are available..."),
        ),
        (deployment(1, 2, 2, 2, 2), Met()),
        (
            deployment(2, 2, 2, 2, 2),
            Pending("Waiting for deployment spec update to be observed..."),
        ),
        # and others
        (
            deployment(1, 2, 2, 2, 1, conditions=[LATE]),
            Failed('deployment "foo" exceeded its progress deadline', Grace.SHORT),
        ),
        (
            deployment(2, 2, 2, 2, 1, conditions=[LATE]),
            Pending("Waiting for deployment spec update to be observed..."),
        ),
        (deployment(1, 0, 0, 0, 0), Met()),
        (
            deployment(1, None, 0, 0, 0),
            Pending(f"{LEAD}: 0 out of 1 new replicas have been updated..."),
        ),
        (
            workload(1, None, None),
            Pending("Waiting for deployment spec update to be observed..."),
        ),
        (
            workload(1, {"replicas": 1}, {"observedGeneration": 1, "conditions": None}),
            Pending(f"{LEAD}: 0 out of 1 new replicas have been updated..."),
        ),
    ],
)
def test_deployment(obj: dict[str, Any], verdict: Verdict) -> None:
    assert deployment_rollout(obj) == verdict


@pytest.mark.parametrize(
    ("observed", "running", "verdict"),
    [
        (2, "3", Met()),
        (
            2,
            "4",
            Failed("desired revision (3) is different from the running revision (4)"),
        ),
        (
            1,
            "4",
            Failed("desired revision (3) is different from the running revision (4)"),
        ),
        (1, "2", Pending("Waiting for deployment spec update to be observed...")),
        (
            2,
            "2",
            Failed("desired revision (3) is different from the running revision (2)", Grace.LONG),
        ),
        (
            2,
            "",
            Failed("desired revision (3) is different from the running revision (0)", Grace.LONG),
        ),
    ],
)
def test_revision_of_a_deployment(observed: int, running: str, verdict: Verdict) -> None:
    obj = deployment(2, 1, 1, 1, 1, observed=observed, revision=running)

    assert deployment_rollout(obj, 3) == verdict


def daemon_set(generation: int, *counts: int, observed: int = 1, **spec: Any) -> dict[str, Any]:
    names = ("updatedNumberScheduled", "desiredNumberScheduled", "numberAvailable")
    status = {"observedGeneration": observed, **dict(zip(names, counts, strict=True))}
    return workload(generation, {"updateStrategy": {"type": "RollingUpdate"}, **spec}, status)


DAEMONS = 'Waiting for daemon set "foo" rollout to finish'


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        # kubectl's
        (
            daemon_set(0, 0, 1, 0),
            Pending(f"{DAEMONS}: 0 out of 1 new pods have been updated..."),
        ),
        (
            daemon_set(1, 2, 2, 1),
            Pending(f"{DAEMONS}: 1 of 2 updated pods are available..."),
        ),
        (daemon_set(1, 2, 2, 2), Met()),
        (
            daemon_set(2, 2, 2, 2),
            Pending("Waiting for daemon set spec update to be observed..."),
        ),
        (daemon_set(1, 0, 0, 0, updateStrategy={"type": "OnDelete"}), ONLY_ROLLING),
        # and others
        (daemon_set(1, 0, 0, 0), Met()),
        (workload(0, None, None), Pending("Waiting for daemon set spec update to be observed...")),
    ],
)
def test_daemon_set(obj: dict[str, Any], verdict: Verdict) -> None:
    assert daemon_set_rollout(obj) == verdict


def stateful_set(
    generation: int, observed: int, ready: int, updated: int, rolling: Any = None, **more: Any
) -> dict[str, Any]:
    strategy = {"type": more.pop("strategy", "RollingUpdate"), "rollingUpdate": rolling}
    status = {"observedGeneration": observed, "readyReplicas": ready, "updatedReplicas": updated}
    return workload(generation, {"replicas": 3, "updateStrategy": strategy}, status | more)


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        # kubectl's
        (stateful_set(1, 1, 1, 0, strategy="OnDelete"), ONLY_ROLLING),
        (
            stateful_set(2, 1, 3, 0),
            Pending("Waiting for statefulset spec update to be observed..."),
        ),
        (stateful_set(1, 2, 2, 0), Pending("Waiting for 1 pods to be ready...")),
        (stateful_set(1, 2, 3, 1, {"partition": 2}), Met()),
        (
            stateful_set(1, 2, 3, 0, {"partition": 2}),
            Pending(
                "Waiting for partitioned roll out to finish: 0 out of 1 new pods have been "
                "updated..."
            ),
        ),
        (stateful_set(1, 2, 3, 3, currentRevision="foo", updateRevision="foo"), Met()),
        # and others
        (
            stateful_set(1, 2, 3, 1, currentRevision="foo", updateRevision="bar"),
            Pending("waiting for statefulset rolling update to complete 1 pods at revision bar..."),
        ),
        (stateful_set(1, 2, 3, 3, {}), Met()),
        (
            stateful_set(1, 2, 3, 2, {"partition": None}),
            Pending(
                "Waiting for partitioned roll out to finish: 2 out of 3 new pods have been "
                "updated..."
            ),
        ),
        (stateful_set(1, 2, 3, 0, {"partition": 5}), Met()),
        (
            stateful_set(0, 0, 3, 3),
            Pending("Waiting for statefulset spec update to be observed..."),
        ),
        (
            workload(1, {"updateStrategy": None}, {"observedGeneration": 1}),
            Pending("Waiting for 1 pods to be ready..."),
        ),
    ],
)
def test_stateful_set(obj: dict[str, Any], verdict: Verdict) -> None:
    assert stateful_set_rollout(obj) == verdict

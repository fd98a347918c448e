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
from tests.objects import deployment, workload

ONLY_ROLLING = Failed("rollout status is only available for RollingUpdate strategy type")
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


def bare(generation: int, spec: Any = None, status: Any = None) -> dict[str, Any]:
    return {"metadata": {"name": "foo", "generation": generation}, "spec": spec, "status": status}


def rolling_deployment(
    generation: int, replicas: int | None, *counts: int, revision: str = "", **fields: Any
) -> dict[str, Any]:
    return deployment(
        *counts, name="foo", revision=revision, generation=generation, replicas=replicas, **fields
    )


LEAD = 'Waiting for deployment "foo" rollout to finish'


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        # kubectl's
        (
            rolling_deployment(0, 1, 1, 0, 1),
            Pending(f"{LEAD}: 0 out of 1 new replicas have been updated..."),
        ),
        (
            rolling_deployment(1, 1, 2, 1, 2),
            Pending(f"{LEAD}: 1 old replicas are pending termination..."),
        ),
        (
            rolling_deployment(1, 2, 2, 2, 1),
            Pending(f"{LEAD}: 1 of 2 updated replicas are available..."),
        ),
        (rolling_deployment(1, 2, 2, 2, 2), Met()),
        (
            rolling_deployment(2, 2, 2, 2, 2),
            Pending("Waiting for deployment spec update to be observed..."),
        ),
        # and others
        (
            rolling_deployment(1, 2, 2, 2, 1, conditions=[LATE]),
            Failed('deployment "foo" exceeded its progress deadline', Grace.SHORT),
        ),
        (
            rolling_deployment(2, 2, 2, 2, 1, conditions=[LATE]),
            Pending("Waiting for deployment spec update to be observed..."),
        ),
        (rolling_deployment(1, 0, 0, 0, 0), Met()),
        (
            rolling_deployment(1, None, 0, 0, 0),
            Pending(f"{LEAD}: 0 out of 1 new replicas have been updated..."),
        ),
        (
            bare(1),
            Pending("Waiting for deployment spec update to be observed..."),
        ),
        (
            bare(1, {"replicas": 1}, {"observedGeneration": 1, "conditions": None}),
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
    obj = rolling_deployment(2, 1, 1, 1, 1, observed=observed, revision=running)

    assert deployment_rollout(obj, 3) == verdict


def rolling_daemons(generation: int, *counts: int, **fields: Any) -> dict[str, Any]:
    names = ("updatedNumberScheduled", "desiredNumberScheduled", "numberAvailable")
    fields = {"updateStrategy": {"type": "RollingUpdate"}, **fields}
    status = dict(zip(names, counts, strict=True))
    return workload("DaemonSet", "foo", generation=generation, status=status, **fields)


DAEMONS = 'Waiting for daemon set "foo" rollout to finish'


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        # kubectl's
        (
            rolling_daemons(0, 0, 1, 0),
            Pending(f"{DAEMONS}: 0 out of 1 new pods have been updated..."),
        ),
        (
            rolling_daemons(1, 2, 2, 1),
            Pending(f"{DAEMONS}: 1 of 2 updated pods are available..."),
        ),
        (rolling_daemons(1, 2, 2, 2), Met()),
        (
            rolling_daemons(2, 2, 2, 2),
            Pending("Waiting for daemon set spec update to be observed..."),
        ),
        (rolling_daemons(1, 0, 0, 0, updateStrategy={"type": "OnDelete"}), ONLY_ROLLING),
        # and others
        (rolling_daemons(1, 0, 0, 0), Met()),
        (bare(0), Pending("Waiting for daemon set spec update to be observed...")),
    ],
)
def test_daemon_set(obj: dict[str, Any], verdict: Verdict) -> None:
    assert daemon_set_rollout(obj) == verdict


def rolling_set(
    generation: int, observed: int, ready: int, updated: int, rolling: Any = None, **fields: Any
) -> dict[str, Any]:
    strategy = {"type": fields.pop("strategy", "RollingUpdate"), "rollingUpdate": rolling}
    return workload(
        "StatefulSet",
        "foo",
        observed=observed,
        generation=generation,
        replicas=3,
        updateStrategy=strategy,
        readyReplicas=ready,
        updatedReplicas=updated,
        **fields,
    )


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        # kubectl's
        (rolling_set(1, 1, 1, 0, strategy="OnDelete"), ONLY_ROLLING),
        (
            rolling_set(2, 1, 3, 0),
            Pending("Waiting for statefulset spec update to be observed..."),
        ),
        (rolling_set(1, 2, 2, 0), Pending("Waiting for 1 pods to be ready...")),
        (rolling_set(1, 2, 3, 1, {"partition": 2}), Met()),
        (
            rolling_set(1, 2, 3, 0, {"partition": 2}),
            Pending(
                "Waiting for partitioned roll out to finish: 0 out of 1 new pods have been "
                "updated..."
            ),
        ),
        (rolling_set(1, 2, 3, 3, currentRevision="foo", updateRevision="foo"), Met()),
        # and others
        (
            rolling_set(1, 2, 3, 1, currentRevision="foo", updateRevision="bar"),
            Pending("waiting for statefulset rolling update to complete 1 pods at revision bar..."),
        ),
        (rolling_set(1, 2, 3, 3, {}), Met()),
        (
            rolling_set(1, 2, 3, 2, {"partition": None}),
            Pending(
                "Waiting for partitioned roll out to finish: 2 out of 3 new pods have been "
                "updated..."
            ),
        ),
        (rolling_set(1, 2, 3, 0, {"partition": 5}), Met()),
        (
            rolling_set(0, 0, 3, 3),
            Pending("Waiting for statefulset spec update to be observed..."),
        ),
        (
            bare(1, {"updateStrategy": None}, {"observedGeneration": 1}),
            Pending("Waiting for 1 pods to be ready..."),
        ),
    ],
)
def test_stateful_set(obj: dict[str, Any], verdict: Verdict) -> None:
    assert stateful_set_rollout(obj) == verdict

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.validation.apps import (
    parse_int_or_percent,
    validate_not_more_than_100_percent,
    validate_stateful_set_spec_update,
    validate_status_counts,
)
from pytest_kwait.simulator.validation.batch import validate_job_status_update, validate_job_update
from tests.objects import job
from tests.simulator.cluster import new_cluster

MORE = "must not be greater than 100%"


@pytest.mark.parametrize(
    ("given", "number"),
    [(3, 3), ("25%", 25), ("0%", 0), ("half", 0), (f"{'0' * 5000}7%", 7), ("100%", 100)],
)
def test_int_or_percent_values(given: int | str, number: int) -> None:
    assert parse_int_or_percent(given) == number


@pytest.mark.parametrize("given", ["101%", f"{'9' * 5000}%"])
def test_more_than_100_percent_is_rejected(given: str) -> None:
    found = validate_not_more_than_100_percent(given, "spec.minAvailable")
    (error,) = found
    assert str(error) == f'spec.minAvailable: Invalid value: "{given}": {MORE}'


Obj = dict[str, Any]

COMPLETE = {"type": "Complete", "status": "True"}
FAILED = {"type": "Failed", "status": "True"}
SUCCEEDED = {"type": "SuccessCriteriaMet", "status": "True"}
TANDEM = "can only be modified in tandem with spec.parallelism"


def change(spec: Obj, status: Obj, new: Obj, pod: Obj | None = None) -> list[str]:
    """What is said of a change of a job's spec, and of its pods' spec."""
    stored = new_cluster().create("jobs.batch", job(**spec), "default")
    stored["status"] = status
    changed = clone(stored)
    changed["spec"].update(new)
    changed["spec"]["template"]["spec"].update(pod or {})
    found = validate_job_update(changed, stored)
    return [str(one) for one in found]


@pytest.mark.parametrize(
    ("spec", "status", "new", "found"),
    [
        ({}, {}, {"parallelism": 5, "suspend": True, "backoffLimit": 1}, []),
        ({}, {}, {"completions": 2}, ["spec.completions: Invalid value: 2: field is immutable"]),
        (
            {"completions": 3, "completionMode": "Indexed"},
            {},
            {"completions": 2},
            [f"spec.completions: Invalid value: 2: {TANDEM}"],
        ),
        (
            {"completions": 3, "completionMode": "Indexed"},
            {},
            {"completions": 2, "parallelism": 2},
            [],
        ),
        (
            {},
            {},
            {"managedBy": "a.b/c"},
            ['spec.managedBy: Invalid value: "a.b/c": field is immutable'],
        ),
    ],
)
def test_mutable_job_fields(spec: Obj, status: Obj, new: Obj, found: list[str]) -> None:
    assert change(spec, status, new) == found


NAMED = {"hostname": "h"}
SELECTING = {"nodeSelector": {"a": "b"}}
SUSPENDED = {"type": "Suspended", "status": "True"}


@pytest.mark.parametrize(
    ("suspend", "status", "allowed"),
    [
        (True, {}, True),
        (True, {"startTime": "t"}, False),
        (True, {"startTime": "t", "conditions": [SUSPENDED]}, True),
        (True, {"startTime": "t", "conditions": [SUSPENDED], "active": 1}, False),
        (False, {}, False),
    ],
)
def test_scheduling_directives_of_a_suspended_job_are_mutable(
    suspend: bool,
    status: Obj,
    allowed: bool,
) -> None:
    found = change({"suspend": suspend}, status, {}, SELECTING)
    assert len(found) == (0 if allowed else 1)
    assert all(text.endswith(": field is immutable") for text in found)


def test_other_template_fields_of_a_suspended_job_are_immutable() -> None:
    (found,) = change({"suspend": True}, {}, {}, NAMED)
    assert found.startswith('spec.template.spec: Invalid value: {"Volumes":null,')
    (found,) = change({}, {}, {}, NAMED)
    assert found.startswith('spec.template: Invalid value: {"labels":{"batch.kubernetes.io/')


@pytest.mark.parametrize(
    ("status", "before", "found"),
    [
        (
            {"active": -1},
            {},
            ["status.active: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            {"conditions": [COMPLETE, SUCCEEDED], "startTime": "1", "completionTime": "2"},
            {},
            [],
        ),
        (
            {"conditions": [COMPLETE]},
            {},
            [
                "status.completionTime: Required value: completionTime is required for Complete "
                "jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the "
                "SuccessCriteriaMet=true condition",
                "status.startTime: Required value: startTime is required for finished job",
            ],
        ),
        (
            {"conditions": [FAILED], "startTime": "1", "active": 2},
            {"startTime": "1", "active": 2},
            [
                "status.conditions: Invalid value: cannot set Failed=True condition without the "
                "FailureTarget=true condition",
                "status.active: Invalid value: 2: active>0 is invalid for finished job",
            ],
        ),
        (
            {"failed": 1},
            {"failed": 2, "conditions": [FAILED]},
            [
                "status.conditions: Invalid value: cannot disable the terminal Failed=True "
                "condition",
                "status.failed: Invalid value: 1: cannot decrease the failed counter",
            ],
        ),
        (
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a", ""]}},
            {},
            [
                'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
                'status.uncountedTerminatedPods.failed[1]: Invalid value: "": must not be empty',
            ],
        ),
        ({"ready": 2, "active": 2}, {"active": 1}, []),
        (
            {"ready": 2},
            {},
            ["status.ready: Invalid value: 2: cannot set more ready pods than active"],
        ),
    ],
)
def test_job_status(status: Obj, before: Obj, found: list[str]) -> None:
    errors = validate_job_status_update({"spec": {}, "status": status}, {"status": before})
    assert [str(one) for one in errors] == found


@pytest.mark.parametrize(
    ("kind", "status", "before", "found"),
    [
        ("Deployment", {"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}, {}, []),
        (
            "ReplicaSet",
            {"replicas": 1, "readyReplicas": 2},
            {},
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        ),
        (
            "StatefulSet",
            {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
            {},
            [
                "status.availableReplicas: Invalid value: 2: cannot be greater than "
                "status.readyReplicas"
            ],
        ),
        (
            "DaemonSet",
            {"numberReady": -1},
            {},
            ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "Deployment",
            {"collisionCount": 1},
            {"collisionCount": 2},
            ["status.collisionCount: Invalid value: 1: cannot be decremented"],
        ),
    ],
)
def test_status_counts_of_workloads(kind: str, status: Obj, before: Obj, found: list[str]) -> None:
    errors = validate_status_counts(kind, {"status": status}, {"status": before})
    assert [str(one) for one in errors] == found


def test_immutable_stateful_set_fields() -> None:
    labels = {"metadata": {"labels": {"a": "b"}}}
    template = {**labels, "spec": {"containers": [{"name": "c", "image": "a:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "serviceName": "s"}
    stored = new_cluster().create(
        "statefulsets.apps", {"metadata": {"name": "s"}, "spec": spec}, "default"
    )["spec"]
    found = validate_stateful_set_spec_update({**stored, "replicas": 3}, stored)
    assert found == []
    found = validate_stateful_set_spec_update({**stored, "serviceName": "t"}, stored)
    assert [str(one) for one in found] == [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', "
        "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
        "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    ]

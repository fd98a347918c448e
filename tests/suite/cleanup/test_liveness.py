from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pytest_kwait.suite.cleanup.owned_objects import run_label_value, run_lease_name
from pytest_kwait.suite.cleanup.run_lease import Liveness, LivenessWatch, RunLease, read_run_lease

_LEASE = RunLease("default", "l", "u", "1", "r1", 40.0, 1000.0, False, ())


def lease() -> dict[str, Any]:
    return {
        "metadata": {
            "name": run_lease_name("r1", "ab"),
            "namespace": "default",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {
                "app.kubernetes.io/managed-by": "pytest-kwait",
                "pytest-kwait/run": run_label_value("r1"),
            },
            "annotations": {
                "pytest-kwait/run": "r1",
                "pytest-kwait/nonce": "ab",
                "pytest-kwait/kinds": "a.v1.,b.v1.c",
            },
        },
        "spec": {"leaseDurationSeconds": 40, "renewTime": "1970-01-01T00:16:40.000000Z"},
    }


def test_lease_of_a_run_is_parsed() -> None:
    assert read_run_lease(lease()) == RunLease(
        "default",
        run_lease_name("r1", "ab"),
        "u",
        "7",
        "r1",
        40.0,
        1000.0,
        False,
        ("a.v1.", "b.v1.c"),
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "name"), "kwait-r1-00000000"),
        (("metadata", "labels"), None),
        (("metadata", "labels", "app.kubernetes.io/managed-by"), "helm"),
        (("metadata", "labels", "pytest-kwait/run"), run_label_value("r2")),
        (("metadata", "annotations"), None),
        (("metadata", "annotations", "pytest-kwait/run"), "r2"),
        (("metadata", "annotations", "pytest-kwait/nonce"), ""),
        (("spec",), None),
        (("spec", "leaseDurationSeconds"), None),
        (("spec", "renewTime"), None),
        (("spec", "renewTime"), "now"),
    ],
)
def test_foreign_lease_is_ignored(path: tuple[str, ...], value: object) -> None:
    obj = lease()
    part = obj
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    assert read_run_lease(obj) is None


@pytest.mark.parametrize(("run", "nonce"), [("", "ab"), ("r1", "")])
def test_lease_without_a_run_is_ignored(run: str, nonce: str) -> None:
    obj = lease()
    obj["metadata"]["name"] = run_lease_name(run, nonce)
    obj["metadata"]["labels"]["pytest-kwait/run"] = run_label_value(run)
    obj["metadata"]["annotations"] |= {"pytest-kwait/run": run, "pytest-kwait/nonce": nonce}
    assert read_run_lease(obj) is None


@pytest.mark.parametrize(
    ("age", "ended", "life"),
    [
        (0.0, False, Liveness.UNDECIDED),
        (79.0, False, Liveness.UNDECIDED),
        (80.0, False, Liveness.UNDECIDED),
        (81.0, False, Liveness.DEAD),
        (-500.0, False, Liveness.UNDECIDED),
        (0.0, True, Liveness.ENDED),
    ],
)
def test_overdue_lease_is_dead_without_watching(age: float, ended: bool, life: Liveness) -> None:
    assert dataclasses.replace(_LEASE, ended=ended).liveness_at(1000.0 + age) is life


def test_liveness_is_undecided_without_server_time() -> None:
    assert _LEASE.liveness_at(None) is Liveness.UNDECIDED


def test_unchanged_lease_is_dead_after_its_duration() -> None:
    watchman = LivenessWatch([_LEASE], 100.0)
    # A run that began since is none of those that are watched.
    watchman.observe([_LEASE, dataclasses.replace(_LEASE, name="later", version="9")])
    assert watchman.decide(_LEASE, 139.9) is Liveness.UNDECIDED
    assert watchman.undecided(139.9) == [_LEASE]
    assert watchman.decide(_LEASE, 140.0) is Liveness.DEAD
    assert watchman.undecided(140.0) == []


@pytest.mark.parametrize("change", [{"version": "2"}, {"uid": "v"}])
def test_changed_lease_is_alive(change: dict[str, Any]) -> None:
    watchman = LivenessWatch([_LEASE], 100.0)
    watchman.observe([dataclasses.replace(_LEASE, **change)])
    watchman.observe([_LEASE])
    assert watchman.decide(_LEASE, 999.0) is Liveness.ALIVE
    assert watchman.undecided(101.0) == []

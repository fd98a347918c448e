"""However a run ends, one `kwait janitor` leaves nothing of it, and touches nothing else."""

from __future__ import annotations

import os
import random
import signal
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

from .conftest import after

if TYPE_CHECKING:
    from pytest_kwait import Bench

    from .conftest import Runs


def test_a_run_that_ends_in_good_order_leaves_nothing(runs: Runs) -> None:
    """No janitor is needed."""
    process = runs.start(end="pass")
    output = process.communicate(timeout=60)[0]

    assert process.returncode == 0, output
    assert runs.left() == []


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "controller"])
def test_after_sigkill_one_janitor_leaves_nothing(runs: Runs, workers: list[str]) -> None:
    """Killed in the middle of a test, the run can remove nothing itself."""
    process = runs.start(*workers)
    process.send_signal(signal.SIGKILL)
    if workers:
        os.kill(runs.worker, signal.SIGKILL)
    process.communicate(timeout=30)
    assert len(runs.left()) == 4

    status, said = runs.janitor()

    assert (status, runs.left()) == (0, []), said
    assert "removed 1 namespace, 2 other objects and 1 Lease of 1 run" in said


def test_what_a_killed_worker_leaves_goes_at_the_end_of_the_run(runs: Runs) -> None:
    """The controller owns the sign of life, and cleans up after its workers."""
    process = runs.start("-n1", "--max-worker-restart=0")
    os.kill(runs.worker, signal.SIGKILL)
    output = process.communicate(timeout=60)[0]

    assert "kwait: the janitor removed 1 namespace and 2 other objects of 1 run" in output
    assert [each for each in runs.left() if not each.startswith("leases/")] == []
    status, said = runs.janitor("--no-wait")
    assert (status, runs.left()) == (0, []), said


@pytest.mark.parametrize("end", ["exit", "SIGTERM", "SIGINT"])
def test_other_ends_of_a_run(runs: Runs, end: str) -> None:
    """After Ctrl-C a run cleans up itself; after the others the janitor does."""
    process = runs.start(end="exit" if end == "exit" else "sleep")
    if end != "exit":
        process.send_signal(signal.Signals[end])
    process.communicate(timeout=60)
    if end == "SIGINT":
        assert runs.left() == []
        return

    status, said = runs.janitor()

    assert (status, runs.left()) == (0, []), said


def test_a_run_that_lives_is_left_alone(runs: Runs) -> None:
    """The janitor sees its Lease change, and a dry run changes nothing anyway."""
    runs.start()
    before = runs.left()
    assert len(before) == 4

    status, said = runs.janitor()

    assert (status, runs.left()) == (0, before), said
    assert any(f"run {runs.id} (lease default/" in line and " lives " in line for line in said)
    assert "nothing to remove" in said


def test_a_dry_run_changes_nothing(runs: Runs) -> None:
    """It says what would go."""
    process = runs.start(end="exit")
    process.communicate(timeout=30)
    before = runs.left()

    status, said = runs.janitor("--dry-run")

    assert (status, runs.left()) == (0, before), said
    assert "would remove 1 namespace, 2 other objects and 1 Lease of 1 run" in said


def test_look_alikes_stay(kwait: Bench, runs: Runs) -> None:
    """Our labels alone, copies of what is ours, and the Leases of other tools are never touched."""
    process = runs.start(end="exit")
    process.communicate(timeout=30)
    own = next(each for each in runs.left() if each.startswith("namespaces/"))
    copied = kwait.get(own)["metadata"]
    marks = {"labels": copied["labels"], "annotations": copied["annotations"]}
    marks["labels"].pop("kubernetes.io/metadata.name", None)
    only_labels: dict[str, Any] = {"labels": marks["labels"]}
    foreign = [
        ("v1", "ConfigMap", {"name": "copy", **marks}),
        ("v1", "ConfigMap", {"name": "labels", **only_labels}),
        ("coordination.k8s.io/v1", "Lease", {"name": "tool", **marks}),
        ("coordination.k8s.io/v1", "Lease", {"name": "labels", **only_labels}),
    ]
    kwait.create(
        [
            {"apiVersion": version, "kind": kind, "metadata": metadata}
            for version, kind, metadata in foreign
        ]
    )

    status, said = runs.janitor("--all-kinds")

    assert status == 0, said
    assert sorted(runs.left()) == [
        "configmaps/copy",
        "configmaps/labels",
        "leases/labels",
        "leases/tool",
    ]


@pytest.mark.slow
def test_killed_at_any_moment(runs: Runs) -> None:
    """From before its first request until after its last, a killed run leaves nothing for long."""
    chance = random.Random(6)
    for number in range(3):
        run = f"{runs.id}-{number}"
        process = runs.start(end="pass", run=run)
        after(chance.uniform(0.0, 0.5))
        process.kill()
        process.communicate(timeout=30)
        status, said = runs.janitor(run=run)
        assert (status, runs.left(run)) == (0, []), said


def test_what_a_finalizer_holds_is_named(kwait: Bench, runs: Runs) -> None:
    """The janitor asks for the deletion, and says who is in its way."""
    process = runs.start(end="exit")
    process.communicate(timeout=30)
    own = next(each for each in runs.left() if each.startswith("namespaces/"))
    space = own.partition("/")[2]
    held = {"name": "held", "namespace": space, "finalizers": ["example.com/hold"]}
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})

    try:
        status, said = runs.janitor("--timeout=12s")

        assert status == 1, said
        assert any(
            line.startswith(f"namespaces/{space} is still there: ") and "example.com/hold" in line
            for line in said
        ), said
    finally:
        free = {"metadata": {"finalizers": None}}
        CoreV1Api(kwait.client).patch_namespaced_config_map("held", space, free)

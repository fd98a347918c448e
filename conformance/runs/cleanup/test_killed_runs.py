"""`kwait janitor` removes everything of an ended run, and nothing else."""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

from conformance.runs.cleanup.conftest import PARTS
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conformance.runs.cleanup.conftest import Runs
    from pytest_kwait import Kwait


def test_janitor_deletes_only_objects_of_dead_runs(kwait: Kwait, runs: Runs) -> None:
    """Killed in the middle of a test, runs can remove nothing themselves.

    Shards of one run are distinguished: one of them is alive.
    """
    runs.start().until_ready()
    living = runs.left()
    # pytest-timeout's thread ends a run whose test times out outside of a wait.
    late = runs.start("--timeout=4", "--timeout-method=thread", "-o", "timeout_func_only=true")
    dead = [runs.start(), runs.start("-n1"), runs.start(), late]
    for run in dead:
        run.until_ready()
    for run, number in zip(dead, (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM), strict=False):
        run.kill(number)
    assert " Timeout " in late.until_over()
    foreign = [*living, *look_alikes(kwait, namespaces(set(runs.left()) - set(living))[0])]
    before = runs.left()
    assert len(before) == len(foreign) + 4 * len(dead)

    status, said = runs.janitor("--dry-run")

    assert (status, runs.left()) == (0, before), said
    assert "would remove 4 namespaces, 8 other objects and 4 Leases of 1 run" in said
    assert any(f"run {runs.id} (lease default/" in line and " lives " in line for line in said)

    status, said = runs.janitor("--all-kinds")

    assert (status, sorted(runs.left())) == (0, sorted(foreign)), said
    assert "removed 4 namespaces, 8 other objects and 4 Leases of 1 run" in said


def test_runs_that_end_in_good_order_leave_nothing(runs: Runs) -> None:
    """An ended or interrupted run needs no janitor."""
    passing, interrupted = runs.start(end="pass"), runs.start()
    interrupted.until_ready()
    interrupted.kill(signal.SIGINT)
    output = passing.until_over()

    assert passing.process.returncode == 0, output
    assert runs.left() == []


def test_run_deletes_objects_of_its_killed_worker(runs: Runs) -> None:
    """The controller owns the Lease and deletes its workers' objects."""
    run = runs.start("-n1", "--max-worker-restart=0")
    run.until_ready()
    run.kill_worker()
    output = run.until_over()

    assert "kwait: the janitor removed 1 namespace and 2 other objects of 1 run" in output
    assert [each for each in runs.left() if not each.startswith("leases/")] == []
    status, said = runs.janitor("--no-wait")
    assert (status, runs.left()) == (0, []), said


@pytest.mark.kwait_slow
def test_runs_killed_at_random_times(kwait: Kwait, runs: Runs) -> None:
    """A run killed between its first and last request leaves no objects."""
    first = runs.start()
    first.until_ready()
    first.kill()
    foreign = look_alikes(kwait, namespaces(runs.left())[0])
    chance = random.Random(6)
    for number in range(1, PARTS):
        run = runs.start(*(["-n1"] if number % 4 == 0 else []), end="pass")
        SYSTEM_CLOCK.sleep(chance.uniform(0.05, 0.8))
        run.kill()

    status, said = runs.janitor()

    assert (status, sorted(runs.left())) == (0, sorted(foreign)), said


def test_objects_with_finalizers_are_reported(kwait: Kwait, runs: Runs) -> None:
    """The janitor requests the deletion and names the finalizer."""
    run = runs.start(end="exit")
    run.until_ready()
    run.until_over()
    space = namespaces(runs.left())[0].partition("/")[2]
    held = {"name": "held", "namespace": space, "finalizers": ["example.com/hold"]}
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})

    try:
        # The namespace controller reports remaining finalizers with a delay.
        kwait.delete(f"namespace/{space}")
        kwait.wait_for(f"namespace/{space}", "condition=NamespaceFinalizersRemaining", timeout="4m")
        status, said = runs.janitor("--timeout=9s")

        assert status == 1, said
        assert any(
            line.startswith(f"namespaces/{space} is still there: ") and "example.com/hold" in line
            for line in said
        ), said
    finally:
        free = {"metadata": {"finalizers": None}}
        CoreV1Api(kwait.client).patch_namespaced_config_map("held", space, free)


def namespaces(objects: Iterable[str]) -> list[str]:
    """Return those of the objects that are namespaces."""
    return [each for each in objects if each.startswith("namespaces/")]


def look_alikes(kwait: Kwait, namespace: str) -> list[str]:
    """Create foreign objects: with our labels only, copied annotations, Leases of other tools."""
    copied = kwait.get(namespace)["metadata"]
    marks = {"labels": copied["labels"], "annotations": copied["annotations"]}
    marks["labels"].pop("kubernetes.io/metadata.name", None)
    only_labels: dict[str, Any] = {"labels": marks["labels"]}
    kwait.create(
        [
            {"apiVersion": version, "kind": kind, "metadata": metadata}
            for version, kind, metadata in (
                ("v1", "ConfigMap", {"name": "copy", **marks}),
                ("v1", "ConfigMap", {"name": "labels", **only_labels}),
                ("coordination.k8s.io/v1", "Lease", {"name": "tool", **marks}),
                ("coordination.k8s.io/v1", "Lease", {"name": "labels", **only_labels}),
            )
        ]
    )
    return ["configmaps/copy", "configmaps/labels", "leases/labels", "leases/tool"]

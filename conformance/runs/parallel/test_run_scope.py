"""Runs of several workers that share an environment: made once, taken over, removed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run
from pytest_kwait import wait_for_namespaces_deleted

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

_SUITE = """
import os
import time
from pathlib import Path

import pytest
import pytest_kwait


def note(text):
    with Path("log").open("a") as file:
        print(text, file=file, flush=True)


@pytest_kwait.environment(scope="run")
def shared(kwait):
    first = not Path("log").exists()
    note(f"made {kwait.namespace}")
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    kwait.create({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"generateName": "kwait-environment-"}, "value": 7,
    })
    if KILLED and first:
        os.kill(os.getpid(), 9)
    time.sleep(1)
    yield kwait


@pytest.mark.parametrize("number", range(4))
def test_it(shared, number, worker_id):
    time.sleep(0.5)
    note(f"used {shared.namespace} {worker_id}")
    assert shared.get("configmap/x")
    for each in shared.list("priorityclass"):
        if each["metadata"]["name"].startswith("kwait-environment-"):
            note(f"class {each['metadata']['name']}")
"""


@pytest.mark.parametrize("killed", [False, True], ids=["fine", "killed"])
def test_workers_share_one_environment(kwait: Kwait, tmp_path: Path, killed: bool) -> None:
    """One worker makes it; if it is killed another one does, and the run removes all of it."""
    suite = _SUITE.replace("KILLED", str(killed))
    options = ["-n2", f"--kwait-run-id=env-{uuid.uuid4().hex[:8]}", "--kwait-deletion-wait=2m"]
    _, said = run(tmp_path, kwait.cluster.kubeconfig, suite, *options)
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    made = [line[1] for line in lines if line[0] == "made"]
    used = [line[1:] for line in lines if line[0] == "used"]
    classes = {line[1] for line in lines if line[0] == "class"}
    assert len(made) == (2 if killed else 1), said
    assert {name for name, _ in used} == {made[-1]}, said
    assert len(used) >= 3, said
    wait_for_namespaces_deleted(kwait.client, made, timeout="2m")
    there = {each["metadata"]["name"] for each in kwait.list("priorityclass")}
    assert not there & classes, said
    assert classes

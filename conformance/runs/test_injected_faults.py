"""Injected faults: those of a whole cluster, and none that outlives its test or its process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.runs.inner_runs import finish, run, start
from pytest_kwait import wait
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline

if TYPE_CHECKING:
    from pytest_kwait import Faults, Kwait


TOLD = ("KWAIT_", "PYTEST")
"""Environment variables that an outer run sets for an inner one."""


@pytest.mark.usefixtures("faults")
def test_cluster_wide_faults() -> None:
    """They run on a cluster of their own, since serial tests here would delay all others."""
    suite = Path(__file__).with_name("cluster_wide_faults.py")
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite)]
    kept = {name: value for name, value in os.environ.items() if name[:6] not in TOLD}
    status, output = finish(start(command, Path.cwd(), kept))
    assert status == 0, output
    assert "7 passed" in output


INNER = """
import os
import pytest
@pytest.fixture
def broken(kwait):
    kwait.cluster.faults.refuse(500, target="client", verbs=["create"], resources=["configmaps"])
def make(kwait):
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
def test_fails(kwait, broken):
    assert False
def test_a_setup_fails(kwait, broken, nothing):
    pass
@pytest.mark.timeout(1)
def test_takes_too_long(kwait, broken):
    while True: pass
def test_is_as_it_was(kwait):
    make(kwait)
    open("fine", "w").close()
def test_has_no_right(kwait):
    kwait.cluster.faults.pressure("kwait-node-1", "disk")
def test_dies(kwait, broken):
    os._exit(3)
"""


def test_no_fault_outlives_its_test_or_its_process(
    kwait: Kwait, faults: Faults, tmp_path: Path
) -> None:
    status, said = run(tmp_path, kwait.cluster.kubeconfig, INNER, "-p", "no:faulthandler")
    assert status == 3, said

    def left() -> list[dict[str, Any]]:
        transport = ApiSession.of(kwait.client).transport
        answer = transport.send("GET", "/kwait/v1/faults", deadline=Deadline.after(30))
        found: list[dict[str, Any]] = json.loads(answer.data)["faults"]
        return found

    wait.poll_immediate("20ms", "30s", lambda: not left())
    assert (tmp_path / "fine").exists(), said

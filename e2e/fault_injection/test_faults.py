"""Each fault that a test can inject, as a wait reports it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.fault_injection.manifest import note, pod, running
from e2e.inner_runs import run
from e2e.raising import raises
from pytest_kwait import WaitFailed, wait
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait
    from pytest_kwait.clusters.faults import Fault, Faults

Obj = dict[str, Any]
TOLD = ("KWAIT_", "PYTEST")
"""Environment variables that an outer run sets for an inner one."""


@pytest.mark.parametrize(
    "broken",
    [
        lambda faults: faults.refuse(429, retry_after=1, times=1),
        lambda faults: faults.refuse(500, times=2, target="client"),
        lambda faults: faults.delay("300ms", times=2),
    ],
    ids=["429", "500", "latency"],
)
def test_wait_survives_failed_requests(
    kwait: Kwait, faults: Faults, broken: Callable[[Faults], Fault]
) -> None:
    kwait.create(pod())
    fault = broken(faults)
    kwait.wait_for("pod/p", "condition=Ready")
    assert fault.hits


@pytest.mark.parametrize(
    "broken",
    [lambda faults: faults.cut_watches(), lambda faults: faults.expire_history()],
    ids=["watches", "history"],
)
def test_wait_survives_broken_watches(
    kwait: Kwait, faults: Faults, broken: Callable[[Faults], Fault]
) -> None:
    kwait.apply(note("before"))
    ended: list[Obj] = []
    waiting = threading.Thread(
        target=lambda: ended.append(
            kwait.wait_for("configmap/note", "jsonpath={.data.is}=after", timeout="60s")
        )
    )
    waiting.start()
    made: list[Fault] = []

    def met() -> bool:
        made.append(broken(faults))
        return any(fault.hits for fault in made)

    # Once the watch is open.
    wait.poll_immediate("300ms", "60s", met)
    kwait.apply(note("after"))
    waiting.join(60)
    assert ended


def test_failed_pull_is_in_the_waits_message(kwait: Kwait, faults: Faults) -> None:
    faults.fail_pulls("unexpected status from HEAD request: 403 Forbidden")
    # An image that no other test has pulled: one that is present needs no pull.
    kwait.create(pod(image="example.com/refused:1"))
    with raises(WaitFailed, match="403 Forbidden"):
        kwait.wait_for("pod/p", "condition=Ready")


def test_a_pull_that_is_slow_is_waited_for(kwait: Kwait, faults: Faults) -> None:
    fault = faults.slow_pulls("500ms")
    kwait.create(pod(image="example.com/app:2"))
    kwait.wait_for("pod/p", "condition=Ready")
    assert fault.hits == 1


def test_out_of_memory_is_in_the_waits_message(kwait: Kwait, faults: Faults) -> None:
    running(kwait, restartPolicy="Never")
    faults.run_out_of_memory("p")
    with raises(WaitFailed, match="OOMKilled"):
        kwait.wait_for("pod/p", "condition=Ready", stable_for="60s")


@pytest.mark.usefixtures("faults")
def test_cluster_wide_faults() -> None:
    """They run on a cluster of their own, since serial tests here would delay all others."""
    suite = Path(__file__).with_name("cluster_wide_faults.py")
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite)]
    kept = {name: value for name, value in os.environ.items() if name[:6] not in TOLD}
    done = subprocess.run(
        command, env=kept, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


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

    def left() -> list[Obj]:
        transport = Session.of(kwait.client).transport
        answer = transport.send("GET", "/kwait/v1/faults", deadline=Deadline.after(30))
        found: list[Obj] = json.loads(answer.data)["faults"]
        return found

    wait.poll_immediate("20ms", "30s", lambda: not left())
    assert (tmp_path / "fine").exists(), said


def test_a_real_cluster_refuses(kwait: Kwait) -> None:
    if kwait.cluster.provider == "embedded":
        pytest.skip("this one is no real one")
    with raises(ClusterError, match="faults are made on the embedded cluster alone"):
        kwait.cluster.faults.refuse(500)

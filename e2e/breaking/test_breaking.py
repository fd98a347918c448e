"""Each fault that a test can ask for, as a wait of the package sees it."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from e2e.inner_runs import run
from e2e.raising import raises
from pytest_kwait import WaitFailed, wait
from pytest_kwait.api.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_kwait import Bench
    from pytest_kwait.clusters.faults import Fault, Faults

Obj = dict[str, Any]
NODE = "kwait-node-1"
FOR_EVER = "sleep 3600"


def pod(script: str = FOR_EVER, image: str = "busybox:1", **spec: Any) -> Obj:
    container = {"name": "c", "image": image, "command": ["sh", "-c", script]}
    whole = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": whole}


def note(text: str, name: str = "note") -> Obj:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"is": text}}


def running(kwait: Bench, **spec: Any) -> Obj:
    kwait.create(pod(**spec))
    found: Obj = kwait.wait_for("pod/p", "jsonpath={.status.phase}=Running")
    return found


@pytest.mark.parametrize(
    "broken",
    [
        lambda faults: faults.refuse(429, retry_after=1, times=1),
        lambda faults: faults.refuse(500, times=2, whom="client"),
        lambda faults: faults.delay("300ms", times=2),
    ],
    ids=["429", "500", "latency"],
)
def test_a_wait_goes_on_when_requests_fail(
    kwait: Bench, faults: Faults, broken: Callable[[Faults], Fault]
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
def test_a_wait_goes_on_when_watches_break(
    kwait: Bench, faults: Faults, broken: Callable[[Faults], Fault]
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


def test_a_pull_that_fails_is_what_the_wait_says(kwait: Bench, faults: Faults) -> None:
    faults.fail_pulls("unexpected status from HEAD request: 403 Forbidden")
    kwait.create(pod(image="example.com/app:1"))
    with raises(WaitFailed, match="403 Forbidden"):
        kwait.wait_for("pod/p", "condition=Ready")


def test_a_pull_that_is_slow_is_waited_for(kwait: Bench, faults: Faults) -> None:
    fault = faults.slow_pulls("500ms")
    kwait.create(pod(image="example.com/app:2"))
    kwait.wait_for("pod/p", "condition=Ready")
    assert fault.hits == 1


def test_a_container_out_of_memory_is_what_the_wait_says(kwait: Bench, faults: Faults) -> None:
    running(kwait, restartPolicy="Never")
    faults.run_out_of_memory("p")
    with raises(WaitFailed, match="OOMKilled"):
        kwait.wait_for("pod/p", "condition=Ready", stable_for="60s")


@pytest.mark.disruptive
@pytest.mark.parametrize("resource", ["disk", "memory"])
def test_a_node_under_pressure_evicts(kwait: Bench, faults: Faults, resource: Any) -> None:
    running(kwait, nodeName=NODE)
    fault = faults.pressure(NODE, resource)
    kind = f"{resource.capitalize()}Pressure"
    kwait.wait_for(f"node/{NODE}", f"condition={kind}=True")
    with raises(WaitFailed, match="Evicted"):
        kwait.wait_for("pod/p", "condition=Ready", stable_for="60s")
    fault.undo()
    kwait.wait_for(f"node/{NODE}", f"condition={kind}=False")


@pytest.mark.disruptive
@pytest.mark.parametrize("way", ["partition_node", "stop_kubelet"])
def test_a_lost_node_is_not_ready_until_it_is_back(kwait: Bench, faults: Faults, way: str) -> None:
    kwait.create(pod("sleep 2", nodeName=NODE, restartPolicy="Never"))
    kwait.wait_for("pod/p", "condition=Ready")
    with getattr(faults, way)(NODE):
        with raises(ApiError, match="error dialing backend"):
            kwait.exec("p", "true")
        kwait.wait_for(f"node/{NODE}", "condition=Ready=Unknown")
        kwait.wait_for("pod/p", "condition=Ready=False")
        assert kwait.get("pod/p")["status"]["phase"] == "Running"
    kwait.wait_for(f"node/{NODE}", "condition=Ready")
    kwait.wait_for("pod/p", "jsonpath={.status.phase}=Succeeded")


@pytest.mark.disruptive
def test_a_clock_that_jumps_is_seen_in_stamps(kwait: Bench, faults: Faults) -> None:
    stamps = []
    with faults.jump_clock("2h"):
        stamps.append(kwait.create(note("a", "later")))
    stamps.append(kwait.create(note("b", "now")))
    ahead, now = (one[0]["metadata"]["creationTimestamp"] for one in stamps)
    assert ahead > now


INNER = """
import os
import pytest
@pytest.fixture
def broken(kwait):
    kwait.cluster.faults.refuse(500, whom="client", verbs=["create"], resources=["configmaps"])
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
    kwait: Bench, faults: Faults, tmp_path: Path
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


def test_a_real_cluster_refuses(kwait: Bench) -> None:
    if kwait.cluster.provider == "embedded":
        pytest.skip("this one is no real one")
    with raises(ClusterError, match="faults are made on the embedded cluster alone"):
        kwait.cluster.faults.refuse(500)

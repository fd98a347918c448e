"""Each fault that a test can inject, as a wait reports it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import config_map, container, pod
from e2e.raising import raises
from pytest_kwait import ClusterError, WaitFailed, wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Fault, Faults, Kwait

Obj = dict[str, Any]


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
    kwait.create(pod("p"))
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
    kwait.apply(config_map("note", text="before"))
    ended: list[Obj] = []
    waiting = threading.Thread(
        target=lambda: ended.append(
            kwait.wait_for("configmap/note", "jsonpath={.data.text}=after", timeout="60s")
        )
    )
    waiting.start()
    made: list[Fault] = []

    def met() -> bool:
        made.append(broken(faults))
        return any(fault.hits for fault in made)

    # Once the watch is open.
    wait.poll_immediate("300ms", "60s", met)
    kwait.apply(config_map("note", text="after"))
    waiting.join(60)
    assert ended


def test_failed_pull_is_in_the_waits_message(kwait: Kwait, faults: Faults) -> None:
    faults.fail_pulls("unexpected status from HEAD request: 403 Forbidden")
    # An image that no other test has pulled: one that is present needs no pull.
    kwait.create(pod("p", container(image="example.com/refused:1")))
    with raises(WaitFailed, match="403 Forbidden"):
        kwait.wait_for("pod/p", "condition=Ready")


def test_a_pull_that_is_slow_is_waited_for(kwait: Kwait, faults: Faults) -> None:
    fault = faults.slow_pulls("500ms")
    kwait.create(pod("p", container(image="example.com/app:2")))
    kwait.wait_for("pod/p", "condition=Ready")
    assert fault.hits == 1


def test_out_of_memory_is_in_the_waits_message(kwait: Kwait, faults: Faults) -> None:
    kwait.create(pod("p"))
    kwait.wait_for_pod_running("p")
    faults.run_out_of_memory("p")
    with raises(WaitFailed, match="OOMKilled"):
        kwait.wait_for("pod/p", "condition=Ready", stable_for="60s")


def test_a_real_cluster_refuses(kwait: Kwait) -> None:
    if kwait.cluster.provider == "embedded":
        pytest.skip("this one is no real one")
    with raises(ClusterError, match="faults are made on the embedded cluster alone"):
        kwait.cluster.faults.refuse(500)

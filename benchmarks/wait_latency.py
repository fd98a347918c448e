"""Latency of a wait's return after a visible change: bar 1 ms over lightkube's `Client.wait`.

Run it as `python -m benchmarks.wait_latency [KUBECONFIG [ROUNDS]]`; `-` or nothing starts an etcd
and a kube-apiserver of its own.

Both wait for the same Pod to be Ready, in two threads at the same time, on one API server; a third
writes the status. Each round is a pair, counted from the response to the write.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any, cast

import lightkube
import lightkube.resources.core_v1 as core
from kubernetes import client, config

from benchmarks.pairs import Pairs
from benchmarks.plane import some_cluster
from benchmarks.rows import Row, run_alone
from pytest_kwait import wait_for
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACE = "default"
BAR = 0.001


def one_round(api: Any, name: str, waits: list[Callable[[], object]]) -> list[float]:
    """Return the seconds from the response to the status write to the return of each wait."""
    pod = {
        "metadata": {"name": name},
        # A node that does not exist, so that no kubelet changes the pod.
        "spec": {"nodeName": "none", "containers": [{"name": "c", "image": "busybox:1.36"}]},
    }
    v1 = client.CoreV1Api(api)
    v1.create_namespaced_pod(NAMESPACE, cast("client.V1Pod", pod))
    done = [0.0] * len(waits)

    def run(index: int) -> None:
        waits[index]()
        done[index] = SYSTEM_CLOCK.monotonic()

    order = list(range(len(waits)))
    random.shuffle(order)
    threads = [threading.Thread(target=run, args=(index,)) for index in order]
    for thread in threads:
        thread.start()
    SYSTEM_CLOCK.sleep(0.3)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    v1.patch_namespaced_pod_status(name, NAMESPACE, ready)
    visible = SYSTEM_CLOCK.monotonic()
    for thread in threads:
        thread.join()
    v1.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
    return [moment - visible for moment in done]


def measure_rows(kubeconfig: str = "-", rounds: int = 40) -> list[Row]:
    """Wait with both at the same time."""
    with some_cluster(kubeconfig) as used:
        return compare(used, rounds)


def compare(kubeconfig: str, rounds: int) -> list[Row]:
    """Wait with both on one cluster."""
    api = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
    peer_config = lightkube.KubeConfig.from_file(kubeconfig)
    peer = lightkube.Client(config=peer_config, namespace=NAMESPACE)
    pairs = Pairs([], [])
    for number in range(rounds + 1):
        name = f"latency-{number}-{random.randrange(16**6):06x}"

        def ours(name: str = name) -> object:
            return wait_for(api, NAMESPACE, f"pod/{name}", "condition=Ready", timeout="30s")

        def theirs(name: str = name) -> object:
            return peer.wait(core.Pod, name, for_conditions=["Ready"], namespace=NAMESPACE)

        seconds = one_round(api, name, [ours, theirs])
        if number:  # the first round warms up
            pairs.ours.append(seconds[0])
            pairs.peer.append(seconds[1])
    print("from the answer of the write to the return of the wait")
    print(pairs.lines("pytest_kwait.wait_for", "lightkube Client.wait"))
    difference = pairs.median_difference * 1000
    return [Row("return, after lightkube's", difference, BAR * 1000, "ms")]


if __name__ == "__main__":
    run_alone(measure_rows)

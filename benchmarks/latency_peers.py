"""Latency of a wait's return after a change, ours and other tools': p50 and p90.

Run it as `python -m benchmarks.latency_peers [KUBECONFIG [ROUNDS]]`; `-` or nothing starts an
etcd and a kube-apiserver of its own. Bar: the median of the paired differences to the fastest of
the others is 1 ms at most.

Each waits in a process of its own, all for the same Pod to be Ready at the same time; the time
counts from the response to the status write. kubectl takes part where it is installed; its time
includes the exit of its process.
"""

from __future__ import annotations

import multiprocessing
import random
import shutil
import statistics
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kubernetes import client, config, watch

from benchmarks.children import run_child
from benchmarks.plane import some_cluster
from benchmarks.rows import Row, run_alone
from pytest_kwait import wait_for
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

NAMESPACE = "default"
BAR = 0.001
POLL = 2.0
LIMIT = 60
OURS = "pytest_kwait.wait_for"


def measure_rows(kubeconfig: str = "-", rounds: int = 20) -> list[Row]:
    """Wait with each tool at the same time."""
    with some_cluster(kubeconfig) as used:
        return compare(used, rounds)


def compare(kubeconfig: str, rounds: int) -> list[Row]:
    """Wait with each tool on one cluster; print a line for each."""
    makers: dict[str, Callable[[str], Callable[[str], object]]] = {
        OURS: ours,
        "lightkube Client.wait": lightkube_wait,
        "kr8s Pod.wait": kr8s_wait,
        "kubernetes.watch.Watch": official_watch,
        f"a look every {POLL:g} s": poll,
    }
    if shutil.which("kubectl"):
        makers["kubectl wait"] = kubectl
    v1: Any = client.CoreV1Api(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]
    times: dict[str, list[float]] = {name: [] for name in makers}
    with ExitStack() as cleanup:
        spawn = multiprocessing.get_context("spawn")
        pipes = {}
        for name, maker in makers.items():
            pipes[name], theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(theirs, kubeconfig, maker), daemon=True)
            process.start()
            cleanup.callback(process.terminate)
        for pipe in pipes.values():
            pipe.recv()
        for number in range(rounds + 1):
            found = one_round(v1, pipes)
            if number:  # the first round warms up
                for name, took in found.items():
                    times[name].append(took)
    print("from the answer of the write to the return of the wait, in milliseconds")
    for name, values in times.items():
        differences = [a - b for a, b in zip(times[OURS], values, strict=True)]
        p50, p90 = statistics.median(values), statistics.quantiles(values, n=10)[-1]
        print(
            f"  {name:<26} p50 {p50 * 1000:8.2f}   p90 {p90 * 1000:8.2f}   "
            f"ours minus this one {statistics.median(differences) * 1000:9.2f}"
        )
    fastest = min(
        (name for name in times if name != OURS), key=lambda n: statistics.median(times[n])
    )
    difference = statistics.median(a - b for a, b in zip(times[OURS], times[fastest], strict=True))
    return [Row(f"return, after {fastest}", difference * 1000, BAR * 1000, "ms")]


def one_round(v1: Any, pipes: dict[str, Connection]) -> dict[str, float]:
    """Return the seconds from the write to the return of each wait."""
    name = f"latency-{random.randrange(16**8):08x}"
    containers = [{"name": "c", "image": "busybox:1.36"}]
    # No controller changes a pod of a scheduler that does not exist.
    spec = {
        "schedulerName": "none",
        "automountServiceAccountToken": False,
        "containers": containers,
    }
    v1.create_namespaced_pod(NAMESPACE, {"metadata": {"name": name}, "spec": spec})
    for pipe in random.sample(list(pipes.values()), len(pipes)):
        pipe.send(name)
    # All watches are open by then, and polling is at a random point of its interval.
    SYSTEM_CLOCK.sleep(1.5 + random.random() * POLL)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    v1.patch_namespaced_pod_status(name, NAMESPACE, ready)
    visible = SYSTEM_CLOCK.monotonic()
    ends = {tool: pipe.recv() - visible for tool, pipe in pipes.items()}
    v1.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
    return ends


def serve(
    pipe: Connection, kubeconfig: str, maker: Callable[[str], Callable[[str], object]]
) -> None:
    """Wait for one pod after the other, and send the time at which it was Ready."""
    wait = maker(kubeconfig)
    pipe.send("there")
    while True:
        name = pipe.recv()
        wait(name)
        pipe.send(SYSTEM_CLOCK.monotonic())


def ours(kubeconfig: str) -> Callable[[str], object]:
    """Wait as our documentation shows it."""
    api = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
    return lambda name: wait_for(api, NAMESPACE, f"pod/{name}", "condition=Ready", timeout=LIMIT)


def lightkube_wait(kubeconfig: str) -> Callable[[str], object]:
    """Wait with lightkube."""
    import lightkube
    import lightkube.resources.core_v1 as core

    peer = lightkube.Client(lightkube.KubeConfig.from_file(kubeconfig), NAMESPACE)
    return lambda name: peer.wait(core.Pod, name, for_conditions=["Ready"], namespace=NAMESPACE)


def kr8s_wait(kubeconfig: str) -> Callable[[str], object]:
    """Wait with kr8s."""
    import kr8s
    from kr8s.objects import Pod

    api = kr8s.api(kubeconfig=kubeconfig)

    def wait(name: str) -> None:
        Pod.get(name, namespace=NAMESPACE, api=api).wait("condition=Ready", timeout=LIMIT)

    return wait


def is_ready(pod: Any) -> bool:
    """Return whether a pod of the official client is Ready."""
    conditions = pod.status.conditions or []
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def official_watch(kubeconfig: str) -> Callable[[str], object]:
    """Wait with the official client's Watch, as its documentation shows it."""
    v1 = client.CoreV1Api(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]
    watching: Any = watch.Watch  # untyped

    def wait(name: str) -> None:
        field = f"metadata.name={name}"
        stream = watching().stream(v1.list_namespaced_pod, NAMESPACE, field_selector=field)
        next(event for event in stream if is_ready(event["object"]))

    return wait


def poll(kubeconfig: str) -> Callable[[str], object]:
    """Poll with a pause."""
    v1 = client.CoreV1Api(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]

    def wait(name: str) -> None:
        while not is_ready(v1.read_namespaced_pod(name, NAMESPACE)):
            SYSTEM_CLOCK.sleep(POLL)

    return wait


def kubectl(kubeconfig: str) -> Callable[[str], object]:
    """Wait with kubectl."""
    command = ["kubectl", f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}", "wait"]
    return lambda name: run_child(
        [*command, "--for=condition=Ready", f"--timeout={LIMIT}s", f"pod/{name}"]
    )


if __name__ == "__main__":
    run_alone(measure_rows)

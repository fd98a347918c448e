"""Pods per second of our scheduler: bar half of kube-scheduler's in the same run.

Run it as `python -m benchmarks.scheduler_throughput [ROUNDS] [PODS] [NODES]`. It starts an etcd
and a kube-apiserver of its own, with nodes without kubelets and without controllers.

The schedulers take turns, each in a process of its own with all pods pending, with its default
profile and the same limits on requests. The time counts from the first binding to the last in one
watch. The same watch checks that no pod is bound twice and no node has more than it can hold.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import subprocess
import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubernetes import config

from benchmarks.plane import control_plane
from benchmarks.rows import Row, run_alone
from e2e.objects import pod
from pytest_kwait.cache import ListWatch, SharedInformer, wait_for_cache_sync
from pytest_kwait.client.resource import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from tools.controlplane import assets

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

BAR = 0.5
LIMITS = ((5000, 5000), (50, 100))
LIMIT = 300.0
NAMESPACE = "throughput"
CORES = 1200
POD_CORES = 100


@dataclass
class Bindings:
    """The bindings of one scheduler, as a watch shows them."""

    wanted: int
    nodes: dict[str, str] = field(default_factory=dict)
    first: float = 0.0
    last: float = 0.0
    wrong: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def see(self, pod: dict[str, Any]) -> None:
        """Record a changed pod."""
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if not node:
            return
        if name not in self.nodes:
            self.last = SYSTEM_CLOCK.monotonic()
            self.first = self.first or self.last
        known = self.nodes.setdefault(name, node)
        if known != node:
            self.wrong.append(f"{name} was bound to {known} and to {node}")
        if len(self.nodes) == self.wanted:
            self.done.set()

    @property
    def rate(self) -> float:
        """Pods per second."""
        return (self.wanted - 1) / (self.last - self.first)

    def check(self) -> None:
        """Check that each pod was bound once, and no node has too many.

        Raises:
            RuntimeError: this is not so.
        """
        full = CORES // POD_CORES
        counts = Counter(self.nodes.values())
        self.wrong += [f"{node} has {count} pods" for node, count in counts.items() if count > full]
        if len(self.nodes) < self.wanted:
            self.wrong.append(f"{self.wanted - len(self.nodes)} pods were not bound")
        if self.wrong:
            raise RuntimeError("\n".join(self.wrong))


def measure_rows(rounds: int = 3, pods: int = 1000, nodes: int = 100) -> list[Row]:
    """Schedule the pods with both in turns, for each limit on requests."""
    rows = []
    with control_plane() as kubeconfig:
        session = ApiSession.of(
            config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        )
        prepare(session, nodes)
        print(f"{pods} pods on {nodes} nodes, pods bound per second")
        for qps, burst in LIMITS:
            ours: list[float] = []
            peer: list[float] = []
            for number in range(rounds if qps == LIMITS[0][0] else 1):
                schedulers: list[tuple[list[float], Callable[..., Any]]] = [
                    (ours, our_scheduler),
                    (peer, kube_scheduler),
                ]
                for rates, start in schedulers if number % 2 else reversed(schedulers):
                    rates.append(one_round(session, pods, start, kubeconfig, qps, burst))
            ratio = statistics.median(a / b for a, b in zip(ours, peer, strict=True))
            print(f"  at most {qps} requests a second, {burst} at once")
            for name, rates in (("pytest_kwait.scheduler", ours), ("kube-scheduler", peer)):
                listed = "  ".join(f"{rate:6.0f}" for rate in rates)
                print(f"    {name:<24} median {statistics.median(rates):6.0f}   each {listed}")
            what = f"pods/s at {qps} requests/s, of kube-scheduler's"
            rows.append(Row(what, ratio, BAR, is_least=True))
    print("  no pod was bound twice, no node has more than it can take")
    return rows


def prepare(session: ApiSession, nodes: int) -> None:
    """Create nodes that are ready, and a namespace in which pods can be created."""
    deadline = Deadline.after(LIMIT)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    session.create(NAMESPACES, namespace, deadline=deadline)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    session.create(SERVICE_ACCOUNTS, account, NAMESPACE, deadline=deadline)
    room = {"cpu": f"{CORES}m", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    for number in range(nodes):
        name = f"node-{number:03}"
        made = session.create(
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"capacity": room, "allocatable": room},
            },
            deadline=deadline,
        )
        # Admission taints every new node as not ready.
        session.replace(NODES, {**made, "spec": {}}, deadline=deadline)


def one_round(
    session: ApiSession,
    pods: int,
    start: Callable[[Path, int, int, ExitStack], object],
    kubeconfig: Path,
    qps: int,
    burst: int,
) -> float:
    """Create the pods, start a scheduler, and return its rate."""
    everything = PODS.path(NAMESPACE)
    deadline = Deadline.after(LIMIT)
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    session.request("DELETE", everything, body=body, deadline=deadline)
    make_pods(session, pods, deadline)
    bindings = Bindings(pods)
    informer = SharedInformer(ListWatch(session, PODS, NAMESPACE))
    informer.add_event_handler(update=lambda _old, new: bindings.see(new))
    with informer, ExitStack() as cleanup:
        wait_for_cache_sync(informer)
        start(kubeconfig, qps, burst, cleanup)
        bindings.done.wait(deadline.remaining)
        # A second binding would follow immediately.
        SYSTEM_CLOCK.sleep(0.5)
    bindings.check()
    return bindings.rate


def make_pods(session: ApiSession, pods: int, deadline: Deadline) -> None:
    """Create the pods in eight threads."""
    numbers = iter(range(pods))
    lock = threading.Lock()

    def make() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            session.create(PODS, pod_to_place(f"pod-{number:05}"), NAMESPACE, deadline=deadline)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def pod_to_place(name: str) -> dict[str, Any]:
    """Return a pod like a controller's."""
    requests = {"cpu": f"{POD_CORES}m", "memory": "100Mi"}
    main = {"name": "c", "image": "nowhere/none", "resources": {"requests": requests}}
    return pod(name, main, labels={"app": "throughput"}, restartPolicy="Always")


def kube_scheduler(kubeconfig: Path, qps: int, burst: int, cleanup: ExitStack) -> None:
    """Start kube-scheduler with its default profile."""
    connection = {"kubeconfig": str(kubeconfig), "qps": qps, "burst": burst}
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {"leaderElect": False},
    }
    file = kubeconfig.with_name("kube-scheduler.json")
    file.write_text(json.dumps(settings))
    log = cleanup.enter_context(kubeconfig.with_name("kube-scheduler.log").open("w"))
    process = subprocess.Popen(
        [str(assets.build() / "kube-scheduler"), f"--config={file}", "--secure-port=0"],
        stdout=log,
        stderr=log,
    )
    cleanup.callback(process.wait)
    cleanup.callback(process.kill)


def our_scheduler(kubeconfig: Path, qps: int, burst: int, cleanup: ExitStack) -> None:
    """Start ours with its default algorithm."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=run_ours, args=(theirs, str(kubeconfig), qps, burst))
    process.start()
    theirs.close()
    cleanup.callback(process.join)
    cleanup.callback(ours.close)


def run_ours(pipe: Connection, kubeconfig: str, qps: int, burst: int) -> None:
    """Schedule until the pipe is closed."""
    from pytest_kwait.scheduler import ConfigFactory, Scheduler

    client = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
    stop = threading.Event()

    def wait_for_the_end() -> None:
        pipe.poll(None)
        stop.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    Scheduler(ConfigFactory(client, qps=qps, burst=burst).create()).run(stop)


if __name__ == "__main__":
    run_alone(measure_rows)

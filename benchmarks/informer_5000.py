"""CPU time of an informer of 5,000 pods: bar a third of the official client's.

Run it as `python -m benchmarks.informer_5000 [KUBECONFIG [PODS]]`; `-` or nothing starts an etcd
and a kube-apiserver of its own. The server needs no kubelet and no controllers: the pods belong to
a scheduler that does not exist, and two processes write them.

Three peers take turns, each in a process of its own: an informer of ours and
`kubernetes.informer.SharedInformer`, three times each, and a dictionary that follows
`kr8s.asyncio.watch` (kr8s has no informer, and takes minutes). The CPU time counts from the start
to the last object, without imports and the creation of the client. Then all three follow at the
same time while every fifth pod is changed.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import random
import resource
import statistics
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from kubernetes import client, config
from kubernetes.informer import SharedInformer as TheirInformer

from benchmarks.job_5000 import clean, cpu_seconds, pod_spec, pod_status, soon
from benchmarks.plane import some_cluster
from benchmarks.rows import Row, run_alone
from pytest_kwait import cache
from pytest_kwait.client.resource import NAMESPACES, PODS, SERVICE_ACCOUNTS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

BAR = 1 / 3
WRITERS = 2
ROUNDS = 3
LIMIT = 600.0
MARK = "benchmarks.example.com/changed"


class Copy(Protocol):
    """A copy of the pods of a namespace that is kept up to date."""

    def start(self) -> None:
        """Begin."""
        ...

    def names(self) -> int:
        """Return the number of its pods."""
        ...

    def changed(self) -> int:
        """Return the number of changes received."""
        ...


class Ours:
    """An informer of ours, with a handler."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        api = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
        self._informer = cache.SharedInformerFactory(api, namespace).informer_for("pods")
        self._changed = 0
        self._informer.add_event_handler(update=self._note)

    def _note(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._changed += 1

    def start(self) -> None:
        """Begin."""
        self._informer.start()

    def names(self) -> int:
        """Return the number of its pods, once it has synced."""
        return len(self._informer.store) if self._informer.has_synced() else 0

    def changed(self) -> int:
        """Return the number of changes that its handler received."""
        return self._changed


class Official:
    """The official client's informer, with a handler."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        v1 = client.CoreV1Api(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]
        informer: Any = TheirInformer  # untyped
        self._informer = informer(v1.list_namespaced_pod, namespace=namespace)
        self._changed = 0
        self._informer.add_event_handler("MODIFIED", self._note)

    def _note(self, pod: object) -> None:
        self._changed += 1

    def start(self) -> None:
        """Begin."""
        self._informer.start()

    def names(self) -> int:
        """Return the number of its pods."""
        return len(self._informer.cache.list_keys())

    def changed(self) -> int:
        """Return the number of changes that its handler received."""
        return self._changed


class Kr8s:
    """A dictionary that follows a watch of kr8s."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._pods: dict[str, Any] = {}
        self._changed = 0

    def start(self) -> None:
        """Begin, in a thread with a loop of its own."""
        threading.Thread(target=asyncio.run, args=(self._follow(),), daemon=True).start()

    async def _follow(self) -> None:
        import kr8s.asyncio

        api = await kr8s.asyncio.api(kubeconfig=self._kubeconfig)
        async for kind, pod in api.watch("pods", namespace=self._namespace):
            self._pods[pod.name] = pod
            self._changed += kind == "MODIFIED"

    def names(self) -> int:
        """Return the number of its pods."""
        return len(self._pods)

    def changed(self) -> int:
        """Return the number of changes received."""
        return self._changed


PEERS: dict[str, Callable[[str, str], Copy]] = {
    "pytest_kwait.cache.SharedInformer": Ours,
    "kubernetes.informer.SharedInformer": Official,
    "kr8s.asyncio.watch, kept in a dict": Kr8s,
}


def measure_rows(kubeconfig: str = "-", pods: int = 5000) -> list[Row]:
    """Copy the pods with each peer."""
    with some_cluster(kubeconfig) as used:
        return compare(used, pods)


def compare(kubeconfig: str, pods: int) -> list[Row]:
    """Copy the pods of one cluster with each peer."""
    session = ApiSession.of(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]
    namespace = f"informer-5000-{random.randrange(16**6):06x}"
    with ExitStack() as cleanup:
        cleanup.callback(clean, session, namespace)
        prepare(session, namespace)
        spawn = multiprocessing.get_context("spawn")

        def start(function: Any, *arguments: Any) -> Connection:
            mine, theirs = spawn.Pipe()
            process = spawn.Process(target=function, args=(theirs, kubeconfig, *arguments))
            process.start()
            theirs.close()
            cleanup.callback(process.join, 10.0)
            cleanup.callback(process.terminate)
            return mine

        writers = [start(write, namespace, pods, part) for part in range(WRITERS)]
        size = max(pipe.recv() for pipe in writers)
        synced: dict[str, list[tuple[float, ...]]] = {name: [] for name in PEERS}
        readers: dict[str, Connection] = {}
        for turn in range(ROUNDS):
            last = turn + 1 == ROUNDS
            for name in PEERS if last else list(PEERS)[:2]:
                pipe = start(read, namespace, pods, name)
                synced[name].append(pipe.recv())
                if last:
                    readers[name] = pipe
                else:
                    pipe.send(0)
        changes = sum(len(range(part, pods, WRITERS)[::5]) for part in range(WRITERS))
        for pipe in readers.values():
            pipe.send(changes)
        for pipe in writers:
            pipe.send("go")
        followed = {name: pipe.recv() for name, pipe in readers.items()}
    return report(pods, size, changes, synced, followed)


def report(
    pods: int,
    size: int,
    changes: int,
    synced: dict[str, list[tuple[float, ...]]],
    followed: dict[str, float],
) -> list[Row]:
    """Print the medians and return the ratios."""
    print(
        f"{pods} pods of two containers, {size / 1024:.1f} KB each; median of {ROUNDS}, kr8s once"
    )
    cpu = {}
    for name, rounds in synced.items():
        took, cpu[name], held, peak = (
            statistics.median(column) for column in zip(*rounds, strict=True)
        )
        print(
            f"  {name:<36} synced in {took:5.2f} s with {cpu[name]:5.2f} s of CPU, "
            f"{held / pods * 1024:5.1f} KB an object, peak {peak:4.0f} MB; "
            f"{followed[name] / changes * 1e6:5.0f} us of CPU a change"
        )
    ours, official, kr8s = cpu.values()
    return [
        Row("CPU, of the official client's informer's", ours / official, BAR),
        Row("CPU, of kr8s' watch's", ours / kr8s, None),
    ]


def prepare(session: ApiSession, namespace: str) -> None:
    """Create the namespace, ready for pods."""
    session.create(NAMESPACES, {"metadata": {"name": namespace}}, deadline=soon())
    try:
        account = {"metadata": {"name": "default"}}
        session.create(SERVICE_ACCOUNTS, account, namespace, deadline=soon())
    except ApiError as error:
        if error.status != 409:  # where controllers run they make it
            raise


def write(pipe: Connection, kubeconfig: str, namespace: str, pods: int, part: int) -> None:
    """Create every second pod as a running one; on a signal, change every fifth of those."""
    session = ApiSession.of(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]
    numbers = range(part, pods, WRITERS)
    for number in numbers:
        pod = {"metadata": {"name": name_of(number)}, "spec": pod_spec()}
        session.create(PODS, pod, namespace, deadline=soon())
        status = {"status": pod_status(number)}
        session.patch(
            PODS, name_of(number), status, namespace, subresource="status", deadline=soon()
        )
    made = session.get(PODS, name_of(part), namespace, deadline=soon())
    pipe.send(len(msgspec.json.encode(made)))
    pipe.recv()
    for number in numbers[::5]:
        mark = {"metadata": {"annotations": {MARK: "yes"}}}
        session.patch(PODS, name_of(number), mark, namespace, deadline=soon())
    SYSTEM_CLOCK.sleep(LIMIT)


def name_of(number: int) -> str:
    """Return the name of a pod."""
    return f"sleeper-{number:05d}"


def read(pipe: Connection, kubeconfig: str, namespace: str, pods: int, peer: str) -> None:
    """Copy the pods and send the cost; then follow so many changes and send their cost."""
    if peer.startswith("kr8s"):
        import kr8s.asyncio  # noqa: F401 - the import is not what is measured
    copy = PEERS[peer](kubeconfig, namespace)
    gc.collect()
    held, used, begun = resident(), cpu_seconds(), SYSTEM_CLOCK.monotonic()
    copy.start()
    while copy.names() < pods:
        SYSTEM_CLOCK.sleep(0.005)
        if SYSTEM_CLOCK.monotonic() - begun > LIMIT:
            raise TimeoutError(f"{peer} has {copy.names()} of {pods} pods")
    took, used = SYSTEM_CLOCK.monotonic() - begun, cpu_seconds() - used
    SYSTEM_CLOCK.sleep(1.0)
    gc.collect()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pipe.send((took, used, resident() - held, peak))
    changes = pipe.recv()
    if changes:
        used = cpu_seconds()
        while copy.changed() < changes:
            SYSTEM_CLOCK.sleep(0.05)
        pipe.send(cpu_seconds() - used)


def resident() -> float:
    """Return the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024**2


if __name__ == "__main__":
    run_alone(measure_rows)

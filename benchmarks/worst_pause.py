"""The worst pause of a second client while a first one sends large requests.

Run it as `python -m benchmarks.worst_pause [ROUNDS]`. One client reads a small object without a
pause; another sends requests with tens of thousands of parts, evicts pods of hundreds of containers
and reads tables of hundreds of pods. The longest of the reads counts, on the embedded cluster and
on the kube-apiserver of the same run.
"""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.pairs import Pairs
from benchmarks.plane import some_cluster
from benchmarks.rows import Row, run_alone
from benchmarks.wire import Server
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.clusters.provider import EmbeddedProvider

PARTS, CONTAINERS, PODS_OF_TABLE = 15_000, 400, 300
RATIO_BAR = 2
"""It runs on one thread of Python; kube-apiserver has all processors."""
CORE = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def measure_rows(rounds: int = 5) -> list[Row]:
    """Send the same requests to each server in turns."""
    cluster = EmbeddedProvider().start()
    try:
        with some_cluster("-") as peer:
            ours = Server.of(cluster.kubeconfig)
            return asyncio.run(_measure(ours, Server.of(Path(peer)), rounds))
    finally:
        cluster.stop()


async def _measure(ours: Server, peer: Server, rounds: int) -> list[Row]:
    for server in (ours, peer):
        await _prepare(server)
    pauses = Pairs([], [])
    for number in range(rounds + 1):
        for server in (ours, peer) if number % 2 else (peer, ours):
            worst = await _find_worst_pause(server, number)
            if number:  # the first does not count
                (pauses.ours if server is ours else pauses.peer).append(worst)
    print("longest GET of a second client")
    print(pauses.lines("embedded", "kube-apiserver"))
    return [
        Row("worst pause, of kube-apiserver's", pauses.median_ratio, RATIO_BAR),
        Row("worst pause", statistics.median(pauses.ours) * 1000, None, "ms"),
    ]


def _make_pod(name: str, containers: int) -> dict[str, Any]:
    """Return a pod of a scheduler that does not run."""
    names = [f"c{number}" for number in range(containers)]
    spec = {
        "schedulerName": "none",
        "automountServiceAccountToken": False,
        "containers": [{"name": name, "image": "busybox:1"} for name in names],
    }
    return {"metadata": {"name": name}, "spec": spec}


def _make_config_map(name: str, parts: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {f"key-{part}": "" for part in range(parts)}}


async def _prepare(server: Server) -> None:
    """Create what is read."""
    async with server.connection() as client:
        await client.send(server.request("POST", f"{CORE}/configmaps", _make_config_map("a", 1)))
        for number in range(PODS_OF_TABLE):
            body = _make_pod(f"small-{number}", 10)
            await client.send(server.request("POST", f"{CORE}/pods", body))


async def _find_worst_pause(server: Server, number: int) -> float:
    """Return the longest time of a read, in seconds."""
    is_over = False
    worst = 0.0

    async def read() -> None:
        nonlocal worst
        request = server.request("GET", f"{CORE}/configmaps/a")
        async with server.connection() as reader:
            await reader.send(request)
            while not is_over:
                start = SYSTEM_CLOCK.monotonic()
                await reader.send(request)
                worst = max(worst, SYSTEM_CLOCK.monotonic() - start)

    async with server.connection() as writer:
        pod = f"large-{number}"
        body = _make_pod(pod, CONTAINERS)
        await writer.send(server.request("POST", f"{CORE}/pods", body))
        requests = _list_requests(server, pod)
        reading = asyncio.create_task(read())
        for request in requests:
            await writer.send(request)
        is_over = True
        await reading
    return worst


def _list_requests(server: Server, pod: str) -> list[bytes]:
    """Return the requests that are large, or that work on much."""
    words = quote(",".join(f"!key-{part}" for part in range(PARTS // 3)))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    table = server.request("GET", f"{CORE}/pods").replace(
        b" HTTP/1.1\r\n", f" HTTP/1.1\r\nAccept: {TABLE}\r\n".encode(), 1
    )
    large = _make_config_map("b", PARTS)
    return [
        server.request("POST", f"{CORE}/configmaps?dryRun=All", large),
        server.request("PATCH", f"{CORE}/configmaps/a?dryRun=All", {"data": large["data"]}, MERGE),
        server.request("GET", f"{CORE}/pods?labelSelector={words}"),
        server.request("GET", f"{CORE}/pods"),
        table,
        server.request("PATCH", f"{CORE}/pods/{pod}", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        server.request("POST", f"{CORE}/pods/{pod}/eviction", eviction),
    ]


if __name__ == "__main__":
    run_alone(measure_rows)

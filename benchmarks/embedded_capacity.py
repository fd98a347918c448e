"""Capacity of the embedded cluster: thousands of pods, hundreds of nodes and watchers.

Run it as `python -m benchmarks.embedded_capacity [PODS [NODES [WATCHERS]]]`, 10,000, 500 and 200 by
default; it takes minutes.

Replication controllers create pods until all are Ready, while clients in their namespaces watch
them and one client watches all of them and never reads. Printed are the memory per pod with all
that belongs to it (events, history, containers) and the latency of a GET meanwhile. The bar on
memory applies to 5,000 pods and more: the history has a fixed part.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from benchmarks.embedded_start import resident_megabytes
from benchmarks.rows import Row, run_alone
from benchmarks.wire import Server
from pytest_kwait.clock import SYSTEM_CLOCK, async_sleep
from pytest_kwait.clusters.provider import EmbeddedProvider
from pytest_kwait.simulator.protocol.options import EmbeddedOptions

if TYPE_CHECKING:
    from benchmarks.wire import Connection

PER_NAMESPACE = 500
MANY = 5000
MEMORY_BAR = 64
"""KB a pod, with its events."""
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "many"}},
    "spec": {"containers": [{"name": "c", "image": "busybox:1", "command": ["sleep", "36000"]}]},
}


def measure_rows(pods: int = 10_000, nodes: int = 500, watchers: int = 200) -> list[Row]:
    """Create the pods and read them meanwhile."""
    cluster = EmbeddedProvider(EmbeddedOptions(nodes=nodes)).start()
    try:
        server = Server.of(cluster.kubeconfig)
        return asyncio.run(_measure(server, cluster.pid, pods, nodes, watchers))
    finally:
        cluster.stop()


async def _measure(server: Server, pid: int, pods: int, nodes: int, watchers: int) -> list[Row]:
    names = [f"many-{number}" for number in range(-(-pods // PER_NAMESPACE))]
    seen: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(server.connection())
        for name in names:
            space = {"metadata": {"name": name}}
            await client.send(server.request("POST", "/api/v1/namespaces", space))
        deaf = socket.create_connection((server.host, server.port))
        stack.callback(deaf.close)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf = server.tls.wrap_socket(deaf, server_hostname=server.host)
        deaf.sendall(server.request("GET", "/api/v1/pods?watch=1&timeoutSeconds=3600"))
        followers = []
        for number in range(watchers):
            watcher = await stack.enter_async_context(server.connection())
            name = names[number % len(names)]
            path = f"/api/v1/namespaces/{name}/pods?watch=1&timeoutSeconds=3600"
            watcher.writer.write(server.request("GET", path))
            await watcher.head()
            followers.append(asyncio.create_task(_follow(watcher, f"{number}", seen)))
        before = resident_megabytes(pid)
        start = SYSTEM_CLOCK.monotonic()
        for number, name in enumerate(names):
            replicas = min(PER_NAMESPACE, pods - number * PER_NAMESPACE)
            spec = {"replicas": replicas, "selector": {"app": "many"}, "template": TEMPLATE}
            path = f"/api/v1/namespaces/{name}/replicationcontrollers"
            body = {"metadata": {"name": "many"}, "spec": spec}
            await client.send(server.request("POST", path, body))
        gets = await _all_ready(server, client, names, pods)
        took = SYSTEM_CLOCK.monotonic() - start
        used = (resident_megabytes(pid) - before) * 1024 / pods
        living = sum(not follower.done() for follower in followers)
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
    print(f"{pods} pods on {nodes} nodes, {watchers} watchers and one that never reads")
    print(f"  all Ready after {took:.0f} s; {sum(seen.values())} events seen")
    print(f"  GET meanwhile: max {max(gets):.2f} s")
    return [
        Row("memory of a pod", used, MEMORY_BAR if pods >= MANY else None, "KB"),
        Row("p50 of a GET meanwhile", statistics.median(gets) * 1000, None, "ms"),
        Row("watches that stay open", living, watchers, is_least=True),
    ]


async def _follow(watcher: Connection, name: str, seen: dict[str, int]) -> None:
    while await watcher.chunk():
        seen[name] = seen.get(name, 0) + 1


async def _all_ready(
    server: Server, client: Connection, names: list[str], pods: int
) -> list[float]:
    """Return once all pods are Ready, with the seconds of each GET."""
    gets: list[float] = []
    while True:
        ready = 0
        for name in names:
            path = f"/api/v1/namespaces/{name}/replicationcontrollers/many"
            start = SYSTEM_CLOCK.monotonic()
            found = await client.send(server.request("GET", path))
            gets.append(SYSTEM_CLOCK.monotonic() - start)
            ready += found["status"].get("readyReplicas", 0)
        if ready >= pods:
            return gets
        await async_sleep(1.0)


if __name__ == "__main__":
    run_alone(measure_rows)

"""Latency and throughput of the embedded API relative to a kube-apiserver and to bare aiohttp.

Run it as `python -m benchmarks.embedded_api [ROUNDS]`.

Latency, against the kube-apiserver: p50 of a GET of a 10 KB pod, and of the time from a PATCH of
it to each of 50 watchers; bar 1.0. Throughput: the same GET over 8 TLS connections; at least half
the requests per second of an aiohttp handler that only returns the same bytes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
import statistics
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.pairs import Pairs
from benchmarks.plane import some_cluster
from benchmarks.processor_time import read_process_seconds
from benchmarks.rows import Row, run_alone
from benchmarks.wire import Connection, Server, requests_per_second
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.clusters.provider import EmbeddedProvider
from pytest_kwait.simulator.authentication.pki import CertificateAuthority

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe

WATCHERS = 50
GETS, CHANGES = 200, 40
CONNECTIONS, SECONDS = 8, 2.0
SHARE_BAR = 0.5
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
POD: dict[str, Any] = {
    "metadata": {"name": "measured", "annotations": {"example.com/fill": "x" * 8600}},
    "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "busybox:1"}]},
}


def measure_rows(rounds: int = 5) -> list[Row]:
    """Send the same requests to each server in turns."""
    cluster = EmbeddedProvider().start()
    try:
        with some_cluster("-") as peer:
            ours = Server.of(cluster.kubeconfig)
            return asyncio.run(_measure(ours, Server.of(Path(peer)), rounds, cluster.pid))
    finally:
        cluster.stop()


async def _measure(ours: Server, peer: Server, rounds: int, pid: int) -> list[Row]:
    gets, watches = Pairs([], []), Pairs([], [])
    async with AsyncExitStack() as stack:
        for server in (ours, peer):
            connection = await stack.enter_async_context(server.connection())
            body = await connection.send(server.request("POST", PODS, POD))
        for number in range(rounds + 1):
            for server in (ours, peer) if number % 2 else (peer, ours):
                get, watch = await _latencies(server)
                if number:  # the first does not count
                    (gets.ours if server is ours else gets.peer).append(get)
                    (watches.ours if server is ours else watches.peer).append(watch)
    print(f"p50 with {WATCHERS} watchers")
    print(gets.lines("GET, embedded", "GET, kube-apiserver"))
    print(watches.lines("PATCH to seen, embedded", "PATCH to seen, kube-apiserver"))
    share = await _share(ours, str(body).encode(), rounds, pid)
    return [
        Row("p50 of a GET, of kube-apiserver's", gets.median_ratio, 1),
        Row("p50 from a PATCH to its watchers, of kube-apiserver's", watches.median_ratio, 1),
        Row("requests/s, of a bare aiohttp handler's", share, SHARE_BAR, is_least=True),
    ]


async def _latencies(server: Server) -> tuple[float, float]:
    """Return the p50 in seconds of a GET, and of the time from a change to each watcher."""
    seen: list[float] = []
    count = 0
    all_watching = asyncio.Event()

    async def follow(connection: Connection) -> None:
        nonlocal count
        while await connection.chunk():
            seen.append(SYSTEM_CLOCK.monotonic() - start)
            count += 1
            if count == WATCHERS:
                all_watching.set()

    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(server.connection())
        pod = await writer.send(server.request("GET", f"{PODS}/measured"))
        version = pod["metadata"]["resourceVersion"]
        followers = []
        for _ in range(WATCHERS):
            watcher = await stack.enter_async_context(server.connection())
            query = f"?watch=1&resourceVersion={version}&timeoutSeconds=600"
            watcher.writer.write(server.request("GET", f"{PODS}{query}"))
            await watcher.head()
            followers.append(asyncio.create_task(follow(watcher)))
        gets = []
        request = server.request("GET", f"{PODS}/measured")
        for _ in range(GETS):
            start = SYSTEM_CLOCK.monotonic()
            await writer.send(request)
            gets.append(SYSTEM_CLOCK.monotonic() - start)
        for number in range(CHANGES):
            patch = {"metadata": {"labels": {"number": f"{version}-{number}"}}}
            request = server.request("PATCH", f"{PODS}/measured", patch, MERGE)
            all_watching.clear()
            count = 0
            start = SYSTEM_CLOCK.monotonic()
            await writer.send(request)
            await all_watching.wait()
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
    return statistics.median(gets), statistics.median(seen)


async def _share(ours: Server, body: bytes, rounds: int, pid: int) -> float:
    """Return our requests per second as a part of a bare handler's."""
    spawn = multiprocessing.get_context("spawn")
    pipe, end = spawn.Pipe()
    process = spawn.Process(target=_serve_bare, args=(end, body), daemon=True)
    process.start()
    url, pem = await asyncio.to_thread(pipe.recv)
    bare = Server(url, ssl.create_default_context(cadata=pem))
    request = ours.request("GET", f"{PODS}/measured")
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    costs: dict[str, list[float]] = {"ours": [], "bare": []}
    pids = {"ours": pid, "bare": process.pid or 0}
    try:
        for number in range(rounds + 1):
            for name, server in (("ours", ours), ("bare", bare)):
                asked = request if server is ours else bare.request("GET", "/")
                before = read_process_seconds(pids[name])
                rate = await requests_per_second(server, asked, CONNECTIONS, SECONDS)
                if number:
                    rates[name].append(rate)
                    spent = read_process_seconds(pids[name]) - before
                    costs[name].append(spent / (rate * SECONDS) * 1e6)
    finally:
        process.terminate()
        process.join()
    pairs = zip(rates["ours"], rates["bare"], strict=True)
    share = statistics.median(one / other for one, other in pairs)
    print(f"requests per second, {CONNECTIONS} connections, {len(body)} bytes")
    for name, shown in (("ours", "GET of a pod, embedded"), ("bare", "a bare aiohttp handler")):
        print(f"  {shown:<44} median {statistics.median(rates[name]):9.0f}", end="")
        print(f"   {statistics.median(costs[name]):6.0f} us of its processor time each")
    return share


def _serve_bare(pipe: Pipe, body: bytes) -> None:
    asyncio.run(_serve(pipe, body))


async def _serve(pipe: Pipe, body: bytes) -> None:
    from aiohttp import web

    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    authority = CertificateAuthority("127.0.0.1")
    server = await asyncio.get_running_loop().create_server(
        web.Server(handler, access_log=None), "127.0.0.1", 0, ssl=authority.tls
    )
    port = server.sockets[0].getsockname()[1]
    pipe.send((f"https://127.0.0.1:{port}", authority.pem))
    await asyncio.Event().wait()


if __name__ == "__main__":
    run_alone(measure_rows)

"""Start of a thousand pods of one controller: bar half of a real control plane's time.

Run it as `python -m benchmarks.thousand_pods [ROUNDS [PODS [NODES]]]`; 3, 1,000 and 20 by default.

A ReplicaSet until all its pods are Ready, and a Job until it is Complete: on the embedded cluster,
and on etcd, kube-apiserver, kube-controller-manager and kube-scheduler (500 requests/s each) with
nodes by kwok, which is built from its pinned module first. Both are started in turns, in each round
again, and polled for the controller's status over one connection.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.children import run_child
from benchmarks.plane import control_plane
from benchmarks.rows import Row, run_alone
from benchmarks.wire import Server
from pytest_kwait.clock import SYSTEM_CLOCK, async_sleep
from pytest_kwait.clusters.provider import EmbeddedProvider
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from tools.controlplane import assets

if TYPE_CHECKING:
    from collections.abc import Iterator

BAR = 0.5
LIMIT = 600.0
MODULE = Path(__file__).with_name("kwok")
POLL_INTERVAL = 0.1
"""Seconds between polls of the status."""


def measure_rows(rounds: int = 3, pods: int = 1000, nodes: int = 20) -> list[Row]:
    """Start the pods on both in turns."""
    kwok = build()
    took: dict[str, dict[str, list[float]]] = {"real": {}, "embedded": {}}
    for _ in range(rounds):
        with control_plane(controllers=True, scheduler=True) as kubeconfig:
            server = Server.of(kubeconfig)
            asyncio.run(_make_nodes(server, nodes))
            with _running(kwok, kubeconfig):
                _note(took["real"], asyncio.run(_measure(server, pods)))
        cluster = EmbeddedProvider(EmbeddedOptions(nodes=nodes)).start()
        try:
            _note(took["embedded"], asyncio.run(_measure(Server.of(cluster.kubeconfig), pods)))
        finally:
            cluster.stop()
    rows = []
    for what in took["real"]:
        real, ours = (statistics.median(took[which][what]) for which in ("real", "embedded"))
        print(f"{what} of {pods} pods: {ours:.1f} s, real {real:.1f} s")
        rows.append(Row(f"{what} of {pods} pods, of a real cluster's time", ours / real, BAR))
    return rows


def build() -> Path:
    """Return the kwok that go.mod pins, built if missing."""
    folder = assets.storage() / "kwok"
    run_child(
        ["go", "install", "-ldflags", "-s -w", "tool"],
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder)},
    )
    return folder / "kwok"


def _stages() -> list[str]:
    """Return kwok's fast stages of nodes and pods."""
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
    stages = Path(run_child(asked, cwd=MODULE).strip()) / "kustomize" / "stage"
    files = [file for kind in ("node", "pod") for file in (stages / kind / "fast").glob("*.yaml")]
    every = [file for file in files if file.name != "kustomization.yaml"]
    return [f"--config={file}" for file in sorted(every)]


@contextmanager
def _running(kwok: Path, kubeconfig: Path) -> Iterator[None]:
    with ExitStack() as stack:
        log = stack.enter_context(kubeconfig.with_name("kwok.log").open("wb"))
        process = subprocess.Popen(
            [str(kwok), "--manage-all-nodes", f"--kubeconfig={kubeconfig}", *_stages()],
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _note(took: dict[str, list[float]], found: dict[str, float]) -> None:
    for what, seconds in found.items():
        took.setdefault(what, []).append(seconds)


async def _make_nodes(server: Server, nodes: int) -> None:
    async with server.connection() as client:
        for number in range(nodes):
            node = {"metadata": {"name": f"node-{number}"}}
            await client.send(server.request("POST", "/api/v1/nodes", node))


async def _measure(server: Server, pods: int) -> dict[str, float]:
    container: dict[str, Any] = {"name": "c", "image": "busybox:1", "command": ["sleep", "36000"]}
    labels = {"app": "many"}
    template: dict[str, Any] = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    kept = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
    ending = {**container, "command": ["true"]}
    once: dict[str, Any] = {"spec": {"containers": [ending], "restartPolicy": "Never"}}
    job = {"completions": pods, "parallelism": pods, "template": once}
    asked = (("ReplicaSet", "apps", "replicasets", kept), ("Job", "batch", "jobs", job))
    found = {}
    async with server.connection() as client:
        for kind, group, plural, spec in asked:
            space = kind.lower()
            body: dict[str, Any] = {"metadata": {"name": space}}
            await client.send(server.request("POST", "/api/v1/namespaces", body))
            accounts = f"/api/v1/namespaces/{space}/serviceaccounts"
            while not (await client.send(server.request("GET", accounts)))["items"]:
                await async_sleep(POLL_INTERVAL)
            path = f"/apis/{group}/v1/namespaces/{space}/{plural}"
            start = SYSTEM_CLOCK.monotonic()
            body = {"metadata": {"name": "many"}, "spec": spec}
            await client.send(server.request("POST", path, body))
            while not _done(await client.send(server.request("GET", f"{path}/many")), pods):
                if SYSTEM_CLOCK.monotonic() - start > LIMIT:
                    raise TimeoutError(f"the {kind} was not done within {LIMIT:g}s")
                await async_sleep(POLL_INTERVAL)
            found[kind] = SYSTEM_CLOCK.monotonic() - start
    return found


def _done(obj: dict[str, Any], pods: int) -> bool:
    status = obj.get("status") or {}
    ended = any(one["type"] == "Complete" for one in status.get("conditions") or ())
    return ended or status.get("readyReplicas", 0) >= pods


if __name__ == "__main__":
    run_alone(measure_rows)

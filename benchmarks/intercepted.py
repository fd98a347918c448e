"""Programs in pods by intercepted system calls, beside the same programs alone.

Run it as `python -m benchmarks.intercepted [ROUNDS]`; it needs Linux.

Bars: from a sandbox' creation to the program's first output, and from the creation of a pod to
Running, at most 1.5 times a bare `subprocess.Popen` of the same program plus 100 ms; requests
through a service, by its name, at least 0.3 of those over the loopback interface;
`import kubernetes.client` in a pod with mounts at most 1.6 times the import outside; 50 idle pods
of 25 Deployments at most a tenth of a processor, all processes of the cluster together. A build of
5,000 operations on files has no bar, nor have requests without the name or the service.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from benchmarks import container_start
from benchmarks.children import run_child
from benchmarks.pairs import measure
from benchmarks.processor_time import read_process_seconds, read_tree_seconds
from benchmarks.programs import (
    NAMESPACE,
    SERVE,
    SERVING,
    Cluster,
    create_service,
    measure_requests,
    measure_service,
    measure_start,
    serving_cluster,
)
from benchmarks.rows import CannotMeasureError, Row, run_alone
from e2e.objects import config_map, deployment, pod, secret
from pytest_kwait import wait_for_deployment_complete, wait_for_pod_ready
from pytest_kwait.client.resource import CONFIG_MAPS, DEPLOYMENTS, PODS, SECRETS, SERVICES
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.simulator import find_isolation_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START_EXTRA = 0.1
IMPORT_RATIO = 1.6
IDLE_SHARE = 0.1
IDLE_DEPLOYMENTS, IDLE_REPLICAS = 25, 2
IDLE_SECONDS = 20.0
SETTLE_SECONDS = 10.0
"""Seconds in which the start of the last pods comes to its end."""

TIMEOUT = 120

_IMPORT = """
import time
began = time.monotonic()
import kubernetes.client
print(time.monotonic() - began)
"""
_BUILD = """
import os, sys, time
folder, steps = sys.argv[1], int(sys.argv[2])
os.makedirs(folder)
began = time.monotonic()
for step in range(steps):
    source, made = f"{folder}/{step}.c", f"{folder}/{step}.tmp"
    with open(source, "w") as file:
        file.write("int main() { return 0; }")
    os.stat(source)
    with open(source) as file:
        text = file.read()
    with open(made, "w") as file:
        file.write(text)
    os.rename(made, f"{folder}/{step}.o")
print(time.monotonic() - began)
"""
_STEPS = 1000
"""Of five operations each: create, look, read, create, rename."""


def measure_rows(rounds: int = 15) -> list[Row]:
    """Run programs in pods and without, in turns.

    Raises:
        CannotMeasureError: this machine cannot intercept system calls.
    """
    if refusal := find_isolation_refusal("intercepted"):
        raise CannotMeasureError(refusal)
    rows = [container_start.measure_start(rounds, "intercepted", START_EXTRA)]
    with serving_cluster("intercepted") as cluster:
        rows.append(measure_start(cluster, rounds, START_EXTRA))
        create_service(cluster)
        rows += [measure_service(cluster, min(rounds, 5)), *_measure_addresses(cluster)]
        _create_pod_with_mounts(cluster)
        rows += [_measure_import(cluster, rounds), _measure_build(cluster, min(rounds, 5))]
    with serving_cluster("intercepted") as cluster:
        return [*rows, _measure_idle(cluster)]


def _measure_addresses(cluster: Cluster) -> list[Row]:
    """Send requests without a look-up of the name, and without the service."""
    deadline = Deadline.after(TIMEOUT)
    service = cluster.session.get(SERVICES, "server", NAMESPACE, deadline=deadline)
    server = cluster.session.get(PODS, "server", NAMESPACE, deadline=deadline)
    return [
        Row(f"requests/s {what}, of loopback's", measure_requests(cluster, host, 3), None)
        for what, host in (
            ("to its cluster IP", service["spec"]["clusterIP"]),
            ("to its pod", f"{server['status']['podIP']}:8080"),
        )
    ]


def _create_pod_with_mounts(cluster: Cluster) -> None:
    """Create the pod `mounts`, with a volume of each usual kind beside its token."""
    deadline = Deadline.after(TIMEOUT)
    for resource, obj in (
        (CONFIG_MAPS, config_map("settings", level="debug")),
        (SECRETS, secret("login", user="till")),
    ):
        cluster.session.create(resource, obj, NAMESPACE, deadline=deadline)
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "login", "secret": {"secretName": "login"}},
        {"name": "data", "emptyDir": {}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/srv/{each['name']}"} for each in volumes]
    mounted = pod("mounts", SERVING | {"volumeMounts": mounts}, volumes=volumes)
    cluster.session.create(PODS, mounted, NAMESPACE, deadline=deadline)
    wait_for_pod_ready(cluster.api, NAMESPACE, "mounts", timeout=TIMEOUT)


def _execute(cluster: Cluster, command: list[str]) -> float:
    """Run a program in the pod with mounts; return the seconds that it prints."""
    deadline = Deadline.after(TIMEOUT)
    return float(cluster.session.exec(NAMESPACE, "mounts", command, deadline=deadline).stdout)


def _measure_import(cluster: Cluster, rounds: int) -> Row:
    command = [sys.executable, "-c", _IMPORT]
    pairs = measure(lambda: _execute(cluster, command), lambda: float(run_child(command)), rounds)
    print("import kubernetes.client")
    print(pairs.lines("in a pod with mounts", "outside"))
    return Row("import kubernetes.client, of that outside", pairs.median_ratio, IMPORT_RATIO)


def _measure_build(cluster: Cluster, rounds: int) -> Row:
    numbers = iter(range(1000))

    def in_pod() -> float:
        # In the layer of the container.
        folder = f"/var/tmp/build-{next(numbers)}"
        return _execute(cluster, [sys.executable, "-c", _BUILD, folder, str(_STEPS)])

    def outside() -> float:
        with tempfile.TemporaryDirectory() as folder:
            return float(run_child([sys.executable, "-c", _BUILD, f"{folder}/build", str(_STEPS)]))

    pairs = measure(in_pod, outside, rounds)
    print(f"a build of {5 * _STEPS:,} operations on files")
    print(pairs.lines("in a pod", "outside"))
    return Row(f"{5 * _STEPS:,} operations on files, of those outside", pairs.median_ratio, None)


def _measure_idle(cluster: Cluster) -> Row:
    """Compare the processor's time of idle pods with that of the same programs outside."""
    _create_deployments(cluster)
    with _plain_programs() as own:
        SYSTEM_CLOCK.sleep(SETTLE_SECONDS)
        before = [read_tree_seconds(cluster.pid), own()]
        SYSTEM_CLOCK.sleep(IDLE_SECONDS)
        after = [read_tree_seconds(cluster.pid), own()]
    ours, peer = ((late - early) / IDLE_SECONDS for early, late in zip(before, after, strict=True))
    number = IDLE_DEPLOYMENTS * IDLE_REPLICAS
    print(f"{number} idle programs, in percent of a processor")
    print(f"  in pods, with their cluster {ours * 100:.1f}, as plain processes {peer * 100:.1f}")
    what = f"{number} idle pods and their cluster, of a processor"
    return Row(what, ours * 100, IDLE_SHARE * 100, "%")


def _create_deployments(cluster: Cluster) -> None:
    """Create Deployments of the server, and return once all are complete."""
    serving = SERVING | {"readinessProbe": {"tcpSocket": {"port": 8080}}}
    for number in range(IDLE_DEPLOYMENTS):
        made = deployment(f"idle-{number}", IDLE_REPLICAS)
        made["spec"]["template"]["spec"]["containers"] = [serving]
        cluster.session.create(DEPLOYMENTS, made, NAMESPACE, deadline=Deadline.after(TIMEOUT))
    for number in range(IDLE_DEPLOYMENTS):
        wait_for_deployment_complete(cluster.api, NAMESPACE, f"idle-{number}", timeout=TIMEOUT)


@contextmanager
def _plain_programs() -> Iterator[Callable[[], float]]:
    """Run as many servers as there are idle pods; yield a function of their processor's time."""
    with ExitStack() as stack:
        servers: list[subprocess.Popen[bytes]] = []
        for _ in range(IDLE_DEPLOYMENTS * IDLE_REPLICAS):
            server = subprocess.Popen([*SERVE, "0"], stdout=subprocess.PIPE)
            stack.callback(_end, server)
            servers.append(server)
        for server in servers:
            assert server.stdout is not None
            server.stdout.readline()
        yield lambda: sum(read_process_seconds(server.pid) for server in servers)


def _end(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.communicate()


if __name__ == "__main__":
    run_alone(measure_rows)

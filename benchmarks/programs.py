"""Start of programs in pods, and requests through a service, beside the same programs alone.

Run it as `python -m benchmarks.programs [ROUNDS]`.

Bars: from the creation of a pod to Running at most 1.5 times a bare `subprocess.Popen` of the same
program plus 50 ms; requests through a service at least 0.3 of those over the loopback interface,
each on a connection of its own, by name.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kubernetes import client, config

from benchmarks.children import run_child
from benchmarks.pairs import measure, seconds
from benchmarks.rows import Row, run_alone
from e2e.objects import pod, service
from pytest_kwait import wait_for_pod_ready, wait_for_pod_running
from pytest_kwait.client.resource import PODS, SERVICE_ACCOUNTS, SERVICES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.clusters.simulator_process import SimulatorProcess
from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
from pytest_kwait.simulator.protocol.options import EmbeddedOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.protocol.options import RequestedIsolation

NAMESPACE = "default"
START_RATIO, START_EXTRA = 1.5, 0.05
SERVICE_RATIO = 0.3
REQUESTS = 300

_SERVE = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("", int(sys.argv[1])), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""
_REQUEST = """
import sys, time, urllib.request
url, number = sys.argv[1], int(sys.argv[2])
urllib.request.urlopen(url).read()
began = time.monotonic()
for _ in range(number):
    urllib.request.urlopen(url).read()
print(number / (time.monotonic() - began))
"""
SERVE = [sys.executable, "-c", _SERVE]
SERVING = {
    "name": "c",
    "image": "bench/serve",
    "args": ["8080"],
    "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
}
"""A container that answers requests."""


class Cluster(NamedTuple):
    """A cluster whose pods run the server of this benchmark.

    Args:
        api: the official client.
        pid: the process of the cluster.
    """

    session: ApiSession
    api: client.ApiClient
    pid: int


@contextmanager
def serving_cluster(isolation: RequestedIsolation = "auto") -> Iterator[Cluster]:
    """Start a cluster of one node whose programs have an isolation; stop it at the end."""
    mapping = ImageMapping("bench/serve", tuple(SERVE), env={"PATH": os.environ["PATH"]})
    options = EmbeddedOptions(nodes=1, images=(mapping,), isolation=isolation)
    with tempfile.TemporaryDirectory() as name:
        kubeconfig = Path(name) / "kubeconfig"
        process = SimulatorProcess(kubeconfig, Path(name) / "log", options)
        try:
            api = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
            session = ApiSession.of(api)
            session.get(SERVICE_ACCOUNTS, "default", NAMESPACE, deadline=Deadline.after(30))
            yield Cluster(session, api, process.pid)
        finally:
            process.stop()


def _pod(name: str) -> dict[str, object]:
    return pod(name, SERVING, labels={"app": name}, restartPolicy="Always")


def _popen() -> float:
    """Return the seconds from `Popen` to the program's first output."""
    began = SYSTEM_CLOCK.monotonic()
    with subprocess.Popen([*SERVE, "0"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        took = SYSTEM_CLOCK.monotonic() - began
        process.kill()
    return took


def measure_start(cluster: Cluster, rounds: int, extra: float = START_EXTRA) -> Row:
    """Start a program in a pod and as a process, in turns.

    Args:
        extra: the seconds that a pod may take beyond 1.5 times a process' start.
    """
    session = cluster.session
    numbers = iter(range(1000))

    def start_pod() -> float:
        name = f"start-{next(numbers)}"

        def run() -> None:
            session.create(PODS, _pod(name), NAMESPACE, deadline=Deadline.after(30))
            wait_for_pod_running(cluster.api, NAMESPACE, name, timeout=30)

        took = seconds(run)
        session.delete(PODS, name, NAMESPACE, deadline=Deadline.after(30))
        return took

    pairs = measure(start_pod, _popen, rounds)
    print("start of a program")
    print(pairs.lines("from the creation of its pod to Running", "from Popen to its first output"))
    rest = statistics.median(
        ours - START_RATIO * peer for ours, peer in zip(pairs.ours, pairs.peer, strict=True)
    )
    what = f"pod to Running, above {START_RATIO} times a process' start"
    return Row(what, rest * 1000, extra * 1000, "ms")


def create_service(cluster: Cluster) -> None:
    """Create a service with its pod, both `server`, and a pod `client`."""
    deadline = Deadline.after(60)
    cluster.session.create(SERVICES, service("server"), NAMESPACE, deadline=deadline)
    for name in ("server", "client"):
        cluster.session.create(PODS, _pod(name), NAMESPACE, deadline=deadline)
        wait_for_pod_ready(cluster.api, NAMESPACE, name, timeout=30)


def measure_requests(cluster: Cluster, host: str, rounds: int) -> float:
    """Return the requests a second from the pod `client` to a host, of those over loopback.

    Args:
        host: the name or address of the server, with its port unless that is 80.
    """
    with subprocess.Popen([*SERVE, "0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/"

        def in_pod() -> float:
            command = [sys.executable, "-c", _REQUEST, f"http://{host}/", str(REQUESTS)]
            deadline = Deadline.after(60)
            return float(
                cluster.session.exec(NAMESPACE, "client", command, deadline=deadline).stdout
            )

        def over_loopback() -> float:
            return float(run_child([sys.executable, "-c", _REQUEST, url, str(REQUESTS)]))

        try:
            pairs = measure(in_pod, over_loopback, rounds)
        finally:
            server.kill()
    ours, peer = statistics.median(pairs.ours), statistics.median(pairs.peer)
    print(f"requests a second to {host} {ours:.0f}, over the loopback interface {peer:.0f}")
    return pairs.median_ratio


def measure_service(cluster: Cluster, rounds: int) -> Row:
    """Send requests through the service by its name, and over loopback, in turns."""
    what = "requests/s through a service, of loopback's"
    return Row(what, measure_requests(cluster, "server", rounds), SERVICE_RATIO, is_least=True)


def measure_rows(rounds: int = 15) -> list[Row]:
    """Start programs and send requests, in pods and without, in turns."""
    with serving_cluster() as cluster:
        started = measure_start(cluster, rounds)
        create_service(cluster)
        return [started, measure_service(cluster, min(rounds, 5))]


if __name__ == "__main__":
    run_alone(measure_rows)

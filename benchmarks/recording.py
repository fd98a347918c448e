"""Cost of recordings: bars 3 % of a suite's time, 20 MB and 12 requests a resource and worker.

Run it as `python -m benchmarks.recording [KUBECONFIG [ROUNDS]]`; without a kubeconfig (or with `-`)
all parts run on embedded clusters. Each part has a peer in the same run:

- the time of a suite's tests on the embedded cluster, and the memory of its processes: the same
  suite without recordings;
- a worker's watches of another cluster, over many namespaces: bars are the requests and the
  connections for a resource, and the memory of the process before;
- opening a recording of 10,000 changes: loading its JSON without types; the bar is 3 times that.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import statistics
import sys
import tempfile
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.children import run_child
from benchmarks.pairs import measure, seconds
from benchmarks.rows import Row, run_alone
from pytest_kwait.client.resource import CONFIG_MAPS, NAMESPACES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.clusters.provider import connect
from pytest_kwait.simulator.protocol.recording.files import (
    VERSION,
    RawLine,
    RecordingHeader,
    encode_recording,
    read_recording,
)
from pytest_kwait.simulator.replay import RecordedCluster
from pytest_kwait.suite.artifacts.history import WatchedHistory

if TYPE_CHECKING:
    from collections.abc import Iterator

TIME_BAR = 1.03
MEMORY_BAR = 20.0
REQUESTS_BAR = 12
CONNECTIONS_BAR = 1.0
LOAD_BAR = 3.0

NAMESPACES_WATCHED = 40
CHANGES = 10_000

_KWAIT = [
    sys.executable,
    "-P",
    "-c",
    "import sys; from pytest_kwait.cli import main; sys.exit(main())",
]

_SUITE = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_rollout(kwait, number):
    kwait.apply({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web"}},
                              "spec": {"containers": [{"name": "web", "image": "busybox:1.36",
                                                       "command": ["sleep", "600"]}]}}}})
    kwait.wait_for_deployment_complete("web")
"""
_CONFTEST = """
import os
import resource
import time
from pathlib import Path

times = []

def pytest_runtest_setup(item):
    times.append(time.monotonic())

def pytest_runtest_teardown(item):
    times.append(time.monotonic())

def pytest_sessionfinish(session):
    memory = cpu = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            pages = int((folder / "statm").read_text().split()[1])
        except OSError:  # it has ended meanwhile
            continue
        # By its parent: the children of a thread are gone from /proc with the thread.
        if os.getpid() in (int(folder.name), int(fields[1])):
            memory += pages
            cpu += int(fields[11]) + int(fields[12])
    megabytes = memory * resource.getpagesize() / 1e6
    seconds = cpu / os.sysconf("SC_CLK_TCK")
    Path("facts").write_text(f"{times[-1] - times[0]} {megabytes} {seconds}")
"""


def measure_rows(kubeconfig: str = "-", rounds: int = 9) -> list[Row]:
    """Measure the three parts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [*_compare_suites(folder, rounds), _open_recording(folder, rounds)]
        with _some_cluster(folder, kubeconfig) as path:
            rows += _watch_cluster(folder, path)
    return rows


def _compare_suites(folder: Path, rounds: int) -> list[Row]:
    """Run a suite with and without recordings in turns."""
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "test_suite.py").write_text(_SUITE)
    memory: dict[str, list[float]] = {"never": [], "failed": []}
    cpu: dict[str, list[float]] = {"never": [], "failed": []}

    def run(recorded: str) -> float:
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["--kwait-cluster=embedded", "--kwait-artifacts=artifacts"]
        command.append(f"--kwait-record={recorded}")
        run_child(command, cwd=folder)
        duration, megabytes, busy = (folder / "facts").read_text().split()
        memory[recorded].append(float(megabytes))
        cpu[recorded].append(float(busy))
        return float(duration)

    pairs = measure(lambda: run("failed"), lambda: run("never"), rounds)
    more = statistics.median(
        ours - peer for ours, peer in zip(memory["failed"], memory["never"], strict=True)
    )
    print("20 tests with a deployment of 3 pods each, on the embedded cluster")
    print(pairs.lines("recorded", "not recorded"))
    # Steadier than the duration on a busy machine.
    busy = statistics.median(
        ours / peer for ours, peer in zip(cpu["failed"], cpu["never"], strict=True)
    )
    return [
        Row("duration of a suite, of that without recordings", pairs.median_ratio, TIME_BAR),
        Row("CPU of a suite, of that without recordings", busy, None),
        Row("more memory of worker and cluster", more, MEMORY_BAR, "MB"),
    ]


def _open_recording(folder: Path, rounds: int) -> Row:
    """Open a long recording."""
    path = folder / "recording.jsonl.gz"
    header = RecordingHeader(VERSION, 1_767_225_600.0, "t.py::test_it", ["t-1"], "v1.36.2", "r1")
    path.write_bytes(encode_recording(header, _changes(), CHANGES / 100))

    def load() -> None:
        lines = gzip.decompress(path.read_bytes()).splitlines()
        objects = [json.loads(line) for line in lines]
        assert len(objects) == CHANGES + 2

    def open_at_end() -> None:
        recording = read_recording(path)
        RecordedCluster(recording).advance(recording.end)

    pairs = measure(lambda: seconds(open_at_end), lambda: seconds(load), rounds)
    print(f"a recording of {CHANGES} changes, {path.stat().st_size / 1e6:.1f} MB")
    print(pairs.lines("read, and shown at its end", "gzip and json"))
    return Row("opening a recording, of loading its JSON", pairs.median_ratio, LOAD_BAR)


def _changes() -> Iterator[RawLine]:
    """Yield the changes of 100 pods, which are created and change their status 99 times."""
    for number in range(CHANGES):
        name, phase = f"web-{number % 100}", "Running" if number % 3 else "Pending"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "t-1",
                "uid": f"u-{name}",
                "resourceVersion": str(number + 1),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": "web", "pod-template-hash": "5f6d8c9b7"},
            },
            "spec": {
                "nodeName": f"node-{number % 3}",
                "containers": [
                    {
                        "name": "web",
                        "image": "shop/web:1",
                        "env": [{"name": f"V{i}", "value": "v"} for i in range(10)],
                        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    }
                ],
            },
            "status": {
                "phase": phase,
                "conditions": [
                    {
                        "type": kind,
                        "status": str(phase == "Running"),
                        "lastTransitionTime": "2026-01-01T00:00:01Z",
                    }
                    for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
                ],
            },
        }
        yield RawLine(
            at=number / 100,
            type="ADDED" if number < 100 else "MODIFIED",
            resource="pods",
            key=f"t-1/{name}",
            revision=number + 1,
            object=msgspec.Raw(msgspec.json.encode(pod)),
        )


def _watch_cluster(folder: Path, kubeconfig: Path) -> list[Row]:
    """Record namespaces one after the other."""
    cluster = connect(kubeconfig)
    session = ApiSession.of(cluster.client())
    counts: Counter[str] = Counter()

    def counted_client() -> Any:
        client = cluster.client()
        _count_requests(ApiSession.of(client), counts)
        return client

    sockets, memory = _count_sockets(), _read_memory()
    run = uuid.uuid4().hex[:8]
    history = WatchedHistory(counted_client, folder / "journals", SYSTEM_CLOCK.time())
    history.start()
    for number in range(NAMESPACES_WATCHED):
        name = f"kwait-bench-{run}-{number}"
        history.enter(name, is_new=True)
        deadline = Deadline.after(30)
        session.create(NAMESPACES, {"metadata": {"name": name}}, deadline=deadline)
        history.enter(name, is_new=False)
        for index in range(20):
            session.create(
                CONFIG_MAPS,
                {"metadata": {"name": f"c-{index}"}, "data": {"text": "x" * 2000}},
                name,
                deadline=deadline,
            )
        history.settle(10)
        history.leave(name)
        session.delete(NAMESPACES, name, deadline=deadline)
    opened, more = _count_sockets() - sockets, _read_memory() - memory
    problems = history.problems()
    history.stop()
    resources = len(counts)
    most = max(counts.values())
    print(f"{NAMESPACES_WATCHED} namespaces of 20 objects on another cluster, by one worker")
    for problem in problems:
        print(f"  {problem}")
    return [
        Row("most requests for a resource", most, REQUESTS_BAR),
        Row("connections for a resource", opened / resources, CONNECTIONS_BAR),
        Row("more memory of a worker that watches", more, MEMORY_BAR, "MB"),
    ]


def _count_requests(session: ApiSession, counts: Counter[str]) -> None:
    """Count the requests of a session by their resource."""
    send, open_watch = session.transport.send, session.transport.open

    def count(path: str) -> None:
        counts[path.rpartition("/")[2]] += 1

    def counted_send(method: str, path: str, **options: Any) -> Any:
        count(path)
        return send(method, path, **options)

    def counted_open(path: str, **options: Any) -> Any:
        count(path)
        return open_watch(path, **options)

    session.transport.send = counted_send  # type: ignore[method-assign] # counts, and passes on
    session.transport.open = counted_open  # type: ignore[method-assign] # the same


def _count_sockets() -> int:
    """Return the number of connections; a socket may have several descriptors."""
    sockets: set[str] = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(str(link.readlink()))
    return sum(name.startswith("socket:") for name in sockets)


def _read_memory() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def _some_cluster(folder: Path, kubeconfig: str) -> Iterator[Path]:
    if kubeconfig != "-":
        yield Path(kubeconfig)
        return
    own = folder / "kubeconfig"
    run_child([*_KWAIT, "up", "--kubeconfig", str(own), "--detach"])
    try:
        yield own
    finally:
        run_child([*_KWAIT, "down", "--kubeconfig", str(own)])


if __name__ == "__main__":
    run_alone(measure_rows)

"""Start time (bar 0.2 of the peer's) and memory (bar 100 MB) of the embedded cluster.

Run it as `python -m benchmarks.embedded_start [ROUNDS]`.

Ours: from starting the process to nodes Ready. Peer: etcd and kube-apiserver alone, to /readyz.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.pairs import measure, seconds
from benchmarks.plane import Plane
from benchmarks.rows import Row, run_alone
from pytest_kwait.clusters.provider import EmbeddedProvider
from tools.controlplane import assets

TIME_BAR = 0.2
MEMORY_BAR = 100


def measure_rows(rounds: int = 7) -> list[Row]:
    """Start both in turns."""
    programs = assets.build()
    memory: list[float] = []

    def ours() -> float:
        cluster = None

        def start() -> None:
            nonlocal cluster
            cluster = EmbeddedProvider().start()

        took = seconds(start)
        assert cluster is not None
        memory.append(resident_megabytes(cluster.pid))
        cluster.stop()
        return took

    def peer() -> float:
        with tempfile.TemporaryDirectory() as folder:
            plane = Plane(Path(folder), programs)
            try:
                return seconds(plane.start_server)
            finally:
                plane.stop()

    pairs = measure(ours, peer, rounds)
    print("from start to ready")
    print(pairs.lines("embedded cluster, nodes Ready", "etcd + kube-apiserver, /readyz"))
    return [
        Row("start to ready, of etcd and kube-apiserver's", pairs.median_ratio, TIME_BAR),
        Row("resident memory", statistics.median(memory), MEMORY_BAR, "MB"),
    ]


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process at this moment."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    run_alone(measure_rows)

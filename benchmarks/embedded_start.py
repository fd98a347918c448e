"""Start time (bar 0.2 of the peer's) and memory (bar 100 MB) of the embedded cluster.

Run it as `python -m benchmarks.embedded_start [ROUNDS]`.

Ours: from starting the process to nodes Ready. Peer: etcd and kube-apiserver alone, to /readyz.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.pairs import measure, seconds
from pytest_kwait.clusters.provider import EmbeddedProvider
from tools.controlplane import assets
from tools.controlplane.readiness import Readiness
from tools.controlplane.servers import ControlPlane

if TYPE_CHECKING:
    from tools.controlplane.processes import Component

TIME_BAR = 0.2
MEMORY_BAR = 100


def main() -> int:
    """Print ratio and memory; exit 1 above a bar."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
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
            (Path(folder) / "logs").mkdir()
            plane = ControlPlane(Path(folder), programs, None)
            components: list[Component] = []

            def check() -> None:
                for component in components:
                    component.check()

            def start() -> None:
                for component in plane.storage_and_server():
                    component.start()
                    components.append(component)
                Readiness(plane, check).server()

            try:
                return seconds(start)
            finally:
                for component in reversed(components):
                    component.stop()

    pairs = measure(ours, peer, rounds)
    print("from start to ready")
    print(pairs.lines("embedded cluster, nodes Ready", "etcd + kube-apiserver, /readyz"))
    print(f"  median of paired ratios {pairs.median_ratio:.3f}, bar {TIME_BAR}")
    megabytes = statistics.median(memory)
    print(f"  resident memory of the embedded cluster {megabytes:.0f} MB, bar {MEMORY_BAR} MB")
    return int(pairs.median_ratio > TIME_BAR or megabytes > MEMORY_BAR)


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process at this moment."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())

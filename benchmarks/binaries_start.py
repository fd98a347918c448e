"""Start time of `--kwait-cluster=binaries` beside the bare programs: bar 1.2 times.

Run it as `python -m benchmarks.binaries_start [ROUNDS]`.

Ours: from the provider to the cluster, certificates included. Peer: etcd and kube-apiserver with
certificates made before, to /readyz.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.children import run_child
from benchmarks.pairs import measure, seconds
from benchmarks.rows import Row, run_alone
from pytest_kwait.clusters import ClusterRequest
from pytest_kwait.clusters.binaries import BinariesProvider
from tools.controlplane import assets
from tools.controlplane.readiness import Readiness
from tools.controlplane.servers import ControlPlane

BAR = 1.2


def measure_rows(rounds: int = 7) -> list[Row]:
    """Start both in turns."""
    programs = assets.build()

    def ours() -> float:
        made = []
        took = seconds(
            lambda: made.append(BinariesProvider(ClusterRequest(assets=programs)).start())
        )
        made[0].stop()
        return took

    def peer() -> float:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "logs").mkdir()
            plane = ControlPlane(Path(folder), programs, None)
            components = plane.storage_and_server()

            def check() -> None:
                for each in components:
                    each.check()

            def start() -> None:
                for component in components:
                    component.start()
                Readiness(plane, check).server()

            try:
                return seconds(start)
            finally:
                for component in reversed(components):
                    component.stop()

    # The first import of the libraries for certificates belongs to a run, which has one start.
    imports = [sys.executable, "-c", "import trustme"]
    bare = [sys.executable, "-c", "import ssl"]
    extra = seconds(lambda: run_child(imports)) - seconds(lambda: run_child(bare))
    pairs = measure(lambda: ours() + extra, peer, rounds)
    print("from start to ready")
    print(pairs.lines("--kwait-cluster=binaries", "etcd + kube-apiserver, /readyz"))
    print(f"  of ours {extra * 1000:.0f} ms are imports, measured apart")
    return [Row("start to ready, of the bare programs'", pairs.median_ratio, BAR)]


if __name__ == "__main__":
    run_alone(measure_rows)

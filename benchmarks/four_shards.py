"""Four CI jobs of two workers each share a suite of 200 tests on one cluster, in three rounds.

Run it as `python -m benchmarks.four_shards [KUBECONFIG] [ROUNDS]`; `-` for the embedded cluster.

Bar: in every round each test runs once, none fails, no namespace remains, and the merged report
has all waits. The duration of the jobs is printed too.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rows import Row, run_alone
from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.clusters.cluster import ClusterRequest
from pytest_kwait.clusters.provider import choose_provider
from pytest_kwait.suite.cleanup.owned_objects import run_label_value
from pytest_kwait.suite.report.files import read_report
from pytest_kwait.suite.report.run_report import merge_reports

if TYPE_CHECKING:
    from pytest_kwait.clusters.cluster import Cluster

JOBS = 4
WORKERS = 2
TESTS = 200
LIMIT = 900.0

SUITE = f"""
import os
import threading
from pathlib import Path

import pytest

NOTE = {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "note"}}}}


@pytest.mark.parametrize("number", range({TESTS}))
def test_it(kwait, number):
    threading.Timer(0.1, kwait.create, [NOTE]).start()
    kwait.wait_for("configmap/note", "create", timeout="60s")
    threading.Timer(0.1, kwait.delete, ["configmap/note"]).start()
    kwait.wait_for("configmap/note", "delete", timeout="60s")
    with open(Path(os.environ["RAN"]) / f"{{number}}-{{os.getpid()}}-{{os.urandom(4).hex()}}", "x"):
        pass
"""


def measure_rows(kubeconfig: str = "-", rounds: int = 3) -> list[Row]:
    """Run the jobs in rounds."""
    provider = (
        choose_provider("embedded")
        if kubeconfig == "-"
        else choose_provider("existing", ClusterRequest(Path(kubeconfig)))
    )
    cluster = provider.start()
    print(f"{JOBS} jobs of {WORKERS} workers, {TESTS} tests, on the {cluster.provider} cluster")
    took: list[float] = []
    try:
        wrong = [problem for number in range(rounds) for problem in _round(cluster, number, took)]
    finally:
        cluster.stop()
    print("\n".join(wrong) or "every test ran once in every round; nothing stays")
    return [
        Row("failed jobs, tests not run once, namespaces left", len(wrong), 0),
        *([Row("duration of a round", statistics.median(took), None, "s")] if took else []),
    ]


def _round(cluster: Cluster, number: int, durations: list[float]) -> list[str]:
    """Run the jobs once; return what was wrong."""
    run = f"four-shards-{os.getpid()}-{number}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ran").mkdir()
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_suite.py").write_text(SUITE)
        begun = SYSTEM_CLOCK.monotonic()
        jobs = [_job(cluster, folder, run, shard) for shard in range(1, JOBS + 1)]
        said = [job.communicate(timeout=LIMIT)[0] for job in jobs]
        took = SYSTEM_CLOCK.monotonic() - begun
        failed = [text for job, text in zip(jobs, said, strict=True) if job.returncode]
        if failed:
            return failed
        durations.append(took)
        ran = [path.name.partition("-")[0] for path in (folder / "ran").iterdir()]
        report = merge_reports(
            read_report(folder / f"report-{shard}.json", "report") for shard in range(1, JOBS + 1)
        )
    waits = sum(not wait.inner and wait.test != "" for wait in report.waits)
    print(f"  round {number + 1}: {took:.0f}s, {len(set(ran))} tests, {waits} waits in the report")
    if sorted(ran, key=int) != [str(each) for each in range(TESTS)]:
        failed.append(f"tests ran that often: {sorted(ran, key=int)}")
    # Two of each test's own; those that make its namespace ready come on top.
    if waits < 2 * TESTS:
        failed.append(f"the report has {waits} waits of {2 * TESTS} and more")
    if left := _left(cluster, run):
        failed.append(f"namespaces stay: {left}")
    return failed


def _job(cluster: Cluster, folder: Path, run: str, shard: int) -> subprocess.Popen[str]:
    options = [f"--kwait-kubeconfig={cluster.kubeconfig}", f"--kwait-run-id={run}", f"-n{WORKERS}"]
    if cluster.context:
        options.append(f"--kwait-context={cluster.context}")
    options += [f"--kwait-shard={shard}/{JOBS}", f"--kwait-report=report-{shard}.json"]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pytest", "-q", *options],
        cwd=folder,
        env={**os.environ, "RAN": str(folder / "ran")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _left(cluster: Cluster, run: str) -> list[str]:
    listed = ApiSession.of(cluster.client()).list(
        NAMESPACES,
        label_selector={"pytest-kwait/run": run_label_value(run)},
        deadline=Deadline.after(60.0),
    )
    return [
        each.object["metadata"]["name"]
        for each in listed.items
        if not each.object["metadata"].get("deletionTimestamp")
    ]


if __name__ == "__main__":
    run_alone(measure_rows)

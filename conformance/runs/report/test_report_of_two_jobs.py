"""`--kwait-report` of two jobs, one of which lost a worker."""

from __future__ import annotations

import os
import sys
import uuid
from typing import TYPE_CHECKING

from conformance.runs.inner_runs import start
from pytest_kwait.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from playwright.sync_api import Page

    from pytest_kwait import Cluster

SUITE = """
import os, signal, threading
import pytest
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver

def pod(*command):
    container = {"name": "main", "image": "busybox:1.36", "command": [*command]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"},
            "spec": {"restartPolicy": "Never", "containers": [container]}}

@pytest.mark.parametrize("number", range(4))
def test_starts(kwait, wait_for_pod_ready, number):
    kwait.create(pod("sleep", "600"))
    wait_for_pod_ready("worker")

def test_fails(kwait, wait_for_pod_success):
    kwait.create(pod("sh", "-c", "echo no database; exit 3"))
    wait_for_pod_success("worker")

class Killer(WaitObserver):
    # Called after the recorder: the wait has begun by then, even on a slow machine.
    def on_start(self, wait):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()

def test_loses_its_worker(kwait, wait_for_pod_ready):
    ACTIVE_WAITS.add(Killer())
    wait_for_pod_ready("nobody")
"""


def test_merged_report_of_two_jobs(
    kwait_cluster: Cluster,
    tmp_path: Path,
    visit: Callable[..., Page],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each job writes JSON, which is kept; a last one makes a page of what all of them have."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # Others may run this suite on the same cluster.
    name = f"report-{uuid.uuid4().hex[:8]}"
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n1", "--max-worker-restart=0"),
        *(f"--kwait-run-id={name}", "--kwait-no-janitor"),
        f"--kwait-kubeconfig={kwait_cluster.kubeconfig}",
        *([f"--kwait-context={kwait_cluster.context}"] if kwait_cluster.context else []),
    ]
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KWAIT_", "PYTEST_"))
    }
    jobs = [
        start(
            [*command, f"--kwait-shard={shard}/2", f"--kwait-report=part-{shard}.json"],
            tmp_path,
            environ,
        )
        for shard in (1, 2)
    ]
    said = [job.communicate(timeout=240)[0] for job in jobs]

    assert all(f"kwait: report {tmp_path}/part-" in text for text in said), "\n".join(said)
    parts = [str(tmp_path / f"part-{shard}.json") for shard in (1, 2)]
    assert main(["report", "merge", *parts, "-o", str(tmp_path / "report.html")]) == 0
    capsys.readouterr()

    page = visit((tmp_path / "report.html").as_uri())
    assert page.inner_text("h1") == "✕ 2 tests failed", "\n".join(said)
    crashed, failed = page.locator("#failures .card").all_inner_texts()
    assert "test_loses_its_worker" in crashed
    assert "unfinished" in crashed
    assert "/nobody to become ready" in crashed
    assert "can no longer succeed: the pod has failed" in failed
    assert "worker/main: no database" in failed
    page.click("#tab-tests")
    assert page.inner_text(".filters .muted") == "6 of 6"
    shards = [
        " · ".join(text.split(" · ")[:2]) for text in page.locator(".runs span").all_inner_texts()
    ]
    assert sorted(shards) == [f"shard 1/2 · run {name}", f"shard 2/2 · run {name}"]

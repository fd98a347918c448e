"""Results in the log of a pod."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import wait
from pytest_kwait.suite.report.junit import count_tests
from pytest_kwait.suite.shards.pod import ShardResults, main, pack_results, unpack_results

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"junit.xml": b"<testsuites/>", "report.json": random.Random(1).randbytes(20_000)}


@pytest.mark.parametrize("before", ["", "collected 3 items\n", "no newline at its end"])
def test_results_round_trip_through_the_log(before: str) -> None:
    log = before + pack_results(1, FILES)
    assert unpack_results(log) == ShardResults(1, FILES, before)
    assert max(len(line) for line in log.splitlines()) <= 4100


def test_the_last_results_count() -> None:
    """A test may print those of another run."""
    log = pack_results(0, {}) + "and then\n" + pack_results(3, FILES)
    assert unpack_results(log) == ShardResults(3, FILES, pack_results(0, {}) + "and then\n")


WHOLE = pack_results(1, FILES)


@pytest.mark.parametrize(
    "log",
    [
        "",
        "no results",
        WHOLE[: len(WHOLE) // 2],
        WHOLE.replace("kwait-shard-results-end", ""),
        WHOLE[:2000] + WHOLE[2010:],
        WHOLE[:2000] + "é" + WHOLE[2001:],
        "kwait-shard-results \nkwait-shard-results-end",
        "kwait-shard-results x y\nkwait-shard-results-end",
    ],
)
def test_truncated_results_are_refused(log: str) -> None:
    assert unpack_results(log) is None


def test_pod_runs_pytest_and_prints_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    status = main([str(tmp_path), "-p", "no:cacheprovider", "--kwait-shard=auto/2"])
    results = unpack_results(capfd.readouterr().out)

    assert status == 0
    assert results is not None
    assert results.status == 1
    assert count_tests(results.files["junit.xml"]).failures == 1
    assert sorted(results.files) == ["junit.xml", "report.json"]
    assert "kwait: shard 2/2 is 1 of 2 tests" in results.log


def test_a_pod_that_is_deleted_ends_its_fixtures(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import time\n"
        "def test_it(tmp_path_factory, request):\n"
        "    request.addfinalizer(lambda: print('cleaned up'))\n"
        f"    open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-P", "-m", "pytest_kwait.suite.shards.pod", "-s"]
    with subprocess.Popen(
        [*command, str(tmp_path), "-p", "no:cacheprovider"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
    ) as process:
        ready = tmp_path / "ready"
        wait.poll_immediate(0.02, 60, lambda: ready.exists() or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    results = unpack_results(out)
    assert results is not None
    assert (process.returncode, results.status) == (0, 2)
    assert "cleaned up" in results.log
    assert "junit.xml" in results.files

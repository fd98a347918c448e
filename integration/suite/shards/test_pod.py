"""A pod of a shard, as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from pytest_kwait import wait
from pytest_kwait.suite.report.junit import count_tests
from pytest_kwait.suite.shards.pod import main, unpack_results

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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

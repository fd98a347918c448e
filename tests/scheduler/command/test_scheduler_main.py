"""Signals, as a process of its own gets them."""

from __future__ import annotations

import importlib
import io
import json
import logging
import re
import signal
import subprocess
import sys
import threading
import tomllib
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.scheduler.command.scheduler_main import capture_logs, main, run

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE = """
import sys, threading
from pytest_kwait.scheduler.command.scheduler_main import capture_logs
from pytest_kwait.scheduler.command.scheduler_main import exit_at_once, stop_on_signals
logs = capture_logs(0)
logs.__enter__()
stop = threading.Event()
stop_on_signals(stop)
print("ready", flush=True)
stop.wait()
print("stopping", flush=True)
if sys.argv[1] == "stuck":
    threading.Event().wait()
print("at the end, not flushed")
threading.Thread(target=threading.Event().wait).start()
exit_at_once(0)
"""


@contextmanager
def started(how: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", CODE, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_stops_gracefully(number: signal.Signals) -> None:
    with started("well") as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "stopping\nat the end, not flushed\n")
    assert err.endswith(f"] Received {number.name}, stopping\n")


def test_second_signal_exits_at_once() -> None:
    with started("stuck") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")


HERE = Path(__file__).parent


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = run(argv, threading.Event())
    out, err = capsys.readouterr()
    return status, out, re.sub(r"(?m)^[IW]\d{4} .*\n", "", err)


def test_program_is_installed_by_its_name() -> None:
    project = tomllib.loads((HERE.parents[2] / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["kwait-scheduler"].partition(":")
    assert getattr(importlib.import_module(module), function) is main


def test_help_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert call(capsys, "--help", "--bind-address=::1") == (0, (HERE / "help.txt").read_text(), "")


def test_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    version = metadata.version("pytest-kwait")
    assert call(capsys, "--version") == (0, f"kwait-scheduler {version}\n", "")


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--bogus"], "unknown flag: --bogus"),
        (["--feature-gates=Bogus=true"], "unrecognized feature gate: Bogus"),
        (["--config=/nowhere/x"], "open /nowhere/x: no such file or directory"),
        (["--config=~missing-user/x"], "open ~missing-user/x: no such user"),
        (["--kubeconfig=~missing-user/x"], "open ~missing-user/x: no such user"),
        (["--kubeconfig=/nowhere/x"], "stat /nowhere/x: no such file or directory"),
        (["--master=unix:///x"], "host must be a URL or a host:port pair: 'unix:///x'"),
        (
            [],
            "invalid configuration: no configuration has been provided, "
            "try setting KUBERNETES_MASTER environment variable",
        ),
        (
            ["--master=127.0.0.1:1", "--authentication-kubeconfig=/nowhere/x"],
            "stat /nowhere/x: no such file or directory",
        ),
        (
            ["--leader-elect-resource-name=A_b", "--leader-elect-retry-period=0s"],
            '[leaderElection.retryPeriod: Invalid value: "0s": must be greater than zero,'
            ' leaderElection.resourceName: Invalid value: "A_b": use a DNS name: up to 253'
            " lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each"
            " part]",
        ),
    ],
)
def test_error_is_one_line_and_status_1(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    error: str,
) -> None:
    monkeypatch.delenv("KUBERNETES_MASTER", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert call(capsys, *argv) == (1, "", f"Error: {error}\n")


def test_invalid_kubeconfig_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("a: b\n")
    status, _, err = call(capsys, f"--kubeconfig={file}")
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith(f"Error: error loading config file {file}: ")


def test_configuration_is_written_and_read_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    flags = ["--leader_elect_resource-name=mine", "--kube-api-qps=7"]
    assert call(capsys, *flags, f"--write-config-to={first}") == (0, "", "")
    assert call(capsys, f"--config={first}", f"--write_config_to={second}") == (0, "", "")
    assert "  resourceName: mine\n" in first.read_text()
    assert "  qps: 7\n" in first.read_text()
    assert second.read_text() == first.read_text()


def test_configuration_is_logged_at_verbosity_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run([f"--write-config-to={tmp_path}/x", "-v=2"], threading.Event())
    err = capsys.readouterr().err
    assert "] Using component config:\napiVersion: kubescheduler.config.k8s.io/v1\n" in err


def test_logs_have_klog_format() -> None:
    stream = io.StringIO()
    ours, logger = logging.getLogger("pytest_kwait"), logging.getLogger("pytest_kwait.scheduler")
    before = ours.level, ours.propagate, ours.handlers[:]
    with capture_logs(0, stream):
        logger.info("started %s", "well")
        logger.warning("careful")
        logger.error("broken")
        logger.debug("step")
    logger.error("not ours any more")
    assert (ours.level, ours.propagate, ours.handlers) == before
    place = r"\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_scheduler_main\.py:\d+\] "
    assert re.fullmatch(
        rf"I{place}started well\nW{place}careful\nE{place}broken\n", stream.getvalue()
    )


def test_logs_can_be_json() -> None:
    stream = io.StringIO()
    logger = logging.getLogger("pytest_kwait.scheduler")
    with capture_logs(0, stream, as_json=True):
        logger.info('started "%s"', "well")
        logger.error("broken")
    started, broken = map(json.loads, stream.getvalue().splitlines())
    assert re.fullmatch(r"test_scheduler_main\.py:\d+", started.pop("caller"))
    assert isinstance(started.pop("ts"), float)
    assert started == {"msg": 'started "well"', "v": 0}
    assert {"ts", "caller", "msg"} == set(broken)


def test_help_and_configuration_import_no_client(tmp_path: Path) -> None:
    code = (
        "import sys, threading\n"
        "from pytest_kwait.scheduler.command.scheduler_main import main, run\n"
        f"assert run(['--write-config-to={tmp_path}/x'], threading.Event()) == 0\n"
        "print({'kubernetes', 'prometheus_client', 'trustme', 'aiohttp'} & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout == "set()\n"

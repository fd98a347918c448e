from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import wait
from pytest_kwait.cli import state_file
from pytest_kwait.cli.state_file import ProcessIdentity
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def spawn(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", f"{code}\nprint(flush=True)\nsignal.pause()"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    process = spawn("import signal")
    yield process
    process.kill()
    process.communicate()


@pytest.fixture(params=["proc", "ps", "no pidfd"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The ways in which systems tell of processes."""
    if request.param == "ps":
        monkeypatch.setattr(state_file, "_PROC", tmp_path)
    if request.param != "proc":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("system")
def test_identity_has_id_and_start_time(process: subprocess.Popen[str]) -> None:
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    assert identity.pid == process.pid
    assert identity.alive
    assert not ProcessIdentity(process.pid, "another start").alive


@pytest.mark.usefixtures("system")
def test_a_process_that_has_ended_is_not_alive(process: subprocess.Popen[str]) -> None:
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    process.kill()
    wait.poll_immediate("10ms", "5s", lambda: not identity.alive)  # a zombie until it is reaped
    process.wait()
    assert not identity.alive
    assert ProcessIdentity.of(process.pid) is None


@pytest.mark.usefixtures("system")
def test_end_ends_the_process_and_returns_when_it_is_gone(
    process: subprocess.Popen[str],
) -> None:
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    assert identity.end(SYSTEM_CLOCK) is True
    assert process.wait() == -signal.SIGTERM
    assert identity.end(SYSTEM_CLOCK) is False


@pytest.mark.usefixtures("system")
def test_end_spares_a_process_with_a_reused_id(
    process: subprocess.Popen[str],
) -> None:
    assert ProcessIdentity(process.pid, "another start").end(SYSTEM_CLOCK) is False
    assert process.poll() is None


def test_end_kills_a_process_that_ignores_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "_END_TIMEOUT", 0.1)
    process = spawn("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    assert identity.end(SYSTEM_CLOCK) is True
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_the_name_of_a_process_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proc = tmp_path
    for folder in ("self", "7", "8", "sys/kernel/random"):
        (proc / folder).mkdir(parents=True)
    (proc / "self/stat").touch()
    (proc / "sys/kernel/random/boot_id").write_text("the-boot\n")
    fields = " ".join(str(number) for number in range(4, 53))
    (proc / "7/stat").write_text(f"7 (a ) S 1 (b) S {fields}\n")
    (proc / "8/stat").write_text(f"8 (defunct) Z {fields}\n")
    monkeypatch.setattr(state_file, "_PROC", proc)
    assert ProcessIdentity.of(7) == ProcessIdentity(7, "the-boot 22")
    assert ProcessIdentity.of(8) is None
    assert ProcessIdentity.of(9) is None

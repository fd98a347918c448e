"""Signals, as a process of its own gets them."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE = """
import sys, threading
from pytest_kwait.scheduler.command.logs import scheduler_logs
from pytest_kwait.scheduler.command.termination import exit_at_once, stop_on_signals
logs = scheduler_logs(0)
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
def test_first_signal_ends_in_good_order(number: signal.Signals) -> None:
    with started("well") as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "stopping\nat the end, not flushed\n")
    assert err.endswith(f"] Received {number.name}, stopping\n")


def test_second_signal_ends_at_once() -> None:
    with started("stuck") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")

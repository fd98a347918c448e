"""Child processes: programs that benchmarks run, and benchmarks themselves."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.rows import Row


class ChildFailedError(Exception):
    """A program of a benchmark failed; with its command, exit status and output."""


def run_child(
    command: Sequence[str], cwd: Path | str | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end and return its standard output.

    Raises:
        ChildFailedError: it failed.
    """
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailedError(describe_failure(command, done.returncode, done.stdout, done.stderr))
    return done.stdout


def describe_failure(command: Sequence[str], status: int, *streams: str) -> str:
    """Return what failed and all that it wrote."""
    output = "\n".join(text.rstrip() for text in streams if text.strip())
    ended = f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"
    wrote = f":\n{output}" if output else "; it wrote nothing"
    return f"{shlex.join(command)} {ended}{wrote}"


def run_benchmark(name: str) -> list[Row] | BaseException:
    """Return the rows of a benchmark, run in a new process, or the error that ended it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        future = pool.submit(_measure, name)
        return future.exception() or future.result()


def _measure(name: str) -> list[Row]:
    """Measure here; what is printed goes to standard error."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    rows: list[Row] = import_module(f"benchmarks.{name}").measure_rows()
    return rows

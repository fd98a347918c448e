"""Output of programs, in the order in which it was written."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from typing import TYPE_CHECKING

from integration.simulator.runtimes.processes.programs import (
    PYTHON,
    Programs,
    Scenario,
    list_loggers,
)
from pytest_kwait.simulator.runtimes.processes import runtime
from pytest_kwait.simulator.runtimes.processes.runtime import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Run = Callable[[Scenario], None]

_ALTERNATE = """
import asyncio
import os
import select
for number in range(400):
    os.write(1, b"%d out\\n" % number)
    if number % 3 == 0:
        os.write(2, b"%d error\\n" % number)
    if number % 7 == 0:
        os.write(2, b"%d first\\n" % number)
        os.write(1, b"%d second\\n" % number)
"""
_EXPECTED = [
    line
    for number in range(400)
    for line in (
        f"{number} out",
        *([f"{number} error"] if number % 3 == 0 else []),
        *([f"{number} first", f"{number} second"] if number % 7 == 0 else []),
    )
]
_REOPEN = "echo one >/dev/stdout; echo two >/dev/stderr; echo three; test -p /dev/stdout || exit 3"


def test_both_streams_are_in_the_order_of_writes(run_any: Run) -> None:
    """However fast a program writes, and however late the server reads."""

    async def scenario(programs: Programs) -> None:
        program = programs.start(await programs.create_sandbox(), PYTHON, "-c", _ALTERNATE)
        assert program.process is not None
        program.process.pause_output()
        other = programs.shell(await programs.create_sandbox(), "echo other")
        assert await other.wait() == Exit(0)
        program.process.resume_output()
        assert await program.wait() == Exit(0)
        assert b"".join(data for _, data in program.pieces).decode().splitlines() == _EXPECTED
        assert program.stderr.splitlines() == [
            line for line in _EXPECTED if line.endswith(("error", "first"))
        ]

    run_any(scenario)


def test_a_session_has_the_order_too(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.start(await programs.create_sandbox(), "sleep", "1000")
        assert await program.started is None
        session = program.exec(PYTHON, "-c", _ALTERNATE)
        assert await session.wait() == Exit(0)
        assert b"".join(data for _, data in session.pieces).decode().splitlines() == _EXPECTED

    run_any(scenario)


def test_writes_longer_than_a_pipe_arrive_whole(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        code = "import os; os.write(2, b'e' * 300_000); os.write(1, b'o' * 300_000)"
        program = programs.start(await programs.create_sandbox(), PYTHON, "-c", code)
        assert await program.wait() == Exit(0)
        everything = b"".join(data for _, data in program.pieces)
        assert everything == b"e" * 300_000 + b"o" * 300_000

    run_any(scenario)


def test_a_program_opens_its_streams_again(run_any: Run) -> None:
    """They are pipes: nginx, for example, has its logs at /dev/stdout."""

    async def scenario(programs: Programs) -> None:
        program = programs.shell(await programs.create_sandbox(), _REOPEN)
        assert await program.wait() == Exit(0)
        assert (program.stdout, program.stderr) == ("one\nthree\n", "two\n")

    run_any(scenario)


def test_another_user_opens_its_streams_again(run_isolated: Run) -> None:
    """The streams are its own, as runc makes them."""

    async def scenario(programs: Programs) -> None:
        program = programs.shell(await programs.create_sandbox(), _REOPEN, user=1000, group=1000)
        assert await program.wait() == Exit(0), program.stderr
        assert (program.stdout, program.stderr) == ("one\nthree\n", "two\n")

    run_isolated(scenario)


def test_a_program_may_enlarge_its_pipe(run_any: Run) -> None:
    """Nothing is lost then, only the order of the streams."""

    async def scenario(programs: Programs) -> None:
        code = (
            "import fcntl, os, sys\n"
            "for fd in (1, 2): fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 65536)\n"
            "for _ in range(1000): os.write(1, b'o'); os.write(2, b'e')\n"
            "input()"
        )
        program = programs.start(await programs.create_sandbox(), PYTHON, "-c", code, stdin=True)
        await program.wait_for("o" * 1000)
        assert program.process is not None
        assert program.process.stdin is not None
        program.process.stdin.write(b"\n")
        assert await program.wait() == Exit(0)
        assert (program.stdout, program.stderr) == ("o" * 1000, "e" * 1000)

    run_any(scenario)


async def kill(pid: int) -> None:
    """Kill a process, and return once its pipes are closed."""
    process = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(select.select, [process], [], [])
    finally:
        os.close(process)


def test_a_killed_logger_is_replaced(run_any: Run) -> None:
    """Programs that it served see closed pipes; the next one is logged again."""

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        first = programs.shell(sandbox, "trap '' PIPE; echo ready; cat; echo late", stdin=True)
        await first.wait_for("ready")
        for pid in list_loggers():
            await kill(pid)
        assert first.process is not None
        assert first.process.stdin is not None
        first.process.stdin.close()
        assert (await first.wait()).code != 0
        assert first.stdout == "ready\n"
        second = programs.shell(sandbox, "echo second")
        assert await second.wait() == Exit(0)
        assert second.stdout == "second\n"

    run_any(scenario)


def test_the_server_reads_pipes_where_there_is_no_logger(
    run_any: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "HAS_LOGGER", False)

    async def scenario(programs: Programs) -> None:
        program = programs.shell(await programs.create_sandbox(), "echo out; echo err >&2")
        assert await program.wait() == Exit(0)
        assert (program.stdout, program.stderr) == ("out\n", "err\n")
        assert not list_loggers()

    run_any(scenario)

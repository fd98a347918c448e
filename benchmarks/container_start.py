"""Start of a program in a pod of its own: bar 1.5 times that of `subprocess.Popen` plus 50 ms.

Run it as `python -m benchmarks.container_start [ROUNDS]`.

Ours: from the sandbox' creation to the program's first output, once the launcher runs. Peer: from
`subprocess.Popen` to the first output of the same program.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.pairs import measure, seconds
from benchmarks.rows import Row, run_alone
from pytest_kwait.simulator.runtimes.processes.runtime import (
    ContainerConfig,
    ContainerRuntime,
    Sandbox,
    SandboxConfig,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.protocol.options import RequestedIsolation
    from pytest_kwait.simulator.runtimes.processes.runtime import StartFailure

RATIO_BAR = 1.5
DIFFERENCE_BAR = 0.05
_PROGRAM = (sys.executable, "-I", "-c", "print('started', flush=True)")


def measure_rows(rounds: int = 20) -> list[Row]:
    """Start a program in a pod, and as a process, in turns."""
    return [measure_start(rounds, "auto", DIFFERENCE_BAR)]


def measure_start(rounds: int, requested: RequestedIsolation, extra: float) -> Row:
    """Start a program in a pod of an isolation, and as a process, in turns.

    Args:
        extra: the seconds that a pod may take beyond 1.5 times a process' start.
    """
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        runtime = ContainerRuntime(Path(folder), isolation=requested)
        isolation = runner.run(runtime.get_isolation())

        def ours() -> float:
            sandbox: list[Sandbox] = []

            async def start() -> None:
                sandbox.append(await _start(runtime))

            took = seconds(lambda: runner.run(start()))
            runner.run(_stop(sandbox[0]))
            return took

        pairs = measure(ours, lambda: seconds(_popen), rounds)
        runner.run(runtime.close())
    print(f"isolation: {isolation}")
    print(pairs.lines("program in a pod", "subprocess.Popen"))
    above = [a - RATIO_BAR * b for a, b in zip(pairs.ours, pairs.peer, strict=True)]
    median = sorted(above)[len(above) // 2]
    what = f"start, above {RATIO_BAR} times a process'"
    return Row(what, median * 1000, extra * 1000, "ms")


async def _start(runtime: ContainerRuntime) -> Sandbox:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[Sandbox | StartFailure] = loop.create_future()
    config = SandboxConfig(id="pod", hostname="pod", address="10.244.0.2")
    runtime.run_sandbox(config, ready.set_result)
    sandbox = await ready
    if not isinstance(sandbox, Sandbox):
        raise OSError(sandbox.message)
    started = asyncio.Event()
    sandbox.create_container(
        ContainerConfig(id="c", argv=_PROGRAM, env={}, visible=_list_folders()),
        on_started=_raise_failure,
        on_output=lambda *_: started.set(),
        on_exit=lambda _: None,
    )
    await started.wait()
    return sandbox


async def _stop(sandbox: Sandbox) -> None:
    sandbox.stop()


def _raise_failure(failure: StartFailure | None) -> None:
    if failure is not None:
        raise OSError(failure.message)


def _list_folders() -> tuple[str, ...]:
    return tuple(sorted({sys.prefix, sys.base_prefix}))


def _popen() -> None:
    with subprocess.Popen(_PROGRAM, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()


if __name__ == "__main__":
    run_alone(measure_rows)

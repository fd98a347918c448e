"""A server with programs that a test kills one by one: prints their process ids as JSON.

Arguments are the cluster's folder, the isolation, and the user of the programs; without one it is
the container's root.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from integration.simulator.runtimes.processes.programs import Programs
from pytest_kwait.simulator.runtimes.processes.runtime import ContainerRuntime, Exit

if TYPE_CHECKING:
    from pytest_kwait.simulator.protocol.options import RequestedIsolation


async def main(folder: Path, isolation: RequestedIsolation, user: int | None = None) -> None:
    """Run two pods until the end of the input, and print what the runtime reports."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def report(**message: Any) -> None:
        print(json.dumps(message), flush=True)

    def end(reason: str) -> None:
        report(failed=reason)
        ended.set()

    loop.add_reader(sys.stdin.fileno(), ended.set)
    runtime = ContainerRuntime(folder, isolation=isolation, on_failed=end)
    programs = Programs(runtime, folder)
    limits = (await runtime.get_isolation()).pids
    # One leaves its session and has no mark of its cluster: its cgroup tells.
    leave = "setsid env -i " if isolation == "none" and limits.startswith("cgroup") else ""
    script = f"sleep 1000 & {leave}sleep 1000 & echo ready; wait # {{}}"
    listener = await runtime.listen("127.0.0.1", 0, "tcp")
    shared = programs.shell(
        await programs.create_sandbox(share_pids=True), script.format("shared"), user=user
    )
    program = programs.shell(
        await programs.create_sandbox(), script.format("alone"), user=user, memory_bytes=1 << 30
    )
    for each in (shared, program):
        await each.wait_for("ready")
    session = program.exec("sleep", "1000")
    await session.started

    def report_exit(name: str, exited: asyncio.Future[Exit]) -> None:
        report(exited=name, code=exited.result().code)

    for name, each in (("shared", shared), ("program", program), ("session", session)):
        each.exited.add_done_callback(partial(report_exit, name))
    report(ready=True)
    await ended.wait()
    listener.close()
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), cast("Any", sys.argv[2]), *map(int, sys.argv[3:])))

"""Runs programs that end with their owner, however it ends: a script of the standard library alone.

The owner runs this file with a description as JSON. It holds the other end of a pipe: once that is
closed, the programs are killed and their folder is removed. If a program ends by itself, so do the
others, and the exit status is 1. On Linux the programs also end if this process is killed;
elsewhere the owner kills their process group.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1
"""Source: Linux, include/uapi/linux/prctl.h PR_SET_PDEATHSIG."""


def describe(programs: dict[str, list[str]], folder: str, owner: int) -> str:
    """Return the argument of this script.

    Args:
        programs: command lines by name; the log of each is `folder/NAME.log`.
        folder: the folder in which they run, removed once the owner has ended.
        owner: the descriptor of the pipe to the owner.
    """
    return json.dumps({"programs": programs, "folder": folder, "owner": owner})


def main(description: str) -> int:
    """Run the programs until the owner or one of them ends."""
    configuration: dict[str, Any] = json.loads(description)
    folder, owner = configuration["folder"], configuration["owner"]
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        prepare = _end_with_parent()
        for name, command in configuration["programs"].items():
            running[name] = _start(command, os.path.join(folder, f"{name}.log"), folder, prepare)  # noqa: PTH118 - pathlib loads slowly
        while True:
            readable, _, _ = select.select([owner, woken], [], [])
            if owner in readable:
                break
            os.read(woken, 1024)
            for name, process in running.items():
                if (code := process.poll()) is not None:
                    sys.stderr.write(f"{name} has ended ({_describe(code)})\n")
                    return 1
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        for process in running.values():
            process.kill()
        for process in running.values():
            process.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _start(
    command: list[str], log: str, folder: str, prepare: Callable[[], None] | None
) -> subprocess.Popen[bytes]:
    with open(log, "ab") as output:  # noqa: PTH123 - pathlib loads slowly
        return subprocess.Popen(  # noqa: S603 - the command line of our owner
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            preexec_fn=prepare,
        )


def _end_with_parent() -> Callable[[], None] | None:
    """Return what a child calls to be killed at the end of this process; None without support."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def prepare() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare


def _describe(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

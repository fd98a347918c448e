"""One process of a container, and the signals there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.syscalls import NonlocalExit

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.fds import OpenFile
    from pytest_kwait.simulator.busybox.os.streams import Sink
    from pytest_kwait.simulator.busybox.os.syscalls import Await, Process, Read
    from pytest_kwait.simulator.clock import Timer

__all__ = ["SIGNALS", "ForkError", "Interrupted", "Task", "is_fatal"]

SIGNALS = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9,
    "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16,
    "CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24,
    "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "POLL": 29, "PWR": 30, "SYS": 31,
}  # fmt: skip


_IGNORED_SIGNALS = frozenset({17, 18, 23, 28})
_STOP_SIGNALS = frozenset({19, 20, 21, 22})


class ForkError(Exception):
    """The container has as many processes as it may have."""


class Interrupted(NonlocalExit):
    """Ctrl-C at the shell's terminal."""


@dataclass(slots=True, eq=False)
class Task:
    """One process.

    Args:
        pid: its number in the container.
        parent: that of the one that started it.
        name: what it was started as.
        stack: its program, and those that are called within each other.
        fds: its open files.
        sink: told of its end.
    """

    pid: int
    parent: int
    name: str
    stack: list[Process]
    fds: dict[int, OpenFile]
    sink: Sink | None = None
    code: int | None = None
    timer: Timer | None = None
    limit: Timer | None = None
    awaits: Await | None = None
    reads: Read | None = None
    stopped: bool = False
    queued: bool = False
    signalled: int = 0
    doom: int | None = None
    error: NonlocalExit | None = None
    handler: Callable[[int], bool] | None = None
    """Told of a signal: whether it takes care of it."""
    traps: Callable[[int], bool] | None = None
    """Asked whether it would do something about a signal."""
    on_end: list[Callable[[], None]] = field(default_factory=list)

    def end_by(self, signal: str) -> int:
        """Let it end by a signal of its own once it has done what it does; with which code."""
        self.signalled = SIGNALS[signal]
        self.doom = 128 + self.signalled
        return self.doom

    def ended(self) -> bool:
        """Whether it is over."""
        return self.code is not None


def is_fatal(task: Task, number: int) -> bool:
    """Whether a signal that nobody handles ends a process; after some it stands still instead."""
    task.stopped = task.stopped or number in _STOP_SIGNALS
    return number not in _IGNORED_SIGNALS and number not in _STOP_SIGNALS

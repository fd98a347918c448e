"""What a process can do: pause, write, start another one beside it.

A program is a generator of these effects that returns its exit code, so that whoever runs it
decides what a second is and where output goes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

__all__ = ["Effect", "Job", "Pause", "Process", "Surroundings", "Write"]


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing happens for `seconds` (of the wall clock; `math.inf`: until killed)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Write:
    """`data` goes to stdout (1) or stderr (2)."""

    stream: int
    data: bytes


@dataclass(slots=True)
class Job:
    """A process that runs beside the one that started it; `code` is None until it has ended."""

    process: Process
    code: int | None = None


Effect = Job | Pause | Write
Process = Generator[Effect, None, int]


@dataclass(slots=True)
class Surroundings:
    """What a program sees of its container.

    Args:
        now: seconds since the epoch.
        env: the variables it was started with; a shell's assignments change them.
        files: contents by path; shared by everything that runs in the container.
        hostname: the pod's host name.
        stdin: what can be read.
    """

    now: Callable[[], float]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    hostname: str = "localhost"
    stdin: bytes = b""

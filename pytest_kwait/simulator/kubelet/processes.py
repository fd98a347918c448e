"""What a process can do: pause, read, write, listen, start another one beside it.

A program is a generator of these effects that returns its exit code, so that whoever runs it
decides what a second is and where output goes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

__all__ = ["Effect", "Job", "Listen", "Pause", "Pipe", "Process", "Read", "Surroundings", "Write"]


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


class Pipe:
    """Bytes on their way to a process: sent, and not yet read."""

    __slots__ = ("_data", "_reader", "closed")

    def __init__(self) -> None:
        self._data = bytearray()
        self._reader: Callable[[], None] | None = None
        self.closed = False
        """Whether nothing more will be sent."""

    def __len__(self) -> int:
        return len(self._data)

    @property
    def ready(self) -> bool:
        """Whether a reader need not wait: there is something, or there will never be."""
        return bool(self._data) or self.closed

    def send(self, data: bytes) -> None:
        """Add bytes to what is to be read; after the end they are dropped."""
        if not self.closed:
            self._data += data
            self._wake()

    def close(self) -> None:
        """Say that this was all."""
        self.closed = True
        self._wake()

    def take(self) -> bytes:
        """Everything that is there, which is nothing at the end."""
        data = bytes(self._data)
        self._data.clear()
        return data

    def put_back(self, data: bytes) -> None:
        """Return what was taken and is for the next reader."""
        self._data[:0] = data

    def when_ready(self, reader: Callable[[], None]) -> None:
        """Call `reader` once, as soon as a read need not wait."""
        self._reader = reader
        if self.ready:
            self._wake()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader()


@dataclass(slots=True)
class Read:
    """The process waits for bytes from `pipe`; they are in `data` then, none at the end."""

    pipe: Pipe
    data: bytes = b""


@dataclass(slots=True)
class Listen:
    """Connections to `port` of the pod start a process each, made by `serve`.

    Its input is what the client sends, its output goes to the client. `error` says why the port
    cannot be had, and is empty where it can.
    """

    port: int
    serve: Callable[[Pipe], Process]
    error: str = ""


Effect = Job | Listen | Pause | Read | Write
Process = Generator[Effect, None, int]


@dataclass(slots=True)
class Surroundings:
    """What a program sees of its container.

    Args:
        now: seconds since the epoch.
        env: the variables it was started with; a shell's assignments change them.
        files: contents by path; shared by everything that runs in the container.
        hostname: the pod's host name.
        stdin: what can be read, at once or as it comes.
        tty: whether somebody sits at a terminal.
    """

    now: Callable[[], float]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    hostname: str = "localhost"
    stdin: bytes | Pipe = b""
    tty: bool = False

    def inner(self, stdin: bytes | Pipe = b"") -> Surroundings:
        """The same container with variables and an input of its own."""
        return Surroundings(
            self.now, dict(self.env), self.files, self.hostname, stdin, tty=self.tty
        )

"""Processes on the clock: they go on until they pause, wait for input or end."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.simulator.kubelet.processes import (
    Job,
    Listen,
    Pause,
    Pipe,
    Process,
    Read,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.kubelet.network import Network
    from pytest_kwait.simulator.kubelets import Input
    from pytest_kwait.simulator.sim_clock import SimClock, Timer

__all__ = ["Outlet", "Run", "Runs", "Session", "Sink"]

# Effects that one process may have before others get their turn.
_MOST_EFFECTS = 1000

# Bytes that wait for whoever reads a process's output before the process is held up.
_MOST_PENDING = 1 << 20


class Sink(Protocol):
    """Where a process's output goes."""

    def write(self, stream: int, data: bytes) -> None:
        """Take what was written to stdout (1) or stderr (2)."""
        ...

    def hold(self, resume: Callable[[], None]) -> bool:
        """Whether no more is taken for now; `resume` is called once there is room."""
        ...

    def end(self, code: int) -> None:
        """Take note that the process has ended."""
        ...


class Outlet:
    """A sink whose output is taken by a task, piece by piece."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._resume: list[Callable[[], None]] = []
        self.code: int | None = None
        """How the process ended; None as long as it has not."""
        self.on_news: Callable[[], None] | None = None
        """Called whenever there is a piece to take, and at the end."""

    def write(self, stream: int, data: bytes) -> None:
        """Keep a piece until it is taken."""
        if data and self.code is None:
            self._pieces.append((stream, data))
            self._size += len(data)
            self._tell()

    def hold(self, resume: Callable[[], None]) -> bool:
        """Whether too much waits to be taken."""
        if self._size < _MOST_PENDING:
            return False
        self._resume.append(resume)
        return True

    def end(self, code: int) -> None:
        """No more comes."""
        if self.code is None:
            self.code = code
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        if self.on_news is not None:
            self.on_news()

    def drain(self) -> list[tuple[int, bytes]]:
        """All the pieces that wait to be taken, with their streams."""
        pieces = list(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._go_on()
        return pieces

    def _go_on(self) -> None:
        waiting, self._resume = self._resume, []
        for resume in waiting:
            resume()

    async def take(self) -> tuple[int, bytes] | None:
        """The next piece and its stream; None at the end."""
        while not self._pieces:
            if self.code is not None:
                return None
            self._news.clear()
            await self._news.wait()
        stream, data = self._pieces.popleft()
        self._size -= len(data)
        if self._size < _MOST_PENDING:
            self._go_on()
        return stream, data


@dataclass(slots=True)
class Session:
    """A process that somebody follows.

    Args:
        stdin: where to send its input; None where it takes none.
        outlet: its output and how it ended.
        stop: ends it, or lets go of it.
    """

    stdin: Input | None
    outlet: Outlet
    stop: Callable[[], None]


@dataclass(slots=True, eq=False)
class Run:
    """One process on the clock."""

    process: Process
    sink: Sink
    timer: Timer | None = None
    over: bool = False


class _JobSink:
    """A process beside another one: it writes where that one writes."""

    def __init__(self, job: Job, sink: Sink) -> None:
        self._job, self._sink = job, sink

    def write(self, stream: int, data: bytes) -> None:
        self._sink.write(stream, data)

    def hold(self, resume: Callable[[], None]) -> bool:
        return self._sink.hold(resume)

    def end(self, code: int) -> None:
        self._job.code = code


class Runs:
    """The processes of one container.

    Args:
        clock: the cluster's time.
        network: the ports of the pod.
    """

    __slots__ = ("_all", "_clock", "_network", "_ports")

    def __init__(self, clock: SimClock, network: Network) -> None:
        self._clock = clock
        self._network = network
        self._all: list[Run] = []
        self._ports: list[int] = []

    def start(self, process: Process, sink: Sink) -> Run:
        """Start a process; it runs until it first has to wait before this returns."""
        run = Run(process, sink)
        self._all.append(run)
        self._advance(run)
        return run

    def stop(self, run: Run, code: int) -> None:
        """End a process at once."""
        if not run.over:
            self._ended(run, code)
            run.process.close()

    def clear(self, code: int) -> None:
        """End all of them, and let go of their ports."""
        for port in self._ports:
            self._network.release(port)
        self._ports.clear()
        for run in tuple(self._all):
            self.stop(run, code)

    def _ended(self, run: Run, code: int) -> None:
        run.over = True
        if run.timer is not None:
            run.timer.cancel()
        if run in self._all:
            self._all.remove(run)
        run.sink.end(code)

    def _advance(self, run: Run) -> None:
        """Go on with a process until it pauses, waits or ends."""
        run.timer = None
        for _ in range(_MOST_EFFECTS):
            if run.over:
                return
            try:
                effect = next(run.process)
            except StopIteration as end:
                self._ended(run, end.value)
                return
            match effect:
                case Write(stream, data):
                    run.sink.write(stream, data)
                    if run.sink.hold(lambda: self._soon(run)):
                        return
                case Read(pipe):
                    if not pipe.ready:
                        self._await(run, effect)
                        return
                    effect.data = pipe.take()
                case Listen():
                    self._listen(run, effect)
                case Job():
                    beside = Run(effect.process, _JobSink(effect, run.sink))
                    self._all.append(beside)
                    self._soon(beside)
                case Pause(seconds):
                    if seconds != math.inf:
                        # Even a program that ends at once has been seen running.
                        run.timer = self._clock.call_later(
                            max(seconds, 0.0), lambda: self._advance(run), scaled=False
                        )
                    return
        self._soon(run)

    def _soon(self, run: Run) -> None:
        run.timer = self._clock.call_later(0, lambda: self._advance(run))

    def _await(self, run: Run, effect: Read) -> None:
        def read() -> None:
            if not run.over:
                effect.data = effect.pipe.take()
                self._soon(run)

        effect.pipe.when_ready(read)

    def _listen(self, run: Run, effect: Listen) -> None:
        def accept(stdin: Pipe) -> Session:
            outlet = Outlet()
            served = Run(effect.serve(stdin), outlet)
            self._all.append(served)
            self._soon(served)
            return Session(stdin, outlet, lambda: self.stop(served, 0))

        if self._network.listen(effect.port, accept):
            self._ports.append(effect.port)
        else:
            effect.error = "Address already in use"

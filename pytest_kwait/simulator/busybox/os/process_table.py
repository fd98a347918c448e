"""The process table of a container, and the CPU time that all containers share.

All containers run in the cluster's Python process. A container that computes little runs at once;
one that computes all the time (an endless loop) gets the rest, so that it slows down neither the
API server nor other pods.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakSet

from pytest_kwait.simulator.busybox.os.fds import (
    BrokenPipeWriteError,
    OpenFile,
    PipeEnd,
    SinkEnd,
    release_fds,
)
from pytest_kwait.simulator.busybox.os.files import ENOSPC
from pytest_kwait.simulator.busybox.os.memory import MemoryAccount, OutOfMemoryError
from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, Pipe, ProcessSession
from pytest_kwait.simulator.busybox.os.syscalls import (
    SIGNALS,
    STEP,
    Await,
    Call,
    ComputeStep,
    ForkError,
    Interrupted,
    Listen,
    NonlocalExit,
    Process,
    ProcessContext,
    ProcessWriteError,
    Read,
    Sleep,
    Task,
    Write,
    is_fatal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import Sink
    from pytest_kwait.simulator.clock import SimClock

# Seconds of credit at most, and credit gained per second. Containers in debt share one gain,
# however many they are.
_MAX_CREDIT = 0.1
_CREDIT_GAIN = 0.1
_MAX_DEBT = -0.5
# Seconds of one round, and the pause after a round of debtors as a multiple of it.
_TIME_SLICE = 0.004
_DEBTOR_PAUSE_FACTOR = 4.0
# The least cost of a step in seconds.
_MIN_STEP_SECONDS = 2e-5
_log = logging.getLogger(__name__)

# Steps and seconds of one turn of a process.
_MAX_STEPS = 400
_PROCESS_TIME_SLICE = 0.002
# Processes of a container, and nested programs of a process.
_MAX_PROCESSES = 256
_MAX_CALL_DEPTH = 400


class CpuCredit:
    """The CPU time that a container may use at once."""

    __slots__ = ("__weakref__", "_clock", "_debtors", "_left", "_updated_at")

    def __init__(self, clock: SimClock, debtors: WeakSet[CpuCredit]) -> None:
        self._clock = clock
        self._left = _MAX_CREDIT
        self._updated_at = clock.monotonic()
        self._debtors = debtors

    def spend(self, seconds: float) -> None:
        """Subtract used CPU time."""
        self._left = max(self._left - seconds, _MAX_DEBT)
        if self._left <= 0:
            self._debtors.add(self)

    @property
    def is_positive(self) -> bool:
        """Return whether any credit remains."""
        now = self._clock.monotonic()
        gain = (now - self._updated_at) * _CREDIT_GAIN
        self._updated_at = now
        if self._left > 0:
            self._left = min(_MAX_CREDIT, self._left + gain)
            return True
        self._left += gain / max(1, len(self._debtors))
        if self._left > 0:
            self._debtors.discard(self)
        return self._left > 0


class CpuScheduler:
    """Runs the processes of all containers in turn."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self._ready: deque[tuple[ProcessTable, Task]] = deque()
        self._busy: deque[tuple[ProcessTable, Task]] = deque()
        self._planned = False
        self._debtors_planned = False
        self._woken_at = 0.0
        self._woken = 0.0
        self.debtors: WeakSet[CpuCredit] = WeakSet()
        """Containers that have used up their credit."""

    def schedule(self, table: ProcessTable, task: Task) -> None:
        """Queue a process for one of the next rounds."""
        if table.credit.is_positive:
            self._ready.append((table, task))
            if not self._planned:
                self._planned = True
                self.clock.call_later(0, self._run)
        else:
            self._busy.append((table, task))
            if not self._debtors_planned:
                self._debtors_planned = True
                self.clock.call_later(_TIME_SLICE, self._run_debtors, scaled=False)

    def _run(self) -> None:
        self._planned = False
        spent = 0.0
        try:
            for _ in range(len(self._ready)):
                if spent > _TIME_SLICE or not self._ready:
                    break
                spent += self.run_turn(*self._ready.popleft())
        finally:
            if self._ready and not self._planned:
                self._planned = True
                self.clock.call_later(0, self._run)

    def run_now(self, table: ProcessTable) -> None:
        """Run a container's processes for up to one round.

        The kubelet relists once a second; short programs should have ended by then.
        """
        own_tasks = deque(turn for turn in self._ready if turn[0] is table)
        self._ready = deque(turn for turn in self._ready if turn[0] is not table)
        spent = 0.0
        while own_tasks and spent <= _TIME_SLICE:
            before = len(self._ready)
            spent += self.run_turn(*own_tasks.popleft())
            # Processes that this one has woken come next.
            wake_waiting = [self._ready.pop() for _ in range(len(self._ready) - before)]
            for turn in reversed(wake_waiting):
                (own_tasks if turn[0] is table else self._ready).append(turn)
        self._ready.extend(own_tasks)

    def wake(self, table: ProcessTable, task: Task) -> None:
        """Resume a process after a sleep, at once unless many were just woken."""
        now = self.clock.monotonic()
        if now - self._woken_at > 2 * _TIME_SLICE:
            self._woken_at, self._woken = now, 0.0
        if self._woken > _TIME_SLICE:
            task.queued = True
            self.schedule(table, task)
        else:
            self._woken += self.run_turn(table, task)

    def _run_debtors(self) -> None:
        self._debtors_planned = False
        spent = 0.0
        try:
            for _ in range(len(self._busy)):
                if spent > _TIME_SLICE:
                    break
                spent += self.run_turn(*self._busy.popleft())
        finally:
            if self._busy and not self._debtors_planned:
                self._debtors_planned = True
                self.clock.call_later(
                    max(spent, _TIME_SLICE) * _DEBTOR_PAUSE_FACTOR, self._run_debtors, scaled=False
                )

    def run_turn(self, table: ProcessTable, task: Task) -> float:
        """Run a process until it waits; return the seconds charged."""
        began = self.clock.monotonic()
        steps = table.advance(task)
        spent = max(self.clock.monotonic() - began, steps * _MIN_STEP_SECONDS)
        table.credit.spend(spent)
        return spent


class PidNamespace:
    """The numbers of the processes of a container, and of those that join it.

    Args:
        owner: the container whose end is the end of all its processes.
    """

    __slots__ = ("_next", "owner", "tables")

    def __init__(self, owner: ProcessTable) -> None:
        self.owner = owner
        self.tables: list[ProcessTable] = []
        self._next = 1

    def take_number(self) -> int:
        """Return the number of a new process."""
        number, self._next = self._next, self._next + 1
        return number


class ProcessTable:
    """The processes of one container.

    Args:
        scheduler: the CPUs that all containers share.
        network: the ports of the pod.
        account: the container's memory.
        on_out_of_memory: called when the container exceeds its memory.
        target: the container whose processes it sees; None for its own alone.
    """

    def __init__(
        self,
        scheduler: CpuScheduler,
        network: Network,
        account: MemoryAccount,
        on_out_of_memory: Callable[[], None],
        target: ProcessTable | None = None,
    ) -> None:
        self.clock = scheduler.clock
        self.account = account
        self.credit = CpuCredit(scheduler.clock, scheduler.debtors)
        self._scheduler = scheduler
        self._network = network
        self._on_out_of_memory = on_out_of_memory
        self._all: dict[int, Task] = {}
        self._waiting: dict[int, Task] = {}
        self._namespace: PidNamespace = PidNamespace(self) if target is None else target._namespace
        self._namespace.tables.append(self)
        self._ports: list[int] = []
        self._running: Task | None = None
        self._written = 0

    # -- starting and ending

    def start(
        self, make: Callable[[ProcessContext], Process], context: ProcessContext, name: str,
        fds: dict[int, OpenFile], *, parent: int = 0, sink: Sink | None = None, now: bool = False,
    ) -> Task:  # fmt: skip
        """Start a process that owns `fds`.

        Args:
            make: its program.
            context: the context that its own is derived from.
            name: its command line.
            fds: its open files, which are closed at its end.
            parent: the number of its parent.
            sink: notified of its end.
            now: whether it runs until it waits before this returns.

        Raises:
            ForkError: there are too many processes.
        """
        if len(self._all) >= _MAX_PROCESSES:
            release_fds(fds)
            raise ForkError
        if parent:
            self.account.begin_process()
        task = Task(self._namespace.take_number(), parent, name, [], fds, sink)
        task.stack.append(make(context.for_task(self, task, fds)))
        self._all[task.pid] = task
        if now:
            self.advance(task)
        else:
            self._queue(task)
        return task

    def follow(
        self, make: Callable[[ProcessContext], Process], context: ProcessContext, name: str,
        stdin: OpenFile, sink: Sink,
    ) -> Task:  # fmt: skip
        """Start a process at once, with output to a sink."""
        fds = {0: stdin.retain()}
        fds |= {stream: SinkEnd(sink, stream).retain() for stream in (1, 2)}
        task = self.start(make, context, name, fds, sink=sink, now=True)
        self._scheduler.run_now(self)
        return task

    def find(self, pid: int) -> Task | None:
        """Return a running process by its number."""
        return self._all.get(pid)

    def all(self) -> list[Task]:
        """Return the running processes that this container sees, oldest first."""
        found = [task for table in self._namespace.tables for task in table._all.values()]
        return sorted(found, key=lambda task: task.pid)

    def stop(self, task: Task, code: int) -> None:
        """End a process at once."""
        if task is self._running:
            # A generator cannot be closed while it runs.
            task.pending_exit_code = code
        elif task.code is None:
            task.code = code
            while task.stack:
                try:
                    task.stack.pop().close()
                except Exception:  # a program may raise anything as it ends; others go on
                    _log.exception("%s (process %d) of a container", task.name, task.pid)
            self._finish(task, code)

    def _crash(self, task: Task) -> None:
        """End a process after an exception: a bug in a simulated program ends its process only."""
        _log.exception("%s (process %d) of a container has crashed", task.name, task.pid)
        self.stop(task, task.end_by("ABRT"))

    def clear(self, code: int) -> None:
        """End all processes, and free their ports."""
        for port in self._ports:
            self._network.release(port)
        self._ports.clear()
        self._waiting.clear()
        for task in list(self._all.values()):
            self.stop(task, code)
        tables = self._namespace.tables
        if self in tables:
            tables.remove(self)
        if self is self._namespace.owner:
            # The end of process 1 kills all processes of its namespace.
            for joined in list(tables):
                joined.clear(128 + SIGNALS["KILL"])

    def _finish(self, task: Task, code: int) -> None:
        task.code = code
        for timer in (task.timer, task.limit):
            if timer is not None:
                timer.cancel()
        self._all.pop(task.pid, None)
        self._waiting.pop(task.pid, None)
        release_fds(task.fds)
        if task.parent:
            self.account.end_process()
        if task.sink is not None:
            task.sink.end(code)
        for callback in task.on_end:
            callback()
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Resume the processes whose wait is over."""
        for task in list(self._waiting.values()):
            awaited = task.awaits
            try:
                if awaited is not None and not task.queued and awaited.done():
                    self._resume(task)
            except Exception:
                self._crash(task)

    # -- signals

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal; False if there is no such process."""
        task = self._all.get(pid)
        if task is None:
            others = (table for table in self._namespace.tables if pid in table._all)
            table = next(others, None)
            return table is not None and table.signal(pid, number)
        if number == 0:
            return True
        if number in (SIGNALS["KILL"], 19) and pid == 1:
            # Process 1 cannot be killed from inside the container.
            return True
        if number == SIGNALS["CONT"] and task.stopped:
            task.stopped = False
            self._queue(task)
        if number != SIGNALS["KILL"] and task.handler is not None and task.handler(number):
            if (task.awaits is not None and task.awaits.signals) or (
                task.reads is not None and task.reads.signals
            ):
                if task.reads is not None:
                    task.reads.interrupted = True
                    task.reads = None
                self._resume(task)
            return True
        if pid == 1 or not is_fatal(task, number):
            return True
        task.signalled = number
        self.stop(task, 128 + number)
        return True

    def handles(self, pid: int, number: int = 15) -> bool:
        """Return whether a process handles a signal itself."""
        task = self._all.get(pid)
        return task is not None and task.traps is not None and task.traps(number)

    def interrupt(self, task: Task) -> None:
        """Handle Ctrl-C: end a program, or the commands that a shell runs."""
        if task.handler is None:
            self.stop(task, 130)
        elif task.code is None:
            task.error = Interrupted()
            self._resume(task)

    # -- turns

    def _queue(self, task: Task) -> None:
        if not task.queued and task.code is None:
            task.queued = True
            self._scheduler.schedule(self, task)

    def _end_sleep(self, task: Task) -> None:
        task.timer = None
        if self.credit.is_positive and not task.queued and not task.stopped:
            self._scheduler.wake(self, task)
        else:
            self._queue(task)

    def _resume(self, task: Task) -> None:
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None
        task.awaits = None
        self._waiting.pop(task.pid, None)
        self._queue(task)

    def advance(self, task: Task) -> int:
        """Run a process until it waits, ends or its turn is over; return the number of steps."""
        task.queued = False
        self._written = 0
        end = self.clock.monotonic() + _PROCESS_TIME_SLICE
        for step in range(_MAX_STEPS):
            if task.code is not None or task.stopped:
                return step + 1 + self._written
            try:
                if self._step(task):
                    return step + 1 + self._written
            except OutOfMemoryError:
                self._on_out_of_memory()
                return step + 1
            except Exception:
                self._crash(task)
                return step + 1 + self._written
            if self._written > _MAX_STEPS or (step & 1 and self.clock.monotonic() > end):
                break
        self._queue(task)
        return step + 1 + self._written

    def _step(self, task: Task) -> bool:
        """Run one step; True if the process waits or has ended."""
        program = task.stack[-1]
        error, task.error = task.error, None
        before, self._running = self._running, task
        try:
            effect = program.throw(error) if error is not None else next(program)
        except StopIteration as end:
            task.stack.pop()
            if not task.stack:
                self._running = before
                self._finish(
                    task, end.value if task.pending_exit_code is None else task.pending_exit_code
                )
            return not task.stack
        except NonlocalExit as raised:
            task.stack.pop()
            if not task.stack:
                self._running = before
                self._finish(task, 1)
            task.error = raised
            return not task.stack
        except RecursionError:
            task.end_by("SEGV")
            effect = STEP
        finally:
            self._running = before
        if task.pending_exit_code is not None:
            self.stop(task, task.pending_exit_code)
            return True
        match effect:
            case ComputeStep():
                return False
            case Write():
                return self._write(task, effect)
            case Read():
                return self._read(task, effect)
            case Await():
                return self._await(task, effect)
            case Call():
                if len(task.stack) >= _MAX_CALL_DEPTH:
                    # The stack is full; `ash` crashes too.
                    self.stop(task, task.end_by("SEGV"))
                    return True
                task.stack.append(effect.run())
            case Listen():
                self._listen(effect)
            case Sleep(seconds):
                if seconds != math.inf:
                    # Even `sleep 0` lets the kubelet see the program running.
                    task.timer = self.clock.call_later(
                        max(seconds, 0.0), lambda: self._end_sleep(task), scaled=False
                    )
                return True
        return False

    def _write(self, task: Task, effect: Write) -> bool:
        target = task.fds.get(effect.stream)
        if target is None:
            effect.error = "Bad file descriptor"
            return False
        try:
            effect.error = target.write(effect.data)
            if effect.error == ENOSPC:
                task.error = ProcessWriteError(effect.error)
        except BrokenPipeWriteError:
            if task.handler is not None and task.handler(SIGNALS["PIPE"]):
                effect.error = "Broken pipe"
                return False
            self.stop(task, task.end_by("PIPE"))
            return True
        if isinstance(target, SinkEnd):
            # Each log line counts as work.
            self._written += effect.data.count(b"\n")
        self._written += len(effect.data) >> 12
        return target.must_wait(lambda: self._queue(task))

    def _read(self, task: Task, effect: Read) -> bool:
        source = effect.source
        target = PipeEnd(source) if isinstance(source, Pipe) else task.fds.get(source)
        if target is None:
            effect.error = "Bad file descriptor"
            return False
        data = target.read(effect.most, line=effect.line)
        if data is not None:
            effect.data = data
            return False
        task.reads = effect

        def ready() -> None:
            if task.reads is not effect or task.code is not None:
                return
            data = target.read(effect.most, line=effect.line)
            if data is None:
                target.when_ready(ready)
                return
            effect.data = data
            task.reads = None
            self._resume(task)

        def late() -> None:
            task.timer = None
            effect.late = True
            task.reads = None
            self._queue(task)

        if effect.seconds is not None:
            task.timer = self.clock.call_later(effect.seconds, late, scaled=False)
        target.when_ready(ready)
        return True

    def _await(self, task: Task, effect: Await) -> bool:
        if effect.done():
            return False
        task.awaits = effect
        self._waiting[task.pid] = task
        if effect.seconds is not None:
            task.timer = self.clock.call_later(
                effect.seconds, lambda: self._resume(task), scaled=False
            )
        return True

    def _listen(self, effect: Listen) -> None:
        def accept(stdin: Pipe, sink: Sink | None = None) -> ProcessSession:
            output = OutputBuffer()
            task = self.follow(
                lambda context: effect.serve(context, stdin), effect.context, "server",
                PipeEnd(stdin), sink or output,
            )  # fmt: skip
            return ProcessSession(stdin, output, lambda: self.stop(task, 0))

        if self._network.listen(effect.port, accept):
            self._ports.append(effect.port)
        else:
            effect.error = "Address already in use"

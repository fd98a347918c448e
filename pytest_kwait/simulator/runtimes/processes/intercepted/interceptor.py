"""The process above a container's programs: answers their system calls until they end."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted import tracer
from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Change,
    Continue,
    Descriptor,
    Failure,
    ProcessMemory,
    SystemCall,
)
from pytest_kwait.simulator.runtimes.processes.processes import kill, list_children

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Listener, Notification
    from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import Processor

_MAX_CHANGED = 1024
"""Calls that may wait to be made again; the oldest of more belong to threads that have ended."""


class _Changed(NamedTuple):
    """A call that is made again with other arguments.

    Args:
        arguments: all six.
        contents: what was written into the program's memory, by address.
    """

    arguments: tuple[int, ...]
    contents: Mapping[int, bytes]


class _Followed:
    """A call whose thread is traced until it returns."""

    def __init__(self, on_return: Callable[[int], None], memory: ProcessMemory) -> None:
        self.on_return, self.memory = on_return, memory
        self.has_begun = False


class Interceptor:
    """Answers the system calls of a process that this one has started, and of those below it.

    Args:
        processor: the kind of processor.
        listener: takes the notifications.
        answers: return the answer to a system call by its name. An `OSError` that they raise is
            the answer, too.
    """

    def __init__(
        self,
        processor: Processor,
        listener: Listener,
        answers: Mapping[str, Callable[[SystemCall], Answer]],
    ) -> None:
        self._processor, self._listener = processor, listener
        self._answers = {
            processor.numbers[name]: (name, answer)
            for name, answer in answers.items()
            if name in processor.numbers
        }
        self._changed: dict[int, _Changed] = {}
        self._followed: dict[int, _Followed] = {}
        self._status: int | None = None
        self._program = 0

    def run(self, program: int) -> int:
        """Answer calls until a child ends; then end what it has left.

        Returns:
            The child's exit code; 128 + n after signal n.
        """
        self._program = program
        wakeup, wakeup_write = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(wakeup_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._listener.fd, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        self._reap()
        while self._status is None:
            for fd, events in poll.poll():
                if fd == wakeup:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wakeup, 4096)
                    self._reap()
                elif events & select.POLLIN:
                    self._take_notification()
                else:  # no process has the filter any more
                    poll.unregister(fd)
        self._end_rest()
        code = os.waitstatus_to_exitcode(self._status)
        return 128 - code if code < 0 else code

    # -- notifications

    def _take_notification(self) -> None:
        notification = self._listener.receive()
        if notification is None:
            return
        thread = notification.thread
        if thread in self._followed:
            self._listener.let_continue(notification.id)
            return
        try:
            memory = ProcessMemory(thread)
        except OSError:
            self._listener.answer(notification.id, -errno.EPERM)
            return
        try:
            if self._listener.is_waiting(notification.id):
                self._answer(notification, memory)
        finally:
            if thread not in self._followed:
                memory.close()

    def _answer(self, notification: Notification, memory: ProcessMemory) -> None:
        if self._is_made_again(notification, memory):
            self._listener.let_continue(notification.id)
            return
        name, answer_call = self._answers[notification.number]
        call = SystemCall(name, notification.arguments, notification.thread, memory)
        answer: Answer
        try:
            answer = answer_call(call)
        except OSError as error:
            answer = Failure(error.errno or errno.EIO)
        if isinstance(answer, Continue):
            if answer.on_return is None:
                self._listener.let_continue(notification.id)
            else:
                self._follow(notification, memory, answer.on_return)
        elif isinstance(answer, Failure):
            self._listener.answer(notification.id, -answer.number)
        elif isinstance(answer, Descriptor):
            self._add_descriptor(notification, answer)
        elif isinstance(answer, Change):
            self._change(notification, memory, answer)
        else:
            self._listener.answer(notification.id, answer.value)

    def _add_descriptor(self, notification: Notification, answer: Descriptor) -> None:
        try:
            self._listener.answer_descriptor(notification.id, answer.fd, is_kept=answer.is_kept)
        except OSError as error:
            self._listener.answer(notification.id, -(error.errno or errno.EMFILE))
        finally:
            os.close(answer.fd)

    def _is_made_again(self, notification: Notification, memory: ProcessMemory) -> bool:
        """Return whether this is a call with changed arguments, which are as they were left."""
        changed = self._changed.get(notification.thread)
        if changed is None or changed.arguments != notification.arguments:
            return False
        # A handler of a signal may have used the stack meanwhile.
        for address, content in changed.contents.items():
            memory.write(address, content)
        del self._changed[notification.thread]
        return True

    def _change(self, notification: Notification, memory: ProcessMemory, answer: Change) -> None:
        """Have a call made again with other arguments."""
        thread = notification.thread
        if not tracer.seize(thread):
            self._listener.answer(notification.id, -errno.EPERM)
            return
        self._listener.answer(notification.id, tracer.RESTART)
        if not tracer.wait_for_stop(thread):
            return
        try:
            registers = tracer.Registers(self._processor, thread)
            sizes = sum(
                len(value) + 15 & ~15
                for value in answer.arguments.values()
                if isinstance(value, bytes)
            )
            address = registers.make_space(sizes)
            values, contents = {}, {}
            for place, value in answer.arguments.items():
                if isinstance(value, int):
                    values[place] = value
                    continue
                memory.write(address, value)
                values[place], contents[address] = address, value
                address += len(value) + 15 & ~15
            registers.set_arguments(values)
        except OSError:  # it has ended meanwhile
            pass
        else:
            arguments = list(notification.arguments)
            for place, number in values.items():
                arguments[place] = number
            if len(self._changed) >= _MAX_CHANGED:
                del self._changed[next(iter(self._changed))]
            self._changed[thread] = _Changed(tuple(arguments), contents)
        tracer.detach(thread)

    # -- calls whose results are seen

    def _follow(
        self, notification: Notification, memory: ProcessMemory, on_return: Callable[[int], None]
    ) -> None:
        thread = notification.thread
        if not tracer.seize(thread):
            self._listener.let_continue(notification.id)
            return
        self._listener.let_continue(notification.id)
        if not tracer.wait_for_stop(thread):
            return
        try:
            registers = tracer.Registers(self._processor, thread)
            is_again = registers.is_restarting(notification.instruction)
            if not is_again and registers.result == -errno.EINTR:
                # Calls with a timeout of the socket are not restarted by the kernel.
                registers.make_again(notification.number, notification.instruction)
                is_again = True
        except OSError:
            is_again = False
        else:
            if is_again and tracer.follow_call(thread):
                self._followed[thread] = _Followed(on_return, memory)
                return
            if not is_again:
                _call(on_return, registers.result)
        tracer.detach(thread)

    def _on_stop(self, thread: int, status: int) -> None:
        followed = self._followed.get(thread)
        if followed is None or not tracer.is_system_call_stop(status):
            # A call that a signal interrupts is made again as another one.
            self._forget(thread)
            tracer.detach(thread, tracer.get_signal(status))
            return
        if not followed.has_begun:
            followed.has_begun = True
            if tracer.follow_call(thread):
                return
        else:
            with contextlib.suppress(OSError):
                registers = tracer.Registers(self._processor, thread)
                _call(followed.on_return, registers.result)
        self._forget(thread)
        tracer.detach(thread)

    # -- ends

    def _forget(self, thread: int) -> None:
        followed = self._followed.pop(thread, None)
        if followed is not None:
            followed.memory.close()

    def _reap(self) -> None:
        """Handle what children and traced threads report."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | tracer.WALL)
            except ChildProcessError:
                return
            if not pid:
                return
            if os.WIFSTOPPED(status):
                self._on_stop(pid, status)
                continue
            self._forget(pid)
            if pid == self._program:
                self._status = status

    def _end_rest(self) -> None:
        """Kill and reap what the program has left: orphans are this process' children."""
        signal.set_wakeup_fd(-1)
        self._listener.close()
        with contextlib.suppress(ChildProcessError):
            while True:
                for pid in list_children():
                    kill(pid, signal.SIGKILL)
                os.waitpid(-1, tracer.WALL)


def _call(on_return: Callable[[int], None], result: int) -> None:
    """Show a result to whom waits for it; it may have no memory any more to write to."""
    with contextlib.suppress(OSError):
        on_return(result)

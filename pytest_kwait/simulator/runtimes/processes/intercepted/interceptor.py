"""The process above a container's programs: answers their system calls until they end."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
from array import array
from collections import deque
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted import tracer
from pytest_kwait.simulator.runtimes.processes.intercepted.argument_memory import (
    KEPT_CALLS,
    ArgumentMemory,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Change,
    Continue,
    Descriptor,
    Failure,
    OpenedFile,
    ProcessMemory,
    SystemCall,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.network import PASSED_FLAGS
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import (
    build_filter,
    install_filter,
    prepare_listener,
    receive_notification,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import find_processor
from pytest_kwait.simulator.runtimes.processes.intercepted.users import as_user_of, takes_users
from pytest_kwait.simulator.runtimes.processes.messages import receive
from pytest_kwait.simulator.runtimes.processes.processes import kill, list_children
from pytest_kwait.simulator.runtimes.processes.system_calls import (
    die_with_parent,
    make_subreaper,
    open_signals,
    show_to_tracers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import (
        Conditions,
        Notification,
    )

# Rings make system calls that no filter sees.
_REFUSED = ("io_uring_setup",)
_ENDS = (signal.SIGCHLD,)
"""The signals by which processes that end or stop are reported."""
_MAX_CHANGED = 1024
"""Threads whose last changed calls are known; the oldest of more have ended."""


class _Changed(NamedTuple):
    """A call that is made again with other arguments.

    Args:
        number: of the call.
        arguments: all six.
        contents: what was written into the program's memory, by address.
        on_return: as of `Change`.
    """

    number: int
    arguments: tuple[int, ...]
    contents: Mapping[int, bytes]
    on_return: Callable[[int], None] | None


class _Followed:
    """A call whose thread is traced until it returns."""

    def __init__(self, on_return: Callable[[int], None], memory: ProcessMemory) -> None:
        self.on_return, self.memory = on_return, memory
        self.has_begun = False


class CaughtCalls(NamedTuple):
    """The system calls that a container's programs do not make themselves.

    Args:
        conditions: the conditions of each name.
        answers: what answers each name. An `OSError` that it raises is the answer, too.
        readers: what is called whenever a descriptor can be read, by descriptor.
    """

    conditions: Mapping[str, Conditions]
    answers: Mapping[str, Callable[[SystemCall], Answer]]
    readers: Mapping[int, Callable[[], None]] = MappingProxyType({})


class Interceptor:
    """Answers the system calls of programs that this process starts, and of those below them.

    Args:
        calls: the system calls.
        on_exit: called with the number and the exit code of each program that ends; 128 + n after
            signal n.

    Raises:
        OSError: the processor is unknown.
    """

    def __init__(self, calls: CaughtCalls, on_exit: Callable[[int, int], None]) -> None:
        processor = find_processor()
        if processor is None:
            machine = os.uname().machine
            raise OSError(f"system calls cannot be intercepted on this processor: {machine}")
        self._processor, self._on_exit = processor, on_exit
        self._filter = build_filter(processor, calls.conditions, _REFUSED)
        self._answers = {
            processor.numbers[name]: (name, answer)
            for name, answer in calls.answers.items()
            if name in processor.numbers
        }
        self._changed: dict[int, deque[_Changed]] = {}
        self._argument_memory = ArgumentMemory()
        self._followed: dict[int, _Followed] = {}
        self._programs: set[int] = set()
        self._poll = select.poll()
        self._readers: dict[int, Callable[[], None]] = {}
        # A signal must not interrupt an answer: the kernel forgets the descriptor of one, but not
        # that the call is answered, by 0.
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        ends = open_signals(*_ENDS)
        self.add_reader(ends, lambda: self._read_ends(ends))
        for fd, read in calls.readers.items():
            self.add_reader(fd, read)
        # Orphans become children of this process, and end with it.
        make_subreaper()

    def add_reader(self, fd: int, read: Callable[[], None]) -> None:
        """Call a function whenever a descriptor can be read, until nothing writes to it."""
        self._readers[fd] = read
        self._poll.register(fd, select.POLLIN)

    def start(self, become_program: Callable[[], None]) -> int:
        """Fork a program; returns its number.

        Args:
            become_program: becomes the program, in the child; its own calls are caught, too.
        """
        own_socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if not pid:
            own_socket.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
            die_with_parent()
            show_to_tracers()
            fd = install_filter(self._processor, self._filter)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [fd]))
            child_socket.sendmsg([b"+"], [rights], PASSED_FLAGS)
            child_socket.close()
            os.close(fd)
            become_program()
            os._exit(1)
        self._programs.add(pid)
        child_socket.close()
        _, fds = receive(own_socket, 1)
        own_socket.close()
        # Without a filter it has ended, and has reported why.
        for listener in fds:
            prepare_listener(listener)
            self.add_reader(listener, partial(self._take_notification, listener))
        return pid

    def run(self, program: int) -> None:
        """Answer calls until a program ends; then end all others."""
        self._reap()
        while program in self._programs:
            for fd, events in self._poll.poll():
                if events & select.POLLIN:
                    self._readers[fd]()
                else:  # no process has the filter any more
                    self._poll.unregister(fd)
                    del self._readers[fd]
                    os.close(fd)
        with contextlib.suppress(ChildProcessError):
            while True:
                self.kill_programs()
                self._on_status(*os.waitpid(-1, tracer.WALL))

    def kill_programs(self) -> None:
        """End all programs."""
        for pid in list_children():
            kill(pid, signal.SIGKILL)

    def _read_ends(self, ends: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(ends, 4096)
        self._reap()

    # -- notifications

    def _take_notification(self, listener: int) -> None:
        notification = receive_notification(listener)
        if notification is None:
            return
        thread = notification.thread
        if thread in self._followed:
            notification.let_continue()
            return
        try:
            memory = self._open_memory(thread)
        except OSError:
            notification.answer(-errno.EPERM)
            return
        try:
            if notification.is_waiting():
                self._answer(notification, memory)
        finally:
            if thread not in self._followed:
                memory.close()

    @staticmethod
    def _open_memory(thread: int) -> ProcessMemory:
        if not takes_users():
            return ProcessMemory(thread)
        with as_user_of(thread):
            return ProcessMemory(thread)

    def _answer(self, notification: Notification, memory: ProcessMemory) -> None:
        changed = self._find_changed(notification, memory)
        if changed is not None:
            self._continue(notification, memory, Continue(changed.on_return))
            return
        name, answer_call = self._answers[notification.number]
        call = SystemCall(name, notification.arguments, notification.thread, memory)
        answer: Answer
        try:
            answer = answer_call(call)
        except OSError as error:
            answer = Failure(error.errno or errno.EIO)
        if isinstance(answer, Continue):
            self._continue(notification, memory, answer)
        elif isinstance(answer, Failure):
            notification.answer(-answer.number)
        elif isinstance(answer, Descriptor):
            self._add_descriptor(notification, answer)
        elif isinstance(answer, Change):
            self._change(notification, memory, answer)
        else:
            notification.answer(answer.value)

    def _add_descriptor(self, notification: Notification, answer: Descriptor) -> None:
        try:
            notification.answer_descriptor(answer.fd, is_kept=answer.is_kept)
        except OSError as error:
            notification.answer(-(error.errno or errno.EMFILE))
        finally:
            os.close(answer.fd)

    def _continue(
        self, notification: Notification, memory: ProcessMemory, answer: Continue
    ) -> None:
        if answer.on_return is None and not answer.followed_by:
            notification.let_continue()
        else:
            self._follow(notification, memory, answer)

    def _find_changed(self, notification: Notification, memory: ProcessMemory) -> _Changed | None:
        """Return the changed call that this is, and restore what its arguments point to.

        It is made more than once if signals interrupt it.
        """
        for changed in self._changed.get(notification.thread, ()):
            if (changed.number, changed.arguments) == (
                notification.number,
                notification.arguments,
            ):
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    for address, content in changed.contents.items():
                        memory.write(address, content)
                return changed
        return None

    def _change(self, notification: Notification, memory: ProcessMemory, answer: Change) -> None:
        """Have a call made again with other arguments."""
        try:
            answer = _add_files(notification, answer)
        except OSError as error:
            notification.answer(-(error.errno or errno.EMFILE))
            return
        thread, number, instruction = (
            notification.thread, notification.number, notification.instruction,
        )  # fmt: skip
        if not tracer.seize(thread):
            _change_in_place(notification, memory, answer)
            return
        notification.answer(tracer.RESTART)
        status = tracer.wait_for_stop(thread)
        if status is None or not os.WIFSTOPPED(status):
            self._on_ended(thread, status)
            return
        try:
            registers = tracer.Registers(self._processor, thread)
            try:
                space = self._argument_memory.find(
                    thread, answer.size, memory,
                    lambda size: registers.map_memory(size, instruction),
                )  # fmt: skip
                if answer.preceded_by is not None:
                    name, before = answer.preceded_by
                    for content in before:
                        if isinstance(content, bytes):
                            memory.write(space, content)
                    places = [space if isinstance(one, bytes) else one for one in before]
                    registers.make_call(self._processor.numbers[name], instruction, places)
                values, contents = answer.lay_out(space)
                for address, content in contents.items():
                    memory.write(address, content)
            except OSError as error:
                registers.fail(error.errno or errno.ENOMEM, instruction)
            else:
                registers.set_arguments(values)
                registers.make_again(number, instruction)
                self._note_changed(notification, values, contents, answer.on_return)
        except tracer.Interrupted as interrupted:
            status = interrupted.status
            if status is None or not os.WIFSTOPPED(status):
                self._on_ended(thread, status)
                return
            # The call is made as it was, and comes again.
            tracer.detach(thread, tracer.get_signal(status))
            return
        except OSError:  # it has ended meanwhile
            pass
        tracer.detach(thread)

    def _note_changed(
        self,
        notification: Notification,
        values: Mapping[int, int],
        contents: Mapping[int, bytes],
        on_return: Callable[[int], None] | None,
    ) -> None:
        arguments = list(notification.arguments)
        for place, value in values.items():
            arguments[place] = value
        last = self._changed.pop(notification.thread, None) or deque(maxlen=KEPT_CALLS)
        last.append(_Changed(notification.number, tuple(arguments), contents, on_return))
        if len(self._changed) >= _MAX_CHANGED:
            del self._changed[next(iter(self._changed))]
        self._changed[notification.thread] = last

    def _on_ended(self, thread: int, status: int | None) -> None:
        """Note that a thread has ended where it was to stop."""
        if status is not None:
            self._on_status(thread, status)

    # -- calls whose results are seen

    def _follow(self, notification: Notification, memory: ProcessMemory, answer: Continue) -> None:
        thread, on_return = notification.thread, answer.on_return
        if not tracer.seize(thread):
            if answer.followed_by:
                notification.answer(-errno.EPERM)
            else:
                notification.let_continue()
            return
        notification.let_continue()
        status = tracer.wait_for_stop(thread)
        if status is None or not os.WIFSTOPPED(status):
            self._on_ended(thread, status)
            return
        try:
            registers = tracer.Registers(self._processor, thread)
            is_again = registers.is_restarting(notification.instruction)
            if not is_again and registers.result == -errno.EINTR:
                # Calls with a timeout of the socket are not restarted by the kernel.
                registers.make_again(notification.number, notification.instruction)
                is_again = True
            if not is_again:
                for name, arguments in answer.followed_by:
                    number = self._processor.numbers[name]
                    registers.make_call(number, notification.instruction, arguments)
        except OSError:
            is_again = False
        else:
            if is_again and on_return and tracer.follow_call(thread):
                self._followed[thread] = _Followed(on_return, memory)
                return
            if not is_again and on_return:
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
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | tracer.WALL)
                if not pid:
                    return
                self._on_status(pid, status)

    def _on_status(self, pid: int, status: int) -> None:
        if os.WIFSTOPPED(status):
            self._on_stop(pid, status)
            return
        self._forget(pid)
        if pid in self._programs:
            self._programs.remove(pid)
            code = os.waitstatus_to_exitcode(status)
            self._on_exit(pid, 128 - code if code < 0 else code)


def _add_files(notification: Notification, answer: Change) -> Change:
    """Return a change with the paths of descriptors that the program has got for open files."""
    arguments = dict(answer.arguments)
    for place, value in answer.arguments.items():
        if isinstance(value, OpenedFile):
            try:
                number = notification.add_descriptor(value.fd)
            finally:
                os.close(value.fd)
            arguments[place] = b"/proc/self/fd/%d\0" % number
    return answer._replace(arguments=arguments)


def _change_in_place(notification: Notification, memory: ProcessMemory, answer: Change) -> None:
    """Let a thread that a debugger traces make a call with what it points to changed."""
    if answer.in_place is None:
        notification.answer(-errno.EPERM)
        return
    try:
        for address, content in answer.in_place.items():
            memory.write(address, content)
    except OSError as error:
        notification.answer(-(error.errno or errno.EFAULT))
    else:
        notification.let_continue()


def _call(on_return: Callable[[int], None], result: int) -> None:
    """Show a result to whom waits for it; it may have no memory any more to write to."""
    with contextlib.suppress(OSError):
        on_return(result)

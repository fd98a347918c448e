"""The processes of a shell: subshells, pipelines, substitutions, what runs in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.fds import (
    CaptureEnd,
    OpenFile,
    copy_fds,
    make_pipe,
    open_path,
)
from pytest_kwait.simulator.busybox.os.process_table import ForkError, Task
from pytest_kwait.simulator.busybox.os.syscalls import (
    Await,
    Call,
    Effect,
    Pipe,
    Process,
    ProcessContext,
    Write,
)
from pytest_kwait.simulator.busybox.shell.shell_state import ShellState
from pytest_kwait.simulator.busybox.shell.tree import Command, Literal, Node, Word
from pytest_kwait.simulator.busybox.shell.variables import FunctionReturn, LoopControl, ShellExit

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["ShellProcesses"]

_SIGNAL_MESSAGES = {
    1: "Hangup", 3: "Quit", 4: "Illegal instruction", 6: "Aborted", 9: "Killed",
    10: "User defined signal 1", 11: "Segmentation fault", 12: "User defined signal 2",
    14: "Alarm clock", 15: "Terminated",
}  # fmt: skip
_MAX_JOBS = 512
_CAT_WORD = Word(((Literal("cat"), False),))


class ShellProcesses(ShellState):
    """A shell that starts others of its kind."""

    def _leave(self) -> Generator[Effect, None, None]:
        script = self.traps.pop("EXIT", None)
        if script:
            status = self.status
            try:
                yield from self.evaluate(script)
                self.status = status
            except ShellExit as end:
                self.status = end.code
            except (FunctionReturn, LoopControl):
                self.status = status

    def ended(self, node: Node) -> Process:
        """Run a whole (sub)shell."""
        try:
            try:
                yield from self.node(node)
            except (ShellExit, FunctionReturn) as end:
                self.status = end.code
            except LoopControl:
                pass
            yield from self._leave()
        finally:
            self.variables.close()
        return self.status

    def within(self, node: Node) -> Generator[Effect, None, None]:
        """Run a subshell in this process, which has its files back afterwards."""
        around = self.around
        kept = copy_fds(around.fds)
        inner = self.subshell(around.with_env(around.env))
        call = Call(inner.ended(node))
        try:
            yield call
        finally:
            inner.variables.close()
            for one in around.fds.values():
                one.release()
            around.fds.clear()
            around.fds.update(kept)
        self.status = call.code

    def substitute(self, script: Node) -> Generator[Effect, None, str]:
        """What a script writes, without the newlines at its end."""
        fds = self.around.fds
        if isinstance(script, Command) and not script.words and not script.assignments:
            # `$(<file)`.
            script = Command((_CAT_WORD,), (), script.redirects, script.line)
        capture = CaptureEnd(self.around.tasks.account)
        capture.retain()
        kept = fds.get(1)
        fds[1] = capture.retain()
        try:
            yield from self.within(script)
            capture.release()
            if kept is not None:
                fds[1] = kept
            else:
                del fds[1]
            kept = None
            if capture.refs > 1:
                # Somebody in the background may still write.
                yield Await(lambda: capture.refs == 1)
            text = capture.data.replace(b"\0", b"").decode(errors="surrogateescape")
        finally:
            if kept is not None:
                fds[1] = kept
            capture.release()
        self.substituted = self.status
        return text.rstrip("\n")

    def fork(self, node: Node, fds: dict[int, OpenFile]) -> Task:
        """Start a subshell as a process.

        Raises:
            Exit: the container has too many processes.
        """

        def make(around: ProcessContext) -> Process:
            inner = self.subshell(around)
            # Whoever is killed before its first turn closes nothing itself.
            around.task.on_end.append(inner.variables.close)
            around.task.handler, around.task.traps = inner.signal, inner.handles
            return inner.ended(node)

        around = self.around
        return around.tasks.start(make, around, self.name, fds, parent=around.task.pid)

    def _forked(self, node: Node, fds: dict[int, OpenFile]) -> Generator[Effect, None, Task]:
        try:
            return self.fork(node, fds)
        except ForkError:
            yield self.make_message("can't fork: Resource temporarily unavailable")
            raise ShellExit(2) from None

    def _pipeline(self, commands: tuple[Node, ...]) -> Generator[Effect, None, None]:
        members: list[Task] = []
        previous: OpenFile | None = None
        for command in commands:
            fds = copy_fds(self.around.fds)
            if previous is not None:
                _replace_fd(fds, 0, previous)
                previous.release()
                previous = None
            if command is not commands[-1]:
                reader, writer = make_pipe(Pipe())
                previous = reader.retain()
                _replace_fd(fds, 1, writer)
            try:
                members.append((yield from self._forked(command, fds)))
            except ShellExit:
                if previous is not None:
                    previous.release()
                raise
        yield Await(lambda: all(one.code is not None for one in members))
        codes = [one.code or 0 for one in members]
        self.status = codes[-1]
        if "pipefail" in self.options:
            self.status = next((code for code in reversed(codes) if code), 0)
        yield from self.report_signal_end(members[-1])

    def report_signal_end(self, task: Task) -> Generator[Effect, None, None]:
        """Say how a process ended that a signal has ended."""
        if task.signalled in _SIGNAL_MESSAGES:
            yield Write(2, f"{_SIGNAL_MESSAGES[task.signalled]}\n".encode())

    def _background(self, command: Node) -> Generator[Effect, None, None]:
        fds = copy_fds(self.around.fds)
        account = self.around.tasks.account
        null = open_path(self.around.files, "/dev/null", "r", account, self.around.now, {})
        _replace_fd(fds, 0, null)
        task = yield from self._forked(command, fds)
        self.children[task.pid] = task
        self.last_job = task.pid
        self.status = 0
        if len(self.children) > _MAX_JOBS:
            for pid in [pid for pid, one in self.children.items() if one.code is not None]:
                del self.children[pid]


def _replace_fd(fds: dict[int, OpenFile], number: int, one: OpenFile) -> None:
    old = fds.pop(number, None)
    fds[number] = one.retain()
    if old is not None:
        old.release()

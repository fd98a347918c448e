"""What a shell is: its name, its arguments, its options, its variables, its traps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Self

from pytest_kwait.simulator.busybox.os.process_table import SIGNALS, Task
from pytest_kwait.simulator.busybox.os.syscalls import ProcessContext, Write
from pytest_kwait.simulator.busybox.shell.expansion import Expander
from pytest_kwait.simulator.busybox.shell.variables import ShellVariables

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process
    from pytest_kwait.simulator.busybox.shell.tree import Node

__all__ = ["ShellState"]


class ShellState(ABC):
    """One shell.

    Args:
        around: the process that it is.
        name: what its messages begin with.
        arguments: `$1` and so on.
        file: whether it reads a file, whose lines its messages name.
    """

    def __init__(
        self,
        around: ProcessContext,
        name: str = "sh",
        arguments: tuple[str, ...] = (),
        *,
        file: bool = False,
    ) -> None:
        self.around = around
        self.name = name
        self.arguments = arguments
        self.file = file
        self.status = 0
        self.line = 0
        self.reading = ""
        """What of the shell reads the script that runs: `eval`, or a file for `.`."""
        self.pid = around.task.pid
        self.last_job = 0
        self.options: set[str] = set()
        self.functions: dict[str, Node] = {}
        self.traps: dict[str, str] = {}
        self.children: dict[int, Task] = {}
        self.loops = 0
        self.option_offset = 0
        self.variables = ShellVariables(around.env, around.tasks.account)
        self.expander = Expander(self)
        self._tested = 0
        self._pending: list[int] = []
        self.substituted = 0

    # -- signals

    def signal(self, number: int) -> bool:
        """Note a signal; False where no trap waits for it."""
        name = next((name for name, known in SIGNALS.items() if known == number), "")
        if name not in self.traps:
            return False
        if self.traps[name]:
            self._pending.append(number)
        return True

    def handles(self, number: int) -> bool:
        """Whether a trap would be run for a signal."""
        return any(self.traps.get(name) for name, known in SIGNALS.items() if known == number)

    @property
    def interrupted(self) -> int:
        """The signal that a trap is still to be run for; 0 without."""
        return self._pending[0] if self._pending else 0

    def make_message(self, text: str, command: str = "") -> Write:
        """A message as `ash` begins it; its own commands are named with a line."""
        command = command or self.reading
        where = f"{self.name}: {command}: " if command else f"{self.name}: "
        if command or self.file:
            where += f"line {self.line}: "
        return Write(2, f"{where}{text}\n".encode(errors="surrogateescape"))

    def subshell(self, around: ProcessContext) -> Self:
        """The same shell in another process, or for a while in this one."""
        inner = copy(self)
        inner.around = around
        inner.options = set(self.options)
        inner.functions = dict(self.functions)
        inner.traps = {name: "" for name, script in self.traps.items() if not script}
        inner.children = {}
        inner.variables = self.variables.copy()
        inner.expander = Expander(inner)
        inner._pending = []
        inner.substituted = 0
        return inner

    # -- what it does

    @abstractmethod
    def node(self, node: Node) -> Generator[Effect, None, None]:
        """Run a tree, leaving its exit code in `status`."""

    @abstractmethod
    def evaluate(self, script: str, command: str = "") -> Generator[Effect, None, None]:
        """Run a script as `eval` and traps do."""

    @abstractmethod
    def lines(self, script: str, first: int) -> Generator[Effect, None, None]:
        """Run a script line by line."""

    @abstractmethod
    def call(self, words: list[str]) -> Process:
        """Run a program that is none of the shell's own commands."""

    @abstractmethod
    def report_signal_end(self, task: Task) -> Generator[Effect, None, None]:
        """Say how a process ended that a signal has ended."""

    @abstractmethod
    def substitute(self, script: Node) -> Generator[Effect, None, str]:
        """What a script writes, without the newlines at its end."""

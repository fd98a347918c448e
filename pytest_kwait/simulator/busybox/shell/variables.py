"""The state of a shell: variables, and the exceptions that end commands early.

`exit`, `return`, `break`, `continue` and assignments to read-only variables unwind the
commands that run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_kwait.simulator.busybox.os.syscalls import NonlocalExit

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytest_kwait.simulator.busybox.libbb import WorkMeter
    from pytest_kwait.simulator.busybox.os.memory import MemoryAccount
    from pytest_kwait.simulator.busybox.os.syscalls import (
        Effect,
        Process,
        ProcessContext,
        Task,
        Write,
    )
    from pytest_kwait.simulator.busybox.shell.tree import Node

_OVERHEAD = 64
WORD_SIZE = 24
"""The overhead of a word in bytes."""
_FREE_SIZE = 4096


class ShellExit(NonlocalExit):
    """Exits the shell with `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class FunctionReturn(NonlocalExit):
    """Returns from a function or sourced file with `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LoopControl(NonlocalExit):
    """`break` or `continue` of `loops` loops."""

    def __init__(self, word: str, loops: int) -> None:
        super().__init__(word, loops)
        self.word = word
        self.loops = loops


class ReadOnlyVariableError(NonlocalExit):
    """An assignment to the read-only variable `name`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def measure_words(words: Sequence[str]) -> int:
    """Return the bytes of words to charge; 0 if they are small."""
    size = WORD_SIZE * len(words) + sum(map(len, words))
    return size if size > _FREE_SIZE else 0


class ShellVariables:
    """The variables of one shell.

    Args:
        env: the initial variables, all exported.
        account: the memory account that they are charged to.
    """

    __slots__ = (
        "_account", "_argued", "_env", "_held", "_scopes", "exported", "read_only", "values",
    )  # fmt: skip

    def __init__(self, env: dict[str, str], account: MemoryAccount) -> None:
        self.values = dict(env)
        self.exported = set(env)
        self.read_only: set[str] = set()
        self._account = account
        self._held = sum(len(name) + len(value) + _OVERHEAD for name, value in env.items())
        account.take(self._held)
        self._argued = 0
        self._scopes: list[dict[str, str | None]] = []
        self._env: dict[str, str] | None = None

    def copy(self) -> ShellVariables:
        """Copy the variables for another shell."""
        copy = ShellVariables({}, self._account)
        copy.values = dict(self.values)
        copy.exported = set(self.exported)
        copy.read_only = set(self.read_only)
        copy._held, copy._argued = self._held, self._argued
        self._account.take(self._held)
        copy._scopes = [dict(scope) for scope in self._scopes]
        return copy

    def close(self) -> None:
        """Release the memory."""
        self._account.give(self._held)
        self._held = 0

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return a value; `default` if it is unset."""
        return self.values.get(name, default)

    @property
    def ifs(self) -> str:
        """The field separators."""
        return self.values.get("IFS", " \t\n")

    def set(self, name: str, value: str) -> None:
        """Assign a value.

        Raises:
            ReadOnlyVariableError: the variable is read-only.
            OutOfMemoryError: the value is too large.
        """
        if name in self.read_only:
            raise ReadOnlyVariableError(name)
        old = self.values.get(name)
        grown = len(value) - (len(old) if old is not None else -len(name) - _OVERHEAD)
        self._held += grown
        self._account.take(grown)
        self.values[name] = value
        if name in self.exported:
            self._env = None

    def charge_arguments(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Charge arguments in place of the earlier ones, and return them.

        Raises:
            OutOfMemoryError: they are too large.
        """
        grown = measure_words(arguments) - self._argued
        self._argued += grown
        self._held += grown
        self._account.take(grown)
        return arguments

    def unset(self, name: str) -> None:
        """Unset a variable.

        Raises:
            ReadOnlyVariableError: the variable is read-only.
        """
        if name in self.read_only:
            raise ReadOnlyVariableError(name)
        old = self.values.pop(name, None)
        if old is not None:
            freed = len(old) + len(name) + _OVERHEAD
            self._held -= freed
            self._account.give(freed)
        self.exported.discard(name)
        self._env = None

    def export(self, name: str) -> None:
        """Export a variable to programs."""
        self.exported.add(name)
        self._env = None

    @property
    def env(self) -> dict[str, str]:
        """The exported variables."""
        if self._env is None:
            self._env = {
                name: value for name, value in self.values.items() if name in self.exported
            }
        return self._env

    # -- functions

    @property
    def is_in_function(self) -> bool:
        """Return whether a function runs, so that variables can be local."""
        return bool(self._scopes)

    def enter_function(self) -> None:
        """Begin the scope of a function."""
        self._scopes.append({})

    def leave_function(self) -> None:
        """End the scope of a function, and restore its local variables."""
        for name, value in self._scopes.pop().items():
            self.read_only.discard(name)
            if value is None:
                exported = name in self.exported
                self.unset(name)
                if exported:
                    self.export(name)
            else:
                self.set(name, value)

    def make_local(self, name: str) -> None:
        """Make a variable local to the running function."""
        self._scopes[-1].setdefault(name, self.values.get(name))


class ShellContext(Protocol):
    """A shell as its builtins and expansions see it."""

    context: ProcessContext
    name: str
    arguments: tuple[str, ...]
    file: bool
    status: int
    line: int
    reading: str
    pid: int
    last_job: int
    options: set[str]
    functions: dict[str, Node]
    traps: dict[str, str]
    children: dict[int, Task]
    loops: int
    option_offset: int
    variables: ShellVariables
    meter: WorkMeter

    @property
    def interrupted(self) -> int:
        """The signal whose trap has yet to run; 0 without one."""

    def make_message(self, text: str, command: str = "") -> Write:
        """Return an error message with the prefix that `ash` gives it."""

    def evaluate(self, script: str, command: str = "") -> Generator[Effect, None, None]:
        """Run a script as `eval` and traps do."""

    def evaluate_number(self, expression: str) -> Generator[Effect, None, int]:
        """Return the value of an arithmetic expression."""

    def run_lines(self, script: str, first: int) -> Generator[Effect, None, None]:
        """Run a script line by line, counted from `first`."""

    def call(self, words: list[str]) -> Process:
        """Run a program, not a builtin."""

    def substitute(self, script: Node) -> Generator[Effect, None, str]:
        """Run a script and return its output without trailing newlines."""

    def report_signal_end(self, task: Task) -> Generator[Effect, None, None]:
        """Report the signal that ended a process."""

"""The commands that a shell runs itself, as they change the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_kwait.simulator.kubelet.processes import Job, Pause, Process, Surroundings, Write

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BUILTINS", "Exit", "LoopControl", "ShellState"]

# How often `wait` looks.
_WAIT_TURN = 0.05


class ShellState(Protocol):
    """What builtins see of their shell."""

    around: Surroundings
    name: str
    status: int
    traps: dict[str, str]
    jobs: list[Job]
    pending: list[str]
    errexit: bool

    def call(self, words: list[str]) -> Process:
        """Run another program."""
        ...


class Exit(Exception):
    """The shell ends with `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LoopControl(Exception):
    """`break` or `continue`."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


def _exit(shell: ShellState, args: list[str]) -> Process:
    if args and not args[0].isdigit():
        yield Write(2, f"{shell.name}: exit: line 0: Illegal number: {args[0]}\n".encode())
        raise Exit(2)
    raise Exit(int(args[0]) % 256 if args else shell.status)


def _trap_builtin(shell: ShellState, args: list[str]) -> Process:
    yield from ()
    if len(args) < 2:
        return 0
    for name in args[1:]:
        signal = {"15": "TERM", "0": "EXIT"}.get(name, name.removeprefix("SIG"))
        if args[0] == "-":
            shell.traps.pop(signal, None)
        else:
            shell.traps[signal] = args[0]
    return 0


def _set(shell: ShellState, args: list[str]) -> Process:
    yield from ()
    for arg in args:
        if arg[:1] in ("-", "+") and "e" in arg[1:]:
            shell.errexit = arg[0] == "-"
    return 0


def _loop_word(word: str) -> Callable[[ShellState, list[str]], Process]:
    def leave(_: ShellState, __: list[str]) -> Process:
        yield from ()
        raise LoopControl(word)

    return leave


def _export(shell: ShellState, args: list[str]) -> Process:
    yield from ()
    for arg in args:
        name, separator, value = arg.partition("=")
        if separator:
            shell.around.env[name] = value
    return 0


def _exec(shell: ShellState, args: list[str]) -> Process:
    if not args:
        return 0
    # The program takes the shell's place, its traps with it.
    shell.traps.clear()
    raise Exit((yield from shell.call(args)))


def _wait(shell: ShellState, _: list[str]) -> Process:
    # A trapped signal ends a `wait` at once, unlike a program in the foreground.
    while any(job.code is None for job in shell.jobs):
        yield Pause(_WAIT_TURN)
        if shell.pending:
            return 143
    return shell.jobs[-1].code or 0 if shell.jobs else 0


def _nothing(_: ShellState, __: list[str]) -> Process:
    yield from ()
    return 0


BUILTINS: dict[str, Callable[[ShellState, list[str]], Process]] = {
    ":": _nothing, "break": _loop_word("break"), "cd": _nothing, "continue": _loop_word("continue"),
    "exec": _exec, "exit": _exit, "export": _export, "return": _exit, "set": _set,
    "trap": _trap_builtin, "umask": _nothing, "wait": _wait,
}  # fmt: skip

"""The commands that a shell runs itself, as they change the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.files import Directory, File
from pytest_kwait.simulator.busybox.os.syscalls import Call, Process, Write
from pytest_kwait.simulator.busybox.shell.builtins import VARIABLE_BUILTINS
from pytest_kwait.simulator.busybox.shell.shell_jobs import JOB_BUILTINS
from pytest_kwait.simulator.busybox.shell.variables import FunctionReturn, LoopControl, ShellExit

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.shell.shell_state import ShellState

__all__ = ["BUILTINS", "SPECIAL"]

_MAX_DIGITS = 19
_KEYWORDS = frozenset(
    "! case do done elif else esac fi for function if in then until while { }".split()  # noqa: SIM905
)


def _parse_exit_code(digits: str) -> int:
    """What an exit code amounts to; 0 for what is beyond all numbers."""
    return int(digits) % 256 if len(digits.lstrip("0")) < _MAX_DIGITS else 0


def _exit(shell: ShellState, args: list[str]) -> Process:
    if args and not args[0].isdigit():
        yield shell.make_message(f"Illegal number: {args[0]}", "exit")
        raise ShellExit(2)
    raise ShellExit(_parse_exit_code(args[0]) if args else shell.status)


def _return(shell: ShellState, args: list[str]) -> Process:
    if args and not args[0].isdigit():
        yield shell.make_message(f"Illegal number: {args[0]}", "return")
        raise ShellExit(2)
    raise FunctionReturn(_parse_exit_code(args[0]) if args else shell.status)


def _make_loop_control(word: str) -> Callable[[ShellState, list[str]], Process]:
    def leave(shell: ShellState, args: list[str]) -> Process:
        if args and (not args[0].isdigit() or not int(args[0])):
            yield shell.make_message(f"Illegal number: {args[0]}", word)
            raise ShellExit(2)
        if shell.loops:
            raise LoopControl(word, int(args[0]) if args else 1)
        return 0

    return leave


def _eval(shell: ShellState, args: list[str]) -> Process:
    def run() -> Process:
        yield from shell.evaluate(" ".join(args), "eval")
        return shell.status

    call = Call(run())
    yield call
    return call.code


def _dot(shell: ShellState, args: list[str]) -> Process:
    if not args:
        return 0
    path = args[0]
    where = [path] if "/" in path else [
        *(f"{folder}/{path}" for folder in (shell.variables.get("PATH") or "").split(":")), path,
    ]  # fmt: skip
    files = shell.around.files
    contents = (files.read(shell.around.path(one)) for one in where)
    found = next((data for data in contents if data is not None), None)
    if found is None:
        yield shell.make_message(f"can't open '{path}': No such file or directory", ".")
        raise ShellExit(2)
    script = found.decode(errors="surrogateescape")
    kept, before = shell.arguments, shell.reading
    shell.reading = path
    if args[1:]:
        shell.arguments = tuple(args[1:])

    def run() -> Process:
        yield from shell.lines(script, 1)
        return shell.status

    call = Call(run())
    try:
        yield call
    except FunctionReturn as end:
        return end.code
    finally:
        shell.arguments, shell.reading = kept, before
    return call.code


def _exec(shell: ShellState, args: list[str]) -> Process:
    if not args:
        return 0
    # Loading programs is what starting one does.
    from pytest_kwait.simulator.busybox.applets import has_program

    if not has_program(shell.around, args[0]):
        yield shell.make_message(f"{args[0]}: not found", "exec")
        raise ShellExit(127)
    # The program takes the shell's place, its traps with it.
    shell.traps.clear()
    shell.around.task.handler = shell.around.task.traps = None
    raise ShellExit((yield from shell.call(args)))


def _cd(shell: ShellState, args: list[str]) -> Process:
    args = [arg for arg in args if arg not in ("-P", "-L", "--")]
    target = args[0] if args else shell.variables.get("HOME") or ""
    if target == "-":
        target = shell.variables.get("OLDPWD") or shell.around.cwd
        yield Write(1, f"{target}\n".encode())
    path = shell.around.path(target).rstrip("/") or "/"
    found = shell.around.files.find(path)
    if not isinstance(found, Directory):
        why = "No such file or directory" if found is None else "Not a directory"
        yield shell.make_message(f"can't cd to {target}: {why}", "cd")
        return 2
    shell.variables.set("OLDPWD", shell.around.cwd)
    shell.around.cwd = path
    shell.variables.set("PWD", path)
    return 0


def _pwd(shell: ShellState, _: list[str]) -> Process:
    yield Write(1, f"{shell.around.cwd}\n".encode())
    return 0


def _type(shell: ShellState, args: list[str]) -> Process:
    code = 0
    for name in args:
        found = _describe_command(shell, name)
        if not found:
            yield Write(1, f"{name}: not found\n".encode())
            code = 127
        else:
            yield Write(1, f"{name} is {found}\n".encode())
    return code


def _describe_command(shell: ShellState, name: str) -> str:
    """What a name is, as `type` says it; empty where it is nothing."""
    from pytest_kwait.simulator.busybox.applets import has_program

    if name in _KEYWORDS:
        return "a shell keyword"
    if name in shell.functions:
        return "a function"
    if name in BUILTINS:
        return "a special shell builtin" if name in SPECIAL else "a shell builtin"
    if "/" in name:
        found = shell.around.files.find(shell.around.path(name))
        return name if isinstance(found, File) else ""
    return name if has_program(shell.around, name) else ""


def _command(shell: ShellState, args: list[str]) -> Process:
    if args and args[0] in ("-v", "-V"):
        code = 0
        for name in args[1:2]:
            found = _describe_command(shell, name)
            code = 0 if found else 127
            if found:
                text = name if args[0] == "-v" else f"{name} is {found}"
                yield Write(1, f"{text}\n".encode())
            elif args[0] == "-V":
                yield Write(2, f"{name}: not found\n".encode())
        return code
    if not args:
        return 0
    builtin = BUILTINS.get(args[0])
    if builtin is not None:
        return (yield from builtin(shell, args[1:]))
    return (yield from shell.call(args))


def _let(shell: ShellState, args: list[str]) -> Process:
    value = 0
    if not args:
        yield shell.make_message("expression expected", "let")
        return 1
    for arg in args:
        value = yield from shell.expander.number(arg)
    return int(not value)


def _do_nothing(_: ShellState, __: list[str]) -> Process:
    yield from ()
    return 0


def _umask(_: ShellState, args: list[str]) -> Process:
    if not args:
        yield Write(1, b"0022\n")
    return 0


def _refuse(name: str) -> Callable[[ShellState, list[str]], Process]:
    def refuse(shell: ShellState, _: list[str]) -> Process:
        yield shell.make_message("not simulated by the embedded kubelet", name)
        return 2

    return refuse


BUILTINS: dict[str, Callable[[ShellState, list[str]], Process]] = {
    ":": _do_nothing, "break": _make_loop_control("break"), "cd": _cd, "command": _command,
    "continue": _make_loop_control("continue"), "eval": _eval, "exec": _exec, "exit": _exit,
   "hash": _do_nothing, "let": _let,
    "pwd": _pwd,   "return": _return,
  "source": _dot, ".": _dot, "type": _type, "umask": _umask,
    **{name: _refuse(name) for name in ("alias", "unalias", "ulimit", "fg", "bg", "times")},
    **JOB_BUILTINS,
    **VARIABLE_BUILTINS,
}  # fmt: skip

SPECIAL = frozenset(
    {
        ".", ":", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return",
        "set", "shift", "source", "times", "trap", "unset",
    }
)  # fmt: skip

"""The commands of a shell that deal with processes and signals: `trap`, `wait`, `kill`, `jobs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.process_table import SIGNALS
from pytest_kwait.simulator.busybox.os.syscalls import Await, Process, Write

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.process_table import Task
    from pytest_kwait.simulator.busybox.shell.shell_state import ShellState

__all__ = ["JOB_BUILTINS", "parse_signal"]


def parse_signal(text: str) -> int | None:
    """The number of a signal that is named or numbered; None where there is none."""
    if text.isdigit():
        return int(text) if int(text) < 65 else None
    return SIGNALS.get(text.upper().removeprefix("SIG"))


def _trap(shell: ShellState, args: list[str]) -> Process:
    args = args[1:] if args[:1] == ["--"] else args
    if not args:
        order = {"EXIT": 0, **SIGNALS}
        for name in sorted(shell.traps, key=lambda one: order.get(one, 0)):
            script = shell.traps[name].replace("'", "'\"'\"'")
            yield Write(1, f"trap -- '{script}' {name}\n".encode())
        return 0
    # A number first means that all of them are taken back.
    all_back = args[0].isdigit() or len(args) == 1
    script = "-" if all_back else args[0]
    names = args if all_back else args[1:]
    code = 0
    for name in names:
        number = 0 if name.upper() == "EXIT" else parse_signal(name)
        if number is None:
            yield shell.make_message(f"{name}: invalid signal specification", "trap")
            code = 1
            continue
        signal = next((known for known, value in SIGNALS.items() if value == number), "EXIT")
        if script == "-":
            shell.traps.pop(signal, None)
        else:
            shell.traps[signal] = script
    return code


def _find_job(shell: ShellState, text: str) -> Task | None:
    """The background process of `%1` or a number; None where the shell has none."""
    if text.startswith("%"):
        jobs = list(shell.children.values())
        if text in ("%", "%%", "%+"):
            return jobs[-1] if jobs else None
        number = int(text[1:]) if text[1:].isdigit() else 0
        return jobs[number - 1] if 0 < number <= len(jobs) else None
    return shell.children.get(int(text)) if text.isdigit() else None


def _wait(shell: ShellState, args: list[str]) -> Process:
    if not args:
        yield Await(
            lambda: all(one.code is not None for one in shell.children.values()), signals=True
        )
        if shell.interrupted:
            return 128 + shell.interrupted
        shell.children.clear()
        return 0
    code = 0
    for arg in args:
        task = _find_job(shell, arg)
        if task is None:
            code = 127
            continue
        yield Await(task.ended, signals=True)
        if shell.interrupted and not task.ended():
            return 128 + shell.interrupted
        code = task.code or 0
        yield from shell.report_signal_end(task)
        shell.children.pop(task.pid, None)
    return code


def _kill(shell: ShellState, args: list[str]) -> Process:
    number, rest = 15, list(args)
    if rest and rest[0] == "-l":
        return (yield from _list_traps(shell, rest[1:]))
    if rest and rest[0] == "-s" and len(rest) > 1:
        rest = ["-" + rest[1], *rest[2:]]
    if rest and rest[0].startswith("-") and rest[0] != "--":
        name = rest.pop(0)[1:]
        found = parse_signal(name)
        if found is None:
            yield shell.make_message(f"bad signal name '{name}'")
            return 1
        number = found
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if not rest:
        yield shell.make_message("you need to specify whom to kill")
        return 1
    code = 0
    for target in rest:
        task = _find_job(shell, target) if target.startswith("%") else None
        text = str(task.pid) if task is not None else target
        if not text.lstrip("-").isdigit():
            yield shell.make_message(f"invalid number '{target}'")
            code = 1
            continue
        sent = shell.around.tasks.signal(abs(int(text)), number)
        if not sent and (task is None or task.code is None):
            yield shell.make_message(f"can't kill pid {text}: No such process")
            code = 1
    return code


def _list_traps(shell: ShellState, names: list[str]) -> Process:
    if not names:
        for name, number in SIGNALS.items():
            yield Write(1, f"{number:2}) {name}\n".encode())
    for name in names:
        if name.isdigit():
            number = int(name) - 128 if int(name) > 128 else int(name)
            text = next((known for known, value in SIGNALS.items() if value == number), name)
        else:
            text = str(parse_signal(name) or "")
        if not text:
            yield shell.make_message(f"unknown signal '{name}'")
            return 1
        yield Write(1, f"{text}\n".encode())
    return 0


def _jobs(shell: ShellState, args: list[str]) -> Process:
    running = [one for one in shell.children.values() if one.code is None]
    for number, task in enumerate(running, start=1):
        mark = "+" if task is running[-1] else "-" if task is running[-2] else " "
        text = f"{task.pid}" if args == ["-p"] else f"[{number}]{mark}  Running                    "
        yield Write(1, f"{text}\n".encode())
    return 0


JOB_BUILTINS: dict[str, Callable[[ShellState, list[str]], Process]] = {
    "jobs": _jobs, "kill": _kill, "trap": _trap, "wait": _wait,
}  # fmt: skip

"""Programs about processes: `timeout`, `ps`, `kill`, `which`, `nohup`, `sysctl` and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.applets import has_program, is_busybox_program, run_program
from pytest_kwait.simulator.busybox.libbb import UsageError, parse_options, write_error, write_out
from pytest_kwait.simulator.busybox.os.fds import copy_fds
from pytest_kwait.simulator.busybox.os.syscalls import Await, ForkError, Process, parse_signal
from pytest_kwait.simulator.busybox.programs.shellutils import parse_duration

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.syscalls import ProcessContext

_SIGTERM, _SIGKILL = 15, 9


def timeout(context: ProcessContext, args: list[str]) -> Process:
    """Run a program with a time limit: `-s SIGNAL`, `-k SECONDS`."""
    options, rest = yield from parse_options("timeout", args, "", "sk", mixed=False)
    if len(rest) < 2:
        raise UsageError("BusyBox: usage: timeout [-s SIG] [-k KILL_SECS] SECS PROG ARGS")
    seconds, later = parse_duration(rest[0]), parse_duration(options.get("k", "0"))
    if seconds is None or later is None:
        raise UsageError(f"timeout: invalid number '{rest[0]}'")
    number = parse_signal(options.get("s", "TERM"))
    if number is None:
        raise UsageError(f"timeout: bad signal name '{options['s']}'")
    argv = rest[1:]
    if not has_program(context, argv[0]):
        yield write_error(f"timeout: can't execute '{argv[0]}': No such file or directory")
        return 127
    try:
        task = context.tasks.start(
            lambda inner: run_program(inner, argv), context, argv[0], copy_fds(context.fds),
            parent=context.task.pid,
        )  # fmt: skip
    except ForkError:
        yield write_error("timeout: vfork: Resource temporarily unavailable")
        return 1
    try:
        yield Await(task.ended, seconds=seconds)
        if not task.ended():
            context.tasks.signal(task.pid, number)
            if later and not task.ended():
                yield Await(task.ended, seconds=later)
                context.tasks.signal(task.pid, _SIGKILL)
            yield Await(task.ended)
            if task.signalled == _SIGTERM:
                yield write_error("Terminated")
    finally:
        if not task.ended():
            context.tasks.signal(task.pid, _SIGTERM)
    return task.code or 0


def ps(context: ProcessContext, args: list[str]) -> Process:
    """Print the processes of the container."""
    yield from parse_options("ps", args, "aefwx", "", "oT")
    yield write_out("PID   USER     COMMAND\n")
    for task in context.tasks.all():
        yield write_out(f"{task.pid:5d} root     {task.name}\n")
    return 0


def pidof(context: ProcessContext, args: list[str]) -> Process:
    """Print the process numbers of programs by name."""
    _, names = yield from parse_options("pidof", args, "s", "o")
    pids = [
        str(task.pid)
        for task in reversed(context.tasks.all())
        if task.name.split(" ")[0].rpartition("/")[2] in names
    ]
    if pids:
        yield write_out(" ".join(pids) + "\n")
    return int(not pids)


def kill(context: ProcessContext, args: list[str]) -> Process:
    """Send a signal to processes."""
    number, rest = _SIGTERM, list(args)
    if rest and rest[0].startswith("-"):
        name = rest.pop(0)[1:]
        signal = parse_signal(rest.pop(0) if name == "s" and rest else name)
        if signal is None:
            yield write_error(f"kill: bad signal name '{name}'")
            return 1
        number = signal
    code = 0
    for pid in rest:
        if not pid.isdigit() or not context.tasks.signal(int(pid), number):
            yield write_error(f"kill: can't kill pid {pid}: No such process")
            code = 1
    return code


def which(context: ProcessContext, args: list[str]) -> Process:
    """Print the paths of programs."""
    _, names = yield from parse_options("which", args, "a")
    if not names:
        raise UsageError("BusyBox: usage: which [-a] COMMAND...")
    code = 0
    for name in names:
        if not has_program(context, name):
            code = 1
        else:
            yield write_out(
                (name if "/" in name or not is_busybox_program(name) else f"/bin/{name}") + "\n"
            )
    return code


def _run_other(program: str, context: ProcessContext, argv: list[str]) -> Process:
    if not argv:
        raise UsageError(f"BusyBox: usage: {program} PROG ARGS")
    if not has_program(context, argv[0]):
        yield write_error(f"{program}: can't execute '{argv[0]}': No such file or directory")
        return 127
    return (yield from run_program(context, argv))


def nohup(context: ProcessContext, args: list[str]) -> Process:
    """Run a program."""
    return (yield from _run_other("nohup", context, args))


def setsid(context: ProcessContext, args: list[str]) -> Process:
    """Run a program; sessions are not simulated."""
    _, argv = yield from parse_options("setsid", args, "c", mixed=False)
    return (yield from _run_other("setsid", context, argv))


def nice(context: ProcessContext, args: list[str]) -> Process:
    """Run a program; priorities are not simulated."""
    _, argv = yield from parse_options("nice", args, "", "n", mixed=False)
    return (yield from _run_other("nice", context, argv))


def time(context: ProcessContext, args: list[str]) -> Process:
    """Run a program and print its duration."""
    began = context.now()
    code = yield from _run_other("time", context, args)
    took = context.now() - began
    minutes, seconds = divmod(took, 60)
    yield write_error(f"real\t{int(minutes)}m {seconds:.2f}s\nuser\t0m 0.00s\nsys\t0m 0.00s")
    return code


def sysctl(context: ProcessContext, args: list[str]) -> Process:
    """Print settings of the kernel: `-n` their values alone, `-e` without errors."""
    options, names = yield from parse_options("sysctl", args, "nNeq", "", "wpaAr")
    code = 0
    for name in names:
        if "=" in name:
            raise UsageError(
                f"sysctl: error setting key '{name.partition('=')[0]}': Read-only file system"
            )
        content = context.files.read(f"/proc/sys/{name.replace('.', '/')}")
        if content is None:
            if "e" not in options:
                yield write_error(f"sysctl: error: '{name}' is an unknown key")
            code = 1
            continue
        value = content.decode().rstrip("\n")
        text = name if "N" in options else value if "n" in options else f"{name} = {value}"
        yield write_out(f"{text}\n")
    return code

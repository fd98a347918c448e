"""Python processes of tests, forked from one that has loaded pytest and the package.

A new process needs a second of processor time to load them, more than most runs that tests start.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import importlib.util
import multiprocessing
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import types
from multiprocessing import forkserver, reduction, resource_tracker
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, cast

import pytest
from _pytest import pytester
from execnet import gateway_base

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.context import ForkServerContext
    from multiprocessing.process import BaseProcess

_ROOT = Path(__file__).parents[1]
PRELOADED = ["tests.forked_python_preload"]
"""The modules that the process has loaded that all are forked from, in this order."""

GC_THRESHOLDS = (10_000, 20, 50)
"""Of the garbage collector, in processes whose objects live for a run."""

_ENVIRONMENT_SIZE = 65_536
"""Bytes that the environment of a process may have, about."""

_ENVIRONMENT_BOUNDS = slice(47, 49)
"""The fields `env_start` and `env_end` of proc(5), counted from the process's state."""

_UNUSED = 200
"""Descriptors from this number on are unused."""


class ForkedPython:
    """A Python process with the interface of `subprocess.Popen` that pytest and execnet use.

    Args:
        command: the interpreter, its flags, and `-c CODE` or `-m MODULE` with their arguments.
        stdin, stdout, stderr: as for `Popen`.
        env: its environment, by default this process's.
        cwd: its folder, by default this process's.
        pass_fds: descriptors that it has under the same numbers.
        close_fds: True, which pytest 8.2 names: it has no others.
        start_new_session: whether signals of this process's terminal are not for it.
        process_group: 0 for a group of its own, by default this process's.
        text: whether `communicate` returns text.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        pass_fds: Sequence[int] = (),
        close_fds: Literal[True] = True,
        start_new_session: bool = False,
        process_group: Literal[0] | None = None,
        text: bool = False,
    ) -> None:
        self.args = command
        self._text = text
        self._output = bytearray()
        context = _fork_server()
        theirs: list[int] = []
        self.stdin = cast("IO[bytes] | None", _our_end(stdin, 0, theirs))
        self.stdout = cast("IO[bytes] | None", _our_end(stdout, 1, theirs))
        if stderr == subprocess.STDOUT:
            theirs.append(os.dup(theirs[1]))
        self.stderr = None if stderr == subprocess.STDOUT else _our_end(stderr, 2, theirs)
        start = _Start(
            [str(each) for each in command],
            dict(os.environ if env is None else env),
            str(cwd or Path.cwd()),
            start_new_session,
            os.getpgrp() if process_group is None else process_group,
            signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
            (0, 1, 2, *pass_fds),
        )
        arguments = (start, _Descriptors((*theirs, *pass_fds)))
        self._process: BaseProcess = context.Process(target=_run, args=arguments)
        self._process.start()
        for descriptor in theirs:
            os.close(descriptor)

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code; negative for the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[Any, None]:
        """Return its output, the one stream of it that may be a pipe, once it has ended.

        Raises:
            TimeoutExpired: it has not ended; a further call returns its whole output.
        """
        # A run marks the package's modules before they are loaded: their asserts are rewritten.
        from pytest_kwait.clock import SYSTEM_CLOCK

        if self.stdin is not None:
            self.stdin.close()
        assert self.stdout is not None
        assert self.stderr is None
        deadline = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
        while not self.stdout.closed:
            left = None if deadline is None else max(deadline - SYSTEM_CLOCK.monotonic(), 0.0)
            if not select.select([self.stdout], [], [], left)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            part = os.read(self.stdout.fileno(), 65536)
            self._output += part
            if not part:
                self.stdout.close()
        self.wait(timeout)
        return self._output.decode() if self._text else bytes(self._output), None

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()


class _Start(NamedTuple):
    """What a process starts with."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    new_session: bool
    process_group: int
    ignores_interrupts: bool
    numbers: tuple[int, ...]


class _Descriptors:
    """Descriptors that are handed to a process with its arguments."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._descriptors = descriptors

    def __reduce__(self) -> tuple[Callable[..., list[int]], tuple[Any, ...]]:
        return _detach, tuple(reduction.DupFd(each) for each in self._descriptors)


def _detach(*descriptors: Any) -> list[int]:
    return [each.detach() for each in descriptors]


FORKING = types.SimpleNamespace(**{**vars(subprocess), "Popen": ForkedPython})
"""The module `subprocess`, whose processes are forks."""


def fork_processes(patch: pytest.MonkeyPatch) -> None:
    """Have inner runs, their pytest-xdist workers and their embedded clusters forked."""
    # Here for the same reason as in `communicate`.
    from pytest_kwait.clusters import simulator_process

    patch.setattr(pytester, "subprocess", FORKING)
    patch.setattr(gateway_base.ThreadExecModel, "subprocess", FORKING)
    patch.setattr(simulator_process, "subprocess", FORKING)


def _our_end(
    stream: int | IO[Any] | None, number: int, theirs: list[int]
) -> io.BufferedIOBase | None:
    """Append the process's end of a stream; return ours where it is a pipe."""
    if stream == subprocess.PIPE:
        read, write = os.pipe()
        theirs.append(read if number == 0 else write)
        return open(write, "wb") if number == 0 else open(read, "rb")  # noqa: PTH123
    if stream == subprocess.DEVNULL:
        theirs.append(os.open(os.devnull, os.O_RDWR))
    elif stream is None:
        theirs.append(os.dup(number))
    else:
        theirs.append(os.dup(stream if isinstance(stream, int) else stream.fileno()))
    return None


@functools.cache
def _fork_server() -> ForkServerContext:
    """Start the process that all are forked from; it ends with the last that uses it."""
    context = multiprocessing.get_context("forkserver")
    server: Any = forkserver._forkserver
    if server._forkserver_address is not None and server._forkserver_pid is None:
        # This is one of its forks: multiprocessing would start another one here.
        server.ensure_running = lambda: None
        return context
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(_ROOT)
        # First the package that this process has: an installed one, or this folder's.
        package = importlib.util.find_spec("pytest_kwait")
        assert package is not None
        assert package.origin is not None
        patch.setenv("PYTHONPATH", f"{Path(package.origin).parents[1]}{os.pathsep}{_ROOT}")
        patch.setenv("PYTHONSAFEPATH", "1")
        patch.setenv("ROOM", " " * _ENVIRONMENT_SIZE)  # as `_show_environment` needs
        context.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
    return context


def stop_fork_server() -> None:
    """End the process that all are forked from, once all of them have ended."""
    if _fork_server.cache_info().currsize:
        forkserver._forkserver._stop()  # type: ignore[attr-defined] # as multiprocessing's own tests
        tracker: Any = resource_tracker._resource_tracker  # It started with the server.
        if tracker._pid is not None:  # A fork has that of its parent.
            tracker._stop()
        _fork_server.cache_clear()


def _run(start: _Start, descriptors: list[int]) -> NoReturn:
    """Run a command of Python in this process, as a new interpreter would."""
    # First where none of the numbers is that are asked for.
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _UNUSED) for each in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for number, descriptor in zip(start.numbers, moved, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(start.environment)
    tempfile.tempdir = None  # The process that this is a fork of has looked it up.
    os.chdir(start.folder)
    _show_environment(start.environment)
    if start.new_session:
        os.setsid()
    else:
        # One of another session cannot be joined.
        with contextlib.suppress(PermissionError):
            os.setpgid(0, start.process_group)
    handler = signal.SIG_IGN if start.ignores_interrupts else signal.default_int_handler
    signal.signal(signal.SIGINT, handler)
    for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        number = ("stdin", "stdout", "stderr").index(stream)
        made = open(number, mode, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        setattr(sys, stream, made)
        setattr(sys, f"__{stream}__", made)
    code = 1
    try:
        _run_command(start.command, start.environment)
        code = 0
    except SystemExit as exit_:
        code = _exit_code(exit_)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
    sys.exit(code)


def _show_environment(environment: Mapping[str, str]) -> None:
    """Have the system show the environment as this process's: processes are found by it.

    It shows the memory in which the fork server was given its own.

    Raises:
        ValueError: there is no room for it.
    """
    stat = Path("/proc/self/stat")
    if not stat.exists():
        return
    start, end = map(int, stat.read_text().rpartition(")")[2].split()[_ENVIRONMENT_BOUNDS])
    text = b"".join(os.fsencode(f"{name}={value}\0") for name, value in environment.items())
    if len(text) > end - start:
        raise ValueError(f"an environment of {len(text)} bytes, and room for {end - start}")
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))


def _run_command(command: Sequence[str], environment: Mapping[str, str]) -> None:
    flags, kind, text, arguments = _parse(command)
    path = environment.get("PYTHONPATH", "")
    added = [each for each in path.split(os.pathsep) if each]
    if "-P" not in flags and not environment.get("PYTHONSAFEPATH"):
        added.insert(0, "" if kind == "-c" else str(Path.cwd()))
    sys.path[:0] = [each for each in added if each not in sys.path or not each]
    sys.dont_write_bytecode = "-B" in flags or bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    if kind == "-m":
        sys.argv = [text, *arguments]
        runpy.run_module(text, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *arguments]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(text, "<string>", "exec"), vars(main))


def _parse(command: Sequence[str]) -> tuple[set[str], str, str, list[str]]:
    flags = set()
    arguments = list(command[1:])
    while (flag := arguments.pop(0)) in ("-u", "-B", "-P"):
        flags.add(flag)
    kind, text = flag[:2], flag[2:] or arguments.pop(0)
    if kind not in ("-c", "-m"):
        raise ValueError(f"not a command of Python with a module or code: {command}")
    return flags, kind, text, arguments


def _exit_code(exit_: SystemExit) -> int:
    if isinstance(exit_.code, str):
        sys.stderr.write(f"{exit_.code}\n")
        return 1
    return int(exit_.code or 0)

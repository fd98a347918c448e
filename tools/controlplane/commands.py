"""The commands that start, inspect and stop clusters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tools.controlplane import assets, node
from tools.controlplane.cluster import (
    FOLDER_VARIABLE,
    Cluster,
    Folder,
    State,
    default_folder,
    new_folder,
)
from tools.controlplane.errors import FAILED, NOT_RUNNING, BrokenError, UnavailableError
from tools.controlplane.processes import end_with_parent, environment

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import FrameType

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PATIENCE = 30.0


def run_one(options: argparse.Namespace) -> int:
    """Run the command that the options name and return the exit code."""
    try:
        with _signals():
            return _COMMANDS[options.command](options)
    except _Stopped as stopped:
        return 128 + stopped.number


class _Stopped(BaseException):
    """A signal that ends this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _signals() -> Iterator[None]:
    def stop(number: int, _: FrameType | None) -> NoReturn:
        _ignore_signals()
        raise _Stopped(number)

    before = {number: signal.signal(number, stop) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in _STOPPING:
        # SIG_IGN would report a signal that has arrived but was not handled yet.
        signal.signal(number, lambda *_: None)


def _print_status(text: str) -> None:
    print(f"controlplane: {text}", file=sys.stderr, flush=True)


def _prepare(options: argparse.Namespace) -> tuple[Path, node.Machine | None]:
    machine = node.prepare() if options.nodes else None
    return assets.build(), machine


def _up(options: argparse.Namespace) -> int:
    folder = options.dir or default_folder()
    if _running(folder):
        _print_status(f"a cluster runs in {folder} already")
        return _status(options)
    _prepare(options)
    command = [sys.executable, "-m", __package__, "serve", f"--dir={folder.absolute()}"]
    command += [f"--nodes={options.nodes}", "--detach"]
    if options.kubeconfig:
        command.append(f"--kubeconfig={options.kubeconfig.absolute()}")
    server = subprocess.Popen(
        command,
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert server.stderr is not None
    try:
        # It ends when the server has ended, or has switched to its log when the cluster is ready.
        with server.stderr as told:
            for line in told:
                print(line, end="", file=sys.stderr, flush=True)
    except _Stopped:
        server.terminate()
        server.wait()
        raise
    if _running(folder):
        server.returncode = 0  # it keeps running, which is no leak to warn of
        return _status(options)
    code = server.wait()
    return code if code > 0 else FAILED


def _serve(options: argparse.Namespace) -> int:
    programs, machine = _prepare(options)
    folder = Folder(options.dir or default_folder())
    cluster = Cluster(folder, programs, machine, options.nodes, options.kubeconfig)
    try:
        cluster.start(_print_status)
        _print_status(f"ready: {cluster.state.kubeconfig}")
        if options.detach:
            with (folder.path / "logs" / "supervisor.log").open("a") as log:
                os.dup2(log.fileno(), sys.stderr.fileno())
        cluster.watch(lambda: False)
    finally:
        _ignore_signals()
        cluster.stop()
        folder.release()
    return 0


def _down(options: argparse.Namespace) -> int:
    path = options.dir or default_folder()
    state = State.read(path)
    if state is None:
        _print_status(f"no cluster runs in {path}")
        return 0
    if not state.supervisor.end(signal.SIGTERM, _PATIENCE):
        state.supervisor.end()
    folder = Folder(path)
    folder.end()
    folder.release()
    return 0


def _running(folder: Path) -> bool:
    state = State.read(folder)
    return state is not None and state.ready and state.supervisor.alive()


def _status(options: argparse.Namespace) -> int:
    folder = options.dir or default_folder()
    state = State.read(folder)
    if state is None or not state.supervisor.alive():
        print(f"no cluster runs in {folder}")
        return NOT_RUNNING
    print(f"supervisor: {state.supervisor.pid}, {'ready' if state.ready else 'starting'}")
    for name, found in state.processes.items():
        pids = " ".join(str(each.pid) for each in found if each.alive())
        print(f"{name}: {pids or 'not running'}")
    print(f"nodes: {' '.join(state.nodes) or 'none'}")
    print(f"KWAIT_KUBECONFIG={state.kubeconfig}")
    print(f"KUBEBUILDER_ASSETS={state.assets}")
    return 0 if state.ready else NOT_RUNNING


def _run(options: argparse.Namespace) -> int:
    programs, machine = _prepare(options)
    folder = new_folder()
    cluster = Cluster(folder, programs, machine, options.nodes, options.kubeconfig)
    end = folder.discard
    try:
        cluster.start(_print_status)
        return _command(options.argv, cluster)
    except BrokenError:
        end = folder.release  # the message points to the logs there; the next run clears them
        raise
    finally:
        _ignore_signals()
        cluster.stop()
        end()


def _command(command: list[str], cluster: Cluster) -> int:
    variables = {
        **os.environ,
        "KWAIT_KUBECONFIG": cluster.state.kubeconfig,
        "KUBEBUILDER_ASSETS": cluster.state.assets,
        FOLDER_VARIABLE: str(cluster.path),
    }
    # A terminal sends its interrupt to the whole group; only then the command stays in ours.
    own = not os.isatty(0)
    try:
        process = subprocess.Popen(
            command,
            env=variables,
            process_group=0 if own else None,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
    except OSError as error:
        raise UnavailableError(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        cluster.watch(lambda: process.poll() is not None)
    except _Stopped as stopped:
        if own:
            os.killpg(process.pid, stopped.number)
        elif stopped.number != signal.SIGINT:
            process.send_signal(stopped.number)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    code = process.wait()
    return code if code >= 0 else 128 - code


_COMMANDS = {"up": _up, "serve": _serve, "down": _down, "status": _status, "run": _run}

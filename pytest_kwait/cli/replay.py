"""`kwait replay`: serve a recording read-only, print its timeline, or run a wait on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.cli import print_text
from pytest_kwait.cli.state_file import parse_path
from pytest_kwait.errors import ClusterError, InvalidArgument, KwaitError

if TYPE_CHECKING:
    import argparse

    from pytest_kwait.simulator.protocol.recording.files import Recording

_MAX_SPEED = 1000.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a recording.jsonl.gz; of a killed run, the folder history-RUN of its artifacts or "
        "a journal in it",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--timeline", action="store_true", help="print what changed when, and serve nothing"
    )
    action.add_argument(
        "--play",
        action="store_true",
        help="play the recording from --at, or from its start, to its end",
    )
    action.add_argument(
        "--wait",
        metavar="CALL",
        help="run a wait on the recording in virtual time, from --at or from its start, and print "
        "its verdicts, for example 'wait_for_pod_ready(\"web\", grace=120)'",
    )
    parser.add_argument(
        "--at",
        metavar="TIME",
        help="the time to show, as 12.3s since the start of the test, or `failure` (default: "
        "the failure, else the end)",
    )
    parser.add_argument(
        "--speed",
        metavar="X",
        type=float,
        default=1.0,
        help="recorded seconds per second, with --play (default: 1)",
    )
    parser.add_argument(
        "--port", metavar="P", type=int, default=0, help="port (default: any free port)"
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=parse_path,
        help="kubeconfig to write, removed at the end (default: in a temporary folder)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve the recording until Ctrl-C, print its timeline, or run a wait on it."""
    if not 0 < arguments.speed <= _MAX_SPEED:
        valid = f"a number above 0, at most {_MAX_SPEED:g}"
        raise InvalidArgument("--speed", arguments.speed, valid)
    if not 0 <= arguments.port <= 65535:
        raise InvalidArgument("--port", arguments.port, "a number from 0 to 65535")
    # Imports for JSON are expensive; other commands do without them.
    from pytest_kwait.simulator.protocol.recording.files import read_recording

    recording = read_recording(arguments.file)
    at = None if arguments.at is None else recording.parse_time(arguments.at, "--at")
    if arguments.timeline:
        from pytest_kwait.simulator.protocol.recording.timeline import format_timeline

        for line in format_timeline(recording, recording.end if at is None else at):
            print_text(line)
        return 0
    if arguments.wait is not None:
        from pytest_kwait.suite.replayed_wait import parse_wait, run_wait

        is_met, lines = run_wait(recording, parse_wait(arguments.wait, "--wait"), at or 0.0)
        print_text("\n".join(lines))
        return 0 if is_met else 1
    if at is None and not arguments.play:
        at = recording.end if recording.failure is None else recording.failure
    return _serve(recording, at or 0.0, arguments)


def _serve(recording: Recording, at: float, arguments: argparse.Namespace) -> int:
    from pytest_kwait.temp_dir import TempDir

    folder: TempDir | None = None
    kubeconfig: Path | None = arguments.kubeconfig
    if kubeconfig is None:
        folder = TempDir("replay-")
        kubeconfig = folder.path / "kubeconfig"
    elif kubeconfig.exists():
        why = "it exists; name another file"
        raise InvalidArgument("--kubeconfig", str(kubeconfig), why)
    kubeconfig = kubeconfig.absolute()
    try:
        asyncio.run(_serve_until_end(recording, at, kubeconfig, arguments))
    finally:
        # What cannot be removed was not written.
        with contextlib.suppress(OSError):
            kubeconfig.unlink()
        if folder is not None:
            folder.remove()
    return 0


async def _serve_until_end(
    recording: Recording, at: float, kubeconfig: Path, arguments: argparse.Namespace
) -> None:
    # Imports of the server are expensive; a timeline does without them.
    from pytest_kwait.apimachinery.times import format_duration
    from pytest_kwait.simulator import replay_recording
    from pytest_kwait.simulator.protocol.recording.files import find_times

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    recorded, server = replay_recording(recording)
    recorded.advance(at)
    try:
        await server.start(kubeconfig, arguments.port)
    except OSError as error:
        await server.stop()
        reason = error.strerror or os.strerror(error.errno or 0)
        raise ClusterError(f"the recording cannot be served: {reason}") from None
    position_text = format_duration(round(at, 3))
    how = f"played from {position_text} on" if arguments.play else f"shown at {position_text}"
    print_text(
        f"{recorded.description} ({find_times(recording)}), {how}, read-only; to end it: Ctrl-C",
        sys.stderr,
    )
    print(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}", flush=True)

    async def play() -> None:
        try:
            await recorded.play(arguments.speed)
        except KwaitError:
            ended.set()
            raise

    playing = loop.create_task(play()) if arguments.play else None
    try:
        await ended.wait()
        if playing is not None and playing.done():
            playing.result()
    finally:
        if playing is not None:
            playing.cancel()
        await server.stop()

"""The program `kwait-scheduler`.

Source: cmd/kube-scheduler.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from pytest_kwait.errors import KwaitError
from pytest_kwait.scheduler.command.effective_configuration import (
    format_yaml,
    load_configuration,
    write_configuration,
)
from pytest_kwait.scheduler.command.feature_gates import FeatureGates
from pytest_kwait.scheduler.command.flags import PROGRAM, help_text, parse_flags
from pytest_kwait.scheduler.command.logs import capture_logs
from pytest_kwait.scheduler.command.termination import exit_at_once, stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.scheduler.command.flags import Flags

__all__ = ["main", "run"]

_log = logging.getLogger("pytest_kwait.scheduler")
_CONFIGURATION_VERBOSITY = 2


def main() -> NoReturn:
    """Run the program with the process' arguments, and end the process with its status."""
    stop = threading.Event()
    stop_on_signals(stop)
    status = 1
    try:
        status = run(sys.argv[1:], stop)
    finally:
        # Not by returning: that would wait for threads that wait for the network.
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        exit_at_once(status)


def run(argv: Sequence[str], stop: threading.Event) -> int:
    """Run the program and return its exit status: 0, or 1 with one line on stderr that says why.

    Args:
        argv: the arguments without the program's name.
        stop: ends it in good order.
    """
    try:
        flags = parse_flags(argv)
        if flags.help:
            click.echo(help_text(), nl=False)
            return 0
        version = metadata.version("pytest-kwait")
        if flags.version:
            click.echo(f"{PROGRAM} {version}")
            return 0
        with capture_logs(flags.v):
            _run(flags, stop, version)
    except KwaitError as error:
        click.echo(f"Error: {' '.join(str(error).split())}", err=True)
        return 1
    return 0


def _run(flags: Flags, stop: threading.Event, version: str) -> None:
    gates = FeatureGates.parse(flags.feature_gates)
    configuration = load_configuration(flags)
    if flags.v >= _CONFIGURATION_VERBOSITY:
        _log.info("Using component config:\n%s", format_yaml(configuration))
    if flags.write_config_to:
        write_configuration(configuration, Path(flags.write_config_to))
        _log.info("Wrote configuration to %s", flags.write_config_to)
        return
    # The client alone takes a second to import: not for who asks for the help, or errs.
    from pytest_kwait.scheduler.command.program import SchedulerProgram

    program = SchedulerProgram(flags, configuration, gates)
    _log.info("Starting %s %s", PROGRAM, version)
    program.run(stop)


if __name__ == "__main__":
    main()

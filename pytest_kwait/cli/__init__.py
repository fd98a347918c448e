"""The program `kwait`: one module per command.

Contents: parsing of arguments, output, exit status; all work is done by the layers below.
Exit status 0 is success, 1 failure, 2 invalid arguments.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol, TextIO, cast

from pytest_kwait.engine.failure.shortening import escape_control_characters
from pytest_kwait.errors import InvalidArgument, KwaitError

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = {
    "up": "start an embedded cluster",
    "down": "end a cluster that `kwait up` has started",
    "shards": "run a suite in shards on a cluster",
    "janitor": "remove what dead runs have left in a cluster, and what was kept and has expired",
    "report": "x",
    "replay": "show a recorded test, read-only, to kubectl and waits",
}


class CommandModule(Protocol):
    """The functions of a command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command and return the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status.

    Args:
        argv: the arguments without the program's name; those of the process by default.
    """
    parser = _Parser(prog="kwait", description="Clusters for Kubernetes end-to-end tests.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    modules = {}
    for name, help_text in _COMMANDS.items():
        modules[name] = cast("CommandModule", import_module(f"pytest_kwait.cli.{name}"))
        sub = commands.add_parser(name, help=help_text, description=f"{help_text.capitalize()}.")
        modules[name].add_arguments(sub)
    arguments = parser.parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal may lack characters of an output.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = modules[arguments.command].run(arguments)
        if sys.stdout is not None:  # nothing is printed if it is closed
            sys.stdout.flush()
        return status
    except OSError as error:
        # Not if the reader of the output has ended, as `head` does.
        if not isinstance(error, BrokenPipeError):
            print(f"kwait {arguments.command}: {error}", file=sys.stderr)
        # What is left of the output is written at the exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KwaitError as error:
        print_text(f"kwait {arguments.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1


def print_text(text: str, file: TextIO | None = None) -> None:
    """Print a text of a cluster or a file, which may have sequences that control a terminal."""
    print(escape_control_characters(text), file=file)


class _Parser(argparse.ArgumentParser):
    """Reports invalid arguments in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")

"""Command line: ``python -m tools.controlplane up|down|build|status|run``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane import assets
from tools.controlplane.errors import (
    FAILED,
    NOT_RUNNING,
    UNAVAILABLE,
    BrokenError,
    UnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_CODES = f"""\
exit codes: 0 done, {FAILED} the cluster did not come up, 2 wrong use, {NOT_RUNNING} status: not
running, {UNAVAILABLE} this machine lacks something (Linux, Go {assets.GO}, root, packages) or the
folder is in use, and for run that of the command"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "run":
        # Some versions of argparse leave the dashes in.
        options.argv = options.argv[options.argv[:1] == ["--"] :]
        if not options.argv:
            parser.error("run needs a command: run -- CMD ...")
    try:
        if not sys.platform.startswith("linux"):
            raise UnavailableError(f"a real control plane needs Linux, and this is {sys.platform}")
        if options.command == "build":
            print(assets.build())
            return 0
        return _run(options)
    except UnavailableError as missing:
        print(f"controlplane: {missing}", file=sys.stderr)
        return UNAVAILABLE
    except (BrokenError, OSError) as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    try:
        from tools.controlplane import commands
    except ModuleNotFoundError as missing:
        raise UnavailableError(
            f"to run a control plane takes {missing.name}: {sys.executable} -m pip install"
            f" {missing.name}"
        ) from None
    return commands.run_one(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.controlplane",
        description="A real Kubernetes, built from pinned Go modules, for this project's checks.",
        epilog=_CODES,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the programs and print their folder")

    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument(
        "--dir", type=Path, help="the folder of the cluster (default: one in the user's cache)"
    )
    start = argparse.ArgumentParser(add_help=False)
    start.add_argument("--kubeconfig", type=Path, help="write the kubeconfig to this file as well")
    nodes = start.add_mutually_exclusive_group()
    nodes.add_argument("--nodes", type=_nodes, default=1, help="how many real nodes (default: 1)")
    nodes.add_argument(
        "--no-node",
        dest="nodes",
        action="store_const",
        const=0,
        help="only the control plane: needs no root, and no pod ever runs",
    )
    commands.add_parser("up", parents=[folder, start], help="start a cluster and leave it running")
    serve = commands.add_parser("serve", parents=[folder, start], help="run one until a signal")
    serve.add_argument("--detach", action="store_true", help=argparse.SUPPRESS)
    commands.add_parser("down", parents=[folder], help="end the cluster that up has started")
    commands.add_parser("status", parents=[folder], help="tell what runs and where")
    run = commands.add_parser(
        "run",
        parents=[start],
        help="run a command with KWAIT_KUBECONFIG and KUBEBUILDER_ASSETS set to a new cluster",
    )
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD ...")
    return parser


def _nodes(text: str) -> int:
    if text.isdigit() and int(text) <= 8:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 8")


if __name__ == "__main__":
    sys.exit(main())

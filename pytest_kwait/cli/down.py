"""`kwait down`: stop a cluster that `kwait up` has started."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pytest_kwait.cli.state_file import StateFile, add_kubeconfig_argument
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.errors import ClusterError, InvalidArgument
from pytest_kwait.wait import ErrWaitTimeout

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_kubeconfig_argument(parser, "kubeconfig of the cluster to end")


def run(arguments: argparse.Namespace) -> int:
    """Stop the recorded process, and remove its files."""
    running = StateFile(arguments.kubeconfig.absolute())
    process = running.process()
    if process is None:
        raise InvalidArgument(
            "--kubeconfig", str(running.kubeconfig), "no cluster of `kwait up` runs with it"
        )
    if process.alive and not running.is_cluster(process):
        raise ClusterError(
            f"process {process.pid}, which {running.state} names, is no cluster of this user with "
            "this kubeconfig: remove the file if no cluster runs with it"
        )
    try:
        ended = process.end(SYSTEM_CLOCK)
    except PermissionError:
        raise ClusterError(f"process {process.pid} belongs to another user") from None
    except ErrWaitTimeout:
        raise ClusterError(f"process {process.pid} does not end") from None
    running.remove()
    if not ended:
        print("the cluster had ended already; its files are removed", file=sys.stderr)
    return 0

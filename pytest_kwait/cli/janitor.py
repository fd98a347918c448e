"""`kwait janitor`: remove objects of dead runs from a cluster, and their folders from here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.cli import print_text
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    import argparse

    from pytest_kwait.suite.cleanup.janitor import SweepResult

_TIMEOUT = "5m"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="kubeconfig of the cluster (default: KUBECONFIG, ~/.kube/config, in-cluster)",
    )
    parser.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig (default: its current one)"
    )
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        default="default",
        help="namespace of run Leases if not all namespaces may be listed (default: default)",
    )
    parser.add_argument("--run-id", metavar="ID", help="check this run only (default: all runs)")
    parser.add_argument(
        "--kept",
        action="store_true",
        help="also remove kept objects (--kwait-keep) of that run before they expire",
    )
    parser.add_argument(
        "--environments",
        action="store_true",
        help="remove environments that stay, unless a run uses them, and no objects of runs",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list the objects that would be removed; change nothing",
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="do not watch undecided Leases, nor wait for the deletions",
    )
    parser.add_argument(
        "--all-kinds",
        action="store_true",
        help="list every kind of the server, not only those in the Leases of dead runs",
    )
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        default=_TIMEOUT,
        help=f"limit of the whole sweep (default: {_TIMEOUT})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Sweep once; status 1 if anything remains that should be deleted."""
    seconds = to_seconds(arguments.timeout, what="--timeout", allow_zero=False)
    _check_name("--namespace", arguments.namespace)
    if arguments.run_id is not None:
        _check_name("--run-id", arguments.run_id)
    elif arguments.kept:
        raise InvalidArgument(
            "--kept", True, "give --run-id ID as well: what others have kept is theirs to remove"
        )
    if arguments.environments and arguments.run_id is not None:
        raise InvalidArgument(
            "--environments", True, "leave out --run-id: an environment that stays is of no run"
        )
    _remove_folders(dry_run=arguments.dry_run)
    # Imports of the client are expensive; other commands do without them.
    from pytest_kwait.clusters.cluster import ClusterRequest
    from pytest_kwait.clusters.provider import choose_provider
    from pytest_kwait.suite.cleanup.janitor import Janitor
    from pytest_kwait.suite.cleanup.owned_objects import ENVIRONMENTS_RUN

    cluster = choose_provider(
        "existing",
        ClusterRequest(
            None if arguments.kubeconfig is None else Path(arguments.kubeconfig),
            arguments.context,
            sources={"kubeconfig": "option --kubeconfig", "context": "option --context"},
        ),
    ).start()
    try:
        client = cluster.client()
        deadline = Deadline.after(seconds, SYSTEM_CLOCK)
        janitor = Janitor(
            client,
            namespace=arguments.namespace,
            run=ENVIRONMENTS_RUN if arguments.environments else arguments.run_id,
            dry_run=arguments.dry_run,
            kept=arguments.kept,
            environments=arguments.environments,
            report=_print_line,
        )
        try:
            sweep = janitor.sweep(
                deadline, watch=not arguments.no_wait, all_kinds=arguments.all_kinds
            )
            if not (arguments.dry_run or arguments.no_wait):
                janitor.wait(sweep, deadline)
        except (ApiError, DeadlineExceeded) as error:
            raise ClusterError(f"the cluster could not be swept: {error}") from error
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here
    finally:
        cluster.stop()
    return _print_result(sweep)


def _remove_folders(*, dry_run: bool) -> None:
    """Remove the private folders of dead processes of this user on this machine."""
    from pytest_kwait.temp_dir import abandoned_folders, remove_folder

    for folder in abandoned_folders():
        if not dry_run:
            remove_folder(folder)
        print(f"{'would delete' if dry_run else 'deleted'} {folder} (folder of a killed run)")


def _print_result(sweep: SweepResult) -> int:
    for line in sweep.lines():
        print_text(line)
    return 0 if sweep.is_clean else 1


def _check_name(what: str, name: str) -> None:
    from pytest_kwait.suite.config.values import read_dns_label

    read_dns_label(name, what, None)


def _print_line(line: str) -> None:
    print_text(line, sys.stderr)

"""What `kwait up` has started and `kwait down` can end: noted in a file beside the kubeconfig."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from pytest_kwait.cli.process_identity import ProcessIdentity
from pytest_kwait.errors import ClusterError, InvalidArgument

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

__all__ = ["StateFile", "add_kubeconfig_argument", "default_kubeconfig"]


def default_kubeconfig(environ: Mapping[str, str]) -> Path:
    """Return the kubeconfig of the one cluster that needs no name, among the user's state files."""
    state = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "kwait" / "kubeconfig"


def add_kubeconfig_argument(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Let a command take the kubeconfig that its cluster is known by."""
    default = default_kubeconfig(os.environ)
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        default=default,
        help=f"{help_text} (default: {default})",
    )


@dataclass(frozen=True)
class StateFile:
    """The files that belong to a cluster started by hand.

    Args:
        kubeconfig: the file that clients use, and that the cluster is known by.
    """

    kubeconfig: Path

    @property
    def state(self) -> Path:
        """Which process it is."""
        return self.kubeconfig.with_name(self.kubeconfig.name + ".kwait.json")

    @property
    def log(self) -> Path:
        """What it says."""
        return self.kubeconfig.with_name(self.kubeconfig.name + ".log")

    def claim(self) -> None:
        """Take the kubeconfig for this process, until it notes the cluster's.

        Raises:
            ClusterError: a cluster is running there.
            InvalidArgument: the file belongs to somebody else.
        """
        other = self.process()
        if other is not None and other.alive:
            raise ClusterError(
                f"a cluster is running with kubeconfig {self.kubeconfig} (process {other.pid}); "
                f"end it with: kwait down --kubeconfig {quote(str(self.kubeconfig))}"
            )
        if other is not None:
            self.remove()
        if self.kubeconfig.exists():
            why = "it exists and is not of `kwait up`; name another file"
            raise InvalidArgument("--kubeconfig", str(self.kubeconfig), why)
        try:
            with self.state.open("x", encoding="utf-8") as file:
                file.write(self._text(os.getpid()))
        except FileExistsError:
            raise ClusterError(
                f"another `kwait up` is taking kubeconfig {self.kubeconfig} at this moment"
            ) from None
        except OSError as error:
            raise ClusterError(f"{self.state} cannot be written: {error.strerror}") from error

    def note(self, pid: int) -> None:
        """Note the cluster's process."""
        draft = self.state.with_name(self.state.name + ".new")
        draft.write_text(self._text(pid), encoding="utf-8")
        draft.replace(self.state)

    def process(self) -> ProcessIdentity | None:
        """Return the process that was noted, running or not; None if none was.

        Raises:
            ClusterError: the note cannot be read.
        """
        try:
            noted = json.loads(self.state.read_text(encoding="utf-8"))
            return ProcessIdentity(int(noted["pid"]), str(noted["started"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ClusterError(
                f"{self.state} is no note of `kwait up`: remove it if no cluster runs with it"
            ) from error

    def remove(self) -> None:
        """Remove all files of the cluster."""
        for path in (self.kubeconfig, self.log, self.state):
            path.unlink(missing_ok=True)

    def remove_of(self, pid: int) -> None:
        """Remove all files of the cluster, unless another process has taken its place."""
        noted = self.process()
        if noted is not None and noted.pid == pid:
            self.remove()

    def _text(self, pid: int) -> str:
        identity = ProcessIdentity.of(pid)
        started = "" if identity is None else identity.started
        return json.dumps({"pid": pid, "started": started}) + "\n"

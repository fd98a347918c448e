"""A recording as a read-only cluster, for those who start it: `pytest_kwait.simulator.replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.simulator.protocol.recording.files import Recording


class ReplayedCluster(Protocol):
    """The objects of a recording at one time, which only moves forward."""

    recording: Recording

    @property
    def position(self) -> float:
        """The time, in seconds since the start of the test."""
        ...

    @property
    def description(self) -> str:
        """The recording in a message."""
        ...

    def advance(self, position: float) -> None:
        """Apply the changes up to a time; nothing if that is over.

        Raises:
            ClusterError: an object lacks a field that the API server needs.
        """
        ...

    async def play(self, speed: float) -> None:
        """Move on to the end, by `speed` recorded seconds per second."""
        ...

    def serve_later_kinds(self) -> None:
        """Serve the kinds that are defined later, too."""
        ...


class ReplayedServer(Protocol):
    """A replayed cluster behind HTTPS, for one administrator."""

    async def start(self, kubeconfig: Path, port: int = 0) -> str:
        """Listen, write the kubeconfig and return the address.

        Raises:
            OSError: the port is taken, or the file cannot be written.
        """
        ...

    async def stop(self) -> None:
        """Close all connections."""
        ...

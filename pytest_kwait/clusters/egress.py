"""Egress of a cluster: hosts and ports outside of it that its pods may reach.

The client holds a connection: the cluster removes what it allowed when it is closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_kwait.clusters.faults import Fault, FaultClient, NotEmbeddedError
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.egress import parse_egress, read_egress_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.simulator.protocol.egress import EgressTarget

_MAX_SHOWN = 5


class Egress:
    """Allows egress of pods; `kwait_cluster.egress` in tests.

    Another cluster than an embedded one has a network of its own: what is allowed is ignored there,
    so that a suite runs unchanged.

    Args:
        server: the cluster's address, for messages.
    """

    def __init__(self, session: Callable[[], ApiSession], server: str) -> None:
        self._client = FaultClient(session, server)
        self.ignored: list[str] = []
        """The targets that the cluster does not use."""

    def allow(self, target: str) -> Fault:
        """Let programs in pods connect to a host outside of the cluster, by TCP.

        Args:
            target: `HOST:PORT` with a DNS name, an IPv4 address, or `localhost` for this machine,
                which is `host.kwait.internal` in pods.

        Returns:
            What ends it, by `undo()` or the end of its `with` block, before the run does.

        Raises:
            InvalidArgument: the target is invalid.
        """
        return self.add(parse_egress(target))

    def add(self, target: EgressTarget) -> Fault:
        """Allow a target; see `allow`."""
        try:
            return self._client.make({"kind": "egress", "egress": str(target)})
        except NotEmbeddedError:
            if str(target) not in self.ignored:
                self.ignored.append(str(target))
            return Fault(self._client, "")

    def close(self) -> None:
        """Allow nothing more for this process."""
        self._client.undo_all()


def read_egress_fixture(targets: object) -> list[EgressTarget]:
    """Return the targets that the fixture `kwait_egress` gives.

    Raises:
        InvalidArgument: it is no list, or a target is invalid.
    """
    fixture = "fixture kwait_egress"
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise InvalidArgument(fixture, targets, 'it returns a list, as ["pypi.org:443"]')
    return read_egress_list(targets, fixture)


def describe_ignored_egress(targets: Iterable[str], server: str) -> str:
    """Return the line of a run about egress that its cluster does not use."""
    names = sorted(set(targets))
    names_text = ", ".join(names[:_MAX_SHOWN]) + (", …" if len(names) > _MAX_SHOWN else "")
    return (
        f"allowed egress is not used ({names_text}): {server} is not an embedded cluster, its own "
        "network decides"
    )

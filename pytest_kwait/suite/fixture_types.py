"""The types of fixtures that are functions, except those of waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Unpack

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.named_objects import KubernetesObject
    from pytest_kwait.suite.election.candidates import Candidates
    from pytest_kwait.suite.kwait import Kwait


class KwaitFactory(Protocol):
    """The type of the fixture `kwait_factory`."""

    def __call__(
        self, name: str, cluster: str | Cluster | None = None
    ) -> AbstractContextManager[Kwait]:
        """Return a context manager that gives a `Kwait` of a further namespace.

        Args:
            name: what it is for; a part of the namespace's name.
            cluster: the name of a further cluster, or a cluster of a fixture; None for that of the
                run.

        Raises:
            InvalidArgument: no further cluster has this name.
            ClusterError: the cluster cannot be started or used.
        """


class LeaderElectionFactory(Protocol):
    """The type of the fixture `kwait_leader_election`."""

    def __call__(
        self,
        number: int = 3,
        *,
        namespace: str | None = None,
        lease: str = "kwait-leader-election",
        lease_duration: Duration = 3,
        renew_deadline: Duration = 2,
        retry_period: Duration = 0.5,
        release_on_cancel: bool = True,
    ) -> Candidates:
        """Return the candidates of an election, with the arguments of `Candidates`."""


class RollingUpdate(Protocol):
    """The type of the fixture `kwait_rolling_update`."""

    def __call__(
        self,
        target: str | KubernetesObject,
        update_period: Duration = 60.0,
        *,
        strict: bool = False,
        within: Duration | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]:
        """Delete the pods of a controller one by one; return their replacements."""

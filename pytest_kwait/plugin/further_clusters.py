"""Further clusters of a run: each with a client, namespaces, images and faults of its own."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.clusters.cluster import Cluster
from pytest_kwait.errors import ClusterError, InvalidArgument
from pytest_kwait.plugin.cluster import RunCluster
from pytest_kwait.plugin.namespaces import make_client, make_kwait, make_namespace, make_namespaces
from pytest_kwait.plugin.recording import RecordingWriter
from pytest_kwait.plugin.run import run_of
from pytest_kwait.plugin.timeout import running_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pytest
    from kubernetes.client import ApiClient

    from pytest_kwait.suite.cleanup.owned_objects import Owner
    from pytest_kwait.suite.kwait import Kwait
    from pytest_kwait.suite.namespaces.namespaces import Namespaces


class ClusterInUse(NamedTuple):
    """A cluster of this process, with its client and its namespaces."""

    cluster: Cluster
    client: ApiClient
    namespaces: Namespaces


class FurtherClusters:
    """The further clusters that tests of this process use, until the end of the session.

    Args:
        own: the run's own cluster.
        images: the value of the fixture `kwait_images`.
        egress: the value of the fixture `kwait_egress`.
        closing: ends their use.
    """

    def __init__(
        self,
        session: pytest.Session,
        own: ClusterInUse,
        images: Mapping[str, object],
        egress: Iterable[str],
        closing: ExitStack,
    ) -> None:
        self._session = session
        self._config = session.config
        self._own = own
        self._images = images
        self._egress = egress
        self._used: dict[int, ClusterInUse] = {}
        """By the identity of their cluster."""
        self._places: dict[int, list[Kwait]] = {}
        """The `Kwait` objects in use by the identity of their cluster, the last one innermost."""
        self._closing = closing

    @contextmanager
    def make_kwait(self, chosen: object, owner_of: Any) -> Iterator[Kwait]:
        """Yield a `Kwait` of a namespace of its own.

        Args:
            chosen: the name of a further cluster, a `Cluster`, or None for the run's own.
            owner_of: returns the owner of the namespace in a cluster.

        Raises:
            InvalidArgument: no further cluster has this name.
            ClusterError: the cluster cannot be started or used.
        """
        used = self._own if chosen is None else self._find(chosen)
        owner: Owner = owner_of(used.cluster)
        config, session = self._config, self._session
        title = chosen if isinstance(chosen, str) else ""
        with (
            make_namespace(config, session, owner, used.namespaces, used.cluster) as name,
            make_kwait(
                config,
                session,
                owner,
                name,
                used.cluster,
                used.client,
                used.namespaces,
                cluster_title=title,
            ) as kwait,
        ):
            places = self._places.setdefault(id(used.cluster), [])
            places.append(kwait)
            try:
                yield kwait
            finally:
                places.remove(kwait)

    def _find(self, chosen: object) -> ClusterInUse:
        cluster = self._find_cluster(chosen)
        if cluster is self._own.cluster:
            return self._own
        if id(cluster) not in self._used:
            self._used[id(cluster)] = self._prepare(cluster)
        return self._used[id(cluster)]

    def _find_cluster(self, chosen: object) -> Cluster:
        if isinstance(chosen, Cluster):
            return chosen
        if not isinstance(chosen, str) or not chosen:
            valid = "use the name of a further cluster, or a Cluster"
            raise InvalidArgument("cluster", chosen, valid)
        run = run_of(self._config)
        source = run.find_source(chosen)
        cluster = source.cluster()
        if run.settings.session_waits:
            item = running_item(self._config)
            if problem := source.problem(item.nodeid if item is not None else ""):
                raise ClusterError(problem)
        return cluster

    def _prepare(self, cluster: Cluster) -> ClusterInUse:
        run_cluster = run_of(self._config).get(RunCluster)
        places = self._places.setdefault(id(cluster), [])

        def place(_: pytest.Function) -> tuple[str, ApiClient | None]:
            return (places[-1].namespace, places[-1].client) if places else ("", None)

        run_cluster.bind_to_tests(cluster, place)
        enter = self._closing.enter_context
        if cluster.provider == "embedded":
            enter(run_cluster.mapped_images(cluster, self._images))
            enter(run_cluster.allowed_egress(cluster, self._egress))
        run = run_of(self._config)
        if (recorder := run.find(RecordingWriter)) is not None:
            recorder.record_further_cluster(cluster, run.name_of(cluster))
        client = enter(make_client(self._config, self._session, cluster))
        namespaces = enter(make_namespaces(self._config, cluster, client))
        return ClusterInUse(cluster, client, namespaces)

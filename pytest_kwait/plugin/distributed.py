"""One cluster for all workers of pytest-xdist: the controller owns it, workers ask for it.

The controller never collects tests, so it cannot know whether any of them needs a cluster: it
starts one when the first worker asks. Without pytest-xdist the process asks itself.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest

from pytest_kwait.errors import ClusterError, KwaitError
from pytest_kwait.plugin.settings import run_settings
from pytest_kwait.plugin.waits import WAIT_NAMES
from pytest_kwait.suite.settings import DEFAULT

if TYPE_CHECKING:
    import socket
    import threading

    from pytest_kwait.clusters.provider import Cluster, Provider
    from pytest_kwait.suite.settings import Settings

__all__ = ["ClusterDesk", "ClusterSource", "RemoteSource", "Run", "cluster_of", "run_of"]

run_key = pytest.StashKey["Run"]()
_desk_key = pytest.StashKey["ClusterDesk"]()

_LONGEST_SECRET = 128
_GREETING_TIMEOUT = 10.0
"""Seconds within which somebody who connects must say the secret."""


class ClusterSource(Protocol):
    """Where this process gets its cluster from."""

    def cluster(self) -> Cluster:
        """Return the cluster, started if need be; the same one each time."""
        ...

    def stop(self) -> None:
        """End a cluster that was started here."""
        ...


class Run:
    """What one run of pytest is known by in the cluster, and where its cluster comes from.

    Args:
        id: the run's name; the same in all workers.
        worker: this process among them; empty without pytest-xdist.
        source: where the cluster comes from.
    """

    def __init__(self, id: str, worker: str, source: ClusterSource) -> None:
        self.id = id
        self.worker = worker
        self.nonce = os.urandom(4).hex()
        self.source = source


class OwnedSource:
    """A cluster chosen by the settings, owned by this process, started when first asked for.

    Args:
        settings: the settings of the run.
    """

    def __init__(self, settings: Settings) -> None:
        import threading

        self._settings = settings
        self._lock = threading.Lock()
        self._provider: Provider | None = None
        self._cluster: Cluster | None = None
        self._failure: KwaitError | None = None

    def provider(self) -> Provider:
        """Return where the cluster will come from; nothing is started.

        Raises:
            InvalidArgument: the settings contradict each other.
            ClusterError: the kubeconfig or context that was given cannot be used.
        """
        if self._provider is None:
            from pytest_kwait.clusters.provider import choose

            settings = self._settings
            self._provider = choose(
                settings.cluster,
                kubeconfig=settings.kubeconfig,
                context=settings.context,
                cluster_source=settings.source("cluster"),
                kubeconfig_source=settings.source("kubeconfig"),
                context_source=settings.source("context"),
            )
        return self._provider

    def cluster(self) -> Cluster:
        """Return the cluster; a start that failed is not tried again."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._cluster is None:
                try:
                    self._cluster = self.provider().start()
                except KwaitError as error:
                    self._failure = error
                    raise
            return self._cluster

    def stop(self) -> None:
        """End the cluster; does nothing if it was never asked for."""
        with self._lock:
            cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()


class RemoteSource:
    """The controller's cluster, asked for over a loopback connection.

    Args:
        port: where the controller listens.
        secret: what it wants to hear.
    """

    def __init__(self, port: int, secret: str) -> None:
        self._port = port
        self._secret = secret
        self._cluster: Cluster | None = None

    def cluster(self) -> Cluster:
        """Return the cluster; waits until the controller has started it."""
        if self._cluster is None:
            from pytest_kwait.clusters.provider import connect

            answer = self._ask()
            self._cluster = connect(**answer)
        return self._cluster

    def stop(self) -> None:
        """Leave the cluster to the controller."""

    def _ask(self) -> dict[str, Any]:
        import socket

        try:
            with socket.create_connection(("127.0.0.1", self._port)) as connection:
                connection.sendall(self._secret.encode() + b"\n")
                with connection.makefile("rb") as stream:
                    line = stream.readline()
        except OSError as error:
            raise ClusterError(
                f"the pytest-xdist controller could not be asked for its cluster: {error}; workers "
                "on other machines cannot share it"
            ) from error
        if not line:
            raise ClusterError("the pytest-xdist controller ended before it gave its cluster")
        answer = cast("dict[str, Any]", json.loads(line))
        if "error" in answer:
            raise ClusterError(answer["error"])
        return answer


class ClusterDesk:
    """The controller's side: answers each worker that knows the secret with the one cluster.

    Args:
        source: the cluster.
    """

    def __init__(self, source: ClusterSource) -> None:
        import socket
        import threading

        self._source = source
        self.secret = os.urandom(16).hex()
        self._listener: socket.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._closing = False
        self._thread: threading.Thread = threading.Thread(
            target=self._serve, name="kwait cluster desk", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more."""
        import socket

        self._closing = True
        # A closed socket does not wake a thread that accepts on it; a visitor does.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        self._thread.join(timeout=1.0)
        self._listener.close()

    def _serve(self) -> None:
        import threading

        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._closing:
                connection.close()
                return
            threading.Thread(
                target=self._answer, args=(connection,), name="kwait cluster visitor", daemon=True
            ).start()

    def _answer(self, connection: socket.socket) -> None:
        import hmac

        with connection:
            try:
                connection.settimeout(_GREETING_TIMEOUT)
                with connection.makefile("rb") as stream:
                    said = stream.readline(_LONGEST_SECRET).strip()
                if hmac.compare_digest(said, self.secret.encode()):
                    connection.settimeout(None)
                    connection.sendall(json.dumps(self._card()).encode() + b"\n")
            except OSError:
                # The worker is gone; it will not miss the answer.
                return

    def _card(self) -> dict[str, Any]:
        try:
            cluster = self._source.cluster()
        except KwaitError as error:
            return {"error": str(error)}
        return {
            "provider": cluster.provider,
            "kubeconfig": str(cluster.kubeconfig),
            "context": cluster.context,
            "time_scale": cluster.time_scale,
        }


def pytest_configure(config: pytest.Config) -> None:
    """Know the run and where its cluster will come from; nothing is started."""
    settings = run_settings(config)
    handed: dict[str, Any] | None = getattr(config, "workerinput", {}).get("kwait")
    if handed is not None:
        source: ClusterSource = RemoteSource(handed["port"], handed["secret"])
        config.stash[run_key] = Run(handed["run"], config.workerinput["workerid"], source)  # type: ignore[attr-defined] # pytest-xdist's own way to hand things to a worker
        return
    name = settings.run_id or os.urandom(3).hex()
    config.stash[run_key] = Run(name, "", OwnedSource(settings))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the run and where to ask for the cluster."""
    config: pytest.Config = node.config
    run = run_of(config)
    if _desk_key not in config.stash:
        config.stash[_desk_key] = ClusterDesk(run.source)
    desk = config.stash[_desk_key]
    node.workerinput["kwait"] = {"run": run.id, "port": desk.port, "secret": desk.secret}


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """End the run if the cluster it names cannot be meant, before any test or worker is started."""
    source = run_of(session.config).source
    if isinstance(source, OwnedSource) and _names_cluster(session.config):
        try:
            source.provider()
        except KwaitError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_collection_finish(session: pytest.Session) -> None:
    """End the run if the cluster it names does not answer, unless no test would use it.

    Under pytest-xdist each test says so: the controller does not know the tests, and a worker
    cannot end the run.
    """
    config = session.config
    source = run_of(config).source
    if (
        isinstance(source, OwnedSource)
        and not config.getoption("collectonly")
        and _names_cluster(config)
        and source.provider().name == "existing"
        and any(_uses_cluster(item) for item in session.items)
    ):
        try:
            source.cluster()
        except KwaitError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the cluster that was started for the run, after the last worker has ended."""
    if _desk_key in config.stash:
        config.stash[_desk_key].close()
    if run_key in config.stash:
        config.stash[run_key].source.stop()


def run_of(config: pytest.Config) -> Run:
    """Return the run that this process takes part in."""
    return config.stash[run_key]


def cluster_of(config: pytest.Config) -> Cluster:
    """Return the cluster of the run, started if need be."""
    return run_of(config).source.cluster()


def _names_cluster(config: pytest.Config) -> bool:
    settings = run_settings(config)
    return any(settings.source(name) != DEFAULT for name in ("cluster", "kubeconfig", "context"))


def _uses_cluster(item: pytest.Item) -> bool:
    names = {*getattr(item, "fixturenames", ()), *(mark.name for mark in item.iter_markers())}
    ours = {"kwait", "kwait_cluster", "kwait_client", "kwait_namespace", "kwait_factory"}
    return not names.isdisjoint({*ours, "manifests", *WAIT_NAMES})

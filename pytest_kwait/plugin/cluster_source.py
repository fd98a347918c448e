"""Sources of the run's cluster: this process, or the controller of pytest-xdist.

The context and the rights of the run's identity are checked before anything is created.
Imported when a cluster is first requested, or when a worker is started.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import threading
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote, unquote

from pytest_kwait.errors import ClusterError, InvalidArgument, KwaitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clusters.provider import Cluster, Provider
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.namespaces.permissions import MissingRights
    from pytest_kwait.suite.readiness import Readiness

__all__ = [
    "ClusterServer",
    "ClusterSource",
    "OwnedSource",
    "RemoteRegistration",
    "RemoteSource",
    "check_context",
    "missing_rights",
]


def check_context(provider: Provider, settings: Settings) -> None:
    """Check that tests may run in the context of a provider.

    Raises:
        InvalidArgument: its context is not allowed.
    """
    allowed = settings.setting("allowed_contexts")
    if allowed.value is None:
        return
    context = provider.context
    if context is None or any(fnmatchcase(context, pattern) for pattern in allowed.value):
        return
    given = settings.setting("context")
    source = given.source if given.value is not None else "the kubeconfig's current context"
    patterns = ", ".join(allowed.value)
    raise InvalidArgument(
        "context",
        context,
        f"tests may run on {patterns} (allowed_contexts from {allowed.source}) and on the embedded "
        "cluster",
        source,
    )


def missing_rights(cluster: Cluster, settings: Settings) -> MissingRights:
    """Return the rights that the run needs for itself and does not have.

    Args:
        cluster: the cluster of the run; the embedded one allows everything.
    """
    from pytest_kwait.suite.namespaces.permissions import (
        MissingRights,
        find_missing_rights,
        needed_rights,
    )

    if cluster.provider == "embedded":
        return MissingRights()
    from pytest_kwait.client.session import Session

    client = cluster.client()
    try:
        context = f"context {cluster.context!r} in " if cluster.context else ""
        place = f"{context}kubeconfig {cluster.kubeconfig}"
        return find_missing_rights(Session.of(client), needed_rights(settings), place)
    finally:
        client.close()  # type: ignore[no-untyped-call] # the official client has no types here


_MAX_REQUEST_SIZE = 4096
_MAX_NAME_LENGTH = 300
_REQUEST_TIMEOUT = 10.0
"""Seconds within which a new connection must send the secret."""


class ClusterSource(Protocol):
    """The source of this process's cluster."""

    def check(self) -> None:
        """Refuse invalid cluster settings, as far as this process knows them; starts nothing."""
        ...

    def cluster(self) -> Cluster:
        """Return the cluster, started if needed; always the same one."""
        ...

    def missing(self, cluster: Cluster) -> str:
        """Return the rights that the run lacks to create namespaces.

        Args:
            cluster: a cluster of this source.
        """
        ...

    def stop(self) -> None:
        """Stop a cluster that was started here."""
        ...

    def registration(self, cluster: Cluster) -> RunRegistration | None:
        """Return the run's registration in a cluster if another process owns it, else None."""
        ...

    def problem(self, test: str) -> str:
        """Return why tests may not use the running cluster; empty if they may."""
        ...

    def notes(self) -> list[str]:
        """Return lines about the cluster for the end of the run.

        A line that begins with a blank continues the one before.
        """
        ...

    def show(self, line: str) -> None:
        """Show a pending wait in the process that owns the terminal; "" hides it."""
        ...


class OwnedSource:
    """A cluster chosen by the settings, owned by this process and started on first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._provider: Provider | None = None
        self._cluster: Cluster | None = None
        self._failure: KwaitError | None = None
        self._lack: MissingRights | None = None
        self._readiness: Readiness | None = None

    def provider(self) -> Provider:
        """Return the provider of the cluster; nothing is started.

        Raises:
            InvalidArgument: the settings contradict each other, or do not allow its context.
            ClusterError: the kubeconfig or context that was given cannot be used.
        """
        if self._provider is None:
            from pytest_kwait.clusters.provider import choose_provider

            settings = self._settings
            provider = choose_provider(
                settings.cluster,
                kubeconfig=settings.kubeconfig,
                context=settings.context,
                cluster_source=settings.source("cluster"),
                kubeconfig_source=settings.source("kubeconfig"),
                context_source=settings.source("context"),
                timing=settings.timing,
                timing_source=settings.given_source("timing"),
            )
            check_context(provider, settings)
            self._provider = provider
        return self._provider

    def check(self) -> None:
        """Choose the provider."""
        self.provider()

    def cluster(self) -> Cluster:
        """Return the cluster; a start that failed is not repeated."""
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

    def missing(self, cluster: Cluster) -> str:
        """Request the rights from the server, once."""
        with self._lock:
            if cluster is not self._cluster:
                return ""
            if self._lack is None:
                self._lack = missing_rights(cluster, self._settings)
            return self._lack.refusal

    def stop(self) -> None:
        """Stop the cluster if it was started."""
        with self._lock:
            cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()

    def registration(self, cluster: Cluster) -> RunRegistration | None:
        """Return None: this process registers the run."""
        return None

    def problem(self, test: str) -> str:
        """Wait until the cluster is ready, once."""
        from pytest_kwait.suite.artifacts.dump import dump_unready_cluster
        from pytest_kwait.suite.readiness import Readiness

        def keep(cluster: Cluster) -> str:
            return dump_unready_cluster(cluster, self._settings.artifacts)

        with self._lock:
            if self._cluster is None:
                return ""
            if self._readiness is None:
                self._readiness = Readiness(self._cluster, self._settings, keep)
        return self._readiness.problem(test)

    def notes(self) -> list[str]:
        """Return lines about missing rights and about readiness."""
        lost = [] if self._lack is None else self._lack.losses
        return [*lost, *([] if self._readiness is None else self._readiness.notes)]

    def show(self, line: str) -> None:
        """Do nothing: this process shows its own waits."""


class RemoteSource:
    """The controller's cluster, requested over a loopback connection.

    Args:
        port: the controller's port.
        secret: the secret that authenticates this worker.
        worker: the name of this worker.
    """

    def __init__(self, port: int, secret: str, worker: str = "") -> None:
        self._worker = worker
        self._port = port
        self._secret = secret
        self._cluster: Cluster | None = None
        self._missing = ""
        self._ready = False

    def check(self) -> None:
        """Do nothing: the controller checks."""

    def cluster(self) -> Cluster:
        """Return the cluster; blocks until the controller has started it."""
        if self._cluster is None:
            from pytest_kwait.clusters.provider import connect

            answer = self._ask()
            self._missing = answer.pop("missing")
            self._cluster = connect(**answer)
        return self._cluster

    def missing(self, cluster: Cluster) -> str:
        """Return the controller's result."""
        return self._missing if cluster is self._cluster else ""

    def stop(self) -> None:
        """Do nothing: the controller owns the cluster."""

    def registration(self, cluster: Cluster) -> RunRegistration | None:
        """Return a registration through the controller, if the cluster is the controller's."""
        return RemoteRegistration(self._ask) if cluster is self._cluster else None

    def problem(self, test: str) -> str:
        """Return the controller's result, which is shared by all workers."""
        if self._ready:
            return ""
        problem = str(self._ask("ready", quote(test[:_MAX_NAME_LENGTH]))["problem"])
        self._ready = not problem
        return problem

    def notes(self) -> list[str]:
        """Return nothing: the controller reports them."""
        return []

    def show(self, line: str) -> None:
        """Send the line to the controller; a lost line does not matter."""
        with contextlib.suppress(ClusterError):
            self._ask("show", self._worker, quote(line[:_MAX_NAME_LENGTH]))

    def _ask(self, *words: str) -> dict[str, Any]:
        try:
            with socket.create_connection(("127.0.0.1", self._port)) as connection:
                connection.sendall(" ".join((self._secret, *words)).encode() + b"\n")
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


class RemoteRegistration:
    """The controller's registration of the run, which outlives this worker.

    Args:
        ask: sends a request to the controller and returns its response.
    """

    def __init__(self, ask: Callable[..., dict[str, Any]]) -> None:
        self._ask = ask
        self._place: str | None = None
        self._kinds: set[str] = set()

    def place(self) -> str:
        """Return namespace/name of the Lease; empty if there is none."""
        if self._place is None:
            self._place = str(self._ask("registration")["place"])
        return self._place

    def record(self, kind: str) -> None:
        """Record a kind before its first object is created."""
        if kind not in self._kinds:
            self._ask("registration", kind)
            self._kinds.add(kind)

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        """Return "" once the namespace may be created, or the refusal after `seconds`."""
        return str(self._ask("turn", name, repr(seconds))["reason"])


class ClusterServer:
    """The controller's side: serves workers that know the secret.

    A request is the secret alone (the cluster), or the secret and `registration` with an optional
    kind, `ready` and a test, `show`, a worker and a line, or `turn`, a name and seconds for the
    quota of namespaces.

    Args:
        source: the cluster.
        registration: returns the run's registration in a cluster; None if it needs none.
        told: called with a line for each wait of a worker.
    """

    def __init__(
        self,
        source: ClusterSource,
        registration: Callable[[Cluster], RunRegistration | None] = lambda cluster: None,
        told: Callable[[str, str], None] = lambda worker, line: None,
    ) -> None:
        self._source = source
        self._registration = registration
        self._told = told
        self._replies: dict[bytes, Callable[..., dict[str, Any]]] = {
            b"": self._cluster_facts,
            b"registration": self._register,
            b"ready": self._problem,
            b"show": self._show,
            b"turn": self._acquire_quota,
        }
        self.secret = os.urandom(16).hex()
        self._listener: socket.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._closing = False
        self._thread: threading.Thread = threading.Thread(
            target=self._serve, name="kwait cluster server", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._closing = True
        # Closing the socket does not wake a thread in accept(); a connection does.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        self._thread.join(timeout=1.0)
        self._listener.close()

    def _serve(self) -> None:
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
        with connection:
            try:
                connection.settimeout(_REQUEST_TIMEOUT)
                with connection.makefile("rb") as stream:
                    greeting = stream.readline(_MAX_REQUEST_SIZE).split()
                said, topic, *words = (*greeting, b"", b"")[: max(2, len(greeting))]
                if hmac.compare_digest(said, self.secret.encode()):
                    connection.settimeout(None)
                    answer = self._replies[bytes(topic)](*words)
                    connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                # The worker is gone.
                return

    def _register(self, *kinds: bytes) -> dict[str, Any]:
        try:
            registration = self._registration(self._source.cluster())
            if registration is None:
                return {"place": ""}
            for kind in kinds:
                registration.record(kind.decode())
            return {"place": registration.place()}
        except KwaitError as error:
            return {"error": str(error)}

    def _acquire_quota(self, name: bytes, seconds: bytes) -> dict[str, Any]:
        try:
            registration = self._registration(self._source.cluster())
        except KwaitError as error:
            return {"error": str(error)}
        return {
            "reason": registration.acquire_namespace_quota(name.decode(), float(seconds))
            if registration
            else ""
        }

    def _problem(self, test: bytes) -> dict[str, Any]:
        return {"problem": self._source.problem(unquote(test.decode()))}

    def _show(self, worker: bytes, line: bytes = b"") -> dict[str, Any]:
        self._told(worker.decode(), unquote(line.decode()))
        return {}

    def _cluster_facts(self) -> dict[str, Any]:
        try:
            cluster = self._source.cluster()
        except KwaitError as error:
            return {"error": str(error)}
        return {
            "provider": cluster.provider,
            "kubeconfig": str(cluster.kubeconfig),
            "context": cluster.context,
            "time_scale": cluster.time_scale,
            "missing": self._source.missing(cluster),
        }

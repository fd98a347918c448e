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
from collections.abc import Mapping
from dataclasses import fields
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from urllib.parse import quote, unquote

from pytest_kwait.errors import ClusterError, InvalidArgument, KwaitError, describe_value
from pytest_kwait.suite.config.options import SETTING_DEFINITIONS
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from pytest_kwait.clusters.cluster import Cluster, ClusterRequest
    from pytest_kwait.clusters.provider import Provider, ProviderFactory
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.namespaces.permissions import MissingRights
    from pytest_kwait.suite.readiness import Readiness

_Result = TypeVar("_Result")

_CLUSTER_MODULES = ("pytest_kwait.clusters.provider", "pytest_kwait.suite.namespaces.permissions")
# Imported by one thread after the other: pytest rewrites imported modules, and before Python
# 3.11.8 and 3.12.2 parsing in two threads at once may fail.
_TOPIC_MODULES = {
    b"": _CLUSTER_MODULES,
    b"ready": (*_CLUSTER_MODULES, "pytest_kwait.suite.readiness"),
    b"secrets": ("pytest_kwait.engine.failure.redaction",),
}
"""Modules that the answers to a topic of `ClusterServer` import."""
_HOOK = "pytest_kwait_cluster_providers"

_MAX_REQUEST_SIZE = 8 * 1024 * 1024
"""Bytes of a request: results of explored tests have reports."""

_FURTHER = "@"
"""The first character of a request's first word that names a further cluster."""

_MAX_NAME_LENGTH = 300
_REQUEST_TIMEOUT = 10.0
"""Seconds within which a new connection must send the secret."""


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


def cluster_request(settings: Settings, run: str) -> ClusterRequest:
    """Return the settings that choose a cluster.

    Args:
        run: the name of the run.
    """
    from pytest_kwait.clusters.cluster import ClusterRequest

    requested = [
        field.name for field in fields(ClusterRequest) if field.name in SETTING_DEFINITIONS
    ]
    values = {name: settings.setting(name).value for name in requested}
    sources = {name: settings.given_source(name) for name in ("cluster", *requested)}
    given = {name: source for name, source in sources.items() if source is not None}
    return ClusterRequest(run=run, sources=given, **values)


def missing_rights(cluster: Cluster, settings: Settings) -> MissingRights:
    """Return the rights that the run needs for itself and does not have.

    Args:
        cluster: the cluster of the run; one that ends with the run allows everything.
    """
    from pytest_kwait.suite.namespaces.permissions import (
        MissingRights,
        find_missing_rights,
        needed_rights,
    )

    if cluster.ends_with_run:
        return MissingRights()
    from pytest_kwait.client.session import ApiSession

    client = cluster.client()
    try:
        context = f"context {cluster.context!r} in " if cluster.context else ""
        place = f"{context}kubeconfig {cluster.kubeconfig}"
        return find_missing_rights(ApiSession.of(client), needed_rights(settings), place)
    finally:
        client.close()  # type: ignore[no-untyped-call] # the official client has no types here


def plugin_providers(config: pytest.Config) -> dict[str, ProviderFactory]:
    """Return the providers of plugins by name; the errors of their code are `ClusterError`s.

    Raises:
        ClusterError: a plugin's hook raised, returned something else than providers by name, or a
            name that exists already.
    """
    from pytest_kwait.clusters.provider import PROVIDERS

    hook = getattr(config.hook, _HOOK, None)
    if hook is None:  # this plugin alone was loaded late
        return {}
    owners = dict.fromkeys(("auto", *PROVIDERS), "pytest-kwait")
    providers: dict[str, ProviderFactory] = {}
    implementations = hook.get_hookimpls()
    for implementation in implementations:
        others = [
            other.plugin for other in implementations if other.plugin is not implementation.plugin
        ]
        call = config.pluginmanager.subset_hook_caller(_HOOK, others)
        place = f"plugin {implementation.plugin_name}: hook {_HOOK}"
        for given in _run_plugin_code(partial(call, config=config), place):
            if not isinstance(given, Mapping) or not all(
                isinstance(name, str) and callable(make) for name, make in given.items()
            ):
                raise ClusterError(
                    f"{place} returned {describe_value(given)}; it returns a mapping of names to "
                    "functions of a ClusterRequest, which return a Provider"
                )
            for name, make in given.items():
                if name in owners:
                    raise ClusterError(
                        f"{place} has a provider {name!r}, which is {owners[name]}'s; choose "
                        "another name"
                    )
                owners[name] = f"plugin {implementation.plugin_name}"
                providers[name] = _guard_factory(name, make, owners[name])
    return providers


def describe_error(error: Exception) -> str:
    """Return the text of an error, with the type of one that is not this package's own."""
    return str(error) if isinstance(error, KwaitError) else f"{type(error).__name__}: {error}"


def _run_plugin_code(call: Callable[[], _Result], place: str) -> _Result:
    try:
        return call()
    except KwaitError:
        raise
    except Exception as error:
        raise ClusterError(f"{place} raised {describe_error(error)}") from error


def _guard_factory(name: str, make: ProviderFactory, owner: str) -> ProviderFactory:
    def make_provider(request: ClusterRequest) -> Provider:
        place = f"cluster provider {name!r} of {owner}"
        provider = _run_plugin_code(lambda: make(request), place)
        if not callable(getattr(provider, "start", None)):
            raise ClusterError(
                f"{place} is {describe_value(provider)}; it must have name, context and start()"
            )
        return _PluginProvider(name, provider, place)

    return make_provider


class _PluginProvider:
    """A plugin's provider, whose errors are `ClusterError`s.

    Args:
        place: the provider and its plugin, for messages.
    """

    def __init__(self, name: str, provider: Provider, place: str) -> None:
        self.name = name
        self._provider = provider
        self._place = place

    @property
    def context(self) -> str | None:
        """The context of an existing cluster; None for a new one."""
        return getattr(self._provider, "context", None)

    def start(self) -> Cluster:
        """Find or start the cluster.

        Raises:
            ClusterError: the plugin raised, or returned something else than a `Cluster`.
        """
        from pytest_kwait.clusters.cluster import Cluster

        cluster: object = _run_plugin_code(self._provider.start, f"{self._place}: start()")
        if not isinstance(cluster, Cluster):
            raise ClusterError(
                f"{self._place}: start() returned {describe_value(cluster)}; it returns a "
                "Cluster, for example that of pytest_kwait.clusters.connect(kubeconfig)"
            )
        return cluster


class ClusterSource(Protocol):
    """The source of a cluster of the run."""

    @property
    def started(self) -> Cluster | None:
        """The cluster, once this process has used it."""

    def check(self) -> None:
        """Refuse invalid cluster settings, as far as this process knows them; starts nothing."""

    def cluster(self) -> Cluster:
        """Return the cluster, started if needed; always the same one."""

    def missing(self, cluster: Cluster) -> str:
        """Return the rights that the run lacks to create namespaces.

        Args:
            cluster: a cluster of this source.
        """

    def stop(self) -> None:
        """Stop a cluster that was started here."""

    def finish(self, *, failed: bool) -> None:
        """Export logs of a cluster that was started here, and keep it, as the settings say.

        Args:
            failed: whether a test failed.
        """

    def registration(self, cluster: Cluster) -> RunRegistration | None:
        """Return the run's registration in a cluster if another process owns it, else None."""

    def problem(self, test: str) -> str:
        """Return why tests may not use the running cluster; empty if they may."""

    def outage(self) -> str:
        """Return why no request is sent to the running cluster any more; empty if it is usable."""

    def wait_for_outage(self, known: str) -> str:
        """Return the outage of the running cluster once it differs from the known one; blocks."""

    def notes(self) -> list[str]:
        """Return lines about the cluster for the end of the run.

        A line that begins with a blank continues the one before.
        """

    def add_note(self, line: str) -> None:
        """Add a line about the cluster for the end of the run, once."""

    def show(self, line: str) -> None:
        """Show a pending wait in the process that owns the terminal; "" hides it."""


class OwnedSource:
    """A cluster chosen by the settings, owned by this process and started on first use.

    Args:
        run: the name of the run.
        plugin_providers: returns the providers of plugins by name.
        name: the name of a further cluster; empty for the run's own.
    """

    def __init__(
        self,
        settings: Settings,
        run: str = "",
        plugin_providers: Callable[[], Mapping[str, ProviderFactory]] = dict,
        name: str = "",
    ) -> None:
        self._settings = settings
        self._log_folder = f"cluster-{name}" if name else "cluster"
        self._run = run
        self._plugin_providers = plugin_providers
        self._lock = threading.Lock()
        self._provider: Provider | None = None
        self._cluster: Cluster | None = None
        self._failure: KwaitError | None = None
        self._lack: MissingRights | None = None
        self._readiness: Readiness | None = None
        self._notes: list[str] = []

    @property
    def started(self) -> Cluster | None:
        """The cluster, once this process has used it."""
        return self._cluster

    def provider(self) -> Provider:
        """Return the provider of the cluster; nothing is started.

        Raises:
            InvalidArgument: the settings contradict each other, or do not allow its context.
            ClusterError: the kubeconfig or context that was given cannot be used.
        """
        if self._provider is None:
            from pytest_kwait.clusters.provider import PROVIDERS, choose_provider

            settings = self._settings
            provider = choose_provider(
                settings.cluster,
                cluster_request(settings, self._run),
                {**PROVIDERS, **self._plugin_providers()},
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
                except OSError as error:
                    self._failure = ClusterError(f"the cluster could not be started: {error}")
                    raise self._failure from error
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

    def outage(self) -> str:
        """Return the problem that the monitor of the cluster has reported."""
        return _outage_of(self._cluster)

    def wait_for_outage(self, known: str) -> str:
        """Wait for a report of the monitor of the cluster."""
        from pytest_kwait.client.availability import availability_of

        return availability_of(self.cluster().server).wait_for_change(known)

    def notes(self) -> list[str]:
        """Return lines about missing rights and about readiness, and added ones."""
        lost = [] if self._lack is None else self._lack.losses
        readiness = [] if self._readiness is None else self._readiness.notes
        return [*lost, *readiness, *self._notes, *self._describe_cluster()]

    def _describe_cluster(self) -> list[str]:
        if self._cluster is None:
            return []
        try:
            return self._cluster.notes()
        except Exception as error:
            return [f"no notes on the {self._cluster.title}: {describe_error(error)}"]

    def finish(self, *, failed: bool) -> None:
        """Keep the cluster if the settings say so; export its logs if a test failed."""
        with self._lock:
            cluster = self._cluster
        if cluster is None:
            return
        keep = self._settings.keep_cluster
        if keep == "always" or (failed and keep == "failed"):
            try:
                cluster.keep()
            except Exception as error:
                self.add_note(f"the {cluster.title} cannot be kept: {describe_error(error)}")
        folder = self._settings.artifacts
        if not failed or folder is None:
            return
        try:
            problem = cluster.export_logs(folder / self._log_folder)
        except Exception as error:
            problem = describe_error(error)
        if problem:
            self.add_note(f"logs of the {cluster.title} were not exported: {problem}")

    def add_note(self, line: str) -> None:
        """Add a line, once."""
        if line not in self._notes:
            self._notes.append(line)

    def show(self, line: str) -> None:
        """Do nothing: this process shows its own waits."""


def _outage_of(cluster: Cluster | None) -> str:
    if cluster is None:
        return ""
    from pytest_kwait.client.availability import availability_of

    return availability_of(cluster.server).problem


class ControllerConnection:
    """Requests of a worker to its controller, over loopback.

    Args:
        port: the controller's port.
        secret: the secret that authenticates this worker.
    """

    def __init__(self, port: int, secret: str) -> None:
        self._port = port
        self._secret = secret

    def request(self, *words: str) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            ClusterError: the controller cannot be reached, or reports an error.
        """
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


class RemoteSource:
    """A cluster of the controller, requested over a loopback connection.

    Args:
        port: the controller's port.
        secret: the secret that authenticates this worker.
        worker: the name of this worker.
        name: the name of a further cluster; empty for the run's own.
    """

    def __init__(self, port: int, secret: str, worker: str = "", name: str = "") -> None:
        self._worker = worker
        request = ControllerConnection(port, secret).request
        self._request = partial(request, f"{_FURTHER}{name}") if name else request
        self._cluster: Cluster | None = None
        self._missing = ""
        self._ready = False

    @property
    def started(self) -> Cluster | None:
        """The cluster, once this process has used it."""
        return self._cluster

    def check(self) -> None:
        """Do nothing: the controller checks."""

    def cluster(self) -> Cluster:
        """Return the cluster; blocks until the controller has started it."""
        if self._cluster is None:
            from pytest_kwait.clusters.provider import connect
            from pytest_kwait.engine.failure.redaction import SECRET_VALUES

            SECRET_VALUES.exchange = self._exchange_secrets
            answer = self._request()
            self._missing, monitored = answer.pop("missing"), answer.pop("monitored")
            self._cluster = connect(**answer)
            if monitored:
                from pytest_kwait.client.availability import availability_of

                self._cluster.is_monitored = True
                availability_of(self._cluster.server).is_watched = True
                threading.Thread(
                    target=self._follow_outages,
                    args=(self._cluster.server,),
                    name="kwait cluster monitor",
                    daemon=True,
                ).start()
        return self._cluster

    def _exchange_secrets(self, values: Sequence[str], position: int | None) -> list[str]:
        """Send values of Secrets; return those of all workers from a position on, if given."""
        # A controller that has ended takes this worker with it.
        with contextlib.suppress(ClusterError):
            known = "" if position is None else str(position)
            return cast("list[str]", self._request("secrets", f"from={known}", *values)["values"])
        return []

    def _follow_outages(self, server: str) -> None:
        """Take over each problem of the cluster that the controller reports."""
        from pytest_kwait.client.availability import availability_of

        availability = availability_of(server)
        # A controller that has ended takes this worker with it.
        with contextlib.suppress(ClusterError):
            while True:
                availability.report_problem(self.wait_for_outage(availability.problem))

    def missing(self, cluster: Cluster) -> str:
        """Return the controller's result."""
        return self._missing if cluster is self._cluster else ""

    def stop(self) -> None:
        """Do nothing: the controller owns the cluster."""

    def finish(self, *, failed: bool) -> None:
        """Do nothing: the controller owns the cluster."""

    def registration(self, cluster: Cluster) -> RunRegistration | None:
        """Return a registration through the controller, if the cluster is the controller's."""
        return RemoteRegistration(self._request) if cluster is self._cluster else None

    def problem(self, test: str) -> str:
        """Return the controller's result, which is shared by all workers."""
        if self._ready:
            return ""
        problem = str(self._request("ready", quote(test[:_MAX_NAME_LENGTH]))["problem"])
        self._ready = not problem
        return problem

    def outage(self) -> str:
        """Return the problem that the controller has reported."""
        return _outage_of(self._cluster)

    def wait_for_outage(self, known: str) -> str:
        """Wait for the controller's next report."""
        return str(self._request("outage", quote(known))["problem"])

    def notes(self) -> list[str]:
        """Return nothing: the controller reports them."""
        return []

    def add_note(self, line: str) -> None:
        """Send the line to the controller."""
        with contextlib.suppress(ClusterError):
            self._request("note", quote(line))

    def show(self, line: str) -> None:
        """Send the line to the controller; a lost line does not matter."""
        with contextlib.suppress(ClusterError):
            self._request("show", self._worker, quote(line[:_MAX_NAME_LENGTH]))


class RemoteRegistration:
    """The controller's registration of the run, which outlives this worker.

    Args:
        request: sends a request to the controller and returns its response.
    """

    def __init__(self, request: Callable[..., dict[str, Any]]) -> None:
        self._request = request
        self._place: str | None = None
        self._kinds: set[str] = set()

    def place(self) -> str:
        """Return namespace/name of the Lease; empty if there is none."""
        if self._place is None:
            self._place = str(self._request("registration")["place"])
        return self._place

    def record(self, kind: str) -> None:
        """Record a kind before its first object is created."""
        if kind not in self._kinds:
            self._request("registration", kind)
            self._kinds.add(kind)

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        """Return "" once the namespace may be created, or the refusal after `seconds`."""
        return str(self._request("turn", name, repr(seconds))["reason"])


class ClusterServer:
    """The controller's side: serves workers that know the secret.

    A request is the secret alone (the cluster), or the secret and `registration` with an optional
    kind, `ready` and a test, `note` and a line, `show`, a worker and a line, `turn`, a name and
    seconds for the quota of namespaces, or `outage` and the known one, whose answer waits for
    another. `secrets`, a position and words add to what the run knows of values of Secrets. `@NAME`
    before the topic asks for the cluster of that name.

    Args:
        find_source: returns the source of the cluster of a name; of the run's own for an empty one.
        registration: returns the run's registration in a cluster; None if it needs none.
        show_line: called with a line for each wait of a worker.
    """

    def __init__(
        self,
        find_source: Callable[[str], ClusterSource],
        registration: Callable[[Cluster], RunRegistration | None] = lambda cluster: None,
        show_line: Callable[[str, str], None] = lambda worker, line: None,
    ) -> None:
        self._find_source = find_source
        self._registration = registration
        self._show_line = show_line
        self._replies: dict[bytes, Callable[..., dict[str, Any]]] = {
            b"show": self._show,
            b"secrets": self._exchange_secrets,
        }
        self._cluster_replies: dict[bytes, Callable[..., dict[str, Any]]] = {
            b"": self._cluster_facts,
            b"registration": self._register,
            b"ready": self._problem,
            b"note": self._add_note,
            b"turn": self._acquire_quota,
            b"outage": self._wait_for_outage,
        }
        self._import_lock = threading.Lock()
        self._secrets_lock = threading.Lock()
        self._secret_values: dict[str, None] = {}
        """Words of `SecretValues`, in the order of their arrival; kept in memory alone."""
        self.secret = os.urandom(16).hex()
        self._listener: socket.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._worker = Worker("kwait cluster server", self._serve)
        self._worker.start()

    def serve(self, topic: str, reply: Callable[..., dict[str, Any]]) -> None:
        """Answer a further topic.

        Args:
            reply: called with the words behind the topic, as bytes.
        """
        self._replies[topic.encode()] = reply

    def close(self) -> None:
        """Stop serving."""
        self._worker.stop()
        # Closing the socket does not wake a thread in accept(); a connection does.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        self._worker.join(1.0)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._worker.is_stopped:
                connection.close()
                return
            threading.Thread(
                target=self._answer, args=(connection,), name="kwait cluster visitor", daemon=True
            ).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(_REQUEST_TIMEOUT)
                secret = self.secret.encode()
                with connection.makefile("rb") as stream:
                    # No more is read of a connection without the secret.
                    first = stream.readline(len(secret) + 1)
                    if not hmac.compare_digest(first.rstrip(), secret):
                        return
                    request = b"" if first.endswith(b"\n") else stream.readline(_MAX_REQUEST_SIZE)
                connection.settimeout(None)
                answer = self._reply(*(request.split() or [b""]))
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                # The worker is gone.
                return

    def _reply(self, *words: bytes) -> dict[str, Any]:
        name = ""
        if words[0].startswith(_FURTHER.encode()):
            name, words = words[0][1:].decode(), words[1:] or (b"",)
        topic, *words_of_topic = words
        with self._import_lock:
            for module in _TOPIC_MODULES.get(topic, ()):
                import_module(module)
        # A failed wait is a TimeoutError too, which must not pass for one of the connection.
        try:
            if topic in self._cluster_replies:
                return self._cluster_replies[topic](self._find_source(name), *words_of_topic)
            return self._replies[topic](*words_of_topic)
        except Exception as error:
            return {"error": describe_error(error)}

    def _register(self, source: ClusterSource, *kinds: bytes) -> dict[str, Any]:
        registration = self._registration(source.cluster())
        if registration is None:
            return {"place": ""}
        for kind in kinds:
            registration.record(kind.decode())
        return {"place": registration.place()}

    def _acquire_quota(self, source: ClusterSource, name: bytes, seconds: bytes) -> dict[str, Any]:
        registration = self._registration(source.cluster())
        return {
            "reason": registration.acquire_namespace_quota(name.decode(), float(seconds))
            if registration
            else ""
        }

    def _problem(self, source: ClusterSource, test: bytes) -> dict[str, Any]:
        return {"problem": source.problem(unquote(test.decode()))}

    def _wait_for_outage(self, source: ClusterSource, known: bytes = b"") -> dict[str, Any]:
        return {"problem": source.wait_for_outage(unquote(known.decode()))}

    def _add_note(self, source: ClusterSource, line: bytes) -> dict[str, Any]:
        source.add_note(unquote(line.decode()))
        return {}

    def _show(self, worker: bytes, line: bytes = b"") -> dict[str, Any]:
        self._show_line(worker.decode(), unquote(line.decode()))
        return {}

    def _exchange_secrets(self, position: bytes, *words: bytes) -> dict[str, Any]:
        from pytest_kwait.engine.failure.redaction import SECRET_VALUES

        values = [word.decode() for word in words]
        SECRET_VALUES.learn_sent(values)
        start = position.partition(b"=")[2]
        with self._secrets_lock:
            self._secret_values.update(dict.fromkeys(values))
            return {"values": [*self._secret_values][int(start) :] if start else []}

    def _cluster_facts(self, source: ClusterSource) -> dict[str, Any]:
        cluster = source.cluster()
        if outage := source.outage():
            return {"error": outage}
        return {
            "provider": cluster.provider,
            "kubeconfig": str(cluster.kubeconfig),
            "context": cluster.context,
            "time_scale": cluster.time_scale,
            "has_controllers": cluster.has_controllers,
            "ends_with_run": cluster.ends_with_run,
            "monitored": cluster.is_monitored,
            "missing": source.missing(cluster),
        }

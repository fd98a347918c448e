"""The run of the program: clients, informers, server, leader election.

Source: cmd/kube-scheduler/app/server.go.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kwait.apimachinery.times import MAX_SECONDS
from pytest_kwait.cache.factory import SharedInformerFactory
from pytest_kwait.cache.sync import wait_for_cache_sync
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.transport import pin_settings
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.leaderelection import LeaderElector, LeaseLock
from pytest_kwait.scheduler.algorithm import Algorithm
from pytest_kwait.scheduler.command import CommandError, expand_home
from pytest_kwait.scheduler.command.delegated_auth import (
    Authenticator,
    DelegatedAuthorizer,
    fetch_client_authorities,
)
from pytest_kwait.scheduler.command.flags import PROGRAM
from pytest_kwait.scheduler.command.profiles import list_profile_predicates, list_profile_priorities
from pytest_kwait.scheduler.command.prometheus_metrics import PrometheusMetrics
from pytest_kwait.scheduler.command.server import (
    HealthCheck,
    Routes,
    Server,
    UnhealthyError,
    make_tls_context,
    read_client_authorities,
    render_configz,
    render_flagz,
)
from pytest_kwait.scheduler.scheduler import ConfigFactory, Scheduler
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.cache.handlers import HandlerRegistration
    from pytest_kwait.cache.shared_informer import SharedInformer
    from pytest_kwait.clock import Clock
    from pytest_kwait.scheduler.command.configuration import Configuration, Profile
    from pytest_kwait.scheduler.command.feature_gates import FeatureGates
    from pytest_kwait.scheduler.command.flags import Flags
    from pytest_kwait.scheduler.scheduler import Config
    from pytest_kwait.wait import Context

_HEALTH_TOLERANCE = 20.0
"""Seconds past its lease that a leader which cannot renew it still counts as healthy."""
_LEASE_TIMEOUT = 5.0
"""Seconds for finding out whether the lease is held."""
_DEFAULT_NAME = "default-scheduler"
_DEFAULT_LEASE = "kube-system/kube-scheduler"
_SHUTDOWN_TIMEOUT = 3.0
"""Seconds that pending requests get at the end."""

_log = logging.getLogger(__name__)


def make_scheduler_client(kubeconfig: str, master: str) -> ApiClient:
    """Return the scheduler's client; without a file or address that of its own pod.

    Args:
        kubeconfig: the file; empty for none.
        master: the server's address, which overrides the file's; empty for none.

    Raises:
        CommandError: no server is configured, or its configuration is invalid.

    Source: client-go tools/clientcmd/client_config.go BuildConfigFromFlags.
    """
    if kubeconfig:
        return make_kubeconfig_client(kubeconfig, master)
    master = master or os.environ.get("KUBERNETES_MASTER", "")
    if master:
        return _make_client(master)
    client = make_in_cluster_client()
    if client is None:
        raise CommandError(
            "invalid configuration: no configuration has been provided, "
            "try setting KUBERNETES_MASTER environment variable"
        )
    return client


def make_kubeconfig_client(kubeconfig: str, master: str = "") -> ApiClient:
    """Return the client of a kubeconfig's current context.

    Raises:
        CommandError: the file is missing or invalid.
    """
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_kube_config

    from pytest_kwait.temp_dir import credentials_folder

    path = expand_home(kubeconfig)
    try:
        path.stat()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CommandError(f"stat {kubeconfig}: {why}") from None
    configuration = Configuration()
    try:
        load_kube_config(  # type: ignore[no-untyped-call] # the client has no types here
            str(path), client_configuration=configuration, temp_file_path=credentials_folder()
        )
    except (ConfigException, OSError, TypeError, ValueError, AttributeError) as error:
        why = " ".join(str(error).split())
        if not isinstance(error, ConfigException | OSError):
            # Raised by code of the client that expects other contents.
            why = (
                "not a kubeconfig: it must be a YAML mapping of kind Config, with clusters, users "
                "and contexts"
            )
        raise CommandError(f"error loading config file {kubeconfig}: {why}") from None
    if master:
        # As client-go does: the file's server name belongs to the file's server.
        pin_settings(configuration, {"host": _parse_address(master), "tls_server_name": None})
    return ApiClient(_bypass_proxy_for_loopback(configuration))


def make_in_cluster_client() -> ApiClient | None:
    """Return the client of the pod that this process runs in; None outside of one.

    Source: client-go rest/config.go InClusterConfig.
    """
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call] # the client has no types here
    except ConfigException:
        return None
    return ApiClient(configuration)


def _make_client(master: str) -> ApiClient:
    from kubernetes.client import ApiClient, Configuration

    configuration = Configuration()
    configuration.host = _parse_address(master)
    return ApiClient(_bypass_proxy_for_loopback(configuration))


def _parse_address(master: str) -> str:
    address = master if "://" in master else f"http://{master}"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandError(f"host must be a URL or a host:port pair: {master!r}")
    return address.rstrip("/")


def _bypass_proxy_for_loopback(configuration: object) -> object:
    """Connect to loopback addresses without the proxy, as Go's clients do."""
    host = urlsplit(getattr(configuration, "host", "")).hostname or ""
    if host in {"localhost", "::1"} or host.startswith("127."):
        configuration.proxy = None  # type: ignore[attr-defined] # the client has no types here
    return configuration


class SchedulerProgram:
    """A scheduler with its informers, server and leader election, for one run.

    Args:
        flags: as given.
        configuration: the validated configuration.

    Raises:
        CommandError: an unusable kubeconfig, certificate or port; nothing is started then.
        InvalidArgument: an invalid name of a lease.

    Source: cmd/kube-scheduler/app/server.go Setup, Run.
    """

    def __init__(self, flags: Flags, configuration: Configuration, gates: FeatureGates) -> None:
        self._configuration = configuration
        self._connection = configuration.client_connection
        self._master = flags.master
        self._stop = threading.Event()
        self._synced = threading.Event()
        self._failures: list[KwaitError] = []
        self._leading: threading.Thread | None = None
        self.metrics = PrometheusMetrics()
        self.metrics.features(gates)
        client = self._client()
        self._informers = SharedInformerFactory(ApiSession.of(client))
        self._config = self._scheduler_config(client, flags, gates)
        self._elector = self._make_elector() if configuration.leader_election.leader_elect else None
        self.servers = self._servers(flags, gates)
        """The servers, one per port."""

    def run(self, stop: threading.Event) -> None:
        """Run until stopped.

        Args:
            stop: ends the run; a leader releases its lease.

        Raises:
            CommandError: leadership was lost.
            KwaitError: the caches cannot be filled.

        Source: cmd/kube-scheduler/app/server.go Run.
        """
        self._stop = stop
        with ExitStack() as ending:
            for server in self.servers:
                ending.callback(server.stop)
                server.start()
            ending.callback(self._informers.stop)
            if not self._configuration.delay_cache_until_active and not self._fill_caches():
                return
            warning = describe_competition(self._configuration, self._is_lease_held)
            if warning:
                _log.warning(warning)
            if self._elector is None:
                self._schedule(stop)
            elif not self._elector.run(stop):
                raise CommandError("lost lease")
            if self._leading is not None:
                self._leading.join(_SHUTDOWN_TIMEOUT)
            if self._failures:
                raise self._failures[0]

    def _client(self) -> ApiClient:
        return make_scheduler_client(self._connection.kubeconfig, self._master)

    def _scheduler_config(self, client: ApiClient, flags: Flags, gates: FeatureGates) -> Config:
        configuration = self._configuration
        return ConfigFactory(
            client,
            scheduler_names={
                profile.scheduler_name: _make_algorithm(configuration, profile)
                for profile in configuration.profiles
            },
            qps=self._connection.qps,
            burst=self._connection.burst,
            bind_threads=configuration.parallelism,
            informers=self._informers,
            pod_initial_backoff=configuration.pod_initial_backoff_seconds,
            pod_max_backoff=configuration.pod_max_backoff_seconds,
            pod_max_unschedulable=flags.pod_max_in_unschedulable_pods_duration,
            pop_from_backoff=gates.enabled("SchedulerPopFromBackoffQ"),
            metrics=self.metrics,
        ).create()

    def _make_elector(self) -> LeaderElector:
        election = self._configuration.leader_election
        # A separate client: thousands of bindings must not delay the renewal of the lease.
        lock = LeaseLock(
            self._client(),
            election.resource_namespace,
            election.resource_name,
            f"{socket.gethostname()}_{uuid.uuid4()}",
        )
        elector = LeaderElector(
            lock,
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
            release_on_cancel=True,
            on_started_leading=self._lead,
            on_stopped_leading=self._stopped_leading,
            on_new_leader=lambda leader: _log.info("new leader elected: %s", leader or "none"),
        )
        self.metrics.leading(election.resource_name, lambda: elector.is_leader)
        return elector

    def _servers(self, flags: Flags, gates: FeatureGates) -> list[Server]:
        pages = {
            "/metrics": self.metrics.expose,
            "/configz": lambda _accept: render_configz(self._configuration),
        }
        if gates.enabled("ComponentFlagz"):
            pages["/flagz"] = lambda _accept: render_flagz(flags)
        watchdog = self._watchdog()
        ready = [
            *watchdog,
            HealthCheck("shutdown", self._check_running),
            HealthCheck("sched-handler-sync", self._check_synced),
        ]
        health = {"healthz": watchdog, "livez": [], "readyz": ready}
        if flags.secure_port == 0 and flags.port == 0:
            return []
        endpoints = Routes(health, pages)
        servers = []
        if flags.secure_port:
            reviewer = _make_review_session(flags.authentication_kubeconfig)
            authorities = _load_client_authorities(flags, reviewer)
            tls = make_tls_context(
                certificate=flags.tls_cert_file,
                key=flags.tls_private_key_file,
                folder=flags.cert_dir,
                address=flags.bind_address,
                client_ca=authorities,
                min_version=flags.tls_min_version,
                cipher_suites=flags.tls_cipher_suites,
            )
            authenticator = Authenticator(reviewer, flags.authentication_token_webhook_cache_ttl)
            authorizer = DelegatedAuthorizer(
                _make_review_session(flags.authorization_kubeconfig),
                flags.authorization_always_allow_paths,
                flags.authorization_webhook_cache_authorized_ttl,
                flags.authorization_webhook_cache_unauthorized_ttl,
            )
            secured = Routes(health, pages, authenticator, authorizer)
            servers.append(
                Server(
                    flags.bind_address,
                    flags.secure_port,
                    secured,
                    tls,
                    share_port=flags.permit_port_sharing,
                )
            )
            _log.info("Serving securely on %s:%s", flags.bind_address, flags.secure_port)
        if flags.port:
            servers.append(Server(flags.address, flags.port, endpoints, None))
            _log.warning(
                "Serving insecurely on %s:%s, without authentication", flags.address, flags.port
            )
        return servers

    def _watchdog(self) -> list[HealthCheck]:
        elector = self._elector
        if elector is None:
            return []
        return [HealthCheck("leaderElection", lambda: elector.check(_HEALTH_TOLERANCE))]

    def _fill_caches(self) -> bool:
        """Return True once the caches have synced, False if stopped before."""
        self._informers.start()
        # As kube-scheduler it does not give up: an API server, or rights, may come at any time.
        caches = [_RetriedCache(cache) for cache in self._config.watch.synced]
        if not wait_for_cache_sync(*caches, name=PROGRAM, stop=self._stop, timeout=MAX_SECONDS):
            return False
        self._synced.set()
        return True

    def _is_lease_held(self) -> bool:
        """Return whether another candidate holds the lease; True if that is not known."""
        election = self._configuration.leader_election
        lock = LeaseLock(self._client(), election.resource_namespace, election.resource_name, "-")
        try:
            record = lock.get(deadline=Deadline.after(_LEASE_TIMEOUT, SYSTEM_CLOCK))
        except (KwaitError, DeadlineExceeded):
            return True  # the election reports it
        return record is not None and bool(record.holder_identity)

    def _lead(self, ctx: Context) -> None:
        self._leading = threading.current_thread()
        self._schedule(ctx)

    def _schedule(self, stop: threading.Event | Context) -> None:
        try:
            if self._synced.is_set() or self._fill_caches():
                Scheduler(self._config).run(stop)
        except KwaitError as error:
            self._failures.append(error)
            self._stop.set()

    def _stopped_leading(self) -> None:
        if self._stop.is_set():
            _log.info("Requested to terminate, exiting")
        else:
            _log.error("Leaderelection lost")

    def _check_running(self) -> None:
        if self._stop.is_set():
            raise UnhealthyError("process is shutting down")

    def _check_synced(self) -> None:
        if not self._synced.is_set():
            raise UnhealthyError("handlers are not fully synchronized")


class _RetriedCache:
    """An informer or handler whose list is tried again after any refusal, as upstream's reflectors.

    Args:
        cache: the informer, or the handler's registration.
    """

    def __init__(self, cache: SharedInformer | HandlerRegistration) -> None:
        self._cache = cache
        self.name = cache.name
        self.clock: Clock = getattr(cache, "clock", SYSTEM_CLOCK)

    def has_synced(self) -> bool:
        """Return whether it has synced."""
        return self._cache.has_synced()

    @property
    def permanent_error(self) -> Exception | None:
        """The error that ended the informer; a server's refusal does not."""
        error: Exception | None = getattr(self._cache, "permanent_error", None)
        return None if isinstance(error, ApiError) else error


def describe_competition(configuration: Configuration, is_lease_held: Callable[[], bool]) -> str:
    """Return a warning if a scheduler of the cluster may schedule the same pods; else "".

    Args:
        configuration: the configuration in force.
        is_lease_held: returns whether another candidate holds the configured lease.
    """
    if all(profile.scheduler_name != _DEFAULT_NAME for profile in configuration.profiles):
        return ""
    election = configuration.leader_election
    lease = f"{election.resource_namespace}/{election.resource_name}"
    if not election.leader_elect:
        reason = "without leader election"
    elif lease != _DEFAULT_LEASE:
        reason = f"as leader of {lease} instead of {_DEFAULT_LEASE}"
    elif is_lease_held():
        return ""
    else:
        reason = f"as leader of {lease}, which no other scheduler holds"
    return (
        f"Scheduling pods of {_DEFAULT_NAME} {reason}: the cluster's own scheduler, if it runs, "
        "schedules the same pods; give the profiles in --config another schedulerName, or stop "
        "the other scheduler"
    )


def _make_algorithm(configuration: Configuration, profile: Profile) -> Algorithm:
    percentage = profile.percentage_of_nodes_to_score
    return Algorithm(
        list_profile_predicates(profile),
        list_profile_priorities(profile),
        percentage_of_nodes_to_score=(
            configuration.percentage_of_nodes_to_score if percentage is None else percentage
        ),
    )


def _make_review_session(kubeconfig: str) -> ApiSession | None:
    """Return the client for token and access reviews: the kubeconfig's, else the pod's own."""
    client = make_kubeconfig_client(kubeconfig) if kubeconfig else make_in_cluster_client()
    return None if client is None else ApiSession.of(client)


def _load_client_authorities(flags: Flags, reviewer: ApiSession | None) -> str | None:
    if flags.client_ca_file:
        return read_client_authorities(flags.client_ca_file)
    if flags.authentication_skip_lookup:
        return None
    if reviewer is None:
        _log.warning("No authentication-kubeconfig provided, so client certificates are not used")
        return None
    tolerate = flags.authentication_tolerate_lookup_failure
    return fetch_client_authorities(reviewer, tolerate=tolerate)

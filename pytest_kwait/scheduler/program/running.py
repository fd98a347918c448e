"""The program from its configuration to its end: what starts, in which order, and how it stops."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pytest_kwait.api.session import Session
from pytest_kwait.cache.factory import SharedInformerFactory
from pytest_kwait.cache.sync import wait_for_cache_sync
from pytest_kwait.election import LeaderElector, LeaseLock
from pytest_kwait.errors import KwaitError
from pytest_kwait.scheduler.algorithm.generic import Algorithm
from pytest_kwait.scheduler.config import ConfigFactory
from pytest_kwait.scheduler.scheduler import Scheduler

from .authentication import Authenticator, looked_up_authorities
from .authorization import Authorizer
from .certificates import client_authorities, serving_context
from .clients import in_cluster_client, kubeconfig_client, scheduler_client
from .endpoints import Endpoints
from .field_errors import ProgramError
from .health import HealthCheck, Unhealthy
from .pages import configz, flagz
from .profiles import predicates_of, priorities_of
from .prometheus_metrics import PrometheusMetrics
from .serving import Server

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.scheduler.config import Config
    from pytest_kwait.wait import Context

    from .configuration import Configuration, Profile
    from .feature_gates import FeatureGates
    from .flags import Flags

__all__ = ["SchedulerProgram"]

_HEALTH_TOLERANCE = 20.0
"""Seconds past its lease that a leader which cannot renew it still counts as healthy."""
_LAST_REQUESTS = 3.0
"""Seconds that requests under way have at the end."""

_log = logging.getLogger(__name__)


class SchedulerProgram:
    """A scheduler with its informers, its server and its election; good for one run.

    Args:
        flags: as given.
        configuration: what flags and file make, sound.
        gates: which features are on.

    Raises:
        ProgramError: a kubeconfig, a certificate or a port that cannot be used; nothing runs then.
        InvalidArgument: a name that no lease can have.

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
        self._informers = SharedInformerFactory(Session.of(client))
        self._config = self._scheduler_config(client, flags, gates)
        self._elector = self._make_elector() if configuration.leader_election.leader_elect else None
        self.servers = self._servers(flags, gates)
        """What serves, each with its port."""

    def run(self, stop: threading.Event) -> None:
        """Run until stopped.

        Args:
            stop: ends the run; a leader gives up its lease.

        Raises:
            ProgramError: leadership was lost.
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
            if self._elector is None:
                self._schedule(stop)
            elif not self._elector.run(stop):
                raise ProgramError("lost lease")
            if self._leading is not None:
                self._leading.join(_LAST_REQUESTS)
            if self._failures:
                raise self._failures[0]

    def _client(self) -> ApiClient:
        return scheduler_client(self._connection.kubeconfig, self._master)

    def _scheduler_config(self, client: ApiClient, flags: Flags, gates: FeatureGates) -> Config:
        configuration = self._configuration
        return ConfigFactory(
            client,
            scheduler_names={
                profile.scheduler_name: _algorithm(configuration, profile)
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
        # Bindings by the thousand must not keep the lease from being renewed: a client of its own.
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
            on_new_leader=lambda leader: _log.info("new leader elected: %s", leader or "nobody"),
        )
        self.metrics.leading(election.resource_name, lambda: elector.is_leader)
        return elector

    def _servers(self, flags: Flags, gates: FeatureGates) -> list[Server]:
        pages = {
            "/metrics": self.metrics.expose,
            "/configz": lambda _accept: configz(self._configuration),
        }
        if gates.enabled("ComponentFlagz"):
            pages["/flagz"] = lambda _accept: flagz(flags)
        watchdog = self._watchdog()
        ready = [
            *watchdog,
            HealthCheck("shutdown", self._check_running),
            HealthCheck("sched-handler-sync", self._check_synced),
        ]
        health = {"healthz": watchdog, "livez": [], "readyz": ready}
        if flags.secure_port == 0 and flags.port == 0:
            return []
        endpoints = Endpoints(health, pages)
        servers = []
        if flags.secure_port:
            reviewer = _reviewer(flags.authentication_kubeconfig)
            authorities = _authorities(flags, reviewer)
            tls = serving_context(
                certificate=flags.tls_cert_file,
                key=flags.tls_private_key_file,
                folder=flags.cert_dir,
                address=flags.bind_address,
                client_ca=authorities,
            )
            authenticator = Authenticator(reviewer, flags.authentication_token_webhook_cache_ttl)
            authorizer = Authorizer(
                _reviewer(flags.authorization_kubeconfig),
                flags.authorization_always_allow_paths,
                flags.authorization_webhook_cache_authorized_ttl,
                flags.authorization_webhook_cache_unauthorized_ttl,
            )
            secured = Endpoints(health, pages, authenticator, authorizer)
            servers.append(Server(flags.bind_address, flags.secure_port, secured, tls))
            _log.info("Serving securely on %s:%s", flags.bind_address, flags.secure_port)
        if flags.port:
            servers.append(Server(flags.address, flags.port, endpoints, None))
            _log.warning("Serving insecurely on %s:%s, to everybody", flags.address, flags.port)
        return servers

    def _watchdog(self) -> list[HealthCheck]:
        elector = self._elector
        if elector is None:
            return []
        return [HealthCheck("leaderElection", lambda: elector.check(_HEALTH_TOLERANCE))]

    def _fill_caches(self) -> bool:
        """Return True once the caches have what the server has, False if stopped before."""
        self._informers.start()
        if not wait_for_cache_sync(*self._config.watch.synced, stop=self._stop):
            return False
        self._synced.set()
        _log.info("Caches are synced")
        return True

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
            raise Unhealthy("process is shutting down")

    def _check_synced(self) -> None:
        if not self._synced.is_set():
            raise Unhealthy("handlers are not fully synchronized")


def _algorithm(configuration: Configuration, profile: Profile) -> Algorithm:
    percentage = profile.percentage_of_nodes_to_score
    return Algorithm(
        predicates_of(profile),
        priorities_of(profile),
        percentage_of_nodes_to_score=(
            configuration.percentage_of_nodes_to_score if percentage is None else percentage
        ),
    )


def _reviewer(kubeconfig: str) -> Session | None:
    """Return who reviews tokens or access: the kubeconfig's server, else the pod's own, if any."""
    client = kubeconfig_client(kubeconfig) if kubeconfig else in_cluster_client()
    return None if client is None else Session.of(client)


def _authorities(flags: Flags, reviewer: Session | None) -> str | None:
    if flags.client_ca_file:
        return client_authorities(flags.client_ca_file)
    if flags.authentication_skip_lookup:
        return None
    if reviewer is None:
        _log.warning("No authentication-kubeconfig provided, so client certificates are not used")
        return None
    tolerate = flags.authentication_tolerate_lookup_failure
    return looked_up_authorities(reviewer, tolerate=tolerate)

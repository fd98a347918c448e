"""A cluster reached through a kubeconfig: client, version, nodes, access check.

`ClusterRequest` has the settings that a cluster is chosen by, each with its source for
messages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import Session
    from pytest_kwait.clusters.egress import Egress
    from pytest_kwait.clusters.faults import Faults, FaultScope
    from pytest_kwait.clusters.images import Images
    from pytest_kwait.clusters.kubeconfig import Target
    from pytest_kwait.clusters.scripted_pods import ScriptedPods
    from pytest_kwait.clusters.simulator_process import Timing

__all__ = ["TIME_SCALES", "Cluster", "ClusterRequest"]

TIME_SCALES: dict[Timing, float] = {"fast": 0.1, "real": 1.0}
"""Maximum delay of an embedded cluster's controllers by timing, as a fraction of a real cluster's.

Fast pauses are a twentieth; computing time does not shrink, and grace periods leave room for as
much again.
"""

_TIMING_PATH = "/kwait/v1/timing"
"""The path at which administrators read an embedded cluster's timing, and if it has controllers."""


@dataclass(frozen=True)
class ClusterRequest:
    """Settings that choose a cluster, each with its source for messages.

    Args:
        kubeconfig: None if not given.
        context: None for the kubeconfig's current one.
        kubeconfig_source: the source of `kubeconfig`, for example `env KWAIT_KUBECONFIG`.
        context_source: the source of `context`.
        timing: the timing of an embedded cluster.
        timing_source: the source of `timing`; None for the default.
        api_only: whether an embedded cluster is an API server alone.
        api_only_source: the source of `api_only`.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    kubeconfig_source: str | None = None
    context_source: str | None = None
    timing: Timing = "fast"
    timing_source: str | None = None
    api_only: bool = False
    api_only_source: str | None = None


_REQUEST_TIMEOUT = 30.0
"""Seconds for an answer of the server: many runs may start at once."""


_ENDS_WITH_RUN = (
    "the embedded cluster ends with the run; --kwait-artifacts=DIR keeps objects, events and logs "
    "of failed tests"
)


class Cluster:
    """A cluster reached through one context of a kubeconfig.

    Args:
        target: the context.
        provider: the name of its provider.
        time_scale: the duration of its controllers' work relative to a real cluster's.
        has_controllers: False for an API server alone: namespaces get no default objects, and
            are not removed.
    """

    def __init__(
        self,
        target: Target,
        *,
        provider: str,
        time_scale: float = 1.0,
        has_controllers: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.provider = provider
        self.outlook = _ENDS_WITH_RUN if provider == "embedded" else ""
        self.time_scale = time_scale
        self.has_controllers = has_controllers
        self.fault_place: Callable[[], FaultScope] | None = None
        """Returns the test for which faults are created; None outside of tests."""
        self._target = target
        self._clock = clock

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the cluster."""
        return self._target.kubeconfig

    @property
    def context(self) -> str | None:
        """The given context; None for the kubeconfig's current one."""
        return self._target.context if self._target.pinned else None

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self._target.server

    @cached_property
    def version(self) -> str:
        """The API server's version, for example `v1.36.2`; requested once."""
        answer = self._session.server_version(deadline=self._deadline())
        return str(answer.get("gitVersion") or "")

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, sorted; requested once."""
        from pytest_kwait.client.resource import NODES

        listed = self._session.list(NODES, deadline=self._deadline())
        return tuple(sorted(item.object["metadata"]["name"] for item in listed.items))

    @cached_property
    def faults(self) -> Faults:
        """Faults to inject, on an embedded cluster."""
        from pytest_kwait.clusters.faults import Faults, FaultScope

        def place() -> FaultScope:
            return FaultScope() if self.fault_place is None else self.fault_place()

        return Faults(lambda: self._session, self.server, place)

    @cached_property
    def images(self) -> Images:
        """Images that containers run as programs of this machine, on an embedded cluster."""
        from pytest_kwait.clusters.images import Images

        return Images(lambda: self._session, self.server)

    @cached_property
    def egress(self) -> Egress:
        """Hosts and ports outside of the cluster that pods may reach, on an embedded cluster."""
        from pytest_kwait.clusters.egress import Egress

        return Egress(lambda: self._session, self.server)

    def pods(
        self,
        *,
        label: str = "",
        name: str = "",
        container: str = "",
        namespace: str | None = None,
    ) -> ScriptedPods:
        """Script what containers do instead of their commands, on an embedded cluster.

        Args:
            label: a label selector, as `app=web`; empty for all pods.
            name: the name of a pod; empty for all.
            container: the name of a container; empty for all.
            namespace: the pods' namespace; the test's by default.

        Raises:
            InvalidArgument: `label` is not a selector.
        """
        from pytest_kwait.clusters.scripted_pods import script_pods

        return script_pods(self.faults, label, name, container, namespace)

    def client(self) -> ApiClient:
        """Return a new official client for the cluster.

        Raises:
            ClusterError: the kubeconfig's credentials or certificates cannot be used.
        """
        from kubernetes.client import ApiClient, Configuration
        from kubernetes.config import ConfigException, load_kube_config

        from pytest_kwait.client.session import Session
        from pytest_kwait.temp_dir import credentials_folder

        configuration = Configuration()
        if _is_loopback(self._target.server):
            configuration.proxy = None  # as in Go's clients: no proxy for loopback addresses
        try:
            load_kube_config(  # type: ignore[no-untyped-call] # the client has no types here
                str(self.kubeconfig),
                context=self._target.context,
                client_configuration=configuration,
                temp_file_path=credentials_folder(),
            )
        except (ConfigException, OSError, TypeError, ValueError) as error:
            raise ClusterError(
                f"user {self._target.user!r} of {self._place()} cannot be used: {error}"
            ) from error
        if self._target.token_file is not None:
            configuration.refresh_api_key_hook = self._read_token  # type: ignore[assignment] # typed as None
        client = ApiClient(configuration)
        session = Session.of(client)
        session.kubectl_args = self._target.kubectl_args
        session.outlook = self.outlook
        session.time_scale = self.time_scale
        return client

    def check(self) -> None:
        """Request the server's version with our credentials.

        Raises:
            ClusterError: it cannot be reached, or refuses the credentials.
        """
        deadline = self._deadline()
        try:
            # Anonymous users may read /version but not /api.
            self._session.request("GET", "/api", deadline=deadline)
            answer = self._session.server_version(deadline=deadline)
        except DeadlineExceeded as error:
            trouble = f"Timeout: no answer within {_REQUEST_TIMEOUT:g}s"
            raise ClusterError(self._unreachable(trouble)) from error
        except ApiError as error:
            raise ClusterError(self._refusal(error)) from error
        self.__dict__["version"] = str(answer.get("gitVersion") or "")
        if self.provider == "existing":
            self._read_timing(deadline)

    def _read_timing(self, deadline: Deadline) -> None:
        """Read the facts of a cluster that `kwait up` has started; others refuse the path."""
        try:
            answer = self._session.request("GET", _TIMING_PATH, deadline=deadline)
            facts = json.loads(answer.data)
        except (ApiError, DeadlineExceeded, ValueError):
            return
        if isinstance(facts, dict):
            self.time_scale = TIME_SCALES.get(facts.get("timing", ""), 1.0)
            self._session.time_scale = self.time_scale
            self.has_controllers = facts.get("has_controllers", True) is not False

    def stop(self) -> None:
        """Do nothing: the cluster was not started here."""

    @cached_property
    def _session(self) -> Session:
        from pytest_kwait.client.session import Session

        return Session.of(self.client())

    def _deadline(self) -> Deadline:
        return Deadline.after(_REQUEST_TIMEOUT, self._clock)

    def _read_token(self, configuration: Any) -> None:
        """Give the client the current token; the client itself reads the file only once."""
        file = self._target.token_file
        if file is not None:
            token = file.read_text(encoding="utf-8").strip()
            configuration.api_key["BearerToken"] = f"Bearer {token}"

    def _place(self) -> str:
        return f"context {self._target.context!r} in kubeconfig {self.kubeconfig}"

    def _kubectl(self, command: str) -> str:
        return " ".join(("kubectl", *self._target.kubectl_args, command))

    def _unreachable(self, trouble: str) -> str:
        return (
            f"server {self.server} of {self._place()} cannot be reached: {trouble}; "
            f"is it running, and is this the context you mean? To look: {self._kubectl('version')}"
        )

    def _refusal(self, error: ApiError) -> str:
        user = f"user {self._target.user!r}" if self._target.user else "a client without a user"
        start = f"server {self.server} of {self._place()}"
        if error.reason == "TLS":
            return (
                f"{start} and we do not trust each other (TLS: {error.message}); look at the "
                f"certificates of the cluster and of {user}: they are not the server's, broken, or "
                "out of date"
            )
        if error.status == 0:
            return self._unreachable(f"{error.reason}: {error.message}")
        if error.status == 401:
            return (
                f"{start} does not know {user} (401 Unauthorized): the credentials are wrong or "
                f"have expired; renew them until this works: {self._kubectl('get --raw /api')}"
            )
        if error.status == 403:
            return (
                f"{start} does not let {user} in (403 Forbidden: {error.message}); give it the "
                f"cluster role system:discovery, or credentials that have it"
            )
        return f"{start} does not answer as an API server does: {error}"


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")

"""A cluster reached through a kubeconfig: client, version, nodes, access check.

`ClusterRequest` has the settings that a cluster is chosen by, each with its source for
messages.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn
from urllib.parse import urlsplit

from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from kubernetes.client import ApiClient, Configuration

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clusters.egress import Egress
    from pytest_kwait.clusters.exploration import ExplorationControl
    from pytest_kwait.clusters.faults import Faults, FaultScope
    from pytest_kwait.clusters.images import Images
    from pytest_kwait.clusters.kubeconfig import RestConfig
    from pytest_kwait.clusters.node_table import RequestedNodes
    from pytest_kwait.clusters.scripted_pods import ScriptedPods
    from pytest_kwait.simulator.protocol.options import RequestedIsolation, Timing

_HISTORY_PATH = "/kwait/v1/history"
"""The path at which administrators let an embedded cluster record its history."""

_ISOLATION_PATH = "/kwait/v1/isolation/refusal"
"""The path at which administrators read why programs in pods are not isolated."""

_NOT_EMBEDDED = (403, 404, 405)
"""Answers of other servers to the paths of an embedded cluster."""
_REQUEST_TIMEOUT = 30.0
"""Seconds for an answer of the server: many runs may start at once."""

_OUTLOOK = "the {} ends with the run; {} objects, events and logs of failed tests"

_TITLES = {"binaries": "control plane of binaries"}


@dataclass(frozen=True)
class ClusterRequest:
    """Settings that choose a cluster, each with its source for messages.

    Args:
        kubeconfig: None if not given.
        context: None for the kubeconfig's current one.
        timing: the timing of an embedded cluster.
        api_only: whether an embedded cluster is an API server alone.
        isolation: the isolation of programs in the pods of an embedded cluster.
        load_balancers: whether services of an embedded cluster get load balancers.
        nodes: the nodes of an embedded cluster, or of our controllers.
        controllers: whether a control plane of binaries has our controllers, scheduler and nodes.
        run: the name of the run, of which a new cluster's name is made.
        assets: the folder of etcd and kube-apiserver; None to look in the usual places.
        cluster_name: the name of a cluster to use or to create; None for a new one.
        keep_cluster: which clusters that the run has created are kept.
        node_image: the image of a new cluster's nodes; None for the program's own.
        cluster_config: the configuration file of a new cluster; None for none.
        cluster_args: further arguments of the command that creates a cluster.
        load_image: images of this machine to load into the nodes.
        sources: the source of each given setting, for example `env KWAIT_KUBECONFIG`.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    timing: Timing = "fast"
    api_only: bool = False
    isolation: RequestedIsolation = "auto"
    load_balancers: bool = False
    nodes: RequestedNodes = 2
    controllers: bool = False
    run: str = ""
    assets: Path | None = None
    cluster_name: str | None = None
    keep_cluster: Literal["never", "failed", "always"] = "never"
    node_image: str | None = None
    cluster_config: Path | None = None
    cluster_args: tuple[str, ...] = ()
    load_image: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def source(self, name: str) -> str | None:
        """Return the source of a setting; None for the default."""
        return self.sources.get(name)

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raise InvalidArgument for the value of a setting."""
        value = getattr(self, name)
        # A path and a table of nodes have a text.
        is_plain = value is None or isinstance(value, (str, int, tuple))
        text = value if is_plain else str(value)
        raise InvalidArgument(name, text, why, self.source(name))


def refuse_kubeconfig(request: ClusterRequest, title: str) -> None:
    """Refuse a kubeconfig or context where a cluster brings its own.

    Raises:
        InvalidArgument: one is given.
    """
    for name in ("kubeconfig", "context"):
        if getattr(request, name) is not None:
            request.refuse(name, f"{title} brings its own; use --kwait-cluster=existing with it")


def refuse_nodes(request: ClusterRequest, why: str) -> None:
    """Refuse an option with nodes where there are none; environment and ini serve other runs too.

    Raises:
        InvalidArgument: the option is given.
    """
    if (request.source("nodes") or "").startswith("option "):
        request.refuse("nodes", why)


class RecordedHistory(NamedTuple):
    """The journals of a cluster's history.

    Args:
        version: the version of the cluster.
        trouble: why writing stopped; empty while it works.
    """

    version: str
    trouble: str


class Cluster:
    """A cluster reached through one context of a kubeconfig.

    Args:
        target: the context.
        provider: the name of its provider.
        time_scale: the duration of its controllers' work relative to a real cluster's.
        has_controllers: False for an API server alone: namespaces get no default objects, and
            are not removed.
        ends_with_run: whether it is this run's alone, and nothing of it outlives the run.
    """

    def __init__(
        self,
        target: RestConfig,
        *,
        provider: str,
        time_scale: float = 1.0,
        has_controllers: bool = True,
        ends_with_run: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.provider = provider
        self.ends_with_run = ends_with_run
        self.is_monitored = False
        """True if its process is monitored and its end ends waits."""
        self.time_scale = time_scale
        self.has_controllers = has_controllers
        self.fault_place: Callable[[], FaultScope] | None = None
        """Returns the test for which faults are created; None outside of tests."""
        self.artifacts = ""
        """The folder that keeps what failed tests leave; empty if nothing is kept."""
        self._target = target
        self._clock = clock
        self._loaded: tuple[tuple[int, int], Configuration] | None = None

    @property
    def title(self) -> str:
        """The cluster in messages, for example `embedded cluster`."""
        return _TITLES.get(self.provider, f"{self.provider} cluster")

    @property
    def outlook(self) -> str:
        """The place of more about a cluster that ends with the run; empty for other clusters."""
        if not self.ends_with_run:
            return ""
        clause = f"{self.artifacts} has" if self.artifacts else "--kwait-artifacts=DIR keeps"
        return _OUTLOOK.format(self.title, clause)

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

    def find_isolation_refusal(self, *parts: str) -> str:
        """Return why programs in pods share the machine's network and files.

        Args:
            parts: of `ISOLATED_PARTS`: the reason may also be that programs lack one of these.

        Returns:
            Empty if they are isolated, and on a cluster that is not an embedded one.
        """
        lacking = self._isolation.get("lacking", {})
        reasons = (self._isolation["refusal"], *(lacking.get(part, "") for part in parts))
        return next((reason for reason in reasons if reason), "")

    @cached_property
    def _isolation(self) -> Mapping[str, Any]:
        """The isolation of programs; requested once."""
        try:
            answer = self._session.request("GET", _ISOLATION_PATH, deadline=self._deadline())
        except ApiError as error:
            if error.status in _NOT_EMBEDDED:
                return {"refusal": ""}
            raise
        found: Mapping[str, Any] = json.loads(answer.data)
        return found

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

    @cached_property
    def exploration(self) -> ExplorationControl:
        """Perturbations under a seed, on an embedded cluster."""
        from pytest_kwait.clusters.exploration import ExplorationControl

        return ExplorationControl(lambda: self._session, self.server)

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
        from kubernetes.client import ApiClient

        from pytest_kwait.client.session import ApiSession

        configuration = self._configuration()
        if self._target.token_file is not None:
            configuration.refresh_api_key_hook = self._read_token  # type: ignore[assignment] # typed as None
        client = ApiClient(configuration)
        session = ApiSession.of(client)
        session.kubectl_args = self._target.kubectl_args
        session.outlook = self.outlook
        session.time_scale = self.time_scale
        if self._target.impersonation is not None:
            from pytest_kwait.client.impersonation import impersonate

            impersonate(client, self._target.impersonation)
        return client

    def _configuration(self) -> Configuration:
        """Return a configuration of its own for a new client.

        The file is read again once it has changed, and for each client whose credentials are
        renewed: parsing it takes longer than most requests.
        """
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, load_kube_config

        stamp = _stamp_of(self.kubeconfig)
        if self._loaded is not None and self._loaded[0] == stamp:
            return deepcopy(self._loaded[1])
        configuration = Configuration()
        if _is_loopback(self._target.server):
            configuration.proxy = None  # as in Go's clients: no proxy for loopback addresses
        try:
            load_kube_config(  # type: ignore[no-untyped-call] # the client has no types here
                str(self.kubeconfig),
                context=self._target.context,
                client_configuration=configuration,
                temp_file_path=self._credentials_folder(),
            )
        except (ConfigException, OSError, TypeError, ValueError) as error:
            raise ClusterError(
                f"user {self._target.user!r} of {self._place()} cannot be used: {error}"
            ) from error
        if self._target.is_static and stamp is not None:
            self._loaded = stamp, deepcopy(configuration)
        return configuration

    def _credentials_folder(self) -> str:
        """Return the folder in which the official client writes certificates and keys."""
        from pytest_kwait.temp_dir import credentials_folder

        return credentials_folder()

    def as_other_user(self, target: RestConfig) -> Cluster:
        """Return this cluster with the credentials of another user.

        Requests for administrators alone, for example for faults, keep this one's credentials.

        Args:
            target: the context of the other user.
        """
        other = Cluster(
            target,
            provider=self.provider,
            time_scale=self.time_scale,
            has_controllers=self.has_controllers,
            ends_with_run=self.ends_with_run,
            clock=self._clock,
        )
        other.is_monitored = self.is_monitored
        other.fault_place = self.fault_place
        other.artifacts = self.artifacts
        other._session = self._session
        return other

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
        # Embedded clusters say so in each answer, those of `kwait up` as well.
        self.time_scale = self._session.time_scale
        self.has_controllers = self.has_controllers and self._session.has_controllers

    def record_history(self, folder: Path) -> RecordedHistory | None:
        """Let an embedded cluster keep journals of its objects in a folder.

        Called again, it writes them up to now.

        Args:
            folder: the folder on this machine; created if needed.

        Returns:
            the state of the journals; None for a cluster that keeps none.

        Raises:
            ApiError: it cannot be reached.
        """
        try:
            answer = self._session.request(
                "POST", _HISTORY_PATH, body={"folder": str(folder)}, deadline=self._deadline()
            )
        except ApiError as error:
            if error.status in _NOT_EMBEDDED:
                return None
            raise
        facts = json.loads(answer.data)
        return RecordedHistory(str(facts["version"]), str(facts["trouble"]))

    def stop(self) -> None:
        """Do nothing: the cluster was not started here."""

    def keep(self) -> None:
        """Keep the cluster beyond `stop`, where its provider can."""

    def export_logs(self, folder: Path) -> str:
        """Write logs of the cluster's own components into a new folder.

        Returns:
            the problem, if there was one.
        """
        return ""

    def notes(self) -> list[str]:
        """Return lines about the cluster for the end of the run."""
        return []

    @cached_property
    def _session(self) -> ApiSession:
        from pytest_kwait.client.session import ApiSession

        return ApiSession.of(self.client())

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


def _stamp_of(file: Path) -> tuple[int, int] | None:
    """Return the time and size of a file, which change with its contents."""
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")

"""The control plane of binaries: etcd and kube-apiserver of envtest, as processes of this machine.

As in envtest there are no controllers, no scheduler and no nodes, unless the embedded cluster's are
requested: `pytest_kwait.remote`, a third process.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.client.availability import reset_availability
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.clusters.cluster import (
    Cluster,
    ClusterRequest,
    refuse_kubeconfig,
    refuse_nodes,
)
from pytest_kwait.clusters.kubeconfig import expand_home, read_kubeconfig
from pytest_kwait.clusters.node_table import nodes_of
from pytest_kwait.clusters.simulator_process import (
    ProcessMonitor,
    describe_exit,
    python_environment,
)
from pytest_kwait.clusters.supervisor import describe
from pytest_kwait.errors import ClusterError
from pytest_kwait.simulator.protocol.nodes import count_nodes, node_address
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from pytest_kwait.temp_dir import TempDir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.protocol.nodes import Nodes

_PROGRAMS = ("etcd", "kube-apiserver")
_CONTROLLERS = "controllers"
"""The name of the embedded cluster's controllers among the programs."""
_DEFAULT_FOLDER = Path("/usr/local/kubebuilder/bin")
"""Source: controller-runtime pkg/internal/testing/process/bin_path_finder.go."""

_START_TIMEOUT = 60.0
"""Maximum seconds of a start; it needs three to five."""
_END_TIMEOUT = 5.0
_ATTEMPTS = 3
"""Starts before it is an error that another process has taken a port first."""

_PAUSE = 0.05
_LOG_LINES = 15
_PORTS = range(20000, 30000)
"""Below the ports of outgoing connections, which could take one meanwhile."""

_CONTROLLERS_COMMAND = (sys.executable, "-P", "-m", "pytest_kwait.remote")
_READY_FILE = "controllers.ready"
_OPTIONS_FILE = "controllers.json"
_EGRESS_FILE, _TUNNEL_SOCKET = "egress.json", "tunnel"
_ETCD_CLIENT, _ETCD_PEER = "unix://etcd:1", "unix://etcd:2"
"""Sockets in the private folder, in which both programs run; they start sooner than with TLS.

etcd wants `host:port` for names.
"""
_SERVICES = "10.0.0.0/24"
_SERVICES_WITH_CONTROLLERS = "10.0.0.0/16"
"""The range of the embedded cluster, whose DNS server has an address in it."""
_ADMIN = "kubernetes-admin"
_HOSTS = (
    "127.0.0.1",
    "localhost",
    "10.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


def find_assets(
    request: ClusterRequest, environ: Mapping[str, str], default: Path = _DEFAULT_FOLDER
) -> dict[str, Path]:
    """Return the programs by name: of the setting, else where envtest looks for them.

    Args:
        default: the folder where envtest looks last.

    Raises:
        ClusterError: one is not there or cannot be executed.

    Source: controller-runtime pkg/internal/testing/process/bin_path_finder.go.
    """
    if request.assets is not None:
        folder, source = request.assets, request.source("assets") or "argument assets"
    elif environ.get("KUBEBUILDER_ASSETS"):
        folder, source = Path(environ["KUBEBUILDER_ASSETS"]), "env KUBEBUILDER_ASSETS"
    else:
        folder, source = default, "envtest's default"
    paths = {}
    for name in _PROGRAMS:
        path, origin = folder / name, source
        variable = "TEST_ASSET_" + name.upper().replace("-", "_")
        if request.assets is None and environ.get(variable):
            path, origin = Path(environ[variable]), f"env {variable}"
        path = expand_home(path, f"{name} {path} (from {origin})").absolute()
        if not path.is_file() or not os.access(path, os.X_OK):
            problem = "is not there" if not path.exists() else "is not a program"
            raise ClusterError(
                f"{name} {problem}: {path} (from {origin}); give the folder of etcd and "
                "kube-apiserver with --kwait-assets=DIR or KUBEBUILDER_ASSETS, for example "
                'export KUBEBUILDER_ASSETS="$(setup-envtest use -p path)"'
            )
        paths[name] = path
    return paths


class BinariesCluster(Cluster):
    """A control plane of etcd and kube-apiserver, which ends with this process."""

    def __init__(self, plane: _ControlPlane, folder: TempDir, clock: Clock) -> None:
        target = read_kubeconfig(folder.path / "kubeconfig").target()
        super().__init__(
            target,
            provider=BinariesProvider.name,
            has_controllers=plane.has_controllers,
            ends_with_run=True,
            clock=clock,
        )
        self._plane = plane
        self._folder = folder
        self.is_monitored = True
        availability = reset_availability(target.server)
        availability.is_watched = True
        self._monitor = ProcessMonitor(
            plane, target.server, availability.report_problem, title="the control plane of binaries"
        )
        self._monitor.start()

    @property
    def pid(self) -> int:
        """The id of the process that supervises them."""
        return self._plane.pid

    def stop(self) -> None:
        """End both programs and remove their folder; may be called again."""
        self._monitor.stop()
        self._plane.stop()
        self._folder.remove()

    def export_logs(self, folder: Path) -> str:
        """Copy the logs of the programs."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in self._plane.programs:
            log = self._folder.path / f"{name}.log"
            (folder / log.name).write_bytes(log.read_bytes())
        return ""


class BinariesProvider:
    """Starts etcd and kube-apiserver.

    Args:
        request: the folder of the programs, if given.
        environ: the environment; the process's own by default.

    Raises:
        InvalidArgument: a kubeconfig or context is given, both `api_only` and `controllers`, or
            nodes without controllers.
        ClusterError: a program is not there.
    """

    name = "binaries"
    context = None
    """None: a new cluster has no existing context."""

    def __init__(
        self,
        request: ClusterRequest,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        refuse_kubeconfig(request, "the control plane of binaries")
        if request.controllers and request.api_only:
            why = "with --kwait-api-only there are none; leave one of both out"
            request.refuse("controllers", why)
        if not request.controllers:
            refuse_nodes(request, "there are none without --kwait-controllers")
        self._nodes = nodes_of(request.nodes) if request.controllers else 0
        self._has_controllers = request.controllers
        self._assets = find_assets(request, os.environ if environ is None else environ)
        self._clock = clock

    def start(self) -> BinariesCluster:
        """Start the programs and return the cluster once it is ready.

        That is: the API server is ready, and with controllers the nodes are.

        Raises:
            ClusterError: a program ended, or did not become ready; with its last lines.
        """
        for attempt in range(_ATTEMPTS):
            folder = TempDir()
            plane: _ControlPlane | None = None
            try:
                plane = _ControlPlane(
                    self._assets,
                    folder.path,
                    has_controllers=self._has_controllers,
                    nodes=self._nodes,
                )
                plane.await_ready(Deadline.after(_START_TIMEOUT, self._clock))
                return BinariesCluster(plane, folder, self._clock)
            except BaseException as error:  # leave nothing behind on an interrupt
                if plane is not None:
                    plane.stop()
                folder.remove()
                is_taken = isinstance(error, _PortTakenError) and attempt + 1 < _ATTEMPTS
                if not is_taken:
                    raise
        raise AssertionError("the last attempt returns or raises")


class _PortTakenError(ClusterError):
    """Another process listens on a port that was free before."""


class _ControlPlane:
    """The programs and their supervisor, started; see `supervisor`.

    Args:
        assets: the programs by name.
        folder: a private folder for their files, which the supervisor removes too.
        has_controllers: whether the embedded cluster's controllers are one of the programs.
        nodes: the nodes of these controllers.
    """

    def __init__(
        self,
        assets: Mapping[str, Path],
        folder: Path,
        *,
        has_controllers: bool = False,
        nodes: Nodes = 0,
    ) -> None:
        self.has_controllers = has_controllers
        self._nodes = nodes
        self._folder = folder
        self._starter = os.getpid()
        self._port = _free_port()
        self.server = f"https://127.0.0.1:{self._port}"
        self._write_certificates()
        commands = {
            "etcd": [str(assets["etcd"]), *self._etcd_flags()],
            "kube-apiserver": [str(assets["kube-apiserver"]), *self._server_flags()],
        }
        if has_controllers:
            commands[_CONTROLLERS] = [*_CONTROLLERS_COMMAND, *self._controllers_flags()]
        self.programs = tuple(commands)
        """The names of the programs."""
        self._owner: int | None = None
        owner_end, self._owner = os.pipe()
        script = str(Path(__file__).with_name("supervisor.py"))
        description = describe(commands, str(folder), owner_end)
        try:
            with (folder / "supervisor.log").open("wb") as log:
                self._process = subprocess.Popen(  # noqa: S603 - our own script
                    [sys.executable, "-I", "-S", script, description],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[owner_end],
                    cwd=folder,
                    env=python_environment() if has_controllers else None,
                    start_new_session=True,  # Ctrl-C is for the owner, which still needs both
                )
        except OSError as error:
            self._let_go()
            raise ClusterError(f"etcd and kube-apiserver cannot be started: {error}") from error
        finally:
            os.close(owner_end)

    @property
    def pid(self) -> int:
        """The id of the supervisor."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status of the supervisor; None before its end."""
        return self._process.poll()

    def tail(self) -> str:
        """Return what the supervisor has reported, and the last lines of the program that ended."""
        report = self._read("supervisor.log")
        name = report.partition(" ")[0]
        log = self._read(f"{name}.log") if name in self.programs else ""
        return "\n".join(filter(None, (*log.splitlines()[-_LOG_LINES:], report.strip())))

    def stop(self) -> None:
        """End both programs; no-op in a fork of the owner."""
        if os.getpid() != self._starter or not self._let_go():
            return
        try:
            code = self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            return
        if code < 0:
            # A supervisor that was killed has left them where the system does not end them.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def await_ready(self, deadline: Deadline) -> None:
        """Return once the API server is ready, and with controllers their nodes.

        Raises:
            ClusterError: it is not within the deadline, or a program has ended.
        """
        context = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        context.load_cert_chain(self._folder / "admin.crt", self._folder / "admin.key")
        # One for all requests: a handshake each time would take the time of the starting server.
        with closing(
            http.client.HTTPSConnection("127.0.0.1", self._port, timeout=5.0, context=context)
        ) as connection:
            self._poll_readiness(connection, deadline)

    def _poll_readiness(self, connection: http.client.HTTPSConnection, deadline: Deadline) -> None:
        answer = ""
        ready = self._folder / _READY_FILE
        while True:
            if (code := self.poll()) is not None:
                text = self.tail()
                problem = f"the control plane of binaries did not start ({describe_exit(code)})"
                raise (_PortTakenError if "address already in use" in text else ClusterError)(
                    f"{problem}:\n{text}"
                )
            if answer != "ok":
                answer = self._request_readiness(connection) or answer
            if answer == "ok" and (not self.has_controllers or ready.exists()):
                return
            if deadline.expired:
                name, problem = "kube-apiserver", answer.strip() or "it did not answer"
                if answer == "ok":
                    name, problem = _CONTROLLERS, "no node is Ready"
                last = "\n".join(self._read(f"{name}.log").splitlines()[-_LOG_LINES:])
                raise ClusterError(
                    f"{name} was not ready within {_START_TIMEOUT:g}s: {problem}\n{last}".rstrip()
                )
            deadline.clock.sleep(_PAUSE)

    def _request_readiness(self, connection: http.client.HTTPSConnection) -> str:
        try:
            # Connects again if the server has closed it.
            connection.request("GET", "/readyz")
            return connection.getresponse().read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            connection.close()
            return ""

    def _write_certificates(self) -> None:
        # Imported on use: it is slow, and the other providers do without it.
        import trustme

        from pytest_kwait.simulator.protocol.kubeconfig import write_kubeconfig
        from pytest_kwait.simulator.protocol.options_json import write_options

        authority = trustme.CA()
        self._write("ca.crt", authority.cert_pem.bytes())
        issued = {
            "server": authority.issue_cert(*_HOSTS, common_name="kube-apiserver"),
            "tokens": authority.issue_cert("localhost", common_name="service-accounts"),
            # Go refuses a certificate whose critical list of names is empty.
            "admin": authority.issue_cert(
                "localhost", common_name=_ADMIN, organization_name="system:masters"
            ),
        }
        if self.has_controllers:
            numbers = range(1, count_nodes(self._nodes) + 1)
            issued["kubelet"] = authority.issue_cert(
                *map(node_address, numbers), common_name="kubelet"
            )
            self._write(_OPTIONS_FILE, write_options(EmbeddedOptions(nodes=self._nodes)))
            self._write("ca.key", authority.private_key_pem.bytes())
            self._write(_EGRESS_FILE, json.dumps(self._describe_egress()).encode())
        for name, certificate in issued.items():
            self._write(f"{name}.crt", certificate.cert_chain_pems[0].bytes())
            self._write(f"{name}.key", certificate.private_key_pem.bytes())
        admin = issued["admin"]
        pair = (
            admin.cert_chain_pems[0].bytes().decode(),
            admin.private_key_pem.bytes().decode(),
        )
        authority_pem = authority.cert_pem.bytes().decode()
        write_kubeconfig(
            self._folder / "kubeconfig", self.server, authority_pem, {}, {_ADMIN: pair}
        )

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={_ETCD_CLIENT}",
            f"--advertise-client-urls={_ETCD_CLIENT}",
            f"--listen-peer-urls={_ETCD_PEER}",
            f"--initial-advertise-peer-urls={_ETCD_PEER}",
            f"--initial-cluster=default={_ETCD_PEER}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _server_flags(self) -> list[str]:
        """Source: controller-runtime pkg/internal/testing/controlplane/apiserver.go."""
        folder = self._folder
        return [
            f"--etcd-servers={_ETCD_CLIENT}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # It refuses to write a loopback address into the Service "kubernetes".
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._port}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            "--authorization-mode=RBAC",
            # Without controllers nothing creates the service accounts that it asks for.
            *([] if self.has_controllers else ["--disable-admission-plugins=ServiceAccount"]),
            f"--service-account-key-file={folder / 'tokens.key'}",
            f"--service-account-signing-key-file={folder / 'tokens.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range="
            f"{_SERVICES_WITH_CONTROLLERS if self.has_controllers else _SERVICES}",
            "--allow-privileged",
            *(self._kubelet_flags() if self.has_controllers else ()),
        ]

    def _describe_egress(self) -> dict[str, object]:
        """Return the way of kube-apiserver to nodes and pods: see `remote.tunnel`."""
        socket_name = str(self._folder / _TUNNEL_SOCKET)
        connection = {
            "proxyProtocol": "HTTPConnect",
            "transport": {"uds": {"udsName": socket_name}},
        }
        return {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }

    def _kubelet_flags(self) -> list[str]:
        """Return how kube-apiserver connects to kubelets."""
        return [
            "--kubelet-preferred-address-types=InternalIP",
            f"--egress-selector-config-file={self._folder / _EGRESS_FILE}",
            f"--kubelet-certificate-authority={self._folder / 'ca.crt'}",
            f"--kubelet-client-certificate={self._folder / 'admin.crt'}",
            f"--kubelet-client-key={self._folder / 'admin.key'}",
        ]

    def _controllers_flags(self) -> list[str]:
        folder = self._folder
        return [
            f"--server={self.server}",
            f"--certificate-authority={folder / 'ca.crt'}",
            f"--client-certificate={folder / 'admin.crt'}",
            f"--client-key={folder / 'admin.key'}",
            f"--service-account-private-key-file={folder / 'tokens.key'}",
            f"--tls-cert-file={folder / 'kubelet.crt'}",
            f"--tls-private-key-file={folder / 'kubelet.key'}",
            f"--cluster-signing-key-file={folder / 'ca.key'}",
            f"--tunnel={folder / _TUNNEL_SOCKET}",
            f"--options-file={folder / _OPTIONS_FILE}",
            f"--ready-file={folder / _READY_FILE}",
        ]

    def _let_go(self) -> bool:
        """Close the pipe to the supervisor; return whether it was open."""
        if self._owner is None:
            return False
        os.close(self._owner)
        self._owner = None
        return True

    def _read(self, file: str) -> str:
        try:
            return (self._folder / file).read_text(encoding="utf-8", errors="replace")
        except OSError:  # not written yet, or removed already
            return ""

    def _write(self, file: str, data: bytes) -> None:
        path = self._folder / file
        path.touch(mode=0o600)
        path.write_bytes(data)


def _free_port() -> int:
    """Return a port of loopback on which nothing listens."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ClusterError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free")

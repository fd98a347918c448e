"""The embedded cluster as a program: its controllers, scheduler, kubelets and API server.

    python -m pytest_kwait.simulator --kubeconfig FILE --options-fd 3 3<<<'{"nodes": 2}'

It writes the kubeconfig when its nodes are Ready, reports that on `--ready-fd`, and ends when
`--owner-fd` closes, on SIGTERM or on SIGINT. Controllers of kube-apiserver itself run without the
others in a cluster that is an API server alone. Controllers that few tests need are imported and
started with the first object of their kinds.

Source: cmd/kube-controller-manager/app/controllermanager.go, pkg/controlplane/instance.go.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import fcntl
import gc
import hashlib
import ipaddress
import os
import resource
import secrets
import shutil
import signal
import socket
import struct
import sys
from asyncio.sslproto import SSLProtocol
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.simulator.admission.volume_claims import STANDARD_CLASS
from pytest_kwait.simulator.apiserver.filters import ADMINS, StaticTokens
from pytest_kwait.simulator.apiserver.flow_schema_status import (
    FLOW_SCHEMAS,
    FlowSchemaStatusController,
    is_bootstrap_schema,
)
from pytest_kwait.simulator.apiserver.server import ApiServer
from pytest_kwait.simulator.authentication.pki import (
    FRONT_PROXY_USER,
    CertificateAuthority,
)
from pytest_kwait.simulator.clock import FAST, REAL, SimClock
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.controllers.clusterrole_aggregation import (
    ClusterRoleAggregationController,
)
from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
from pytest_kwait.simulator.controllers.embedded_scheduler import EmbeddedScheduler
from pytest_kwait.simulator.controllers.garbage_collector import (
    EventTTL,
    GarbageCollector,
    PodGCController,
    TTLAfterFinishedController,
)
from pytest_kwait.simulator.controllers.kubernetes_service import (
    IPAddressController,
    ServiceCIDRController,
)
from pytest_kwait.simulator.controllers.namespace import (
    NamespaceController,
    NamespaceDefaults,
    TokensController,
)
from pytest_kwait.simulator.controllers.node_lifecycle import NodeTaintController
from pytest_kwait.simulator.fake_metrics import USAGE
from pytest_kwait.simulator.kubelet.kubelet import Kubelet
from pytest_kwait.simulator.kubelet.server import KubeletServer
from pytest_kwait.simulator.network.cluster_names import is_kubernetes_service
from pytest_kwait.simulator.objects import annotations_of, clone, name_of, namespace_of, new_uid
from pytest_kwait.simulator.protocol.addresses import CLUSTER_DNS_ADDRESS
from pytest_kwait.simulator.protocol.egress import EgressTargets
from pytest_kwait.simulator.protocol.image_mapping import ImageMappings
from pytest_kwait.simulator.protocol.kubeconfig import write_kubeconfig
from pytest_kwait.simulator.protocol.options import HOST, EmbeddedOptions
from pytest_kwait.simulator.protocol.options_json import read_options
from pytest_kwait.simulator.protocol.static_users import (
    parse_users,
    read_token_file,
)
from pytest_kwait.simulator.request_info import User, internal_caller, server_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

# Seconds after the start.
_START_DELAY = 1.0

_SYSTEM_NAMESPACE = "kube-system"
_IDENTITY_RENEW_SECONDS = 10.0


_DNS_SERVICE: Obj = {
    "metadata": {
        "name": "kube-dns",
        "labels": {
            "k8s-app": "kube-dns",
            "kubernetes.io/cluster-service": "true",
            "kubernetes.io/name": "CoreDNS",
        },
    },
    "spec": {
        "clusterIP": CLUSTER_DNS_ADDRESS,
        "selector": {"k8s-app": "kube-dns"},
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        ],
    },
}
"""The service of the DNS server, which runs in no pod. Source: kubeadm, addons/dns/manifests.go."""
_CONTROL_PLANE_ADDRESS = "172.30.0.1"
"""The address of a server that listens on the loopback interface alone."""
_OUTSIDE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses of no machine, RFC 5737 and 3849."""
_OUTSIDE_PORT = 9
_SIOCGIFADDR = 0x8915
_INTERFACE_REQUEST, _INTERFACE_ADDRESS = struct.Struct("256s"), slice(20, 24)
"""The kernel's `struct ifreq` with a name, and the place of the IPv4 address in its answer."""
_SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""The names by which pods reach the server."""
_READY_TIMEOUT = 30.0
_READ_BUFFER = 16 * 1024
_MAX_OPEN_FILES = 65_536
_GC_THRESHOLDS = (10_000, 20, 50)

_DISABLED_PLUGINS = ("ServiceAccount",)
"""Admission plugins that an API server alone goes without, as in envtest.

No controller creates the account that the plugin requires of every pod.
"""


def start_components(
    cluster: Cluster, *, nodes: int, authority: tuple[bytes, bytes] | None = None
) -> None:
    """Start the controllers, the scheduler and the kubelets of `nodes` nodes.

    When this returns, nodes are Ready and namespaces have their defaults.

    Args:
        nodes: their number.
        authority: the certificate and key that sign certificates, as PEM; None to sign none.
    """
    start_server_controllers(cluster)
    start_controllers(cluster, nodes=nodes, authority=authority)


def start_controllers(
    cluster: Cluster, *, nodes: int, authority: tuple[bytes, bytes] | None = None
) -> None:
    """Start what does not belong to kube-apiserver; see `start_components`."""
    # No part of a server, but of every kind of cluster that people test on.
    unowned = internal_caller("")
    cluster.create("storageclasses.storage.k8s.io", clone(STANDARD_CLASS), caller=unowned)
    cluster.create("services", clone(_DNS_SERVICE), _SYSTEM_NAMESPACE, caller=unowned)
    NamespaceDefaults(cluster)
    NamespaceController(cluster)
    ClusterRoleAggregationController(cluster)
    TokensController(cluster)
    TTLAfterFinishedController(cluster)
    GarbageCollector(cluster)
    NodeTaintController(cluster)
    PodGCController(cluster)
    ServiceCIDRController(cluster)
    EmbeddedScheduler(cluster)
    _start_kubelets(cluster, nodes)
    _start_on_first_object(cluster)
    if authority is not None:
        _start_signer(cluster, authority)
    # The cluster is ready without them: their imports must not delay its start.
    cluster.clock.call_later(_START_DELAY, _start_node_lifecycle, cluster)


def _start_kubelets(cluster: Cluster, nodes: int) -> None:
    """Start the kubelets; their Nodes are Ready when this returns.

    One subscription serves them all, so a pod's change costs the same with any number of nodes.
    """
    kubelets: dict[str, Kubelet] = {}
    for number in range(1, nodes + 1):
        name = f"kwait-node-{number}"
        kubelets[name] = Kubelet(cluster, name, number)
    for kubelet in kubelets.values():
        kubelet.peers = kubelets
        kubelet.register()
        cluster.kubelets[kubelet.name] = KubeletServer(kubelet)
        cluster.faults.nodes[kubelet.name] = kubelet.node_faults

    def pod_changed(change: str, new: Obj, _: Obj | None) -> None:
        kubelet = kubelets.get(new["spec"].get("nodeName") or "")
        if kubelet is not None:
            kubelet.on_pod_changed(change, new)

    cluster.subscribe("pods", pod_changed)


def start_server_controllers(cluster: Cluster) -> None:
    """Start the controllers that run within kube-apiserver."""
    EventTTL(cluster)
    _create_config_maps(cluster)
    _hold_identity_lease(cluster)
    IPAddressController(cluster)
    _on_first_object(
        cluster,
        (FLOW_SCHEMAS,),
        lambda: _start_flow_schema_status(cluster),
        lambda new: not is_bootstrap_schema(new),
    )
    cluster.clock.call_later(_START_DELAY, _start_aggregator, cluster)


def _start_flow_schema_status(cluster: Cluster) -> None:
    FlowSchemaStatusController(cluster)


def _create_config_maps(cluster: Cluster) -> None:
    """Create the ConfigMaps of client authentication and of the use of legacy tokens.

    Source: pkg/controlplane/controller/clusterauthenticationtrust,
    pkg/controlplane/controller/legacytokentracking.
    """
    for name, data in (
        (
            "extension-apiserver-authentication",
            {
                "client-ca-file": cluster.root_ca,
                "requestheader-allowed-names": f'["{FRONT_PROXY_USER}"]',
                "requestheader-client-ca-file": cluster.front_proxy.authority,
                "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
                "requestheader-group-headers": '["X-Remote-Group"]',
                "requestheader-uid-headers": '["X-Remote-Uid"]',
                "requestheader-username-headers": '["X-Remote-User"]',
            },
        ),
        (
            "kube-apiserver-legacy-service-account-token-tracking",
            {"since": cluster.clock.stamp().partition("T")[0]},
        ),
    ):
        obj = {"metadata": {"name": name}, "data": data}
        cluster.create("configmaps", obj, _SYSTEM_NAMESPACE, caller=server_caller())


def _hold_identity_lease(cluster: Cluster) -> None:
    """Create the Lease of the API server and renew it.

    Source: k8s.io/apiserver pkg/server/config.go, pkg/controlplane/apiserver/server.go,
    k8s.io/component-helpers apimachinery/lease/controller.go.
    """
    host = socket.gethostname()
    parts = b"".join(
        len(part).to_bytes(2, "big") + part for part in (host.encode(), b"kube-apiserver")
    )
    digest = base64.b32encode(hashlib.sha256(parts).digest()[:16])
    name = f"apiserver-{digest.decode().rstrip('=').lower()}"
    labels = {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": host}
    spec = {
        "holderIdentity": f"{name}_{new_uid()}",
        "leaseDurationSeconds": 3600,
        "renewTime": cluster.clock.micro_stamp(),
    }
    lease = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    resource = "leases.coordination.k8s.io"
    cluster.create(resource, clone(lease), _SYSTEM_NAMESPACE, caller=server_caller())

    def renew() -> None:
        if not cluster.renew(_SYSTEM_NAMESPACE, name):
            again = clone(lease)
            again["spec"]["renewTime"] = cluster.clock.micro_stamp()
            cluster.create(resource, again, _SYSTEM_NAMESPACE, caller=server_caller())
        cluster.clock.call_later(_IDENTITY_RENEW_SECONDS, renew, scaled=False)

    cluster.clock.call_later(_IDENTITY_RENEW_SECONDS, renew, scaled=False)


def _start_node_lifecycle(cluster: Cluster) -> None:
    """Start the controllers of node heartbeats and taint-based eviction."""
    from pytest_kwait.simulator.controllers.node_lifecycle import NodeLifecycleController
    from pytest_kwait.simulator.controllers.taint_eviction import TaintEvictionController

    NodeLifecycleController(cluster)
    _on_first_object(
        cluster,
        ("nodes",),
        lambda: TaintEvictionController(cluster),
        lambda new: any(
            taint["effect"] == "NoExecute" for taint in new["spec"].get("taints") or ()
        ),
    )


def _start_aggregator(cluster: Cluster) -> None:
    """Start the controllers of APIServices."""
    from pytest_kwait.simulator.aggregator.api_services import (
        MANAGED_LABEL,
        AutoRegistrationController,
    )

    def remote() -> None:
        from pytest_kwait.simulator.aggregator.api_services import AvailabilityController
        from pytest_kwait.simulator.aggregator.handler_proxy import start_availability_check

        AvailabilityController(cluster, start_availability_check)

    AutoRegistrationController(cluster)

    def metrics() -> None:
        from pytest_kwait.simulator.aggregator.handler_proxy import register_metrics_api

        register_metrics_api(cluster)

    _on_first_object(
        cluster,
        ("pods",),
        metrics,
        lambda new: any(name.startswith(USAGE) for name in annotations_of(new)),
    )
    _on_first_object(
        cluster,
        ("apiservices.apiregistration.k8s.io",),
        remote,
        lambda new: MANAGED_LABEL not in (new["metadata"].get("labels") or {}),
    )


def _start_on_first_object(cluster: Cluster) -> None:
    """Import and start controllers with the first object of their kinds."""

    @cache
    def pods() -> ControllerRefManager:
        return ControllerRefManager(cluster, "pods")

    def replication_controllers() -> None:
        from pytest_kwait.simulator.controllers.replicaset import (
            REPLICATION_CONTROLLERS,
            ReplicaSetController,
        )

        ReplicaSetController(cluster, REPLICATION_CONTROLLERS, pods())

    def replica_sets() -> None:
        from pytest_kwait.simulator.controllers.replicaset import REPLICA_SETS, ReplicaSetController

        ReplicaSetController(cluster, REPLICA_SETS, pods())

    def deployments() -> None:
        from pytest_kwait.simulator.controllers.deployment import DeploymentController

        DeploymentController(cluster, ControllerRefManager(cluster, "replicasets.apps"), pods())

    def jobs() -> None:
        from pytest_kwait.simulator.controllers.job.controller import JobController

        JobController(cluster, pods())

    def sets() -> None:
        from pytest_kwait.simulator.controllers.daemon import DaemonSetController
        from pytest_kwait.simulator.controllers.statefulset import StatefulSetController

        revisions = ControllerRefManager(cluster, "controllerrevisions.apps")
        DaemonSetController(cluster, pods(), revisions)
        StatefulSetController(cluster, pods(), revisions)

    def endpoints() -> None:
        from pytest_kwait.simulator.controllers.endpoint import EndpointsController, ServicePods
        from pytest_kwait.simulator.controllers.endpointslice import (
            EndpointSliceController,
            EndpointSliceMirroringController,
        )

        selected = ServicePods(cluster)
        EndpointSliceController(cluster, selected)
        EndpointsController(cluster, selected)
        EndpointSliceMirroringController(cluster, selected)

    def cron_jobs() -> None:
        from pytest_kwait.simulator.controllers.cronjob import CronJobController

        CronJobController(cluster, ControllerRefManager(cluster, "jobs.batch"))

    def autoscalers() -> None:
        from pytest_kwait.simulator.controllers.podautoscaler import HorizontalController

        HorizontalController(cluster)

    def volumes() -> None:
        from pytest_kwait.simulator.controllers.volume.expand import ExpandController
        from pytest_kwait.simulator.controllers.volume.persistent_volume import (
            PersistentVolumeController,
        )
        from pytest_kwait.simulator.controllers.volume.protection import ProtectionController

        PersistentVolumeController(cluster)
        ProtectionController(cluster)
        ExpandController(cluster)

    def policies() -> None:
        from pytest_kwait.simulator.controllers.validating_admission_policy_status import (
            PolicyStatusController,
        )

        PolicyStatusController(cluster)

    def network_policies() -> None:
        from pytest_kwait.simulator.controllers.network_policy import NetworkPolicyReporter

        NetworkPolicyReporter(cluster)

    def ephemeral_volumes() -> None:
        from pytest_kwait.simulator.controllers.volume.ephemeral import EphemeralVolumeController

        EphemeralVolumeController(cluster)

    @cache
    def disruption() -> None:
        from pytest_kwait.simulator.controllers.disruption import DisruptionController

        DisruptionController(cluster)

    def quotas() -> None:
        from pytest_kwait.simulator.controllers.resource_quota import ResourceQuotaController

        ResourceQuotaController(cluster)

    _on_first_object(cluster, ("replicationcontrollers",), replication_controllers)
    _on_first_object(cluster, ("replicasets.apps",), replica_sets)
    _on_first_object(cluster, ("deployments.apps",), deployments)
    _on_first_object(cluster, ("jobs.batch",), jobs)
    _on_first_object(cluster, ("resourcequotas",), quotas)
    _on_first_object(cluster, ("poddisruptionbudgets.policy",), disruption)
    _on_first_object(
        cluster,
        ("pods",),
        disruption,
        lambda new: any(
            condition["type"] == "DisruptionTarget"
            for condition in (new.get("status") or {}).get("conditions") or ()
        ),
    )
    _on_first_object(
        cluster,
        ("pods",),
        ephemeral_volumes,
        lambda new: any(volume.get("ephemeral") for volume in new["spec"].get("volumes") or ()),
    )
    attributes = "volumeattributesclasses.storage.k8s.io"
    _on_first_object(cluster, ("persistentvolumeclaims", "persistentvolumes", attributes), volumes)
    _on_first_object(cluster, ("daemonsets.apps", "statefulsets.apps"), sets)
    _on_first_object(
        cluster, ("services", "endpoints"), endpoints, lambda new: not _is_system_service(new)
    )
    _on_first_object(cluster, ("cronjobs.batch",), cron_jobs)
    _on_first_object(
        cluster, ("validatingadmissionpolicies.admissionregistration.k8s.io",), policies
    )
    _on_first_object(cluster, ("horizontalpodautoscalers.autoscaling",), autoscalers)
    _on_first_object(cluster, ("networkpolicies.networking.k8s.io",), network_policies)


def _is_system_service(obj: Obj) -> bool:
    """Return whether a service, or its endpoints, is there from the start."""
    is_dns = name_of(obj) == _DNS_SERVICE["metadata"]["name"]
    return is_kubernetes_service(obj) or (is_dns and namespace_of(obj) == _SYSTEM_NAMESPACE)


def _start_signer(cluster: Cluster, authority: tuple[bytes, bytes]) -> None:
    """Start the certificate controller with the first request."""

    def certificates() -> None:
        from pytest_kwait.simulator.controllers.certificate_signing import CertificateController

        CertificateController(cluster, authority)

    _on_first_object(cluster, ("certificatesigningrequests.certificates.k8s.io",), certificates)


def _on_first_object(
    cluster: Cluster,
    resources: tuple[str, ...],
    start: Callable[[], object],
    means: Callable[[Obj], bool] | None = None,
) -> None:
    """Call `start` once, with the first object of one of the resources that `means` accepts."""
    stops: list[Callable[[], None]] = []
    started = False

    def begin(_change: str, new: Obj, _old: Obj | None) -> None:
        nonlocal started
        if not started and (means is None or means(new)):
            started = True
            for stop in stops:
                stop()
            start()

    stops += [cluster.subscribe(resource, begin) for resource in resources]


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of the process, and the objects that its options name.

    Args:
        kubeconfig: the file to write.
        ready_fd: a line goes here once nodes are Ready.
        owner_fd: the cluster ends when this pipe closes.
        owner_folder: a folder to remove after a signal to end.
        options: the options of the cluster.
        hosts: the server's host names and addresses, the best one first.
        tokens: further users by their tokens.
        users: users with a client certificate.
        images: the programs that images are mapped to.
    """

    kubeconfig: Path
    ready_fd: int | None
    owner_fd: int | None
    owner_folder: Path | None
    options: EmbeddedOptions
    hosts: list[str]
    tokens: dict[str, User]
    users: list[User]
    images: ImageMappings


def _parse_arguments(argv: Sequence[str] | None) -> _Arguments:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kwait.simulator", description="Run an embedded Kubernetes cluster."
    )
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the file to write")
    parser.add_argument(
        "--options-fd",
        type=int,
        help="options of the cluster are read from here, as a JSON object (default: none)",
    )
    parser.add_argument("--ready-fd", type=int, help="a line goes here once nodes are Ready")
    parser.add_argument("--owner-fd", type=int, help="end when this pipe closes")
    parser.add_argument("--owner-folder", type=Path, help="a folder to remove when told to end")
    arguments = parser.parse_args(argv)
    options = EmbeddedOptions()
    try:
        if arguments.options_fd is not None:
            with os.fdopen(arguments.options_fd, "rb") as file:
                options = read_options(file.read())
        with _error_prefix("address"):
            hosts = server_names(options.address)
        with _error_prefix("token_auth_file"):
            file_name = options.token_auth_file
            tokens = read_token_file(Path(file_name)) if file_name else {}
        with _error_prefix("users"):
            users = parse_users(options.users)
        with _error_prefix("images"):
            images = ImageMappings(options.images)
        return _Arguments(
            arguments.kubeconfig,
            arguments.ready_fd,
            arguments.owner_fd,
            arguments.owner_folder,
            options,
            hosts,
            tokens,
            users,
            images,
        )
    except ValueError as error:
        parser.error(str(error))


@contextmanager
def _error_prefix(name: str) -> Iterator[None]:
    """Put the name of an option before the text of its error."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def server_names(address: str) -> list[str]:
    """Return the host names and addresses of a server on `address`, the best one first.

    Raises:
        ValueError: `address` is no IP address.
    """
    parsed_address = ipaddress.ip_address(address)
    if not parsed_address.is_unspecified:
        return list(dict.fromkeys((address, HOST)))
    own = [HOST, "::1"] if parsed_address.version == 6 else [HOST]
    try:
        address_infos = socket.getaddrinfo(socket.gethostname(), None, proto=socket.IPPROTO_TCP)
    except OSError:
        address_infos = []
    names = [
        socket.gethostname(),
        *(str(address_info[4][0]).partition("%")[0] for address_info in address_infos),
        *_find_outgoing_addresses(),
        *_list_interface_addresses(),
    ]
    return list(dict.fromkeys((*own, *names)))


def _find_outgoing_addresses() -> Iterator[str]:
    """Yield the addresses of this machine that its routes use; sends nothing.

    Its name may be that of a loopback address alone, as on Debian.
    """
    for family, outside in _OUTSIDE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, _OUTSIDE_PORT))
            yield str(probe.getsockname()[0]).partition("%")[0]


def _list_interface_addresses() -> Iterator[str]:
    """Yield the IPv4 addresses of this machine's network interfaces, bridges included.

    Each interface has its first address. On others than Linux there are none.
    """
    if sys.platform != "linux":
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, _INTERFACE_REQUEST.pack(name.encode()))
                yield socket.inet_ntoa(answer[_INTERFACE_ADDRESS])


def _get_advertised_address(hosts: Sequence[str]) -> str:
    """Return the address of the server's endpoints, which must not be a loopback one."""
    for host in hosts:
        with suppress(ValueError):
            if not ipaddress.ip_address(host).is_loopback:
                return host
    return _CONTROL_PLANE_ADDRESS


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _proxy_to_aggregated_server(
    cluster: Cluster, request: ApiRequest, obj: Obj
) -> web.StreamResponse:
    # The HTTP client is loaded with the first aggregated group.
    from pytest_kwait.simulator.aggregator.handler_proxy import proxy_request

    return await proxy_request(cluster, request, obj)


async def serve(arguments: _Arguments) -> int:
    """Run a cluster until it is stopped; returns the exit code."""
    from pytest_kwait.simulator.controllers.kubernetes_service import KubernetesServiceController

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if arguments.owner_fd is not None:
        _follow_owner(loop, arguments.owner_fd, ended)
    options = arguments.options
    nodes = 0 if options.api_only else options.nodes
    cluster = SimulatedCluster(
        SimClock(FAST if options.timing == "fast" else REAL),
        disabled_plugins=_DISABLED_PLUGINS if options.api_only else (),
    )
    hosts = arguments.hosts
    names = (*hosts, "localhost", *_SERVICE_NAMES, cluster.addresses.kubernetes_address)
    serving = (Path(options.tls_cert_file), Path(options.tls_private_key_file))
    try:
        authority = CertificateAuthority(
            *names,
            serving=serving if options.tls_cert_file else None,
            client_authority=Path(options.client_ca_file) if options.client_ca_file else None,
        )
    except OSError as error:  # an SSLError is one, too
        sys.stderr.write(f"the certificates cannot be used: {error}\n")
        return 1
    cluster.clock.may_suspend = cluster.has_webhooks
    cluster.root_ca = authority.pem
    cluster.images = arguments.images
    cluster.egress = EgressTargets(options.egress)
    cluster.private_paths = (str(arguments.owner_folder or arguments.kubeconfig),)
    cluster.bootstrap(has_controllers=not options.api_only)
    admin, powerless = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    own = {admin: User("kubernetes-admin", (ADMINS,)), powerless: User("powerless")}
    credentials = StaticTokens({**arguments.tokens, **own})
    server = ApiServer(cluster, credentials, _proxy_to_aggregated_server)
    try:
        port = await server.start(options.address, options.port, authority.tls)
    except OSError as error:
        sys.stderr.write(
            f"cannot listen on {_host_port(options.address, options.port)}: {error.strerror}\n"
        )
        return 1
    own_host = HOST if ipaddress.ip_address(options.address).is_unspecified else hosts[0]
    cluster.server_address = (own_host, port)
    KubernetesServiceController(cluster, _get_advertised_address(hosts), port)
    if options.api_only:
        start_server_controllers(cluster)
    else:
        start_components(cluster, nodes=nodes, authority=authority.pair)
    try:
        await wait_nodes_ready(cluster, nodes)
        _relax_garbage_collector()
        url = f"https://{_host_port(hosts[0], port)}"
        tokens = {"kwait-admin": admin, "kwait-powerless": powerless}
        for token, user in arguments.tokens.items():
            tokens.setdefault(user.name, token)
        now = cluster.clock.time()
        certificates = {
            user.name: authority.client_certificate(user, now) for user in arguments.users
        }
        write_kubeconfig(arguments.kubeconfig, url, authority.trusted_pem, tokens, certificates)
        if arguments.ready_fd is not None:
            os.write(arguments.ready_fd, f"ready {url}\n".encode())
            os.close(arguments.ready_fd)
        await ended.wait()
    except (OSError, TimeoutError) as error:
        sys.stderr.write(f"the cluster did not become ready: {error}\n")
        return 1
    finally:
        arguments.kubeconfig.unlink(missing_ok=True)
        if arguments.owner_folder is not None and ended.is_set():
            # A killed owner cannot remove it.
            shutil.rmtree(arguments.owner_folder, ignore_errors=True)
        _stop_recording(cluster)
        await _close_programs(cluster)
        await server.stop()
    return 0


def _stop_recording(cluster: SimulatedCluster) -> None:
    """Complete the journals of the cluster's history, if any are recorded."""
    # Not at import: few clusters are recorded.
    from pytest_kwait.simulator.history import stop_recording

    stop_recording(cluster)


async def _close_programs(cluster: SimulatedCluster) -> None:
    """End the programs of mapped images, if any were started."""
    # Not at import: an API server alone has no kubelet.
    from pytest_kwait.simulator.kubelet.program_container import close_programs

    await close_programs(cluster)


async def wait_nodes_ready(cluster: SimulatedCluster, nodes: int) -> None:
    """Return when that many nodes are Ready.

    Raises:
        TimeoutError: they are not in time.
    """
    ready = asyncio.Event()
    names: set[str] = set()

    def on_node(_event: str, node: dict[str, object], _old: object) -> None:
        metadata = node["metadata"]
        if isinstance(metadata, dict) and is_condition_true(node, "Ready"):
            names.add(metadata["name"])
        if len(names) >= nodes:
            ready.set()

    if nodes == 0:
        return
    stop = cluster.subscribe("nodes", on_node)
    try:
        await asyncio.wait_for(ready.wait(), _READY_TIMEOUT)
    finally:
        stop()


def _follow_owner(loop: asyncio.AbstractEventLoop, descriptor: int, ended: asyncio.Event) -> None:
    def on_input() -> None:
        try:
            data = os.read(descriptor, 4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(descriptor)
            ended.set()

    os.set_blocking(descriptor, False)
    loop.add_reader(descriptor, on_input)


def _relax_garbage_collector() -> None:
    """Make full garbage collections rare: with 10,000 pods one takes a second.

    What a cluster keeps has no cycles and goes without being looked for. Cycles come from requests,
    and die young.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _raise_open_file_limit() -> None:
    """Allow thousands of open connections with small buffers."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_OPEN_FILES if most == resource.RLIM_INFINITY else min(most, _MAX_OPEN_FILES)
    with suppress(OSError, ValueError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    # asyncio's read buffer of a TLS connection, 256 KiB by default.
    SSLProtocol.max_size = _READ_BUFFER


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program."""
    _raise_open_file_limit()
    return asyncio.run(serve(_parse_arguments(argv)))

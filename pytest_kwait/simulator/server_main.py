"""The embedded cluster as a program: its controllers, scheduler, kubelets and API server.

    python -m pytest_kwait.simulator --kubeconfig FILE --options-fd 3 3<<<'{"nodes": 2}'

It writes the kubeconfig when its nodes are Ready, reports that on `--ready-fd`, and ends when
`--owner-fd` closes, on SIGTERM or on SIGINT. `components` has what runs in it.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import resource
import secrets
import shutil
import signal
import sys
from asyncio.sslproto import SSLProtocol
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.simulator.apiserver.filters import ADMINS, StaticTokens
from pytest_kwait.simulator.apiserver.server import ApiServer
from pytest_kwait.simulator.authentication.pki import (
    CertificateAuthority,
)
from pytest_kwait.simulator.clock import FAST, REAL, SimClock
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.components import (
    relax_garbage_collector,
    start_components,
    start_server_components,
    wait_nodes_ready,
)
from pytest_kwait.simulator.protocol.egress import EgressTargets
from pytest_kwait.simulator.protocol.image_mapping import ImageMappings
from pytest_kwait.simulator.protocol.kubeconfig import write_kubeconfig
from pytest_kwait.simulator.protocol.nodes import count_nodes
from pytest_kwait.simulator.protocol.options import HOST, EmbeddedOptions
from pytest_kwait.simulator.protocol.options_json import read_options
from pytest_kwait.simulator.protocol.static_users import (
    parse_users,
    read_token_file,
)
from pytest_kwait.simulator.request_info import User
from pytest_kwait.simulator.server_names import (
    format_host_port,
    get_advertised_address,
    server_names,
)
from pytest_kwait.simulator.suspendable import SuspendableTasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj

_SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""The names by which pods reach the server."""
_READ_BUFFER = 16 * 1024
_MAX_OPEN_FILES = 65_536

_DISABLED_PLUGINS = ("ServiceAccount",)
"""Admission plugins that an API server alone goes without, as in envtest.

No controller creates the account that the plugin requires of every pod.
"""


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


async def _proxy_to_aggregated_server(
    cluster: ApiServerCluster, request: ApiRequest, obj: Obj
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
    cluster.use_tasks(SuspendableTasks(cluster.has_webhooks))
    cluster.root_ca = authority.pem
    cluster.images = arguments.images
    cluster.egress = EgressTargets(options.egress)
    cluster.isolation = options.isolation
    cluster.has_load_balancers = options.load_balancers
    cluster.private_paths = (str(arguments.owner_folder or arguments.kubeconfig),)
    cluster.bootstrap(has_controllers=not options.api_only)
    admin, powerless = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    own = {admin: User("kubernetes-admin", (ADMINS,)), powerless: User("powerless")}
    credentials = StaticTokens({**arguments.tokens, **own})
    server = ApiServer(cluster, credentials, _proxy_to_aggregated_server)
    try:
        port = await server.start(options.address, options.port, authority.tls)
    except OSError as error:
        place = format_host_port(options.address, options.port)
        sys.stderr.write(f"cannot listen on {place}: {error.strerror}\n")
        return 1
    own_host = HOST if ipaddress.ip_address(options.address).is_unspecified else hosts[0]
    cluster.server_address = (own_host, port)
    KubernetesServiceController(cluster, get_advertised_address(hosts), port)
    if options.api_only:
        start_server_components(cluster)
    else:
        start_components(cluster, nodes=nodes, authority=authority.pair)
    try:
        await wait_nodes_ready(cluster, count_nodes(nodes))
        relax_garbage_collector()
        url = f"https://{format_host_port(hosts[0], port)}"
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
        await cluster.services.close()
        await server.stop()
    return 0


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

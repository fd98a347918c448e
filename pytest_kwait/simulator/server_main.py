"""The embedded cluster as a program.

    python -m pytest_kwait.simulator --nodes 2 --timing fast --port 0 --kubeconfig FILE
It writes the kubeconfig when its nodes are Ready, reports that on `--ready-fd`, and ends when
`--owner-fd` closes, on SIGTERM or on SIGINT.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import os
import resource
import secrets
import shutil
import signal
import socket
import sys
from asyncio.sslproto import SSLProtocol
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.simulator.apiserver.filters import ADMINS, StaticTokens
from pytest_kwait.simulator.apiserver.server import ApiServer
from pytest_kwait.simulator.authentication.pki import CertificateAuthority, write_kubeconfig
from pytest_kwait.simulator.authentication.static_users import (
    TokenFileError,
    parse_users,
    read_token_file,
)
from pytest_kwait.simulator.clock import FAST, REAL, SimClock
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.request_info import User

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["HOST", "main", "serve", "server_names"]

HOST = "127.0.0.1"
_READY_TIMEOUT = 30.0
_READ_BUFFER = 16 * 1024
_MAX_OPEN_FILES = 65_536
_GC_THRESHOLDS = (10_000, 20, 50)


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kwait.simulator", description="Run an embedded Kubernetes cluster."
    )
    parser.add_argument("--nodes", type=int, default=2, help="how many nodes (default: 2)")
    parser.add_argument(
        "--timing",
        choices=("fast", "real"),
        default="fast",
        help="whether Kubernetes' own constants hold, or a twentieth of them (default: fast)",
    )
    parser.add_argument("--port", type=int, default=0, help="port (default: a free one)")
    parser.add_argument("--address", default=HOST, help="where to listen (default: loopback)")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the file to write")
    parser.add_argument("--token-auth-file", type=Path, help="further users and their tokens")
    parser.add_argument(
        "--user", action="append", default=[], help="NAME or NAME=GROUP,... who gets a certificate"
    )
    parser.add_argument("--ready-fd", type=int, help="a line goes here once nodes are Ready")
    parser.add_argument("--owner-fd", type=int, help="end when this pipe closes")
    parser.add_argument("--owner-folder", type=Path, help="a folder to remove when told to end")
    arguments = parser.parse_args(argv)
    if arguments.nodes < 0:
        parser.error("--nodes must not be negative")
    if not 0 <= arguments.port <= 65535:
        parser.error("--port must be between 0 and 65535")
    try:
        arguments.hosts = server_names(arguments.address)
    except ValueError as error:
        parser.error(f"--address: {error}")
    file = arguments.token_auth_file
    try:
        arguments.tokens = {} if file is None else read_token_file(file)
    except TokenFileError as error:
        parser.error(f"--token-auth-file: {error}")
    try:
        arguments.users = parse_users(arguments.user)
    except ValueError as error:
        parser.error(f"--user: {error}")
    return arguments


def server_names(address: str) -> list[str]:
    """Return the host names and addresses of a server on `address`, the best one first.

    Raises:
        ValueError: `address` is no IP address.
    """
    found = ipaddress.ip_address(address)
    if not found.is_unspecified:
        return list(dict.fromkeys((address, HOST)))
    own = [HOST, "::1"] if found.version == 6 else [HOST]
    try:
        others = socket.getaddrinfo(socket.gethostname(), None, proto=socket.IPPROTO_TCP)
    except OSError:
        others = []
    names = [socket.gethostname(), *(str(other[4][0]).partition("%")[0] for other in others)]
    return list(dict.fromkeys((*own, *names)))


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _proxy_to_aggregated_server(
    api: Cluster, request: ApiRequest, obj: Obj
) -> web.StreamResponse:
    # The HTTP client is loaded with the first aggregated group.
    from pytest_kwait.simulator.aggregator.handler_proxy import proxy_request

    return await proxy_request(api, request, obj)


async def serve(arguments: argparse.Namespace) -> int:
    """Run a cluster until it is stopped; returns the exit code."""
    from pytest_kwait.simulator.components import start_components

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if arguments.owner_fd is not None:
        _follow_owner(loop, arguments.owner_fd, ended)
    api = SimulatedCluster(SimClock(FAST if arguments.timing == "fast" else REAL))
    hosts = arguments.hosts
    authority = CertificateAuthority(*hosts, "localhost", "kubernetes", "kubernetes.default")
    api.clock.may_suspend = api.has_webhooks
    api.root_ca = authority.pem
    api.bootstrap()
    admin, powerless = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    own = {admin: User("kubernetes-admin", (ADMINS,)), powerless: User("powerless")}
    credentials = StaticTokens({**arguments.tokens, **own})
    server = ApiServer(api, credentials, _proxy_to_aggregated_server)
    try:
        port = await server.start(arguments.address, arguments.port, authority.tls)
    except OSError as error:
        sys.stderr.write(
            f"cannot listen on {_host_port(arguments.address, arguments.port)}: {error.strerror}\n"
        )
        return 1
    start_components(api, nodes=arguments.nodes, authority=authority.pair)
    try:
        await _wait_nodes_ready(api, arguments.nodes)
        _relax_garbage_collector()
        url = f"https://{_host_port(hosts[0], port)}"
        tokens = {"kwait-admin": admin, "kwait-powerless": powerless}
        for token, user in arguments.tokens.items():
            tokens.setdefault(user.name, token)
        now = api.clock.time()
        certificates = {
            user.name: authority.client_certificate(user, now) for user in arguments.users
        }
        write_kubeconfig(arguments.kubeconfig, url, authority.pem, tokens, certificates)
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
        await server.stop()
    return 0


async def _wait_nodes_ready(api: SimulatedCluster, nodes: int) -> None:
    """Return when that many nodes are Ready."""
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
    stop = api.subscribe("nodes", on_node)
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
    wanted = _MAX_OPEN_FILES if most == resource.RLIM_INFINITY else min(most, _MAX_OPEN_FILES)
    with suppress(OSError, ValueError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    # asyncio's read buffer of a TLS connection, 256 KiB by default.
    SSLProtocol.max_size = _READ_BUFFER


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program."""
    _raise_open_file_limit()
    return asyncio.run(serve(_parse_arguments(argv)))

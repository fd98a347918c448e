"""Run controllers, a scheduler and kubelets on an API server that runs elsewhere.

    python -m pytest_kwait.remote --server URL --certificate-authority FILE
        --client-certificate FILE --client-key FILE --service-account-private-key-file FILE
        --tls-cert-file FILE --tls-private-key-file FILE --cluster-signing-key-file FILE
        [--tunnel SOCKET] [--options-file FILE] [--ready-file FILE]
It waits for the server, creates the ready file once its nodes are Ready, and runs until it is
ended. Time is real.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.client.certificate_client import CertificateClient, Credentials
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import async_sleep
from pytest_kwait.remote.cluster import RemoteCluster
from pytest_kwait.remote.rest_client import RESTClient
from pytest_kwait.remote.tunnel import ClusterTunnel
from pytest_kwait.simulator import (
    make_kubelet_server,
    relax_garbage_collector,
    start_controllers,
    wait_nodes_ready,
)
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.protocol.nodes import count_nodes
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from pytest_kwait.simulator.protocol.options_json import read_options

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAUSE = 0.02
_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-system")


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kwait.remote",
        description="Run controllers, a scheduler and kubelets on a real API server.",
    )
    parser.add_argument("--server", required=True, help="the URL of the API server")
    for name, text in (
        ("--certificate-authority", "who signed the server's certificate"),
        ("--client-certificate", "the certificate of an administrator"),
        ("--client-key", "its key"),
        ("--tls-cert-file", "the certificate of the kubelets, for the addresses of the nodes"),
        ("--tls-private-key-file", "its key"),
        ("--cluster-signing-key-file", "the key of the authority, which signs certificates"),
        ("--service-account-private-key-file", "the key of the tokens in Secrets"),
    ):
        parser.add_argument(name, type=Path, required=True, help=text)
    parser.add_argument("--tunnel", type=Path, help="a socket for connections to nodes and pods")
    parser.add_argument(
        "--options-file",
        type=Path,
        help="options of an embedded cluster as a JSON object, of which it has the nodes",
    )
    parser.add_argument("--ready-file", type=Path, help="a file to create once nodes are Ready")
    return parser.parse_args(argv)


async def _run(arguments: argparse.Namespace) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    file = arguments.options_file
    nodes = (read_options(file.read_bytes()) if file is not None else EmbeddedOptions()).nodes
    authority = arguments.certificate_authority
    credentials = Credentials(authority, arguments.client_certificate, arguments.client_key)
    try:
        async with AsyncExitStack() as begun:
            client = _make_client(arguments.server, credentials)
            begun.callback(client.close)
            await _wait_ready(client)
            signing_key = arguments.service_account_private_key_file.read_bytes()
            cluster = RemoteCluster(client, signing_key)
            begun.push_async_callback(cluster.close)
            cluster.root_ca = authority.read_text(encoding="utf-8")
            await cluster.follow()
            signer = (authority.read_bytes(), arguments.cluster_signing_key_file.read_bytes())
            start_controllers(cluster, nodes=nodes, authority=signer)
            certificate = (arguments.tls_cert_file, arguments.tls_private_key_file)
            kubelets = make_kubelet_server(cluster, certificate, authority)
            begun.callback(kubelets.stop)
            tunnel = ClusterTunnel(cluster, kubelets.start())
            begun.callback(tunnel.stop)
            if arguments.tunnel is not None:
                await tunnel.start(arguments.tunnel)
            await wait_nodes_ready(cluster, count_nodes(nodes))
            relax_garbage_collector()
            if arguments.ready_file is not None:
                arguments.ready_file.touch()
            await ended.wait()
    except (OSError, StatusError, TimeoutError) as error:
        sys.stderr.write(f"controllers cannot run on {arguments.server}: {error}\n")
        return 1
    return 0


def _make_client(server: str, credentials: Credentials) -> RESTClient:
    return RESTClient(ApiSession(CertificateClient(server, credentials, "kwait-controllers")))


async def _wait_ready(client: RESTClient) -> None:
    """Return once the server is ready and has its namespaces; the owner limits the time."""
    paths = ["/readyz", *(f"/api/v1/namespaces/{name}" for name in _SYSTEM_NAMESPACES)]
    while paths:
        try:
            client.request("GET", paths[0])
        except StatusError:
            await async_sleep(_PAUSE)
        else:
            del paths[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    return asyncio.run(_run(_parse_arguments(argv)))


if __name__ == "__main__":
    sys.exit(main())

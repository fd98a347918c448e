"""Connections to real programs of pods: sockets of the cluster's network as sessions."""

from __future__ import annotations

import asyncio
import errno
import ssl
from typing import TYPE_CHECKING

from pytest_kwait.simulator.network.relay import SessionSocket, SpareSockets

if TYPE_CHECKING:
    import socket

    from pytest_kwait.simulator.busybox.os.streams import ProcessSession
    from pytest_kwait.simulator.runtimes.processes.runtime import ContainerRuntime, Sandbox

_LOOPBACK_ADDRESS = "127.0.0.1"
# What the launcher answers where a pod has no network of its own, or its kernel has no routes by
# mark.
_UNSUPPORTED = (errno.ENOTSUP, errno.EPERM)


def _make_unverified_context() -> ssl.SSLContext:
    """Return a context that checks no certificate, as probes and the API server's proxy do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class ProgramPorts:
    """The ports of a pod's programs.

    Args:
        runtime: the runtime of the cluster.
        address: the pod's address.
        sandbox: the pod's sandbox.
    """

    def __init__(self, runtime: ContainerRuntime, address: str, sandbox: Sandbox) -> None:
        self._runtime = runtime
        self._address = address
        self._sandbox = sandbox
        self._can_have_sources = True
        self._spare = SpareSockets(lambda: sandbox.connect_socket("tcp", any_source=True))

    async def connect(self, port: int, *, tls: bool = False, source: str = "") -> ProcessSession:
        """Connect to a port of the pod's address.

        Plain processes are reached at the machine's loopback interface: in its network the address
        may be another machine's.

        Args:
            tls: whether to speak TLS, without a check of the certificate.
            source: the address that the program sees, where its pod has a network of its own;
                empty for that of the cluster's network.

        Raises:
            OSError: the connection or its TLS fails.
        """
        if not await self._runtime.is_isolated():
            made = await self._runtime.connect_socket("tcp")
            return await _connect(made, _LOOPBACK_ADDRESS, port, tls=tls)
        made = await self.make_socket(source)
        return await _connect(made, self._address, port, tls=tls)

    async def make_socket(self, source: str) -> socket.socket:
        """Return a TCP socket that is not connected, whose peers see `source` where possible.

        The socket is one of the pod's own network: in the cluster's network, answers would go to
        the pod that has the address.

        Raises:
            OSError: it could not be made.
        """
        if source and self._can_have_sources:
            try:
                made = await self._spare.take()
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._can_have_sources = False
            else:
                made.bind((source, 0))
                return made
        return await self._runtime.connect_socket("tcp")

    async def is_listening(self, port: int) -> bool:
        """Return whether connections to a port are accepted; True if that cannot be known."""
        try:
            await self._sandbox.check_port(self._address, port)
        except ConnectionRefusedError:
            return False
        except OSError:  # the pod ends, or the system does not tell
            return True
        return True

    def close(self) -> None:
        """Close what was made ahead."""
        self._spare.close()

    async def connect_inside(self, port: int) -> ProcessSession:
        """Connect to a port of the pod's loopback interface, or else of its address.

        Source: containerd internal/cri/server/sandbox_portforward_linux.go, `portForward`.

        Raises:
            OSError: the connection fails.
        """
        try:
            made = await self._sandbox.connect_socket("tcp")
            return await _connect(made, _LOOPBACK_ADDRESS, port, tls=False)
        except ConnectionRefusedError:
            return await self.connect(port)


async def _connect(made: socket.socket, address: str, port: int, *, tls: bool) -> ProcessSession:
    loop = asyncio.get_running_loop()
    connection = SessionSocket()
    try:
        await loop.sock_connect(made, (address, port))
        await loop.create_connection(
            lambda: connection, sock=made, ssl=_make_unverified_context() if tls else None,
            server_hostname="" if tls else None,
        )  # fmt: skip
    except (OSError, asyncio.CancelledError):
        made.close()
        raise
    return connection.session

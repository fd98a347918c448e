"""The way of a real API server to nodes and pods, which exist in no network: HTTP CONNECT.

kube-apiserver sends the connections of its egress selection `cluster` here, as it does with
Konnectivity: those to kubelets, and those of the proxies of pods and services.

Source: k8s.io/apiserver pkg/server/egressselector/egress_selector.go, `tunnelHTTPConnect`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import Session

_CHUNK = 65536
_MAX_HEAD_SECONDS = 30.0


class ClusterTunnel:
    """Connects clients of a socket to the addresses of nodes and pods.

    Args:
        kubelets: the host and port of each kubelet by the address and port of its node.
    """

    def __init__(
        self, cluster: Cluster, kubelets: Mapping[tuple[str, int], tuple[str, int]]
    ) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._server: asyncio.Server | None = None

    async def start(self, path: Path) -> None:
        """Listen on a Unix socket.

        Raises:
            OSError: the socket cannot be created.
        """
        self._server = await asyncio.start_unix_server(self._serve, path)

    def stop(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: a CONNECT request, then bytes in both directions."""
        try:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _MAX_HEAD_SECONDS)
                method, _, target = head.decode("latin-1").partition(" ")
                host, _, port = target.partition(" ")[0].rpartition(":")
                if method != "CONNECT" or not port.isdigit():
                    writer.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
                elif kubelet := self._kubelets.get((host, int(port))):
                    await self._join_kubelet(reader, writer, kubelet)
                else:
                    await self._join_pod(reader, writer, host.strip("[]"), int(port))
        finally:
            writer.close()

    async def _join_kubelet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kubelet: tuple[str, int]
    ) -> None:
        kubelet_reader, kubelet_writer = await asyncio.open_connection(*kubelet)
        _accept(writer)
        try:
            await _run_until_first(
                _copy(reader, kubelet_writer.write, kubelet_writer.drain),
                _copy(kubelet_reader, writer.write, writer.drain),
            )
        finally:
            kubelet_writer.close()

    async def _join_pod(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        address: str,
        port: int,
    ) -> None:
        session = await self._dial(address, port)
        if session is None:
            writer.write(b"HTTP/1.1 502 connection refused\r\n\r\n")
            return
        _accept(writer)
        try:
            await _run_until_first(_feed(reader, session), _answer(session, writer))
        finally:
            session.stop()

    async def _dial(self, address: str, port: int) -> Session | None:
        for kubelet in self._cluster.kubelets.values():
            session = await kubelet.dial(address, port)
            if session is not None:
                return session
        return None


def _accept(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")


async def _run_until_first(*halves: Awaitable[None]) -> None:
    """Run both directions until one ends."""
    tasks = [asyncio.ensure_future(half) for half in halves]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(
    reader: asyncio.StreamReader,
    write: Callable[[bytes], None],
    drain: Callable[[], Awaitable[None]],
) -> None:
    while data := await reader.read(_CHUNK):
        write(data)
        await drain()


async def _feed(reader: asyncio.StreamReader, session: Session) -> None:
    while data := await reader.read(_CHUNK):
        if session.stdin is not None:
            session.stdin.send(data)


async def _answer(session: Session, writer: asyncio.StreamWriter) -> None:
    while (piece := await session.output.take()) is not None:
        if piece[0] == 1:
            writer.write(piece[1])
            await writer.drain()

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.remote.tunnel import ClusterTunnel
from pytest_kwait.simulator.cluster import SimulatedCluster
from tests.simulator.apiserver.test_connect_subresources import Kubelet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_ACCEPTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def _run(use: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
    """Call `use` with a connection to a tunnel.

    The pod `10.1.2.3` echoes on port 7. The kubelet of the node `172.30.0.2` answers each piece in
    upper case.
    """

    answered: list[asyncio.Event] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered.append(asyncio.Event())
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.close()
        await writer.wait_closed()
        answered[-1].set()

    async def run(socket: Path) -> None:
        api = SimulatedCluster()
        kubelet = Kubelet()
        kubelet.start()
        while (session := await kubelet.dial("10.1.2.3", 7)) is None:
            await async_sleep(0)
        session.stop()
        api.kubelets["n"] = kubelet
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        address: tuple[str, int] = server.sockets[0].getsockname()
        tunnel = ClusterTunnel(api, {("172.30.0.2", 10250): address})
        await tunnel.start(socket)
        try:
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                await asyncio.wait_for(use(reader, writer), 10)
            finally:
                writer.close()
                await writer.wait_closed()
        finally:
            tunnel.stop()
            for end in answered:
                await end.wait()
            server.close()

    # The paths of sockets are short.
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "socket"))


@pytest.mark.parametrize(
    ("target", "answer"), [("10.1.2.3:7", b"ping"), ("172.30.0.2:10250", b"PING")]
)
def test_connections_to_pods_and_kubelets(target: str, answer: bytes) -> None:
    async def use(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == _ACCEPTED
        writer.write(b"ping")
        assert await reader.readexactly(4) == answer

    _run(use)


@pytest.mark.parametrize(
    ("request_line", "answer"),
    [
        (b"CONNECT 10.1.2.3:81 HTTP/1.1", b"HTTP/1.1 502 connection refused\r\n\r\n"),
        (b"CONNECT 10.9.9.9:7 HTTP/1.1", b"HTTP/1.1 502 connection refused\r\n\r\n"),
        (b"CONNECT [fd00::1]:7 HTTP/1.1", b"HTTP/1.1 502 connection refused\r\n\r\n"),
        (b"GET / HTTP/1.1", b"HTTP/1.1 405 Method Not Allowed\r\n\r\n"),
        (b"nonsense", b"HTTP/1.1 405 Method Not Allowed\r\n\r\n"),
    ],
)
def test_refusals(request_line: bytes, answer: bytes) -> None:
    async def use(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request_line + b"\r\n\r\n")
        assert await reader.read() == answer

    _run(use)


def test_a_client_that_goes_ends_its_connection() -> None:
    async def use(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"CONNECT 10.1.2.3:7 HTTP/1.1\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == _ACCEPTED
        writer.write_eof()
        assert await reader.read() == b""

    _run(use)

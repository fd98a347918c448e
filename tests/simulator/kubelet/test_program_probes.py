"""Probes and connections of real programs: sockets, TLS, gRPC."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.clock import SimClock
from pytest_kwait.simulator.kubelet.grpc_health import HeaderDecoder
from pytest_kwait.simulator.kubelet.handlers import HandlerResult, ResultKind, start_probe
from pytest_kwait.simulator.runtimes.processes.program_network import ProgramPorts
from tests.simulator.manual_clock import ManualClock
from tests.simulator.network.loopback_sockets import LoopbackSockets

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.cri import ContainerRequest
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.runtimes.processes.runtime import ContainerRuntime, Sandbox

_IP = "10.244.1.2"
_REFUSED = f"dial tcp {_IP}:80: connect: connection refused"


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def _literal(name: bytes, value: bytes, first: int = 0) -> bytes:
    return bytes([first, len(name)]) + name + bytes([len(value)]) + value


def _answer(data: bytes) -> Any:
    """Return a server that answers each request with the same bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        await writer.drain()
        writer.close()

    return serve


def _health(*frames: bytes) -> Any:
    """Return a gRPC server that answers with frames."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_frame(4, 0, 0) + _frame(6, 0, 0, b"12345678"))
        request = b""
        while b"grpc.health.v1.Health/Check" not in request:
            request += await reader.read(4096)
        writer.write(b"".join(frames))
        await writer.drain()
        try:
            await reader.read()  # the client closes
        finally:
            writer.close()

    return serve


class _RunningContainer:
    """A container whose program gets every request."""

    def answer(self, request: ContainerRequest) -> None:
        request.send()


_CONTAINER = cast("Container", _RunningContainer())


def _make_worker(clock: SimClock, network: Network) -> Any:
    """Return a pod on a node."""
    version = SimpleNamespace(version={"major": "1", "minor": "36"})
    node = SimpleNamespace(clock=clock, network=Network(), address="172.30.0.2", peers={})
    return SimpleNamespace(
        node=node, network=network, pod_ip=_IP, cluster=SimpleNamespace(kinds=version)
    )


async def _probe(serve: Any, probe: Obj, tls: Any = None, programs: Any = None) -> HandlerResult:
    sockets = LoopbackSockets()
    server: asyncio.Server | None = None
    if serve is not None:
        listening = await sockets.listen(_IP, 80, "tcp")
        server = await asyncio.start_server(serve, sock=listening, ssl=tls)
    network = Network()
    network.programs = programs or ProgramPorts(
        cast("ContainerRuntime", sockets), _IP, cast("Sandbox", sockets)
    )
    worker = _make_worker(SimClock(), network)
    done: asyncio.Future[HandlerResult] = asyncio.get_running_loop().create_future()
    start_probe(worker, {"name": "c"}, _CONTAINER, probe, done.set_result)
    try:
        return await asyncio.wait_for(done, 30)
    finally:
        if server is not None:
            server.close()


@pytest.mark.parametrize(
    ("serve", "probe", "kind", "text"),
    [
        (
            _answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            {"httpGet": {"port": 80}}, ResultKind.SUCCESS, "ok",
        ),
        (
            _answer(b"HTTP/1.1 500 No\r\n\r\n"),
            {"httpGet": {"port": 80}}, ResultKind.FAILURE,
            "HTTP probe failed with statuscode: 500",
        ),
        (
            _answer(b""), {"httpGet": {"port": 80, "path": "/x"}}, ResultKind.FAILURE,
            f'Get "http://{_IP}:80/x": EOF',
        ),
        (
            None, {"httpGet": {"port": 80}}, ResultKind.FAILURE,
            f'Get "http://{_IP}:80/": {_REFUSED}',
        ),
        (
            _answer(b"HTTP/1.0 400 Bad Request\r\n\r\n"),
            {"httpGet": {"port": 80, "scheme": "HTTPS"}}, ResultKind.FAILURE,
            f'Get "https://{_IP}:80/": http: server gave HTTP response to HTTPS client',
        ),
        (_answer(b"x"), {"tcpSocket": {"port": 80}}, ResultKind.SUCCESS, ""),
        (None, {"tcpSocket": {"port": 80}}, ResultKind.FAILURE, _REFUSED),
    ],
)  # fmt: skip
def test_probes_reach_programs(serve: Any, probe: Obj, kind: ResultKind, text: str) -> None:
    assert asyncio.run(_probe(serve, probe)) == HandlerResult(kind, text)


def test_https_probes_check_no_certificate(tmp_path: Path) -> None:
    from pytest_kwait.simulator.authentication.pki import CertificateAuthority

    tls = CertificateAuthority("localhost").tls
    serve = _answer(b"HTTP/1.1 204 No Content\r\n\r\n")
    probe = {"httpGet": {"port": 80, "scheme": "HTTPS"}}
    assert asyncio.run(_probe(serve, probe, tls)).kind is ResultKind.SUCCESS


_OK_HEADERS = _frame(1, 4, 1, b"\x88" + _literal(b"content-type", b"application/grpc", 0x40))
_TRAILERS = _frame(1, 5, 1, _literal(b"grpc-status", b"0", 0x40))


def _message(status: bytes) -> bytes:
    return _frame(0, 0, 1, b"\x00" + struct.pack(">I", len(status)) + status)


def _failure(code: bytes, message: bytes) -> bytes:
    block = _literal(b"grpc-status", code, 0x40) + _literal(b"grpc-message", message)
    return _frame(1, 5, 1, block)


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([_OK_HEADERS, _message(b"\x08\x01"), _TRAILERS], "service healthy"),
        (
            [_OK_HEADERS, _message(b"\x08\x02"), _TRAILERS],
            'service unhealthy (responded with "NOT_SERVING")',
        ),
        (
            [_failure(b"5", b"unknown service")],
            "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
        ),
        (
            [_failure(b"12", b"unknown%20service x")],
            "error: this server does not implement the grpc health protocol "
            "(grpc.health.v1.Health): unknown service x",
        ),
        (
            [_frame(7, 0, 0, bytes(8))],
            "error: health rpc probe failed: rpc error: code = Unavailable desc = error reading "
            "from server: EOF",
        ),
    ],
)
def test_grpc_probes_ask_for_the_health(frames: list[bytes], text: str) -> None:
    found = asyncio.run(_probe(_health(*frames), {"grpc": {"port": 80, "service": "shop"}}))
    kind = ResultKind.SUCCESS if text == "service healthy" else ResultKind.FAILURE
    assert found == HandlerResult(kind, text)


class _Refusing:
    async def connect(self, port: int, *, tls: bool = False) -> Any:
        raise ConnectionRefusedError


class _Silent:
    """Sends its settings to each connection, and nothing more.

    Args:
        ends: whether it closes the first connections before its settings.
    """

    def __init__(self, ends: int = 0) -> None:
        self._ends = ends
        self.stopped = 0

    async def connect(self, port: int, *, tls: bool = False) -> Any:
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        frames: list[Any] = [(1, _frame(4, 0, 0))]
        if self._ends:
            self._ends -= 1
            frames = [None]

        async def take() -> Any:
            return frames.pop() if frames else await taken

        def stop() -> None:
            self.stopped += 1

        stdin = SimpleNamespace(send=lambda data: None)
        return SimpleNamespace(stdin=stdin, output=SimpleNamespace(take=take), stop=stop)


_UNCONNECTED = (
    f'timeout: failed to connect service "{_IP}:80" within 0.01s: context deadline exceeded'
)


@pytest.mark.parametrize(
    ("programs", "text"),
    [
        (_Refusing(), _UNCONNECTED),
        (_Silent(ends=9), _UNCONNECTED),
        (_Silent(), "timeout: health rpc did not complete within 0.01s"),
    ],
)
def test_grpc_probes_end_with_their_timeout(programs: Any, text: str) -> None:
    probe = {"grpc": {"port": 80}, "timeoutSeconds": 0.01}
    found = asyncio.run(_probe(None, probe, programs=programs))
    assert found == HandlerResult(ResultKind.FAILURE, text)


async def _run_loop() -> None:
    """Run what is ready."""
    for _ in range(20):
        await async_sleep(0)


def test_a_grpc_probe_connects_again_to_a_server_that_closes_at_once() -> None:
    async def probe() -> None:
        clock, network, programs = ManualClock(), Network(), _Silent(ends=1)
        network.programs = cast("Any", programs)
        worker, results = _make_worker(clock, network), list[HandlerResult]()
        spec = {"grpc": {"port": 80}, "timeoutSeconds": 3}
        start_probe(worker, {"name": "c"}, _CONTAINER, spec, results.append)
        await _run_loop()
        assert programs.stopped == 1
        clock.advance(1)
        await _run_loop()
        clock.advance(1.9)
        assert not results
        clock.advance(0.1)
        text = "timeout: health rpc did not complete within 3s"
        assert results == [HandlerResult(ResultKind.FAILURE, text)]
        await _run_loop()
        assert programs.stopped == 2

    asyncio.run(probe())


def test_a_cancelled_grpc_probe_ends_its_connection() -> None:
    async def probe() -> None:
        clock, network, programs = ManualClock(), Network(), _Silent()
        network.programs = cast("Any", programs)
        worker, results = _make_worker(clock, network), list[HandlerResult]()
        spec = {"grpc": {"port": 80}}
        handler = start_probe(worker, {"name": "c"}, _CONTAINER, spec, results.append)
        await _run_loop()
        handler.cancel()
        await _run_loop()
        clock.advance(2)
        assert (programs.stopped, results) == (1, [])

    asyncio.run(probe())


@pytest.mark.parametrize(
    ("blocks", "headers"),
    [
        # RFC 7541, C.4: requests with Huffman coding.
        (
            ["828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf"],
            [{"": "www.example.com"}, {"": "no-cache"}],
        ),
        (
            ["400a637573746f6d2d6b65790d637573746f6d2d686561646572", "be"],
            [{"custom-key": "custom-header"}, {"custom-key": "custom-header"}],
        ),
    ],
)
def test_header_blocks_share_a_table(blocks: list[str], headers: list[dict[str, str]]) -> None:
    decoder = HeaderDecoder()
    assert [decoder.decode(bytes.fromhex(block)) for block in blocks] == headers


@pytest.mark.parametrize("block", ["40", "4003", "ff", "be"])
def test_malformed_header_blocks_are_refused(block: str) -> None:
    with pytest.raises(ValueError, match="malformed header block"):
        HeaderDecoder().decode(bytes.fromhex(block))


def test_ports_of_plain_processes_are_those_of_the_machine() -> None:
    """In its network the pod's address may be another machine's."""

    async def connect() -> None:
        sockets = LoopbackSockets()
        sockets.isolated = False
        listening = await sockets.listen("127.0.0.1", 80, "tcp")
        server = await asyncio.start_server(_answer(b"here"), sock=listening)
        elsewhere = await sockets.listen(_IP, 81, "tcp")
        programs = ProgramPorts(cast("ContainerRuntime", sockets), _IP, cast("Sandbox", sockets))
        for connection in (programs.connect(80), programs.connect(80, source="10.244.0.9")):
            session = await connection
            assert session.stdin is not None
            session.stdin.send(b"x")
            assert await session.output.take() == (1, b"here")
            assert await session.output.take() is None
        for refused in (programs.connect(81), programs.connect_inside(81)):
            with pytest.raises(ConnectionRefusedError):
                await refused
        elsewhere.close()
        server.close()

    asyncio.run(connect())


@pytest.mark.parametrize(("address", "answers"), [("127.0.0.1", b"in"), (_IP, b"out")])
def test_ports_are_forwarded_within_the_pod(address: str, answers: bytes) -> None:
    async def forward() -> None:
        sockets = LoopbackSockets()
        listening = await sockets.listen(address, 80, "tcp")
        server = await asyncio.start_server(_answer(answers), sock=listening)
        programs = ProgramPorts(cast("ContainerRuntime", sockets), _IP, cast("Sandbox", sockets))
        network = Network()
        network.programs = programs
        session = await network.connect_stream(80, inside=True)
        assert session is not None
        assert session.stdin is not None
        session.stdin.send(b"x")
        assert await session.output.take() == (1, answers)
        assert await session.output.take() is None
        assert await network.connect_stream(81, inside=True) is None
        server.close()

    asyncio.run(forward())

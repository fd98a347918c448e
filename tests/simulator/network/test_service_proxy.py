"""The proxy of services: connections and datagrams through it, on loopback sockets."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, Pipe, ProcessSession
from pytest_kwait.simulator.network import service_proxy
from pytest_kwait.simulator.network.network_policies import get_network_policies
from pytest_kwait.simulator.network.service_proxy import ServiceProxy
from tests.simulator.cluster import new_cluster
from tests.simulator.network.loopback_sockets import LoopbackSockets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytest_kwait.simulator.busybox.os.streams import Sink
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from tests.simulator.manual_clock import ManualClock

SLICES = "endpointslices.discovery.k8s.io"
READY = {"conditions": {"ready": True, "serving": True, "terminating": False}}
WEB = ("10.0.0.9", 80)


class ProxiedCluster:
    """A cluster whose services are proxied."""

    def __init__(self) -> None:
        self.api: SimulatedCluster = new_cluster()
        self.sockets = LoopbackSockets()
        self.simulated: dict[str, Network] = {}
        self.proxy = ServiceProxy(self.api, self.sockets, self.simulated.get, ("127.0.0.1", 6443))

    def add(self, *addresses: str, protocol: str = "TCP", **spec: Any) -> None:
        """Add the service `web` with endpoints."""
        port = {"name": "main", "port": 80, "protocol": protocol}
        content = {
            "metadata": {"name": "web"},
            "spec": {"clusterIP": WEB[0], "ports": [port], **spec},
        }
        self.api.create("services", content, "default")
        self.set_endpoints(*addresses, protocol=protocol)

    def set_endpoints(self, *addresses: str, protocol: str = "TCP") -> None:
        """Replace the endpoints."""
        if self.api.find(SLICES, "web", "default") is not None:
            self.api.delete(SLICES, "web", "default")
        content = {
            "metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"name": "main", "port": 8080, "protocol": protocol}],
            "endpoints": [{"addresses": [one], **READY} for one in addresses],
        }
        self.api.create(SLICES, content, "default")

    async def settle(self) -> None:
        """Let the proxy handle all changes."""
        clock: ManualClock = self.api.clock  # type: ignore[assignment]
        for _ in range(5):
            clock.advance(1)
            await async_sleep(0)

    async def serve(self, address: str, name: bytes) -> asyncio.Server:
        """Serve an endpoint that answers with its name and what it has read to the end."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(name + b":" + await reader.read())
            writer.close()

        listening = await self.sockets.listen(address, 8080, "tcp")
        return await asyncio.start_server(answer, sock=listening)

    async def request(self, data: bytes = b"hello", place: tuple[str, int] = WEB) -> bytes:
        """Send data to a service's address, end it, and return the answer."""
        where = self.sockets.places[(*place, "tcp")]
        reader, writer = await asyncio.open_connection(*where)
        writer.write(data)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer


@asynccontextmanager
async def running() -> AsyncIterator[ProxiedCluster]:
    cluster = ProxiedCluster()
    try:
        yield cluster
    finally:
        cluster.proxy.close()
        await async_sleep(0.01)


def test_connection_reaches_an_endpoint_in_both_directions() -> None:
    async def run() -> bytes:
        async with running() as cluster:
            cluster.add("10.244.1.4")
            await cluster.settle()
            async with await cluster.serve("10.244.1.4", b"a"):
                return await cluster.request(b"x" * 300_000)

    assert asyncio.run(run()) == b"a:" + b"x" * 300_000


def test_address_is_served_while_there_are_endpoints() -> None:
    async def run() -> list[int]:
        found = []
        async with running() as cluster:
            cluster.add()
            await cluster.settle()
            found.append(len(cluster.sockets.places))
            cluster.set_endpoints("10.244.1.4")
            await cluster.settle()
            place = cluster.sockets.places[(*WEB, "tcp")]
            found.append(len(cluster.sockets.places))
            cluster.set_endpoints()
            await cluster.settle()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*place)
        return found

    assert asyncio.run(run()) == [0, 1]


def test_refused_endpoint_resets_the_connection() -> None:
    async def run() -> None:
        async with running() as cluster:
            cluster.add("10.244.1.4")
            await cluster.settle()
            with pytest.raises(ConnectionResetError):
                await cluster.request()

    asyncio.run(run())


class _Programs:
    """The programs of a pod, whose ports open when a test says so."""

    def __init__(self) -> None:
        self.listening: set[int] = set()
        self.looked = asyncio.Event()

    async def is_listening(self, port: int) -> bool:
        self.looked.set()
        return port in self.listening


def _add_program(cluster: ProxiedCluster, address: str) -> _Programs:
    """Let a pod at an address run a program that does not listen yet."""
    programs, network = _Programs(), Network()
    network.programs = programs  # type: ignore[assignment]
    cluster.simulated[address] = network
    return programs


async def _wait_for_place(cluster: ProxiedCluster) -> None:
    async with asyncio.timeout(30):
        while (*WEB, "tcp") not in cluster.sockets.places:
            await async_sleep(0.001)


def test_a_ready_program_that_does_not_listen_refuses_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The address of its service is served from the moment its port is open."""
    monkeypatch.setattr(service_proxy, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(service_proxy, "_LAST_PAUSE", 0.001)

    async def run() -> bytes:
        async with running() as cluster:
            programs = _add_program(cluster, "10.244.1.4")
            cluster.add("10.244.1.4")
            await cluster.settle()
            await programs.looked.wait()
            assert cluster.sockets.places == {}
            async with await cluster.serve("10.244.1.4", b"a"):
                programs.listening.add(8080)
                await _wait_for_place(cluster)
                return await cluster.request()

    assert asyncio.run(run()) == b"a:hello"


def test_one_endpoint_that_listens_is_enough() -> None:
    async def run() -> None:
        async with running() as cluster:
            _add_program(cluster, "10.244.1.4")
            _add_program(cluster, "10.244.1.5").listening.add(8080)
            cluster.add("10.244.1.4", "10.244.1.5")
            await cluster.settle()
            assert (*WEB, "tcp") in cluster.sockets.places

    asyncio.run(run())


def test_a_port_that_was_closed_refuses_the_next_client() -> None:
    """The first one is reset: its connection was accepted before that was known."""

    async def run() -> None:
        async with running() as cluster:
            programs = _add_program(cluster, "10.244.1.4")
            programs.listening.add(8080)
            cluster.add("10.244.1.4")
            await cluster.settle()
            place = cluster.sockets.places[(*WEB, "tcp")]
            programs.listening.clear()
            with pytest.raises(ConnectionResetError):
                await cluster.request()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*place)

    asyncio.run(run())


def test_a_service_that_is_deleted_is_not_waited_for() -> None:
    async def run() -> None:
        async with running() as cluster:
            programs = _add_program(cluster, "10.244.1.4")
            cluster.add("10.244.1.4")
            await cluster.settle()
            await programs.looked.wait()
            cluster.api.delete("services", "web", "default")
            await cluster.settle()
            programs.listening.add(8080)
            assert cluster.proxy._opening == {}
            assert cluster.sockets.places == {}

    asyncio.run(run())


def test_connections_that_need_no_proxy_are_routed() -> None:
    async def run() -> None:
        async with running() as cluster:
            cluster.add("10.244.1.4", "10.244.1.5", type="NodePort")
            await cluster.settle()
            # The node's port stays with the proxy.
            assert cluster.sockets.routes == {WEB: [("10.244.1.4", 8080), ("10.244.1.5", 8080)]}
            cluster.set_endpoints("10.244.1.5")
            await cluster.settle()
            assert cluster.sockets.routes == {WEB: [("10.244.1.5", 8080)]}
            service = cluster.api.get("services", "web", "default")
            plain = service | {"metadata": {"name": "web", "namespace": "default"}}
            for changes in ({"sessionAffinity": "ClientIP"}, {"internalTrafficPolicy": "Local"}):
                cluster.api.update("services", plain | {"spec": plain["spec"] | changes})
                await cluster.settle()
                assert cluster.sockets.routes == {}
                cluster.api.update("services", plain)
                await cluster.settle()
                assert cluster.sockets.routes == {WEB: [("10.244.1.5", 8080)]}
            cluster.api.delete("services", "web", "default")
            await cluster.settle()
            assert cluster.sockets.routes == {}

    asyncio.run(run())


def test_clients_with_affinity_keep_their_endpoint() -> None:
    async def run() -> set[bytes]:
        async with running() as cluster:
            cluster.add("10.244.1.4", "10.244.1.5", "10.244.1.6", sessionAffinity="ClientIP")
            await cluster.settle()
            servers = [
                await cluster.serve(f"10.244.1.{last}", str(last).encode()) for last in (4, 5, 6)
            ]
            found = {await cluster.request(b"") for _ in range(12)}
            for server in servers:
                server.close()
            return found

    assert len(asyncio.run(run())) == 1


def make_simulated_pod() -> Network:
    """Return the ports of a pod whose program answers at 8080 with what it has read."""
    network = Network()

    def accept(stdin: Pipe, sink: Sink | None) -> ProcessSession:
        del sink
        output = OutputBuffer()

        def answer() -> None:
            output.write(1, b"simulated:" + stdin.take())
            output.end(0)

        stdin.when_ready(answer)
        return ProcessSession(stdin, output, stdin.close)

    network.listen(8080, accept)
    return network


def test_simulated_program_is_reached() -> None:
    async def run() -> bytes:
        async with running() as cluster:
            cluster.simulated["10.244.1.4"] = make_simulated_pod()
            cluster.add("10.244.1.4")
            await cluster.settle()
            return await cluster.request()

    assert asyncio.run(run()) == b"simulated:hello"


def test_node_port_and_external_address_are_served() -> None:
    async def run() -> list[bytes]:
        async with running() as cluster:
            node = cluster.api.create("nodes", {"metadata": {"name": "n"}})
            status = {"addresses": [{"type": "InternalIP", "address": "172.18.0.2"}]}
            cluster.api.update_status("nodes", {**node, "status": status})
            ports = [{"name": "main", "port": 80, "nodePort": 30080}]
            cluster.add("10.244.1.4", ports=ports, type="NodePort", externalIPs=["192.0.2.9"])
            await cluster.settle()
            assert cluster.sockets.added == {"192.0.2.9"}
            async with await cluster.serve("10.244.1.4", b"a"):
                return [
                    await cluster.request(b"", place)
                    for place in (WEB, ("172.18.0.2", 30080), ("192.0.2.9", 80))
                ]

    assert asyncio.run(run()) == [b"a:"] * 3


@pytest.mark.parametrize(
    ("is_isolated", "added"), [(True, {"127.5.0.1", "192.0.2.7"}), (False, {"192.0.2.7"})]
)
def test_load_balancer_is_served_to_programs_with_a_network_of_their_own(
    is_isolated: bool, added: set[str]
) -> None:
    """Others reach it on the machine's loopback interface, where it listens itself."""

    async def run() -> set[str]:
        async with running() as cluster:
            cluster.sockets.isolated = is_isolated
            cluster.add("10.244.1.4", type="LoadBalancer")
            _set_ingress(cluster, "127.5.0.1", "192.0.2.7")
            await cluster.settle()
            return cluster.sockets.added

    assert asyncio.run(run()) == added


def test_source_ranges_of_a_load_balancer_hold_for_pods() -> None:
    async def run() -> bytes:
        async with running() as cluster:
            ranges = ["10.0.0.0/8"]
            cluster.add("10.244.1.4", type="LoadBalancer", loadBalancerSourceRanges=ranges)
            _set_ingress(cluster, "192.0.2.7")
            await cluster.settle()
            async with await cluster.serve("10.244.1.4", b"a"):
                with pytest.raises(ConnectionResetError):
                    await cluster.request(b"", ("192.0.2.7", 80))
                # The cluster IP has none.
                return await cluster.request(b"")

    assert asyncio.run(run()) == b"a:"


def deny_connections(
    api: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, str, int, str]]:
    """Let network policies deny all connections; return the list of those that are asked for."""
    asked: list[tuple[str, str, int, str]] = []

    def is_allowed(client: str, address: str, port: int, protocol: str = "TCP") -> bool:
        asked.append((client, address, port, protocol))
        return False

    monkeypatch.setattr(get_network_policies(api), "is_allowed", is_allowed)
    return asked


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_connection_that_policies_deny_reaches_no_endpoint(
    monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """They are asked for the endpoint and the client's address."""

    async def run() -> list[tuple[str, str, int, str]]:
        async with running() as cluster:
            asked = deny_connections(cluster.api, monkeypatch)
            cluster.add("10.244.1.4", protocol=protocol)
            await cluster.settle()
            async with await cluster.serve("10.244.1.4", b"a"):
                if protocol == "TCP":
                    with pytest.raises(ConnectionResetError):
                        await cluster.request(b"")
                    return asked
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                    client.sendto(b"lost", cluster.sockets.places[(*WEB, "udp")])
                    while not asked:
                        await async_sleep(0.01)
            return asked

    assert asyncio.run(run()) == [("127.0.0.1", "10.244.1.4", 8080, protocol)]


def _set_ingress(cluster: ProxiedCluster, *addresses: str) -> None:
    """Give the service `web` addresses of a load balancer."""
    service = cluster.api.get("services", "web", "default")
    status = {"loadBalancer": {"ingress": [{"ip": one, "ipMode": "VIP"} for one in addresses]}}
    cluster.api.update_status("services", {**service, "status": status})


def _find_free_node_port() -> int:
    for port in range(31000, 32767):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


def test_node_port_is_served_on_the_machine() -> None:
    async def run() -> bytes:
        async with running() as cluster:
            number = _find_free_node_port()
            ports = [{"name": "main", "port": 80, "nodePort": number}]
            cluster.add("10.244.1.4", ports=ports, type="NodePort")
            await cluster.settle()
            cluster.sockets.places["machine", number, "tcp"] = ("127.0.0.1", number)
            async with await cluster.serve("10.244.1.4", b"a"):
                return await cluster.request(b"", ("machine", number))

    assert asyncio.run(run()) == b"a:"


def test_taken_port_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with running() as cluster:
            taken = await cluster.sockets.listen(*WEB, "tcp")
            cluster.add("10.244.1.4")
            await cluster.settle()
            taken.close()

    asyncio.run(run())
    assert caplog.messages == [
        "service default/web cannot be reached at 10.0.0.9:80: [Errno 98] Address already in use"
    ]


def test_datagrams_reach_an_endpoint_and_answers_come_back() -> None:
    class Echo(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: Any) -> None:
            self.transport.sendto(b"echo " + data, addr)

    async def run() -> list[bytes]:
        async with running() as cluster:
            cluster.add("10.244.1.4", protocol="UDP")
            await cluster.settle()
            loop = asyncio.get_running_loop()
            bound = await cluster.sockets.listen("10.244.1.4", 8080, "udp")
            echo, _ = await loop.create_datagram_endpoint(Echo, sock=bound)
            client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            client.setblocking(False)
            client.connect(cluster.sockets.places[(*WEB, "udp")])
            answers = []
            for data in (b"1", b"2"):
                await loop.sock_sendall(client, data)
                answers.append(await loop.sock_recv(client, 100))
            client.close()
            echo.close()
            return answers

    assert asyncio.run(run()) == [b"echo 1", b"echo 2"]


def test_programs_on_the_machines_network_are_not_looked_for_by_a_pods_address() -> None:
    """The network of the machine may have that address, too."""

    async def run() -> bytes:
        async with running() as cluster:
            cluster.sockets.isolated = False
            cluster.add("10.244.1.4")
            await cluster.settle()
            server = await cluster.serve("10.244.1.4", b"another machine")
            async with server:
                with suppress(ConnectionError):
                    return await cluster.request()
                return b""

    assert asyncio.run(run()) == b""

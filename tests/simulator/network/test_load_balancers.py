"""Load balancers on the machine's loopback interface."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.network import load_balancers
from pytest_kwait.simulator.network.load_balancers import LoadBalancers, get_load_balancers
from pytest_kwait.simulator.network.pod_network import get_pod_networks
from tests.simulator.cluster import new_cluster
from tests.simulator.network.loopback_sockets import LoopbackSockets
from tests.simulator.network.test_service_proxy import make_simulated_pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pytest_kwait.simulator.network.relay import SocketEnd
    from pytest_kwait.simulator.objects import Obj

POD = "10.244.1.4"
SLICES = "endpointslices.discovery.k8s.io"
READY = {"ready": True, "serving": True, "terminating": False}


class BalancedCluster:
    """A cluster with the load balancers of services that lead to one simulated pod."""

    def __init__(self) -> None:
        self.api = new_cluster()
        network = make_simulated_pod()
        kubelet: Any = SimpleNamespace(find_network={POD: network}.get)
        self.api.kubelets["n"] = kubelet
        self.balancers = LoadBalancers(self.api)

    def add(self, name: str, *ports: int, protocol: str = "TCP", **spec: Any) -> Obj:
        """Create a service of type LoadBalancer with its endpoint."""
        content = {
            "type": "LoadBalancer",
            "ports": [
                {"name": f"p{port}", "port": port, "protocol": protocol}
                for port in ports or (8080,)
            ],
            **spec,
        }
        metadata: Obj = {"name": name, "labels": {"kubernetes.io/service-name": name}}
        self.api.create(
            SLICES,
            {
                "metadata": metadata,
                "addressType": "IPv4",
                "ports": [{**port, "port": 8080} for port in content["ports"]],
                "endpoints": [{"addresses": [POD], "conditions": READY}],
            },
            "default",
        )
        return self.api.create("services", {"metadata": metadata, "spec": content}, "default")

    def ensure(self, service: Obj) -> str:
        """Create or update a load balancer, write the status, and return the address."""
        ingress = self.balancers.ensure(service)
        stored = self.api.get("services", service["metadata"]["name"], "default")
        self.api.update_status(
            "services", {**stored, "status": {"loadBalancer": {"ingress": ingress}}}
        )
        assert [one["ipMode"] for one in ingress] == ["VIP"]
        return str(ingress[0]["ip"])

    def change(self, name: str, **spec: Any) -> Obj:
        return self.api.modify("services", name, "default", lambda obj: obj["spec"].update(spec))


@asynccontextmanager
async def running() -> AsyncIterator[BalancedCluster]:
    cluster = BalancedCluster()
    try:
        yield cluster
    finally:
        await cluster.balancers.close()


async def request(address: str, port: int = 8080) -> bytes:
    """Send data to an address of the machine, and return the answer."""
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(b"hello")
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


def refusal(cluster: BalancedCluster, service: Obj) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the text is asserted by callers
        cluster.balancers.ensure(service)
    return str(caught.value.strerror)


def test_two_services_have_one_port_at_two_addresses() -> None:
    async def run() -> None:
        async with running() as cluster:
            first, second = cluster.add("first"), cluster.add("second")
            addresses = [cluster.ensure(first), cluster.ensure(second)]
            [network] = cluster.balancers.list_networks()
            prefix = network.removesuffix(".0.0/16")
            assert addresses == [f"{prefix}.0.1", f"{prefix}.0.2"]
            assert [await request(address) for address in addresses] == [b"simulated:hello"] * 2
            assert cluster.ensure(first) == addresses[0]
            cluster.balancers.ensure_deleted(first)
            cluster.balancers.ensure_deleted(first)
            assert [cluster.balancers.has(one) for one in (first, second)] == [False, True]
            await async_sleep(0)
            with pytest.raises(ConnectionRefusedError):
                await request(addresses[0])
            # An address is used again as late as possible.
            assert cluster.ensure(cluster.add("third")) == f"{prefix}.0.3"

    asyncio.run(run())


def test_two_clusters_have_no_address_in_common() -> None:
    async def run() -> None:
        async with running() as one, running() as other:
            assert one.balancers.list_networks() != other.balancers.list_networks()
            assert one.ensure(one.add("web")) != other.ensure(other.add("web"))

    asyncio.run(run())


def test_ports_follow_the_service() -> None:
    async def run() -> None:
        async with running() as cluster:
            service = cluster.add("web", 8080, 8081)
            address = cluster.ensure(service)
            assert await request(address, 8081) == b"simulated:hello"
            changed = cluster.change("web", ports=[{"name": "p8080", "port": 8082}])
            assert cluster.ensure(changed) == address
            await async_sleep(0)
            with pytest.raises(ConnectionRefusedError):
                await request(address, 8080)
            assert await request(address, 8082) == b"simulated:hello"

    asyncio.run(run())


def test_address_that_is_asked_for() -> None:
    async def run() -> None:
        async with running() as cluster:
            network = cluster.balancers.list_networks()[0].removesuffix(".0.0/16")
            asked = f"{network}.7.7"
            service = cluster.add("web", loadBalancerIP=asked)
            assert cluster.ensure(service) == cluster.ensure(service) == asked
            assert await request(asked) == b"simulated:hello"
            taken = cluster.add("other", loadBalancerIP=asked)
            assert refusal(cluster, taken) == f"loadBalancerIP {asked} is another service's"
            moved = cluster.change("web", loadBalancerIP=f"{network}.7.8")
            assert cluster.ensure(moved) == f"{network}.7.8"
            assert cluster.ensure(taken) == asked
            for elsewhere in ("192.0.2.1", "fe80::1", f"{network}.255.254"):
                away = cluster.change("web", loadBalancerIP=elsewhere)
                assert refusal(cluster, away) == (
                    f"loadBalancerIP {elsewhere} is not in {network}.0.1 to {network}.255.0"
                )
            assert await request(f"{network}.7.8") == b"simulated:hello"

    asyncio.run(run())


def test_connection_without_an_endpoint_is_reset() -> None:
    async def run() -> None:
        async with running() as cluster:
            address = cluster.ensure(cluster.add("web"))
            cluster.api.kubelets.clear()
            with pytest.raises(ConnectionResetError):
                await request(address)
            cluster.api.delete(SLICES, "web", "default")
            with pytest.raises(ConnectionResetError):
                await request(address)

    asyncio.run(run())


@pytest.mark.parametrize("is_annotated", [False, True])
def test_source_ranges(is_annotated: bool) -> None:
    async def run() -> None:
        async with running() as cluster:
            service = cluster.add("web")

            def allow(*ranges: str) -> Obj:
                if not is_annotated:
                    return cluster.change("web", loadBalancerSourceRanges=list(ranges))
                name = "service.beta.kubernetes.io/load-balancer-source-ranges"
                values = {name: ", ".join(ranges)}
                return cluster.api.modify(
                    "services", "web", "default",
                    lambda obj: obj["metadata"].update(annotations=values),
                )  # fmt: skip

            address = cluster.ensure(service)
            cluster.ensure(allow("10.0.0.0/8"))
            with pytest.raises(ConnectionResetError):
                await request(address)
            cluster.ensure(allow("10.0.0.0/8", "127.0.0.1/32"))
            assert await request(address) == b"simulated:hello"

    asyncio.run(run())


def test_unsupported_protocol() -> None:
    async def run() -> None:
        async with running() as cluster:
            service = cluster.add("web", protocol="SCTP")
            assert refusal(cluster, service) == "protocol SCTP is not supported"
            assert not cluster.balancers.has(service)

    asyncio.run(run())


def test_port_that_a_process_of_the_machine_has() -> None:
    async def run() -> None:
        async with running() as cluster:
            service = cluster.add("web", 8080, 8081)
            address = cluster.balancers.list_networks()[0].replace(".0.0/16", ".0.1")
            with socket.socket() as taken:
                taken.bind((address, 8081))
                taken.listen()
                assert refusal(cluster, service) == (
                    f"listen on {address}:8081/TCP: Address already in use"
                )
                with pytest.raises(ConnectionRefusedError):
                    await request(address)
            assert cluster.ensure(service) != address

    asyncio.run(run())


@pytest.mark.parametrize("first", ["1024\n", None])
def test_port_for_privileged_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: str | None
) -> None:
    start = tmp_path / "ip_unprivileged_port_start"
    if first is not None:
        start.write_text(first)

    def bind(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(load_balancers, "_FIRST_UNPRIVILEGED", str(start))
    monkeypatch.setattr(load_balancers, "bind_on_machine", bind)

    async def run() -> None:
        async with running() as cluster:
            address = cluster.balancers.list_networks()[0].replace(".0.0/16", ".0.1")
            assert refusal(cluster, cluster.add("web", 80)) == (
                f"{address}:80/TCP asks for a port that only privileged programs may use here: "
                "choose one from 1024 on, or set the sysctl net.ipv4.ip_unprivileged_port_start"
            )

    asyncio.run(run())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (
            errno.EADDRNOTAVAIL,
            "the loopback interface of this machine has no addresses but 127.0.0.1, as on macOS",
        ),
        (errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)),
    ],
)
def test_machine_without_addresses(monkeypatch: pytest.MonkeyPatch, number: int, text: str) -> None:
    def hold(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(load_balancers, "hold_block", hold)

    async def run() -> None:
        async with running() as cluster:
            assert cluster.balancers.list_networks() == ()
            assert refusal(cluster, cluster.add("web")) == text

    asyncio.run(run())


@pytest.fixture
def few_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a block have one address."""
    monkeypatch.setattr(load_balancers, "_ADDRESSES", 1)


@pytest.mark.usefixtures("few_addresses")
def test_block_that_is_full() -> None:
    async def run() -> None:
        async with running() as cluster:
            address = cluster.ensure(cluster.add("first"))
            second = cluster.add("second")
            [network] = cluster.balancers.list_networks()
            assert refusal(cluster, second) == f"all addresses of {network} are in use"
            cluster.balancers.ensure_deleted(cluster.api.get("services", "first", "default"))
            await async_sleep(0)
            assert cluster.ensure(second) == address

    asyncio.run(run())


class _Programs:
    """The network of programs, whose ports refuse connections."""

    def __init__(self) -> None:
        self.sockets = LoopbackSockets()
        self.targets: list[tuple[str, int]] = []

    async def connect_to(self, target: tuple[str, int], end: SocketEnd) -> bool:
        self.targets.append(target)
        del end
        return False


def test_programs_are_reached_through_their_network() -> None:
    async def run() -> list[tuple[str, int]]:
        async with running() as cluster:
            programs = _Programs()
            get_pod_networks(cluster.api).current = cast("Any", programs)
            with pytest.raises(ConnectionResetError):
                await request(cluster.ensure(cluster.add("web")))
            return programs.targets

    assert asyncio.run(run()) == [(POD, 8080)]


class _Receiver(asyncio.DatagramProtocol):
    """Receives one datagram, and may answer it."""

    def __init__(self, answer: bytes = b"") -> None:
        self.received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.received.set_result(data)
        if self._answer:
            self._transport.sendto(self._answer + data, addr)


def test_datagrams_reach_programs_and_no_others() -> None:
    async def run() -> bytes:
        async with running() as cluster:
            address = cluster.ensure(cluster.add("dns", protocol="UDP"))
            loop = asyncio.get_running_loop()
            client, answers = await loop.create_datagram_endpoint(
                _Receiver, remote_addr=(address, 8080)
            )
            client.sendto(b"lost")
            for _ in range(9):
                await async_sleep(0)
            programs = _Programs()
            get_pod_networks(cluster.api).current = cast("Any", programs)
            listening = await programs.sockets.listen(POD, 8080, "udp")
            server, _ = await loop.create_datagram_endpoint(
                lambda: _Receiver(b"answer to "), sock=listening
            )
            client.sendto(b"hello")
            answer = await answers.received
            server.close()
            client.close()
            return answer

    assert asyncio.run(run()) == b"answer to hello"


def test_cluster_has_one_set_of_load_balancers() -> None:
    api = new_cluster()
    assert get_load_balancers(api) is get_load_balancers(api)
    asyncio.run(api.services.close())

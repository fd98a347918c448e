"""Host ports of pods, on loopback sockets."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.network.cluster_network import list_host_ports
from pytest_kwait.simulator.network.host_ports import HostPorts
from tests.objects import pod
from tests.simulator.network.test_service_proxy import deny_connections, running

if TYPE_CHECKING:
    from tests.simulator.network.test_service_proxy import ProxiedCluster

NODE, POD = "172.18.0.2", "10.244.1.4"


def web_pod(name: str = "web", address: str = POD, **port: Any) -> dict[str, Any]:
    """Return a running pod with one port."""
    ports = [{"containerPort": 8080, **port}]
    return pod(
        name,
        "Running",
        container={"ports": ports},
        namespace="default",
        nodeName="n",
        podIP=address,
        hostIP=NODE,
    )


@pytest.mark.parametrize(
    ("port", "addresses"),
    [
        ({"hostPort": 80}, [NODE, "127.0.0.1"]),
        ({"hostPort": 80, "hostIP": "0.0.0.0"}, [NODE, "127.0.0.1"]),
        ({"hostPort": 80, "hostIP": "127.0.0.1"}, ["127.0.0.1"]),
        ({"hostPort": 80, "hostIP": NODE}, [NODE]),
        ({}, []),
    ],
)
def test_addresses_of_a_host_port(port: dict[str, Any], addresses: list[str]) -> None:
    found = list(list_host_ports(web_pod(**port)))
    assert [one.address for one, _ in found] == addresses
    assert {target for _, target in found} <= {(POD, 8080)}


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"containers": [], "hostNetwork": True}},
        {"status": {"phase": "Succeeded", "podIP": POD, "hostIP": NODE}},
        {"status": {"phase": "Pending", "hostIP": NODE}},
    ],
)
def test_pods_without_host_ports(change: dict[str, Any]) -> None:
    assert not list(list_host_ports({**web_pod(hostPort=80), **change}))


def test_sidecars_have_host_ports() -> None:
    pod = web_pod()
    first = {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 5, "containerPort": 6}]}
    pod["spec"]["initContainers"] = [first, {**first, "restartPolicy": None}]
    [(port, target), _] = list_host_ports(pod)
    assert (port.address, port.port, target) == (NODE, 5, (POD, 6))


@pytest.fixture
def free_port() -> int:
    """Return a port of the machine that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def add(cluster: ProxiedCluster, pod: dict[str, Any]) -> None:
    """Create a pod with its status."""
    created = cluster.api.create("pods", pod, "default")
    cluster.api.update_status("pods", {**created, "status": pod["status"]})


def test_host_port_leads_to_the_pod_while_it_runs(free_port: int) -> None:
    async def run() -> list[bytes]:
        async with running() as cluster:
            ports = HostPorts(cluster.api, cluster.proxy)
            await add(cluster, web_pod(hostPort=free_port))
            await cluster.settle()
            cluster.sockets.places["machine", free_port, "tcp"] = ("127.0.0.1", free_port)
            async with await cluster.serve(POD, b"a"):
                found = [
                    await cluster.request(b"", (place, free_port))
                    for place in (NODE, "127.0.0.1", "machine")
                ]
            cluster.api.delete("pods", "web", "default", grace=0)
            await cluster.settle()
            with pytest.raises(ConnectionRefusedError):
                await cluster.request(b"", ("machine", free_port))
            ports.close()
            return found

    assert asyncio.run(run()) == [b"a:"] * 3


def test_second_pod_takes_a_loopback_port_over(free_port: int) -> None:
    async def run() -> list[bytes]:
        async with running() as cluster:
            ports = HostPorts(cluster.api, cluster.proxy)
            for name, last in (("first", 4), ("second", 5)):
                pod = web_pod(name, f"10.244.1.{last}", hostPort=free_port)
                pod["status"]["hostIP"] = f"172.18.0.{last}"
                await add(cluster, pod)
            await cluster.settle()
            cluster.sockets.places["machine", free_port, "tcp"] = ("127.0.0.1", free_port)
            found = []
            async with (
                await cluster.serve("10.244.1.4", b"first"),
                await cluster.serve("10.244.1.5", b"second"),
            ):
                found.append(await cluster.request(b"", ("machine", free_port)))
                cluster.api.delete("pods", "first", "default", grace=0)
                found.append(await cluster.request(b"", ("machine", free_port)))
            ports.close()
            return found

    assert asyncio.run(run()) == [b"first:", b"second:"]


def test_connection_that_policies_deny_reaches_no_pod(
    monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    async def run() -> list[tuple[str, str, int, str]]:
        async with running() as cluster:
            asked = deny_connections(cluster.api, monkeypatch)
            ports = HostPorts(cluster.api, cluster.proxy)
            await add(cluster, web_pod(hostPort=free_port))
            await cluster.settle()
            async with await cluster.serve(POD, b"a"):
                with pytest.raises(ConnectionResetError):
                    await cluster.request(b"", (NODE, free_port))
            ports.close()
            return asked

    assert asyncio.run(run()) == [("127.0.0.1", POD, 8080, "TCP")]


def test_taken_host_port_is_logged(free_port: int, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with running() as cluster:
            taken = await cluster.sockets.listen(NODE, free_port, "udp")
            ports = HostPorts(cluster.api, cluster.proxy)
            await add(cluster, web_pod(hostPort=free_port, hostIP=NODE, protocol="UDP"))
            await cluster.settle()
            ports.close()
            taken.close()

    asyncio.run(run())
    assert caplog.messages == [
        f"host port of pod default/web cannot be reached at {NODE}:{free_port}: [Errno 98] "
        "Address already in use"
    ]

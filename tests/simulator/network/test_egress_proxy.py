"""The proxy of egress: connections on loopback sockets, and events of pods."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.network import egress_proxy
from pytest_kwait.simulator.network.egress_proxy import (
    EgressProxy,
    get_egress_reporter,
    open_egress_session,
)
from pytest_kwait.simulator.protocol.egress import EgressTarget
from tests.objects import pod
from tests.simulator.cluster import new_cluster
from tests.simulator.network.loopback_sockets import LoopbackSockets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytest_kwait.simulator.cluster import SimulatedCluster

MACHINE, NAME, CLIENT = "host.kwait.internal", "198.18.0.1", "10.244.1.4"


class _Kubelet:
    """A node with one pod."""

    def __init__(self, address: str, found: dict[str, Any]) -> None:
        self._address = address
        self._pod = found

    def list_addresses(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the pod."""
        return [(self._address, self._pod)]


def add_pod(api: SimulatedCluster, name: str = "p", address: str = CLIENT, **spec: Any) -> None:
    """Create a pod that runs at an address."""
    kubelet: Any = _Kubelet(address, api.create("pods", pod(name, **spec), "default"))
    api.kubelets[f"node-of-{name}"] = kubelet


def list_events(api: SimulatedCluster) -> list[tuple[str, str, str]]:
    """Return object, reason and message of all events."""
    return [
        (one["involvedObject"]["name"], one["reason"], one["message"]) for one in api.list("events")
    ]


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """Serve on this machine, with what was read as the answer; give the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"read " + await reader.read())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def find_free_port() -> int:
    """Return a port of the machine that nothing serves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def settle() -> None:
    """Let listeners open."""
    for _ in range(5):
        await async_sleep(0)


async def request(sockets: LoopbackSockets, port: int) -> bytes:
    """Send data to the machine's address in pods, end it, and return the answer."""
    reader, writer = await asyncio.open_connection(*sockets.places[NAME, port, "tcp"])
    try:
        writer.write(b"hello")
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("host", [MACHINE, "localhost"])
def test_connection_goes_on_from_the_machine_while_it_is_allowed(host: str) -> None:
    """A name is resolved by the machine."""

    async def run() -> bytes:
        api, sockets = new_cluster(), LoopbackSockets()
        async with serving() as port:
            proxy = EgressProxy(api, sockets)
            target = EgressTarget(host, port)
            api.egress.add(target)
            await settle()
            answer = await request(sockets, port)
            api.egress.remove(target)
            with pytest.raises(ConnectionRefusedError):
                await request(sockets, port)
            proxy.close()
        assert sockets.added == {NAME}
        assert list_events(api) == []
        return answer

    assert asyncio.run(run()) == b"read hello"


def test_targets_from_the_start_are_served_until_the_end() -> None:
    async def run() -> list[tuple[str, int, str]]:
        api, sockets = new_cluster(), LoopbackSockets()
        api.egress.add(EgressTarget("192.0.2.7", 80))
        proxy = EgressProxy(api, sockets)
        await settle()
        place = sockets.places["192.0.2.7", 80, "tcp"]
        proxy.close()
        api.egress.add(EgressTarget("192.0.2.7", 81))
        await settle()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*place)
        return list(sockets.places)

    assert asyncio.run(run()) == [("192.0.2.7", 80, "tcp")]


def test_an_address_that_is_taken_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        api, sockets = new_cluster(), LoopbackSockets()
        taken = await sockets.listen("192.0.2.7", 80, "tcp")
        api.egress.add(EgressTarget("192.0.2.7", 80))
        proxy = EgressProxy(api, sockets)
        await settle()
        proxy.close()
        taken.close()

    asyncio.run(run())
    assert caplog.messages == [
        "egress to 192.0.2.7:80 cannot be reached at 192.0.2.7:80: [Errno 98] Address already in "
        "use"
    ]


def test_a_target_that_refuses_resets_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    port = find_free_port()

    async def run() -> None:
        api, sockets = new_cluster(), LoopbackSockets()
        proxy = EgressProxy(api, sockets)
        api.egress.add(EgressTarget(MACHINE, port))
        await settle()
        with pytest.raises(ConnectionResetError):
            await request(sockets, port)
        proxy.close()

    asyncio.run(run())
    # No pod has the address of this client.
    assert caplog.messages == [
        f"egress: {MACHINE}:{port} cannot be reached from this machine: Connection refused"
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('192.0.2.7', 1)"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (TimeoutError(), "no answer in 5s"),
        (OSError("Multiple exceptions: a, b"), "Multiple exceptions: a, b"),
    ],
)
def test_why_a_target_is_not_reached_is_an_event_of_the_pod(
    monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str
) -> None:
    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(egress_proxy, "_connect", fail)
    api = new_cluster()
    add_pod(api)
    with pytest.raises(ConnectionRefusedError) as caught:
        asyncio.run(open_egress_session(api, EgressTarget("db.org", 5432), CLIENT))
    assert caught.value.strerror == "Connection refused"
    message = f"db.org:5432 cannot be reached from this machine: {reason}"
    assert list_events(api) == [("p", "EgressFailed", message)]
    [event] = api.list("events")
    assert (event["type"], event["source"]) == ("Warning", {"component": "kwait-network"})


def test_name_outside_is_reported_once_for_each_pod() -> None:
    api = new_cluster()
    add_pod(api)
    add_pod(api, "q", "10.244.1.5")
    reporter = get_egress_reporter(api)
    assert get_egress_reporter(api) is reporter
    for client in (CLIENT, CLIENT, "10.244.1.5", "10.244.9.9"):
        reporter.report_name("pypi.org", client)
    reporter.report_name(MACHINE, CLIENT)
    message = "pypi.org is outside of the cluster: allow it by --kwait-egress=pypi.org:PORT"
    machine = f"{MACHINE} is this machine: allow a port of it by --kwait-egress=localhost:PORT"
    assert sorted(list_events(api)) == [
        ("p", "EgressNotAllowed", machine),
        ("p", "EgressNotAllowed", message),
        ("q", "EgressNotAllowed", message),
    ]
    assert {event["count"] for event in api.list("events")} == {1}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "db",
        "_ldap._tcp.corp.org",
        "10.0.0.300",
        "db.shop.svc",
        "10-244-0-1.shop.pod",
        "db.localhost",
        "db.kube-system",
        "db-0.db.kube-system",
        "web-0.web",
        "pypi.org.corp.example",
    ],
)
def test_names_meant_for_the_cluster_are_not_reported(name: str) -> None:
    api = new_cluster()
    ports = [{"port": 80}]
    api.create("services", {"metadata": {"name": "web"}, "spec": {"ports": ports}}, "default")
    add_pod(api, dnsConfig={"searches": ["corp.example"]})
    reporter = get_egress_reporter(api)
    reporter.report_name(name, CLIENT)
    assert list_events(api) == []
    reporter.report_name("db.corp.example", CLIENT)
    assert len(list_events(api)) == 1


def test_events_of_a_pod_are_bounded() -> None:
    api = new_cluster()
    add_pod(api)
    reporter = get_egress_reporter(api)
    for number in range(20):
        reporter.report_name(f"host-{number}.org", CLIENT)
    assert len(list_events(api)) == 8
    # Another pod of that name has its own.
    api.delete("pods", "p", "default", grace=0)
    add_pod(api)
    reporter.report_name("host-0.org", CLIENT)
    assert len(list_events(api)) == 9

"""The filter of a network namespace, with real packets on a loopback interface of its own."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.network.filter_rules import ALL_PORTS, FilterRule, PortRange
from pytest_kwait.simulator.runtimes.processes.netlink import Netlink
from pytest_kwait.simulator.runtimes.processes.packet_filter import PacketFilter
from pytest_kwait.simulator.runtimes.processes.system_calls import CLONE_NEWNET, setns, unshare

if TYPE_CHECKING:
    from collections.abc import Iterator

POD, CLIENT, OTHER, PEER = "10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.1.4"
_SECONDS = 0.3
"""A connection within a network namespace is made or refused within microseconds."""


@pytest.fixture
def network() -> Iterator[None]:
    """Be in a network namespace of its own, which has all addresses of a network."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        try:
            unshare(CLONE_NEWNET)
        except OSError as error:
            pytest.skip(f"no network namespace: {error.strerror}")
        try:
            link = Netlink()
            link.set_up("lo")
            link.add_local_network("10.9.0.0/16")
            link.close()
            yield
        finally:
            setns(own)
    finally:
        os.close(own)


@pytest.fixture
def pod(network: None) -> Iterator[ExitStack]:
    """Serve two ports of the pod, and give what closes sockets."""
    with ExitStack() as stack:
        for port in (80, 81):
            stack.enter_context(socket.create_server((POD, port)))
        yield stack


@pytest.fixture
def packet_filter(network: None) -> PacketFilter:
    """Return the filter of the pod's namespace."""
    made = PacketFilter(POD)
    try:
        made.replace([FilterRule(CLIENT, f"{POD}/32", ALL_PORTS, is_allowed=True)])
    except OSError as error:
        if error.errno not in (errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.ENOENT):
            raise
        pytest.skip(f"no nf_tables: {error.strerror}")
    return made


def denies(source: str, destination: str, ports: PortRange = ALL_PORTS) -> FilterRule:
    """Return a rule against connections."""
    return FilterRule(source, destination, ports, is_allowed=False)


def connect(source: str, port: int) -> socket.socket | None:
    """Return a connection to the pod; None if nothing answers."""
    made = socket.socket()
    made.settimeout(_SECONDS)
    made.bind((source, 0))
    try:
        made.connect((POD, port))
    except OSError as error:
        made.close()
        if isinstance(error, TimeoutError):
            return None
        raise
    return made


def list_reached(source: str = CLIENT) -> list[int]:
    """Return the ports of the pod that answer."""
    reached = []
    for port in (80, 81, 82):
        try:
            made = connect(source, port)
        except ConnectionRefusedError:
            reached.append(port)
            continue
        if made is not None:
            made.close()
            reached.append(port)
    return reached


@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize(
    ("rules", "reached"),
    [
        ([], [80, 81, 82]),
        ([denies(CLIENT, f"{POD}/32")], []),
        ([denies(OTHER, f"{POD}/32")], [80, 81, 82]),
        ([denies(CLIENT, f"{PEER}/32")], [80, 81, 82]),
        ([denies(CLIENT, "10.9.0.0/24", PortRange("TCP", 80, 80))], [81, 82]),
        ([denies(CLIENT, "0.0.0.0/0", PortRange("TCP", 81, 90))], [80]),
        ([denies(CLIENT, "0.0.0.0/0", PortRange("UDP", 0, 65535))], [80, 81, 82]),
        (
            [
                FilterRule(CLIENT, f"{POD}/32", PortRange("TCP", 81, 81), is_allowed=True),
                denies(CLIENT, "0.0.0.0/0", PortRange("TCP", 0, 65535)),
            ],
            [81],
        ),
    ],
)  # fmt: skip
def test_rules(packet_filter: PacketFilter, rules: list[FilterRule], reached: list[int]) -> None:
    packet_filter.replace(rules)
    assert list_reached() == reached
    assert list_reached(PEER) == [80, 81, 82]


@pytest.mark.usefixtures("pod")
def test_last_rules_hold_however_many(packet_filter: PacketFilter) -> None:
    many = [denies(OTHER, f"{POD}/32")] * 2500
    closed = denies(CLIENT, f"{POD}/32")
    packet_filter.replace([*many, closed])
    assert list_reached() == []
    packet_filter.replace([closed])
    assert list_reached() == []
    packet_filter.replace([])
    assert list_reached() == [80, 81, 82]


def test_connections_that_exist_go_on(pod: ExitStack, packet_filter: PacketFilter) -> None:
    """Those from before the filter, too."""
    server = pod.enter_context(socket.create_server((POD, 90)))
    made = connect(CLIENT, 90)
    assert made is not None
    with made, server.accept()[0] as accepted:
        for client in (CLIENT, POD):
            packet_filter.replace([denies(client, "0.0.0.0/0")])
            made.sendall(b"asked")
            assert accepted.recv(5) == b"asked"
            accepted.sendall(b"answered")
            assert made.recv(8) == b"answered"


@pytest.mark.usefixtures("network")
def test_datagrams_are_lost_without_an_error_but_answers_arrive(
    packet_filter: PacketFilter,
) -> None:
    packet_filter.replace([denies(CLIENT, f"{POD}/32")])
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        for made, host in ((server, POD), (client, CLIENT)):
            made.bind((host, 0))
            made.settimeout(_SECONDS)
        assert client.sendto(b"lost", server.getsockname()) == 4
        with pytest.raises(TimeoutError):
            server.recv(9)
        server.sendto(b"asked", client.getsockname())
        _, address = client.recvfrom(9)
        client.sendto(b"answer", address)
        assert server.recv(9) == b"answer"


@pytest.mark.usefixtures("network")
def test_refusal_of_the_kernel_is_its_error(packet_filter: PacketFilter) -> None:
    """And the rules before it stay."""
    closed = denies(CLIENT, f"{POD}/32")
    packet_filter.replace([closed])
    with socket.create_server((POD, 80)):
        child = os.fork()
        if not child:
            # Another user of the machine may not change it.
            os.setresuid(65534, 65534, 65534)
            try:
                packet_filter.replace([])
            except PermissionError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert connect(CLIENT, 80) is None

"""Sockets of intercepted programs."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.network.filter_rules import ALL_PORTS, FilterRule, PortRange
from pytest_kwait.simulator.runtimes.processes.intercepted import addresses
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    LOCALHOST,
    UNSPECIFIED,
    Address,
    AddressTable,
    create_table,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Change,
    Continue,
    Descriptor,
    Pointers,
    Result,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.connection_filter import (
    FilterWriter,
    ProgramFilter,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.interfaces import (
    InterfaceCalls,
    PodInterfaces,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.network import NetworkCalls, PodAddress
from pytest_kwait.simulator.runtimes.processes.intercepted.service_routes import (
    RouteWriter,
    ServiceRoutes,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.unix_sockets import SocketPath
from tests.simulator.runtimes.processes.intercepted.memory import FakeMemory, make_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall

POD, OTHER, SERVICE = map(IPv4Address, ("10.244.0.5", "10.244.0.6", "10.0.0.1"))
NETWORKS = tuple(map(IPv4Network, ("10.244.0.0/14", "10.0.0.0/16", "127.7.0.0/16")))
BALANCER = "127.7.0.1"
OWN = "127.9.0.1"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AddressTable]:
    """Return a table in which the pod has the first address, and all ports are free."""
    start = tmp_path / "ip_unprivileged_port_start"
    start.write_text("0\n")
    monkeypatch.setattr(f"{addresses.__name__}._FIRST_UNPRIVILEGED", str(start))
    create_table(str(tmp_path / "addresses"), 9)
    made = AddressTable(str(tmp_path / "addresses"))
    made.add(Address(POD))
    yield made
    made.close()


class FakeSockets:
    """Unix sockets in a volume."""

    def find(self, call: SystemCall, path: bytes, *, is_created: bool) -> SocketPath | None:
        """Return a path on the machine for those in the volume."""
        del call
        if path.startswith(b"/data/"):
            return SocketPath(b"/machine" + (b"/new" if is_created else b"") + path)
        return None

    def find_name(self, bound: bytes) -> bytes | None:
        """Return the path in the container."""
        is_new = bound.startswith(b"/machine/new/")
        return bound.removeprefix(b"/machine/new") if is_new else None


@pytest.fixture
def routes(tmp_path: Path) -> RouteWriter:
    """Return what writes the routes of services."""
    return RouteWriter(str(tmp_path / "addresses"))


@pytest.fixture
def rules(table: AddressTable, tmp_path: Path) -> Iterator[FilterWriter]:
    """Return what writes the rules for new connections."""
    made = FilterWriter(str(tmp_path / "addresses"), table)
    yield made
    made.close()


def make_calls(
    pod: PodAddress, table: AddressTable, interfaces: InterfaceCalls, folder: Path
) -> NetworkCalls:
    """Return the answers to a pod's programs."""
    path = str(folder / "addresses")
    routes, rules = ServiceRoutes(path), ProgramFilter(path, pod.host)
    return NetworkCalls(pod, table, FakeSockets(), interfaces, routes, rules)


@pytest.fixture
def calls(table: AddressTable, tmp_path: Path) -> Iterator[NetworkCalls]:
    """Return the answers to a pod's programs."""
    interfaces = InterfaceCalls(PodInterfaces(POD, NETWORKS))
    made = make_calls(PodAddress(POD, POD, NETWORKS), table, interfaces, tmp_path)
    yield made
    made.close()
    interfaces.close()


def inet(host: str, port: int) -> bytes:
    """Return a `sockaddr_in`."""
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, IPv4Address(host).packed)


def inet6(host: str, port: int) -> bytes:
    """Return a `sockaddr_in6`."""
    packed = socket.inet_pton(socket.AF_INET6, host)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI16s4x", port, 7, packed)


def change(calls: NetworkCalls, name: str, address: bytes, fd: int = 3) -> Answer:
    """Return the answer to a call with an address."""
    memory = FakeMemory()
    place = memory.add(address)
    if name == "sendto":
        return calls.answers[name](make_call(name, memory, fd, 0, 0, 0, place, len(address)))
    return calls.answers[name](make_call(name, memory, fd, place, len(address)))


def get_changes(answer: Answer) -> Mapping[int, object]:
    """Return the changed arguments of an answer."""
    assert isinstance(answer, Change)
    return answer.arguments


def returned(
    calls: NetworkCalls, name: str, address: bytes, result: int = 0, space: int = 28, fd: int = 3
) -> bytes:
    """Return the address that a program sees after the kernel has written another one."""
    memory = FakeMemory()
    place = memory.add(bytes(128))
    length = memory.add(struct.pack("=I", space))
    if name == "recvfrom":
        call = make_call(name, memory, fd, 0, 0, 0, place, length)
    else:
        call = make_call(name, memory, fd, place, length)
    answer = calls.answers[name](call)
    assert isinstance(answer, Continue)
    assert answer.on_return is not None
    memory.write(place, address[:space])
    memory.write(length, struct.pack("=I", len(address)))
    answer.on_return(result)
    (written,) = struct.unpack("=I", memory.read(length, 4))
    return memory.read(place, min(written, space))


# -- sockets


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize(
    ("family", "own"),
    [(socket.AF_INET, OWN), (socket.AF_INET6, f"::ffff:{OWN}")],
    ids=["inet", "inet6"],
)
def test_socket_has_the_pod_s_address(
    calls: NetworkCalls, family: socket.AddressFamily, own: str, kind: socket.SocketKind
) -> None:
    answer = calls.answers["socket"](
        make_call("socket", FakeMemory(), family, kind | socket.SOCK_NONBLOCK, 0)
    )
    assert isinstance(answer, Descriptor)
    assert answer.is_kept
    assert not os.get_blocking(answer.fd)
    with socket.socket(fileno=answer.fd) as made:
        assert made.getsockname()[:2] == (own, 0)
        assert (made.family, made.type) == (family, kind)
        if kind == socket.SOCK_STREAM:
            made.listen()
        else:
            made.connect((own, 9))
        assert made.getsockname()[1] > 0


def test_socket_may_be_closed_by_an_execution(calls: NetworkCalls) -> None:
    kind = socket.SOCK_STREAM | socket.SOCK_CLOEXEC
    answer = calls.answers["socket"](
        make_call("socket", FakeMemory(), socket.AF_INET, kind, socket.IPPROTO_TCP)
    )
    assert isinstance(answer, Descriptor)
    assert not answer.is_kept
    assert os.get_blocking(answer.fd)
    os.close(answer.fd)


@pytest.mark.parametrize("kind", [socket.SOCK_RAW, socket.SOCK_SEQPACKET])
def test_other_sockets_are_the_machine_s(calls: NetworkCalls, kind: int) -> None:
    call = make_call("socket", FakeMemory(), socket.AF_INET, kind, 0)
    assert calls.answers["socket"](call) == Continue()


@pytest.mark.parametrize(
    ("address", "bound"),
    [
        (inet("0.0.0.0", 8080), inet(OWN, 8080)),
        (inet("10.244.0.5", 8080), inet(OWN, 8080)),
        (inet("127.0.0.1", 8080), inet("127.9.0.2", 8080)),
        (inet(OWN, 8080), inet(OWN, 8080)),
        (inet6("::", 8080), inet6(f"::ffff:{OWN}", 8080)),
        (inet6("::1", 8080), inet6("::ffff:127.9.0.2", 8080)),
        (inet6("::ffff:10.244.0.5", 8080), inet6(f"::ffff:{OWN}", 8080)),
    ],
)
def test_address_is_bound_on_the_machine(calls: NetworkCalls, address: bytes, bound: bytes) -> None:
    assert get_changes(change(calls, "bind", address)) == {1: bound}


@pytest.mark.parametrize("address", [inet("10.244.0.6", 80), inet6("fd00::1", 80)])
def test_address_of_another_cannot_be_bound(calls: NetworkCalls, address: bytes) -> None:
    with pytest.raises(OSError, match="Cannot assign requested address"):
        change(calls, "bind", address)


def test_socket_without_ipv4_has_an_address_of_its_own(calls: NetworkCalls) -> None:
    memory = FakeMemory(struct.pack("=I", 1))
    with socket.socket(socket.AF_INET6) as made:
        call = make_call("setsockopt", memory, made.fileno(), 41, 26, 0x1000, 4)
        assert calls.answers["setsockopt"](call) == Result()
        answer = change(calls, "bind", inet6("::", 80), made.fileno())
        assert get_changes(answer) == {1: inet6("::ffff:127.9.0.2", 80)}
        option = memory.add(bytes(4))
        length = memory.add(struct.pack("=I", 4))
        call_back = make_call("getsockopt", memory, made.fileno(), 41, 26, option, length)
        assert calls.answers["getsockopt"](call_back) == Result()
        assert memory.read(option, 8) == struct.pack("=II", 1, 4)
        memory.write(0x1000, struct.pack("=I", 0))
        calls.answers["setsockopt"](call)
        assert calls.answers["getsockopt"](call_back) == Continue()
        answer = change(calls, "bind", inet6("::", 80), made.fileno())
        assert get_changes(answer) == {1: inet6(f"::ffff:{OWN}", 80)}


def test_option_of_no_socket_is_the_kernel_s(calls: NetworkCalls) -> None:
    memory = FakeMemory(struct.pack("=I", 1))
    with Path(os.devnull).open("rb") as file:
        call = make_call("setsockopt", memory, file.fileno(), 41, 26, 0x1000, 4)
        assert calls.answers["setsockopt"](call) == Continue()


# -- peers


@pytest.mark.parametrize("name", ["connect", "sendto"])
@pytest.mark.parametrize(
    ("address", "target"),
    [
        (inet("10.244.0.6", 80), inet("127.9.0.2", 80)),
        (inet("10.0.0.1", 443), inet("127.9.0.2", 443)),
        (inet("127.0.0.1", 80), inet(OWN, 80)),
        (inet("0.0.0.0", 80), inet(OWN, 80)),
        (inet6("::1", 80), inet6(f"::ffff:{OWN}", 80)),
        (inet6("::ffff:10.244.0.6", 80), inet6("::ffff:127.9.0.2", 80)),
    ],
)
def test_target_is_found_on_the_machine(
    calls: NetworkCalls, name: str, address: bytes, target: bytes
) -> None:
    place = 4 if name == "sendto" else 1
    assert get_changes(change(calls, name, address)) == {place: target}


def test_address_of_the_machine_is_left_alone(calls: NetworkCalls) -> None:
    assert get_changes(change(calls, "connect", inet(OWN, 80))) == {1: inet(OWN, 80)}


@pytest.mark.parametrize(
    "address", [inet("8.8.8.8", 53), inet6("2001:db8::1", 53), inet("224.0.0.1", 53)]
)
def test_address_outside_of_the_cluster_is_unreachable(calls: NetworkCalls, address: bytes) -> None:
    with pytest.raises(OSError, match="Network is unreachable"):
        change(calls, "connect", address)


def test_address_that_the_cluster_serves_is_reached(
    calls: NetworkCalls, table: AddressTable
) -> None:
    table.add(Address(IPv4Address("203.0.113.7")))
    answer = change(calls, "connect", inet("203.0.113.7", 443))
    assert get_changes(answer) == {1: inet("127.9.0.2", 443)}


def test_load_balancer_has_an_address_of_the_loopback_interface(
    calls: NetworkCalls, table: AddressTable
) -> None:
    """It is the cluster's, not the pod's own."""
    with socket.socket() as made:
        answer = change(calls, "connect", inet(BALANCER, 80), made.fileno())
        assert isinstance(answer, Change)
        assert answer.preceded_by is None
        served = str(table.find(Address(IPv4Address(BALANCER))))
        assert get_changes(answer) == {1: inet(served, 80)}
        assert returned(calls, "getpeername", inet(served, 80), fd=made.fileno()) == inet(
            BALANCER, 80
        )
        assert returned(calls, "getsockname", inet(OWN, 999), fd=made.fileno()) == inet(
            str(POD), 999
        )
    with pytest.raises(OSError, match="Cannot assign requested address"):
        change(calls, "bind", inet(BALANCER, 80))


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_program_on_the_loopback_interface_alone_is_found(
    calls: NetworkCalls, table: AddressTable, kind: socket.SocketKind
) -> None:
    own_loopback = str(table.add(Address(LOCALHOST, POD)))
    with socket.socket(socket.AF_INET, kind) as server:
        server.bind((own_loopback, 0))
        if kind == socket.SOCK_STREAM:
            server.listen()
        port = server.getsockname()[1]
        answer = change(calls, "connect", inet("127.0.0.1", port))
    assert get_changes(answer) == {1: inet(own_loopback, port)}
    assert get_changes(change(calls, "connect", inet("127.0.0.1", port))) == {1: inet(OWN, port)}


def test_connection_to_a_service_leads_straight_to_an_endpoint(
    calls: NetworkCalls, table: AddressTable, routes: RouteWriter
) -> None:
    proxy, endpoint = str(table.add(Address(SERVICE))), str(table.add(Address(OTHER)))
    service, mapped = inet(str(SERVICE), 80), inet6(f"::ffff:{SERVICE}", 80)
    with socket.socket() as made:
        fd = made.fileno()
        assert get_changes(change(calls, "connect", service, fd)) == {1: inet(proxy, 80)}
        assert returned(calls, "getpeername", inet(proxy, 80), fd=fd) == service

        routes.write({(str(SERVICE), 80): [(str(OTHER), 8080)]})
        assert get_changes(change(calls, "connect", service, fd)) == {1: inet(endpoint, 8080)}
        assert returned(calls, "getpeername", inet(endpoint, 8080), fd=fd) == service
        assert returned(calls, "getsockname", inet(OWN, 999), fd=fd) == inet(str(POD), 999)
        answer = change(calls, "connect", mapped, fd)
        assert get_changes(answer) == {1: inet6(f"::ffff:{endpoint}", 8080)}
        assert returned(calls, "getpeername", inet6(f"::ffff:{endpoint}", 8080), fd=fd) == mapped
        # Another port has no route, nor has a socket that connects to the endpoint itself.
        other = inet(str(SERVICE), 81)
        assert get_changes(change(calls, "connect", other, fd)) == {1: inet(proxy, 81)}
        change(calls, "connect", inet(str(OTHER), 8080), fd)
        shown = returned(calls, "getpeername", inet(endpoint, 8080), fd=fd)
        assert shown == inet(str(OTHER), 8080)
        # A pod's connections to itself are masqueraded by the proxy.
        routes.write({(str(SERVICE), 80): [(str(POD), 8080)]})
        assert get_changes(change(calls, "connect", service, fd)) == {1: inet(proxy, 80)}
        assert get_changes(change(calls, "sendto", service, fd))[4] == inet(proxy, 80)


def test_datagrams_to_a_service_go_to_its_proxy(
    calls: NetworkCalls, table: AddressTable, routes: RouteWriter
) -> None:
    routes.write({(str(SERVICE), 53): [(str(OTHER), 53)]})
    kind = socket.AF_INET, socket.SOCK_DGRAM
    answer = calls.answers["socket"](make_call("socket", FakeMemory(), *kind, 0))
    assert isinstance(answer, Descriptor)
    with socket.socket(fileno=answer.fd) as made:
        target = change(calls, "connect", inet(str(SERVICE), 53), made.fileno())
    assert get_changes(target) == {1: inet(str(table.find(Address(SERVICE))), 53)}


def get_place(sockaddr: object) -> tuple[IPv4Address, int]:
    """Return the address and port of a `sockaddr_in`."""
    assert isinstance(sockaddr, bytes)
    port, host = struct.unpack_from("!H4s", sockaddr, 2)
    return IPv4Address(host), port


def test_connection_that_is_not_allowed_meets_nothing(
    calls: NetworkCalls, table: AddressTable, routes: RouteWriter, rules: FilterWriter
) -> None:
    """By address or service; `getpeername` shows what was asked for."""
    closed = FilterRule(str(POD), f"{OTHER}/32", PortRange("TCP", 8080, 8080), is_allowed=False)
    rules.write([closed])
    routes.write({(str(SERVICE), 80): [(str(OTHER), 8080)]})
    with socket.socket() as made, socket.socket() as other:
        for asked in (inet(str(OTHER), 8080), inet(str(SERVICE), 80)):
            silent = get_changes(change(calls, "connect", asked, made.fileno()))[1]
            host, port = get_place(silent)
            assert table.find_address(host) not in (None, Address(OTHER), Address(SERVICE))
            assert returned(calls, "getpeername", inet(str(host), port), fd=made.fileno()) == asked
        # The connection is neither made nor refused.
        other.setblocking(False)
        assert other.connect_ex((str(host), port)) == errno.EINPROGRESS
        assert select.select([], [other], [], 0) == ([], [], [])
        endpoint = str(table.add(Address(OTHER)))
        target = change(calls, "connect", inet(str(OTHER), 8081), made.fileno())
        assert get_changes(target) == {1: inet(endpoint, 8081)}
        rules.write([])
        target = change(calls, "connect", inet(str(OTHER), 8080), made.fileno())
        assert get_changes(target) == {1: inet(endpoint, 8080)}


def test_rules_do_not_hold_for_a_pod_s_own_interface(
    calls: NetworkCalls, table: AddressTable, rules: FilterWriter
) -> None:
    rules.write([FilterRule(str(POD), "0.0.0.0/0", ALL_PORTS, is_allowed=False)])
    own = table.add(Address(POD))
    for host in ("127.0.0.1", "0.0.0.0"):
        target = change(calls, "sendto", inet(host, 8080))
        assert get_changes(target)[4] == inet(str(own), 8080)
    assert get_changes(change(calls, "sendto", inet6("::1", 8080)))[4] != inet6("::1", 8080)


def test_datagrams_that_are_not_allowed_are_lost_but_for_answers(
    calls: NetworkCalls, table: AddressTable, rules: FilterWriter
) -> None:
    rules.write([FilterRule(str(POD), f"{OTHER}/32", ALL_PORTS, is_allowed=False)])
    kind = socket.AF_INET, socket.SOCK_DGRAM
    answer = calls.answers["socket"](make_call("socket", FakeMemory(), *kind, 0))
    assert isinstance(answer, Descriptor)
    peer = str(table.add(Address(OTHER)))
    with socket.socket(fileno=answer.fd) as made, socket.socket(*kind) as sender:
        host, port = get_place(
            get_changes(change(calls, "sendto", inet(str(OTHER), 4000), made.fileno()))[4]
        )
        assert (str(host), port) != (peer, 4000)
        assert sender.sendto(b"lost", (str(host), port)) == 4
        returned(calls, "recvfrom", inet(peer, 4000), fd=made.fileno())
        target = change(calls, "sendto", inet(str(OTHER), 4000), made.fileno())
        assert get_changes(target)[4] == inet(peer, 4000)
        target = change(calls, "sendto", inet(str(OTHER), 4001), made.fileno())
        assert get_changes(target)[4] == inet(str(host), port)


def test_pod_of_the_node_s_network_has_its_loopback_interface(
    table: AddressTable, tmp_path: Path
) -> None:
    node = IPv4Address("172.30.0.2")
    interfaces = InterfaceCalls(PodInterfaces(node, NETWORKS))
    calls = make_calls(PodAddress(node, UNSPECIFIED, NETWORKS), table, interfaces, tmp_path)
    shared = table.add(Address(LOCALHOST))
    answer = change(calls, "bind", inet("127.0.0.1", 80))
    calls.close()
    interfaces.close()
    assert get_changes(answer) == {1: inet(str(shared), 80)}


@pytest.mark.parametrize("name", ["bind", "connect", "sendto"])
@pytest.mark.parametrize(
    "address", [struct.pack("=H", socket.AF_UNIX) + b"/run/x\0", b"\2", bytes(16)]
)
def test_other_addresses_stay_as_they_were_read(
    calls: NetworkCalls, name: str, address: bytes
) -> None:
    """A thread may change them meanwhile."""
    place = 4 if name == "sendto" else 1
    assert change(calls, name, address) == Change({place: address}, {})


@pytest.mark.parametrize("name", ["bind", "connect", "sendto"])
def test_no_address_is_the_kernel_s(calls: NetworkCalls, name: str) -> None:
    assert change(calls, name, b"") == Continue()


def test_path_of_a_socket_is_found_on_the_machine(calls: NetworkCalls) -> None:
    unix = struct.pack("=H", socket.AF_UNIX)
    path = unix + b"/data/app.sock"
    bound = unix + b"/machine/new/data/app.sock\0"
    assert change(calls, "bind", path) == Change({1: bound, 2: len(bound)})
    target = unix + b"/machine/data/app.sock\0"
    assert change(calls, "connect", path + b"\0") == Change({1: target, 2: len(target)})
    assert change(calls, "sendto", path) == Change({4: target, 5: len(target)})


def test_name_of_a_socket_is_the_container_s(calls: NetworkCalls) -> None:
    unix = struct.pack("=H", socket.AF_UNIX)
    shown = unix + b"/data/app.sock\0"
    for name in ("getsockname", "getpeername", "accept", "recvfrom"):
        data = returned(calls, name, unix + b"/machine/new/data/app.sock\0", space=100)
        assert data.startswith(shown)
        for other in (b"/machine/other\0", b"\0abstract", b""):
            assert returned(calls, name, unix + other) == unix + other


def message(memory: FakeMemory, address: bytes, space: int | None = None) -> int:
    """Add a `msghdr` with an address; returns its place."""
    place = memory.add(address) if address else 0
    length = len(address) if space is None else space
    return memory.add(struct.pack("=QI44x", place, length))


def test_target_of_a_message_is_changed(calls: NetworkCalls) -> None:
    memory = FakeMemory()
    target, changed = inet("10.244.0.6", 53), inet("127.9.0.2", 53)
    header = message(memory, target)
    answer = calls.answers["sendmsg"](make_call("sendmsg", memory, 3, header, 0))
    assert answer == Change({1: Pointers((changed, 16, 0, 0, 0, 0, 0))}, {0x1000: changed})
    assert memory.read(0x1000, 16) == target
    header = message(memory, b"")
    assert calls.answers["sendmsg"](make_call("sendmsg", memory, 3, header, 0)) == Continue()
    header = message(memory, struct.pack("=H", socket.AF_UNIX) + b"/data/x\0")
    answer = calls.answers["sendmsg"](make_call("sendmsg", memory, 3, header, 0))
    path = struct.pack("=H", socket.AF_UNIX) + b"/machine/data/x\0"
    assert get_changes(answer) == {1: Pointers((path, len(path), 0, 0, 0, 0, 0))}


def test_targets_of_messages_are_changed(calls: NetworkCalls) -> None:
    """The lengths that are sent are written where the program has its headers."""
    memory = FakeMemory()
    targets = [memory.add(inet(host, 53)) for host in ("10.244.0.6", "10.0.0.1")]
    vectors = memory.add(struct.pack("=QQQQ", 0, 5, 0, 7))
    headers = [struct.pack("=QIxxxxQQ24xI4x", target, 16, vectors, 2, 0) for target in targets]
    first = memory.add(b"".join(headers))
    answer = calls.answers["sendmmsg"](make_call("sendmmsg", memory, 3, first, 2, 0))
    one, other = inet("127.9.0.2", 53), inet("127.9.0.3", 53)
    rest = (16, vectors, 2, 0, 0, 0, 0)
    assert get_changes(answer) == {1: Pointers((one, *rest, other, *rest))}
    assert memory.read(first + 56, 4) == memory.read(first + 120, 4) == struct.pack("=I", 12)
    call = make_call("sendmmsg", memory, 3, memory.add(bytes(64)), 1, 0)
    assert calls.answers["sendmmsg"](call) == Continue()


def test_socket_comes_from_the_loopback_interface_where_it_connects_to(
    calls: NetworkCalls, table: AddressTable
) -> None:
    """By a call of `bind` that is not caught; datagrams may go elsewhere next."""
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as other:
        answer = change(calls, "connect", inet("127.0.0.1", 80), stream.fileno())
        assert isinstance(answer, Change)
        own = inet(str(table.find(Address(LOCALHOST, POD))), 0)
        assert answer.preceded_by == ("bind", (stream.fileno(), own, 16, 0x6B776169))
        answer = change(calls, "connect", inet("10.244.0.6", 80), stream.fileno())
        assert isinstance(answer, Change)
        assert answer.preceded_by is None
        made = calls.answers["socket"](
            make_call("socket", FakeMemory(), socket.AF_INET, socket.SOCK_DGRAM, 0)
        )
        assert isinstance(made, Descriptor)
        os.dup2(made.fd, other.fileno())
        os.close(made.fd)
        answer = change(calls, "connect", inet("127.0.0.1", 80), other.fileno())
        assert isinstance(answer, Change)
        assert answer.preceded_by is None


# -- netlink sockets


def test_netlink_socket_shows_the_pod_s_interfaces(calls: NetworkCalls) -> None:
    netlink = socket.AF_NETLINK
    call = make_call("socket", FakeMemory(), netlink, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    answer = calls.answers["socket"](call)
    assert isinstance(answer, Descriptor)
    own, kernel = (struct.pack("=HHII", netlink, 0, port, 0) for port in (os.getpid(), 0))
    with socket.socket(fileno=answer.fd) as made:
        assert change(calls, "bind", kernel, made.fileno()) == Result()
        assert change(calls, "connect", kernel, made.fileno()) == Result()
        assert returned(calls, "getsockname", b"\1\0", fd=made.fileno()) == own
        assert returned(calls, "recvfrom", b"", fd=made.fileno()) == kernel
        option = make_call("setsockopt", FakeMemory(bytes(4)), made.fileno(), 270, 11, 0x1000, 4)
        assert calls.answers["setsockopt"](option) == Result()
    option = make_call("setsockopt", FakeMemory(bytes(4)), 0, 270, 11, 0x1000, 4)
    assert calls.answers["setsockopt"](option) == Continue()
    other = make_call("setsockopt", FakeMemory(bytes(4)), 0, 41, 67, 0x1000, 4)
    assert calls.answers["setsockopt"](other) == Continue()


# -- abstract names


def test_abstract_names_are_a_pod_s_own(calls: NetworkCalls) -> None:
    unix, own = struct.pack("=H", socket.AF_UNIX), IPv4Address(OWN).packed
    bound = unix + b"\0" + own + b"name"
    name = unix + b"\0name"
    assert change(calls, "bind", name) == Change({1: bound, 2: len(bound)})
    assert change(calls, "connect", name) == Change({1: bound, 2: len(bound)})
    assert returned(calls, "getsockname", bound) == name
    other = unix + b"\0" + IPv4Address("127.9.0.2").packed + b"name"
    assert returned(calls, "getpeername", other) == other


def test_socket_without_a_name_gets_one(calls: NetworkCalls) -> None:
    """Another process of the pod may send to it."""
    unix, own = struct.pack("=H", socket.AF_UNIX), IPv4Address(OWN).packed
    bound = get_changes(change(calls, "bind", unix))[1]
    assert isinstance(bound, bytes)
    assert bound.startswith(unix + b"\0" + own)
    assert len(bound) == 12
    assert change(calls, "connect", unix) == Change({1: unix}, {})


def test_longest_abstract_name(calls: NetworkCalls) -> None:
    name = struct.pack("=H", socket.AF_UNIX) + b"\0" + b"x" * 107
    bound = get_changes(change(calls, "bind", name))[1]
    assert isinstance(bound, bytes)
    assert len(bound) <= 110
    assert returned(calls, "getsockname", bound, space=110) == name


# -- addresses that the kernel returns


@pytest.mark.parametrize("name", ["accept", "accept4", "getsockname", "getpeername", "recvfrom"])
def test_address_of_a_peer_is_the_cluster_s(
    calls: NetworkCalls, table: AddressTable, name: str
) -> None:
    other = table.add(Address(OTHER))
    assert returned(calls, name, inet(str(other), 80)) == inet("10.244.0.6", 80)
    assert returned(calls, name, inet6(f"::ffff:{other}", 80)) == inet6("::ffff:10.244.0.6", 80)
    assert returned(calls, name, inet("192.0.2.1", 80)) == inet("192.0.2.1", 80)
    assert returned(calls, name, inet(str(other), 80), -4) == inet(str(other), 80)
    assert returned(calls, name, inet(str(other), 80), space=6) == inet(str(other), 80)[:6]


def test_loopback_address_is_shown_to_its_pod_alone(
    calls: NetworkCalls, table: AddressTable
) -> None:
    own = table.add(Address(LOCALHOST, POD))
    other = table.add(Address(LOCALHOST, OTHER))
    assert returned(calls, "getsockname", inet(str(own), 80)) == inet("127.0.0.1", 80)
    assert returned(calls, "getpeername", inet(str(other), 80)) == inet("10.244.0.6", 80)


def test_socket_of_all_addresses_is_shown_as_bound(calls: NetworkCalls) -> None:
    own, shown = inet6(f"::ffff:{OWN}", 80), inet6("::ffff:10.244.0.5", 80)
    with socket.socket(socket.AF_INET6) as made:
        assert returned(calls, "getsockname", own, fd=made.fileno()) == shown
        change(calls, "bind", inet6("::", 80), made.fileno())
        assert returned(calls, "getsockname", own, fd=made.fileno()) == inet6("::", 80)
        change(calls, "connect", inet6("::ffff:10.244.0.6", 80), made.fileno())
        assert returned(calls, "getsockname", own, fd=made.fileno()) == shown
    assert returned(calls, "getsockname", inet(OWN, 0)) == inet("0.0.0.0", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.3"])
def test_program_sees_the_loopback_address_that_it_has_asked_for(
    calls: NetworkCalls, host: str
) -> None:
    with socket.socket() as made:
        change(calls, "connect", inet(host, 80), made.fileno())
        for name in ("getpeername", "recvfrom", "getsockname"):
            assert returned(calls, name, inet(OWN, 80), fd=made.fileno()) == inet(host, 80)
        change(calls, "connect", inet("10.244.0.5", 80), made.fileno())
        shown = inet("10.244.0.5", 80)
        assert returned(calls, "getpeername", inet(OWN, 80), fd=made.fileno()) == shown


def test_socket_without_ipv4_is_shown_as_bound(calls: NetworkCalls, table: AddressTable) -> None:
    own = table.add(Address(IPv4Address(1), POD))
    assert returned(calls, "getsockname", inet6(f"::ffff:{own}", 80)) == inet6("::", 80)


@pytest.mark.parametrize("name", ["getsockname", "recvfrom"])
def test_call_that_returns_no_address_is_the_kernel_s(calls: NetworkCalls, name: str) -> None:
    assert calls.answers[name](make_call(name, FakeMemory(), 3, 0, 0, 0, 0, 0)) == Continue()


def test_sender_of_a_message_is_the_cluster_s(calls: NetworkCalls, table: AddressTable) -> None:
    other = table.add(Address(OTHER))
    memory = FakeMemory()
    header = message(memory, bytes(16))
    answer = calls.answers["recvmsg"](make_call("recvmsg", memory, 3, header, 0))
    assert isinstance(answer, Continue)
    assert answer.on_return is not None
    memory.write(0x1000, inet(str(other), 53))
    answer.on_return(9)
    assert memory.read(0x1000, 16) == inet("10.244.0.6", 53)
    header = message(memory, b"")
    assert calls.answers["recvmsg"](make_call("recvmsg", memory, 3, header, 0)) == Continue()


def test_senders_of_messages_are_the_cluster_s(calls: NetworkCalls, table: AddressTable) -> None:
    other = table.add(Address(OTHER))
    memory = FakeMemory()
    senders = [memory.add(bytes(16)) for _ in range(2)]
    headers = [struct.pack("=QI44xI4x", sender, 16, 0) for sender in senders]
    first = memory.add(b"".join(headers))
    answer = calls.answers["recvmmsg"](make_call("recvmmsg", memory, 3, first, 2, 0, 0))
    assert isinstance(answer, Continue)
    assert answer.on_return is not None
    for sender in senders:
        memory.write(sender, inet(str(other), 53))
    answer.on_return(1)
    assert memory.read(senders[0], 16) == inet("10.244.0.6", 53)
    assert memory.read(senders[1], 16) == inet(str(other), 53)

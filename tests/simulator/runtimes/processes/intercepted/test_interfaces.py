"""The network interfaces that an intercepted program sees."""

from __future__ import annotations

import errno
import os
import socket
import struct
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Continue,
    Descriptor,
    Failure,
    Result,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.interfaces import (
    InterfaceCalls,
    PodInterfaces,
)
from tests.simulator.runtimes.processes.intercepted.memory import FakeMemory, make_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer

POD = IPv4Address("10.244.0.5")
NETWORKS = (IPv4Network("10.96.0.0/12"), IPv4Network("10.244.0.0/16"))
DUMP, ACK = 0x301, 0x5
GETLINK, GETADDR, GETROUTE = 18, 22, 26


@pytest.fixture
def interfaces() -> PodInterfaces:
    """Return the interfaces of a pod."""
    return PodInterfaces(POD, NETWORKS)


@pytest.fixture
def calls(interfaces: PodInterfaces) -> Iterator[InterfaceCalls]:
    """Return the answers to a pod's programs."""
    made = InterfaceCalls(interfaces)
    yield made
    made.close()


def ask(interfaces: PodInterfaces, kind: int, flags: int, body: bytes) -> list[tuple[int, bytes]]:
    """Return kinds and contents of the messages that answer a request."""
    request = struct.pack("=IHHII", 16 + len(body), kind, flags, 7, 0) + body
    answer = interfaces.answer(request, 99)
    found = []
    while answer:
        length, number, _, sequence, port = struct.unpack_from("=IHHII", answer)
        assert (sequence, port) == (7, 99)
        found.append((number, answer[16:length]))
        answer = answer[length + -length % 4 :]
    return found


def attribute(kind: int, data: bytes) -> bytes:
    """Return an attribute of a message."""
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def make_link(number: int, name: str = "") -> bytes:
    """Return the body of a request for a link."""
    named = attribute(3, name.encode() + b"\0") if name else b""
    return struct.pack("=BxHiII", 0, 0, number, 0, 0) + named


# -- rtnetlink


def test_links_are_listed(interfaces: PodInterfaces) -> None:
    *links, (done, _) = ask(interfaces, GETLINK, DUMP, make_link(0))
    assert [kind for kind, _ in links] == [16, 16]
    assert done == 3
    assert attribute(3, b"lo\0") in links[0][1]
    assert attribute(3, b"eth0\0") in links[1][1]


@pytest.mark.parametrize("body", [make_link(2), make_link(0, "eth0")])
def test_link_is_found_by_number_or_name(interfaces: PodInterfaces, body: bytes) -> None:
    [(kind, found), (done, status)] = ask(interfaces, GETLINK, ACK, body)
    assert (kind, done, status[:4]) == (16, 2, bytes(4))
    assert struct.unpack_from("=BxHi", found) == (0, 1, 2)
    assert attribute(1, bytes.fromhex("0a580af40005")) in found


@pytest.mark.parametrize("body", [make_link(3), make_link(0, "eth1"), b"\0"])
def test_other_links_are_not_there(interfaces: PodInterfaces, body: bytes) -> None:
    [(kind, status)] = ask(interfaces, GETLINK, 1, body)
    assert (kind, struct.unpack_from("=i", status)) == (2, (-errno.ENODEV,))


@pytest.mark.parametrize(
    ("family", "addresses"),
    [
        (socket.AF_UNSPEC, ["127.0.0.1", "10.244.0.5", "::1"]),
        (socket.AF_INET, ["127.0.0.1", "10.244.0.5"]),
        (socket.AF_INET6, ["::1"]),
        (socket.AF_UNIX, []),
    ],
)
def test_addresses_are_listed(interfaces: PodInterfaces, family: int, addresses: list[str]) -> None:
    *found, _ = ask(interfaces, GETADDR, DUMP, struct.pack("=BBBBI", family, 0, 0, 0, 0))
    shown = []
    for _, body in found:
        length, _ = struct.unpack_from("=HH", body, 8)
        data = body[12 : 8 + length]
        shown.append(socket.inet_ntop({4: socket.AF_INET, 16: socket.AF_INET6}[len(data)], data))
    assert shown == addresses


def test_routes_are_listed(interfaces: PodInterfaces) -> None:
    *found, _ = ask(interfaces, GETROUTE, DUMP, bytes(12))
    gateway = attribute(5, IPv4Address("10.244.0.1").packed)
    assert [gateway in body for _, body in found] == [True, False]
    assert [body[1] for _, body in found] == [0, 16]
    assert len(ask(interfaces, GETROUTE, DUMP, bytes([socket.AF_INET6]) + bytes(11))) == 1


@pytest.mark.parametrize(
    ("target", "device", "has_gateway"),
    [
        ("10.244.3.1", 2, False),
        ("10.96.0.1", 2, True),
        ("127.0.0.1", 1, False),
        (str(POD), 1, False),
    ],
)
def test_route_is_found(
    interfaces: PodInterfaces, target: str, device: int, has_gateway: bool
) -> None:
    body = bytes([socket.AF_INET]) + bytes(11) + attribute(1, IPv4Address(target).packed)
    [(kind, found)] = ask(interfaces, GETROUTE, 1, body)
    assert kind == 24
    assert attribute(4, struct.pack("=I", device)) in found
    assert (attribute(5, IPv4Address("10.244.0.1").packed) in found) == has_gateway


@pytest.mark.parametrize(
    ("kind", "flags", "number"),
    [
        (16, 1, errno.EPERM),  # new link
        (21, 1, errno.EPERM),  # deleted address
        (30, 1, errno.EOPNOTSUPP),  # one neighbour
    ],
)
def test_other_requests_fail(interfaces: PodInterfaces, kind: int, flags: int, number: int) -> None:
    [(answered, status)] = ask(interfaces, kind, flags, make_link(2))
    assert (answered, struct.unpack_from("=i", status)) == (2, (-number,))


def test_other_lists_are_empty(interfaces: PodInterfaces) -> None:
    assert [kind for kind, _ in ask(interfaces, 30, DUMP, bytes(12))] == [3]
    assert interfaces.answer(b"short", 1) == b""


# -- sockets


def make_socket(calls: InterfaceCalls, kind: int, protocol: int) -> Answer:
    """Return the answer to a program that makes a netlink socket."""
    return calls.answer_socket(make_call("socket", FakeMemory(), socket.AF_NETLINK, kind, protocol))


def test_socket_is_answered(calls: InterfaceCalls) -> None:
    answer = make_socket(calls, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    assert isinstance(answer, Descriptor)
    assert not answer.is_kept
    with socket.socket(fileno=answer.fd) as made:
        name = str(Path(f"/proc/self/fd/{made.fileno()}").readlink())
        assert calls.is_netlink(name)
        made.send(struct.pack("=IHHII", 33, GETLINK, DUMP, 1, 0) + b"\0" * 17)
        calls.read()
        assert struct.unpack_from("=IHHII", made.recv(4096))[1] == 16
        assert calls.find_address(name, is_own=True) == struct.pack(
            "=HHII", socket.AF_NETLINK, 0, os.getpid(), 0
        )
    calls.read()
    assert not calls.is_netlink(name)
    assert calls.find_address(name, is_own=True) is None


@pytest.mark.parametrize(
    ("kind", "protocol", "answer"),
    [
        (socket.SOCK_RAW, 4, Failure(errno.EPROTONOSUPPORT)),
        (socket.SOCK_STREAM, socket.NETLINK_ROUTE, Failure(errno.ESOCKTNOSUPPORT)),
        (socket.SOCK_RAW, 16, Continue()),
    ],
    ids=["sock_diag", "stream", "generic"],
)
def test_other_sockets(calls: InterfaceCalls, kind: int, protocol: int, answer: Answer) -> None:
    assert make_socket(calls, kind, protocol) == answer


# -- ioctl


def control(calls: InterfaceCalls, request: int, data: bytes) -> tuple[Answer, bytes]:
    """Return the answer to a request, and what is in the program's memory after it."""
    memory = FakeMemory(data)
    with socket.socket() as made:
        answer = calls.answers["ioctl"](make_call("ioctl", memory, made.fileno(), request, 0x1000))
    return answer, bytes(memory.data)


@pytest.mark.parametrize(
    ("request_", "name", "value"),
    [
        (0x8913, b"eth0", struct.pack("=H", 0x1043)),
        (0x8915, b"eth0", struct.pack("=H2x4s", 2, POD.packed)),
        (0x8915, b"lo:1", struct.pack("=H2x4s", 2, IPv4Address("127.0.0.1").packed)),
        (0x891B, b"eth0", struct.pack("=H2x4s", 2, IPv4Address("255.255.0.0").packed)),
        (0x8921, b"lo", struct.pack("=i", 65536)),
        (0x8927, b"eth0", struct.pack("=H", 1) + bytes.fromhex("0a580af40005")),
        (0x8933, b"eth0", struct.pack("=i", 2)),
    ],
)
def test_property_of_an_interface(
    calls: InterfaceCalls, request_: int, name: bytes, value: bytes
) -> None:
    answer, data = control(calls, request_, name.ljust(40, b"\0"))
    assert answer == Result()
    assert data[16 : 16 + len(value)] == value


def test_interface_has_a_name(calls: InterfaceCalls) -> None:
    answer, data = control(calls, 0x8910, struct.pack("=16xi20x", 2))
    assert answer == Result()
    assert data.startswith(b"eth0\0")


@pytest.mark.parametrize(
    ("request_", "data", "number"),
    [
        (0x8910, struct.pack("=16xi20x", 3), errno.ENODEV),
        (0x8915, b"eth1".ljust(40, b"\0"), errno.ENODEV),
        (0x8914, b"eth0".ljust(40, b"\0"), errno.EPERM),
    ],
)
def test_refused_request(calls: InterfaceCalls, request_: int, data: bytes, number: int) -> None:
    assert control(calls, request_, data)[0] == Failure(number)


@pytest.mark.parametrize(("space", "names"), [(80, [b"lo", b"eth0"]), (79, [b"lo"]), (0, [])])
def test_configuration(calls: InterfaceCalls, space: int, names: list[bytes]) -> None:
    data = struct.pack("=i4xQ", space, 0x1010) + bytes(80)
    answer, written = control(calls, 0x8912, data)
    assert answer == Result()
    assert struct.unpack_from("=i", written) == (40 * len(names),)
    found = [written[start : start + 16].rstrip(b"\0") for start in range(16, 96, 40)]
    assert found[: len(names)] == names


def test_configuration_without_space_has_its_length(calls: InterfaceCalls) -> None:
    _, written = control(calls, 0x8912, struct.pack("=i4xQ", 0, 0))
    assert struct.unpack_from("=i", written) == (80,)


def test_requests_to_other_files_are_the_kernel_s(calls: InterfaceCalls) -> None:
    with Path(os.devnull).open("rb") as file:
        for fd in (file.fileno(), 1 << 20):
            call = make_call("ioctl", FakeMemory(bytes(40)), fd, 0x8913, 0x1000)
            assert calls.answers["ioctl"](call) == Continue()


# -- files


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dev", ["lo:", "eth0:"]),
        ("route", ["eth0", "0000F40A", "0100F40A"]),
        ("arp", ["10.244.0.1", "0a:58:0a:f4:00:01"]),
        ("if_inet6", ["00000000000000000000000000000001", "lo"]),
        ("fib_trie", ["10.244.0.5", "10.244.0.0"]),
    ],
)
def test_file_has_the_pod_s_words(interfaces: PodInterfaces, name: str, words: list[str]) -> None:
    text = "".join(interfaces.list_lines(name))
    assert all(word in text for word in words)
    assert text.endswith("\n")


def test_address_of_no_network_has_one(interfaces: PodInterfaces) -> None:
    assert PodInterfaces(IPv4Address("192.0.2.7"), ()).network == IPv4Network("192.0.2.0/24")
    assert interfaces.network == NETWORKS[1]

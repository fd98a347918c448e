"""Files of /proc that an intercepted program sees."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.network.loopback_blocks import hold_block
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    LOCALHOST,
    Address,
    AddressTable,
    create_table,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Descriptor, Failure
from pytest_kwait.simulator.runtimes.processes.intercepted.interfaces import PodInterfaces
from pytest_kwait.simulator.runtimes.processes.intercepted.kernel_files import KernelFiles
from pytest_kwait.simulator.runtimes.processes.intercepted.network import (
    LOOPBACK6,
    UNSPECIFIED6,
    PodAddress,
)
from tests.simulator.runtimes.processes.intercepted.memory import FakeMemory, make_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POD, OTHER = IPv4Address("10.244.0.5"), IPv4Address("10.244.0.6")
OTHER_ANSWER = Failure(2)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[AddressTable]:
    """Return the table of a block that no other test has."""
    holder, block = hold_block(0)
    create_table(str(tmp_path / "addresses"), block)
    made = AddressTable(str(tmp_path / "addresses"))
    yield made
    made.close()
    holder.close()


@pytest.fixture
def tables(table: AddressTable) -> KernelFiles:
    """Return the files of a pod."""
    sysctls = {"net.ipv4.ip_local_port_range": "1024  2048"}
    interfaces = PodInterfaces(POD, (IPv4Network("10.244.0.0/16"),))
    return KernelFiles(PodAddress(POD, POD, ()), table, interfaces, sysctls, lambda _: OTHER_ANSWER)


def list_addresses(tables: KernelFiles, name: str) -> list[tuple[str, str]]:
    """Return local and remote addresses and ports of the sockets of a pod."""
    lines = list(tables.list_lines(name))
    assert lines[0].split()[1] == "local_address"
    return [(words[1], words[2]) for words in map(str.split, lines[1:])]


def test_listening_sockets_of_the_pod_are_listed(table: AddressTable, tables: KernelFiles) -> None:
    hosts = (Address(POD), Address(LOCALHOST, POD), Address(OTHER), Address(LOCALHOST, OTHER))
    servers = [socket.create_server((str(table.add(host)), 0)) for host in hosts]
    ports = [server.getsockname()[1] for server in servers]
    listed = list_addresses(tables, "tcp")
    for server in servers:
        server.close()
    own = [local for local, _ in listed if int(local.partition(":")[2], 16) in ports]
    assert sorted(own) == [f"0100007F:{ports[1]:04X}", f"0500F40A:{ports[0]:04X}"]


def test_connection_is_listed_with_its_peer(table: AddressTable, tables: KernelFiles) -> None:
    server = socket.create_server((str(table.add(Address(OTHER))), 0))
    client = socket.create_connection(
        server.getsockname(), source_address=(str(table.add(Address(POD))), 0)
    )
    port, server_port = client.getsockname()[1], server.getsockname()[1]
    listed = list_addresses(tables, "tcp")
    client.close()
    server.close()
    assert (f"0500F40A:{port:04X}", f"0600F40A:{server_port:04X}") in listed
    assert not [local for local, _ in listed if local.startswith("0600F40A")]


def test_sockets_of_ipv6_are_listed(table: AddressTable, tables: KernelFiles) -> None:
    hosts = (Address(POD), Address(UNSPECIFIED6, POD), Address(LOOPBACK6, POD))
    with ExitStack() as stack:
        ports = []
        for host in hosts:
            server = stack.enter_context(socket.socket(socket.AF_INET6))
            server.bind((f"::ffff:{table.add(host)}", 0))
            server.listen()
            ports.append(server.getsockname()[1])
        listed = [local for local, _ in list_addresses(tables, "tcp6")]
    assert f"0000000000000000FFFF00000500F40A:{ports[0]:04X}" in listed
    assert f"{0:032X}:{ports[1]:04X}" in listed
    assert f"{0:024X}01000000:{ports[2]:04X}" in listed


def test_datagram_sockets_are_listed(table: AddressTable, tables: KernelFiles) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind((str(table.add(Address(POD))), 0))
        port = server.getsockname()[1]
        listed = [local for local, _ in list_addresses(tables, "udp")]
    assert listed == [f"0500F40A:{port:04X}"]


@pytest.mark.parametrize("path", [b"/proc/net/tcp", b"/proc/self/net/udp6", b"/proc/17/net/tcp6"])
def test_list_is_opened(tables: KernelFiles, path: bytes) -> None:
    memory = FakeMemory()
    address = memory.add(path + b"\0")
    for answer in (
        tables.answer_open(make_call("open", memory, address, os.O_RDONLY)),
        tables.answer_openat(make_call("openat", memory, -100, address, os.O_RDONLY)),
    ):
        assert isinstance(answer, Descriptor)
        assert answer.is_kept
        with os.fdopen(answer.fd) as file:
            assert file.readline().split()[1] == "local_address"


@pytest.mark.parametrize(
    ("path", "flags"),
    [
        (b"/proc/net/unix", os.O_RDONLY),
        (b"/proc/net/tcp", os.O_WRONLY),
        (b"tcp", os.O_RDONLY),
        (b"/proc/sys/net/core/somaxconn", os.O_RDONLY),
        (b"/proc/sys/net", os.O_PATH),
    ],
)
def test_other_files_are_opened_by_others(tables: KernelFiles, path: bytes, flags: int) -> None:
    memory = FakeMemory()
    address = memory.add(path + b"\0")
    assert tables.answer_open(make_call("open", memory, address, flags)) == OTHER_ANSWER


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (b"/proc/net/dev", "Inter-|   Receive"),
        (b"/proc/sys/net/ipv4/ip_local_port_range", "1024\t2048\n"),
        (b"/proc/sys/net/ipv4/../ipv4/ip_local_port_range", "1024\t2048\n"),
    ],
)
def test_file_is_the_pod_s(tables: KernelFiles, path: bytes, line: str) -> None:
    memory = FakeMemory()
    answer = tables.answer_open(make_call("open", memory, memory.add(path + b"\0"), os.O_CLOEXEC))
    assert isinstance(answer, Descriptor)
    assert not answer.is_kept
    with os.fdopen(answer.fd) as file:
        assert file.readline().startswith(line)


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_TRUNC])
def test_settings_cannot_be_changed(tables: KernelFiles, flags: int) -> None:
    memory = FakeMemory()
    address = memory.add(b"/proc/sys/vm/swappiness\0")
    assert tables.answer_open(make_call("open", memory, address, flags)) == Failure(errno.EROFS)

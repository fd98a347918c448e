"""Addresses of the cluster, as addresses of the machine's loopback interface."""

from __future__ import annotations

import errno
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted import addresses
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    LOCALHOST,
    MAX_ADDRESSES,
    Address,
    AddressTable,
    create_table,
)

if TYPE_CHECKING:
    from pathlib import Path

POD, SERVICE = IPv4Address("10.244.0.5"), IPv4Address("10.0.0.1")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a table of the block 127.9.0.0/16."""
    made = str(tmp_path / "addresses")
    create_table(made, 9)
    return made


def test_each_address_has_one_of_the_machine(path: str) -> None:
    table = AddressTable(path)
    pod, service = table.add(Address(POD)), table.add(Address(SERVICE))
    assert (str(pod), str(service)) == ("127.9.0.1", "127.9.0.2")
    assert table.add(Address(POD)) == pod
    assert table.find_address(pod) == Address(POD)
    assert table.find_address(service) == Address(SERVICE)
    table.close()


def test_loopback_interface_is_of_its_owner(path: str) -> None:
    table = AddressTable(path)
    own = table.add(Address(LOCALHOST, POD))
    assert table.add(Address(LOCALHOST)) != own
    assert table.find_address(own) == Address(LOCALHOST, POD)
    table.close()


def test_address_of_another_process_is_found(path: str) -> None:
    table, other = AddressTable(path), AddressTable(path)
    assert table.find(Address(POD)) is None
    made = other.add(Address(POD))
    assert table.find_address(made) == Address(POD)
    assert table.find(Address(POD)) == made
    assert table.add(Address(SERVICE)) == other.add(Address(SERVICE))
    table.close()
    other.close()


def test_other_addresses_are_none_of_the_table(path: str) -> None:
    table = AddressTable(path)
    for host in ("127.0.0.1", "127.9.0.0", "127.9.0.1", "127.10.0.1", "10.244.0.5"):
        assert table.find_address(IPv4Address(host)) is None
    table.close()


def test_first_address_may_be_any_of_the_block(tmp_path: Path) -> None:
    made = str(tmp_path / "addresses")
    create_table(made, 9, MAX_ADDRESSES - 1)
    table = AddressTable(made)
    pod, service = table.add(Address(POD)), table.add(Address(SERVICE))
    assert (str(pod), str(service)) == ("127.9.255.1", "127.9.0.1")
    assert table.find_address(pod) == Address(POD)
    assert table.find_address(service) == Address(SERVICE)
    for host in ("127.9.0.0", "127.9.0.2", "127.9.255.0", "127.9.255.2", "127.9.255.255"):
        assert table.find_address(IPv4Address(host)) is None
    table.close()


def test_full_block_has_no_more_addresses(path: str) -> None:
    table = AddressTable(path)
    first = int(IPv4Address("10.244.0.0"))
    for number in range(0xFF01):
        last = table.add(Address(IPv4Address(first + number)))
    assert str(last) == "127.9.255.1"
    with pytest.raises(OSError, match="Cannot assign requested address") as raised:
        table.add(Address(SERVICE))
    assert raised.value.errno == errno.EADDRNOTAVAIL
    table.close()


@pytest.mark.parametrize("first", [0, 1024])
def test_privileged_ports_are_shifted_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    start = tmp_path / "ip_unprivileged_port_start"
    start.write_text(f"{first}\n")
    monkeypatch.setattr(f"{addresses.__name__}._FIRST_UNPRIVILEGED", str(start))
    create_table(str(tmp_path / "addresses"), 9)
    table = AddressTable(str(tmp_path / "addresses"))
    assert table.to_machine_port(80) == (64080 if first else 80)
    assert table.to_machine_port(8080) == 8080
    assert table.to_machine_port(0) == 0
    for port in (0, 1, 80, 1023, 1024, 8080):
        assert table.from_machine_port(table.to_machine_port(port)) == port
    table.close()

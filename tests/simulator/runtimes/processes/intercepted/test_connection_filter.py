"""The rules for new connections of intercepted programs, through their file."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.network.filter_rules import ALL_PORTS, FilterRule
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    AddressTable,
    create_table,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.connection_filter import (
    FilterWriter,
    ProgramFilter,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POD, OTHER = IPv4Address("10.244.0.5"), IPv4Address("10.244.0.6")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a table of addresses."""
    made = str(tmp_path / "addresses")
    create_table(made, 9)
    return made


@pytest.fixture
def writer(path: str) -> Iterator[FilterWriter]:
    """Return what writes the rules."""
    table = AddressTable(path)
    made = FilterWriter(path, table)
    table.close()
    yield made
    made.close()


def test_rules_of_one_pod(path: str, writer: FilterWriter) -> None:
    read, other = ProgramFilter(path, POD), ProgramFilter(path, OTHER)
    assert not read
    assert read.find_silent(OTHER, 80, "TCP") is None
    writer.write([FilterRule(str(POD), f"{OTHER}/32", ALL_PORTS, is_allowed=False)])
    assert read
    assert not other
    assert other.find_silent(OTHER, 80, "TCP") is None
    assert read.find_silent(POD, 80, "TCP") is None
    stream, datagrams = (read.find_silent(OTHER, 80, kind) for kind in ("TCP", "UDP"))
    assert stream is not None
    assert datagrams is not None
    assert stream.host == datagrams.host
    writer.write([])
    assert not read


def test_nothing_answers_where_packets_are_lost(path: str, writer: FilterWriter) -> None:
    """However many connections are tried."""
    writer.write([FilterRule(str(POD), f"{OTHER}/32", ALL_PORTS, is_allowed=False)])
    silent = ProgramFilter(path, POD).find_silent(OTHER, 80, "TCP")
    assert silent is not None
    for _ in range(3):
        with socket.socket() as made:
            made.settimeout(0.01)
            with pytest.raises(TimeoutError):
                made.connect((str(silent.host), silent.port))

"""The addresses of a cluster's pods and services, as addresses of the machine's loopback interface.

A cluster holds a block of them, which no other cluster on the machine has, and takes an address of
the block for each address in use. The table is a file that the server, the launcher and the
interceptors share.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple

_HEADER, _RECORD = struct.Struct("!HHI"), struct.Struct("!II")
MAX_ADDRESSES = 0xFF01
"""The addresses of a block that a table gives out."""
_SHIFTED_PORTS = 64000
"""The machine's port for port 0 of those that only privileged programs may use."""
_FIRST_UNPRIVILEGED = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
# Source: include/uapi/linux/in.h.
_IP_BIND_ADDRESS_NO_PORT = 24
_LOOPBACK = IPv4Network("127.0.0.0/8")
LOCALHOST = IPv4Address("127.0.0.1")
UNSPECIFIED = IPv4Address(0)


class Address(NamedTuple):
    """An address of the cluster.

    Args:
        host: the address.
        owner: the pod whose loopback address it is; 0.0.0.0 for all others.
    """

    host: IPv4Address
    owner: IPv4Address = UNSPECIFIED


def create_table(path: str, block: int, first: int = 0) -> None:
    """Create the file of a table for a block.

    Args:
        path: the file.
        block: the second byte of its addresses.
        first: how many addresses of the block come before the first that it gives out. Connections
            of a cluster that had the block before may keep ports of its own ones for a minute
            (TIME_WAIT).
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(_HEADER.pack(block, first, _read_first_unprivileged()))


def _read_first_unprivileged() -> int:
    try:
        with open(_FIRST_UNPRIVILEGED, encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return 1024


class AddressTable:
    """The table of a cluster.

    Args:
        path: the file, as `create_table` has made it.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        header = os.pread(self._fd, _HEADER.size, 0)
        block, self._first, self._first_port = _HEADER.unpack(header)
        self._base = int(IPv4Address(f"127.{block}.0.0"))
        self._places: dict[Address, int] = {}
        self._addresses: list[Address] = []

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def has(self, host: IPv4Address) -> bool:
        """Return whether an address of the machine is in the cluster's block."""
        return int(host) & 0xFFFF0000 == self._base

    def find(self, address: Address) -> IPv4Address | None:
        """Return the machine's address for one of the cluster; None before `add`."""
        place = self._places.get(address)
        if place is None:
            self._read()
            place = self._places.get(address)
        return None if place is None else self._make(place)

    def add(self, address: Address) -> IPv4Address:
        """Return the machine's address for one of the cluster.

        Raises:
            OSError: the block has no more.
        """
        found = self.find(address)
        if found is not None:
            return found
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            self._read()
            if address not in self._places:
                if len(self._addresses) >= MAX_ADDRESSES:
                    raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
                record = _RECORD.pack(int(address.host), int(address.owner))
                place = _HEADER.size + len(self._addresses) * _RECORD.size
                os.pwrite(self._fd, record, place)
                self._read()
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        return self._make(self._places[address])

    def find_address(self, host: IPv4Address) -> Address | None:
        """Return the cluster's address for one of the machine; None for one that is not in use."""
        if not self.has(host):
            return None
        number = int(host) - self._base - 1
        if not 0 <= number < MAX_ADDRESSES:
            return None
        place = (number - self._first) % MAX_ADDRESSES
        if place >= len(self._addresses):
            self._read()
        return self._addresses[place] if place < len(self._addresses) else None

    def to_machine_port(self, port: int) -> int:
        """Return the machine's port for one of a program, which may use all of them."""
        return port + _SHIFTED_PORTS if 0 < port < self._first_port else port

    def from_machine_port(self, port: int) -> int:
        """Return a program's port for one of the machine."""
        return port - _SHIFTED_PORTS if 0 < port - _SHIFTED_PORTS < self._first_port else port

    def _make(self, place: int) -> IPv4Address:
        return IPv4Address(self._base + (self._first + place) % MAX_ADDRESSES + 1)

    def _read(self) -> None:
        """Read what others have added."""
        start = _HEADER.size + len(self._addresses) * _RECORD.size
        size = os.fstat(self._fd).st_size - start
        data = os.pread(self._fd, size - size % _RECORD.size, start) if size > 0 else b""
        for host, owner in _RECORD.iter_unpack(data):
            address = Address(IPv4Address(host), IPv4Address(owner))
            self._places[address] = len(self._addresses)
            self._addresses.append(address)


def is_loopback(host: IPv4Address) -> bool:
    """Return whether an address is the loopback interface's."""
    return host in _LOOPBACK


def allow_any_port(made: socket.socket) -> None:
    """Let a socket be bound to an address without a port.

    It gets one when it connects or listens, and may be bound again before.
    """
    made.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)

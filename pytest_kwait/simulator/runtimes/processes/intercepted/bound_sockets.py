"""Lookup of sockets that are bound to an address of the machine's loopback interface.

The kernel finds one by its address and port in microseconds. Without that, lists of all sockets of
the machine are read: with thousands of connections that takes tens of milliseconds.

Source: man 7 sock_diag; net/ipv4/inet_diag.c, `inet_diag_find_one_icsk`; net/ipv4/udp_diag.c,
`udp_dump_one`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from ipaddress import IPv4Address

# Source: include/uapi/linux/{netlink,sock_diag,inet_diag}.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI")
# The ports and addresses of both ends; an interface, and two words that match any socket.
_ENDS = struct.Struct("!HH4s12x4s12x")
_ANY_SOCKET = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_MESSAGE_HEAD = struct.Struct("=BBBB")
_ANSWER_BYTES = 4096
_MAPPED = b"\0" * 10 + b"\xff\xff"
_ANY = bytes(4)
# Source: include/net/tcp_states.h; man 5 proc_pid_net.
_LISTENING = "0A"


class BoundSockets:
    """The sockets of this network that are bound to IPv4 addresses; IPv6 sockets may be, too."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        with contextlib.suppress(OSError):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        if not self._can_find(socket.SOCK_STREAM) or not self._can_find(socket.SOCK_DGRAM):
            self.close()

    def close(self) -> None:
        """Have the lists read from now on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def has(self, host: IPv4Address, port: int) -> bool:
        """Return whether a socket listens at an address itself, or takes datagrams there."""
        try:
            if self._socket is not None:
                return self._find(socket.IPPROTO_TCP, host, port) or self._find(
                    socket.IPPROTO_UDP, host, port
                )
            return _is_listed(("tcp", "tcp6"), host, port, _LISTENING) or _is_listed(
                ("udp", "udp6"), host, port
            )
        except OSError:
            return False

    def _can_find(self, kind: socket.SocketKind) -> bool:
        """Return whether the kernel finds a socket of a kind that there is."""
        protocol = {socket.SOCK_STREAM: socket.IPPROTO_TCP, socket.SOCK_DGRAM: socket.IPPROTO_UDP}
        try:
            with socket.socket(socket.AF_INET, kind) as tried:
                tried.bind(("127.0.0.1", 0))
                if kind == socket.SOCK_STREAM:
                    tried.listen(1)
                host, port = tried.getsockname()
                return self._find(protocol[kind], IPv4Address(host), port)
        except OSError:
            return False

    def _find(self, protocol: int, host: IPv4Address, port: int) -> bool:
        if self._socket is None:
            return False
        # Both ends of a datagram are the other way round.
        ends = _ENDS.pack(port, 0, host.packed, _ANY)
        if protocol == socket.IPPROTO_UDP:
            ends = _ENDS.pack(0, port, _ANY, host.packed)
        body = _REQUEST.pack(socket.AF_INET, protocol, 0, 0xFFFFFFFF) + ends + _ANY_SOCKET
        size = _HEADER.size + len(body)
        header = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
        self._socket.send(header + body)
        answer = self._socket.recv(_ANSWER_BYTES)
        _, kind, *_ = _HEADER.unpack_from(answer)
        if kind != _SOCK_DIAG_BY_FAMILY:  # an error: there is none
            return False
        (family, *_) = _MESSAGE_HEAD.unpack_from(answer, _HEADER.size)
        start = _HEADER.size + _MESSAGE_HEAD.size + 4
        source = answer[start : start + 16]
        # One that is bound to all addresses is the machine's.
        bound = source[:4] if family == socket.AF_INET else source
        return bound in (host.packed, _MAPPED + host.packed)


def _is_listed(names: tuple[str, str], host: IPv4Address, port: int, state: str = "") -> bool:
    """Return whether lists of /proc have a socket at an address.

    Args:
        names: the lists.
        state: the state that it must have; empty for any.
    """
    word = int.from_bytes(host.packed, sys.byteorder)
    mapped = int.from_bytes(b"\0\0\xff\xff", sys.byteorder)
    places = {f"{word:08X}:{port:04X}", f"{0:016X}{mapped:08X}{word:08X}:{port:04X}"}
    for name in names:
        with open(f"/proc/self/net/{name}", encoding="ascii") as file:
            next(file)
            for line in file:
                _, local, _, found, *_ = line.split()
                if local in places and state in ("", found):
                    return True
    return False

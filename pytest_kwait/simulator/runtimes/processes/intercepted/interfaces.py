"""The network interfaces of a pod, as its programs ask the kernel for them.

A pod has the loopback interface and `eth0`, as with a network namespace. Programs ask by rtnetlink
(`getifaddrs`, `ip`), by `ioctl`, or read files in /proc. A netlink socket of a program is one end
of a pair, at whose other end its requests are answered.

Source: man 7 netlink, rtnetlink, netdevice; man 5 proc_pid_net;
include/uapi/linux/{netlink,rtnetlink,if_link,if_addr,if_arp,sockios}.h.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import sys
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Continue,
    Descriptor,
    Failure,
    Result,
    as_signed,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Condition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions

_KIND_MASK, _NETLINK_SOCK_DIAG = 0xF, 4
_MESSAGE_BYTES = 65536
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_LINK, _ADDRESS, _ROUTE = struct.Struct("=BxHiII"), struct.Struct("=BBBBI"), struct.Struct("=8BI")
_SOCKADDR_NL = struct.Struct("=HHII")
_NLMSG_ERROR, _NLMSG_DONE, _NLM_F_MULTI, _NLM_F_ACK, _NLM_F_DUMP = 2, 3, 0x2, 0x4, 0x300
_NEWLINK, _GETLINK, _NEWADDR, _GETADDR, _NEWROUTE, _GETROUTE = 16, 18, 20, 22, 24, 26
# Kinds of messages come in fours: new, delete, get, set.
_KINDS_OF_ONE, _GET = 4, 2
_IFLA_ADDRESS, _IFLA_BROADCAST, _IFLA_IFNAME, _IFLA_MTU, _IFLA_QDISC = 1, 2, 3, 4, 6
_IFLA_TXQLEN, _IFLA_OPERSTATE, _IFLA_GROUP = 13, 16, 27
_IFA_ADDRESS, _IFA_LOCAL, _IFA_LABEL, _IFA_CACHEINFO, _IFA_FLAGS = 1, 2, 3, 6, 8
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC, _RTA_TABLE = 1, 4, 5, 7, 15
_IFA_F_PERMANENT = 0x80
_SCOPE_GLOBAL, _SCOPE_LINK, _SCOPE_HOST = 0, 253, 254
_TABLE_MAIN, _TABLE_LOCAL, _RTPROT_KERNEL, _RTPROT_BOOT = 254, 255, 2, 3
_RTN_UNICAST, _RTN_LOCAL = 1, 2
_FOREVER = 0xFFFFFFFF
_LOWER_UP = 0x10000
_QUEUE_LENGTH = 1000
# Requests of `ioctl`, and what they return of an interface.
_SIOCGIFNAME, _SIOCGIFCONF = 0x8910, 0x8912
_SIOCGIFFLAGS, _SIOCGIFADDR, _SIOCGIFDSTADDR, _SIOCGIFBRDADDR = 0x8913, 0x8915, 0x8917, 0x8919
_SIOCGIFNETMASK, _SIOCGIFMETRIC, _SIOCGIFMTU, _SIOCGIFHWADDR = 0x891B, 0x891D, 0x8921, 0x8927
_SIOCGIFINDEX, _SIOCGIFTXQLEN = 0x8933, 0x8942
_OF_INTERFACE = (
    _SIOCGIFFLAGS, _SIOCGIFADDR, _SIOCGIFDSTADDR, _SIOCGIFBRDADDR, _SIOCGIFNETMASK, _SIOCGIFMETRIC,
    _SIOCGIFMTU, _SIOCGIFHWADDR, _SIOCGIFINDEX, _SIOCGIFTXQLEN,
)  # fmt: skip
# SIOCADDRT, SIOCDELRT, and those that set what the others get; SIOCSIFHWADDR, SIOCSIFTXQLEN.
_CHANGES = (
    0x890B, 0x890C, 0x8914, 0x8916, 0x8918, 0x891A, 0x891C, 0x891E, 0x8922, 0x8923, 0x8924, 0x8943,
)  # fmt: skip
_NAME_BYTES, _REQUEST_BYTES = 16, 40
_CONFIGURATION = struct.Struct("=i4xQ")
_INT = struct.Struct("=i")


class Interface(NamedTuple):
    """A network interface.

    Args:
        number: its index.
        kind: its ARPHRD_ constant.
        flags: its IFF_ flags.
        mtu: bytes.
        hardware: its hardware address.
        address: with the length of its network's prefix.
        scope: RT_SCOPE_ of the address.
    """

    number: int
    name: str
    kind: int
    flags: int
    mtu: int
    hardware: bytes
    address: IPv4Interface
    scope: int


class PodInterfaces:
    """The interfaces of a pod and its routes.

    Args:
        host: the pod's address.
        networks: those of the cluster; one of them has the address.
    """

    def __init__(self, host: IPv4Address, networks: Sequence[IPv4Network]) -> None:
        network = next((one for one in networks if host in one), IPv4Network(f"{host}/24", False))
        self.network = network
        self.gateway = IPv4Address(int(network.network_address) + 1)
        # As network plugins make them: locally administered, from the address.
        hardware = b"\x0a\x58" + host.packed
        loopback = IPv4Interface("127.0.0.1/8")
        self.loopback = Interface(1, "lo", 772, 0x49, 65536, bytes(6), loopback, _SCOPE_HOST)
        own = IPv4Interface(f"{host}/{network.prefixlen}")
        self.own = Interface(2, "eth0", 1, 0x1043, 1500, hardware, own, _SCOPE_GLOBAL)
        self.all = (self.loopback, self.own)

    def find(self, *, name: str = "", index: int = 0) -> Interface | None:
        """Return an interface by its name or number."""
        matches = (one for one in self.all if one.name == name or one.number == index)
        return next(matches, None)

    # -- files

    def list_lines(self, name: str) -> list[str]:
        """Return the lines of a file in /proc/net: those of `FILES`."""
        return {
            "dev": self._list_devices,
            "route": self._list_routes,
            "arp": self._list_neighbours,
            "if_inet6": self._list_addresses6,
            "fib_trie": self._list_tries,
        }[name]()

    FILES = ("dev", "route", "arp", "if_inet6", "fib_trie")
    """The files that show interfaces and routes."""

    def _list_devices(self) -> list[str]:
        head = [
            "Inter-|   Receive                                                |  Transmit\n",
            " face |bytes    packets errs drop fifo frame compressed multicast|"
            "bytes    packets errs drop fifo colls carrier compressed\n",
        ]
        counts = (
            "       0       0    0    0    0     0          0         0"
            "        0       0    0    0    0     0       0          0\n"
        )
        return [*head, *(f"{one.name:>6}: {counts[1:]}" for one in self.all)]

    def _list_routes(self) -> list[str]:
        lines = [
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
        ]
        routes = (
            (IPv4Address(0), self.gateway, 3, IPv4Address(0)),
            (self.network.network_address, IPv4Address(0), 1, self.network.netmask),
        )
        for target, gateway, flags, mask in routes:
            words = f"{_to_word(target)}\t{_to_word(gateway)}\t{flags:04X}\t0\t0\t0"
            lines.append(f"{self.own.name}\t{words}\t{_to_word(mask)}\t0\t0\t0")
        return [f"{line:<127}\n" for line in lines]

    def _list_neighbours(self) -> list[str]:
        head = "IP address       HW type     Flags       HW address            Mask     Device\n"
        hardware = (b"\x0a\x58" + self.gateway.packed).hex(":")
        line = f"{self.gateway!s:<17}0x1         0x2         {hardware}     *        eth0\n"
        return [head, line]

    def _list_addresses6(self) -> list[str]:
        return [f"{1:032x} 01 80 10 80       lo\n"]

    def _list_tries(self) -> list[str]:
        network, host = self.network, self.own.address.ip
        lines = [
            "Main:",
            "  +-- 0.0.0.0/0 3 0 5",
            "     |-- 0.0.0.0",
            "        /0 universe UNICAST",
        ]
        lines += [
            f"     |-- {network.network_address}",
            f"        /{network.prefixlen} link UNICAST",
        ]
        lines += ["Local:", "  +-- 0.0.0.0/0 3 0 5"]
        for address in (host, self.loopback.address.ip):
            lines += [f"     |-- {address}", "        /32 host LOCAL"]
        return [f"{line}\n" for line in lines]

    # -- rtnetlink

    def answer(self, request: bytes, port: int) -> bytes:
        """Return the messages that answer a request.

        Args:
            port: the number of the socket that has sent it.
        """
        if len(request) <= _HEADER.size:
            return b""
        _, kind, flags, sequence, _ = _HEADER.unpack_from(request)
        body = request[_HEADER.size :]
        is_dump = flags & _NLM_F_DUMP == _NLM_F_DUMP
        if kind % _KINDS_OF_ONE != _GET:
            return _pack_error(errno.EPERM, request, port)
        try:
            items = list(self._list_items(kind, body, is_dump=is_dump))
        except OSError as error:
            return _pack_error(error.errno or errno.EIO, request, port)
        own_flags = _NLM_F_MULTI if is_dump else 0
        answer = b"".join(
            _pack_message(number, own_flags, sequence, port, item) for number, item in items
        )
        if is_dump:
            done = _pack_message(_NLMSG_DONE, _NLM_F_MULTI, sequence, port, _INT.pack(0))
            return answer + done
        if not answer:
            return _pack_error(errno.EOPNOTSUPP, request, port)
        return answer + _pack_error(0, request, port) if flags & _NLM_F_ACK else answer

    def _list_items(self, kind: int, body: bytes, *, is_dump: bool) -> Iterator[tuple[int, bytes]]:
        """Yield kinds and contents of the messages that answer a request.

        Raises:
            OSError: there is nothing like that.
        """
        family = body[0]
        if kind == _GETLINK and is_dump:
            yield from ((_NEWLINK, _pack_link(one)) for one in self.all)
        elif kind == _GETLINK:
            yield _NEWLINK, _pack_link(self._find_asked(body))
        elif kind == _GETADDR and is_dump:
            if family in (socket.AF_UNSPEC, socket.AF_INET):
                yield from ((_NEWADDR, _pack_address(one)) for one in self.all)
            if family in (socket.AF_UNSPEC, socket.AF_INET6):
                yield _NEWADDR, _pack_address6()
        elif kind == _GETROUTE and family in (socket.AF_UNSPEC, socket.AF_INET):
            yield from self._list_route_items(body, is_dump=is_dump)

    def _find_asked(self, body: bytes) -> Interface:
        _, _, index, _, _ = _LINK.unpack_from(body.ljust(_LINK.size, b"\0"))
        asked = _unpack_attributes(body[_LINK.size :]).get(_IFLA_IFNAME, b"")
        name = asked.partition(b"\0")[0].decode(errors="replace")
        found = self.find(name=name, index=index)
        if found is None:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return found

    def _list_route_items(self, body: bytes, *, is_dump: bool) -> Iterator[tuple[int, bytes]]:
        gateway, source = self.gateway.packed, self.own.address.ip.packed
        network = self.network
        if is_dump:
            parts = (0, _TABLE_MAIN, _RTPROT_BOOT, _SCOPE_GLOBAL, _RTN_UNICAST)
            yield _NEWROUTE, _pack_route(self.own, parts, {_RTA_GATEWAY: gateway})
            parts = (network.prefixlen, _TABLE_MAIN, _RTPROT_KERNEL, _SCOPE_LINK, _RTN_UNICAST)
            attributes = {_RTA_DST: network.network_address.packed, _RTA_PREFSRC: source}
            yield _NEWROUTE, _pack_route(self.own, parts, attributes)
            return
        target = _unpack_attributes(body[_ROUTE.size :]).get(_RTA_DST, bytes(4))
        host = IPv4Address(target[:4].ljust(4, b"\0"))
        attributes = {_RTA_DST: host.packed, _RTA_PREFSRC: source}
        if host.is_loopback or host == self.own.address.ip:
            attributes[_RTA_PREFSRC] = host.packed
            parts = (32, _TABLE_LOCAL, 0, _SCOPE_GLOBAL, _RTN_LOCAL)
            yield _NEWROUTE, _pack_route(self.loopback, parts, attributes)
            return
        if host not in network:
            attributes[_RTA_GATEWAY] = gateway
        parts = (32, _TABLE_MAIN, 0, _SCOPE_GLOBAL, _RTN_UNICAST)
        yield _NEWROUTE, _pack_route(self.own, parts, attributes)


class InterfaceCalls:
    """Answers calls that look for network interfaces.

    Args:
        interfaces: the pod's.
    """

    def __init__(self, interfaces: PodInterfaces) -> None:
        self._interfaces = interfaces
        # The other ends of programs' sockets, and their numbers, by descriptor.
        self._ends: dict[int, tuple[socket.socket, int]] = {}
        # The numbers by what /proc shows of the programs' ends.
        self._ports: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._poll = select.epoll()
        self.answers: Mapping[str, Callable[[SystemCall], Answer]] = {"ioctl": self._answer_ioctl}

    CAUGHT: Mapping[str, Conditions] = {
        "ioctl": (Condition(1, (_SIOCGIFNAME, _SIOCGIFCONF, *_OF_INTERFACE, *_CHANGES)),)
    }
    """The system calls, with the conditions under which they need an answer."""

    def fileno(self) -> int:
        """Return a descriptor that can be read when requests have come."""
        return self._poll.fileno()

    def close(self) -> None:
        """Close all sockets."""
        self._poll.close()
        for end, _ in self._ends.values():
            end.close()
        self._ends.clear()

    def read(self) -> None:
        """Answer the requests that have come."""
        for fd, _ in self._poll.poll(0):
            end, port = self._ends[fd]
            try:
                request = end.recv(_MESSAGE_BYTES)
            except OSError:
                request = b""
            if not request:
                self._poll.unregister(fd)
                del self._ends[fd], self._ports[self._names.pop(fd)]
                end.close()
                continue
            # One that does not read its answers loses them.
            with contextlib.suppress(OSError):
                answer = self._interfaces.answer(request, port)
                if answer:
                    end.send(answer)

    # -- netlink sockets

    def answer_socket(self, call: SystemCall) -> Answer:
        """Answer a call that makes a netlink socket."""
        _, kind, protocol = map(as_signed, call.arguments[:3])
        if protocol == _NETLINK_SOCK_DIAG:
            # Programs read the lists of sockets in /proc without it.
            return Failure(errno.EPROTONOSUPPORT)
        if protocol != socket.NETLINK_ROUTE:
            return Continue()
        if kind & _KIND_MASK not in (socket.SOCK_RAW, socket.SOCK_DGRAM):
            return Failure(errno.ESOCKTNOSUPPORT)
        end, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        end.setblocking(False)
        given.setblocking(not kind & socket.SOCK_NONBLOCK)
        name = f"socket:[{os.fstat(given.fileno()).st_ino}]"
        port = _read_process(call.thread)
        self._ends[end.fileno()], self._ports[name] = (end, port), port
        self._names[end.fileno()] = name
        self._poll.register(end.fileno(), select.EPOLLIN)
        return Descriptor(given.detach(), not kind & socket.SOCK_CLOEXEC)

    def is_netlink(self, name: str) -> bool:
        """Return whether a socket is one of these.

        Args:
            name: what /proc shows of it.
        """
        return name in self._ports

    def find_address(self, name: str, *, is_own: bool) -> bytes | None:
        """Return the address of a netlink socket or of the kernel; None for other sockets.

        Args:
            name: what /proc shows of it.
        """
        port = self._ports.get(name)
        if port is None:
            return None
        return _SOCKADDR_NL.pack(socket.AF_NETLINK, 0, port if is_own else 0, 0)

    # -- ioctl

    def _answer_ioctl(self, call: SystemCall) -> Answer:
        fd, request, place = call.arguments[:3]
        try:
            link = os.readlink(f"/proc/{call.thread}/fd/{as_signed(fd)}")
        except OSError:
            return Continue()
        if not link.startswith("socket:"):
            return Continue()
        number = request & 0xFFFFFFFF
        if number in _CHANGES:
            return Failure(errno.EPERM)
        if number == _SIOCGIFCONF:
            return self._answer_configuration(call, place)
        data = call.memory.read(place, _REQUEST_BYTES)
        if number == _SIOCGIFNAME:
            found = self._interfaces.find(index=_INT.unpack_from(data, _NAME_BYTES)[0])
            if found is not None:
                call.memory.write(place, found.name.encode().ljust(_NAME_BYTES, b"\0"))
        else:
            # An alias has the interface's name before a colon.
            name = data[:_NAME_BYTES].partition(b"\0")[0].partition(b":")[0]
            found = self._interfaces.find(name=name.decode(errors="replace"))
            if found is not None:
                call.memory.write(place + _NAME_BYTES, _describe(found, number))
        return Failure(errno.ENODEV) if found is None else Result()

    def _answer_configuration(self, call: SystemCall, place: int) -> Answer:
        space, buffer = _CONFIGURATION.unpack(call.memory.read(place, _CONFIGURATION.size))
        entries = [
            one.name.encode().ljust(_NAME_BYTES, b"\0")
            + _pack_sockaddr(one.address.ip).ljust(_REQUEST_BYTES - _NAME_BYTES, b"\0")
            for one in self._interfaces.all
        ]
        if buffer:
            entries = entries[: max(space, 0) // _REQUEST_BYTES]
            call.memory.write(buffer, b"".join(entries))
        call.memory.write(place, _INT.pack(len(entries) * _REQUEST_BYTES))
        return Result()


def _describe(one: Interface, request: int) -> bytes:
    """Return what `ioctl` writes for a request about an interface."""
    return {
        _SIOCGIFFLAGS: struct.pack("=H", one.flags),
        _SIOCGIFADDR: _pack_sockaddr(one.address.ip),
        _SIOCGIFDSTADDR: _pack_sockaddr(one.address.ip),
        _SIOCGIFBRDADDR: _pack_sockaddr(IPv4Address(0)),
        _SIOCGIFNETMASK: _pack_sockaddr(one.address.netmask),
        _SIOCGIFMETRIC: _INT.pack(0),
        _SIOCGIFMTU: _INT.pack(one.mtu),
        _SIOCGIFHWADDR: struct.pack("=H6s", one.kind, one.hardware),
        _SIOCGIFINDEX: _INT.pack(one.number),
        _SIOCGIFTXQLEN: _INT.pack(_QUEUE_LENGTH),
    }[request]


def _pack_sockaddr(host: IPv4Address) -> bytes:
    return struct.pack("=H2x4s8x", socket.AF_INET, host.packed)


def _pack_message(kind: int, flags: int, sequence: int, port: int, body: bytes) -> bytes:
    header = _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, port)
    return header + body + bytes(-len(body) % 4)


def _pack_error(number: int, request: bytes, port: int) -> bytes:
    """Return the message that a request has failed; with 0, that it has not."""
    _, _, _, sequence, _ = _HEADER.unpack_from(request)
    body = _INT.pack(-number) + (request if number else request[: _HEADER.size])
    return _pack_message(_NLMSG_ERROR, 0, sequence, port, body)


def _pack_attributes(attributes: Mapping[int, bytes]) -> bytes:
    return b"".join(
        _ATTRIBUTE.pack(_ATTRIBUTE.size + len(data), kind) + data + bytes(-len(data) % 4)
        for kind, data in attributes.items()
    )


def _unpack_attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = data[_ATTRIBUTE.size : length]
        data = data[length + -length % 4 :]
    return found


def _pack_link(one: Interface) -> bytes:
    is_loopback = one.scope == _SCOPE_HOST
    attributes = {
        _IFLA_IFNAME: one.name.encode() + b"\0",
        _IFLA_TXQLEN: struct.pack("=I", _QUEUE_LENGTH),
        _IFLA_OPERSTATE: b"\0" if is_loopback else b"\6",  # unknown, up
        _IFLA_MTU: struct.pack("=I", one.mtu),
        _IFLA_GROUP: struct.pack("=I", 0),
        _IFLA_QDISC: b"noqueue\0",
        _IFLA_ADDRESS: one.hardware,
        _IFLA_BROADCAST: bytes(6) if is_loopback else b"\xff" * 6,
    }
    head = _LINK.pack(socket.AF_UNSPEC, one.kind, one.number, one.flags | _LOWER_UP, 0)
    return head + _pack_attributes(attributes)


def _pack_address(one: Interface) -> bytes:
    address = one.address
    attributes = {
        _IFA_ADDRESS: address.ip.packed,
        _IFA_LOCAL: address.ip.packed,
        _IFA_LABEL: one.name.encode() + b"\0",
        _IFA_FLAGS: struct.pack("=I", _IFA_F_PERMANENT),
        _IFA_CACHEINFO: struct.pack("=IIII", _FOREVER, _FOREVER, 0, 0),
    }
    length = address.network.prefixlen
    head = _ADDRESS.pack(socket.AF_INET, length, _IFA_F_PERMANENT, one.scope, one.number)
    return head + _pack_attributes(attributes)


def _pack_address6() -> bytes:
    """Return the IPv6 address of the loopback interface; `eth0` has none."""
    attributes = {
        _IFA_ADDRESS: IPv6Address(1).packed,
        _IFA_CACHEINFO: struct.pack("=IIII", _FOREVER, _FOREVER, 0, 0),
        _IFA_FLAGS: struct.pack("=I", _IFA_F_PERMANENT),
    }
    head = _ADDRESS.pack(socket.AF_INET6, 128, _IFA_F_PERMANENT, _SCOPE_HOST, 1)
    return head + _pack_attributes(attributes)


def _pack_route(
    one: Interface, parts: tuple[int, int, int, int, int], attributes: Mapping[int, bytes]
) -> bytes:
    """Return a route.

    Args:
        parts: length of the target's prefix, table, protocol, scope and kind.
    """
    length, table, *others = parts
    head = _ROUTE.pack(socket.AF_INET, length, 0, 0, table, *others, 0)
    own = {_RTA_TABLE: struct.pack("=I", table), _RTA_OIF: struct.pack("=I", one.number)}
    return head + _pack_attributes({**own, **attributes})


def _to_word(host: IPv4Address) -> str:
    """Return an address as files of /proc show it."""
    return f"{int.from_bytes(host.packed, sys.byteorder):08X}"


def _read_process(thread: int) -> int:
    """Return the process of a thread; the thread's number if it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status", "rb") as file:
        return int(file.read().split(b"\nTgid:", 1)[1].split(None, 1)[0])
    return thread

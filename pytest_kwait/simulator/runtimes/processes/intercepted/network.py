"""Sockets of intercepted programs: they see the addresses of the cluster.

Each pod has an address of the machine's loopback interface. A socket is bound to it from the start,
without a port: what it connects to sees it. The pod's own loopback interface is that address too,
until a program binds to the loopback interface alone. A socket that connects to the loopback
interface is bound to another address before; the one that it connects to is shown as asked for.

Abstract names of Unix sockets have the pod's address before them.

Source: man 7 ip, ipv6, udp, unix; man 2 socket, bind, connect, accept, recvmsg, sendmsg.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    LOCALHOST,
    UNSPECIFIED,
    Address,
    allow_any_port,
    is_loopback,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.bound_sockets import BoundSockets
from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Change,
    Continue,
    Descriptor,
    Pointers,
    Result,
    as_signed,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Condition
from pytest_kwait.simulator.runtimes.processes.intercepted.users import read_process_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from ipaddress import IPv4Network

    from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import AddressTable
    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
        Answer,
        Memory,
        SystemCall,
    )
    from pytest_kwait.simulator.runtimes.processes.intercepted.connection_filter import (
        Place,
        ProgramFilter,
    )
    from pytest_kwait.simulator.runtimes.processes.intercepted.interfaces import InterfaceCalls
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions
    from pytest_kwait.simulator.runtimes.processes.intercepted.service_routes import (
        ServiceRoutes,
    )
    from pytest_kwait.simulator.runtimes.processes.intercepted.unix_sockets import SocketPath

# Source: include/uapi/linux/{in,in6,socket}.h.
_IPPROTO_IPV6, _IPV6_V6ONLY, _SOL_NETLINK = 41, 26, 270
_KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
_PROTOCOLS = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP)
_KIND_MASK = 0xF
# struct sockaddr_in and sockaddr_in6; the family has the machine's order.
_FAMILY = struct.Struct("=H")
_INET = struct.Struct("!H4s")
_INET6 = struct.Struct("!HI16s")
_LENGTH = struct.Struct("=I")
_MAX_LENGTH = 128
# struct msghdr: the name and its length; struct mmsghdr has one and the length of the message.
_NAME = struct.Struct("=QI")
_POINTER_BYTES = 8
_MMSGHDR_SIZE = 64
_MAX_MESSAGES = _MAX_VECTORS = 1024
# struct msghdr as words: the name and its length are the first two.
_MESSAGE = struct.Struct("=7Q")
_VECTOR = struct.Struct("=QQ")
_UNIX_PATH_BYTES = 108
# Source: net/unix/af_unix.c, `unix_autobind`.
_AUTOMATIC_DIGITS = 5
_Name = TypeVar("_Name", str, bytes)
_Value = TypeVar("_Value")
_MAX_KNOWN = 1 << 16
"""Sockets of which something is known; the oldest of more have been closed."""
UNSPECIFIED6 = IPv4Address(1)
"""What IPv6 sockets that take no IPv4 have instead of all the pod's addresses."""
LOOPBACK6 = IPv4Address(2)
"""What IPv6 sockets have instead of the loopback address, beside those of IPv4."""
_SHOWN6 = {UNSPECIFIED6: IPv6Address(0), LOOPBACK6: IPv6Address(1)}

# A fourth argument of `bind`, which has three: the call is not caught.
_PASSED_ARGUMENT = 0x6B776169
PASSED_FLAGS = 0x810
"""Flags of `sendmsg` that no program uses: such a call is not caught."""


class UnixSockets(Protocol):
    """The paths of Unix sockets, as `SocketPaths`."""

    def find(self, call: SystemCall, path: bytes, *, is_created: bool) -> SocketPath | None:
        """Return a path of the machine; None if the kernel comes to the same place."""

    def find_name(self, bound: bytes) -> bytes | None:
        """Return the path by which a program has bound a socket; None if it is that one."""


class PodAddress(NamedTuple):
    """The place of a pod on the network.

    Args:
        host: the pod's address; of a pod with `hostNetwork`, its node's.
        owner: the owner of its loopback interface: the pod, or 0.0.0.0 for that of all nodes.
        networks: the networks of the cluster; other addresses are reached if they are in the table.
    """

    host: IPv4Address
    owner: IPv4Address
    networks: tuple[IPv4Network, ...]


class _Endpoint(NamedTuple):
    """An address and port in the memory of a program; IPv4 may be written as IPv6 there."""

    host: IPv4Address | IPv6Address
    port: int


class NetworkCalls:
    """Answers calls of sockets.

    Args:
        pod: the pod.
        table: the cluster's addresses.
        unix_sockets: the paths of Unix sockets.
        interfaces: answers for netlink sockets.
        routes: the services that are reached without the server's proxy.
        connection_filter: the rules for new connections.
    """

    def __init__(
        self,
        pod: PodAddress,
        table: AddressTable,
        unix_sockets: UnixSockets,
        interfaces: InterfaceCalls,
        routes: ServiceRoutes,
        connection_filter: ProgramFilter,
    ) -> None:
        self._pod, self._table, self._unix_sockets = pod, table, unix_sockets
        self._routes, self._filter = routes, connection_filter
        self._interfaces = interfaces
        self._bound = BoundSockets()
        # By what /proc shows of a socket: those that take no IPv4, those that are bound to all
        # addresses, addresses of the loopback interface that programs have sent to, services that
        # they have connected to, and those that have no connections.
        self._ipv6_only: dict[str, bool] = {}
        self._unspecified: dict[str, bool] = {}
        self._looped: dict[str, IPv4Address | IPv6Address] = {}
        self._routed: dict[str, _Endpoint] = {}
        self._datagrams: dict[str, bool] = {}
        # Those that have sent datagrams here, which are answered, by sockets.
        self._senders: dict[str, bool] = {}
        self._long_names: dict[bytes, bytes] = {}
        self.answers: Mapping[str, Callable[[SystemCall], Answer]] = {
            "socket": self._answer_socket,
            "setsockopt": self._answer_setsockopt,
            "getsockopt": self._answer_getsockopt,
            "bind": self._answer_bind,
            "connect": self._answer_connect,
            "sendto": self._answer_sendto,
            "sendmsg": self._answer_sendmsg,
            "sendmmsg": self._answer_sendmmsg,
            "accept": self._show_address(1, 2),
            "accept4": self._show_address(1, 2),
            "getsockname": self._show_address(1, 2, is_own=True),
            "getpeername": self._show_address(1, 2),
            "recvfrom": self._show_address(4, 5),
            "recvmsg": self._answer_recvmsg,
            "recvmmsg": self._answer_recvmmsg,
        }

    def close(self) -> None:
        """Close what looks for sockets."""
        self._bound.close()

    CAUGHT: Mapping[str, Conditions] = {
        "socket": (Condition(0, (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)),),
        "setsockopt": (Condition(1, (_IPPROTO_IPV6, _SOL_NETLINK)),),
        "getsockopt": (Condition(1, (_IPPROTO_IPV6,)), Condition(2, (_IPV6_V6ONLY,))),
        "bind": (Condition(3, (_PASSED_ARGUMENT,), is_excluded=True),),
        "connect": (),
        "sendto": (Condition(4),),
        "sendmsg": (Condition(2, (PASSED_FLAGS,), is_excluded=True),),
        "sendmmsg": (),
        "accept": (Condition(1),),
        "accept4": (Condition(1),),
        "getsockname": (),
        "getpeername": (),
        "recvfrom": (Condition(4),),
        "recvmsg": (),
        "recvmmsg": (),
    }
    """The system calls, with the conditions under which they need an answer."""

    # -- sockets

    def _answer_socket(self, call: SystemCall) -> Answer:
        """Make the socket of a program, bound to its pod's address without a port."""
        family, kind, protocol = map(as_signed, call.arguments[:3])
        if family == socket.AF_NETLINK:
            return self._interfaces.answer_socket(call)
        if kind & _KIND_MASK not in _KINDS or protocol not in _PROTOCOLS:
            return Continue()
        made = socket.socket(family, kind & _KIND_MASK, protocol)
        try:
            own = self._table.add(Address(self._pod.host))
            if family == socket.AF_INET6:
                made.setsockopt(_IPPROTO_IPV6, _IPV6_V6ONLY, 0)
            allow_any_port(made)
            made.bind((f"::ffff:{own}" if family == socket.AF_INET6 else str(own), 0))
            made.setblocking(not kind & socket.SOCK_NONBLOCK)
            if made.type == socket.SOCK_DGRAM:
                _note(self._datagrams, f"socket:[{os.fstat(made.fileno()).st_ino}]", value=True)
        except OSError:
            made.close()
            raise
        return Descriptor(made.detach(), is_kept=not kind & socket.SOCK_CLOEXEC)

    def _answer_setsockopt(self, call: SystemCall) -> Answer:
        """Note that a socket takes no IPv4: it has an IPv4 address nevertheless."""
        level, option = map(as_signed, call.arguments[1:3])
        name = _read_link(call.thread, as_signed(call.arguments[0]))
        if level == _SOL_NETLINK:
            return Result() if self._interfaces.is_netlink(name) else Continue()
        if option != _IPV6_V6ONLY:
            return Continue()
        value = call.memory.read(call.arguments[3], _LENGTH.size)
        if not name.startswith("socket:"):
            return Continue()
        _note(self._ipv6_only, name, any(value) or None)
        return Result()

    def _answer_getsockopt(self, call: SystemCall) -> Answer:
        name = _read_link(call.thread, as_signed(call.arguments[0]))
        if name not in self._ipv6_only:
            return Continue()
        place, length = call.arguments[3:5]
        (space,) = _LENGTH.unpack(call.memory.read(length, _LENGTH.size))
        value = _LENGTH.pack(1)[:space]
        call.memory.write(place, value)
        call.memory.write(length, _LENGTH.pack(len(value)))
        return Result()

    def _answer_bind(self, call: SystemCall) -> Answer:
        data = _read_data(call.memory, call.arguments[1], call.arguments[2])
        endpoint = _parse(data)
        name = _read_link(call.thread, as_signed(call.arguments[0]))
        if self._interfaces.is_netlink(name):
            return Result()
        if endpoint is None:
            return self._change_path(call, data, 1, is_created=True)
        bound = self._find_bound(name, endpoint)
        _note(self._unspecified, name, endpoint.host.is_unspecified or None)
        changed = _replace(data, bound, self._table.to_machine_port(endpoint.port))
        return Change({1: changed}, {call.arguments[1]: changed})

    def _find_bound(self, name: str, endpoint: _Endpoint) -> IPv4Address:
        """Return the machine's address for one that a program binds to.

        Args:
            name: what /proc shows of the socket.
        """
        own, host = self._pod.host, endpoint.host
        if isinstance(host, IPv6Address):
            if host.is_unspecified:
                if name in self._ipv6_only:
                    return self._table.add(Address(UNSPECIFIED6, self._pod.owner))
                return self._table.add(Address(own))
            if host.is_loopback:
                return self._table.add(Address(LOOPBACK6, self._pod.owner))
        elif host in (UNSPECIFIED, own):
            return self._table.add(Address(own))
        elif self._table.has(host):  # it was given to the program by mistake
            return host
        elif self._is_own_loopback(host):
            return self._table.add(Address(host, self._pod.owner))
        elif self._pod.owner == UNSPECIFIED and self._is_of_cluster(host):
            return self._table.add(Address(host))  # all addresses of the cluster are the node's
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))

    # -- peers

    def _answer_connect(self, call: SystemCall) -> Answer:
        name = _read_link(call.thread, as_signed(call.arguments[0]))
        if self._interfaces.is_netlink(name):
            return Result()
        answer = self._change_target(call, 1, 2)
        looped = self._looped.get(name)
        if looped is None or name in self._datagrams or not isinstance(answer, Change):
            return answer
        data = answer.arguments[1]
        if not isinstance(data, bytes):
            return answer
        marker = looped if isinstance(looped, IPv4Address) else LOOPBACK6
        own = self._table.add(Address(marker, self._pod.owner))
        source = (call.arguments[0], _replace(data, own, 0), len(data), _PASSED_ARGUMENT)
        # It fails where the program has bound the socket itself.
        return answer._replace(preceded_by=("bind", source))

    def _answer_sendto(self, call: SystemCall) -> Answer:
        return self._change_target(call, 4, 5)

    def _change_target(self, call: SystemCall, place: int, length_place: int) -> Answer:
        address = call.arguments[place]
        data = _read_data(call.memory, address, call.arguments[length_place])
        if not data:
            return Continue()
        endpoint = _parse(data)
        if endpoint is None:
            return self._change_path(call, data, place, is_created=False)
        changed = self._change_data(call, data, endpoint)
        return Change({place: changed}, {address: changed})

    def _change_path(
        self, call: SystemCall, data: bytes, place: int, *, is_created: bool
    ) -> Answer:
        """Answer a call with the address of a Unix socket; other ones are the kernel's.

        Args:
            place: the place of the address; its length follows.
            is_created: whether the call makes the socket.

        Raises:
            OSError: the path leads nowhere, or is too long on the machine.
        """
        unchanged = Change({place: data}, {}) if data else Continue()
        if len(data) < _FAMILY.size or _FAMILY.unpack_from(data) != (socket.AF_UNIX,):
            return unchanged
        path = _parse_path(data)
        if path:
            found = self._unix_sockets.find(call, path, is_created=is_created)
            if found is None:
                return unchanged
            changed = data[: _FAMILY.size] + found.path + b"\0"
            return Change({place: changed, place + 1: len(changed)}, on_return=found.on_return)
        if len(data) == _FAMILY.size and not is_created:
            return unchanged
        changed = data[: _FAMILY.size] + self._make_abstract(data[_FAMILY.size + 1 :])
        return Change({place: changed, place + 1: len(changed)})

    def _make_abstract(self, name: bytes) -> bytes:
        """Return the machine's abstract name of a Unix socket; a random one for none."""
        name = name or os.urandom(_AUTOMATIC_DIGITS).hex()[:_AUTOMATIC_DIGITS].encode()
        prefix = b"\0" + self._table.add(Address(self._pod.host)).packed
        if len(prefix) + len(name) <= _UNIX_PATH_BYTES:
            return prefix + name
        # Those who pass the whole structure have a name that ends with zeros.
        import hashlib

        digest = hashlib.sha256(name).digest()
        _note(self._long_names, digest, name)
        return prefix + digest

    def _change_data(self, call: SystemCall, data: bytes, endpoint: _Endpoint) -> bytes:
        """Return the machine's address for what a call's socket sends to."""
        name = _read_link(call.thread, as_signed(call.arguments[0]))
        _note(self._looped, name, self._find_looped(endpoint.host))
        asked = endpoint
        if call.name == "connect":
            _note(self._unspecified, name, None)
            target = None if name in self._datagrams else self._find_route(endpoint)
            _note(self._routed, name, None if target is None else endpoint)
            endpoint = target or endpoint
        silent = self._find_silent(name, endpoint)
        if silent is not None:
            if call.name == "connect":
                _note(self._routed, name, asked)
            return _replace(data, *silent)
        port = self._table.to_machine_port(endpoint.port)
        return _replace(data, self._find_target(endpoint.host, port), port)

    def _find_silent(self, name: str, endpoint: _Endpoint) -> Place | None:
        """Return where packets go that no rule allows; None for those that are allowed.

        Args:
            name: what /proc shows of the socket.
        """
        host = endpoint.host
        if isinstance(host, IPv6Address) or self._find_looped(host) is not None:
            return None
        if _name_sender(name, endpoint) in self._senders:
            return None
        protocol = "UDP" if name in self._datagrams else "TCP"
        return self._filter.find_silent(host, endpoint.port, protocol)

    def _find_route(self, endpoint: _Endpoint) -> _Endpoint | None:
        """Return an endpoint of a service; None if the proxy serves it.

        A pod that reaches itself is masqueraded, by the proxy.
        """
        if isinstance(endpoint.host, IPv6Address):
            return None
        target = self._routes.choose(endpoint.host, endpoint.port)
        return None if target is None or target[0] == self._pod.host else _Endpoint(*target)

    def _find_looped(self, host: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address | None:
        """Return the address of the loopback interface that a program sends to; None for others."""
        if isinstance(host, IPv6Address):
            return IPv6Address(1) if host.is_loopback or host.is_unspecified else None
        if host == UNSPECIFIED:
            return LOCALHOST
        return host if self._is_own_loopback(host) and not self._table.has(host) else None

    def _find_target(self, host: IPv4Address | IPv6Address, port: int) -> IPv4Address:
        """Return the machine's address for one that a program sends to.

        Raises:
            OSError: ENETUNREACH, for an address that is none of the cluster.
        """
        own = self._pod.host
        if isinstance(host, IPv6Address):
            if not host.is_loopback and not host.is_unspecified:
                raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
            for marker in _SHOWN6:
                only = self._table.find(Address(marker, self._pod.owner))
                if only is not None and self._bound.has(only, port):
                    return only
            return self._table.add(Address(own))
        if self._table.has(host):
            return host
        if self._is_own_loopback(host):
            local = self._table.find(Address(host, self._pod.owner))
            if local is not None and self._bound.has(local, port):
                return local
            return self._table.add(Address(own))
        if host == UNSPECIFIED:
            return self._table.add(Address(own))
        if self._is_of_cluster(host):
            return self._table.add(Address(host))
        found = self._table.find(Address(host))
        if found is None:
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
        return found

    def _is_own_loopback(self, host: IPv4Address) -> bool:
        """Return whether an address is of the pod's loopback interface, and no load balancer's."""
        return is_loopback(host) and not self._is_of_cluster(host)

    def _is_of_cluster(self, host: IPv4Address) -> bool:
        return any(host in network for network in self._pod.networks)

    def _answer_sendmsg(self, call: SystemCall) -> Answer:
        header = call.arguments[1]
        words = _MESSAGE.unpack(call.memory.read(header, _MESSAGE.size))
        in_place: dict[int, bytes] = {}
        items = self._change_message(call, words, in_place)
        return Change({1: Pointers(items)}, in_place) if words[0] else Continue()

    def _answer_sendmmsg(self, call: SystemCall) -> Answer:
        """Have datagrams sent; their lengths, which are known, are noted where they belong."""
        memory, headers = call.memory, call.arguments[1]
        items: list[int | bytes] = []
        in_place: dict[int, bytes] = {}
        has_target = False
        for number in range(min(as_signed(call.arguments[2]), _MAX_MESSAGES)):
            header = headers + number * _MMSGHDR_SIZE
            words = _MESSAGE.unpack(memory.read(header, _MESSAGE.size))
            has_target = has_target or bool(words[0])
            items += (*self._change_message(call, words, in_place), 0)
            length = sum(self._list_lengths(memory, *words[2:4]))
            memory.write(header + _MESSAGE.size, _LENGTH.pack(length & 0xFFFFFFFF))
        return Change({1: Pointers(tuple(items))}, in_place) if has_target else Continue()

    @staticmethod
    def _list_lengths(memory: Memory, vectors: int, count: int) -> Iterator[int]:
        """Yield the lengths of the parts of a message."""
        data = memory.read(vectors, _VECTOR.size * min(count, _MAX_VECTORS)) if count else b""
        for _, length in _VECTOR.iter_unpack(data):
            yield length

    def _change_message(
        self, call: SystemCall, words: tuple[int, ...], in_place: dict[int, bytes]
    ) -> tuple[int | bytes, ...]:
        """Return the header of a message with its target on the machine.

        Args:
            words: the header: the target's place, its length, and more.
            in_place: changed contents are added to it by their places.
        """
        name, length, *others = words
        data = _read_data(call.memory, name, length) if name else b""
        if not data:
            return words
        endpoint = _parse(data)
        if endpoint is not None:
            changed = self._change_data(call, data, endpoint)
            in_place[name] = changed
            return (changed, length, *others)
        answer = self._change_path(call, data, 0, is_created=False)
        if isinstance(answer, Change):
            target, size = answer.arguments[0], answer.arguments.get(1, length)
            if isinstance(target, bytes) and isinstance(size, int):
                return (target, size, *others)
        return words

    # -- addresses that the kernel returns

    def _show_address(
        self, place: int, length_place: int, *, is_own: bool = False
    ) -> Callable[[SystemCall], Answer]:
        """Return what shows the cluster's address in a result.

        Args:
            is_own: whether it is the socket's own.
        """

        def answer(call: SystemCall) -> Answer:
            address, length = call.arguments[place], call.arguments[length_place]
            if not address or not length:
                return Continue()
            (space,) = _LENGTH.unpack(call.memory.read(length, _LENGTH.size))

            def on_return(result: int) -> None:
                if result >= 0:
                    self._show(call, address, length, space, is_own=is_own)

            return Continue(on_return)

        return answer

    def _answer_recvmsg(self, call: SystemCall) -> Answer:
        memory, header = call.memory, call.arguments[1]
        name, space = _NAME.unpack(memory.read(header, _NAME.size))
        if not name or not space:
            return Continue()
        return Continue(lambda result: self._show_message(call, header, space, result))

    def _show_message(self, call: SystemCall, header: int, space: int, result: int) -> None:
        if result >= 0:
            name, _ = _NAME.unpack(call.memory.read(header, _NAME.size))
            self._show(call, name, header + _POINTER_BYTES, space, is_own=False)

    def _answer_recvmmsg(self, call: SystemCall) -> Answer:
        memory, headers = call.memory, call.arguments[1]
        spaces = []
        for number in range(min(as_signed(call.arguments[2]), _MAX_MESSAGES)):
            header = headers + number * _MMSGHDR_SIZE
            name, space = _NAME.unpack(memory.read(header, _NAME.size))
            spaces.append(space if name else 0)
        if not any(spaces):
            return Continue()

        def on_return(result: int) -> None:
            for number, space in enumerate(spaces[: max(result, 0)]):
                if space:
                    self._show_message(call, headers + number * _MMSGHDR_SIZE, space, 0)

        return Continue(on_return)

    def _show(
        self, call: SystemCall, address: int, length: int, space: int, *, is_own: bool
    ) -> None:
        """Show the cluster's address in place of the machine's.

        Args:
            address: where the kernel has written it.
            length: where the kernel has written its length.
            space: the bytes that it has had.
            is_own: whether it is that of the call's socket.
        """
        memory, fd = call.memory, call.arguments[0]
        (written,) = _LENGTH.unpack(memory.read(length, _LENGTH.size))
        size = min(space, written, _MAX_LENGTH)
        data = memory.read(address, size)
        endpoint = _parse(data)
        if endpoint is None:
            name = "" if len(data) > _FAMILY.size else _read_link(call.thread, as_signed(fd))
            shown = self._interfaces.find_address(name, is_own=is_own) or self._show_name(data)
            if shown != data:
                memory.write(address, shown[:space])
                memory.write(length, _LENGTH.pack(len(shown)))
            return
        if isinstance(endpoint.host, IPv6Address):
            return
        found = self._table.find_address(endpoint.host)
        if found is not None:
            name = _read_link(call.thread, as_signed(fd))
            if not is_own and (service := self._routed.get(name)) is not None:
                memory.write(address, _replace(data, service.host, service.port))
                return
            port = self._table.from_machine_port(endpoint.port)
            (family,) = _FAMILY.unpack_from(data)
            host = self._find_shown(found, name, port, is_own=is_own)
            if not is_own and name in self._datagrams and self._filter:
                _note(self._senders, _name_sender(name, _Endpoint(host, port)), value=True)
            if family == socket.AF_INET6 and host == UNSPECIFIED:
                host = IPv6Address(0)
            memory.write(address, _replace(data, host, port))

    def _find_shown(
        self, found: Address, name: str, port: int, *, is_own: bool
    ) -> IPv4Address | IPv6Address:
        """Return the host that a program sees.

        Args:
            name: what /proc shows of the socket.
        """
        if found.owner not in (UNSPECIFIED, self._pod.owner):
            return found.owner
        is_all = found in (Address(self._pod.host), Address(UNSPECIFIED6, self._pod.owner))
        if is_all and name in self._looped:
            return self._looped[name]
        if found == Address(self._pod.host) and is_own and (not port or name in self._unspecified):
            return UNSPECIFIED
        return _SHOWN6.get(found.host, found.host)

    def _show_name(self, data: bytes) -> bytes:
        """Return the container's address of a Unix socket for that of the machine."""
        family, name = data[: _FAMILY.size], data[_FAMILY.size :]
        if len(data) <= _FAMILY.size or _FAMILY.unpack(family) != (socket.AF_UNIX,):
            return data
        if name[:1] != b"\0":
            path = self._unix_sockets.find_name(_parse_path(data))
            return data if path is None else family + path + b"\0"
        own = self._table.find(Address(self._pod.host))
        prefix = b"\0" + (own.packed if own is not None else b"")
        if not name.startswith(prefix):
            return data
        rest = name.removeprefix(prefix)
        return family + b"\0" + self._long_names.get(rest, rest)


def _name_sender(name: str, endpoint: _Endpoint) -> str:
    """Return the key of what has sent datagrams to a socket."""
    return f"{name} {endpoint.host}:{endpoint.port}"


def _note(known: dict[_Name, _Value], name: _Name, value: _Value | None) -> None:
    """Note what is known of a socket; None for nothing any more."""
    known.pop(name, None)
    if name and value is not None:
        if len(known) >= _MAX_KNOWN:
            del known[next(iter(known))]
        known[name] = value


def _read_data(memory: Memory, address: int, length: int) -> bytes:
    """Return an address in a program's memory; empty if it has an impossible length."""
    size = as_signed(length)
    return memory.read(address, size) if 0 < size <= _MAX_LENGTH else b""


def _parse_path(data: bytes) -> bytes:
    """Return the path in the address of a Unix socket; empty for one without, or of other kind."""
    if len(data) <= _FAMILY.size or _FAMILY.unpack_from(data) != (socket.AF_UNIX,):
        return b""
    return data[_FAMILY.size :].partition(b"\0")[0]


def _parse(data: bytes) -> _Endpoint | None:
    """Return the address and port in a `sockaddr`; None for another family, or too little of it."""
    if len(data) < _FAMILY.size:
        return None
    (family,) = _FAMILY.unpack_from(data)
    if family == socket.AF_INET and len(data) >= _FAMILY.size + _INET.size:
        port, host = _INET.unpack_from(data, _FAMILY.size)
        return _Endpoint(IPv4Address(host), port)
    if family == socket.AF_INET6 and len(data) >= _FAMILY.size + _INET6.size:
        port, _, host = _INET6.unpack_from(data, _FAMILY.size)
        host6 = IPv6Address(host)
        mapped = host6.ipv4_mapped
        return _Endpoint(host6 if mapped is None else mapped, port)
    return None


def _replace(data: bytes, host: IPv4Address | IPv6Address, port: int) -> bytes:
    """Return a `sockaddr` with another address and port."""
    (family,) = _FAMILY.unpack_from(data)
    changed = bytearray(data)
    if family == socket.AF_INET:
        if isinstance(host, IPv6Address):
            host = LOCALHOST
        _INET.pack_into(changed, _FAMILY.size, port, host.packed)
        return bytes(changed)
    _, flow, _ = _INET6.unpack_from(data, _FAMILY.size)
    packed = host.packed if len(host.packed) == 16 else b"\0" * 10 + b"\xff\xff" + host.packed
    _INET6.pack_into(changed, _FAMILY.size, port, flow, packed)
    return bytes(changed)


def _read_link(thread: int, fd: int) -> str:
    """Return what a descriptor of a thread is; empty if it is none."""
    try:
        return os.fsdecode(read_process_link(thread, b"/proc/%d/fd/%d" % (thread, fd)))
    except OSError:
        return ""

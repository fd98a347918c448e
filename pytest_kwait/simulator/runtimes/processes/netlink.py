"""Network devices, addresses and routes of a network namespace, by rtnetlink.

Source: man 7 rtnetlink; include/uapi/linux/{rtnetlink,if_link,veth}.h.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct

_RTM_NEWLINK, _RTM_NEWADDR, _RTM_DELADDR, _RTM_NEWROUTE = 16, 20, 21, 24
_RTM_NEWRULE = 32
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 0x1, 0x4, 0x200, 0x400
_NLMSG_ERROR = 2
_IFF_UP = 0x1
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 10, 18, 28
# Locally administered. Without one of its own a bridge takes the lowest of its devices, another
# one once that is removed: packets to the address that neighbours remember are lost.
_BRIDGE_ADDRESS = bytes.fromhex("024b57414954")
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_VETH_INFO_PEER = 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_RT_TABLE_MARKED, _RT_TABLE_MAIN, _RT_TABLE_LOCAL = 100, 254, 255
_FRA_PRIORITY, _FRA_FWMARK, _FR_ACT_TO_TBL = 6, 10, 1
_RTPROT_BOOT, _RTN_UNICAST, _RTN_LOCAL = 3, 1, 2
_SCOPE_UNIVERSE, _SCOPE_HOST = 0, 254


class Netlink:
    """A socket to the network namespace of the process that creates it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        """Create a bridge that is up."""
        self._send(
            _RTM_NEWLINK,
            _pack_link(flags=_IFF_UP),
            _pack(_IFLA_IFNAME, name.encode() + b"\0"),
            _pack(_IFLA_ADDRESS, _BRIDGE_ADDRESS),
            _pack(_IFLA_LINKINFO, _pack(_IFLA_INFO_KIND, b"bridge")),
            flags=_NLM_F_CREATE | _NLM_F_EXCL,
        )

    def add_veth(self, name: str, bridge: str, peer: str, namespace: int) -> None:
        """Create a pair of devices, one on a bridge, the other in a network namespace.

        Args:
            name: the device here.
            bridge: the bridge that it belongs to.
            peer: the device there.
            namespace: descriptor of that network namespace.
        """
        peer_link = _pack_link() + _pack(_IFLA_IFNAME, peer.encode() + b"\0")
        peer_link += _pack(_IFLA_NET_NS_FD, struct.pack("=I", namespace))
        info = _pack(_IFLA_INFO_KIND, b"veth")
        info += _pack(_IFLA_INFO_DATA, _pack(_VETH_INFO_PEER, peer_link))
        self._send(
            _RTM_NEWLINK,
            _pack_link(flags=_IFF_UP),
            _pack(_IFLA_IFNAME, name.encode() + b"\0"),
            _pack(_IFLA_MASTER, struct.pack("=I", socket.if_nametoindex(bridge))),
            _pack(_IFLA_LINKINFO, info),
            flags=_NLM_F_CREATE | _NLM_F_EXCL,
        )

    def set_up(self, name: str) -> None:
        """Set a device up."""
        self._send(_RTM_NEWLINK, _pack_link(index=socket.if_nametoindex(name), flags=_IFF_UP))

    def add_address(self, device: str, address: str) -> None:
        """Add an address with prefix length."""
        self._change_address(_RTM_NEWADDR, device, address, _NLM_F_CREATE | _NLM_F_EXCL)

    def delete_address(self, device: str, address: str) -> None:
        """Remove an address with prefix length."""
        self._change_address(_RTM_DELADDR, device, address, 0)

    def _change_address(self, kind: int, device: str, address: str, flags: int) -> None:
        interface = ipaddress.ip_interface(address)
        family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
        index = socket.if_nametoindex(device)
        length = interface.network.prefixlen
        self._send(
            kind,
            struct.pack("=BBBBI", family, length, 0, _SCOPE_UNIVERSE, index),
            _pack(_IFA_LOCAL, interface.ip.packed),
            _pack(_IFA_ADDRESS, interface.ip.packed),
            flags=flags,
        )

    def add_default_route(self, gateway: str) -> None:
        """Send what has no other route to a gateway."""
        address = ipaddress.ip_address(gateway)
        self._add_gateway(ipaddress.ip_network(f"{type(address)(0)}/0"), address, _RT_TABLE_MAIN)

    def add_loopback_route(self, network: str, gateway: str) -> None:
        """Send what goes to a network of the loopback interface to a gateway instead.

        The kernel takes such packets where `route_localnet` is set.
        """
        parsed, address = ipaddress.ip_network(network), ipaddress.ip_address(gateway)
        self._add_gateway(parsed, address, _RT_TABLE_LOCAL)

    def _add_gateway(
        self,
        network: ipaddress.IPv4Network | ipaddress.IPv6Network,
        gateway: ipaddress.IPv4Address | ipaddress.IPv6Address,
        table: int,
    ) -> None:
        family = socket.AF_INET if gateway.version == 4 else socket.AF_INET6
        parts = (
            family, network.prefixlen, 0, 0, table, _RTPROT_BOOT, _SCOPE_UNIVERSE, _RTN_UNICAST, 0,
        )  # fmt: skip
        self._send(
            _RTM_NEWROUTE,
            struct.pack("=BBBBBBBBI", *parts),
            _pack(_RTA_DST, network.network_address.packed),
            _pack(_RTA_GATEWAY, gateway.packed),
            flags=_NLM_F_CREATE | _NLM_F_EXCL,
        )

    def add_route_by_mark(self, mark: int) -> None:
        """Deliver packets with a mark to this namespace, whatever their destination."""
        self._send(
            _RTM_NEWRULE,
            struct.pack(
                "=BBBBBBBBI", socket.AF_INET, 0, 0, 0, _RT_TABLE_MARKED, 0, 0, _FR_ACT_TO_TBL, 0
            ),
            _pack(_FRA_FWMARK, struct.pack("=I", mark)),
            _pack(_FRA_PRIORITY, struct.pack("=I", 0)),
            flags=_NLM_F_CREATE | _NLM_F_EXCL,
        )
        parts = (
            socket.AF_INET,
            0,
            0,
            0,
            _RT_TABLE_MARKED,
            _RTPROT_BOOT,
            _SCOPE_HOST,
            _RTN_LOCAL,
            0,
        )
        self._send(
            _RTM_NEWROUTE,
            struct.pack("=BBBBBBBBI", *parts),
            _pack(_RTA_OIF, struct.pack("=I", socket.if_nametoindex("lo"))),
            flags=_NLM_F_CREATE,
        )

    def add_local_network(self, network: str) -> None:
        """Make every address of a network one of this namespace."""
        parsed = ipaddress.ip_network(network)
        family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
        length = parsed.prefixlen
        parts = (family, length, 0, 0, _RT_TABLE_LOCAL, _RTPROT_BOOT, _SCOPE_HOST, _RTN_LOCAL, 0)
        self._send(
            _RTM_NEWROUTE,
            struct.pack("=BBBBBBBBI", *parts),
            _pack(_RTA_DST, parsed.network_address.packed),
            _pack(_RTA_OIF, struct.pack("=I", socket.if_nametoindex("lo"))),
            flags=_NLM_F_CREATE,
        )

    def _send(self, kind: int, body: bytes, *attributes: bytes, flags: int = 0) -> None:
        self._sequence += 1
        payload = body + b"".join(attributes)
        flags |= _NLM_F_REQUEST | _NLM_F_ACK
        header = struct.pack("=IHHII", 16 + len(payload), kind, flags, self._sequence, 0)
        self._socket.send(header + payload)
        answer = self._socket.recv(65536)
        _, answer_kind, _, _, _, error = struct.unpack_from("=IHHIIi", answer)
        if answer_kind == _NLMSG_ERROR and error:
            raise OSError(-error, os.strerror(-error))


def _pack_link(*, index: int = 0, flags: int = 0) -> bytes:
    return struct.pack("=BBHiII", socket.AF_UNSPEC, 0, 0, index, flags, flags)


def _pack(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + b"\0" * (-length % 4)

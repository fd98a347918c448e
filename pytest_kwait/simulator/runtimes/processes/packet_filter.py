"""The filter of new connections in a network namespace, by nf_tables.

Packets that come in are judged: what the kernel drops on the way out is an error for the sender,
where a network would be silent. The rules are in a chain of their own, which replaces the one
before it at once when it is complete.

Source: include/uapi/linux/netfilter/{nfnetlink,nf_tables,nf_conntrack_common}.h;
net/netfilter/nf_tables_api.c.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from pytest_kwait.simulator.network.filter_rules import LAST_PORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kwait.simulator.network.filter_rules import FilterRule

_NETLINK_NETFILTER, _NFNL_SUBSYS_NFTABLES = 12, 10
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEW_TABLE, _NEW_CHAIN, _DEL_CHAIN, _NEW_RULE, _DEL_RULE = 0, 3, 5, 6, 8
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_CREATE, _NLM_F_APPEND = 0x1, 0x4, 0x400, 0x800
_NLMSG_ERROR, _NLA_F_NESTED = 2, 0x8000
_HEADER, _FAMILY = struct.Struct("=IHHII"), struct.Struct("!BBH")
_ATTRIBUTE, _ERROR = struct.Struct("=HH"), struct.Struct("=i")
_TABLE_NAME = 1
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_TYPE = 1, 3, 4, 7
_HOOK_NUMBER, _HOOK_PRIORITY, _LOCAL_IN, _FILTER_PRIORITY = 1, 2, 1, 0
_RULE_TABLE, _RULE_CHAIN, _RULE_EXPRESSIONS = 1, 2, 4
_LIST_ELEMENT, _EXPRESSION_NAME, _EXPRESSION_DATA = 1, 1, 2
_DATA_VALUE, _DATA_VERDICT, _VERDICT_CODE, _VERDICT_CHAIN = 1, 2, 1, 2
_VERDICT, _REGISTER = 0, 1
_DROP, _ACCEPT, _JUMP = 0, 1, -3
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_SOURCE_OFFSET, _DESTINATION_OFFSET, _ADDRESS_BYTES = 12, 16, 4
_PORT_OFFSET, _PORT_BYTES, _FLAGS_OFFSET = 2, 2, 13
_EQUAL, _NOT_EQUAL, _AT_MOST, _AT_LEAST = 0, 1, 3, 5
_META_PROTOCOL = 16
_STATE, _ESTABLISHED_OR_RELATED = 0, 2 | 4
_SYN, _SYN_ACK = 0x02, 0x12
_PROTOCOLS = {
    "TCP": socket.IPPROTO_TCP, "UDP": socket.IPPROTO_UDP, "SCTP": socket.IPPROTO_SCTP,
}  # fmt: skip
_TABLE, _CHAIN = "kwait", "input"
# Of the socket's buffer; a rule takes half a kilobyte.
_MAX_BATCH = 200
_ANSWER_BYTES = 65536


class PacketFilter:
    """The filter of one network namespace, which is entered for each call.

    Args:
        address: the address of its pod; empty for the network of services and interpreted pods.
    """

    def __init__(self, address: str = "") -> None:
        self._address = address
        self._rules: list[FilterRule] = []
        self._number = 0

    def replace(self, rules: Iterable[FilterRule]) -> None:
        """Apply the rules for connections to this namespace, and no others.

        Raises:
            OSError: the kernel refuses it.
        """
        applied = [rule for rule in rules if not self._address or _has(rule, self._address)]
        if applied == self._rules:
            return
        with contextlib.closing(_Connection()) as connection:
            self._number += 1
            chain, before = f"rules{self._number}", f"rules{self._number - 1}"
            connection.send([_make_table(), _make_chain(_CHAIN, has_hook=True), _make_chain(chain)])
            for start in range(0, len(applied), _MAX_BATCH):
                connection.send(
                    [_make_rule(chain, _pack_rule(rule)) for rule in applied[start:][:_MAX_BATCH]]
                )
            messages = [
                _flush(_CHAIN),
                _make_rule(_CHAIN, _pack_known()),
                _make_rule(_CHAIN, _pack_later_segment()),
                _make_rule(_CHAIN, _pack_verdict(_JUMP, chain)),
            ]
            if self._rules:
                messages += [_flush(before), _delete_chain(before)]
            connection.send(messages)
        self._rules = applied


def _has(rule: FilterRule, address: str) -> bool:
    return IPv4Network(address).subnet_of(IPv4Network(rule.destination))


class _Connection:
    """A socket to the packet filter of this process' network namespace."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, messages: Sequence[tuple[int, int, bytes]]) -> None:
        """Have the kernel do all of it, or nothing.

        Args:
            messages: the kind, flags and attributes of each.

        Raises:
            OSError: it refuses one.
        """
        resource = _FAMILY.pack(socket.AF_UNSPEC, 0, _NFNL_SUBSYS_NFTABLES)
        parts = [_pack_message(_BATCH_BEGIN, 0, 0, resource)]
        family = _FAMILY.pack(socket.AF_INET, 0, 0)
        for number, (kind, flags, attributes) in enumerate(messages, 1):
            kind |= _NFNL_SUBSYS_NFTABLES << 8
            parts.append(_pack_message(kind, flags | _NLM_F_ACK, number, family + attributes))
        parts.append(_pack_message(_BATCH_END, 0, len(messages) + 1, resource))
        self._socket.send(b"".join(parts))
        answered = 0
        while answered < len(messages):
            answer = self._socket.recv(_ANSWER_BYTES)
            while answer:
                size, kind, *_ = _HEADER.unpack_from(answer)
                (error,) = _ERROR.unpack_from(answer, _HEADER.size)
                if kind == _NLMSG_ERROR and error:
                    raise OSError(-error, os.strerror(-error))
                answered += 1
                answer = answer[size + -size % 4 :]


def _pack_message(kind: int, flags: int, number: int, body: bytes) -> bytes:
    size = _HEADER.size + len(body)
    return _HEADER.pack(size, kind, flags | _NLM_F_REQUEST, number, 0) + body


def _pack(kind: int, data: bytes) -> bytes:
    size = _ATTRIBUTE.size + len(data)
    return _ATTRIBUTE.pack(size, kind) + data + b"\0" * (-size % 4)


def _nest(kind: int, *attributes: bytes) -> bytes:
    return _pack(kind | _NLA_F_NESTED, b"".join(attributes))


def _pack_number(kind: int, number: int) -> bytes:
    return _pack(kind, struct.pack("!i", number))


def _pack_text(kind: int, text: str) -> bytes:
    return _pack(kind, text.encode() + b"\0")


# -- tables, chains and rules


def _make_table() -> tuple[int, int, bytes]:
    return _NEW_TABLE, _NLM_F_CREATE, _pack_text(_TABLE_NAME, _TABLE)


def _make_chain(name: str, *, has_hook: bool = False) -> tuple[int, int, bytes]:
    attributes = _pack_text(_CHAIN_TABLE, _TABLE) + _pack_text(_CHAIN_NAME, name)
    if has_hook:
        attributes += _nest(
            _CHAIN_HOOK,
            _pack_number(_HOOK_NUMBER, _LOCAL_IN),
            _pack_number(_HOOK_PRIORITY, _FILTER_PRIORITY),
        ) + _pack_text(_CHAIN_TYPE, "filter")
    return _NEW_CHAIN, _NLM_F_CREATE, attributes


def _delete_chain(name: str) -> tuple[int, int, bytes]:
    return _DEL_CHAIN, 0, _pack_text(_CHAIN_TABLE, _TABLE) + _pack_text(_CHAIN_NAME, name)


def _flush(chain: str) -> tuple[int, int, bytes]:
    return _DEL_RULE, 0, _pack_text(_RULE_TABLE, _TABLE) + _pack_text(_RULE_CHAIN, chain)


def _make_rule(chain: str, expressions: Sequence[bytes]) -> tuple[int, int, bytes]:
    attributes = _pack_text(_RULE_TABLE, _TABLE) + _pack_text(_RULE_CHAIN, chain)
    attributes += _nest(_RULE_EXPRESSIONS, *expressions)
    return _NEW_RULE, _NLM_F_CREATE | _NLM_F_APPEND, attributes


def _pack_rule(rule: FilterRule) -> list[bytes]:
    """Return the expressions of a rule."""
    destination, ports = IPv4Network(rule.destination), rule.ports
    expressions = [
        *_match_network(_SOURCE_OFFSET, IPv4Network(rule.source)),
        *_match_network(_DESTINATION_OFFSET, destination),
    ]
    if ports.protocol:
        expressions += _match_protocol(_PROTOCOLS[ports.protocol])
        if (ports.first, ports.last) != (0, LAST_PORT):
            expressions += [
                _load(_TRANSPORT_HEADER, _PORT_OFFSET, _PORT_BYTES),
                _compare(_AT_LEAST, struct.pack("!H", ports.first)),
                _compare(_AT_MOST, struct.pack("!H", ports.last)),
            ]
    return expressions + _pack_verdict(_ACCEPT if rule.is_allowed else _DROP)


def _pack_known() -> list[bytes]:
    """Return the expressions that accept packets of connections that exist, and answers."""
    state = _pack_expression(
        "ct", _pack_number(1, _REGISTER), _pack_number(2, _STATE)
    )  # fmt: skip
    mask = struct.pack("=I", _ESTABLISHED_OR_RELATED)
    return [state, _mask(mask), _compare(_NOT_EQUAL, bytes(4)), *_pack_verdict(_ACCEPT)]


def _pack_later_segment() -> list[bytes]:
    """Return the expressions that accept segments of TCP but the first one.

    Connections that are older than the filter go on.
    """
    return [
        *_match_protocol(socket.IPPROTO_TCP),
        _load(_TRANSPORT_HEADER, _FLAGS_OFFSET, 1),
        _mask(bytes([_SYN_ACK])),
        _compare(_NOT_EQUAL, bytes([_SYN])),
        *_pack_verdict(_ACCEPT),
    ]


# -- expressions


def _pack_expression(name: str, *attributes: bytes) -> bytes:
    return _nest(
        _LIST_ELEMENT,
        _pack_text(_EXPRESSION_NAME, name),
        _nest(_EXPRESSION_DATA, *attributes),
    )


def _match_network(offset: int, network: IPv4Network) -> list[bytes]:
    if not network.prefixlen:
        return []
    expressions = [_load(_NETWORK_HEADER, offset, _ADDRESS_BYTES)]
    if network.num_addresses > 1:
        expressions.append(_mask(network.netmask.packed))
    return [*expressions, _compare(_EQUAL, network.network_address.packed)]


def _match_protocol(number: int) -> list[bytes]:
    load = _pack_expression("meta", _pack_number(1, _REGISTER), _pack_number(2, _META_PROTOCOL))
    return [load, _compare(_EQUAL, bytes([number]))]


def _load(header: int, offset: int, size: int) -> bytes:
    numbers = (_REGISTER, header, offset, size)
    return _pack_expression(
        "payload", *(_pack_number(kind, number) for kind, number in enumerate(numbers, 1))
    )


def _mask(mask: bytes) -> bytes:
    return _pack_expression(
        "bitwise",
        *(_pack_number(kind, number) for kind, number in enumerate((1, 1, len(mask)), 1)),
        _nest(4, _pack(_DATA_VALUE, mask)),
        _nest(5, _pack(_DATA_VALUE, bytes(len(mask)))),
    )


def _compare(operator: int, value: bytes) -> bytes:
    return _pack_expression(
        "cmp",
        _pack_number(1, _REGISTER),
        _pack_number(2, operator),
        _nest(3, _pack(_DATA_VALUE, value)),
    )


def _pack_verdict(code: int, chain: str = "") -> list[bytes]:
    verdict = _pack_number(_VERDICT_CODE, code)
    if chain:
        verdict += _pack_text(_VERDICT_CHAIN, chain)
    return [
        _pack_expression(
            "immediate",
            _pack_number(1, _VERDICT),
            _nest(2, _nest(_DATA_VERDICT, verdict)),
        )
    ]

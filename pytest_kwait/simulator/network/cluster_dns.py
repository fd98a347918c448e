"""The DNS server of the cluster, over UDP and TCP.

Questions about names outside of the cluster, but for those of allowed egress, are answered with
NXDOMAIN: nothing leaves it.

Source: CoreDNS plugin/kubernetes/handler.go, `ServeDNS`.
"""

from __future__ import annotations

import asyncio
import random
import struct
from typing import TYPE_CHECKING, cast

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.rrset

from pytest_kwait.simulator.network.egress_proxy import get_egress_reporter
from pytest_kwait.simulator.protocol.addresses import CLUSTER_DOMAIN

if TYPE_CHECKING:
    import socket

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.network.cluster_names import ClusterNames, Record
    from pytest_kwait.simulator.objects import Obj

# Seconds; source: CoreDNS plugin/kubernetes, `defaultTTL`.
_TTL = 5
_MAX_UDP_BYTES = 512
_LENGTH = struct.Struct("!H")
_ID_BYTES = 2
# The number of answers in a message's header.
_COUNTS, _COUNTS_AT = struct.Struct("!H"), 6
_MAX_KEPT = 1000
_ADDRESS_TYPES = (dns.rdatatype.A, dns.rdatatype.AAAA)
_NAMED_RESOURCES = ("endpointslices.discovery.k8s.io", "namespaces", "nodes", "services")


def answer_query(names: ClusterNames, data: bytes, *, is_datagram: bool) -> bytes | None:
    """Return the answer to a DNS message; None for what is not a query.

    Args:
        names: the records of the cluster.
        data: the message.
        is_datagram: whether the answer is truncated to what the client takes in one datagram.
    """
    try:
        query = dns.message.from_wire(data)
    except dns.exception.DNSException:
        return None
    if query.flags & dns.flags.QR:
        return None
    answer = dns.message.make_response(query, recursion_available=True)
    if query.opcode() != dns.opcode.QUERY or len(query.question) != 1:
        answer.set_rcode(dns.rcode.NOTIMP)
    else:
        _add_records(names, query, answer)
    limit = max(query.payload, _MAX_UDP_BYTES) if is_datagram else 0
    return answer.to_wire(max_size=limit, prefer_truncation=is_datagram)


def _add_records(
    names: ClusterNames, query: dns.message.Message, answer: dns.message.Message
) -> None:
    question = query.question[0]
    name = question.name.to_text()
    records = names.lookup(name, dns.rdatatype.to_text(question.rdtype))
    answer.flags |= dns.flags.AA
    if records is None:
        answer.set_rcode(dns.rcode.NXDOMAIN)
    if not records:
        answer.authority.append(_make_authority())
        return
    by_owner: dict[tuple[str, str], list[str]] = {}
    for record in records:
        by_owner.setdefault((record.name, record.type), []).append(record.value)
    for (owner, kind), values in by_owner.items():
        # CoreDNS' plugin `loadbalance` changes the order with each answer.
        mixed = random.sample(values, len(values))
        answer.answer.append(dns.rrset.from_text(f"{owner}.", _TTL, "IN", kind, *mixed))
    for target in _list_targets(records):
        addresses = names.resolve(target)
        if addresses:
            answer.additional.append(dns.rrset.from_text(target, _TTL, "IN", "A", *addresses))


def _find_unresolved(names: ClusterNames, data: bytes) -> str:
    """Return the name outside of the cluster that a query finds no address of; else empty."""
    query = dns.message.from_wire(data)
    if len(query.question) != 1 or query.question[0].rdtype not in _ADDRESS_TYPES:
        return ""
    return names.find_unresolved(query.question[0].name.to_text())


def _list_targets(records: list[Record]) -> dict[str, None]:
    """Return the names that SRV records lead to."""
    return dict.fromkeys(record.value.split()[3] for record in records if record.type == "SRV")


def _make_authority() -> dns.rrset.RRset:
    zone = f"{CLUSTER_DOMAIN}."
    value = f"ns.dns.{zone} hostmaster.{zone} 1 7200 1800 86400 {_TTL}"
    return dns.rrset.from_text(zone, _TTL, "IN", "SOA", value)


class _Datagrams(asyncio.DatagramProtocol):
    """Answers queries of one UDP socket."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | int, int]) -> None:
        answer = self._answers.answer(data, str(addr[0]), is_datagram=True)
        if answer is not None and self._transport is not None:
            self._transport.sendto(answer, addr)


class _Answers:
    """Answers of one server; kept until an object changes that names depend on.

    A program asks for the same names with each connection: most answers repeat.

    Args:
        names: its records.
    """

    def __init__(self, cluster: Cluster, names: ClusterNames) -> None:
        self._cluster = cluster
        self._names = names
        self._kept: dict[tuple[bytes, bool], tuple[bytes, str]] = {}
        self._stops = [
            cluster.subscribe(resource, self._on_change) for resource in _NAMED_RESOURCES
        ]
        self._stops.append(cluster.egress.subscribe(self._kept.clear))

    def _on_change(self, change: str, new: Obj, old: Obj | None) -> None:
        del change, new, old
        self._kept.clear()

    def answer(self, data: bytes, client: str, *, is_datagram: bool) -> bytes | None:
        """Return the answer to a DNS message of a client; None for what is not a query."""
        key = (data[_ID_BYTES:], is_datagram)
        cached_answer = self._kept.get(key)
        if cached_answer is None:
            answer = answer_query(self._names, data, is_datagram=is_datagram)
            if answer is None:
                return None
            cached_answer = answer[_ID_BYTES:], _find_unresolved(self._names, data)
            # Several addresses come in another order each time.
            if _COUNTS.unpack_from(answer, _COUNTS_AT)[0] <= 1:
                if len(self._kept) >= _MAX_KEPT:
                    self._kept.clear()
                self._kept[key] = cached_answer
        content, unresolved = cached_answer
        if unresolved:
            get_egress_reporter(self._cluster).report_name(unresolved, client)
        return data[:_ID_BYTES] + content

    def close(self) -> None:
        """Keep nothing any more."""
        for stop in self._stops:
            stop()


class DnsServer:
    """A DNS server for one cluster.

    Args:
        names: its records.
    """

    def __init__(self, cluster: Cluster, names: ClusterNames) -> None:
        self._answers = _Answers(cluster, names)
        self._datagrams: list[asyncio.DatagramTransport] = []
        self._servers: list[asyncio.Server] = []

    async def serve_datagrams(self, bound: socket.socket) -> None:
        """Answer queries of a bound UDP socket."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self._answers), sock=bound
        )
        self._datagrams.append(transport)

    async def serve_streams(self, listening: socket.socket) -> None:
        """Answer queries of a listening TCP socket."""
        self._servers.append(await asyncio.start_server(self._serve_stream, sock=listening))

    async def _serve_stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer = writer.get_extra_info("peername")
        client = str(peer[0]) if peer else ""
        try:
            while True:
                (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                data = await reader.readexactly(size)
                answer = self._answers.answer(data, client, is_datagram=False)
                if answer is None:
                    return
                writer.write(_LENGTH.pack(len(answer)) + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def close(self) -> None:
        """Stop answering."""
        self._answers.close()
        for transport in self._datagrams:
            transport.close()
        for server in self._servers:
            server.close()

"""The DNS server: its messages, over UDP and TCP."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Any

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.network.cluster_dns import DnsServer, _Answers, answer_query
from pytest_kwait.simulator.network.cluster_names import ClusterNames
from pytest_kwait.simulator.protocol.egress import EgressTarget
from tests.simulator.cluster import new_cluster
from tests.simulator.network.test_cluster_names import WEB, add_service
from tests.simulator.network.test_egress_proxy import CLIENT, add_pod, list_events

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster


def make_api(endpoints: int = 1) -> SimulatedCluster:
    api = new_cluster()
    ready = {"conditions": {"ready": True}}
    add_service(api, "web", [{"addresses": ["10.244.1.4"], **ready}], clusterIP="10.0.0.9")
    many = [{"addresses": [f"10.244.2.{last}"], **ready} for last in range(1, endpoints + 1)]
    add_service(api, "peers", many, clusterIP="None")
    return api


def make_names(endpoints: int = 1) -> ClusterNames:
    return ClusterNames(make_api(endpoints))


def ask(
    name: str, kind: str = "A", *, is_datagram: bool = True, **more: Any
) -> dns.message.Message:
    query = dns.message.make_query(name, kind, **more)
    data = answer_query(make_names(60), query.to_wire(), is_datagram=is_datagram)
    assert data is not None
    answer = dns.message.from_wire(data)
    assert answer.id == query.id
    return answer


def test_address() -> None:
    answer = ask(WEB)
    assert [str(each) for each in answer.answer] == [f"{WEB}. 5 IN A 10.0.0.9"]
    assert answer.rcode() == dns.rcode.NOERROR
    assert answer.flags & dns.flags.AA
    assert answer.flags & dns.flags.RA


def test_port_has_the_address_of_its_target() -> None:
    answer = ask(f"_http._tcp.{WEB}", "SRV")
    assert [str(each) for each in answer.answer] == [f"_http._tcp.{WEB}. 5 IN SRV 0 100 80 {WEB}."]
    assert [str(each) for each in answer.additional] == [f"{WEB}. 5 IN A 10.0.0.9"]


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("example.com", "A", dns.rcode.NXDOMAIN),
        (f"no-{WEB}", "A", dns.rcode.NXDOMAIN),
        (WEB, "AAAA", dns.rcode.NOERROR),
    ],
)
def test_missing_records_come_with_the_zone(name: str, kind: str, code: int) -> None:
    answer = ask(name, kind)
    assert answer.rcode() == code
    assert not answer.answer
    assert str(answer.authority[0]).startswith("cluster.local. 5 IN SOA ns.dns.cluster.local. ")


def test_long_answer_is_truncated_in_a_datagram_alone() -> None:
    name = "peers.default.svc.cluster.local"
    cut = ask(name)
    assert cut.flags & dns.flags.TC
    assert len(ask(name, is_datagram=False).answer[0]) == 60
    assert len(ask(name, use_edns=0, payload=4096).answer[0]) == 60


@pytest.mark.parametrize("data", [b"", b"no message", b"\0" * 11])
def test_malformed_message_is_not_answered(data: bytes) -> None:
    assert answer_query(make_names(), data, is_datagram=True) is None


def test_answer_is_not_answered() -> None:
    answer = dns.message.make_response(dns.message.make_query(WEB, "A"))
    assert answer_query(make_names(), answer.to_wire(), is_datagram=True) is None


def test_other_operations_are_not_implemented() -> None:
    query = dns.message.make_query(WEB, "A")
    query.set_opcode(dns.opcode.NOTIFY)
    data = answer_query(make_names(), query.to_wire(), is_datagram=True)
    assert data is not None
    assert dns.message.from_wire(data).rcode() == dns.rcode.NOTIMP


def _bind(kind: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, kind)
    bound.setblocking(False)
    bound.bind(("127.0.0.1", 0))
    return bound


def test_server_answers_datagrams_and_streams() -> None:
    query = dns.message.make_query(WEB, "A").to_wire()

    async def run() -> tuple[bytes, list[bytes]]:
        loop, api = asyncio.get_running_loop(), make_api()
        server = DnsServer(api, ClusterNames(api))
        datagrams, stream = _bind(socket.SOCK_DGRAM), _bind(socket.SOCK_STREAM)
        stream.listen()
        await server.serve_datagrams(datagrams)
        await server.serve_streams(stream)
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.setblocking(False)
        client.connect(datagrams.getsockname())
        await loop.sock_sendall(client, query)
        first = await loop.sock_recv(client, 4096)
        client.close()
        reader, writer = await asyncio.open_connection(*stream.getsockname())
        framed = struct.pack("!H", len(query)) + query
        answers = []
        for _ in range(2):
            writer.write(framed)
            (size,) = struct.unpack("!H", await reader.readexactly(2))
            answers.append(await reader.readexactly(size))
        writer.close()
        await writer.wait_closed()
        server.close()
        await async_sleep(0)
        return first, answers

    datagram, streamed = asyncio.run(run())
    assert [
        dns.message.from_wire(each).answer[0][0].to_text() for each in (datagram, *streamed)
    ] == ["10.0.0.9"] * 3


def test_change_of_a_service_changes_its_answer() -> None:
    api = make_api()
    answers = _Answers(api, ClusterNames(api))

    def resolve(number: int) -> list[str]:
        query = dns.message.make_query(WEB, "A", id=number)
        data = answers.answer(query.to_wire(), "10.244.1.4", is_datagram=True)
        assert data is not None
        found = dns.message.from_wire(data)
        assert found.id == number
        return [item.to_text() for each in found.answer for item in each]

    assert resolve(1) == resolve(2) == ["10.0.0.9"]
    api.delete("services", "web", "default")
    assert resolve(3) == []
    answers.close()


def test_names_outside_are_answered_while_they_are_allowed() -> None:
    """Questions for others are events of the pod that asked, also of kept answers."""
    api = make_api()
    answers = _Answers(api, ClusterNames(api))
    add_pod(api)
    add_pod(api, "q", "10.244.1.5")

    def resolve(name: str, client: str = CLIENT, kind: str = "A") -> list[str]:
        data = answers.answer(
            dns.message.make_query(name, kind).to_wire(), client, is_datagram=True
        )
        assert data is not None
        return [item.to_text() for each in dns.message.from_wire(data).answer for item in each]

    assert resolve("pypi.org") == []
    target = EgressTarget("pypi.org", 443)
    api.egress.add(target)
    assert resolve("PyPI.org") == ["198.18.0.1"]
    assert resolve("pypi.org", kind="AAAA") == []
    api.egress.remove(target)
    assert resolve("pypi.org", "10.244.1.5") == resolve("pypi.org", "10.244.1.5") == []
    for name, kind in (
        ("7.2.0.192.in-addr.arpa", "PTR"),
        ("7.2.0.192.in-addr.arpa", "A"),
        ("pypi.org.default.svc.cluster.local", "A"),
        ("b.org", "TXT"),
        (WEB, "AAAA"),
    ):
        resolve(name, kind=kind)
    assert [event[0] for event in list_events(api)] == ["p", "q"]
    answers.close()

from __future__ import annotations

import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
from urllib3.exceptions import ProtocolError

from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.watch import Dechunker
from pytest_kwait.errors import ApiError
from tests.client.scripted_server import Exchange, ScriptedServer, encoded, stream

if TYPE_CHECKING:
    from pytest_kwait.clock import Deadline
    from tests.client.conftest import Authority

TLS = pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
PATH = "/api/v1/namespaces/a/pods"


def event(number: int, filler: str = "") -> dict[str, Any]:
    metadata = {"name": f"p-{number}", "resourceVersion": f"{number}", "filler": filler}
    return {"type": "ADDED", "object": {"metadata": metadata}}


def names(events: Any) -> list[str]:
    return [each.object["metadata"]["name"] for each in events]


def taken(*reads: bytes) -> tuple[list[bytes], Dechunker]:
    """Take chunks apart that come by so many reads, what was left over put before the next."""
    dechunker = Dechunker()
    pieces: list[bytes] = []
    buffer = bytearray()
    for data in reads:
        buffer += data
        del buffer[: dechunker.take(buffer, len(buffer), pieces)]
    return pieces, dechunker


WHOLE = b"5\r\nhello\r\nA;x=1\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"


def test_chunks_are_taken_apart_where_they_end() -> None:
    pieces, dechunker = taken(WHOLE)
    assert pieces == [b"hello", b"0123456789"]
    assert dechunker.ended


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_chunks_may_come_in_any_parts(size: int) -> None:
    pieces, dechunker = taken(*(WHOLE[i : i + size] for i in range(0, len(WHOLE), size)))
    assert b"".join(pieces) == b"hello0123456789"
    assert dechunker.ended


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_truncated_body_has_not_ended(length: int) -> None:
    _, dechunker = taken(WHOLE[:length])
    assert not dechunker.ended
    # The trailer may be missing, the last chunk not.
    assert dechunker.may_end == (length >= WHOLE.index(b"0\r\nT") + 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<html>\r\n", "expected the size of a chunk, got b'<html>'"),
        (b"\r\n", "expected the size of a chunk, got b''"),
        (b"-5\r\n", "expected the size of a chunk, got b'-5'"),
        (b"1_0\r\n", "expected the size of a chunk, got b'1_0'"),
        (b"xyz\r\n", "expected the size of a chunk, got b'xyz'"),
        (b"5\r\nhello!\r\n", "a chunk is longer than it says"),
        (b"1" * 65537, "the size of a chunk does not end"),
    ],
)
def test_invalid_chunks_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        taken(data)
    assert str(raised.value) == message


def watching(server: ScriptedServer, deadline: Deadline, authority: Authority | None) -> Any:
    settings = {"ssl_ca_cert": authority.certificate} if authority else {}
    session = ApiSession.of(server.client(**settings))
    return session.watch(PODS, "a", resource_version="5", deadline=deadline)


@TLS
def test_events_of_one_read_are_returned_together(
    tls: bool, authority: Authority, soon: Deadline
) -> None:
    read = threading.Event()

    def handle(exchange: Exchange) -> None:
        exchange.stream(event(1), end=False)
        read.wait(30)
        # One write: neither the network nor the server cuts it.
        sent = b"".join(b"%x\r\n%b\r\n" % (len(e), e) for e in map(encoded, map(event, (2, 3, 4))))
        exchange.send(sent + b"0\r\n\r\n")

    server_side = authority.server if tls else None
    with ScriptedServer(handle, tls=server_side) as server:
        watch = watching(server, soon, authority if tls else None)
        assert names(watch.read()) == ["p-1"]
        read.set()
        assert names(watch.read()) == ["p-2", "p-3", "p-4"]
        assert watch.read() == []
        assert watch.read() == []


@TLS
def test_an_event_is_not_held_back_by_half_of_the_next(
    tls: bool, authority: Authority, soon: Deadline
) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.stream(event(1), end=False)
        data = encoded(event(2))
        # Not even by its own chunk, which is said to hold more.
        exchange.send(b"%x\r\n%b" % (2 * len(data), data + data[:20]))
        exchange.hold()

    with ScriptedServer(handle, tls=authority.server if tls else None) as server:
        watch = watching(server, soon, authority if tls else None)
        seen: list[str] = []
        while len(seen) < 2:
            seen += names(watch.read())
        assert seen == ["p-1", "p-2"]
        watch.close()


@TLS
def test_events_larger_than_the_buffer_and_many_at_once_come_whole(
    tls: bool, authority: Authority, soon: Deadline
) -> None:
    sent = [event(n, "x" * size) for n, size in enumerate((300_000, 10, 131_072, *[20_000] * 30))]
    with (
        ScriptedServer(stream(*sent), tls=authority.server if tls else None) as server,
        watching(server, soon, authority if tls else None) as watch,
    ):
        events = [each for together in iter(watch.read, []) for each in together]
    assert [each.object for each in events] == [each["object"] for each in sent]


def test_whether_more_had_come_is_known(soon: Deadline) -> None:
    many = [event(n, "x" * 20_000) for n in range(30)]
    with ScriptedServer(stream(*many, end=False)) as server:
        watch = watching(server, soon, None)
        seen, drained = 0, []
        while seen < len(many):
            seen += len(watch.read())
            drained.append(watch.drained)
        watch.close()
    assert drained[-1]


def test_error_of_a_watch_is_raised_after_the_events_before_it(soon: Deadline) -> None:
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
    sent = b"".join(encoded(each) for each in (event(1), event(2), error, event(3)))
    with ScriptedServer(stream(sent)) as server:
        watch = watching(server, soon, None)
        assert names(watch.read()) == ["p-1", "p-2"]
        with pytest.raises(ApiError) as raised:
            watch.read()
        assert raised.value.status == 410


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (b"", "the connection was closed within the answer"),
        (b"5", "the connection was closed within the answer"),
        (b"50\r\n{", "the connection was closed within the answer"),
        (b"2\r\n{}\r\n5\r\n{", "the connection was closed within the answer"),
        (b"nonsense\r\n", "expected the size of a chunk, got b'nonsense'"),
    ],
    ids=["between chunks", "in a size", "in a chunk", "in the next", "no chunk"],
)
@TLS
def test_a_body_that_is_cut_off_is_a_connection_reset(
    tls: bool, rest: bytes, said: str, authority: Authority, soon: Deadline
) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.stream(event(1), end=False)
        exchange.send(rest)
        exchange.close()

    with ScriptedServer(handle, tls=authority.server if tls else None) as server:
        watch = watching(server, soon, authority if tls else None)
        assert names(watch.read()) == ["p-1"]
        with pytest.raises(ApiError) as raised:
            watch.read()
    assert str(raised.value) == f"GET {PATH}: ConnectionReset: {server.address}: {said}"


@pytest.mark.parametrize(
    "broken", [ConnectionResetError(104, "reset"), ssl.SSLError("bad record")], ids=["tcp", "tls"]
)
def test_events_read_together_with_the_end_of_a_connection_are_not_lost(
    broken: OSError, soon: Deadline
) -> None:
    class Connected:
        """A socket that has an event and then an error, both at once."""

        def __init__(self, data: bytes) -> None:
            self.coming: list[bytes | OSError] = [data, broken]

        def settimeout(self, timeout: float | None) -> None:
            pass

        def recv_into(self, view: memoryview) -> int:
            item = self.coming.pop(0)
            if isinstance(item, OSError):
                raise item
            view[: len(item)] = item
            return len(item)

    with ScriptedServer(stream(end=False)) as server:
        watch = watching(server, soon, None)
        watch.__enter__()
        data = encoded(event(1))
        watch._body._socket = Connected(b"%x\r\n%b\r\n" % (len(data), data))
        assert names(watch.read()) == ["p-1"]
        with pytest.raises(ApiError):
            watch.read()


def test_an_answer_that_ends_without_its_trailer_has_ended(soon: Deadline) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.stream(event(1), end=False)
        exchange.send(b"0\r\n")
        exchange.close()

    with ScriptedServer(handle) as server, watching(server, soon, None) as watch:
        assert names(watch) == ["p-1"]


@TLS
def test_a_connection_blocks_again_once_the_body_has_ended(
    tls: bool, authority: Authority, soon: Deadline
) -> None:
    def slowly(exchange: Exchange) -> None:
        exchange.pause(0.1)
        exchange.answer({"kind": "Pod", "metadata": {"name": "p"}})

    with ScriptedServer(stream(event(1)), slowly, tls=authority.server if tls else None) as server:
        session = ApiSession.of(
            server.client(**({"ssl_ca_cert": authority.certificate} if tls else {}))
        )
        with session.watch(PODS, "a", resource_version="5", deadline=soon) as watch:
            assert names(watch) == ["p-1"]
        assert session.get(PODS, "p", "a", deadline=soon)["metadata"]["name"] == "p"
        assert server.connections == 1
        session.close()


def test_a_connection_that_brought_too_much_serves_nothing_else(soon: Deadline) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.stream(end=False)
        exchange.send(b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")

    with ScriptedServer(handle, stream(event(1))) as server:
        session = ApiSession.of(server.client())
        for expected in ([], ["p-1"]):
            with session.watch(PODS, "a", resource_version="5", deadline=soon) as watch:
                assert names(watch) == expected
        assert server.connections == 2
        session.close()


def test_the_buffer_of_a_watch_grows_with_what_comes_at_once(soon: Deadline) -> None:
    """A program may have quiet watches of a hundred kinds."""
    ready = threading.Event()

    def send(exchange: Exchange) -> None:
        exchange.stream(event(1), end=False)
        ready.wait(60)
        for number in range(2, 100):
            exchange.chunk(encoded(event(number, "x" * 10_000)))
        exchange.send(b"0\r\n\r\n")

    with ScriptedServer(send) as server, watching(server, soon, None) as watch:
        (first,) = watch.read()
        body = watch._body
        assert body is not None
        assert len(body._buffer) == 8192
        ready.set()
        rest = [each for together in iter(watch.read, []) for each in together]
        assert names([first, *rest]) == [f"p-{number}" for number in range(1, 100)]
        assert 8192 < len(body._buffer) <= 131_072

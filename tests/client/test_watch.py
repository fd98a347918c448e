from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from pytest_kwait.client.deadlines import WATCHDOG, Guard
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.responses import ObjectMeta, WatchEvent
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.watch import EventDecoder, Watch
from pytest_kwait.errors import ApiError
from tests.client.scripted_server import Exchange, ScriptedServer, answer, encoded, stream

if TYPE_CHECKING:
    from pytest_kwait.clock import Deadline
    from tests.advanced_clock import AdvancedClock
    from tests.client.conftest import Authority

PATH = "/api/v1/namespaces/a/pods"


def event(type_: str, name: str, version: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": version}
    return {"type": type_, "object": {"kind": "Pod", "metadata": metadata, **more}}


ADDED = event("ADDED", "p", "5", status={"phase": "Pending", "hostIP": "10.0.0.1"})
MODIFIED = event("MODIFIED", "p", "6", status={"phase": "Running"})
BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
EXPIRED = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "status": "Failure",
        "message": "too old resource version: 5 (6792)",
        "reason": "Expired",
        "code": 410,
    },
}


class Status(TypedDict, total=False):
    phase: str


class Trimmed(TypedDict, total=False):
    metadata: ObjectMeta
    status: Status


def watching(server: ScriptedServer, deadline: Deadline, **options: Any) -> Any:
    options.setdefault("resource_version", "5")
    return ApiSession.of(server.client()).watch(PODS, "a", deadline=deadline, **options)


def test_events_come_until_the_server_ends_the_watch(soon: Deadline) -> None:
    with (
        ScriptedServer(stream(ADDED, MODIFIED, BOOKMARK)) as server,
        watching(server, soon, label_selector={"app": "web"}, timeout_seconds=7) as watch,
    ):
        events = list(watch)
        assert [(e.type, e.resource_version) for e in events] == [
            ("ADDED", "5"),
            ("MODIFIED", "6"),
            ("BOOKMARK", "9"),
        ]
        assert events[0].object == ADDED["object"]
        assert events[0].raw == encoded(ADDED["object"]).strip()
        assert list(watch) == []
        assert server.requests[0].path == PATH
        assert server.requests[0].query == {
            "watch": ["1"],
            "allowWatchBookmarks": ["true"],
            "resourceVersion": ["5"],
            "labelSelector": ["app=web"],
            "timeoutSeconds": ["7"],
        }


def test_a_connection_goes_on_after_a_clean_end(soon: Deadline) -> None:
    with ScriptedServer(stream(ADDED), stream(MODIFIED)) as server:
        session = ApiSession.of(server.client())
        for expected in ("ADDED", "MODIFIED"):
            with session.watch(PODS, "a", resource_version="5", deadline=soon) as watch:
                assert [e.type for e in watch] == [expected]
        assert server.connections == 1
        session.close()


def test_an_event_is_delivered_at_once_and_not_with_the_next(soon: Deadline) -> None:
    with (
        ScriptedServer(stream(ADDED, end=False)) as server,
        watching(server, soon, bookmarks=False) as watch,
    ):
        assert next(watch).type == "ADDED"
        assert "allowWatchBookmarks" not in server.requests[0].query


def test_events_are_cut_at_newlines_wherever_the_chunks_end(soon: Deadline) -> None:
    data = b"".join(encoded(line) for line in (ADDED, MODIFIED, BOOKMARK)) + b"\n"
    pieces = [data[i : i + 7] for i in range(0, len(data), 7)]
    with ScriptedServer(stream(*pieces)) as server, watching(server, soon) as watch:
        assert [e.type for e in watch] == ["ADDED", "MODIFIED", "BOOKMARK"]


def test_an_answer_that_is_not_chunked_is_read_as_it_comes(soon: Deadline) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + encoded(ADDED))
        exchange.hold()

    with ScriptedServer(handle) as server, watching(server, soon) as watch:
        assert next(watch).type == "ADDED"


def test_only_the_named_fields_are_decoded(soon: Deadline) -> None:
    with ScriptedServer(stream(ADDED)) as server, watching(server, soon, type=Trimmed) as watch:
        (only,) = watch
    assert only.object == {
        "metadata": {"name": "p", "resourceVersion": "5"},
        "status": {"phase": "Pending"},
    }
    assert only.raw == encoded(ADDED["object"]).strip()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            b'{"type":"ADDED","object":{"status":{"phase":null}}}',
            WatchEvent("ADDED", {"status": {"phase": None}}, b'{"status":{"phase":null}}'),
            id="an object of another shape comes whole",
        ),
        pytest.param(
            b'{ "type": "ADDED", "object": {"status": {"x": 1}} }\r',
            WatchEvent("ADDED", {"status": {}}, b'{"status": {"x": 1}}'),
            id="spaces",
        ),
        pytest.param(
            b'{"object":{"status":{}},"type":"DELETED"}',
            WatchEvent("DELETED", {"status": {}}, b'{"status":{}}'),
            id="another order",
        ),
        pytest.param(
            b'{"type":"ADDED","object":{},"more":{"a":1}}',
            WatchEvent("ADDED", {}, b"{}"),
            id="more fields",
        ),
    ],
)
def test_events_in_other_forms(line: bytes, expected: WatchEvent) -> None:
    assert EventDecoder(Trimmed).decode(line) == expected


def test_version_is_known_even_if_it_was_not_requested() -> None:
    class NoMetadata(TypedDict, total=False):
        status: Status

    decoded = EventDecoder(NoMetadata).decode(encoded(ADDED).strip())
    assert "metadata" not in decoded.object
    assert decoded.resource_version == "5"
    assert WatchEvent("BOOKMARK", {}, b"{}").resource_version == ""


def test_an_expired_version_is_a_410(soon: Deadline) -> None:
    with (
        ScriptedServer(stream(ADDED, EXPIRED)) as server,
        watching(server, soon, type=Trimmed) as watch,
    ):
        assert next(watch).type == "ADDED"
        with pytest.raises(ApiError) as raised:
            next(watch)
        assert raised.value.status == 410
        assert raised.value.reason == "Expired"
        assert raised.value.body == EXPIRED["object"]
        assert str(raised.value) == f"GET {PATH}: 410 Expired: too old resource version: 5 (6792)"
        assert list(watch) == []


def test_a_refusal_is_raised_on_entering(soon: Deadline) -> None:
    status = {"kind": "Status", "message": "no", "reason": "Forbidden", "code": 403}
    with ScriptedServer(answer(status, 403)) as server:
        watch = watching(server, soon)
        with pytest.raises(ApiError) as raised:
            watch.__enter__()
        assert str(raised.value) == f"GET {PATH}: 403 Forbidden: no"
        assert list(watch) == []


def test_a_last_event_without_its_newline_counts(soon: Deadline) -> None:
    last = encoded(MODIFIED).strip()
    with ScriptedServer(stream(ADDED, last)) as server, watching(server, soon) as watch:
        assert [e.type for e in watch] == ["ADDED", "MODIFIED"]


def test_half_an_event_means_a_broken_connection(soon: Deadline) -> None:
    half = b'{"type":"MODIFIED","object":{"metadata"'
    with ScriptedServer(stream(ADDED, half)) as server, watching(server, soon) as watch:
        next(watch)
        with pytest.raises(ApiError) as raised:
            next(watch)
    assert raised.value.status == 0
    assert str(raised.value) == (
        f"GET {PATH}: ConnectionReset: the watch ended within an event: {half.decode()}"
    )


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"<html><title>Sign in</title></html>\n", "Sign in"),
        (b'{"kind":"Pod","metadata":{}}\n', '{"kind":"Pod","metadata":{}}'),
    ],
    ids=["a page", "an object"],
)
def test_line_that_is_no_event_is_quoted(line: bytes, shown: str, soon: Deadline) -> None:
    with ScriptedServer(stream(line)) as server, watching(server, soon) as watch:
        with pytest.raises(ApiError) as raised:
            next(watch)
        assert str(raised.value) == f"GET {PATH}: NotJSON: expected a watch event, got {shown}"


def test_a_cut_connection_is_a_connection_reset(soon: Deadline) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.stream(ADDED, end=False)
        exchange.close()

    with ScriptedServer(handle) as server, watching(server, soon) as watch:
        assert next(watch).type == "ADDED"
        with pytest.raises(ApiError) as raised:
            next(watch)
        assert (raised.value.status, raised.value.reason) == (0, "ConnectionReset")
        # The rest is urllib3's, in other words in each of its versions.
        assert str(raised.value).startswith(f"GET {PATH}: ConnectionReset: {server.address}: ")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_silent_connection_counts_as_dead_after_a_while(
    tls: bool, authority: Authority, soon: Deadline, guard_clock: AdvancedClock
) -> None:
    with ScriptedServer(stream(ADDED, end=False), tls=authority.server if tls else None) as server:
        session = ApiSession.of(server.client(ssl_ca_cert=authority.certificate))
        watch = session.watch(PODS, "a", resource_version="5", inactivity=20, deadline=soon)
        assert next(watch).type == "ADDED"
        guard_clock.advance(20)
        with pytest.raises(ApiError) as raised:
            next(watch)
        assert str(raised.value) == f"GET {PATH}: WatchInactive: nothing came for 20s"


def test_bytes_that_complete_no_event_are_activity(
    soon: Deadline, guard_clock: AdvancedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, touched, touch = encoded(BOOKMARK), threading.Event(), Guard.touch

    def touch_and_report(guard: Guard) -> None:
        touch(guard)
        touched.set()

    monkeypatch.setattr(Guard, "touch", touch_and_report)

    def handle(exchange: Exchange) -> None:
        exchange.stream(end=False)
        for piece in (line[:10], line[10:20], line[20:30], line[30:]):
            guard_clock.advance(12)
            touched.clear()
            exchange.chunk(piece)
            assert touched.wait(60)
        exchange.send(b"0\r\n\r\n")

    # The whole event takes longer than the limit, none of its pieces does.
    with ScriptedServer(handle) as server, watching(server, soon, inactivity=20) as watch:
        assert [e.type for e in watch] == ["BOOKMARK"]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("lines", [[], [ADDED]], ids=["before the first event", "after it"])
def test_closing_ends_a_reader_on_another_thread_at_once(
    lines: list[object], tls: bool, authority: Authority, soon: Deadline
) -> None:
    with ScriptedServer(stream(*lines, end=False), tls=authority.server if tls else None) as server:
        session = ApiSession.of(server.client(ssl_ca_cert=authority.certificate))
        watch = session.watch(PODS, "a", resource_version="5", deadline=soon)
        watch.__enter__()
        seen: list[str] = []
        reader = threading.Thread(target=lambda: seen.extend(e.type for e in watch))
        reader.start()
        while len(seen) < len(lines):
            assert not soon.expired
        watch.close()
        reader.join(60)
        assert not reader.is_alive()
        assert len(seen) == len(lines)


def test_closing_ends_a_reader_that_waits_for_headers(soon: Deadline) -> None:
    arrived = threading.Event()

    def handle(exchange: Exchange) -> None:
        arrived.set()
        exchange.hold()

    with ScriptedServer(handle) as server:
        watch = watching(server, soon)
        reader = threading.Thread(target=lambda: list(watch))
        reader.start()
        assert arrived.wait(60)
        watch.close()
        reader.join(60)
        assert not reader.is_alive()


def test_a_watch_closed_before_it_was_opened_asks_nothing(soon: Deadline) -> None:
    with ScriptedServer(answer()) as server:
        watch = watching(server, soon)
        watch.close()
        assert list(watch) == []
        with watch:
            pass
        assert server.requests == []


def test_leaving_a_watch_closes_its_connection(soon: Deadline) -> None:
    gone = threading.Event()

    def handle(exchange: Exchange) -> None:
        exchange.stream(ADDED, MODIFIED, end=False)
        exchange.hold()
        gone.set()

    with ScriptedServer(handle) as server:
        with watching(server, soon) as watch:
            next(watch)
        assert gone.wait(60)
        assert list(watch) == []


def test_a_watch_is_forgotten_while_locks_are_held(soon: Deadline) -> None:
    # The collector runs finalizers in any thread, also in the midst of the watchdog's own work.
    collected = threading.Event()

    def handle(exchange: Exchange) -> None:
        exchange.stream(ADDED, end=False)
        exchange.hold()

    def collect(watches: list[Watch]) -> None:
        with WATCHDOG._lock:
            watches.clear()
        collected.set()

    with ScriptedServer(handle) as server:
        watches = [watching(server, soon)]
        next(watches[0])
        threading.Thread(target=collect, args=(watches,), daemon=True).start()
        assert collected.wait(60)


def test_a_forgotten_watch_frees_its_connection(soon: Deadline) -> None:
    gone = threading.Event()

    def handle(exchange: Exchange) -> None:
        exchange.stream(ADDED, end=False)
        exchange.hold()
        gone.set()

    with ScriptedServer(handle) as server:
        watch = watching(server, soon)
        next(watch)
        del watch
        assert gone.wait(60)

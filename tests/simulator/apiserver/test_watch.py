from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.apiserver.handlers.watch import StreamBuffer
from tests.simulator.apiserver.conftest import ADMIN, Served

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

KB = 1024


class Connection(asyncio.Transport):
    """A connection whose client reads on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.unread = 0
        self.aborted = False
        self.empty = asyncio.Event()
        self.empty.set()

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))
        self.unread += len(data)
        if self.unread > 512 * KB:
            self.empty.clear()

    def read(self) -> None:
        self.unread = 0
        self.empty.set()

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    async def drained(self) -> None:
        await self.empty.wait()


def driven(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30.0))


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time


def test_stream_buffer_joins_chunks_of_one_loop_iteration() -> None:
    async def test() -> None:
        connection = Connection()
        buffer = StreamBuffer(connection, connection.drained, lambda: None)
        buffer.send(b"a")
        buffer.send(b"b")
        await turns()
        assert connection.sent == [b"ab"]
        assert buffer.finish()

    driven(test)


def test_stream_buffer_sends_initial_chunks_as_the_client_reads() -> None:
    async def test() -> None:
        connection = Connection()
        buffer = StreamBuffer(connection, connection.drained, lambda: None)
        buffer.begin(b"%04d" % number + b"x" * KB for number in range(4000))
        buffer.send(b"live")
        await turns()
        assert connection.unread < 1024 * KB
        while not connection.sent[-1].endswith(b"live"):
            connection.read()
            await turns()
        whole = b"".join(connection.sent)
        assert [whole.index(b"%04d" % number) for number in (0, 3999)] == [0, 3999 * (KB + 4)]
        assert buffer.finish()

    driven(test)


def test_stream_buffer_disconnects_a_stalled_client() -> None:
    async def test() -> None:
        connection, ended = Connection(), asyncio.Event()
        buffer = StreamBuffer(connection, connection.drained, ended.set, most=1024 * KB)
        for _ in range(3000):
            buffer.send(b"x" * KB)
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
            if ended.is_set():
                break
        assert connection.aborted
        assert ended.is_set()
        assert connection.unread < 1024 * KB
        assert not buffer._waiting

    driven(test)


def test_stream_buffer_aborts_when_finished_early() -> None:
    async def test() -> None:
        connection = Connection()
        buffer = StreamBuffer(connection, connection.drained, lambda: None)
        buffer.begin(b"x" * KB for _ in range(4000))
        await turns()
        assert not buffer.finish()
        assert connection.aborted

    driven(test)


MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


def create(served: Served, name: str, **labels: str) -> str:
    made = served.json("POST", MAPS, {"metadata": {"name": name, "labels": labels}})
    revision: str = made["metadata"]["resourceVersion"]
    return revision


def label(served: Served, name: str, **labels: str | None) -> None:
    patch = {"metadata": {"labels": labels}}
    served.json("PATCH", f"{MAPS}/{name}", patch, Content_Type=MERGE)


def shown(events: Iterator[dict[str, Any]], count: int) -> list[tuple[str, str]]:
    found = [next(events) for _ in range(count)]
    return [(event["type"], event["object"]["metadata"]["name"]) for event in found]


def test_watch_from_a_revision_sends_later_changes(served: Served) -> None:
    revision = create(served, "a")
    label(served, "a", x="1")
    served.json("DELETE", f"{MAPS}/a")
    events = served.watch(f"{MAPS}?watch=1&resourceVersion={revision}")
    assert shown(events, 2) == [("MODIFIED", "a"), ("DELETED", "a")]
    create(served, "b")
    assert shown(events, 1) == [("ADDED", "b")]
    events.close()


def test_watches_of_two_clusters_in_a_process_send_their_own_objects(served: Served) -> None:
    other = Served()
    try:
        for cluster, name in ((served, "a"), (other, "b")):
            revision = cluster.api.store.revision
            path = "/api/v1/namespaces/default/configmaps"
            cluster.json("POST", path, {"metadata": {"name": name}})
            events = cluster.watch(f"{path}?watch=1&resourceVersion={revision}")
            assert next(events)["object"]["metadata"]["name"] == name
            events.close()
    finally:
        other.close()


def test_watch_without_a_revision_starts_with_existing_objects(served: Served) -> None:
    create(served, "a")
    events = served.watch(f"{MAPS}?watch=true")
    assert shown(events, 1) == [("ADDED", "a")]
    create(served, "b")
    assert shown(events, 1) == [("ADDED", "b")]
    events.close()


def test_initial_events_end_with_a_marked_bookmark(served: Served) -> None:
    create(served, "a")
    events = served.watch(
        f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true"
    )
    assert shown(events, 1) == [("ADDED", "a")]
    bookmark = next(events)
    events.close()
    assert bookmark == {
        "type": "BOOKMARK",
        "object": {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {
                "resourceVersion": str(served.api.store.revision),
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        },
    }


def test_watch_sends_selector_matches_as_added_and_deleted(served: Served) -> None:
    revision = create(served, "a", on="1")
    label(served, "a", more="1")
    label(served, "a", on=None)
    label(served, "a", on="1")
    events = served.watch(f"{MAPS}?watch=1&resourceVersion={revision}&labelSelector=on")
    found = [next(events) for _ in range(3)]
    events.close()
    assert [event["type"] for event in found] == ["MODIFIED", "DELETED", "ADDED"]
    assert found[1]["object"]["metadata"]["labels"] == {"on": "1", "more": "1"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in found]
    assert versions == sorted(versions)
    assert versions[0] == int(revision) + 1


def test_watch_from_an_expired_revision_sends_an_error(served: Served) -> None:
    create(served, "a")
    served.run(served.api.store.forget_history)
    current = served.api.store.revision
    events = list(served.watch(f"{MAPS}?watch=1&resourceVersion=1"))
    assert [event["type"] for event in events] == ["ERROR"]
    assert events[0]["object"]["code"] == 410
    assert events[0]["object"]["reason"] == "Expired"
    assert events[0]["object"]["message"] == f"too old resource version: 1 ({current})"


def test_watch_is_limited_to_its_name_or_namespace(served: Served) -> None:
    events = served.watch("/api/v1/watch/namespaces/default/configmaps/b?timeoutSeconds=1")
    create(served, "a")
    create(served, "b")
    other = "/api/v1/namespaces/kube-system/configmaps"
    served.json("POST", other, {"metadata": {"name": "b"}})
    assert [event["object"]["metadata"]["namespace"] for event in events] == ["default"]


def test_watch_ends_at_its_timeout(served: Served) -> None:
    assert list(served.watch(f"{MAPS}?watch=1&timeoutSeconds=1")) == []
    assert served.run(lambda: served.api.store.watchers("configmaps")) == 0


def test_watch_ends_when_the_client_disconnects(served: Served) -> None:
    events = served.watch(f"{MAPS}?watch=1")
    create(served, "a")
    next(events)
    events.close()
    for number in range(20):  # The state of the connection at each write.
        create(served, f"n{number}")
        if not served.run(lambda: served.api.store.watchers("configmaps")):
            break
    assert served.run(lambda: served.api.store.watchers("configmaps")) == 0


def test_table_watch_sends_columns_once(served: Served) -> None:
    create(served, "a")
    create(served, "b")
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    events = served.watch(f"{MAPS}?watch=1", Accept=table)
    first, second = next(events), next(events)
    events.close()
    assert first["object"]["columnDefinitions"] is not None
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"


def test_watch_with_an_invalid_revision_is_a_server_error(served: Served) -> None:
    answer = served.send("GET", f"{MAPS}?watch=1&resourceVersion=abc")
    assert answer.status == 500
    assert answer.json()["message"] == (
        'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    )


def test_watch_disconnects_a_client_that_never_reads(served: Served) -> None:
    revision = create(served, "a")
    ask = f"GET {MAPS}?watch=1&resourceVersion={revision} HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=30.0) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(f"{ask}Authorization: Bearer {ADMIN}\r\n\r\n".encode())
        assert client.recv(1) == b"H"
        follower = served.watch(f"{MAPS}?watch=1&resourceVersion={revision}")
        for number in range(40):
            patch = {"data": {"x": f"{number} " + "x" * 900_000}}
            served.json("PATCH", f"{MAPS}/a", patch, Content_Type=MERGE)
            assert next(follower)["object"]["data"]["x"].startswith(f"{number} ")
            if served.run(lambda: served.api.store.watchers("configmaps")) == 1:
                break
        assert served.run(lambda: served.api.store.watchers("configmaps")) == 1
        follower.close()

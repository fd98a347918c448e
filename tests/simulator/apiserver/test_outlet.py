from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.apiserver.handlers.outlet import StreamBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

KB = 1024


class Connection(asyncio.Transport):
    """A connection whose client reads when the test says so."""

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


def test_chunks_of_one_turn_go_out_together() -> None:
    async def test() -> None:
        connection = Connection()
        outlet = StreamBuffer(connection, connection.drained, lambda: None)
        outlet.send(b"a")
        outlet.send(b"b")
        await turns()
        assert connection.sent == [b"ab"]
        assert outlet.finish()

    driven(test)


def test_a_long_beginning_goes_out_as_the_client_reads() -> None:
    async def test() -> None:
        connection = Connection()
        outlet = StreamBuffer(connection, connection.drained, lambda: None)
        outlet.begin(b"%04d" % number + b"x" * KB for number in range(4000))
        outlet.send(b"live")
        await turns()
        assert connection.unread < 1024 * KB
        while not connection.sent[-1].endswith(b"live"):
            connection.read()
            await turns()
        whole = b"".join(connection.sent)
        assert [whole.index(b"%04d" % number) for number in (0, 3999)] == [0, 3999 * (KB + 4)]
        assert outlet.finish()

    driven(test)


def test_who_never_reads_is_cut_off_and_nothing_is_kept() -> None:
    async def test() -> None:
        connection, ended = Connection(), asyncio.Event()
        outlet = StreamBuffer(connection, connection.drained, ended.set, most=1024 * KB)
        for _ in range(3000):
            outlet.send(b"x" * KB)
            await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
            if ended.is_set():
                break
        assert connection.aborted
        assert ended.is_set()
        assert connection.unread < 1024 * KB
        assert not outlet._waiting

    driven(test)


def test_an_end_before_all_is_read_cuts_the_connection() -> None:
    async def test() -> None:
        connection = Connection()
        outlet = StreamBuffer(connection, connection.drained, lambda: None)
        outlet.begin(b"x" * KB for _ in range(4000))
        await turns()
        assert not outlet.finish()
        assert connection.aborted

    driven(test)

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from pytest_kwait.simulator.exploration.exploration import Exploration
from pytest_kwait.simulator.exploration.watches import ExploredWatch
from pytest_kwait.simulator.no_exploration import UnexploredWatch
from tests.simulator.exploration.seeds import find_seed
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.simulator.no_exploration import ExplorableRequest

FIRST = "watch pods 1 MODIFIED web 1"
SECOND = "watch pods 1 MODIFIED web 2"


class Stream:
    """The stream of a watch: what it sent at what time, and its ends."""

    def __init__(self, clock: ManualClock, place: str = "t", *, bookmarks: bool = False) -> None:
        self.sent: list[tuple[float, bytes]] = []
        self.ends: list[str] = []
        self.buffer = self
        self.place = (place, "", "pods")
        self.request: ExplorableRequest = mock.Mock()
        self.wants_bookmarks = bookmarks
        self.explored = UnexploredWatch(self)
        self._clock = clock

    def begin(self, source: Iterator[bytes]) -> None:
        for chunk in source:
            self.send(chunk)

    def send(self, chunk: bytes) -> None:
        self.sent.append((round(self._clock.monotonic(), 6), chunk))

    def make_bookmark(self, revision: int) -> bytes:
        return b"bookmark %d" % revision

    def end(self) -> None:
        self.ends.append("end")

    def cut(self) -> None:
        self.ends.append("cut")


class Watch:
    """A watch under an exploration, and what it sent at what time."""

    def __init__(
        self,
        seed: int,
        only: Sequence[str] | None = None,
        *,
        level: str = "harsh",
        bookmarks: bool = False,
    ) -> None:
        self.clock = ManualClock()
        self.exploration = Exploration(self.clock, seed, level, only)
        stream = Stream(self.clock, bookmarks=bookmarks)
        self.sent, self.ends = stream.sent, stream.ends
        self.explored = ExploredWatch(self.exploration, stream)

    def send(self, revision: int, name: str = "web") -> None:
        self.explored.send(b"event %d" % revision, "MODIFIED", name, revision)

    def send_initial(self, *events: tuple[bytes, str]) -> None:
        self.explored.send_initial((chunk, {"name": name}) for chunk, name in events)

    def chunks(self) -> list[bytes]:
        return [chunk for _, chunk in self.sent]


def test_late_event_delays_those_behind_it_and_no_more() -> None:
    seed = find_seed("harsh", [("watch-delay", FIRST)], [("watch-delay", SECOND)])
    watch = Watch(seed, ["watch-delay"])
    watch.send(1)
    watch.send(2)
    assert (watch.sent, watch.explored.is_late) == ([], True)
    (decision,) = watch.exploration.applied
    watch.clock.advance(decision.size)
    assert watch.sent == [
        (round(decision.size, 6), b"event 1"),
        (round(decision.size, 6), b"event 2"),
    ]
    watch.send(3)
    assert watch.explored.is_late == (len(watch.sent) == 2)


@pytest.mark.parametrize("seed", range(30))
def test_events_of_one_watch_keep_their_order(seed: int) -> None:
    watch = Watch(seed, ["watch-delay", "bookmark-extra"], bookmarks=True)
    for revision in range(1, 61):
        watch.send(revision)
        watch.clock.advance(0.01 * (revision % 7))
    watch.clock.advance(10)
    events = [chunk for chunk in watch.chunks() if chunk.startswith(b"event")]
    assert events == [b"event %d" % revision for revision in range(1, 61)]
    for at, chunk in enumerate(watch.chunks()):
        if chunk.startswith(b"bookmark"):
            # Every event up to a bookmark's revision has been sent.
            assert watch.chunks()[at - 1] == b"event" + chunk.removeprefix(b"bookmark")


def test_late_events_of_a_burst_do_not_add_up() -> None:
    watch = Watch(1, ["watch-delay"])
    for revision in range(1, 101):
        watch.send(revision)
    watch.clock.advance(0.5)
    assert len(watch.sent) == 100


@pytest.mark.parametrize(("name", "how"), [("watch-end", "end"), ("watch-cut", "cut")])
def test_watch_ends_in_front_of_an_event_and_sends_nothing_more(name: str, how: str) -> None:
    seed = find_seed("harsh", [(name, SECOND)], [(name, FIRST)])
    watch = Watch(seed, [name])
    for revision in (1, 2, 3):
        watch.send(revision)
    watch.clock.advance(10)
    assert (watch.chunks(), watch.ends) == ([b"event 1"], [how])


def test_initial_events_are_late_in_their_order_and_end_no_watch() -> None:
    late = ("watch-delay", "watch pods 1 ADDED web 1")
    watch = Watch(find_seed("harsh", [late]))
    watch.send_initial((b"first", "web"), (b"second", "web"), (b"bookmark", ""))
    assert (watch.sent, watch.explored.is_late) == ([], True)
    watch.clock.advance(10)
    assert watch.chunks() == [b"first", b"second", b"bookmark"]
    for seed in range(200):
        watch = Watch(seed, ["watch-cut", "watch-end"])
        watch.send_initial((b"first", "web"), (b"second", "db"))
        assert (watch.chunks(), watch.ends) == ([b"first", b"second"], [])


def test_watch_does_not_end_cleanly_in_front_of_its_first_event() -> None:
    seed = find_seed("harsh", [("watch-end", FIRST)])
    watch = Watch(seed, [f"watch-end@{FIRST}"])
    watch.send(1)
    assert (watch.chunks(), watch.ends) == ([b"event 1"], [])


def test_late_events_of_an_ended_watch_are_dropped() -> None:
    late, end = ("watch-delay", SECOND), ("watch-end", "watch pods 1 MODIFIED web 3")
    seed = find_seed("harsh", [late, end])
    watch = Watch(seed, ["watch-delay@" + SECOND, "@".join(end)])
    for revision in (1, 2, 3):
        watch.send(revision)
    watch.clock.advance(10)
    assert (watch.chunks(), watch.ends) == ([b"event 1"], ["end"])
    assert not watch.explored.is_late


def test_watch_does_not_end_cleanly_while_its_first_event_is_held_back() -> None:
    seed = find_seed("harsh", [("watch-delay", FIRST), ("watch-end", SECOND)])
    watch = Watch(seed, [f"watch-delay@{FIRST}", f"watch-end@{SECOND}"])
    watch.send(1)
    watch.send(2)
    watch.clock.advance(10)
    assert (watch.chunks(), watch.ends) == ([b"event 1", b"event 2"], [])


@pytest.mark.parametrize("name", ["watch-end", "watch-cut"])
def test_watch_does_not_end_while_initial_events_are_held_back(name: str) -> None:
    late = ("watch-delay", "watch pods 1 ADDED web 2")
    seed = find_seed("harsh", [late, (name, FIRST)])
    watch = Watch(seed, ["@".join(late), f"{name}@{FIRST}"])
    watch.send_initial((b"first", "web"), (b"second", "web"))
    watch.send(1)
    watch.clock.advance(10)
    assert (watch.chunks(), watch.ends) == ([b"first", b"second", b"event 1"], [])


def test_closed_watch_sends_nothing_later() -> None:
    seed = find_seed("harsh", [("watch-delay", FIRST)])
    watch = Watch(seed, ["watch-delay"])
    watch.send(1)
    watch.explored.close()
    watch.send(2)
    watch.clock.advance(10)
    assert watch.sent == []


def test_end_of_the_exploration_sends_late_events_at_once_in_their_order() -> None:
    seed = find_seed("harsh", [("watch-delay", FIRST), ("watch-delay", SECOND)])
    watch = Watch(seed, ["watch-delay"])
    for revision in (1, 2):
        watch.send(revision)
    watch.exploration.end()
    watch.send(3)
    assert watch.sent == []
    watch.clock.advance(0)
    assert watch.sent == [(0.0, b"event %d" % revision) for revision in (1, 2, 3)]


@pytest.mark.parametrize("revision", [0, 1])
def test_watch_of_a_deleted_namespace_takes_no_number(revision: int) -> None:
    """A client of an earlier test may still have it open."""
    exploration = Exploration(ManualClock(), 1, "harsh", ended=["t-old"])
    stream = Stream(ManualClock(), "t-old")
    for _ in range(20):
        old = ExploredWatch(exploration, stream, "admin/kopf")
        assert old.find_expiry(revision, 2) is None
        for number in range(20):
            old.send(b"event", "MODIFIED", "web", number, "t-old")
            assert not old.skips_bookmark()
    assert (exploration.applied, stream.ends) == ([], [])
    # The first one of the test has the first number.
    exploration.end_watch("watch pods by admin/kopf", "watch pods by admin/kopf 7")
    ExploredWatch(exploration, stream, "admin/kopf")
    exploration.start_watch("watch pods by admin/kopf", "t-new")
    assert exploration.start_watch("watch pods by admin/kopf", "t-new")[0].endswith(" 1")


def test_generated_names_do_not_change_decisions() -> None:
    def applied(names: Sequence[str]) -> list[Any]:
        watch = Watch(5)
        for revision, name in enumerate(names):
            watch.send(revision, name)
        return watch.exploration.applied

    made = applied([f"web-6d4cf56db6-{letter}7k2p" for letter in "bcdfghjklmnp"])
    assert made
    assert made == applied([f"web-7f9b8d5c4d-{letter}zzzz" for letter in "bcdfghjklmnp"])


@pytest.mark.parametrize(
    ("revision", "latest", "is_possible"),
    [(0, 9, False), (9, 9, False), (10, 9, False), (8, 9, True)],
)
def test_only_a_watch_from_an_earlier_revision_expires(
    revision: int, latest: int, is_possible: bool
) -> None:
    seed = find_seed("harsh", [("watch-expired", "watch pods 1")])
    error = Watch(seed).explored.find_expiry(revision, latest)
    assert (error is not None) is is_possible
    if error is not None:
        assert (error.code, error.reason) == (410, "Expired")
        assert error.message == "too old resource version: 8 (9)"


def test_bookmark_is_skipped() -> None:
    seed = find_seed("harsh", [("bookmark-skip", "watch pods 1 BOOKMARK 1")])
    assert Watch(seed).explored.skips_bookmark()

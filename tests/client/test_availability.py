from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.availability import (
    Availability,
    ClusterEnded,
    availability_of,
    reset_availability,
)
from pytest_kwait.client.deadlines import Guard
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import DeadlineExceeded
from tests.client.scripted_server import Exchange, ScriptedServer, answer, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.advanced_clock import AdvancedClock

ADDRESS = "https://10.0.0.1:6443"
ENDED = "the embedded cluster has ended (signal 9)"
POD = {"metadata": {"name": "p"}}


def begin(availability: Availability, clock: FakeClock) -> Guard:
    guard = Guard(Deadline.after(30))
    guard.started_at = clock.monotonic()
    availability.begin(guard)
    return guard


@pytest.fixture
def server() -> Iterator[Callable[..., ScriptedServer]]:
    """Servers whose addresses have no problem afterwards."""
    made: list[ScriptedServer] = []

    def make(*handlers: Any) -> ScriptedServer:
        made.append(ScriptedServer(*handlers))
        return made[-1]

    yield make
    for each in made:
        reset_availability(each.address)


def test_an_address_has_one_availability_until_a_server_is_started_there() -> None:
    first = availability_of(ADDRESS)
    assert availability_of(ADDRESS) is first
    first.report_problem(ENDED)
    assert reset_availability(ADDRESS) is not first
    assert availability_of(ADDRESS).problem == ""


@pytest.mark.parametrize(
    ("reason", "clause"),
    [
        ("ConnectionRefused", "has refused connections"),
        ("ConnectionReset", "has closed connections"),
        ("DNS", "has had an unknown address"),
        ("Proxy", "has not been reached through the proxy"),
        ("TLS", "has not agreed on TLS"),
        ("Timeout", "has not answered"),
        ("ConnectionFailed", "has not answered"),
    ],
)
def test_outage_is_described_with_its_duration_and_tries(reason: str, clause: str) -> None:
    clock = FakeClock()
    availability = Availability(ADDRESS, clock)
    for _ in range(7):
        guard = begin(availability, clock)
        clock.advance(1.5)
        availability.record_failure(guard, reason)
        availability.end(guard)
    assert availability.describe_outage() == f"API server {ADDRESS} {clause} for 10s (7 tries)"


def test_pending_requests_are_tries_of_a_silent_server() -> None:
    clock = FakeClock()
    availability = Availability(ADDRESS, clock)
    guard = begin(availability, clock)
    clock.advance(1.9)
    assert availability.describe_outage() == ""
    clock.advance(0.6)
    assert availability.describe_outage() == (
        f"API server {ADDRESS} has not answered for 2.5s (1 try)"
    )
    availability.end(guard)
    assert availability.describe_outage() == ""


def test_any_answer_ends_an_outage() -> None:
    clock = FakeClock()
    availability = Availability(ADDRESS, clock)
    old = begin(availability, clock)
    clock.advance(5)
    refused, answered = begin(availability, clock), begin(availability, clock)
    availability.record_failure(refused, "ConnectionRefused")
    availability.record_answer(answered)
    clock.advance(1)
    assert availability.describe_outage() == "", "the old request may still be answered"
    clock.advance(2)
    assert availability.describe_outage() == f"API server {ADDRESS} has not answered for 3s (1 try)"
    availability.record_failure(answered, "Timeout")
    availability.record_answer(old)
    assert availability.describe_outage() == "", "an answer that broke off was one"


def test_problem_is_reported_to_waiting_and_listening_threads() -> None:
    availability = Availability(ADDRESS)
    called: list[str] = []
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(availability.wait_for_change("")))
    thread.start()
    with availability.notifying(lambda: called.append("listener")):
        availability.report_problem(ENDED)
        availability.report_problem(ENDED)
    thread.join(60)
    assert (found, called, availability.ended.is_set()) == ([ENDED], ["listener"], True)
    with pytest.raises(ClusterEnded) as caught:
        availability.check()
    assert str(caught.value) == ENDED
    assert isinstance(caught.value, ApiError)
    assert isinstance(caught.value, ClusterError)
    availability.report_problem("")
    availability.check()
    assert not availability.ended.is_set()


def hold(exchange: Exchange) -> None:
    exchange.hold()


REQUESTS: dict[str, tuple[Any, Callable[[ApiSession, Deadline], object]]] = {
    "get": (hold, lambda session, limit: session.get(PODS, "p", "a", deadline=limit)),
    "list": (hold, lambda session, limit: session.list(PODS, "a", deadline=limit)),
    "create": (hold, lambda session, limit: session.create(PODS, POD, "a", deadline=limit)),
    "opening watch": (
        hold,
        lambda session, limit: list(session.watch(PODS, "a", resource_version="1", deadline=limit)),
    ),
    "watch": (
        stream({"type": "ADDED", "object": POD}, end=False),
        lambda session, limit: list(session.watch(PODS, "a", resource_version="1", deadline=limit)),
    ),
    "exec": (hold, lambda session, limit: session.exec("a", "p", ["true"], deadline=limit)),
    "discovery": (hold, lambda session, limit: session.resolve("widgets", deadline=limit)),
}


@pytest.mark.parametrize("kind", sorted(REQUESTS))
def test_requests_in_progress_end_with_the_cluster(
    server: Callable[..., ScriptedServer], kind: str
) -> None:
    handler, send = REQUESTS[kind]
    received = threading.Event()

    def handle(exchange: Exchange) -> None:
        received.set()
        handler(exchange)

    with server(handle) as scripted:
        session = ApiSession.of(scripted.client())

        def end() -> None:
            received.wait(60)
            session.availability.report_problem(ENDED)

        threading.Thread(target=end).start()
        with pytest.raises(ClusterEnded, match=r"^the embedded cluster has ended \(signal 9\)$"):
            send(session, Deadline.after(60))
        with pytest.raises(ClusterEnded):
            send(session, Deadline.after(60))
        assert len(scripted.requests) == 1, "nothing is sent to a cluster that has ended"


def test_requests_record_refusals_silence_and_answers(
    server: Callable[..., ScriptedServer], guard_clock: AdvancedClock
) -> None:
    def stall(exchange: Exchange) -> None:
        guard_clock.advance(30)
        exchange.hold()

    with server(stall, answer({"kind": "Pod"}, status=200)) as scripted:
        session = ApiSession.of(scripted.client())
        with pytest.raises(DeadlineExceeded):
            session.get(PODS, "p", "a", deadline=Deadline.after(30, FakeClock()))
        assert hours_later(session.availability) == (
            f"API server {scripted.address} has not answered for 2h0m0s (1 try)"
        )
        session.get(PODS, "p", "a", deadline=Deadline.after(60))
        assert hours_later(session.availability) == ""
    with pytest.raises(ApiError, match="ConnectionRefused"):
        session.get(PODS, "p", "a", deadline=Deadline.after(60))
    assert hours_later(session.availability).endswith("has refused connections for 2h0m0s (1 try)")


def test_watch_that_is_not_opened_in_time_is_a_failure(
    server: Callable[..., ScriptedServer], soon: Deadline, guard_clock: AdvancedClock
) -> None:
    def stall(exchange: Exchange) -> None:
        guard_clock.advance(20)
        exchange.hold()

    with server(stall) as scripted:
        session = ApiSession.of(scripted.client())
        with pytest.raises(ApiError, match="WatchInactive"):
            list(session.watch(PODS, "a", resource_version="1", deadline=soon, inactivity=20))
        assert hours_later(session.availability).endswith("has not answered for 2h0m0s (1 try)")


def hours_later(availability: Availability) -> str:
    """Return the outage as described two hours after its first request failed."""
    since = availability._failing_since
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(availability, "_clock", FakeClock(start=(since or 0.0) + 7200))
        return availability.describe_outage()


def test_broken_connections_of_an_ended_process_await_the_report_of_its_end(
    server: Callable[..., ScriptedServer],
) -> None:
    with server(answer({"kind": "Pod"}, status=200)) as scripted:
        availability = reset_availability(scripted.address)
        session = ApiSession.of(scripted.client())
    with pytest.raises(ApiError, match="ConnectionRefused"):
        session.get(PODS, "p", "a", deadline=Deadline.after(60))
    availability.is_watched = True
    monitor = threading.Timer(0.05, availability.report_problem, [ENDED])
    monitor.start()
    with pytest.raises(ClusterEnded, match=r"^the embedded cluster has ended"):
        session.get(PODS, "p", "a", deadline=Deadline.after(60))
    monitor.join()


def test_broken_connections_of_a_running_process_await_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        availability = Availability(f"https://127.0.0.1:{listener.getsockname()[1]}")
        availability.is_watched = True
        assert availability.find_end() == ""

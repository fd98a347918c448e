from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.client.availability import Availability, ClusterEnded
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.lock.leases import (
    LOCK_NAME,
    LockLeases,
    Member,
    Ticket,
    build_lock_lease,
    read_lock_state,
    read_queue,
    shorten_text,
)
from pytest_kwait.suite.lock.lock import ClusterLock, LockMember, LockOutage
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait.context import DeadlineExceeded
from tests.leaderelection.lease_store import StoreSession
from tests.suite.lock.lock_world import Leases

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.session import ApiSession


class Requests(StoreSession):
    """Requests that arrive; `after` is called between one's arrival and its answer."""

    availability = Availability("https://fake")

    def __init__(self, leases: Leases) -> None:
        super().__init__(leases)
        self.leases = leases
        self.clock = FakeClock(start=100.0, epoch=100.0)
        self.after: Callable[[str], object] = lambda verb: None

    def ask(self, verb: str, call: Any, deadline: Deadline) -> Any:
        answer = super().ask(verb, call, deadline)
        self.after(verb)
        return answer


@pytest.fixture
def requests() -> Requests:
    return Requests(Leases())


def ledger(requests: Requests, holder: str = "me") -> LockLeases:
    return LockLeases(cast("ApiSession", requests), "ns", holder, 6.0)


def soon(requests: Requests, seconds: float = 60.0) -> Deadline:
    return Deadline.after(seconds, requests.clock)


def _is_due(own: LockMember) -> bool:
    return own.due


def told(reason: str) -> None:
    raise AssertionError(reason)


def test_further_shared_tests_send_no_request(requests: Requests) -> None:
    lock = ClusterLock(ledger(requests))
    for test in ("a", "b", "c"):
        lock.acquire_shared(test, soon(requests), told)
        assert not lock.lost()
        assert lock.release()

    assert requests.verbs == ["list", "create", "list"]
    assert requests.leases.queue == []


@pytest.mark.parametrize("error", ["ConnectionRefused", "Timeout"])
def test_silent_server_is_given_up_after_half_a_minute(requests: Requests, error: str) -> None:
    """Not after the limit for other tests, of half an hour; later tests at the first request."""
    requests.availability = Availability("https://10.0.0.1:6443", cast("Any", requests.clock))
    requests.clock.advance(1)

    def refuse(verb: str) -> None:
        request = cast(
            "Any", SimpleNamespace(started_at=requests.clock.monotonic(), is_answered=False)
        )
        requests.availability.record_failure(request, error)
        raise ApiError("no answer", reason=error)

    requests.after = refuse
    lock = ClusterLock(ledger(requests))
    clause = {"ConnectionRefused": "has refused connections", "Timeout": "has not answered"}[error]
    begun = requests.clock.monotonic()
    for seconds, tries in ((30, 61), (30, 62)):
        with pytest.raises(LockOutage) as caught:
            lock.acquire_shared("a", soon(requests, 1800), told)
        assert str(caught.value) == (
            f"lock ns/kwait-serial cannot be read: API server https://10.0.0.1:6443 {clause} "
            f"for {seconds}s ({tries} tries)"
        )
        assert requests.clock.monotonic() == begun + seconds


@pytest.mark.parametrize("exclusive", [False, True])
def test_lock_of_an_ended_cluster_takes_no_time(requests: Requests, exclusive: bool) -> None:
    lock = ClusterLock(ledger(requests))
    acquire = lock.acquire_exclusive if exclusive else lock.acquire_shared
    acquire("a", soon(requests), told)
    requests.clock.advance(100)
    begun = requests.clock.monotonic()

    def end(verb: str) -> None:
        raise ClusterEnded("the embedded cluster has ended (signal 9)")

    requests.after = end
    assert not lock.lost()
    assert lock.release()
    with pytest.raises(ClusterEnded):
        lock.acquire_exclusive("b", soon(requests), told)
    assert requests.clock.monotonic() == begun


def test_serial_tests_cost_two_lists_and_three_writes_each(requests: Requests) -> None:
    lock = ClusterLock(ledger(requests))
    lock.acquire_shared("a", soon(requests), told)
    lock.release()
    asked = len(requests.verbs)
    for test in ("b", "c"):
        lock.acquire_exclusive(test, soon(requests), told)
        assert requests.leases.queue == [test]
        assert not lock.lost()
        assert lock.release()

    serial = ["list", "create", "list", "update", "delete"]
    assert requests.verbs[asked:] == ["list", "update", *serial, *serial]
    assert LOCK_NAME not in requests.leases.objects


def test_grant_during_a_pause_is_verified(requests: Requests) -> None:
    lock = ClusterLock(ledger(requests))
    paused: list[str] = []

    def pause(verb: str) -> None:
        if verb == "update" and not paused:
            paused.append(verb)
            requests.clock.advance(100)

    requests.after = pause
    lock.acquire_exclusive("a", soon(requests, 1000), told)

    # Marked in vain; renewed, looked at, and marked again.
    assert requests.verbs[-5:] == ["update", "list", "update", "list", "update"]


def test_lost_write_response_is_followed_by_a_newer_write(requests: Requests) -> None:
    own = LockMember(ledger(requests))
    own.join("t", soon(requests), out=False)
    assert own.member is not None
    late: list[Any] = []

    def lose(resource: Any, obj: Any, namespace: str, **options: Any) -> Any:
        late.append(obj)
        raise DeadlineExceeded("no answer")

    replace, requests.replace = requests.replace, lose  # type: ignore[method-assign] # a bad moment
    with pytest.raises(DeadlineExceeded):
        own.change(own.member, "t", soon(requests), out=True)
    requests.replace = replace  # type: ignore[method-assign] # as above

    own.read_state(soon(requests))
    assert _is_due(own)
    own.change(own.member, "t", soon(requests), out=False)
    assert not _is_due(own)
    with pytest.raises(ApiError):
        requests.leases.replace(late[0])


def test_stored_write_without_response_is_recognized(requests: Requests) -> None:
    own = LockMember(ledger(requests))
    own.join("t", soon(requests), out=False)
    assert own.member is not None

    def lose(verb: str) -> None:
        if verb == "update":
            raise DeadlineExceeded("no answer")

    requests.after = lose
    with pytest.raises(DeadlineExceeded):
        own.change(own.member, "t", soon(requests), out=True)
    assert _is_due(own)
    own.read_state(soon(requests))
    assert not _is_due(own)
    assert own.member.out


def test_renewing_member_is_not_removed(requests: Requests) -> None:
    mine, theirs = ledger(requests), ledger(requests, "you")
    member = theirs.join("t", soon(requests), out=False)
    theirs.change(member, "t", soon(requests), out=False)

    mine.remove_member(member, soon(requests))

    assert requests.leases.members == [member.name]


def test_tickets_without_a_member_are_removed(requests: Requests) -> None:
    mine = ledger(requests)
    ghost = Ticket("t", "uid-of-nobody", "gone", "run x", "test", False)
    mine.write(mine.snapshot(soon(requests)), [ghost], soon(requests))
    lock = ClusterLock(mine)

    lock.acquire_shared("a", soon(requests), told)

    assert requests.leases.queue == []


def test_leaving_removes_lease_and_tickets(requests: Requests) -> None:
    lock = ClusterLock(ledger(requests))
    lock.acquire_shared("a", soon(requests), told)
    lock.release()
    lock.leave(soon(requests))
    lock.leave(soon(requests))

    assert requests.leases.objects == {}
    assert requests.verbs[3:] == ["delete"]


def test_member_between_tests_yields_to_an_exclusive_ticket(requests: Requests) -> None:
    lock = ClusterLock(ledger(requests))
    lock.acquire_shared("a", soon(requests), told)
    other = ledger(requests, "you")
    member = other.join("t", soon(requests), out=True)
    ticket = Ticket("t", member.uid, member.name, "you", "t", False)
    other.write(other.snapshot(soon(requests)), [ticket], soon(requests))

    assert not lock.on_queue_change([ticket])
    lock.maintain()
    assert not _out(requests, "me"), "it is in a test"
    lock.release()
    assert lock.on_queue_change([ticket])
    lock.maintain()
    assert _out(requests, "me")


def _out(requests: Requests, holder: str) -> bool:
    members = read_lock_state(requests.leases.objects.values()).members.values()
    return next(each.out for each in members if each.holder == holder)


@pytest.mark.parametrize("error", [403, 422])
def test_permanent_errors_are_raised(requests: Requests, error: int) -> None:
    def refuse(verb: str) -> None:
        raise ApiError("no", status=error)

    requests.after = refuse
    with pytest.raises(ApiError):
        ClusterLock(ledger(requests)).acquire_shared("a", soon(requests), told)


@pytest.mark.parametrize(
    "text",
    [None, "", "nonsense", "{}", "[1]", '["x"]', '[{"id": "x"}]', "null", "12", '[{"id": "x", '],
)
def test_invalid_queue_is_empty(text: str | None) -> None:
    notes = None if text is None else {"pytest-kwait/queue": text}
    lock = {"metadata": {"name": LOCK_NAME, "annotations": notes}, "spec": None}

    assert read_queue(lock) == ()


def test_members_are_read_from_incomplete_leases() -> None:
    labels = {"pytest-kwait/lock": "member"}
    snapshot = read_lock_state(
        [
            {"metadata": {"name": "m", "uid": "u", "labels": labels}, "spec": None},
            {"metadata": {"name": "n", "labels": None}},
            {"metadata": None},
            {"metadata": {"name": "other", "labels": {"pytest-kwait/lock": "queue"}}},
        ]
    )

    assert snapshot.lock is None
    assert [str(each) for each in snapshot.members.values()] == ["m"]
    assert not snapshot.members["u"].out


def _ticket(number: int) -> Ticket:
    return Ticket(str(number), f"u{number}", f"m{number}", f"run {number}", f"t{number}", False)


def _member(number: int) -> Member:
    return Member(f"m{number}", f"u{number}", "1", 6.0, False, f"run {number}", "", {})


def test_holders_are_named_while_waiting() -> None:
    tickets = [_ticket(number) for number in range(3)]
    waited = read_lock_state(
        [{"metadata": {}} | _labelled(build_lock_lease(None, tickets, "", held=False))]
    )
    held = read_lock_state([_labelled(build_lock_lease(waited.lock, tickets, "now", held=True))])
    behind = read_lock_state(
        [_labelled(build_lock_lease(held.lock, [*tickets, _ticket(9)], "", held=False))]
    )
    next_one = read_lock_state(
        [_labelled(build_lock_lease(held.lock, tickets[1:], "", held=False))]
    )

    assert waited.blocked_by(tickets[:1], []) == "awaited by run 0: t0"
    assert held.blocked_by(tickets, []) == "held by run 0: t0 (2 more in the queue)"
    assert behind.blocked_by(tickets[:2], []) == "held by run 0: t0 (1 more in the queue)"
    assert next_one.blocked_by(tickets[1:2], []) == "awaited by run 1: t1"
    members = [_member(number) for number in range(5)]
    assert held.blocked_by([], members[:1]) == "shared by run 0"
    assert held.blocked_by([], members) == "shared by run 0, run 1, run 2 and 2 more"


def _labelled(lease: dict[str, Any]) -> dict[str, Any]:
    lease["metadata"]["resourceVersion"] = "1"
    return lease


def test_long_names_are_cut() -> None:
    assert shorten_text("x" * 200) == "x" * 200
    assert shorten_text("x" * 201) == "x" * 197 + "..."

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_kwait.client.resource import LEASES
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.suite.cleanup.janitor import Janitor
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.cleanup.run_lease import RunLeaseRenewer
from pytest_kwait.suite.environments import EnvironmentLease, encode_value
from pytest_kwait.suite.lease_renewer import LeaseRenewer
from pytest_kwait.testing import FakeClock
from tests.suite.fakes import FakeClient, FakeTransport


class World:
    """Processes of one run that need one environment."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.clock = FakeClock()
        self.client: Any = FakeClient(self.transport, self.clock)
        self.said: list[str] = []

    def process(self, maker: str, registration: Any = None) -> EnvironmentLease:
        return EnvironmentLease(
            self.client, "r1", "conftest.py::db", maker, registration=registration
        )

    def join(self, lease: EnvironmentLease, failed: int = 0, limit: float = 600.0) -> Any:
        return lease.join(Deadline.after(limit, self.clock), failed, self.said.append)

    @property
    def notes(self) -> dict[str, str]:
        [lease] = [each for path, each in self.transport.objects.items() if "/leases/" in path]
        notes: dict[str, str] = lease["metadata"]["annotations"]
        return notes


class Unrenewed(LeaseRenewer):
    """The tests make the renewals: time is theirs."""

    def start(self, *, at_once: bool = False) -> None:
        """Start no thread."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("pytest_kwait.suite.environments.LeaseRenewer", Unrenewed)
    return World()


def test_the_first_process_makes_it_and_the_others_get_what_it_published(world: World) -> None:
    first, second = world.process("gw0"), world.process("gw1")
    state = world.join(first)
    assert (state.name, state.attempt) == ("making", 1)
    assert first.publish("t-db-abcde", "u1", '{"a": 1}')
    state = world.join(second)
    assert (state.name, state.maker, state.namespace, state.uid, state.value) == (
        "ready",
        "gw0",
        "t-db-abcde",
        "u1",
        '{"a": 1}',
    )
    assert world.clock.monotonic() == 0


def test_another_process_waits_while_the_lease_is_renewed(world: World) -> None:
    first, second = world.process("gw0"), world.process("gw1")
    world.join(first)
    for seconds in range(5, 60, 5):
        world.clock.call_later(seconds, lambda: first.record(f"k{world.clock.monotonic()}"))
    world.clock.call_later(61.0, lambda: first.publish("t-db", "u", "null"))
    assert world.join(second).name == "ready"
    assert 61.0 <= world.clock.monotonic() < 62.0
    assert world.said == ["environment conftest.py::db: gw0 is making it"]


def test_a_process_takes_over_from_one_that_does_not_renew(world: World) -> None:
    first, second = world.process("gw0"), world.process("gw1")
    world.join(first)
    state = world.join(second)
    assert (state.name, state.attempt) == ("making", 2)
    assert 20.0 <= world.clock.monotonic() < 21.0
    # The first one was only paused.
    assert not first.publish("t-db-old", "u1", "1")
    with pytest.raises(ClusterError) as caught:
        world.join(world.process("gw2"), limit=5.0)
    assert str(caught.value) == (
        "environment conftest.py::db was not ready in time: gw1 is still making it (Lease "
        f"{second.place()})"
    )
    assert second.publish("t-db-new", "u2", "2")
    assert world.join(first).namespace == "t-db-new"


def test_a_process_that_was_replaced_records_no_kind(world: World) -> None:
    first, second = world.process("gw0"), world.process("gw1")
    world.join(first)
    world.join(second)
    with pytest.raises(ClusterError) as caught:
        first.record("configmaps.v1.")
    assert str(caught.value) == (
        "environment conftest.py::db was taken over by another process, as this one had not "
        f"renewed its Lease {first.place()} for 20s"
    )


def test_only_one_of_two_processes_takes_over(world: World) -> None:
    first, second = world.process("gw0"), world.process("gw1")
    dead = world.process("gw2")
    world.join(dead)
    lease = first._read(Deadline.after(1.0, world.clock))
    limit = Deadline.after(1.0, world.clock)
    assert first._take(lease, 2, limit)
    assert not second._take(lease, 2, limit)


def test_a_failure_is_published_and_made_again_once_it_was_seen(world: World) -> None:
    first, second = world.process("gw0"), world.process("gw1")
    world.join(first)
    first.fail("AssertionError: no")
    state = world.join(second)
    assert (state.name, state.attempt, state.value) == ("failed", 1, "AssertionError: no")
    assert world.join(second, failed=1).attempt == 2
    second.fail("not here", skipped=True)
    assert world.join(first).name == "skipped"


def test_an_interrupted_process_is_replaced_at_once(world: World) -> None:
    first = world.process("gw0")
    world.join(first)
    first.abandon()
    assert world.join(world.process("gw1")).name == "making"
    assert world.clock.monotonic() == 0


def test_kinds_of_all_processes_are_recorded_for_the_janitor(world: World) -> None:
    first, second = world.process("gw0"), world.process("gw1")
    world.join(first)
    first.record("a.v1.")
    first.publish("t-db", "u", "null")
    second.record("b.v1.")
    second.record("a.v1.")
    assert world.notes["pytest-kwait/kinds"] == "a.v1.,b.v1."


def test_the_right_to_have_leases_is_needed(world: World) -> None:
    class WithoutLease:
        def place(self) -> str:
            return ""

    with pytest.raises(ClusterError) as caught:
        world.join(world.process("gw0", WithoutLease()))
    assert str(caught.value) == (
        "environment conftest.py::db of scope run needs the right to create and update Leases in "
        "namespace default; or give it the scope session"
    )
    denied = ApiError("no", status=403, reason="Forbidden")
    lease = world.process("gw0")
    world.transport.refuse("GET", LEASES.path("default", lease.place().split("/")[1]), denied)
    with pytest.raises(ClusterError, match=r"of environment conftest\.py::db cannot be used: "):
        world.join(lease)


@pytest.mark.parametrize("alive", [True, False])
def test_the_janitor_removes_it_once_no_process_of_the_run_lives(world: World, alive: bool) -> None:
    lease = world.process("gw0")
    world.join(lease)
    owner = Owner("r1", "environment conftest.py::db", "db", nonce="n")
    made = owner.manifest(world.clock.time(), lease.place())
    made["metadata"]["uid"] = "u"
    path = f"/api/v1/namespaces/{owner.name}"
    world.transport.objects[path] = made
    run = RunLeaseRenewer(world.client, "r1", "n", interval=1000.0)
    if alive:
        run.place()
    world.transport.now = world.clock.time()
    try:
        sweep = Janitor(world.client).sweep(Deadline.after(10.0, world.clock))
    finally:
        run.end()
    assert (path in world.transport.objects) is alive
    assert sweep.leases == (0 if alive else 1)


def test_values_are_json_of_limited_length() -> None:
    assert json.loads(encode_value({"a": [1, None]})) == {"a": [1, None]}
    with pytest.raises(ClusterError, match=r"^other processes cannot be given the value nan: "):
        encode_value(float("nan"))
    with pytest.raises(ClusterError) as caught:
        encode_value("x" * 100_000)
    assert str(caught.value) == (
        "other processes cannot be given a value of 100002 characters as JSON; at most 100000 are "
        "possible: put it into a config map"
    )

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.apimachinery.times import format_time
from pytest_kwait.client.resource import LEASES
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.suite.cleanup.janitor import Janitor
from pytest_kwait.suite.cleanup.owned_objects import ENVIRONMENTS_RUN, Owner
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

    def staying(self, run: RunLeaseRenewer) -> EnvironmentLease:
        """A process of another run, which needs an environment that stays."""
        return EnvironmentLease(
            self.client,
            run.place(),
            "shop/conftest.py::db",
            "gw0",
            registration=cast("Any", run),
            lifetime=3600.0,
        )

    def run(self, name: str) -> RunLeaseRenewer:
        return RunLeaseRenewer(self.client, name, "n", interval=1000.0)

    def join(self, lease: EnvironmentLease, failed: int = 0, limit: float = 600.0) -> Any:
        return lease.join(Deadline.after(limit, self.clock), failed, self.said.append)

    @property
    def notes(self) -> dict[str, str]:
        [lease] = [each for path, each in self.transport.objects.items() if "/leases/" in path]
        notes: dict[str, str] = lease["metadata"]["annotations"]
        return notes


if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.suite.environments import EnvironmentState


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
        "environment conftest.py::db was not ready in time: gw1 is making it (Lease "
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


@pytest.fixture
def runs(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RunLeaseRenewer]]:
    """Two runs that live."""
    monkeypatch.setattr("pytest_kwait.suite.cleanup.run_lease.LeaseRenewer", Unrenewed)
    runs = [world.run("r1"), world.run("r2")]
    for run in runs:
        run.place()
    yield runs
    for run in runs:
        run.end()


def _make(world: World, run: RunLeaseRenewer) -> EnvironmentLease:
    lease = world.staying(run)
    assert world.join(lease).name == "making"
    assert lease.publish("t-db", "u1", "1", '{"inputs": {}}')
    return lease


def _join(world: World, run: RunLeaseRenewer, reason: str = "", limit: float = 5.0) -> Any:
    looks: list[EnvironmentState] = []

    def check(state: EnvironmentState) -> str:
        looks.append(state)
        return reason

    limits = Deadline.after(limit, world.clock)
    state = world.staying(run).join(limits, 0, world.said.append, check)
    return state, len(looks)


def test_an_environment_that_stays_is_used_by_the_next_run(
    world: World, runs: list[RunLeaseRenewer]
) -> None:
    first, second = runs
    _make(world, first)
    first.end()
    state, looks = _join(world, second)
    assert (state.name, state.namespace, state.value, looks) == ("ready", "t-db", "1", 1)
    assert (state.record, state.is_known) == ('{"inputs": {}}', False)
    # Other processes of that run do not look again, whatever its tests have done.
    state, looks = _join(world, second, "something has changed")
    assert (state.name, state.is_known, looks) == ("ready", True, 0)


def test_an_environment_that_has_changed_is_made_again_once_no_other_run_uses_it(
    world: World, runs: list[RunLeaseRenewer]
) -> None:
    first, second = runs
    _make(world, first)
    with pytest.raises(ClusterError) as caught:
        _join(world, second, "a.yaml has changed")
    used = f"a.yaml has changed, and the run with the Lease {first.place()} uses it"
    lease = world.staying(second)
    assert str(caught.value) == (
        f"environment shop/conftest.py::db was not ready in time: {used} (Lease {lease.place()})"
    )
    assert world.said[0] == f"environment shop/conftest.py::db: {used}"
    world.clock.call_later(2.5, first.end)
    state, looks = _join(world, second, "a.yaml has changed")
    assert (state.name, state.attempt, state.reason) == ("making", 2, "a.yaml has changed")
    assert looks == 4


def test_a_failure_of_an_earlier_run_is_no_failure_of_this_one(
    world: World, runs: list[RunLeaseRenewer]
) -> None:
    first, second = runs
    lease = world.staying(first)
    world.join(lease)
    lease.fail("AssertionError: no")
    assert world.join(world.staying(first)).name == "failed"
    state = world.join(world.staying(second))
    assert (state.name, state.attempt, state.reason) == ("making", 2, "")


def test_the_record_of_an_environment_is_limited(world: World, runs: list[RunLeaseRenewer]) -> None:
    lease = world.staying(runs[0])
    world.join(lease)
    with pytest.raises(ClusterError) as caught:
        lease.publish("t-db", "u1", "1", "x" * 140_001)
    assert str(caught.value) == (
        "environment shop/conftest.py::db cannot stay: its inputs and objects take 140001 "
        "characters, and at most 140000 are possible; give it the scope run, or make several of it"
    )


@pytest.mark.parametrize(
    ("used", "forced", "later", "removed"),
    [
        (False, False, 0.0, False),
        (False, False, 3601.0, True),
        (False, True, 0.0, True),
        (True, True, 0.0, False),
        (True, False, 3601.0, False),
    ],
)
def test_the_janitor_removes_environments_that_have_expired_or_all(
    world: World,
    runs: list[RunLeaseRenewer],
    used: bool,
    forced: bool,
    later: float,
    removed: bool,
) -> None:
    lease = _make(world, runs[0])
    owner = Owner(ENVIRONMENTS_RUN, "environment shop/conftest.py::db", "db", nonce="n")
    made = owner.manifest(world.clock.time(), lease.place())
    made["metadata"]["uid"] = "u"
    path = f"/api/v1/namespaces/{owner.name}"
    world.transport.objects[path] = made
    world.transport.now = world.clock.time() + later
    if not used:
        runs[0].end()
    only = ENVIRONMENTS_RUN if forced else None
    janitor = Janitor(world.client, run=only, environments=forced)
    sweep = janitor.sweep(Deadline.after(10.0, world.clock))
    assert (path not in world.transport.objects) is removed
    lines = [line for line in sweep.lines() if line.startswith("environment ")]
    until = format_time(world.clock.time() + 3600)
    fate = (
        f"ends: it was to stay until {until}"
        if removed
        else ("is used by a run: left alone" if used else f"stays until {until}: left alone")
    )
    assert lines == [f"environment shop/conftest.py::db (lease {lease.place()}) {fate}"]
    if removed:
        summary = "removed 1 namespace, 0 other objects and 1 Lease of 1 environment"
        assert sweep.summary() == summary
        # Until it is gone, and after that, a run makes another one.
        assert _join(world, runs[1])[0].name == "making"


def test_an_environment_that_a_janitor_removes_is_made_again(
    world: World, runs: list[RunLeaseRenewer]
) -> None:
    first, _ = runs
    lease = _make(world, first)
    path = LEASES.path("default", lease.place().split("/")[1])
    world.transport.objects[path]["metadata"]["annotations"]["pytest-kwait/removed"] = "true"
    state, looks = _join(world, first)
    assert (state.name, state.reason, looks) == ("making", "a janitor has removed it", 0)


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

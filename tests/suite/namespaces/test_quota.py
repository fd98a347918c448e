from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.namespaces.namespaces import NamespaceQuota
from pytest_kwait.testing import FakeClock
from tests.suite.fakes import FakeClient, FakeTransport

_PATH = "/api/v1/namespaces"
_LIST = f"GET {_PATH}"


class World:
    """A run on a cluster that deletes namespaces with a delay."""

    def __init__(
        self, limit: int = 2, rate: float = 1000.0, *, has_controllers: bool = True
    ) -> None:
        self.transport = FakeTransport()
        self.clock = FakeClock()
        client: Any = FakeClient(self.transport, self.clock)
        sources = ("default", "env KWAIT_NAMESPACE_RATE")
        self.turns = NamespaceQuota(
            ApiSession.of(client),
            "r1",
            limit=limit,
            rate=rate,
            sources=sources,
            has_controllers=has_controllers,
        )

    def make(self, number: int, seconds: float = 0.0, **notes: str) -> str:
        """Take a turn, and make the namespace if it came; return what was said."""
        owner = Owner("r1", f"t{number}", f"t{number}")
        said = self.turns.acquire(owner.name, seconds)
        if not said:
            manifest = owner.manifest(0.0)
            manifest["metadata"]["annotations"] |= notes
            manifest["metadata"]["uid"] = str(number)
            self.transport.objects[f"{_PATH}/{owner.name}"] = manifest
        return said

    def gone(self, number: int) -> None:
        del self.transport.objects[f"{_PATH}/{Owner('r1', f't{number}', f't{number}').name}"]

    def going(self, number: int) -> None:
        name = Owner("r1", f"t{number}", f"t{number}").name
        metadata = self.transport.objects[f"{_PATH}/{name}"]["metadata"]
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def test_no_list_below_the_limit() -> None:
    world = World()
    assert [world.make(1), world.make(2)] == ["", ""]
    assert world.transport.requests == []


def test_terminating_namespaces_count() -> None:
    world = World()
    world.make(1)
    world.make(2)
    world.going(1)
    assert world.make(3, 5.0) == (
        "the run has 2 namespaces, 1 of them being deleted, and may have 2 at a time "
        "(--kwait-namespace-limit from default) and make 1000 a second (--kwait-namespace-rate "
        "from env KWAIT_NAMESPACE_RATE); to see them: kubectl get namespaces "
        f"-l pytest-kwait/run={Owner('r1', 't', 't').labels['pytest-kwait/run']}"
    )
    assert 4.0 < world.clock.monotonic() <= 5.0
    assert world.transport.requests.count(_LIST) == 10
    world.gone(1)
    assert world.make(3, 5.0) == ""


def test_terminating_namespaces_do_not_count_where_no_controller_removes_them() -> None:
    world = World(limit=1, has_controllers=False)
    for number in range(3):
        assert world.make(number, 5.0) == ""
        world.going(number)
    assert world.make(4, 5.0) == ""
    assert "the run has 1 namespaces, 0 of them being deleted" in world.make(5, 5.0)


def test_expired_deadline_sends_no_list() -> None:
    world = World(limit=1)
    world.make(1)
    assert "the run has 1 namespaces" in world.make(2)
    assert world.transport.requests == []


def test_kept_namespaces_do_not_count() -> None:
    world = World(limit=1)
    for number in range(3):
        assert world.make(number, 5.0, **{"pytest-kwait/kept": "true"}) == ""


def test_unlisted_namespace_counts_for_a_while() -> None:
    world = World(limit=1)
    world.turns.acquire("kwait-r1-refused", 0.0)
    assert world.make(1, 4.0) != ""
    assert world.make(1, 2.0) == ""


def test_namespaces_of_other_runs_do_not_count() -> None:
    world = World(limit=1)
    other = Owner("r1", "o", "o", shard="2/4").manifest(0.0)
    world.transport.objects[f"{_PATH}/other"] = other
    other["metadata"]["name"] = "other"
    world.make(1)
    world.gone(1)
    # Never seen, so it may yet come; then it is known to be gone.
    assert world.make(2, 6.0) == ""


def test_creation_rate_is_limited() -> None:
    world = World(limit=100, rate=4.0)
    for number in range(4):
        assert world.make(number) == ""
    assert world.clock.monotonic() == 0
    assert "make 4 a second" in world.make(4)
    for number in range(4, 12):
        assert world.make(number, 10.0) == ""
    assert world.clock.monotonic() == pytest.approx(2.0)


def test_creation_rate_below_one_per_second() -> None:
    world = World(rate=0.1)
    assert world.make(1) == ""
    assert "make 0.1 a second" in world.make(2, 5.0)
    assert world.make(2, 10.0) == ""
    assert world.clock.monotonic() == pytest.approx(10.0)


def test_forbidden_list_lifts_the_limit_with_a_message() -> None:
    world = World(limit=1)
    denied = ApiError("no", status=403, reason="Forbidden", method="GET", path=_PATH)
    world.transport.refuse("GET", _PATH, denied)
    assert [world.make(number, 5.0) for number in range(4)] == [""] * 4
    assert world.turns.problem == (
        "nothing bounds how many namespaces there are at a time, as they cannot be listed: GET "
        "/api/v1/namespaces: 403 Forbidden: no"
    )
    assert world.transport.requests.count(_LIST) == 1


def test_failed_list_is_retried() -> None:
    world = World(limit=1)
    world.make(1)
    world.transport.refuse("GET", _PATH, *[ApiError("busy", status=503)] * 3)
    assert world.make(2, 8.0) != ""
    world.gone(1)
    assert world.make(2, 8.0) == ""
    assert world.turns.problem is None

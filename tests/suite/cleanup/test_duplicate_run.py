from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.times import format_micro_time, format_time
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.owned_objects import run_label_value, run_lease_name
from pytest_kwait.suite.cleanup.run_lease import DuplicateRun, find_duplicate_run
from pytest_kwait.testing import FakeClock
from tests.suite.fakes import FakeClient, FakeTransport

_HOME = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_NOW = 1_700_000_000.0


class World:
    """A cluster with the Lease of this run, and perhaps of others."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.transport.now = _NOW
        self.clock = World.Clock(self)
        self.told: list[str] = []
        self.beating: dict[str, float] = {}
        self.own = self.lease("own", created=0.0)

    class Clock(FakeClock):
        """While it is slept, Leases are renewed."""

        def __init__(self, world: World) -> None:
            super().__init__()
            self._world = world

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            for path, interval in self._world.beating.items():
                if self.monotonic() >= interval and path in self._world.transport.objects:
                    metadata = self._world.transport.objects[path]["metadata"]
                    metadata["resourceVersion"] = "renewed"

    def lease(
        self,
        nonce: str,
        *,
        created: float,
        renewed: float = 0.0,
        shard: str = "",
        interval: float = 30.0,
        **notes: str,
    ) -> str:
        """Add the Lease of a run; return its path."""
        name = run_lease_name("ci-7", nonce)
        labels = {
            "app.kubernetes.io/managed-by": "pytest-kwait",
            "pytest-kwait/run": run_label_value("ci-7"),
            **({"pytest-kwait/shard": shard} if shard else {}),
        }
        said = {"run": "ci-7", "nonce": nonce, **notes}
        self.transport.objects[f"{_HOME}/{name}"] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": nonce,
                "resourceVersion": "1",
                "creationTimestamp": format_time(_NOW + created),
                "labels": labels,
                "annotations": {f"pytest-kwait/{key}": value for key, value in said.items()},
            },
            "spec": {
                "holderIdentity": f"host-{nonce}_1",
                "leaseDurationSeconds": int(4 * interval),
                "renewTime": format_micro_time(_NOW + renewed),
            },
        }
        return f"{_HOME}/{name}"

    def rival(self, shard: str = "", limit: float = 60.0) -> DuplicateRun | None:
        client: Any = FakeClient(self.transport, self.clock)
        place = f"default/{self.own.rpartition('/')[2]}"
        deadline = Deadline.after(limit, self.clock)
        return find_duplicate_run(
            ApiSession.of(client), "ci-7", shard, place, deadline, self.told.append
        )


def test_check_without_duplicates_costs_one_request() -> None:
    world = World()
    assert world.rival() is None
    assert world.transport.requests == [f"GET {_HOME}"]
    assert world.told == []


def test_running_duplicate_is_found_at_its_next_renewal() -> None:
    world = World()
    world.beating[world.lease("other", created=-60.0, renewed=-10.0)] = 20.0
    rival = world.rival()
    assert rival is not None
    assert world.clock.monotonic() == pytest.approx(20.0)
    assert world.told == ["a run ci-7 was here a moment ago: looking whether it lives"]
    assert rival.message("ci-7", "env KWAIT_RUN_ID") == (
        "two runs go by the id 'ci-7' (from env KWAIT_RUN_ID): this one, and one that host-other_1 "
        "began at 2023-11-14T22:12:20Z and that is still going on (Lease default/"
        f"{run_lease_name('ci-7', 'other')}). Give each its own --kwait-run-id; parts of one run "
        "tell themselves apart by --kwait-shard"
    )


def test_restarted_run_waits_until_its_old_lease_expires() -> None:
    world = World()
    world.lease("past", created=-60.0, renewed=-10.0)
    assert world.rival() is None
    assert 35.0 <= world.clock.monotonic() <= 37.0


@pytest.mark.parametrize(
    "other",
    [
        {"created": 1.0},
        {"created": -60.0, "renewed": -46.0},
        {"created": -60.0, "ended": "true"},
        {"created": -60.0, "shard": "2-4"},
    ],
    ids=["later", "overdue", "ended", "another shard"],
)
def test_other_runs_are_not_watched(other: dict[str, Any]) -> None:
    world = World()
    world.beating[world.lease("other", **other)] = 0.0
    assert world.rival() is None
    assert world.clock.monotonic() == 0


def test_duplicate_shard_is_refused() -> None:
    world = World()
    world.own = world.lease("own", created=0.0, shard="2-4")
    world.beating[world.lease("other", created=0.0, shard="2-4")] = 1.0
    assert world.rival("2/4") is not None


def test_duplicate_that_ends_is_ignored() -> None:
    world = World()
    path = world.lease("other", created=-1.0)
    world.beating[path] = 1e9

    def end() -> None:
        del world.transport.objects[path]

    world.told = _Then(end)
    assert world.rival() is None
    assert world.clock.monotonic() == pytest.approx(1.0)


class _Then(list[str]):
    """Calls a function at each report."""

    def __init__(self, then: Any) -> None:
        self._then = then

    def append(self, line: str) -> None:
        self._then()


def test_watching_ends_at_the_limit() -> None:
    world = World()
    world.lease("other", created=-1.0, interval=3600.0)
    assert world.rival(limit=5.0) is None
    assert world.clock.monotonic() <= 5.0


def test_forbidden_list_skips_the_check() -> None:
    world = World()
    world.beating[world.lease("other", created=-1.0)] = 0.0
    world.transport.refuse("GET", _HOME, ApiError("no", status=403, reason="Forbidden"))
    assert world.rival() is None

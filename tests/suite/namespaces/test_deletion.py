from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.apimachinery.times import format_time
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.namespaces.namespaces import NamespaceDeletions
from pytest_kwait.testing import FakeClock
from tests.suite.fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from pytest_kwait.client.responses import Response
    from pytest_kwait.clock import Deadline

_PATH = "/api/v1/namespaces"
_LEFT = (
    "Some resources are remaining: configmaps. has 1 resource instances, "
    "deployments.apps has 2 resource instances, lost.example.com has 1 resource instances"
)


class World:
    """A cluster that deletes namespaces at planned times."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.clock = World.Clock(self)
        self.ends: dict[str, float] = {}
        self.told: list[str] = []

    class Clock(FakeClock):
        """While it is slept, the server works."""

        def __init__(self, world: World) -> None:
            super().__init__()
            self._world = world

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            for path, end in self._world.ends.items():
                if self.monotonic() >= end:
                    self._world.transport.objects.pop(path, None)

    def namespace(self, number: int, end: float = 1e9, **status: Any) -> dict[str, Any]:
        owner = Owner("r1", f"t{number}", f"t{number}")
        made = owner.manifest(0.0)
        made["metadata"] |= {
            "name": f"kwait-{number}",
            "uid": f"uid-{number}",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }
        made["spec"] = {"finalizers": ["kubernetes"]}
        made["status"] = status
        path = f"{_PATH}/kwait-{number}"
        self.transport.objects[path] = made
        self.ends[path] = end
        return made

    def look(self, *numbers: int) -> list[str]:
        client: Any = FakeClient(self.transport, self.clock)
        going = {f"kwait-{number}": f"uid-{number}" for number in numbers}
        return NamespaceDeletions(client, "r1", going).look()

    def wait(self, *numbers: int, limit: float = 10.0) -> list[str]:
        client: Any = FakeClient(self.transport, self.clock)
        going = {f"kwait-{number}": f"uid-{number}" for number in numbers}
        return NamespaceDeletions(client, "r1", going).wait(limit, self.told.append)


def _condition(kind: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "message": message}


def test_deleted_namespaces_cost_one_request() -> None:
    world = World()
    assert world.wait(1) == []
    assert (world.transport.requests, world.told) == ([f"GET {_PATH}"], [])


def test_wait_returns_after_deletion_and_reports_progress() -> None:
    world = World()
    world.namespace(1, end=2.0)
    world.namespace(2, end=4.2)
    assert world.wait(1, 2, limit=120.0) == []
    assert world.clock.monotonic() == pytest.approx(4.5)
    assert world.told == ["waiting up to 2m0s until 2 namespaces are gone"]


def test_only_requested_deletions_are_awaited() -> None:
    world = World()
    world.namespace(1)["metadata"]["uid"] = "another"
    world.namespace(2)
    assert world.wait(1) == []
    assert world.clock.monotonic() == 0


def test_remaining_objects_and_finalizers_are_named() -> None:
    world = World()
    conditions = [
        _condition("NamespaceContentRemaining", _LEFT),
        _condition("NamespaceFinalizersRemaining", "example.com/hold in 1 resource instances"),
    ]
    world.namespace(1, conditions=conditions)
    for path, metadata in (
        ("configmaps/held", {"finalizers": ["example.com/hold", "example.com/too"]}),
        ("deployments/going", {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ("deployments/new", {}),
    ):
        plural, name = path.split("/")
        home = _PATH if plural == "configmaps" else "/apis/apps/v1/namespaces"
        world.transport.objects[f"{home}/kwait-1/{path}"] = {
            "metadata": {"name": name, "namespace": "kwait-1", **metadata}
        }
    assert world.wait(1) == [
        "1 namespace is not gone after 10s; the server is still deleting:",
        "  kwait-1 (t1): configmap/held is held by finalizers example.com/hold, example.com/too; "
        "deployment/going is being deleted; deployment/new is not being deleted",
    ]


def test_namespace_finalizers_and_conditions_are_reported() -> None:
    world = World()
    world.namespace(1)["metadata"]["finalizers"] = ["example.com/whole"]
    failure = "Discovery failed for some groups, 1 failing: metrics.k8s.io/v1beta1: stale"
    world.namespace(2, conditions=[_condition("NamespaceDeletionDiscoveryFailure", failure)])
    assert world.wait(1, 2)[1:] == [
        "  kwait-1 (t1): being deleted: held by its own finalizers example.com/whole",
        f"  kwait-2 (t2): being deleted: its kinds cannot be discovered: {failure}",
    ]


def test_many_remaining_objects_are_counted() -> None:
    world = World()
    for number in range(8):
        world.namespace(number)
    lines = world.wait(*range(8))
    assert lines[0] == "8 namespaces are not gone after 10s; the server is still deleting:"
    assert lines[5:] == ["  kwait-4 (t4): being deleted", "  and 3 more"]


def test_forbidden_list_falls_back_to_gets() -> None:
    world = World()
    world.namespace(1, end=1.0)
    denied = ApiError("no", status=403, reason="Forbidden", method="GET", path=_PATH)
    world.transport.refuse("GET", _PATH, denied)
    assert world.wait(1, 2) == []
    assert world.transport.requests[:3] == [
        f"GET {_PATH}",
        f"GET {_PATH}/kwait-1",
        f"GET {_PATH}/kwait-2",
    ]
    assert world.transport.requests.count(f"GET {_PATH}") == 1


def test_unreadable_namespaces_are_reported() -> None:
    world = World()
    for path in (_PATH, f"{_PATH}/kwait-1"):
        denied = ApiError("no", status=403, reason="Forbidden", method="GET", path=path)
        world.transport.refuse("GET", path, denied)
    assert world.wait(1) == [
        "whether 1 namespace is gone cannot be seen: GET /api/v1/namespaces/kwait-1: 403 "
        "Forbidden: no"
    ]


def test_limit_during_a_request_reports_the_last_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.namespace(1)
    send = world.transport.send

    def slow(*arguments: Any, deadline: Deadline, **options: Any) -> Response:
        if world.clock.monotonic() < 3.0 or deadline.remaining > 1.0:
            return send(*arguments, deadline=deadline, **options)
        world.clock.sleep(deadline.remaining)
        raise ApiError("no complete answer within 1s", method="GET", path=_PATH)

    monkeypatch.setattr(world.transport, "send", slow)
    assert world.wait(1, limit=3.6) == [
        "1 namespace is not gone after 3.6s; the server is still deleting:",
        "  kwait-1 (t1): being deleted",
    ]


_STILL = (
    "still being deleted; later runs and `kwait janitor` report what stays "
    "(--kwait-deletion-wait waits)"
)


def test_a_look_counts_fresh_deletions_and_describes_late_ones() -> None:
    world = World()
    started = world.clock.time()
    for number, age in ((1, 59.0), (2, 5.0), (3, 61.0)):
        world.namespace(number)["metadata"]["deletionTimestamp"] = format_time(started - age)
    assert world.look(1, 2, 3, 4) == [
        f"2 namespaces are {_STILL}",
        "1 namespace is not gone after 1m0s; the server is still deleting:",
        "  kwait-3 (t3): being deleted",
    ]
    assert world.clock.monotonic() == 0


def test_a_look_at_namespaces_that_are_gone_is_silent() -> None:
    world = World()
    assert world.look(1) == []
    assert world.transport.requests == [f"GET {_PATH}"]


def test_a_look_that_fails_is_reported() -> None:
    world = World()
    broken = ApiError("no", status=400, reason="BadRequest", method="GET", path=_PATH)
    world.transport.refuse("GET", _PATH, broken)
    [line] = world.look(1)
    assert line.startswith("whether 1 namespace is gone cannot be seen: ")

from __future__ import annotations

import threading
from typing import Any

import pytest

from pytest_kwait.client.resource import CONFIG_MAPS, JOBS
from pytest_kwait.clock import SystemClock
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.owned_objects import run_lease_name
from pytest_kwait.suite.cleanup.run_lease import (
    RunLeaseRenewer,
    format_kind,
    read_run_lease,
    read_server_time,
)
from tests.suite.fakes import FakeClient, FakeTransport

_NAME = run_lease_name("r1", "ab")
_HOME = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_PATH = f"{_HOME}/{_NAME}"


class BeatClock(SystemClock):
    """Pauses that last until the test lets them end."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.pauses: list[float | None] = []
        self._go = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)

    def time(self) -> float:
        return self.seconds

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        if timeout == 0:
            self.pauses.append(timeout)
        if timeout is not None and timeout < 1:
            # Between two tries of one request.
            return event.is_set()
        self.pauses.append(timeout)
        self._paused.release()
        while not self._go.acquire(timeout=0.01):
            if event.is_set():
                return True
        return event.is_set()

    def paused(self) -> None:
        """Return once the heart rests."""
        assert self._paused.acquire(timeout=10)

    def beat(self) -> None:
        """Let one pause end; return once the next has begun."""
        self._go.release()
        self.paused()


@pytest.fixture
def clock() -> BeatClock:
    return BeatClock()


@pytest.fixture
def transport() -> FakeTransport:
    transport = FakeTransport()
    transport.now = 1000.0
    return transport


def heart(transport: FakeTransport, clock: BeatClock, **options: Any) -> RunLeaseRenewer:
    client: Any = FakeClient(transport, clock)
    return RunLeaseRenewer(client, "r1", "ab", **options)


def lease(transport: FakeTransport, path: str = _PATH) -> Any:
    found = read_run_lease(transport.objects[path])
    assert found is not None
    return found


def test_no_request_before_the_first_object(transport: FakeTransport, clock: BeatClock) -> None:
    heart(transport, clock).end()
    assert transport.requests == []


def test_a_short_run_costs_two_requests(transport: FakeTransport, clock: BeatClock) -> None:
    beating = heart(transport, clock)
    assert beating.place() == beating.place() == f"default/{_NAME}"
    clock.paused()
    assert lease(transport).duration == 120.0
    assert lease(transport).renewed == 1000.0
    beating.end()
    assert transport.requests == [f"POST {_HOME}", f"DELETE {_PATH}"]
    assert clock.pauses == [30.0]
    assert beating.problem is None
    assert beating.place() == ""


def test_lease_is_renewed_during_the_run(transport: FakeTransport, clock: BeatClock) -> None:
    beating = heart(transport, clock, interval=10.0, namespace="team-a")
    assert beating.place() == f"team-a/{_NAME}"
    clock.paused()
    path = _PATH.replace("default", "team-a")
    for _ in range(2):
        clock.seconds += 10
        assert transport.now is not None
        transport.now += 10
        clock.beat()
    assert (lease(transport, path).renewed, lease(transport, path).duration) == (1020.0, 40.0)
    beating.end()
    assert path not in transport.objects


def test_lease_times_are_the_servers(transport: FakeTransport, clock: BeatClock) -> None:
    transport.now = 5000.0
    beating = heart(transport, clock)
    beating.place()
    clock.paused()
    # Written again at once, as the first time was by our own clock.
    assert clock.pauses == [0.0, 30.0]
    assert lease(transport).renewed == 5000.0
    beating.end()


def test_lost_first_request_is_retried(transport: FakeTransport, clock: BeatClock) -> None:
    other = heart(transport, clock)
    other.place()
    transport.refuse("POST", _HOME, ApiError("reset", reason="ConnectionReset"))
    # The first try has created it, as no other run uses this name.
    beating = heart(transport, clock)
    assert beating.place() == f"default/{_NAME}"
    beating.end()
    other.end()


def test_kinds_are_recorded_once(transport: FakeTransport, clock: BeatClock) -> None:
    beating = heart(transport, clock)
    for resource in (CONFIG_MAPS, JOBS, CONFIG_MAPS):
        beating.record(format_kind(resource))
    assert lease(transport).kinds == ("configmaps.v1.", "jobs.v1.batch")
    assert transport.requests.count(f"PATCH {_PATH}") == 2
    beating.end(leave=True)
    assert lease(transport).ended
    assert beating.problem is None


def test_lease_of_shared_objects_stays_and_says_so(
    transport: FakeTransport, clock: BeatClock
) -> None:
    beating = heart(transport, clock)
    beating.place()
    beating.end(shared=True)
    assert (lease(transport).ended, lease(transport).shared) == (True, True)


def test_deleted_lease_is_created_again(transport: FakeTransport, clock: BeatClock) -> None:
    beating = heart(transport, clock)
    beating.record("configmaps.v1.")
    clock.paused()
    del transport.objects[_PATH]
    clock.beat()
    assert lease(transport).kinds == ("configmaps.v1.",)
    beating.end()


def test_forbidden_lease_does_not_stop_the_run(transport: FakeTransport, clock: BeatClock) -> None:
    transport.refuse("POST", _HOME, ApiError("leases is forbidden", status=403, reason="Forbidden"))
    beating = heart(transport, clock)
    assert beating.place() == beating.place() == ""
    beating.record("configmaps.v1.")
    beating.end()
    assert transport.requests == [f"POST {_HOME}"]
    assert beating.problem is not None
    assert beating.problem.startswith(
        "no Lease in namespace default can say that the run lives, so what a killed run leaves "
        "stays until it expires: "
    )


def test_failed_renewal_is_retried_at_the_next_interval(
    transport: FakeTransport, clock: BeatClock
) -> None:
    beating = heart(transport, clock)
    beating.place()
    clock.paused()
    transport.refuse("PATCH", _PATH, ApiError("no", status=403, reason="Forbidden"))
    clock.beat()
    assert beating.problem is not None
    assert beating.problem.startswith(f"the Lease default/{_NAME} was not renewed: ")
    clock.seconds += 60
    clock.beat()
    assert lease(transport).renewed == 1060.0
    beating.end()


def test_run_detects_its_expired_lease(transport: FakeTransport, clock: BeatClock) -> None:
    beating = heart(transport, clock)
    beating.place()
    clock.paused()
    transport.objects[_PATH]["metadata"]["annotations"]["pytest-kwait/removed"] = "true"
    clock.beat()
    assert beating.problem == ("a janitor has taken this run for dead and removed what it had made")
    beating.end()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"date": "Thu, 01 Jan 1970 00:00:10 GMT"}, 10.0),
        ({"date": "soon"}, None),
        ({}, None),
    ],
)
def test_server_time_is_parsed(headers: dict[str, str], seconds: float | None) -> None:
    assert read_server_time(headers) == seconds

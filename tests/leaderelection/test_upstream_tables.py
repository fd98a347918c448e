"""The tables of upstream's leaderelection_test.go, with an elector that runs."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.errors import ApiError
from pytest_kwait.leaderelection import LeaderElector, LeaseLock
from pytest_kwait.testing import FakeClock
from tests.client.session_client import SessionClient
from tests.leaderelection.lease_store import LeaseStore, StoreSession

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.clock import Deadline

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


class Script(StoreSession):
    """Answers as the store does, or with the error that is planned for the n-th request.

    Args:
        spec: the Lease that is there; None for none.
        until: the number of the request with which the election is to be stopped; 0 for the first
            that writes.
        errors: by the number of the request, counted from 1.
    """

    def __init__(
        self,
        spec: dict[str, Any] | None,
        until: int = 0,
        errors: dict[int, ApiError] | None = None,
    ) -> None:
        super().__init__(LeaseStore())
        if spec is not None:
            self.store.put({**LEASE, "metadata": {"name": "bar", "namespace": "foo"}, "spec": spec})
        self.stop = threading.Event()
        self._until = until
        self._errors = errors or {}

    def ask(self, verb: str, call: Any, deadline: Deadline) -> Any:
        self.verbs.append(verb)
        if len(self.verbs) == self._until or (self._until == 0 and verb != "get"):
            self.stop.set()
        if len(self.verbs) in self._errors:
            raise self._errors[len(self.verbs)]
        return call()

    def run(self, clock: FakeClock, told: list[str], **options: Any) -> LeaderElector:
        options = {"lease_duration": 10, "renew_deadline": 5, "retry_period": 1, **options}
        elector = LeaderElector(
            LeaseLock(cast("ApiClient", SessionClient(self)), "foo", "bar", "baz"),
            on_started_leading=lambda ctx: None,
            on_stopped_leading=lambda: None,
            on_new_leader=told.append,
            clock=clock,
            **options,
        )
        assert elector.run(self.stop) is True
        return elector

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.store.get()["spec"]
        return spec


CONFLICT = ApiError("fake conflict", status=409, reason="Conflict")
NO_ANSWER = ApiError("context canceled", reason="ConnectionReset")


@pytest.mark.parametrize(
    ("spec", "verbs", "transitions", "told"),
    [
        pytest.param(None, ["get", "create"], 0, ["baz"], id="no object"),
        pytest.param({}, ["get", "update"], 1, ["baz"], id="object without a record"),
        pytest.param(
            {"holderIdentity": "", "leaseDurationSeconds": 10},
            ["get", "update"],
            1,
            ["baz"],
            id="unled object",
        ),
        pytest.param(
            {"holderIdentity": "bing", "leaseDurationSeconds": None},
            ["get", "update"],
            1,
            ["baz"],
            id="led, unacked object",
        ),
        pytest.param(
            {"holderIdentity": "bing", "leaseDurationSeconds": 1},
            ["get", "update"],
            1,
            ["bing", "baz"],
            id="led object, once its duration is over",
        ),
        pytest.param(
            {"holderIdentity": "baz", "leaseDurationSeconds": 10, "leaseTransitions": 3},
            ["get", "update"],
            3,
            ["baz"],
            id="object of one's own",
        ),
    ],
)
def test_what_is_acquired(
    spec: dict[str, Any] | None, verbs: list[str], transitions: int, told: list[str]
) -> None:
    clock, heard = FakeClock(), list[str]()
    script = Script(spec)
    elector = script.run(clock, heard)

    assert [verb for verb, _ in itertools.groupby(script.verbs)] == verbs
    assert (elector.get_leader(), script.spec["holderIdentity"]) == ("baz", "baz")
    assert script.spec["leaseTransitions"] == transitions
    assert heard == told


def test_what_is_held_is_not_acquired() -> None:
    clock, heard = FakeClock(), list[str]()
    script = Script({"holderIdentity": "bing", "leaseDurationSeconds": 10}, until=99)
    clock.call_later(9, script.stop.set)
    elector = script.run(clock, heard)

    assert set(script.verbs) == {"get"}
    assert (elector.get_leader(), heard, script.store.writes) == ("bing", ["bing"], 1)


def test_a_release_reads_first_and_leaves_nobody() -> None:
    script = Script(None, until=2)
    elector = script.run(FakeClock(), [], release_on_cancel=True)

    assert script.verbs == ["get", "create", "get", "update"]
    assert (elector.get_leader(), script.spec["holderIdentity"]) == ("", "")
    assert script.spec["leaseDurationSeconds"] == 1


@pytest.mark.parametrize(
    ("errors", "until", "verbs"),
    [
        pytest.param(
            {4: NO_ANSWER, 5: NO_ANSWER},
            4,
            ["get", "create", "update", "update", "get", "get", "update"],
            id="update",
        ),
        pytest.param(
            {3: NO_ANSWER, 6: NO_ANSWER, 7: NO_ANSWER},
            7,
            ["get", "create", "update", "get", "update", "update", "get", "get", "update"],
            id="get",
        ),
    ],
)
def test_a_renewal_that_is_cut_short_by_the_stop_is_followed_by_the_release(
    errors: dict[int, ApiError], until: int, verbs: list[str]
) -> None:
    script = Script(None, until, errors)
    script.run(FakeClock(), [], release_on_cancel=True)

    assert (script.verbs, script.store.holder) == (verbs, "")


@pytest.mark.parametrize(
    ("errors", "until", "verbs"),
    [
        pytest.param({}, 4, ["get", "create", "update", "update"], id="fast path"),
        pytest.param(
            {4: CONFLICT},
            7,
            ["get", "create", "update", "update", "get", "update", "update"],
            id="slow path after the fast one has failed",
        ),
    ],
)
def test_a_leader_writes_without_reading(
    errors: dict[int, ApiError], until: int, verbs: list[str]
) -> None:
    script = Script(None, until, errors)
    script.run(FakeClock(), [])

    assert script.verbs == verbs

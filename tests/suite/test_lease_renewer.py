from __future__ import annotations

import pytest

from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.suite.lease_renewer import LeaseRenewer
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait.context import DeadlineExceeded


class Renewals:
    """Renewals of a Lease, the last of which stops them."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.clock = FakeClock()
        self.moments: list[float] = []
        self.failures: list[Exception] = []
        self.goes_on = True
        self._outcomes = list(outcomes)
        self.renewer = LeaseRenewer("kwait test", self._renew, 10.0, self.clock, self._on_failure)

    def _renew(self) -> None:
        self.moments.append(self.clock.monotonic())
        outcome = self._outcomes.pop(0)
        if not self._outcomes:
            self.renewer.stop()
        if outcome is not None:
            raise outcome

    def _on_failure(self, error: Exception) -> bool:
        self.failures.append(error)
        return self.goes_on

    def run(self, *, at_once: bool = False) -> list[float]:
        self.renewer.start(at_once=at_once)
        assert self.renewer.join(10)
        return self.moments


@pytest.mark.parametrize(("at_once", "moments"), [(False, [10.0, 20.0]), (True, [0.0, 10.0])])
def test_a_lease_is_renewed_at_its_interval(at_once: bool, moments: list[float]) -> None:
    assert Renewals(None, None).run(at_once=at_once) == moments


def test_a_failed_renewal_is_retried_at_the_next_interval() -> None:
    failures = [ApiError("busy", status=503), DeadlineExceeded()]
    renewals = Renewals(*failures, None)
    assert renewals.run() == [10.0, 20.0, 30.0]
    assert renewals.failures == failures


def test_a_final_failure_ends_the_renewals() -> None:
    renewals = Renewals(ClusterError("taken over"), None)
    renewals.goes_on = False
    assert renewals.run() == [10.0]
    assert not renewals.renewer.is_stopped


def test_one_that_is_stopped_before_its_start_renews_nothing() -> None:
    renewals = Renewals(None)
    renewals.renewer.stop()
    assert renewals.run(at_once=True) == []


def test_a_wake_renews_before_the_interval() -> None:
    renewals = Renewals(None)
    renewals.renewer.wake()
    assert renewals.run() == [0.0]

"""What only explains may be forbidden: the wait goes on without it, and asks for it no more."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.client.resource import EVENTS, PERSISTENT_VOLUME_CLAIMS
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitTimeout
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.storage.claims import wait_for_persistent_volume_claim_phase
from tests.engine.fake_session import FakeSession
from tests.objects import claim

FORBIDDEN = ApiError('User "robot" cannot list resource "events"', status=403, reason="Forbidden")


def wait(session: FakeSession, mode: Any, timeout: float = 60.0) -> Any:
    condition = condition_of(wait_for_persistent_volume_claim_phase)("ci-1", "data", "Bound")
    return wait_for_condition(session, condition, WaitSettings(timeout, mode=mode))


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_wait_continues_without_forbidden_events(mode: str) -> None:
    session = FakeSession()
    session.put(PERSISTENT_VOLUME_CLAIMS, claim("Pending"))
    session.at(9, session.put, PERSISTENT_VOLUME_CLAIMS, claim("Bound"))
    session.fail("list", EVENTS, *[FORBIDDEN] * 9)

    assert wait(session, mode)["status"]["phase"] == "Bound"
    assert session.clock.monotonic() == pytest.approx(9, abs=2)
    assert session.count("list events") == 1


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_refusal_is_reported_by_a_timeout(mode: str) -> None:
    session = FakeSession()
    session.put(PERSISTENT_VOLUME_CLAIMS, claim("Pending"))
    session.fail("list", EVENTS, *[FORBIDDEN] * 9)

    with pytest.raises(WaitTimeout) as caught:
        wait(session, mode, timeout=7.0)

    assert caught.value.evidence["last_api_error"] == f"403 Forbidden: {FORBIDDEN.message}"
    assert session.clock.monotonic() == 7.0


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_events_that_are_late_are_waited_for(mode: str) -> None:
    session = FakeSession()
    session.put(PERSISTENT_VOLUME_CLAIMS, claim("Pending"))
    session.at(9, session.put, PERSISTENT_VOLUME_CLAIMS, claim("Bound"))
    session.fail("list", EVENTS, ApiError("busy", status=500))

    wait(session, mode)
    assert session.count("list events") > 1


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_forbidden_required_source_ends_the_wait(mode: str) -> None:
    session = FakeSession()
    session.fail("list", PERSISTENT_VOLUME_CLAIMS, FORBIDDEN)

    with pytest.raises(ApiError, match="cannot list"):
        wait(session, mode)
    assert session.clock.monotonic() == 0.0

from __future__ import annotations

import pytest

from pytest_kwait.client.outage import StartupGrace
from pytest_kwait.errors import ApiError
from pytest_kwait.testing import FakeClock

AWAY = [
    ApiError("refused", reason="ConnectionRefused"),
    ApiError("reset", reason="ConnectionReset"),
    ApiError("a proxy's", status=502),
    ApiError("starting", status=503, reason="ServiceUnavailable"),
]
REFUSALS = [
    ApiError("who?", status=401, reason="Unauthorized"),
    ApiError("no", status=403, reason="Forbidden"),
]
by_refusal = pytest.mark.parametrize("refusal", REFUSALS, ids=str)


@by_refusal
def test_without_an_outage_a_refusal_is_final(refusal: ApiError) -> None:
    outage = StartupGrace(FakeClock())

    assert not outage.tolerates(refusal)
    assert not outage.tolerates(ApiError("slow down", status=429))
    assert not outage.tolerates(refusal)


@by_refusal
@pytest.mark.parametrize("away", AWAY, ids=str)
def test_after_an_outage_a_refusal_must_hold(away: ApiError, refusal: ApiError) -> None:
    clock = FakeClock()
    outage = StartupGrace(clock)
    assert not outage.tolerates(away)

    clock.advance(60.0)
    excused = []
    for _ in range(4):
        excused.append(outage.tolerates(refusal))
        clock.advance(2.0)

    assert excused == [True, True, True, False]


def test_each_outage_has_its_own_time_to_settle() -> None:
    clock = FakeClock()
    outage = StartupGrace(clock)
    for error in (AWAY[0], REFUSALS[1]):
        outage.tolerates(error)
    clock.advance(4.0)
    outage.tolerates(AWAY[0])
    clock.advance(4.0)

    assert outage.tolerates(REFUSALS[1])


def test_an_answer_ends_the_outage() -> None:
    outage = StartupGrace(FakeClock())
    outage.tolerates(AWAY[0])

    outage.over()

    assert not outage.tolerates(REFUSALS[1])


@pytest.mark.parametrize("status", [400, 404, 405, 409, 415, 422])
def test_what_else_is_final_stays_so(status: int) -> None:
    outage = StartupGrace(FakeClock())
    outage.tolerates(AWAY[0])

    assert not outage.tolerates(ApiError("no", status=status))

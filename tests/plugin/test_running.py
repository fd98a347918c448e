from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.plugin import running
from pytest_kwait.testing import FakeClock

FakeCluster = Callable[[], str]


def test_a_wait_ends_before_the_tests_own_timeout_and_says_so(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.timeout(3)
        def test_it(wait_for_job_complete):
            wait_for_job_complete("pi")
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert re.search(r"^E +pytest_kwait\.errors\.WaitTimeout: job \S+ did not become", output, re.M)
    assert re.search(
        r"^E +its limit of 15m0s was cut to (2\.)?\d+m?s "
        r"to end before the test's own timeout of 3s \(pytest-timeout\)$",
        output,
        re.M,
    )
    assert "Timeout (>" not in output


def test_setup_counts_where_pytest_timeout_counts_it(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_kwait.plugin.running import allowance_of

        @pytest.fixture
        def in_setup(request):
            return allowance_of(request.node)

        @pytest.mark.timeout(100)
        def test_all(request, in_setup):
            assert 80 < in_setup.seconds <= 90
            assert 80 < allowance_of(request.node).seconds <= 90

        @pytest.mark.timeout(100, func_only=True)
        def test_body(request, in_setup):
            assert in_setup is None
            assert 80 < allowance_of(request.node).seconds <= 90

        def test_none(request, in_setup):
            assert in_setup is None
            assert allowance_of(request.node) is None
        """
    )
    pytester.runpytest().assert_outcomes(passed=3)


class Item:
    def __init__(self) -> None:
        self.stash = pytest.Stash()


class Limits:
    def __init__(self, timeout: float) -> None:
        self.timeout = timeout


@pytest.mark.parametrize(
    ("limit", "passed", "left"),
    [(60.0, 0.0, 50.0), (60.0, 20.0, 30.0), (60.0, 55.0, 0.0), (5.0, 0.0, 4.0)],
)
def test_time_for_evidence_and_teardown_is_left(
    limit: float, passed: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    item: Any = Item()
    monkeypatch.setattr(
        "pytest_kwait.clock.Deadline.after",
        lambda seconds: Deadline(clock.monotonic() + seconds, clock),
    )
    running.pytest_timeout_set_timer(item, Limits(limit))
    clock.advance(passed)
    allowance = running.allowance_of(item)
    assert allowance is not None
    assert allowance.seconds == pytest.approx(left)
    running.pytest_timeout_cancel_timer(item)
    assert running.allowance_of(item) is None
    running.pytest_timeout_cancel_timer(item)


def test_no_test_has_no_limit() -> None:
    assert running.allowance_of(None) is None

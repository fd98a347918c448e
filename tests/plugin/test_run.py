from __future__ import annotations

import re
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.plugin import run
from pytest_kwait.testing import FakeClock

FakeCluster = Callable[[], str]


WAITS = """
import threading

import pytest

from pytest_kwait.plugin import run

# So that waits are short, and a slow machine has time for all else.
run._RESERVED_PART = run._TEARDOWN_PART = 0.93


def test_body(wait_for_job_complete):
    wait_for_job_complete("body")


@pytest.fixture
def in_setup(wait_for_job_complete):
    wait_for_job_complete("setup")


def test_setup(in_setup): pass


@pytest.fixture
def in_teardown(wait_for_job_complete):
    yield
    wait_for_job_complete("teardown")


def test_teardown(in_teardown): pass


@pytest.fixture(scope="module")
def in_module(kwait_factory):
    with kwait_factory("shared") as bench:
        bench.wait_for("job/module", "condition=Complete")


def test_module(in_module): pass


def test_thread(kwait):
    caught = []

    def wait():
        try:
            kwait.wait_for("job/thread", "condition=Complete")
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    raise caught[0]


@pytest.mark.wait_for_job_complete("marker")
def test_marker(): pass


@pytest.mark.timeout(4, func_only=True)
def test_func_only(wait_for_job_complete):
    wait_for_job_complete("func-only")
"""


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("signal", ["--timeout=4"]),
        ("thread", ["-n2", "-o", "timeout=4"]),
    ],
    ids=["signal", "thread, in workers"],
)
def test_waits_end_before_the_tests_own_timeout_and_say_so(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, method: str, options: list[str]
) -> None:
    pytester.makepyfile(test_it=WAITS)
    result = pytester.runpytest_subprocess(*options, f"--timeout-method={method}")
    result.assert_outcomes(failed=3, errors=4, passed=1)
    output = result.stdout.str()
    cut = re.findall(
        r"^(?:E +)?its limit of (?:15|5)m0s was cut to (\d+)ms "
        r"to end before the test's own timeout of 4s \(pytest-timeout\)$",
        output,
        re.M,
    )
    assert len(cut) == 7, output
    for name in ("body", "setup", "teardown", "module", "thread", "marker", "func-only"):
        assert len(re.findall(rf"WaitTimeout: job \S+/{name}|^job \S+/{name} did", output, re.M))
    assert " Timeout " not in output
    assert "Timeout (>" not in output
    # Of each test that came to have one, and of the module, the namespace is gone.
    spaces = re.findall(r"^(POST|DELETE) /api/v1/namespaces(?:/[^/]*)?$", fake_cluster(), re.M)
    assert sorted(spaces) == ["DELETE"] * 7 + ["POST"] * 7


def test_setup_counts_where_pytest_timeout_counts_it(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_kwait.plugin.run import time_budget_of

        @pytest.fixture
        def in_setup(request):
            return time_budget_of(request.node)

        @pytest.mark.timeout(100)
        def test_all(request, in_setup):
            assert 80 < in_setup.seconds <= 90
            assert 80 < time_budget_of(request.node).seconds <= 90

        @pytest.mark.timeout(100, func_only=True)
        def test_body(request, in_setup):
            assert in_setup is None
            assert 80 < time_budget_of(request.node).seconds <= 90

        def test_none(request, in_setup):
            assert in_setup is None
            assert time_budget_of(request.node) is None
        """
    )
    pytester.runpytest().assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (["--timeout=100"], {}),
        (["-o", "timeout=100"], {}),
        ([], {"PYTEST_TIMEOUT": "100"}),
        (["--timeout=100", "-o", "timeout_func_only=true"], {}),
    ],
    ids=["option", "ini", "environment", "func_only"],
)
def test_wherever_the_timeout_comes_from(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    fake_cluster: FakeCluster,
    options: list[str],
    environment: dict[str, str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_kwait.plugin.run import time_budget_of

        @pytest.fixture
        def around(request):
            whole = not request.config.getini("timeout_func_only")
            before = time_budget_of(request.node)
            assert (80 < before.seconds <= 90) if whole else before is None
            yield
            after = time_budget_of(request.node)
            # The teardown may use of what is kept for it.
            assert (90 < after.seconds <= 98) if whole else after is None

        def test_it(request, around, wait_for_job_complete):
            assert 80 < time_budget_of(request.node).seconds <= 90
        """
    )
    pytester.runpytest(*options).assert_outcomes(passed=1)


def test_after_a_test_was_debugged_it_has_no_limit(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        import pytest_timeout
        from pytest_kwait.plugin.run import time_budget_of, near_limit

        @pytest.mark.parametrize("on", [False, True])
        def test_it(request, monkeypatch, on):
            assert time_budget_of(request.node) is not None
            monkeypatch.setattr(pytest_timeout, "SUPPRESS_TIMEOUT", True)
            assert time_budget_of(request.node) is None
            assert near_limit(request.node) is None

        def test_all_the_same(request, monkeypatch):
            settings = pytest_timeout.Settings(50, "signal", False, True)
            request.node.ihook.pytest_timeout_set_timer(item=request.node, settings=settings)
            monkeypatch.setattr(pytest_timeout, "SUPPRESS_TIMEOUT", True)
            assert time_budget_of(request.node) is not None
        """
    )
    pytester.runpytest("--timeout=100").assert_outcomes(passed=3)


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
    run.pytest_timeout_set_timer(item, Limits(limit))
    clock.advance(passed)
    time_budget = run.time_budget_of(item)
    assert time_budget is not None
    assert time_budget.seconds == pytest.approx(left)
    clock.advance(limit)
    # It is over: nothing is held to it any more.
    assert run.time_budget_of(item) is None
    run.pytest_timeout_set_timer(item, Limits(limit))
    run.pytest_timeout_cancel_timer(item)
    assert run.time_budget_of(item) is None
    run.pytest_timeout_cancel_timer(item)


def test_no_test_has_no_limit() -> None:
    assert run.time_budget_of(None) is None


@pytest.mark.parametrize(("before", "after"), [(30.0, (29.0, 30.0)), (0.4, (0.9, 1.0))])
def test_the_alarm_of_a_test_stands_still_for_a_block(
    before: float, after: tuple[float, float]
) -> None:
    """Afterwards it goes on, and never comes at once."""
    item = SimpleNamespace(stash=pytest.Stash())
    limit: Any = None
    item.stash[run._limit_key] = limit
    own = signal.setitimer(signal.ITIMER_REAL, before)
    try:
        with run.without_timeout(item):  # type: ignore[arg-type] # no more of a test is needed
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert after[0] < signal.getitimer(signal.ITIMER_REAL)[0] <= after[1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, *own)


def test_an_alarm_that_is_not_the_tests_is_left_alone() -> None:
    item = SimpleNamespace(stash=pytest.Stash())
    own = signal.setitimer(signal.ITIMER_REAL, 30.0)
    try:
        with run.without_timeout(item):  # type: ignore[arg-type] # no more of a test is needed
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, *own)

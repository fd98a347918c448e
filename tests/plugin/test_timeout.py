from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.plugin import timeout
from pytest_kwait.testing import FakeClock

FakeCluster = Callable[[], str]


WAITS = """
import threading

import pytest

from pytest_kwait.plugin import timeout

# So that waits are short, and a slow machine has time for all else.
timeout._RESERVED_PART = timeout._TEARDOWN_PART = 0.93


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
def in_function(kwait_factory, kwait_client):
    from pytest_kwait import wait_for

    with kwait_factory("functions") as shared:
        wait_for(kwait_client, shared.namespace, "job/function", "condition=Complete", mode="poll")


def test_function(in_function): pass


@pytest.fixture(scope="module")
def in_verb(kwait_factory, kwait_client):
    from pytest_kwait import create_and_wait

    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "verb"}}
    with kwait_factory("verbs") as shared:
        create_and_wait(kwait_client, shared.namespace, job, "condition=Complete", mode="poll")


def test_verb(in_verb): pass


@pytest.fixture(scope="module")
def in_module(kwait_factory):
    with kwait_factory("shared") as shared:
        shared.wait_for("job/module", "condition=Complete")


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
def test_waits_end_before_the_test_timeout_and_name_it(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, method: str, options: list[str]
) -> None:
    pytester.makepyfile(test_it=WAITS)
    result = pytester.runpytest_subprocess(*options, f"--timeout-method={method}")
    result.assert_outcomes(failed=3, errors=6, passed=1)
    output = result.stdout.str()
    cut = re.findall(
        r"^(?:E +)?its limit of (?:15|10|5)m0s was cut to (\d+)ms "
        r"to end before the test's own timeout of 4s \(pytest-timeout\)$",
        output,
        re.M,
    )
    assert len(cut) == 9, output
    names = (
        "body",
        "setup",
        "teardown",
        "module",
        "function",
        "verb",
        "thread",
        "marker",
        "func-only",
    )
    for name in names:
        assert len(
            re.findall(rf"(?:WaitTimeout: |^)job t-[a-z-]+-[a-z0-9]{{5}}/{name} did", output, re.M)
        )
    assert " Timeout " not in output
    assert "Timeout (>" not in output
    # Of each test that came to have one, and of the module, the namespace is gone.
    spaces = re.findall(r"^(POST|DELETE) /api/v1/namespaces(?:/[^/]*)?$", fake_cluster(), re.M)
    assert sorted(spaces) == ["DELETE"] * 9 + ["POST"] * 9


def test_setup_counts_where_pytest_timeout_counts_it(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_kwait.plugin.timeout import time_budget_of

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
def test_timeout_sources(
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
        from pytest_kwait.plugin.timeout import time_budget_of

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


def test_debugged_test_has_no_limit(pytester: pytest.Pytester, fake_cluster: FakeCluster) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        import pytest_timeout
        from pytest_kwait.plugin.timeout import time_budget_of, near_limit

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
    running_test = timeout.RunningTest()
    running_test.pytest_timeout_set_timer(item, Limits(limit))
    clock.advance(passed)
    time_budget = timeout.time_budget_of(item)
    assert time_budget is not None
    assert time_budget.seconds == pytest.approx(left)
    clock.advance(limit)
    # It is over: nothing is held to it any more.
    assert timeout.time_budget_of(item) is None
    running_test.pytest_timeout_set_timer(item, Limits(limit))
    running_test.pytest_timeout_cancel_timer(item)
    assert timeout.time_budget_of(item) is None
    running_test.pytest_timeout_cancel_timer(item)


def test_no_test_has_no_limit() -> None:
    assert timeout.time_budget_of(None) is None


_ALARMS = """
import signal

import pytest

PHASE = "{phase}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_{hook}({argument}):
    # As if the limit came to its end now.
    if {argument}.when == PHASE:
        signal.raise_signal(signal.SIGALRM)
    return (yield)
"""


@pytest.mark.parametrize(("hook", "argument"), [("makereport", "call"), ("logreport", "report")])
@pytest.mark.parametrize(
    ("phase", "outcomes"),
    [
        ("setup", {"failed": 1}),
        ("call", {"passed": 1, "errors": 1}),
        # The test is over.
        ("teardown", {"passed": 1}),
    ],
)
def test_timeout_between_phases_fails_the_next_phase(
    pytester: pytest.Pytester, hook: str, argument: str, phase: str, outcomes: dict[str, int]
) -> None:
    pytester.makeconftest(_ALARMS.format(hook=hook, argument=argument, phase=phase))
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def torn_down():
            yield
            print("torn down")

        @pytest.mark.timeout(300, method="signal")
        def test_it(torn_down): pass
        """
    )
    result = pytester.runpytest("-s")
    result.assert_outcomes(**outcomes)
    output = result.stdout.str()
    assert "torn down" in output
    assert "INTERNALERROR" not in output
    assert ("Failed: Timeout " in output) == (phase != "teardown")


def test_timeout_after_a_failure_adds_none(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_ALARMS.format(hook="makereport", argument="call", phase="call"))
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.timeout(300, method="signal")
        def test_it(): assert False, "own"
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert "Timeout" not in result.stdout.str()


def test_timeout_within_a_phase_ends_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import signal

        import pytest

        @pytest.mark.timeout(300, method="signal")
        def test_it():
            signal.raise_signal(signal.SIGALRM)
            print("went on")
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert "Failed: Timeout " in result.stdout.str()
    assert "went on\n" not in result.stdout.str().replace('"went on"', "")


@pytest.mark.parametrize(
    ("name", "workers", "passed"),
    [
        ("summary.WaitCounter.take_count", [], 1),
        ("artifacts.ArtifactCollector._take", [], 1),
        # The controller has the report of a test that went on.
        ("artifacts.ArtifactCollector._take", ["-n1"], 2),
    ],
    ids=["makereport", "logreport", "workers"],
)
def test_error_in_a_report_hook_fails_the_test(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    workers: list[str],
    passed: int,
) -> None:
    calls: list[object] = []

    def break_once(*_: object) -> None:
        calls.append(None)
        if len(calls) == 1:
            raise ValueError("broken")

    monkeypatch.setattr(f"pytest_kwait.plugin.{name}", break_once)
    pytester.makepyfile(
        test_it="""
        def test_one(): pass
        def test_two(): pass
        """
    )
    result = pytester.runpytest("--kwait-artifacts=art", *workers)
    result.assert_outcomes(passed=passed, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    lines = result.stdout.str().splitlines()
    assert "pytest-kwait could not complete the report of this test:" in lines
    assert "ValueError: broken" in lines
    assert "INTERNALERROR" not in result.stdout.str()


def test_error_in_a_report_hook_stays_behind_the_failure(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dump(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("pytest_kwait.plugin.artifacts.ArtifactCollector._dump", dump)
    pytester.makepyfile(test_it="def test_it(): assert 1 == 2")
    result = pytester.runpytest("--kwait-artifacts=art")
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert output.index("assert 1 == 2") < output.index("pytest-kwait could not complete")
    assert "INTERNALERROR" not in output


def test_error_of_the_test_without_a_text(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        class Mute(Exception):
            def __str__(self): raise ValueError("no text")

        def test_it(): raise Mute
        """
    )
    result = pytester.runpytest("--kwait-artifacts=art")
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert "pytest-kwait could not complete" not in output
    assert "INTERNALERROR" not in output

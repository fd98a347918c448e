from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ActiveWait, ActiveWaits
from pytest_kwait.engine.failure.wait_report import Timeline
from pytest_kwait.plugin.summary import WaitCount, WaitCounter
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (WaitCount(41, 192.4, 2, 14), "waited 3m12s in 41 waits, 2 failed early, 14 retries"),
        (WaitCount(1, 1.26, 1, 1), "waited 1.3s in 1 wait, 1 failed early, 1 retry"),
        (WaitCount(2, 0.0101), "waited 10ms in 2 waits, 0 failed early, 0 retries"),
    ],
)
def test_line(count: WaitCount, text: str) -> None:
    assert str(count) == text


class Waits:
    """Waits on a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.counter = WaitCounter()
        self.pending = ActiveWaits()
        self.pending.add(self.counter)

    def wait(self, seconds: float, within: Callable[[], None] = lambda: None) -> ActiveWait:
        started = self.clock.monotonic()
        wait = ActiveWait("a", "b", Deadline.after(60.0, self.clock), Timeline(), started)
        with self.pending.entered(wait):
            within()
            self.clock.advance(seconds)
            wait.record_outcome("met", retries=2)
        return wait


def test_waits_are_counted_once_over() -> None:
    waits = Waits()
    waits.wait(3.0)
    waits.wait(4.0)
    assert waits.counter.take_count() == [2, 7.0, 0, 4]
    assert waits.counter.take_count() is None


def test_nested_wait_counts_for_the_outer_one() -> None:
    waits = Waits()
    waits.wait(3.0, lambda: (waits.wait(4.0), None)[1])
    assert waits.counter.take_count() == [1, 7.0, 0, 4]


def test_waits_side_by_side_are_several() -> None:
    waits = Waits()

    def beside() -> None:
        thread = threading.Thread(target=waits.wait, args=(0.0,))
        thread.start()
        thread.join()

    waits.wait(1.0, beside)
    counted: Any = waits.counter.take_count()
    assert counted[0] == 2


_SUITE = """
import pytest
from pytest_kwait import ApiError, WaitFailed

def pod(phase):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "status": {"phase": phase}}

@pytest.fixture(scope="module", autouse=True)
def last(kwait_client, request):
    from pytest_kwait import wait_for_pod_running

    def wait():
        wait_for_pod_running(kwait_client, "ns", "p", timeout=5, mode="poll", poll=0.01)

    class AtTheEnd:
        def pytest_sessionfinish(self):
            wait()

    request.config.pluginmanager.register(AtTheEnd())
    yield
    wait()

@pytest.mark.parametrize("n", range(2))
def test_it(kwait, kwait_client, wait_for_pod_running, n):
    transport = kwait_client._pytest_kwait_session.transport
    transport.objects["/api/v1/namespaces/ns/pods/p"] = pod("Running")
    transport.objects["/api/v1/namespaces/ns/pods/p"]["metadata"]["uid"] = "u"
    kwait.create(pod("Succeeded"))
    busy = ApiError("busy", status=503, reason="ServiceUnavailable")
    transport.refuse("GET", f"/api/v1/namespaces/{kwait.namespace}/pods", busy)
    with pytest.raises(WaitFailed):
        wait_for_pod_running("p", timeout=5)
"""


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_summary_counts_waits_of_all_workers(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str], workers: list[str]
) -> None:
    pytester.makepyfile(_SUITE)
    result = pytester.runpytest(*workers)
    result.assert_outcomes(passed=2)
    # One of each test; in each process one at the end of the module and one at that of the session.
    waits = 2 + (4 if workers else 2)
    result.stdout.re_match_lines(
        [rf"kwait: waited \S+ in {waits} waits, 2 failed early, 2 retries$"]
    )


_WEBHOOK = """
from pytest_kwait import ApiError

def test_it(kwait, kwait_client):
    refuse = kwait_client._pytest_kwait_session.transport.refuse
    text = 'failed calling webhook "w.example.com": dial tcp 10.0.0.3:443: connection refused'
    path = f"/api/v1/namespaces/{kwait.namespace}/configmaps"
    refuse("POST", path, *(ApiError(text, status=500, reason="InternalError") for _ in range(2)))
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "goods"}})
"""


def test_summary_counts_writes_that_are_sent_again_for_a_webhook(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(_WEBHOOK)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"kwait: waited 0s in 0 waits, 0 failed early, 2 retries$"])


def test_no_summary_without_waits(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(kwait_timeouts): pass")
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    assert "waited" not in result.stdout.str()


_AUDITED = """
import pytest
from pytest_kwait import ApiError

def pod(phase="Running"):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "status": {"phase": phase}}

@pytest.mark.parametrize("n", range(3))
def test_early(kwait, n):
    kwait.create(pod())
    kwait.wait_for_pod_running("p", timeout=5)

@pytest.mark.kwait_manifests("pod.yaml")
@pytest.mark.wait_for_pod_running("p", timeout=5)
def test_marker():
    pass

def test_late(kwait, kwait_client):
    kwait.create(pod())
    busy = ApiError("busy", status=503, reason="ServiceUnavailable")
    transport = kwait_client._pytest_kwait_session.transport
    transport.refuse("GET", f"/api/v1/namespaces/{kwait.namespace}/pods", busy)
    kwait.wait_for_pod_running("p", timeout=0.2, poll=0.15)
"""


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_audit_lists_waits_that_prove_nothing(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str], workers: list[str]
) -> None:
    pytester.makefile(
        ".yaml", pod="{apiVersion: v1, kind: Pod, metadata: {name: p}, status: {phase: Running}}"
    )
    pytester.makepyfile(test_it=_AUDITED)
    result = pytester.runpytest(*workers, "--kwait-audit")
    result.assert_outcomes(passed=5)
    shown = result.stdout.str().partition(" kwait audit ")[2].splitlines()[1:]
    used = shown[2]
    assert shown[:10] == [
        "test_it.py:23: wait_for_pod_running",
        "  in test_it.py::test_late",
        used,
        '  instead: timeout="5s"',
        "test_it.py:11: wait_for_pod_running",
        "  in test_it.py::test_early[0] and 2 more",
        "  met at the first look in all of 3 runs",
        "  instead: a wait for what the line before changes, or none",
        "5 met waits of 3 calls; 0 observed afterwards; 5 not: poll mode watches nothing;",
        "  1 call met at the first look in fewer than 3 runs, which may be chance",
    ]
    # The second look comes after the pause, however slow the machine is.
    assert re.fullmatch(r"  used (7[5-9]|[89]\d|100) % of its limit: \S+ of 200ms", used)


def test_no_audit_without_the_option(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(test_it=_AUDITED.partition("@pytest.mark.kwait_manifests")[0])
    result = pytester.runpytest()
    result.assert_outcomes(passed=3)
    assert "kwait audit" not in result.stdout.str()

"""The fixture `kwait_scheduler`, on the embedded cluster where it needs one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.plugin.outputs import join_failure

FakeCluster = Callable[[], str]

SUITE = """
import pytest

left = []


def pod(name, scheduler):
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler.name,
            "containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "600"]}],
        },
    }


def test_a_scheduler_of_ones_own(kwait, kwait_scheduler, wait_for_pod_scheduled):
    scheduler = kwait_scheduler()
    assert scheduler.is_running and scheduler.name.startswith("kwait-scheduler-")
    kwait.create(pod("a", scheduler))
    assert wait_for_pod_scheduled("a")["spec"]["nodeName"] == kwait.cluster.nodes[0]
    left.append(scheduler)


def test_several(kwait, kwait_scheduler, wait_for_pod_scheduled):
    assert not left[0].is_running
    one = kwait_scheduler(predicates=["NodeResourcesFit"], priorities={})
    two = kwait_scheduler(algorithm=lambda pod, lister: lister.list()[-1].name, name="mine")
    assert (one.name != two.name) and two.name == "mine"
    for scheduler in (one, two):
        kwait.create(pod(scheduler.name, scheduler))
    for scheduler in (one, two):
        wait_for_pod_scheduled(scheduler.name)
"""


def test_schedulers_of_a_test_run_and_end_with_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "algorithm=1",
            "algorithm=1 is not valid: an object with schedule(pod, node_lister), or such a "
            "function",
        ),
        (
            "algorithm=dict",
            "algorithm=<class 'dict'> is not valid: an object, not its class",
        ),
        (
            "algorithm=len, predicates=[]",
            "algorithm=<built-in function len> is not valid: left out where predicates or "
            "priorities are given",
        ),
        (
            "name='Not A Name'",
            "name='Not A Name' is not valid: use a DNS name: up to 253 lower-case letters, "
            "digits, '-' and '.', with a letter or digit at both ends of each part",
        ),
        (f"name='{'a' * 64}'", f"name='{'a' * 64}' is not valid: at most 63 characters"),
        (
            "pod_max_backoff='10ms'",
            "pod_initial_backoff=1 is not valid: above zero and at most pod_max_backoff (10ms)",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, call: str, message: str
) -> None:
    pytester.makepyfile(f"def test_it(kwait_scheduler): kwait_scheduler({call})")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert join_failure(result).endswith(f"InvalidArgument: {message}")


def test_refused_pods_fail_the_test_with_the_reason_and_once(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        """
        from pytest_kwait import ApiError

        def test_it(kwait_cluster, kwait_scheduler):
            no = [ApiError("not for you", status=403, reason="Forbidden") for _ in range(99)]
            kwait_cluster.transport.refuse("GET", "/api/v1/pods", *no)
            kwait_scheduler(timeout="9s")
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert join_failure(result).endswith(
        "WaitFailed: the cache of pods cannot sync: list failed: 403 Forbidden: not for you"
    )


def test_a_scheduler_that_ends_by_itself_fails_the_teardown(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        from pytest_kwait import wait

        def broken(self, ctx):
            raise RuntimeError("no pod today")

        def test_it(kwait_scheduler, monkeypatch):
            queue = "pytest_kwait.scheduler.scheduling_queue.SchedulingQueue"
            monkeypatch.setattr(f"{queue}.pop", broken)
            scheduler = kwait_scheduler(name="mine")
            wait.poll_immediate("10ms", "30s", lambda: not scheduler.is_running)
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["scheduler mine ended before it was stopped: RuntimeError: no pod today"]
    )

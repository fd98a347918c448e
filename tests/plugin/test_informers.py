"""The fixture `kwait_informers`, on the embedded cluster where it needs one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.plugin.outputs import join_failure

FakeCluster = Callable[[], str]

SUITE = """
import pytest

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
left = []


def test_history(kwait, kwait_informers):
    informers = kwait_informers("configmaps", "secrets")
    assert informers.events("configmaps", "kube-root-ca.crt")[0].initial
    kwait.create(CONFIG)
    kwait.delete("configmap/mine")
    events = informers.wait_for_events("configmaps", lambda told: len(told) == 2, name="mine")
    assert [str(event) for event in events] == ["added mine", "deleted mine"]
    assert set(informers) == {"configmaps", "secrets"}
    left.extend(informers.informers)


def test_several(kwait, kwait_informers):
    assert all(informer.stopped for informer in left)
    one = kwait_informers("configmaps", field_selector="metadata.name=mine",
                          transform=lambda obj: {"metadata": obj["metadata"]}, resync="1h")
    everywhere = kwait_informers("namespaces", "configmaps", all_namespaces=True)
    elsewhere = kwait_informers("cm", namespace="kube-system")
    kwait.create(CONFIG | {"data": {"a": "1"}})
    (added,) = one.wait_for_events("configmaps", len)
    assert "data" not in added.object
    assert everywhere.wait_for_events("configmaps", len, name="mine")
    assert kwait.namespace in [event.name for event in everywhere.events("namespaces")]
    assert elsewhere.events("cm", "mine") == []


def test_no_bench_is_made_for_who_looks_elsewhere(kwait_informers, request):
    assert kwait_informers("nodes", all_namespaces=True)
    assert "kwait_namespace" not in request.fixturenames
"""


def test_informers_of_a_test_start_synced_and_stop_with_it(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(SUITE)
    pytester.runpytest_subprocess().assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "()",
            "InvalidArgument: resources=() is not valid: names of resources, as in "
            "kwait_informers('pods', 'jobs')",
        ),
        (
            "('pods', namespace='a', all_namespaces=True)",
            "InvalidArgument: namespace='a' is not valid: left out where all_namespaces is given",
        ),
        (
            "('pods', label_selector='a in b')",
            "InvalidArgument: label_selector='a in b' is not valid: found 'b' expected: '('; "
            "a label selector is written like 'app=web,tier in (a,b),!old'",
        ),
        (
            "('podz')",
            "InvalidArgument: kind='podz' is not valid: the server has no such kind; near: "
            "pods (v1)",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, call: str, message: str
) -> None:
    pytester.makepyfile(f"def test_it(kwait_informers): kwait_informers{call}")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert join_failure(result).endswith(message)


def test_a_refused_list_fails_the_test_with_its_reason(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        """
        from pytest_kwait import ApiError

        def test_it(kwait_cluster, kwait_informers):
            path = "/api/v1/namespaces/ci/secrets"
            no = [ApiError("not for you", status=403, reason="Forbidden") for _ in range(9)]
            kwait_cluster.transport.refuse("GET", path, *no)
            kwait_informers("secrets", namespace="ci", timeout="9s")
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert join_failure(result).endswith(
        "WaitFailed: the cache of secrets in namespace ci cannot sync: list failed: "
        "403 Forbidden: not for you"
    )

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

FakeCluster = Callable[[], str]

_MESSAGE = [
    "job pi did not become complete within 100ms: not found yet",
    "  awaited   job pi to become complete",
]


def shown(result: pytest.RunResult) -> list[str]:
    return re.sub(r"-[0-9a-f]{8}\b", "-########", result.stdout.str()).splitlines()


def message(name: str, margin: str = "") -> list[str]:
    return [margin + line.format(name=name) for line in _MESSAGE]


@pytest.mark.parametrize(
    "call",
    [
        "wait_for_job_complete('pi', timeout='100ms')",
        "kwait.wait_for('job/pi', 'condition=Complete', timeout='100ms')",
        "pytest_kwait.framework.job.wait.wait_for_job_complete("
        "kwait.client, kwait.namespace, 'pi', "
        "timeout='100ms', mode='poll')",
    ],
    ids=["fixture", "kwait", "function"],
)
def test_a_failed_wait_shows_the_users_line_and_its_message_once(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, call: str
) -> None:
    pytester.makepyfile(
        test_it=f"""
        import pytest_kwait.framework.job.wait

        def test_it(kwait, wait_for_job_complete):
            {call}
        """
    )
    result = pytester.runpytest("--kwait-run-id=r1")
    result.assert_outcomes(failed=1)
    lines = shown(result)
    assert f">       {call}" in lines
    assert sum("within 100ms" in line for line in lines) == 1
    assert sum("awaited  " in line for line in lines) == 1
    assert "test_it.py:4: WaitTimeout" in lines
    # Not one line of ours, of the errors behind the error, or of how pytest came here.
    assert not any(re.match(r"\S+\.py:\d+:", line) for line in lines if "test_it.py" not in line)
    assert not any("direct cause" in line or "During handling" in line for line in lines)


def test_a_failed_precondition_is_a_setup_error_with_the_same_message(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        def test_body(wait_for_job_complete):
            wait_for_job_complete("pi", timeout="100ms")

        @pytest.mark.wait_for_job_complete("pi", timeout="100ms")
        def test_mark(): raise AssertionError("must not run")
        """
    )
    result = pytester.runpytest("--kwait-run-id=r1")
    result.assert_outcomes(failed=1, errors=1)
    lines = shown(result)
    start = next(i for i, line in enumerate(lines) if "ERROR at setup of test_mark" in line)
    assert lines[start + 1 : start + 3] == message("test-mark")
    body = [line.removeprefix("E       ") for line in lines if line.startswith("E       ")]
    headline, awaited = message("test-body")
    assert body[0] == f"pytest_kwait.errors.WaitTimeout: {headline}"
    assert body[1] == awaited
    assert max(map(len, body[:3])) <= 92


def test_an_error_in_a_users_fixture_shows_its_line(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def job(kwait):
            return kwait.get("job-pi")

        def test_it(job): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    lines = shown(result)
    assert '>       return kwait.get("job-pi")' in lines
    assert "test_it.py:5: InvalidArgument" in lines
    assert not any("suite/kwait.py" in line for line in lines)


def test_full_trace_shows_everything(pytester: pytest.Pytester, fake_cluster: FakeCluster) -> None:
    pytester.makepyfile(test_it='def test_it(kwait): kwait.get("job/pi")')
    # On its own: the trace is parsed, which Python 3.11 may fail at where other threads parse too.
    assert "suite/kwait.py" in pytester.runpytest_subprocess("--full-trace").stdout.str()


_TWO_TESTS = """
def test_good(kwait): pass
def test_bad(kwait): assert False
"""


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("never", []), ("failed", ["test-bad"]), ("always", ["test-good", "test-bad"])],
)
def test_kept_namespaces_are_listed(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, keep: str, kept: list[str]
) -> None:
    pytester.makepyfile(test_it=_TWO_TESTS)
    result = pytester.runpytest(f"--kwait-keep={keep}", "--kwait-run-id=r1")
    result.assert_outcomes(passed=1, failed=1)
    lines = shown(result)
    told = [
        f"namespace kwait-r1-{name}-######## is kept; look: kubectl --kubeconfig /fake/kubeconfig "
        f"get all,events --namespace kwait-r1-{name}-########"
        for name in kept
    ]
    summary = "============================ kwait: kept namespaces ============================"
    if told:
        start = lines.index(summary) + 1
        assert lines[start : start + len(told)] == told
        assert lines[start + len(told)] == (
            "to remove them before they expire, in 24 hours: kwait janitor --run-id r1 --kept "
            "--kubeconfig /fake/kubeconfig"
        )
        # The failed test's report has it, too.
        assert lines.count(told[-1]) == 2
    else:
        assert summary not in lines
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 2 - len(kept)


def test_one_test_can_keep_its_namespace(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.kwait(keep="always")
        def test_kept(kwait):
            kwait.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}})

        def test_not_kept(kwait): pass
        """
    )
    pytester.runpytest().assert_outcomes(passed=2)
    assert fake_cluster().count("DELETE") == 1
    assert "DELETE /api/v1/nodes" not in fake_cluster()


def test_shared_namespace_is_kept_when_one_of_its_tests_failed(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_a=_TWO_TESTS, test_b="def test_good(kwait): pass")
    result = pytester.runpytest("--kwait-keep=failed", "--kwait-namespace-scope=module")
    result.assert_outcomes(passed=2, failed=1)
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 1


def test_a_namespace_of_the_factory_is_kept_with_the_session(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture(scope="session")
        def shared(kwait_factory):
            with kwait_factory("shared") as shared:
                yield shared

        def test_it(shared): assert False
        """
    )
    result = pytester.runpytest("--kwait-keep=failed")
    result.assert_outcomes(failed=1)
    assert "DELETE" not in fake_cluster()
    result.stdout.fnmatch_lines(["namespace kwait-*-shared-* is kept; look: kubectl *"])


def test_embedded_cluster_refuses_to_keep_namespaces_with_advice(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROVIDER", "embedded")
    pytester.makepyfile(test_it="def test_it(kwait): assert False")
    result = pytester.runpytest("--kwait-keep=failed", "--kwait-run-id=r1")
    assert (
        shown(result).count(
            "namespace kwait-r1-test-it-######## is kept; the embedded cluster ends with the run, "
            "though: start one with `kwait up` and give its kubeconfig with --kwait-kubeconfig"
        )
        == 2
    )

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.given_cluster import given

if TYPE_CHECKING:
    from collections.abc import Callable

_PROVIDER = given("""
ready = threading.Event()
came = []


class Cluster(GivenCluster):
    def __init__(self):
        super().__init__()
        status = {"conditions": [{"type": "Ready", "status": os.environ["FAKE_READY"]}]}
        node = {"kind": "Node", "metadata": {"name": "a", "uid": "a"}, "spec": {}, "status": status}
        self.transport.objects["/api/v1/nodes/a"] = node

    def send(self, method, path, **options):
        if "/selfsubject" in path:
            raise ApiError("no reviews here", status=404, path=path)
        with open(os.environ["FAKE_LOG"], "a") as file:
            if method == "GET":
                file.write(f"{method} {path}\\n")
        if path == "/api/v1/nodes" and os.environ["FAKE_READY"] == "forbidden":
            raise ApiError("no", status=403, reason="Forbidden", method=method, path=path)
        if path == "/api/v1/nodes" and os.environ["FAKE_READY"] == "late":
            if not ready.wait(0.5):
                ready.set()
                came.append(time.monotonic())
            self.transport.objects["/api/v1/nodes/a"]["status"]["conditions"][0]["status"] = "True"
        return super().send(method, path, **options)
""")
_SUITE = """
import pytest

def test_plain(): pass

def test_first(kwait_client): pass

def test_second(kwait_client): pass

def test_late(request): request.getfixturevalue("kwait_cluster")

@pytest.mark.wait_for_job_complete("pi")
def test_marked(): pass
"""
_FULL = "the cluster is not ready for tests:"
_SHORT = "the cluster is not ready for tests, as said of test_it.py::test_first"


@pytest.fixture
def requests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs use a cluster whose node is what is told; returns the lists of nodes so far."""
    path = pytester.path / "log"
    pytester.makeconftest(_PROVIDER)
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers\nkwait_mode = poll\nkwait_poll = 10ms\n"
        "kwait_cluster = existing\nkwait_timeout = node_schedulable=0.3s\n"
    )
    pytester.makepyfile(test_it=_SUITE)
    monkeypatch.setenv("FAKE_LOG", str(path))

    def node(ready: str | None = None) -> int:
        if ready is not None:
            monkeypatch.setenv("FAKE_READY", ready)
        lines = path.read_text().splitlines() if path.exists() else []
        return lines.count("GET /api/v1/nodes")

    return node


def test_unready_cluster_fails_its_tests_with_one_reason(
    pytester: pytest.Pytester, requests: Callable[..., Any]
) -> None:
    requests("False")
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, failed=1, errors=3)
    at = result.stdout.lines.index(_FULL)
    assert "ERROR at setup of test_first" in result.stdout.lines[at - 1]
    assert result.stdout.lines[at + 1].startswith("nodes did not all become schedulable within 3")
    output = result.stdout.str()
    assert output.count(f"{_FULL}\n") == 1
    assert output.count(_SHORT) == 3


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "worker"])
def test_cluster_state_is_an_artifact(
    pytester: pytest.Pytester, requests: Callable[..., Any], workers: list[str]
) -> None:
    requests("False")
    result = pytester.runpytest("--kwait-artifacts=art", "-k", "first", *workers)
    result.assert_outcomes(errors=1, deselected=0 if workers else 4)
    place = pytester.path / "art" / "cluster"
    assert f"what the cluster is like: {place}" in result.stdout.lines
    assert "name: a" in (place / "objects" / "nodes.yaml").read_text()
    assert "kwait: artifacts of 1 failed test: art" in result.stdout.lines


def test_workers_share_one_reason(pytester: pytest.Pytester, requests: Callable[..., Any]) -> None:
    requests("False")
    result = pytester.runpytest("-n2", "-k", "not late")
    result.assert_outcomes(passed=1, errors=3)
    output = result.stdout.str()
    assert output.count("the cluster is not ready for tests:\n") == 1
    told = r"the cluster is not ready for tests, as said of test_it.py::test_(first|second|marked)$"
    assert len(re.findall(told, output, re.M)) == 2
    assert "INTERNALERROR" not in output


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_a_cluster_that_is_ready_is_looked_at_once(
    pytester: pytest.Pytester, requests: Callable[..., Any], workers: list[str]
) -> None:
    requests("True")
    result = pytester.runpytest("-k", "first or second", *workers)
    assert result.parseoutcomes()["passed"] == 2
    assert requests() == 1


def test_unused_cluster_is_not_awaited(
    pytester: pytest.Pytester, requests: Callable[..., Any]
) -> None:
    requests("False")
    pytester.runpytest("-k", "plain").assert_outcomes(passed=1, deselected=4)
    assert requests() == 0


def test_readiness_check_can_be_disabled(
    pytester: pytest.Pytester, requests: Callable[..., Any]
) -> None:
    requests("False")
    result = pytester.runpytest("--kwait-no-session-waits", "-k", "not marked")
    result.assert_outcomes(passed=4, deselected=1)
    assert requests() == 0
    assert "kwait: cluster=existing (ini kwait_cluster), " in result.stdout.str()
    assert "session_waits=false (option --kwait-no-session-waits)" in result.stdout.str()


def test_overridden_cluster_is_not_checked(
    pytester: pytest.Pytester, requests: Callable[..., Any]
) -> None:
    requests("False")
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kwait_cluster(): return "mine"

        def test_it(kwait_cluster): assert kwait_cluster == "mine"
        """
    )
    result = pytester.runpytest("test_overridden_cluster_is_not_checked.py")
    result.assert_outcomes(passed=1)
    assert requests() == 0


def test_forbidden_nodes_are_reported_and_tests_run(
    pytester: pytest.Pytester, requests: Callable[..., Any]
) -> None:
    requests("forbidden")
    for workers in ([], ["-n1"]):
        result = pytester.runpytest("-k", "first or second", *workers)
        assert result.parseoutcomes()["passed"] == 2
        said = (
            "kwait: not awaited before the first test, as forbidden: nodes: GET /api/v1/nodes: "
            "403 Forbidden: no"
        )
        assert result.stdout.lines.count(said) == 1


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_waiting_for_the_cluster_is_not_on_the_tests_own_timeout(
    pytester: pytest.Pytester, requests: Callable[..., Any], method: str
) -> None:
    requests("late")
    pytester.makepyfile(
        test_it="""
        import conftest, time
        from pytest_kwait.plugin.timeout import time_left

        def test_it(request, kwait_client):
            assert 100 - time_left(request.node) <= time.monotonic() - conftest.came[0]
        """
    )
    options = ["--timeout=100", f"--timeout-method={method}", "-o", "kwait_timeout="]
    pytester.runpytest_subprocess(*options, timeout=60).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "--kwait-session-waits=perhaps",
            "session_waits='perhaps' (from option --kwait-session-waits) is not valid: the option "
            "takes no value: use --kwait-session-waits or --kwait-no-session-waits "
            "(KWAIT_SESSION_WAITS and ini kwait_session_waits take true or false)",
        ),
        (
            "--kwait-allowed-not-ready-nodes=-2",
            "allowed_not_ready_nodes='-2' (from option --kwait-allowed-not-ready-nodes) is not "
            "valid: use a whole number, 0 or more, or -1",
        ),
        (
            "--kwait-min-startup-pods=1.5",
            "min_startup_pods='1.5' (from option --kwait-min-startup-pods) is not valid: use a "
            "whole number, 0 or more, or -1",
        ),
        (
            "--kwait-non-blocking-taints=a,,b",
            "non_blocking_taints='a,,b' (from option --kwait-non-blocking-taints) is not valid: "
            "use keys of taints with commas between them, for example "
            "node-role.kubernetes.io/control-plane,dedicated",
        ),
    ],
)
def test_invalid_settings(pytester: pytest.Pytester, option: str, message: str) -> None:
    result = pytester.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.stderr.str().splitlines()

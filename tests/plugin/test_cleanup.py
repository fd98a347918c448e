from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.plugin import cleanup
from pytest_kwait.plugin.cluster_source import ClusterServer, OwnedSource, RemoteSource
from pytest_kwait.suite.config.settings import Settings
from tests.plugin.outputs import list_lines

if TYPE_CHECKING:
    from pytest_kwait.clusters.cluster import Cluster

Log = Callable[[], str]

_LEFT = """
import os
import pytest
from tests.suite.fakes import FakeCluster
from pytest_kwait.suite.cleanup.owned_objects import Owner

@pytest.fixture(scope="session")
def kwait_cluster(kwait_cluster):
    left = Owner("old", "t", "t").manifest(0.0, "default/gone")
    left["metadata"]["uid"] = "u"
    kwait_cluster.transport.objects["/api/v1/namespaces/" + left["metadata"]["name"]] = left
    kwait_cluster.transport.now = 1000.0
    return kwait_cluster
"""


def leases(pytester: pytest.Pytester) -> list[str]:
    log = pytester.path / "requests.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if "/leases" in line]


def test_run_lease_costs_two_requests_before_the_first_namespace(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("x", range(3))
        def test_it(kwait, x):
            owned = kwait.get(f"namespace/{kwait.namespace}")["metadata"]["annotations"]
            assert owned["pytest-kwait/heartbeat"].startswith("default/kwait-r1-")
        """
    )
    result = pytester.runpytest("--kwait-run-id=r1")
    result.assert_outcomes(passed=3)
    assert [line.split()[0] for line in leases(pytester)] == ["POST", "DELETE"]
    log = (pytester.path / "requests.log").read_text().splitlines()
    assert "/leases" in log[0]
    assert "/leases" in log[-1]
    assert "janitor" not in result.stdout.str()


def test_run_without_objects_has_no_lease_and_no_output(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile("def test_it(kwait_client): pass")
    pytester.runpytest().assert_outcomes(passed=1)
    assert leases(pytester) == []


def test_embedded_cluster_needs_no_run_lease(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROVIDER", "embedded")
    pytester.makepyfile("def test_it(kwait): pass")
    pytester.runpytest().assert_outcomes(passed=1)
    assert leases(pytester) == []


def test_run_lease_is_in_the_given_namespace(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kwait_cluster(kwait_cluster):
            space = {"metadata": {"name": "team-a", "uid": "u"}}
            kwait_cluster.transport.objects["/api/v1/namespaces/team-a"] = space
            return kwait_cluster

        def test_it(kwait):
            kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
        """
    )
    pytester.runpytest("--kwait-namespace=team-a").assert_outcomes(passed=1)
    lines = leases(pytester)
    # Created, updated with the kind, deleted.
    assert [line.split()[0] for line in lines] == ["POST", "PATCH", "DELETE"]
    assert all("/namespaces/team-a/" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "gone"), [([], True), (["--kwait-no-janitor"], False)], ids=["on", "off"]
)
def test_leftovers_of_dead_runs_are_deleted_during_the_tests(
    pytester: pytest.Pytester, fake_cluster: Log, options: list[str], gone: bool
) -> None:
    pytester.makepyfile(_LEFT + "\ndef test_it(kwait): pass")
    result = pytester.runpytest(*options)
    result.assert_outcomes(passed=1)
    said = "kwait: the janitor removed 1 namespace and 0 other objects of 1 run"
    assert (said in result.stdout.lines) is gone
    assert ("DELETE /api/v1/namespaces/t-t-" in fake_cluster()) is gone


def test_a_janitor_that_may_not_look_fails_no_test(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_kwait.errors import ApiError

        @pytest.fixture(scope="session")
        def kwait_cluster(kwait_cluster):
            denied = ApiError("leases is forbidden", status=403, reason="Forbidden")
            for path in ("namespaces/default/leases", "leases"):
                for method in ("GET", "POST"):
                    whole = f"/apis/coordination.k8s.io/v1/{path}"
                    kwait_cluster.transport.refuse(method, whole, denied)
            return kwait_cluster

        def test_it(kwait): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines_random(
        [
            "kwait: the janitor could not look for what dead runs left: *leases is forbidden*",
            "kwait: no Lease in namespace default can say that the run lives, so what a killed "
            "run leaves stays until it expires: *leases is forbidden*",
        ]
    )


def test_kept_objects_outside_of_the_namespace_have_an_expiry(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        """
        def test_it(kwait):
            kwait.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        """
    )
    pytester.runpytest("--kwait-keep=always").assert_outcomes(passed=1)
    assert "PATCH /api/v1/nodes/n" in fake_cluster().splitlines()
    # The Lease stays, since it tells where to look.
    assert [line.split()[0] for line in leases(pytester)] == ["POST", "PATCH", "PATCH"]


def test_what_a_test_could_not_remove_is_tried_again_at_the_end(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    """The Lease, which names the kinds, goes last."""
    pytester.makepyfile(
        """
        from pytest_kwait.errors import ApiError

        def test_it(kwait):
            kwait.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
            refusal = ApiError("no", status=403)
            kwait.cluster.transport.refuse("DELETE", "/api/v1/nodes/n", refusal)
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    assert fake_cluster().splitlines().count("DELETE /api/v1/nodes/n") == 2
    assert [line.split()[0] for line in leases(pytester)][-2:] == ["PATCH", "DELETE"]
    assert "kwait: the janitor removed 0 namespaces and 1 other object of 1 run" in list_lines(
        result
    )


class _Pulse:
    """A run lease that records its calls."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def place(self) -> str:
        return "default/kwait-r1"

    def record(self, kind: str) -> None:
        self.kinds.append(kind)

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        return f"{name} has to wait for {seconds:g}s"


class _Source(OwnedSource):
    """An existing cluster."""

    def __init__(self) -> None:
        super().__init__(Settings())
        self.shared: Any = object()

    def cluster(self) -> Any:
        return self.shared


def test_worker_registers_with_the_controllers_lease() -> None:
    registration = _Pulse()
    source = _Source()
    desk = ClusterServer(
        lambda _: source, lambda cluster: registration if cluster is source.shared else None
    )
    try:
        remote = RemoteSource(desk.port, desk.secret)
        own: Any = object()
        assert remote.registration(own) is None
        remote._cluster = own
        asking = remote.registration(own)
        assert asking is not None
        for kind in ("configmaps.v1.", "jobs.v1.batch", "configmaps.v1."):
            asking.record(kind)
        assert asking.place() == "default/kwait-r1"
        assert (
            asking.acquire_namespace_quota("kwait-r1-x", 1.5) == "kwait-r1-x has to wait for 1.5s"
        )
        assert registration.kinds == ["configmaps.v1.", "jobs.v1.batch"]
    finally:
        desk.close()


def test_workers_that_ask_at_once_get_one_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=30)

    def find_other(_cluster: Cluster) -> None:
        both.wait()

    source = SimpleNamespace(registration=find_other)
    run: Any = SimpleNamespace(
        id="ci-1",
        nonce="0a",
        source_of=lambda _: source,
        settings=Settings(),
        shard="",
        config=None,
    )
    registrations = cleanup.Cleanup(run)
    cluster = cast("Cluster", SimpleNamespace(provider="existing", ends_with_run=False))

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(registrations.registration_of, cluster) for _ in range(2)]
        first, second = (each.result() for each in asked)

    assert first is second
    assert list(registrations.registrations.values()) == [first]


_TWO_TESTS = """
def test_good(kwait): pass
def test_bad(kwait): assert False
"""


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("never", []), ("failed", ["bad"]), ("always", ["good", "bad"])],
)
def test_kept_namespaces_are_listed(
    pytester: pytest.Pytester, fake_cluster: Log, keep: str, kept: list[str]
) -> None:
    pytester.makepyfile(test_it=_TWO_TESTS)
    result = pytester.runpytest(f"--kwait-keep={keep}", "--kwait-run-id=r1")
    result.assert_outcomes(passed=1, failed=1)
    lines = list_lines(result)
    told = [
        f"namespace t-{name}-######## is kept; look: kubectl --kubeconfig /fake/kubeconfig "
        f"get all,events --namespace t-{name}-########"
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


def test_one_test_can_keep_its_namespace(pytester: pytest.Pytester, fake_cluster: Log) -> None:
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
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(test_a=_TWO_TESTS, test_b="def test_good(kwait): pass")
    result = pytester.runpytest("--kwait-keep=failed", "--kwait-namespace-scope=module")
    result.assert_outcomes(passed=2, failed=1)
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 1


def test_a_namespace_of_the_factory_is_kept_with_the_session(
    pytester: pytest.Pytester, fake_cluster: Log
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
    result.stdout.fnmatch_lines(["namespace t-shared-* is kept; look: kubectl *"])


def test_embedded_cluster_refuses_to_keep_namespaces_with_advice(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROVIDER", "embedded")
    pytester.makepyfile(test_it="def test_it(kwait): assert False")
    result = pytester.runpytest("--kwait-keep=failed", "--kwait-run-id=r1")
    assert (
        list_lines(result).count(
            "namespace t-it-######## is kept; the embedded cluster ends with the run, "
            "though: start one with `kwait up` and give its kubeconfig with --kwait-kubeconfig"
        )
        == 2
    )

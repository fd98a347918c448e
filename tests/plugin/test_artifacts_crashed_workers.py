"""Artifacts of crashed workers, collected by the controller or another worker."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.plugin.given_cluster import given
from tests.plugin.outputs import hide_random_parts, read_files

FakeCluster = Callable[[], str]

_CONFTEST = given("""
import fcntl


class Transport(FakeTransport):
    # What is in the cluster is in a file: workers and controller see the same.
    def send(self, method, path, **options):
        if "/selfsubject" in path:
            raise ApiError("no reviews here", status=404, path=path)
        store = Path(os.environ["FAKE_LOG"] + ".objects")
        with open(f"{store}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.objects, self._count = json.loads(
                store.read_text() if store.exists() else "[{}, 0]"
            )
            try:
                return super().send(method, path, **options)
            finally:
                if method != "GET":
                    # Whoever writes may die meanwhile.
                    part = Path(f"{store}.{os.getpid()}")
                    part.write_text(json.dumps([self.objects, self._count]))
                    part.replace(store)


class Cluster(GivenCluster):
    provider = "fake"

    def __init__(self):
        super().__init__()
        self.transport = Transport(Path(os.environ["FAKE_LOG"]))

    @classmethod
    def connect(cls, kubeconfig, context=None, provider="", **facts):
        if os.environ.get("FAKE_TROUBLE") and "PYTEST_XDIST_WORKER" not in os.environ:
            raise ClusterError(os.environ["FAKE_TROUBLE"])
        if "PYTEST_XDIST_WORKER" not in os.environ:
            # Long enough for the run to end meanwhile, if it did not wait.
            time.sleep(1)
        assert (str(kubeconfig), context, provider) == ("/fake/kubeconfig", None, "fake")
        return cls()


def pytest_configure(config):
    if hasattr(config, "workerinput") and os.environ.get("FAKE_ELSEWHERE"):
        config.workerinput["kwait_words"] = "/not/on/this/machine"
""")
_MINE = """
import os, signal, threading, time
import pytest
from pytest_kwait import wait_for
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver

MINE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
KEYS = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"words": "correct-horse"}}


class Death(WaitObserver):
    # Observers are called in order: the wait is recorded already.
    def __init__(self, die):
        self.die = die

    def on_start(self, wait):
        threading.Timer(0.1, self.die).start()

"""


@pytest.fixture
def shared_cluster(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> FakeCluster:
    """The fake cluster, for all processes of a run."""
    pytester.makeconftest(_CONFTEST)
    return fake_cluster


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest(
        "--kwait-artifacts=art", "--kwait-run-id=r1", "-n1", "--max-worker-restart=0", *options
    )


@pytest.mark.parametrize(
    "death",
    ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGSEGV)"],
    ids=["exit", "kill", "segfault"],
)
def test_controller_collects_artifacts_of_a_crashed_worker(
    pytester: pytest.Pytester, shared_cluster: FakeCluster, death: str
) -> None:
    pytester.makepyfile(
        test_it=_MINE
        + f"""
def test_before(kwait): pass

def test_it(kwait, wait_for_job_complete):
    kwait.apply(MINE, KEYS)
    kwait.wait_for("configmap/mine", "create")
    ACTIVE_WAITS.add(Death(lambda: {death}))
    wait_for_job_complete("pi", timeout="60s")
"""
    )
    result = run(pytester, "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=1)
    output = result.stdout.str()
    assert "kwait: artifacts of 1 failed test: art" in output.splitlines()
    assert "INTERNALERROR" not in output
    found = read_files(pytester.path / "art")
    folder, space = "test_it-test_it-########-gw0", "t-it-########"
    assert list(found) == [
        "failures.md",
        f"{folder}/evidence.json",
        f"{folder}/failure.txt",
        f"{folder}/{space}/namespace.yaml",
        f"{folder}/{space}/objects/configmaps.yaml",
        f"{folder}/{space}/objects/secrets.yaml",
        f"{folder}/{space}/objects/serviceaccounts.yaml",
    ]
    assert found[f"{folder}/failure.txt"].endswith(
        "\nworker 'gw0' crashed while running 'test_it.py::test_it'\n"
    )
    assert "- `test_it.py::test_it` (crashed), worker gw0\n" in found["failures.md"]
    assert "  awaited  job pi to become complete\n" in found["failures.md"]
    assert "name: mine" in found[f"{folder}/{space}/objects/configmaps.yaml"]
    assert "words: (hidden)" in found[f"{folder}/{space}/objects/secrets.yaml"]
    # While it was there: the run has removed it since.
    assert "deletionTimestamp" not in found[f"{folder}/{space}/namespace.yaml"]
    assert "kwait: the janitor removed 1 namespace and 0 other objects of 1 run" in output
    evidence = json.loads(hide_random_parts(found[f"{folder}/evidence.json"]))
    (wait,) = evidence.pop("waits")
    assert evidence == {
        "test": "test_it.py::test_it",
        "phase": "crashed",
        "run": "r1",
        "shard": "",
        "worker": "gw0",
        "namespaces": [space],
        "cluster": "embedded",
        "kubectl": [],
        "place": "",
        "step": "",
        "headline": "worker 'gw0' crashed while running 'test_it.py::test_it'",
    }
    assert 0 < wait.pop("elapsed_seconds") < 60
    assert wait == {
        "error": None,
        "subject": f"job {space}/pi",
        "goal": "become complete",
        "outcome": "unfinished",
        "reason": None,
    }
    xml = hide_random_parts((pytester.path / "junit.xml").read_text())
    assert (
        f"[[ATTACHMENT|art/{folder}/failure.txt]]\n[[ATTACHMENT|art/{folder}/evidence.json]]" in xml
    )


def test_a_worker_that_pytest_timeout_ends(
    pytester: pytest.Pytester, shared_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it=_MINE
        + """
@pytest.fixture(scope="module")
def shared(kwait_factory):
    with kwait_factory("shared") as shared:
        yield shared

@pytest.mark.timeout(4, method="thread", func_only=True)
def test_it(shared, kwait):
    kwait.apply(MINE)
    time.sleep(60)
"""
    )
    run(pytester).assert_outcomes(failed=1)
    found = read_files(pytester.path / "art")
    folder = "test_it-test_it-########-gw0"
    assert "name: mine" in found[f"{folder}/t-it-########/objects/configmaps.yaml"]
    assert f"{folder}/t-shared-########/namespace.yaml" in found
    assert not any(name.endswith("problems.txt") for name in found)


def test_given_namespace_is_dumped(pytester: pytest.Pytester, shared_cluster: FakeCluster) -> None:
    mine = {"/api/v1/namespaces/mine": {"metadata": {"name": "mine", "uid": "1"}}}
    (pytester.path / "requests.log.objects").write_text(json.dumps([mine, 1]))
    pytester.makepyfile(test_it=_MINE + "def test_it(kwait): os._exit(1)")
    run(pytester, "--kwait-namespace=mine").assert_outcomes(failed=1)
    found = read_files(pytester.path / "art")
    assert "test_it-test_it-########-gw0/mine/namespace.yaml" in found


def test_unreachable_cluster_is_reported(
    pytester: pytest.Pytester, shared_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TROUBLE", "no answer within 10s")
    pytester.makepyfile(test_it=_MINE + "def test_it(kwait): os._exit(1)")
    run(pytester).assert_outcomes(failed=1)
    found = read_files(pytester.path / "art")
    assert hide_random_parts(found["test_it-test_it-########-gw0/problems.txt"]) == (
        "namespaces t-it-######## are left out: no answer within 10s\n"
    )


def test_collection_time_of_a_run_is_limited(
    pytester: pytest.Pytester, shared_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_kwait.plugin.artifacts.CRASH_DUMPS_TIMEOUT", 0.0)
    pytester.makepyfile(test_it=_MINE + "def test_it(kwait): os._exit(1)")
    run(pytester).assert_outcomes(failed=1)
    found = read_files(pytester.path / "art")
    assert hide_random_parts(found["test_it-test_it-########-gw0/problems.txt"]) == (
        "namespaces t-it-######## are left out: what was gathered for tests "
        "before it leaves no time\n"
    )


def test_remote_worker_has_only_its_failure(
    pytester: pytest.Pytester, shared_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ELSEWHERE", "1")
    pytester.makepyfile(test_it=_MINE + "def test_it(kwait): os._exit(1)")
    result = run(pytester)
    result.assert_outcomes(failed=1)
    assert "INTERNALERROR" not in result.stdout.str()
    found = read_files(pytester.path / "art")
    folder = "test_it-test_it-########-gw0"
    assert list(found) == ["failures.md", f"{folder}/evidence.json", f"{folder}/failure.txt"]
    evidence = json.loads(found[f"{folder}/evidence.json"])
    assert (evidence["namespaces"], evidence["waits"]) == ([], [])
    assert "- `test_it.py::test_it` (crashed), worker gw0\n" in found["failures.md"]


def test_no_records_without_the_option(
    pytester: pytest.Pytester, shared_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="def test_it(request): assert 'kwait_words' not in request.config.workerinput"
    )
    pytester.runpytest("-n1").assert_outcomes(passed=1)


def test_a_timeout_that_ends_the_process_leaves_artifacts(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it=_MINE
        + """
@pytest.mark.timeout(60, method="thread")
def test_in_time(kwait): pass

@pytest.mark.timeout(3, method="thread", func_only=True)
def test_it(kwait, kwait_cluster):
    kwait.apply(MINE)
    begun = threading.Event()
    # Waits of a client of one's own know nothing of the test's own timeout.
    client = kwait_cluster.client()

    def wait():
        begun.set()
        options = {"timeout": "60s", "mode": "poll", "poll": "50ms"}
        wait_for(client, kwait.namespace, "configmap/other", "create", **options)

    threading.Thread(target=wait, daemon=True).start()
    begun.wait()
    while True: time.sleep(0.1)
"""
    )
    result = pytester.runpytest_subprocess("--kwait-artifacts=art", "--kwait-run-id=r1", timeout=60)
    assert result.ret == 1
    found = read_files(pytester.path / "art")
    folder, space = "test_it-test_it-########", "t-it-########"
    assert list(found) == [
        "failures.md",
        f"{folder}/evidence.json",
        f"{folder}/failure.txt",
        f"{folder}/{space}/namespace.yaml",
        f"{folder}/{space}/objects/configmaps.yaml",
        f"{folder}/{space}/objects/serviceaccounts.yaml",
    ]
    assert "- `test_it.py::test_it` (expired)\n" in found["failures.md"]
    assert "  awaited  configmap other to get created\n" in found["failures.md"]
    lines = hide_random_parts(result.stdout.str()).splitlines()
    assert f"kwait: artifacts of the test that ran out of time: art/{folder}" in lines
    assert any(" Timeout " in line for line in lines)
    failure = found[f"{folder}/failure.txt"]
    assert failure.startswith(
        "the test's own timeout of 3s (pytest-timeout) ended the process; where the test was:\n\n"
    )
    assert failure.endswith("while True: time.sleep(0.1)\n")
    evidence = json.loads(hide_random_parts(found[f"{folder}/evidence.json"]))
    (wait,) = evidence["waits"]
    assert (evidence["phase"], evidence["attempt"]) == ("expired", 1)
    assert evidence["namespaces"] == [space]
    assert (wait["outcome"], wait["reason"]) == ("unfinished", "not found yet")

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kwait.client import availability
from pytest_kwait.engine.failure.redaction import SECRET_VALUES, SecretValues
from pytest_kwait.errors import ClusterError, WaitTimeout
from pytest_kwait.plugin.cluster import RunCluster, uses_cluster
from pytest_kwait.plugin.cluster_source import (
    ClusterServer,
    ControllerConnection,
    OwnedSource,
    RemoteRegistration,
    RemoteSource,
)
from pytest_kwait.simulator.runtimes.processes import runtime
from pytest_kwait.simulator.runtimes.processes.runtime import Isolation
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.wait import DeadlineExceeded
from tests.objects import secret
from tests.plugin.given_cluster import given
from tests.suite.fakes import FakeCluster

_PROVIDER = given("""
def log(line):
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(line + "\\n")


class Cluster(GivenCluster):
    provider = "embedded"
    has_log = False

    @classmethod
    def start(cls):
        log("start")
        if os.environ.get("FAKE_TROUBLE"):
            raise ClusterError(os.environ["FAKE_TROUBLE"])
        if os.environ.get("FAKE_OS_TROUBLE"):
            raise OSError(os.environ["FAKE_OS_TROUBLE"])
        return cls()

    @staticmethod
    def connect(kubeconfig, context, provider, time_scale, has_controllers, ends_with_run):
        log(f"connect {kubeconfig} {context} {provider} {time_scale}")
        return FakeCluster(time_scale=time_scale, has_controllers=has_controllers)

    def stop(self):
        log("stop")
""")
_INI = """
[pytest]
kwait_mode = poll
kwait_poll = 10ms
"""
_USERS = """
import pytest

@pytest.mark.parametrize("x", range(4))
def test_it(kwait, x):
    assert kwait.cluster.time_scale == 0.1
"""
Log = Callable[[], list[str]]


@pytest.fixture
def provider(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Log:
    path = pytester.path / "log"
    monkeypatch.setenv("FAKE_LOG", str(path))
    pytester.makeconftest(_PROVIDER)
    pytester.makeini(_INI)
    return lambda: path.read_text().splitlines() if path.exists() else []


def test_one_process_starts_its_cluster_once_and_ends_it(
    pytester: pytest.Pytester, provider: Log
) -> None:
    pytester.makepyfile(test_it=_USERS)
    pytester.runpytest().assert_outcomes(passed=4)
    assert provider() == ["start", "stop"]


def test_unused_cluster_is_not_started(pytester: pytest.Pytester, provider: Log) -> None:
    pytester.makepyfile(test_it="def test_it(): pass")
    pytester.runpytest().assert_outcomes(passed=1)
    pytester.makepyfile(test_it=_USERS)
    pytester.runpytest("--collect-only")
    assert provider() == []


def test_workers_share_the_cluster_of_the_controller(
    pytester: pytest.Pytester, provider: Log
) -> None:
    pytester.makepyfile(test_it=_USERS)
    pytester.runpytest("-n2", "--dist=each").assert_outcomes(passed=8)
    log = provider()
    assert log.count("start") == 1
    assert log.count("connect /fake/kubeconfig None embedded 0.1") == 2
    assert (log[0], log[-1]) == ("start", "stop")


def test_workers_that_use_no_cluster_start_none(pytester: pytest.Pytester, provider: Log) -> None:
    pytester.makepyfile(test_it="def test_it(): pass")
    pytester.runpytest("-n2").assert_outcomes(passed=1)
    assert provider() == []


def test_workers_have_names_and_report_kept_namespaces(
    pytester: pytest.Pytester, provider: Log
) -> None:
    pytester.makepyfile(
        test_it="""
        def test_it(kwait, worker_id):
            assert kwait.namespace.startswith(f"t-it-")
        """
    )
    result = pytester.runpytest("-n1", "--kwait-run-id=r1", "--kwait-keep=always")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*= kwait: kept namespaces =*",
            "namespace t-it-* is kept; look: kubectl *",
        ]
    )


def test_workers_share_one_random_run_id(pytester: pytest.Pytester, provider: Log) -> None:
    pytester.makepyfile(
        test_it="""
        import os

        def test_it(kwait):
            with open(os.environ["FAKE_LOG"], "a") as file:
                notes = kwait.get(f"namespace/{kwait.namespace}")["metadata"]["annotations"]
                file.write("run " + notes["pytest-kwait/run"] + "\\n")
        """
    )
    pytester.runpytest("-n2", "--dist=each").assert_outcomes(passed=2)
    runs = [line for line in provider() if line.startswith("run ")]
    assert len(runs) == 2
    assert len(set(runs)) == 1


@pytest.mark.parametrize("args", [[], ["-n2"]], ids=["alone", "workers"])
def test_failed_start_is_tried_once_and_fails_each_test(
    pytester: pytest.Pytester,
    provider: Log,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
) -> None:
    monkeypatch.setenv("FAKE_TROUBLE", "no room for a cluster")
    pytester.makepyfile(test_it=_USERS)
    result = pytester.runpytest(*args)
    result.assert_outcomes(errors=4)
    assert result.stdout.str().splitlines().count("no room for a cluster") == 4
    assert "INTERNALERROR" not in result.stdout.str()
    assert provider() == ["start"]


@pytest.mark.parametrize("args", [[], ["-n1"]], ids=["alone", "workers"])
def test_start_that_the_system_refuses_is_tried_once_and_fails_each_test(
    pytester: pytest.Pytester,
    provider: Log,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
) -> None:
    monkeypatch.setenv("FAKE_OS_TROUBLE", "no space left on device")
    pytester.makepyfile(test_it=_USERS)
    result = pytester.runpytest(*args)
    result.assert_outcomes(errors=4)
    line = "the cluster could not be started: no space left on device"
    assert result.stdout.str().splitlines().count(line) == 4
    assert provider() == ["start"]


class Source:
    """An existing cluster."""

    provider = "embedded"
    kubeconfig = "/fake/kubeconfig"
    context = None
    time_scale = 0.1
    has_controllers = False
    ends_with_run = True
    is_monitored = True

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.added: list[str] = []

    def check(self) -> None:
        """Nothing is wrong with it."""

    def cluster(self) -> Any:
        if self.trouble:
            raise ClusterError(self.trouble)
        return self

    def missing(self, cluster: Any) -> str:
        return "may do nothing"

    def stop(self) -> None:
        """Nothing was started."""

    def finish(self, *, failed: bool) -> None:
        """There is nothing to keep."""

    def registration(self, cluster: object) -> None:
        """A run without a lease."""

    def problem(self, test: str) -> str:
        return f"not for {test}"

    def outage(self) -> str:
        return ""

    def wait_for_outage(self, known: str) -> str:
        return f"{known} and gone"

    def notes(self) -> list[str]:
        return []

    def add_note(self, line: str) -> None:
        self.added.append(line)

    def show(self, line: str) -> None:
        """There is no terminal."""


def only(source: Any) -> Callable[[str], Any]:
    """Return a function that finds this source, whatever the name of the cluster."""
    return lambda _: source


@pytest.fixture
def desk() -> Any:
    opened = ClusterServer(only(Source()))
    yield opened
    opened.close()


def say(desk: ClusterServer, words: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", desk.port), timeout=60) as connection:
        connection.sendall(words)
        with connection.makefile("rb") as stream:
            return stream.readline()


def test_server_answers_requests_with_the_secret(desk: ClusterServer) -> None:
    assert json.loads(say(desk, desk.secret.encode() + b"\n")) == {
        "provider": "embedded",
        "kubeconfig": "/fake/kubeconfig",
        "context": None,
        "time_scale": 0.1,
        "has_controllers": False,
        "ends_with_run": True,
        "monitored": True,
        "missing": "may do nothing",
    }


def test_server_reports_readiness_of_the_cluster(desk: ClusterServer) -> None:
    source = RemoteSource(desk.port, desk.secret)
    assert source.problem("t.py::é[a b]") == "not for t.py::é[a b]"
    assert source.problem("x" * 10_000) == f"not for {'x' * 300}"


def test_server_reports_outages_of_the_cluster(desk: ClusterServer) -> None:
    source = RemoteSource(desk.port, desk.secret)
    assert source.wait_for_outage("") == " and gone"
    assert source.wait_for_outage("it is é") == "it is é and gone"


def test_server_receives_waits_of_workers() -> None:
    heard: list[tuple[str, str]] = []
    desk = ClusterServer(
        only(Source()), show_line=lambda worker, line: heard.append((worker, line))
    )
    source = RemoteSource(desk.port, desk.secret, "gw1")
    source.show("4s left: é to come")
    source.show("")
    desk.close()
    # The server has ended, which is no error.
    source.show("lost")
    assert heard == [("gw1", "4s left: é to come"), ("gw1", "")]


def test_workers_mask_values_of_secrets_that_others_have_seen(desk: ClusterServer) -> None:
    """The controller masks them too; it keeps them in memory alone."""
    workers = [SecretValues(), SecretValues()]
    for values in workers:
        values.exchange = RemoteSource(desk.port, desk.secret)._exchange_secrets
    one, other = workers
    one.learn(secret(password="gr8-first"))
    one.learn(secret(password="gr8-first", token="gr8-sécond"))
    text = "gr8-first gr8-sécond gr8-third"
    assert other.mask(text) == text
    other.learn(secret(password="gr8-third"))
    other.receive()
    one.receive()
    one.receive()
    for values in (one, other, SECRET_VALUES):
        assert values.mask(text) == "(hidden) (hidden) (hidden)"


def test_workers_show_names_that_others_have_found(desk: ClusterServer) -> None:
    workers = [SecretValues(), SecretValues()]
    for values in workers:
        values.exchange = RemoteSource(desk.port, desk.secret)._exchange_secrets
    one, other = workers
    one.learn(secret(team="zalando", other="postgres"))
    other.learn(secret(password="postgres"))
    one.learn_names(["zalando", "postgres"])
    for values in (one, other, one):
        values.receive()
    for values in (one, other, SECRET_VALUES):
        assert values.mask("zalando postgres") == "zalando (hidden)"


def test_values_of_secrets_are_masked_after_the_end_of_the_controller() -> None:
    desk = ClusterServer(only(Source()))
    values = SecretValues()
    values.exchange = RemoteSource(desk.port, desk.secret)._exchange_secrets
    desk.close()
    values.learn(secret(password="gr8-p@ss"))
    values.receive()
    assert values.mask("gr8-p@ss") == "(hidden)"


@pytest.mark.parametrize("words", [b"guess\n", b"\n", b"x" * 5000, "é".encode() + b"\n"])
def test_server_ignores_requests_without_the_secret(desk: ClusterServer, words: bytes) -> None:
    try:
        answer = say(desk, words)
    except ConnectionResetError:
        answer = b""  # what was not read when the desk hung up
    assert answer == b""


def test_closed_desk_is_not_there_any_more() -> None:
    desk = ClusterServer(only(Source()))
    desk.close()
    with pytest.raises(ClusterError) as caught:
        RemoteSource(desk.port, desk.secret).cluster()
    assert str(caught.value) == (
        "the pytest-xdist controller could not be asked for its cluster: [Errno 111] Connection "
        "refused; workers on other machines cannot share it"
    )


def test_ended_controller_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = RemoteSource(listener.getsockname()[1], "secret")
        caught: list[ClusterError] = []

        def ask() -> None:
            try:
                source.cluster()
            except ClusterError as error:
                caught.append(error)

        import threading

        thread = threading.Thread(target=ask)
        thread.start()
        connection, _ = listener.accept()
        assert connection.recv(100) == b"secret\n"
        connection.close()
        thread.join(60)
    assert [str(error) for error in caught] == [
        "the pytest-xdist controller ended before it gave its cluster"
    ]


def test_trouble_of_the_controller_is_trouble_of_the_worker() -> None:
    desk = ClusterServer(only(Source("no room for a cluster")))
    try:
        with pytest.raises(ClusterError, match=r"^no room for a cluster$"):
            RemoteSource(desk.port, desk.secret).cluster()
    finally:
        desk.close()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (WaitTimeout("the node is not ready"), "the node is not ready"),
        (DeadlineExceeded("10s are over"), "10s are over"),
        (OSError("no space left"), "OSError: no space left"),
        (ValueError("no number"), "ValueError: no number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_an_answer_are_errors_of_the_worker(error: Exception, message: str) -> None:
    def fail(cluster: object) -> None:
        raise error

    desk = ClusterServer(only(Source()), fail)
    try:
        with pytest.raises(ClusterError) as caught:
            RemoteRegistration(ControllerConnection(desk.port, desk.secret).request).place()
    finally:
        desk.close()
    assert str(caught.value) == message


class _BrokenCluster(FakeCluster):
    """A cluster of a plugin, none of whose methods works."""

    title = "lab cluster"

    def keep(self) -> None:
        raise TypeError("no such flag")

    def export_logs(self, folder: Path) -> str:
        raise PermissionError(f"{folder} is read-only")

    def notes(self) -> list[str]:
        raise ClusterError("it does not answer")


def test_errors_of_a_cluster_are_lines_at_the_end_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"keep_cluster": "always", "artifacts": "art"}
    source = OwnedSource(Settings().merged(given, lambda definition: definition.flag))
    cluster = _BrokenCluster()
    monkeypatch.setattr(source, "provider", lambda: SimpleNamespace(start=lambda: cluster))
    source.cluster()
    source.finish(failed=True)
    assert source.notes() == [
        "the lab cluster cannot be kept: TypeError: no such flag",
        "logs of the lab cluster were not exported: PermissionError: art/cluster is read-only",
        "no notes on the lab cluster: it does not answer",
    ]


def test_the_folder_of_a_cluster_that_had_to_be_killed_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def kill() -> None:
        folder = tmp_path / "kwait-programs-a"
        folder.mkdir()
        (folder / "owner").touch()

    run: Any = SimpleNamespace(config=None, settings=Settings(), has_source=True, end=kill)
    RunCluster(run).pytest_unconfigure()
    assert list(tmp_path.iterdir()) == []


def test_sources_reach_the_provider() -> None:
    settings = Settings().merged(
        {"cluster": "embedded", "context": "lab"}, lambda definition: f"option {definition.flag}"
    )
    with pytest.raises(ValueError, match=r"^context='lab' \(from option --kwait-context\)"):
        OwnedSource(settings).provider()


@pytest.mark.parametrize(
    ("test", "uses"),
    [
        ("def test_it(kwait): pass", True),
        ("def test_it(kwait_informers): pass", True),
        ("def test_it(kwait_timeouts): pass", False),
        ("def test_it(wait_for_pod_ready): pass", True),
        ("@pytest.mark.wait_for_pod_ready('a')\ndef test_it(): pass", True),
        ("@pytest.mark.kwait_manifests('a.yaml')\ndef test_it(): pass", True),
        ("@pytest.mark.kwait(timeout='1s')\ndef test_it(): pass", False),
        ("@pytest.mark.skip\ndef test_it(kwait): pass", False),
        ("def test_it(tmp_path): pass", False),
    ],
)
def test_fixtures_and_markers_tell_whether_a_test_uses_the_cluster(
    pytester: pytest.Pytester, test: str, uses: bool
) -> None:
    pytester.makefile(".yaml", a="{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    assert uses_cluster(pytester.getitem(f"import pytest\n\n{test}", "test_it")) is uses


_DYING = """
import pytest
from pytest_kwait.client.availability import availability_of

def end(cluster):
    availability = availability_of(cluster.server)
    cluster.transport.availability = availability
    cluster.transport.send = lambda *args, **options: availability.check()
    availability.report_problem("the embedded cluster has ended (signal 9)")

@pytest.fixture
def made(kwait, kwait_factory):
    with kwait_factory("addons") as addons:
        kwait.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        yield addons
        if TIDY:
            addons.list("pods")
"""
_ENDED = "the embedded cluster has ended (signal 9)"


@pytest.mark.parametrize("tidy", [False, True], ids=["plugin", "and user's fixture"])
def test_end_of_the_cluster_is_reported_once(
    pytester: pytest.Pytester, provider: Log, monkeypatch: pytest.MonkeyPatch, tidy: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(availability, "_availabilities", {})
    pytester.makepyfile(
        test_it=f"TIDY = {tidy}\n{_DYING}"
        """
def test_first(kwait, made, wait_for_pod_ready):
    end(kwait.cluster)
    wait_for_pod_ready("web")

def test_next(kwait): pass

def test_without_cluster(): pass
"""
    )
    result = pytester.runpytest("-ra")
    result.assert_outcomes(failed=1, errors=1, passed=1)
    lines = result.stdout.str().splitlines()
    assert [line for line in lines if line.startswith(("ERROR ", "FAILED "))] == [
        f"ERROR test_it.py::test_next - Failed: {_ENDED}",
        f"FAILED test_it.py::test_first - {_ENDED}",
    ]


@pytest.mark.parametrize(
    ("body", "teardown", "summary"),
    [
        ("assert 1 == 2", "", "ERROR test_it.py::test_it - Failed: " + _ENDED),
        ("", "", "ERROR test_it.py::test_it - Failed: " + _ENDED),
        (
            "kwait.list('pods')",
            "raise RuntimeError('of its own')",
            "ERROR test_it.py::test_it - BaseExceptionGroup: errors while tearing down <Fu...",
        ),
    ],
    ids=["after another failure", "after success", "with another one"],
)
def test_teardown_errors_at_the_end_of_the_cluster_hide_no_other_failure(
    pytester: pytest.Pytester,
    provider: Log,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    teardown: str,
    summary: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(availability, "_availabilities", {})
    pytester.makepyfile(
        test_it=f"""
{_DYING.replace("TIDY", "False")}
@pytest.fixture
def own():
    yield
    {teardown}

def test_it(kwait, own):
    end(kwait.cluster)
    {body}
"""
    )
    lines = pytester.runpytest("-ra").stdout.str().splitlines()
    assert [line for line in lines if line.startswith("ERROR ")] == [summary]
    # In the group of errors is what the cluster's end does not explain.
    assert any(line.endswith("RuntimeError: of its own") for line in lines) is bool(teardown)


def test_workers_add_lines_to_the_end_of_the_run() -> None:
    source = Source()
    desk = ClusterServer(only(source))
    remote = RemoteSource(desk.port, desk.secret, "gw0")
    remote.add_note("1 image mapping is not used (é): …")
    desk.close()
    remote.add_note("lost")
    assert source.added == ["1 image mapping is not used (é): …"]
    assert remote.notes() == []


def test_a_line_for_the_end_of_the_run_is_added_once() -> None:
    source = OwnedSource(Settings())
    for line in ("one", "two", "one"):
        source.add_note(line)
    assert source.notes() == ["one", "two"]


def _cluster_of(settings: Settings, option: Any = None, source: Any = None) -> RunCluster:
    config = SimpleNamespace(option=option or _option())
    run: Any = SimpleNamespace(
        config=config, settings=settings, source=source, source_of=lambda _: source
    )
    return RunCluster(run)


def _option(*, verbose: int = 0, no_header: bool = False) -> SimpleNamespace:
    return SimpleNamespace(verbose=verbose, no_header=no_header)


_ISOLATED = [
    "kwait: programs in pods: isolation namespaces",
    "kwait: programs in pods: no cgroups",
]


@pytest.mark.parametrize(
    ("given", "option", "lines"),
    [
        ({"image": ["a=b"]}, _option(), _ISOLATED),
        ({"isolation": "namespaces"}, _option(), _ISOLATED),
        ({"isolation": "none"}, _option(no_header=True), []),
        ({"isolation": "none", "cluster": "existing"}, _option(), []),
        ({"image": ["a=b"]}, _option(verbose=-1), []),
        ({"image": ["a=b"]}, _option(no_header=True), []),
        ({"image": ["a=b"], "cluster": "existing"}, _option(), []),
        (
            {"egress": ["pypi.org:443", "localhost:80"]},
            _option(),
            [
                "kwait: programs in pods: outside of the cluster they reach pypi.org:443, "
                "host.kwait.internal:80"
            ],
        ),
        ({"egress": ["pypi.org:443"], "cluster": "existing"}, _option(), []),
        ({}, _option(), []),
    ],
)
def test_the_header_names_isolation_and_egress(
    monkeypatch: pytest.MonkeyPatch, given: Any, option: Any, lines: list[str]
) -> None:
    asked: list[str] = []

    async def find(requested: str) -> Isolation:
        asked.append(requested)
        return Isolation(True, True, "none", "none", True, ("no cgroups",))

    monkeypatch.setattr(runtime, "detect_isolation", find)
    settings = Settings().merged(given, lambda _: "flag")
    run_cluster = _cluster_of(settings, option)
    cluster = "existing cluster (current context)" if "cluster" in given else "embedded cluster"
    header = run_cluster.pytest_report_header()
    assert header == [f"kwait: {cluster}, a namespace for each test", *lines]
    assert asked == ([given.get("isolation", "auto")] if lines == _ISOLATED else [])


_NOT_USED = "kwait: ini kwait_nodes is not used: "


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"nodes": 3}, []),
        ({"nodes": "name=gpu count=2\nname=plain"}, ["kwait: nodes gpu-1, gpu-2, plain"]),
        ({"nodes": "name=a", "cluster": "binaries", "controllers": True}, ["kwait: nodes a"]),
        (
            {"nodes": "name=a", "cluster": "binaries"},
            [f"{_NOT_USED}an API server alone has no nodes"],
        ),
        ({"nodes": 3, "api_only": True}, [f"{_NOT_USED}an API server alone has no nodes"]),
        ({"nodes": 3, "cluster": "kind"}, [f"{_NOT_USED}the cluster has its own nodes"]),
        ({"nodes": 3, "context": "a"}, [f"{_NOT_USED}the cluster has its own nodes"]),
        ({"nodes": "name=a", "cluster": "of-a-plugin"}, []),
    ],
)
def test_the_header_names_the_nodes_of_a_table(given: Any, lines: list[str]) -> None:
    settings = Settings().merged(given, lambda definition: f"ini {definition.ini}")
    assert _cluster_of(settings).pytest_report_header()[1:] == lines


def test_the_header_names_what_is_not_used_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "kind.yaml"
    file.write_text("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nfeatureGates: {A: true}\n")
    settings = Settings().merged({"nodes": str(file)}, lambda _: "flag")
    assert _cluster_of(settings).pytest_report_header()[1:] == [
        "kwait: nodes kind-control-plane",
        "kwait: kind.yaml: the embedded cluster does not use featureGates",
    ]


def test_the_header_is_silent_about_programs_that_cannot_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(_requested: str) -> Isolation:
        raise OSError("no processes")

    monkeypatch.setattr(runtime, "detect_isolation", fail)
    settings = Settings().merged({"image": ["a=b"]}, lambda _: "flag")
    assert _cluster_of(settings).pytest_report_header() == [
        "kwait: embedded cluster, a namespace for each test"
    ]


_REFUSED = (
    "isolation='namespaces' (from {}) is not valid: this machine refuses it (no user namespaces); "
    "use auto or none"
)


@pytest.mark.parametrize(
    ("files", "arguments", "source"),
    [
        ({}, ["--kwait-isolation=namespaces"], "option --kwait-isolation"),
        ({"tox.ini": "[pytest]\nkwait_isolation = namespaces"}, ["-n2"], "ini kwait_isolation"),
        pytest.param(
            {"pyproject.toml": "[tool.pytest]\nkwait_isolation = 'namespaces'"},
            [],
            "ini kwait_isolation",
            marks=pytest.mark.skipif(
                pytest.version_tuple < (9,), reason="pytest 9 reads [tool.pytest]"
            ),
        ),
        (None, [], "env KWAIT_ISOLATION"),
    ],
)
def test_an_isolation_that_the_machine_refuses_ends_the_run_at_once(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str] | None,
    arguments: list[str],
    source: str,
) -> None:
    monkeypatch.setattr(runtime, "detect_isolation", _refuse_namespaces)
    if files is None:
        monkeypatch.setenv("KWAIT_ISOLATION", "namespaces")
    for name, text in (files or {}).items():
        (pytester.path / name).write_text(text)
    pytester.makepyfile(test_it="def test_it(kwait): pass")
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [f"ERROR: {_REFUSED.format(source)}"]


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("def test_it(): pass", ["--collect-only"]),
        ("import pytest\n@pytest.fixture(scope='session')\ndef kwait_cluster(): pass", []),
    ],
)
def test_a_run_without_the_default_cluster_is_not_ended_for_its_isolation(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str, arguments: list[str]
) -> None:
    monkeypatch.setattr(runtime, "detect_isolation", _refuse_namespaces)
    pytester.makepyfile(test_it="def test_it(): pass")
    pytester.makeconftest(source)
    result = pytester.runpytest_inprocess("--kwait-isolation=namespaces", *arguments)
    assert result.ret == pytest.ExitCode.OK


async def _refuse_namespaces(requested: str) -> Isolation:
    if requested == "auto":
        return Isolation(False, False, "none", "none", True)
    raise runtime.IsolationRefusedError("no user namespaces")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"context": "kind-dev"}, "existing cluster (context kind-dev), a namespace for each test"),
        (
            {"kubeconfig": Path("/k"), "context": "kind-dev", "namespace": "ci-1"},
            "existing cluster (context kind-dev, kubeconfig /k), namespace ci-1",
        ),
        (
            {"api_only": True, "namespace_scope": "module"},
            "embedded API server, a namespace for each module",
        ),
        ({"namespace_scope": "session"}, "embedded cluster, a namespace for the session"),
    ],
)
def test_the_header_says_in_one_line_what_runs(given: Any, line: str) -> None:
    settings = Settings().merged(given, lambda _: "flag")
    assert _cluster_of(settings).pytest_report_header() == [f"kwait: {line}"]


@pytest.mark.parametrize(("option", "shown"), [((), 1), (("-q",), 0), (("--co",), 0)])
def test_what_runs_is_shown_after_collection_if_no_setting_is_given(
    pytester: pytest.Pytester, option: tuple[str, ...], shown: int
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.skip
        def test_it(kwait): pass
        """
    )
    (pytester.path / "tox.ini").write_text("[pytest]\n")
    lines = pytester.runpytest(*option).stdout.str().splitlines()
    assert lines.count("kwait: embedded cluster, a namespace for each test") == shown


class _Images:
    def __init__(self, ignored: list[str]) -> None:
        self.ignored = ignored
        self.mapped: list[Any] = []
        self.closed = False

    def add(self, mapping: Any) -> None:
        self.mapped.append(mapping)

    def list_missing_isolation(self) -> list[str]:
        return ["no cgroups"]

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("ignored", "no_header", "lines"),
    [
        ([], True, ["programs in pods: no cgroups"]),
        # The header has it.
        ([], False, []),
        (
            ["a"],
            False,
            [
                "1 image mapping is not used (a): https://h is not an embedded cluster, its nodes "
                "pull these images"
            ],
        ),
    ],
)
def test_images_of_settings_replace_those_of_the_fixture(
    ignored: list[str], no_header: bool, lines: list[str]
) -> None:
    settings = Settings().merged({"image": ["b=option"]}, lambda _: "flag")
    source, images = Source(), _Images(ignored)
    cluster: Any = SimpleNamespace(images=images, server="https://h")
    run_cluster = _cluster_of(settings, _option(no_header=no_header), source)
    with run_cluster.mapped_images(cluster, {"a": "x", "b": "y"}):
        assert [(one.pattern, one.command) for one in images.mapped] == [
            ("a", ("x",)), ("b", ("option",)),
        ]  # fmt: skip
        assert not images.closed
    assert (source.added, images.closed) == (lines, True)


@pytest.mark.parametrize(
    ("ignored", "lines"),
    [
        ([], []),
        (
            ["a.org:1"],
            [
                "allowed egress is not used (a.org:1): https://h is not an embedded cluster, its "
                "own network decides"
            ],
        ),
    ],
)
def test_egress_of_settings_is_added_to_that_of_fixtures(
    ignored: list[str], lines: list[str]
) -> None:
    settings = Settings().merged({"egress": ["a.org:1", "b.org:1"]}, lambda _: "flag")
    source, egress = Source(), _Images(ignored)
    cluster: Any = SimpleNamespace(egress=egress, server="https://h")
    run_cluster = _cluster_of(settings, source=source)
    with run_cluster.allowed_egress(cluster, ["c.org:1", "a.org:1"]):
        assert [str(one) for one in egress.mapped] == ["c.org:1", "a.org:1", "b.org:1"]
        # Of a conftest below.
        run_cluster.allow_egress(cluster, ["a.org:1", "d.org:1"])
        assert [str(one) for one in egress.mapped[3:]] == ["d.org:1"]
        assert not egress.closed
    assert (source.added, egress.closed) == (lines, True)


def test_no_client_is_made_without_egress() -> None:
    cluster: Any = SimpleNamespace()
    with _cluster_of(Settings()).allowed_egress(cluster, []):
        assert not vars(cluster)

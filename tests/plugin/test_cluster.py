from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from pytest_kwait.errors import ClusterError
from pytest_kwait.plugin.cluster import uses_cluster
from pytest_kwait.plugin.cluster_source import ClusterServer, OwnedSource, RemoteSource
from pytest_kwait.suite.config.settings import Settings

_PROVIDER = """
__name__ = "pytest_kwait.pretended"  # its frames count as ours

import os
import sys
from pathlib import Path

sys.path.append(os.environ["FAKE_PATH"])

import pytest_kwait.clusters.provider as provider
from pytest_kwait.errors import ClusterError
from tests.suite.fakes import FakeCluster


def log(line):
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(line + "\\n")


class Cluster(FakeCluster):
    provider = "embedded"

    def stop(self):
        log("stop")


class Provider:
    name = "embedded"

    def start(self):
        log("start")
        if os.environ.get("FAKE_TROUBLE"):
            raise ClusterError(os.environ["FAKE_TROUBLE"])
        return Cluster(time_scale=0.1)


def choose(*args, **kwargs):
    return Provider()


def connect(kubeconfig, context, provider, time_scale):
    log(f"connect {kubeconfig} {context} {provider} {time_scale}")
    return FakeCluster(time_scale=time_scale)


real = provider.choose_provider, provider.connect
provider.choose_provider, provider.connect = choose, connect


def pytest_unconfigure():
    provider.choose_provider, provider.connect = real
"""
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


def test_nothing_is_started_that_nobody_uses(pytester: pytest.Pytester, provider: Log) -> None:
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


def test_workers_name_run_and_worker_and_report_what_they_keep(
    pytester: pytest.Pytester, provider: Log
) -> None:
    pytester.makepyfile(
        test_it="""
        def test_it(kwait, worker_id):
            assert kwait.namespace.startswith(f"kwait-r1-{worker_id}-test-it-")
        """
    )
    result = pytester.runpytest("-n1", "--kwait-run-id=r1", "--kwait-keep=always")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*= kwait: kept namespaces =*",
            "namespace kwait-r1-gw0-test-it-* is kept; look: kubectl *",
        ]
    )


def test_workers_share_one_random_run_id(pytester: pytest.Pytester, provider: Log) -> None:
    pytester.makepyfile(
        test_it="""
        import os

        def test_it(kwait):
            with open(os.environ["FAKE_LOG"], "a") as file:
                file.write("run " + kwait.namespace.split("-")[1] + "\\n")
        """
    )
    pytester.runpytest("-n2", "--dist=each").assert_outcomes(passed=2)
    runs = [line for line in provider() if line.startswith("run ")]
    assert len(runs) == 2
    assert len(set(runs)) == 1


@pytest.mark.parametrize("args", [[], ["-n2"]], ids=["alone", "workers"])
def test_a_cluster_that_does_not_start_is_tried_once_and_said_by_each_test(
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


class Source:
    """A cluster that somebody has."""

    provider = "embedded"
    kubeconfig = "/fake/kubeconfig"
    context = None
    time_scale = 0.1

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble

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

    def registration(self, cluster: object) -> None:
        """Nobody says that the run lives."""

    def problem(self, test: str) -> str:
        return f"not for {test}"

    def notes(self) -> list[str]:
        return []

    def show(self, line: str) -> None:
        """There is no terminal."""


@pytest.fixture
def desk() -> Any:
    opened = ClusterServer(Source())
    yield opened
    opened.close()


def say(desk: ClusterServer, words: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", desk.port), timeout=5) as connection:
        connection.sendall(words)
        with connection.makefile("rb") as stream:
            return stream.readline()


def test_desk_answers_who_knows_the_secret(desk: ClusterServer) -> None:
    assert json.loads(say(desk, desk.secret.encode() + b"\n")) == {
        "provider": "embedded",
        "kubeconfig": "/fake/kubeconfig",
        "context": None,
        "time_scale": 0.1,
        "missing": "may do nothing",
    }


def test_desk_says_whether_the_cluster_is_ready_for_a_test(desk: ClusterServer) -> None:
    source = RemoteSource(desk.port, desk.secret)
    assert source.problem("t.py::é[a b]") == "not for t.py::é[a b]"
    assert source.problem("x" * 10_000) == f"not for {'x' * 300}"


def test_desk_hears_what_workers_wait_for() -> None:
    heard: list[tuple[str, str]] = []
    desk = ClusterServer(Source(), told=lambda worker, line: heard.append((worker, line)))
    source = RemoteSource(desk.port, desk.secret, "gw1")
    source.show("4s left: é to come")
    source.show("")
    desk.close()
    # Nobody is there any more, which is no matter.
    source.show("lost")
    assert heard == [("gw1", "4s left: é to come"), ("gw1", "")]


@pytest.mark.parametrize("words", [b"guess\n", b"\n", b"x" * 5000, "é".encode() + b"\n"])
def test_desk_answers_nobody_else(desk: ClusterServer, words: bytes) -> None:
    try:
        answer = say(desk, words)
    except ConnectionResetError:
        answer = b""  # what was not read when the desk hung up
    assert answer == b""


def test_closed_desk_is_not_there_any_more() -> None:
    desk = ClusterServer(Source())
    desk.close()
    with pytest.raises(ClusterError) as caught:
        RemoteSource(desk.port, desk.secret).cluster()
    assert str(caught.value) == (
        "the pytest-xdist controller could not be asked for its cluster: [Errno 111] Connection "
        "refused; workers on other machines cannot share it"
    )


def test_controller_that_ends_is_told() -> None:
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
        thread.join(5)
    assert [str(error) for error in caught] == [
        "the pytest-xdist controller ended before it gave its cluster"
    ]


def test_trouble_of_the_controller_is_trouble_of_the_worker() -> None:
    desk = ClusterServer(Source("no room for a cluster"))
    try:
        with pytest.raises(ClusterError, match=r"^no room for a cluster$"):
            RemoteSource(desk.port, desk.secret).cluster()
    finally:
        desk.close()


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
        ("@pytest.mark.manifests('a.yaml')\ndef test_it(): pass", True),
        ("@pytest.mark.kwait(timeout='1s')\ndef test_it(): pass", False),
        ("@pytest.mark.skip\ndef test_it(kwait): pass", False),
        ("def test_it(tmp_path): pass", False),
    ],
)
def test_what_a_test_names_says_whether_it_uses_the_cluster(
    pytester: pytest.Pytester, test: str, uses: bool
) -> None:
    pytester.makefile(".yaml", a="{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    assert uses_cluster(pytester.getitem(f"import pytest\n\n{test}", "test_it")) is uses

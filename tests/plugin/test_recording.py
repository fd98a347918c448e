from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clusters import provider
from pytest_kwait.errors import ClusterError
from pytest_kwait.plugin import recording
from pytest_kwait.plugin.recording import _TestEvents
from pytest_kwait.simulator.protocol.recording.files import read_recording
from pytest_kwait.suite.artifacts.recording import RecordedTest
from pytest_kwait.suite.report import records
from pytest_kwait.suite.report.records import NamespaceUse, WaitRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_KWAIT = "import sys; from pytest_kwait.cli import main; sys.exit(main())"

_SUITE = """
import os

def test_good(kwait):
    pass

def test_bad(kwait):
    with kwait.step("look"):
        kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
        kwait.wait_for_pod_ready("web", timeout="100ms")

def test_alone():
    assert not "without a cluster"
"""


@pytest.fixture(scope="module")
def other_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The option that selects a cluster which does not record itself."""
    kubeconfig = tmp_path_factory.mktemp("other") / "kubeconfig"
    command = [sys.executable, "-P", "-c", _KWAIT]
    subprocess.run([*command, "up", "--kubeconfig", str(kubeconfig), "--detach"], check=True)
    yield f"--kwait-kubeconfig={kubeconfig}"
    subprocess.run([*command, "down", "--kubeconfig", str(kubeconfig)], check=True)


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=_SUITE)
    return pytester.runpytest_subprocess(
        "--kwait-artifacts=art", "-p", "no:cacheprovider", *options
    )


def recordings(pytester: pytest.Pytester) -> dict[str, Path]:
    found = sorted((pytester.path / "art").glob("*/recording.jsonl.gz"))
    return {read_recording(path).header.test.rpartition("::")[2]: path for path in found}


def test_a_failed_test_of_a_worker_is_recorded_on_the_embedded_cluster(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, "--junitxml=junit.xml", "--kwait-report=report.json", "-n1")
    result.assert_outcomes(passed=1, failed=2)
    ((name, file),) = recordings(pytester).items()
    shown = file.relative_to(pytester.path)
    assert name == "test_bad"
    found = read_recording(file)
    assert (found.header.worker, found.header.time_scale) == ("gw0", 0.1)
    assert [line.text for line in found.lines if line.type == "STEP"] == ["look"]
    (wait,) = [line for line in found.lines if line.type == "WAIT"]
    assert (wait.goal, wait.outcome, wait.step) == ("become ready", "timed out", "look")
    assert "configmaps" in {line.resource for line in found.lines if line.key.endswith("/mine")}
    (failure,) = [line for line in found.lines if line.type == "FAILURE"]
    assert failure.outcome == "call"
    assert f"  replay: kwait replay {shown}" in result.stdout.str()
    junit = (pytester.path / "junit.xml").read_text()
    assert f'<property name="kwait_recording" value="{shown}"' in junit
    assert f"[[ATTACHMENT|{shown}]]" in junit
    report = json.loads((pytester.path / "report.json").read_bytes())
    recorded = {test["test"]: test.get("recording", "") for test in report["tests"]}
    assert recorded == {"test_it.py::test_alone": "", "test_it.py::test_bad": str(shown)}
    (played,) = [test["playback"] for test in report["tests"] if "playback" in test]
    assert [0, "mine"] in played["objects"]
    assert played["kinds"][0] == {"resource": "configmaps", "columns": ["Data"]}
    assert played["failure"][1] == "call"
    assert not list((pytester.path / "art").glob("history-*"))


def test_all_tests_with_a_namespace_are_recorded_if_asked(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--kwait-record=always", "--kwait-report=report.json")
    result.assert_outcomes(passed=1, failed=2)
    found = recordings(pytester)
    assert list(found) == ["test_bad", "test_good"]
    assert read_recording(found["test_good"]).failure is None
    report = json.loads((pytester.path / "report.json").read_bytes())
    (good,) = [test for test in report["tests"] if test["outcome"] == "passed"]
    assert good["recording"] == str(found["test_good"].relative_to(pytester.path))
    assert "failure" not in good["playback"]


def test_a_failed_teardown_of_a_passed_test_is_recorded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def shop(kwait):
            yield
            raise ValueError("it does not close")

        def test_shop(shop):
            pass

        def test_alone():
            pass
        """
    )
    result = pytester.runpytest_subprocess(
        "--kwait-artifacts=art", "--kwait-record=always", "--kwait-report=report.json"
    )
    result.assert_outcomes(passed=2, errors=1)
    (folder,) = (each for each in (pytester.path / "art").iterdir() if each.is_dir())
    file = folder / "recording.jsonl.gz"
    (failure,) = [line for line in read_recording(file).lines if line.type == "FAILURE"]
    assert (failure.outcome, failure.text) == ("teardown", "ValueError: it does not close")
    result.stdout.fnmatch_lines([f"E   *replay: kwait replay {file.relative_to(pytester.path)}"])
    tests = json.loads((pytester.path / "report.json").read_bytes())["tests"]
    played = {test["test"].partition("::")[2]: test.get("playback", {}) for test in tests}
    assert played["test_shop"]["failure"][1:] == ["teardown", "ValueError: it does not close"]


@pytest.mark.parametrize("options", [(), ("-v",), ("--tb=native",), ("--tb=short",)], ids=str)
def test_failures_name_their_recording_once(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        test_it="""
        def test_plain(kwait):
            assert 1 == 2

        def test_wait(kwait):
            kwait.wait_for_pod_ready("web", timeout="100ms")
        """
    )
    result = pytester.runpytest_subprocess("--kwait-artifacts=art", *options)
    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    for file in recordings(pytester).values():
        assert text.count(f"replay: kwait replay {file.relative_to(pytester.path)}\n") == 1


def test_an_error_without_a_text_in_a_teardown_is_shown(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        class Odd(Exception):
            def __str__(self):
                raise RuntimeError("no text")

        @pytest.fixture
        def shop():
            yield
            raise Odd

        def test_shop(shop):
            pass
        """
    )
    result = pytester.runpytest_subprocess("--kwait-artifacts=art")
    result.assert_outcomes(passed=1, errors=1)
    assert "during handling" not in result.stdout.str().lower()


def test_waits_may_end_while_they_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    events = _TestEvents(1000.0)
    record = WaitRecord("w", "r", "pod t-1/web", "be ready", 1000.0, 0.0, "met")

    def record_and_end_another(*_: object) -> WaitRecord:
        events.waits.append((1002.0, wait))
        return record

    wait: Any = SimpleNamespace()
    monkeypatch.setattr(records, "record_ended_wait", record_and_end_another)
    events.waits.append((1001.0, wait))
    assert events.list_waits() == [record]


def test_a_cluster_that_does_not_answer_delays_one_crashed_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[str] = []

    def refuse(kubeconfig: str, context: str, name: str) -> None:
        calls.append(kubeconfig)
        raise ClusterError("no answer within 30s")

    monkeypatch.setattr(provider, "connect", refuse)
    monkeypatch.setattr(recording.RecordingWriter, "_read_watched", lambda *_: [])
    run: Any = SimpleNamespace()
    writer = recording.RecordingWriter(run)
    problems: list[str] = []
    folder: Any = SimpleNamespace(problem=problems.append)
    test: Any = RecordedTest("t", ["t-1"])
    for kubeconfig in ("one", "one", "two"):
        place = NamespaceUse("t-1", kubeconfig=kubeconfig)
        assert writer._read_crashed(test, place, tmp_path, folder) == []
    assert calls == ["one", "two"]
    assert problems == ["recording: no answer within 30s"] * 3


def test_values_are_hidden_in_texts_that_were_written_before_their_secret(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        from pathlib import Path

        def test_bad(kwait, kwait_cluster):
            def create(kind, name, **values):
                metadata = {"name": name}
                kwait.apply({"apiVersion": "v1", "kind": kind, "metadata": metadata, **values})

            create("ConfigMap", "mine", data={"a": "say open-sesame"})
            (journals,) = Path("art").glob("history-*")
            kwait_cluster.record_history(journals.absolute())
            assert "open-sesame" in next(journals.glob("namespaces/*.jsonl")).read_text()
            create("Secret", "mine", stringData={"a": "open-sesame"})
            assert False
        """
    )
    pytester.runpytest_subprocess("--kwait-artifacts=art").assert_outcomes(failed=1)
    found = read_recording(recordings(pytester)["test_bad"])
    (mine,) = [
        line.object for line in found.lines
        if line.resource == "configmaps" and line.key.endswith("/mine")
    ]  # fmt: skip
    assert mine["data"] == {"a": "say (hidden)"}


def test_nothing_is_recorded_if_asked(pytester: pytest.Pytester) -> None:
    run(pytester, "--kwait-record=never").assert_outcomes(passed=1, failed=2)
    assert recordings(pytester) == {}


def test_the_test_of_a_crashed_worker_is_recorded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import os

        def test_crash(kwait):
            kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
            os._exit(3)
        """
    )
    result = pytester.runpytest_subprocess(
        "--kwait-artifacts=art", "-n1", "--kwait-report=report.json"
    )
    result.assert_outcomes(failed=1)
    found = read_recording(recordings(pytester)["test_crash"])
    assert "configmaps" in {line.resource for line in found.lines if line.key.endswith("/mine")}
    assert [line.outcome for line in found.lines if line.type == "FAILURE"] == ["crashed"]
    (crashed,) = json.loads((pytester.path / "report.json").read_bytes())["tests"]
    assert crashed["playback"]["failure"][1:] == ["crashed", "the worker crashed"]


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "worker"])
def test_a_worker_records_another_cluster_if_asked(
    pytester: pytest.Pytester, other_cluster: str, workers: list[str]
) -> None:
    options = [other_cluster, "--kwait-record=failed", *workers]
    result = run(pytester, *options)
    result.assert_outcomes(passed=1, failed=2)
    ((name, file),) = recordings(pytester).items()
    assert name == "test_bad"
    assert f"  replay: kwait replay {file.relative_to(pytester.path)}" in result.stdout.str()
    found = read_recording(file)
    assert found.header.version.startswith("v1.")
    assert bool(found.header.worker) == bool(workers)
    assert found.failure is not None
    own = found.header.namespaces[0]
    keys = {(line.resource, line.key) for line in found.lines}
    assert {("configmaps", f"{own}/mine"), ("namespaces", own), ("nodes", "kwait-node-1")} <= keys
    # Objects of other tests are left out.
    assert {key.partition("/")[0] for _, key in keys if "/" in key} == {own}
    assert not list((pytester.path / "art").glob("history-*"))
    assert not list((pytester.path / "art").glob("*/problems.txt"))


def test_other_clusters_are_not_recorded_by_default(
    pytester: pytest.Pytester, other_cluster: str
) -> None:
    run(pytester, other_cluster).assert_outcomes(passed=1, failed=2)
    assert recordings(pytester) == {}


def test_a_namespace_that_tests_share_is_recorded_for_each(
    pytester: pytest.Pytester, other_cluster: str
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        pytestmark = pytest.mark.kwait(namespace_scope="module")

        @pytest.mark.parametrize("name", ["one", "two"])
        def test_bad(kwait, name):
            kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
            assert False
        """
    )
    options = ("--kwait-artifacts=art", "--kwait-record=failed", other_cluster)
    pytester.runpytest_subprocess(*options).assert_outcomes(failed=2)
    found = {name: read_recording(file) for name, file in recordings(pytester).items()}
    types = {
        name: {
            line.key.rpartition("/")[2]: line.type
            for line in recording.lines
            if line.resource == "configmaps" and line.key.rpartition("/")[2] in ("one", "two")
        }
        for name, recording in found.items()
    }
    assert types == {
        "test_bad[one]": {"one": "ADDED"},
        "test_bad[two]": {"one": "STATE", "two": "ADDED"},
    }


def test_the_test_of_a_crashed_worker_is_recorded_on_another_cluster(
    pytester: pytest.Pytester, other_cluster: str
) -> None:
    pytester.makepyfile(
        test_it="""
        import os
        from pathlib import Path

        def test_crash(kwait):
            kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
            def is_recorded():
                journals = Path("art").glob("history-*/gw0/namespaces/*.jsonl")
                return any('/mine"' in journal.read_text() for journal in journals)
            kwait.wait_for("configmaps/mine", lambda _: is_recorded(), mode="poll", poll="50ms")
            os._exit(3)
        """
    )
    options = ("--kwait-artifacts=art", "--kwait-record=failed", "-n1", other_cluster)
    pytester.runpytest_subprocess(*options).assert_outcomes(failed=1)
    found = read_recording(recordings(pytester)["test_crash"])
    assert "configmaps" in {line.resource for line in found.lines if line.key.endswith("/mine")}
    assert [line.outcome for line in found.lines if line.type == "FAILURE"] == ["crashed"]


def test_a_block_that_a_failure_has_left_is_in_the_artifacts(pytester: pytest.Pytester) -> None:
    """Its namespace is gone when the report is made; an error that the test handles is none."""
    pytester.makepyfile(
        test_it="""
        import pytest

        def config_map(name):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

        def leave(factory, name):
            with factory(name) as kwait:
                kwait.apply(config_map(name))
                kwait.wait_for("configmap/none", "create", timeout="100ms")

        def test_fails(kwait_factory):
            leave(kwait_factory, "peer")

        def test_handles_it(kwait_factory):
            with pytest.raises(TimeoutError):
                leave(kwait_factory, "peer")

        def test_handles_one(kwait_factory):
            with pytest.raises(TimeoutError):
                leave(kwait_factory, "peer")
            with kwait_factory("shop") as kwait:
                kwait.apply(config_map("shop"))
                assert not "open"

        @pytest.fixture
        def broken(kwait_factory):
            with kwait_factory("broken") as kwait:
                kwait.apply(config_map("broken"))
                assert not "whole"
                yield kwait

        def test_setup(broken):
            pass
        """
    )
    result = pytester.runpytest_subprocess("--kwait-artifacts=art")
    result.assert_outcomes(failed=2, errors=1, passed=1)
    dumped = {
        folder.name.split("-")[1]: {
            path.parent.parent.name.split("-")[1]
            for path in folder.glob("*/objects/configmaps.yaml")
            if f"name: {path.parent.parent.name.split('-')[1]}" in path.read_text()
        }
        for folder in (pytester.path / "art").iterdir()
        if folder.is_dir()
    }
    assert dumped == {
        "test_fails": {"peer"},
        "test_handles_one": {"peer", "shop"},
        "test_setup": {"broken"},
    }
    found = {name: read_recording(file) for name, file in recordings(pytester).items()}
    outcomes = {
        name: [(line.outcome, line.text) for line in recording.lines if line.type == "FAILURE"]
        for name, recording in found.items()
    }
    assert outcomes == {
        "test_fails": [
            (
                "call",
                f"configmap {found['test_fails'].header.namespaces[0]}/none did not get"
                " created within 100ms: not found yet",
            )
        ],
        "test_handles_one": [("call", "AssertionError: assert not 'open'")],
        "test_setup": [("setup", "AssertionError: assert not 'whole'")],
    }
    present = {line.key.rpartition("/")[2] for line in found["test_handles_one"].lines}
    assert "shop" in present


_TWO_CLUSTERS = """
import os

def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

def test_both(kwait, kwait_factory):
    with kwait_factory("peer", cluster="b") as peer:
        kwait.apply(config_map("mine"))
        peer.apply(config_map("theirs"))
        assert not os.environ.get("CRASHES") or os._exit(3)
        peer.wait_for("configmap/none", "create", timeout="100ms")

def test_one(kwait_factory):
    with kwait_factory("peer", cluster="b") as peer:
        peer.apply(config_map("theirs"))
        assert not "on its own"
"""
"""Two failing tests on the run's own cluster and a further one."""


def list_config_maps(file: Path) -> set[str]:
    lines = [line for line in read_recording(file).lines if line.resource == "configmaps"]
    return {line.key.rpartition("/")[2] for line in lines} & {"mine", "theirs"}


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "worker"])
@pytest.mark.parametrize("recorded_by", ["the cluster", "the worker"])
def test_a_test_has_a_recording_of_each_of_its_clusters(
    pytester: pytest.Pytester, other_cluster: str, workers: list[str], recorded_by: str
) -> None:
    kubeconfig = other_cluster.partition("=")[2]
    further = "embedded" if recorded_by == "the cluster" else f"existing --kubeconfig={kubeconfig}"
    pytester.makepyfile(test_it=_TWO_CLUSTERS)
    options = ["--kwait-artifacts=art", "--kwait-record=failed", f"--kwait-clusters=b={further}"]
    result = pytester.runpytest_subprocess(*options, "--junitxml=junit.xml", *workers)
    result.assert_outcomes(failed=2)
    art, junit = pytester.path / "art", (pytester.path / "junit.xml").read_text()
    (both,) = art.glob("*test_both*")
    assert list_config_maps(both / "recording.jsonl.gz") == {"mine"}
    assert list_config_maps(both / "recording-b.jsonl.gz") == {"theirs"}
    (one,) = art.glob("*test_one*")
    assert not (one / "recording.jsonl.gz").exists()
    assert list_config_maps(one / "recording-b.jsonl.gz") == {"theirs"}
    failures = (art / "failures.md").read_text()
    for folder in (both, one):
        shown = (folder / "recording-b.jsonl.gz").relative_to(pytester.path)
        assert f"  replay: kwait replay {shown}" in result.stdout.str()
        assert f"kwait replay {shown}" in failures
        assert f'<property name="kwait_recording" value="{shown}"' in junit
        assert f"[[ATTACHMENT|{shown}]]" in junit
    assert not list(art.glob("history-*"))
    assert not list(art.glob("*/problems.txt"))


def test_a_crashed_test_has_a_recording_of_each_of_its_clusters(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRASHES", "1")
    pytester.makepyfile(test_it=_TWO_CLUSTERS)
    options = ("--kwait-artifacts=art", "-n1", "--kwait-clusters=b=embedded", "-k", "test_both")
    pytester.runpytest_subprocess(*options).assert_outcomes(failed=1)
    (folder,) = (pytester.path / "art").glob("*test_both*")
    assert list_config_maps(folder / "recording.jsonl.gz") == {"mine"}
    assert list_config_maps(folder / "recording-b.jsonl.gz") == {"theirs"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--kwait-record=always"],
            "record='always' (from option --kwait-record) is not valid: recordings need a "
            "folder: give --kwait-artifacts=DIR as well",
        ),
        (
            ["--kwait-record=often", "--kwait-artifacts=art"],
            "record='often' (from option --kwait-record) is not valid: use never, failed or always",
        ),
    ],
)
def test_options_that_cannot_be_followed_are_refused(
    pytester: pytest.Pytester, options: list[str], message: str
) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.stderr.str()

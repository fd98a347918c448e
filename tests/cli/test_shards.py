"""`kwait shards run`: what it says, writes and refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait.clusters.provider as provider
import pytest_kwait.suite.shards.job as shard_job
from pytest_kwait.cli import main
from pytest_kwait.errors import ClusterError, WaitFailed
from pytest_kwait.suite.report.junit import count_tests
from pytest_kwait.suite.report.records import RunRecord
from pytest_kwait.suite.report.run_report import VERSION, RunReport, decode_report, encode_report
from pytest_kwait.suite.shards.job import ShardOutcome, ShardSuite
from pytest_kwait.suite.shards.pod import ShardResults
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clock import Deadline

JUNIT = b'<testsuites><testsuite tests="3" failures="%d" time="1"/></testsuites>'
GOOD = ShardOutcome(1, "a-0", ShardResults(0, {"junit.xml": JUNIT % 0}), log="all well\n")
BAD = ShardOutcome(2, "a-1", ShardResults(1, {"junit.xml": JUNIT % 1}), log="one\nbad\n")
LOST = ShardOutcome(2, "a-1", None, "no results: OOMKilled, exit code 137", "half\n")


class Submitted:
    """A job that ends as its test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster()
        self.outcomes: list[ShardOutcome] = [GOOD, BAD]
        self.error: Exception | None = None
        self.suite: ShardSuite | None = None
        self.namespace = ""
        self.keep = False
        submitted = self

        class Job:
            def __init__(
                self, _: object, namespace: str, suite: ShardSuite, *, report: Any, done: Any
            ) -> None:
                submitted.suite, submitted.namespace, self.done = suite, namespace, done

            def run(self, deadline: Deadline, *, keep: bool) -> None:
                submitted.keep = keep
                for each in submitted.outcomes:
                    self.done(each)
                if submitted.error is not None:
                    raise submitted.error

        class Provider:
            def start(self) -> FakeCluster:
                return submitted.cluster

        monkeypatch.setattr(provider, "choose_provider", lambda *_, **__: Provider())
        monkeypatch.setattr(shard_job, "ShardJob", Job)


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Submitted:
    return Submitted(monkeypatch)


RUN = ("shards", "run", "--shards=2", "--image=suite:1")


def test_logs_of_shards_control_no_terminal(
    submitted: Submitted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "\x1b[31mbad\x1b[0m \x1b[2J\n"
    submitted.outcomes = [GOOD, ShardOutcome(2, "a-1", BAD.results, log=log)]
    main([*RUN, f"--output={tmp_path}/out"])
    assert "its log:\n  bad \\x1b[2J\n" in capsys.readouterr().out
    assert (tmp_path / "out/shard-2/log.txt").read_text() == "bad \\x1b[2J\n"


def test_failed_tests_are_status_1(
    submitted: Submitted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = f"--junitxml={tmp_path}/all.xml", f"--output={tmp_path}/out"
    more = "--run-id=r1", "--namespace=ci", "--keep", "--parallelism=1", "--service-account=e2e"
    status = main([*RUN, *files, *more, "--command=uv run python", "--", "e2e", "-m", "not slow"])

    assert status == 1
    assert capsys.readouterr().out == (
        "shard 1/2 passed: 3 passed, 0 failed, 0 errors, 0 skipped\n"
        "shard 2/2 failed (pytest's exit status 1); its log:\n  one\n  bad\n"
        "5 passed, 1 failed, 0 errors, 0 skipped in 2 shards\n"
    )
    assert count_tests((tmp_path / "all.xml").read_bytes()).tests == 6
    assert (tmp_path / "out/shard-2/log.txt").read_text() == "one\nbad\n"
    assert (tmp_path / "out/shard-1/junit.xml").read_bytes() == JUNIT % 0
    assert submitted.suite == ShardSuite(
        "r1", 2, ["uv", "run", "python"], ["e2e", "-m", "not slow"], "suite:1", 1, "e2e"
    )
    assert (submitted.namespace, submitted.keep, submitted.cluster.stopped) == ("ci", True, True)


def test_shards_that_passed_are_status_0(
    submitted: Submitted, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted.outcomes = [GOOD]
    assert main([*RUN]) == 0
    assert capsys.readouterr().out.endswith("in 1 shards\n")


def test_one_report_of_all_shards(submitted: Submitted, tmp_path: Path) -> None:
    def shard(number: int) -> ShardOutcome:
        run = RunRecord(f"r{number}", "r1", started=float(number), shard=f"{number}/2")
        files = {"report.json": encode_report(RunReport(VERSION, [run], [], []))}
        return ShardOutcome(number, f"a-{number}", ShardResults(0, files))

    submitted.outcomes = [shard(2), shard(1)]
    made = tmp_path / "all.json"
    assert main([*RUN, f"--report={made}", f"--report={tmp_path}/all.html"]) == 0
    report = decode_report(made.read_bytes(), "FILE", made)
    assert [each.shard for each in report.runs] == ["1/2", "2/2"]
    assert "<html" in (tmp_path / "all.html").read_text()


def test_a_lost_shard_is_status_1_and_shows_the_end_of_its_log(
    submitted: Submitted, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted.outcomes = [LOST, GOOD]
    assert main([*RUN]) == 1
    assert capsys.readouterr().out == (
        "shard 2/2 was lost: no results: OOMKilled, exit code 137\n  half\n"
        "shard 1/2 passed: 3 passed, 0 failed, 0 errors, 0 skipped\n"
        "3 passed, 0 failed, 0 errors, 0 skipped in 2 shards, 1 of 2 shards lost\n"
    )


@pytest.mark.parametrize("outcomes", [[], [GOOD]])
def test_end_of_the_job_is_printed_last(
    submitted: Submitted, outcomes: list[ShardOutcome], capsys: pytest.CaptureFixture[str]
) -> None:
    submitted.outcomes, submitted.error = outcomes, WaitFailed("image suite:1 cannot be pulled")
    assert main([*RUN]) == 1
    assert capsys.readouterr().err == "kwait shards: image suite:1 cannot be pulled\n"


def test_the_results_of_shards_outlive_a_full_disk(
    submitted: Submitted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("a file")
    assert main([*RUN, f"--output={tmp_path}/out"]) == 1
    said = capsys.readouterr()
    assert "shard 2/2 failed" in said.out
    assert said.err.startswith("kwait shards: the results could not be written: ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--shards=0"], "--shards=0 is not valid: 1 to 1000"),
        (["--shards=1001"], "--shards=1001 is not valid: 1 to 1000"),
        (["--parallelism=0"], "--parallelism=0 is not valid: 1 to 1000"),
        (["--command="], "--command='' is not valid: what starts Python, python3"),
        (["--command='a"], "--command=\"'a\" is not valid: a shell's words (No closing quotation)"),
        (
            ["--junitxml=/no/such/x"],
            "--junitxml='/no/such/x' is not valid: a place in a folder that exists",
        ),
        (
            ["--output=/no/such/x"],
            "--output='/no/such/x' is not valid: a place in a folder that exists",
        ),
        (
            ["--report=/no/such/x.html"],
            "--report='/no/such/x.html' is not valid: there is no folder /no/such; make it first",
        ),
        (
            ["--pod-template=/dev/null"],
            "--pod-template='/dev/null' is not valid: a file with the YAML of one pod template: "
            "metadata and spec",
        ),
    ],
)
def test_invalid_usage_is_status_2(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, *given]) == 2
    assert capsys.readouterr().err == f"kwait shards: {message}\n"


def test_an_image_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shards", "run", "--shards=2"]) == 2
    assert capsys.readouterr().err == (
        "kwait shards: --image=None is not valid: the image that has the suite and pytest-kwait in "
        "it\n"
    )


@pytest.mark.parametrize("text", ["spec: [", "kind: Pod", "- a", "\x00"])
def test_invalid_template_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.yaml").write_text(text)
    assert main([*RUN, f"--pod-template={tmp_path}/pod.yaml"]) == 2
    assert "a file with the YAML of one pod template" in capsys.readouterr().err


def test_missing_cluster_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def choose(*_: object, **__: object) -> None:
        raise ClusterError("no kubeconfig")

    monkeypatch.setattr(provider, "choose_provider", choose)
    assert main([*RUN]) == 1
    assert capsys.readouterr().err == "kwait shards: no kubeconfig\n"

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_kwait.bounds import encode_json
from pytest_kwait.cli import main
from pytest_kwait.suite.report.files import read_report, write_report
from pytest_kwait.suite.report.records import AuditRecord, JournalEntry, RunRecord, TestRecord
from pytest_kwait.suite.report.run_report import VERSION, RunReport
from tools.sample_reports import night

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for shard in (1, 2):
        report = night(40, shards=2)
        for run in report.runs:
            run.exit_status = 0
        report.runs = [report.runs[shard - 1]]
        id = report.runs[0].id
        report.waits = [wait for wait in report.waits if wait.run == id]
        report.tests = [test for test in report.tests if test.run == id]
        write_report(report, tmp_path / f"{shard}.json")
    return tmp_path


def test_shards_become_one_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "merge", "1.json", "2.json", "-o", "all.html"]) == 0
    assert main(["report", "merge", "2.json", "1.json", "1.json", "-o", "all.json"]) == 0
    said = capsys.readouterr()
    assert said.out == "all.html: 40 waits of 2 runs\nall.json: 40 waits of 2 runs\n"
    assert said.err == ""
    assert "kwait-data" in (folder / "all.html").read_text()
    assert len(json.loads((folder / "all.json").read_bytes())["waits"]) == 40


def test_failures_of_shards_become_one_list(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for shard in (1, 2):
        report = night(240, shards=2)
        id = report.runs[shard - 1].id
        report.runs = [report.runs[shard - 1]]
        report.runs[0].exit_status = 1
        report.waits = [wait for wait in report.waits if wait.run == id]
        report.tests = [test for test in report.tests if test.run == id]
        write_report(report, folder / f"{shard}.json")
    assert main(["report", "merge", "1.json", "2.json", "-o", "failures.md"]) == 0
    said = capsys.readouterr()
    assert said.out == "failures.md: 4 failed tests, 3 distinct failures of 2 runs\n"
    text = (folder / "failures.md").read_text()
    assert text.startswith("# Failures\n\n4 failed tests, 3 distinct failures. Runs ")
    assert text.count("\n## ") == 3


def test_missing_shard_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "merge", "2.json", "-o", "all.html"]) == 0
    assert capsys.readouterr().err == "kwait report: not in this report: shard 1/2\n"


def test_duplicate_shard_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = night(40, shards=1)
    again.runs[0].shard, again.runs[0].name, again.runs[0].id = "2/2", "again", "again-1"
    again.runs[0].exit_status = 0
    again.waits, again.tests = [], []
    write_report(again, folder / "again.json")
    assert main(["report", "merge", "1.json", "2.json", "again.json", "-o", "all.html"]) == 0
    assert capsys.readouterr().err == (
        "kwait report: shard 2/2 is here 2 times: runs again, nightly-2\n"
    )


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none.json", "it cannot be read: No such file or directory"),
        ("empty.json", "it is empty: no run has written its report there"),
        ("page.html", "it is a page to look at; merge the .json that its run wrote with it"),
        ("failures.md", "it is a list of failures to read; use the .json of the same run"),
        ("cut.json", "it is no whole JSON: Input data was truncated"),
        (
            "other.json",
            "it is no report: --kwait-report FILE.json writes one, as kwait_report=1",
        ),
        (
            "later.json",
            "it is a report of version 9, and this pytest-kwait reads version 1; use the "
            "pytest-kwait that wrote it",
        ),
        (
            "broken.json",
            "it is a broken report: Expected `array`, got `int` - at `$.waits`",
        ),
        ("r.html.partial", "no run has recorded anything there"),
        ("empty.jsonl", "no run has recorded anything there"),
    ],
)
def test_invalid_report_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, message: str
) -> None:
    (folder / "cut.json").write_bytes((folder / "1.json").read_bytes()[:-100])
    (folder / "empty.json").write_text("")
    (folder / "page.html").write_text("<!doctype html>")
    (folder / "failures.md").write_text("# Failures\n\nNo test failed.\n")
    (folder / "broken.json").write_text('{"kwait_report": 1, "waits": 7}')
    (folder / "other.json").write_text('{"tests": []}')
    (folder / "later.json").write_text('{"kwait_report": 9}')
    (folder / "r.html.partial").mkdir()
    (folder / "empty.jsonl").write_text("")
    assert main(["report", "merge", "1.json", file, "-o", "all.html"]) == 2
    assert capsys.readouterr().err == f"kwait report: FILE={file!r} is not valid: {message}\n"
    assert not (folder / "all.html").exists()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("all.txt", "use the path of a file that ends with .html, .json or .md"),
        ("no/all.html", "there is no folder no; make it first"),
        ("folder.html", "it is a folder; use the path of a file"),
    ],
)
def test_an_output_that_cannot_be_written(
    folder: Path, capsys: pytest.CaptureFixture[str], output: str, message: str
) -> None:
    (folder / "folder.html").mkdir()
    assert main(["report", "merge", "1.json", "-o", output]) == 2
    said = capsys.readouterr().err
    assert said == f"kwait report: --output={output!r} is not valid: {message}\n"


@pytest.mark.parametrize(
    ("broken", "status", "message"),
    [
        (
            "write_bytes",
            2,
            "--output='all.html' is not valid: . cannot be written to: No space left",
        ),
        ("replace", 1, "all.html could not be written: No space left"),
    ],
    ids=["folder", "late"],
)
def test_unwritable_target_is_an_error(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
    status: int,
    message: str,
) -> None:
    def refused(*_: object) -> None:
        raise OSError(28, "No space left")

    monkeypatch.setattr(pathlib.Path, broken, refused)
    assert main(["report", "merge", "1.json", "2.json", "-o", "all.html"]) == status
    assert capsys.readouterr().err == f"kwait report: {message}\n"
    monkeypatch.undo()
    assert not (folder / "all.html").exists()


def test_an_action_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report"])
    said = capsys.readouterr().err
    assert said == "kwait report: the following arguments are required: ACTION\n"


def called(report: RunReport, name: str, **more: Any) -> None:
    """Let all waits of a report be calls of one wait that were met."""
    for wait in report.waits:
        wait.outcome, wait.name, wait.site, wait.limit = "met", name, "test_a.py:3", 600.0
        wait.test, wait.seconds = "test_a.py::test_a", 1.5
        for field, value in more.items():
            setattr(wait, field, value)


@pytest.fixture
def called_folder(folder: Path) -> Path:
    for shard in ("1.json", "2.json"):
        report = read_report(folder / shard, "FILE")
        called(report, "wait_for_pod_ready", limit_name="pod", first_look=True)
        report.waits[0].audit = AuditRecord("", 0.25, "the pod is not ready")
        write_report(report, folder / shard)
    return folder


def test_audits_of_shards_are_one(called_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "audit", "1.json", "2.json", "1.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "test_a.py:3: wait_for_pod_ready",
        "  in test_a.py::test_a",
        "  met by a transient in 2 of 2 observed: held for 250ms, then the pod is not",
        "    ready",
        '  instead: stable_for="1s", or a wait for the state that lasts',
        "test_a.py:3: wait_for_pod_ready",
        "  in test_a.py::test_a",
        "  met at the first look in all of 40 runs",
        "  instead: a wait for what the line before changes, or none",
        "40 met waits of 1 call; 2 observed afterwards",
    ]


def test_findings_beyond_twenty_are_listed_with_all(
    called_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = read_report(called_folder / "1.json", "FILE")
    for number, wait in enumerate(report.waits):
        wait.site, wait.audit, wait.seconds = f"t.py:{number}", None, 500.0 - number
    report.waits += [
        msgspec.structs.replace(w, id=f"x{w.id}", site=f"u{w.site}") for w in report.waits
    ]
    write_report(report, called_folder / "1.json")
    assert main(["report", "audit", "1.json"]) == 0
    shown = capsys.readouterr().out
    assert "20 more findings: --all lists them" in shown
    assert shown.count("instead: ") == 20
    assert main(["report", "audit", "1.json", "--all"]) == 0
    assert capsys.readouterr().out.count("instead: ") == 40


def test_limits_are_suggested_from_all_reports(
    called_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "limits", "1.json", "2.json"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "name in the timeout table  waits  median   p95   p99   max  limit  suggested",
        "pod                           40    1.5s  1.5s  1.5s  1.5s    10m         5s",
        "",
        "for the ini file:",
        'kwait_timeout = "pod=5s"',
    ]
    assert said.err == ""


def test_runs_on_several_clusters_are_reported(
    called_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = read_report(called_folder / "1.json", "FILE")
    report.runs[0].cluster = "embedded"
    write_report(report, called_folder / "1.json")
    assert main(["report", "limits", "1.json", "2.json"]) == 0
    assert capsys.readouterr().err == (
        "kwait report: the runs used several clusters (embedded, existing); limits for one come "
        "from its runs alone\n"
    )


@pytest.mark.parametrize("action", ["audit", "limits"])
def test_reports_without_calls_are_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    assert main(["report", action, "1.json", "2.json"]) == 1
    assert capsys.readouterr().err == (
        "kwait report: no test of the reports has called a wait, or an older pytest-kwait wrote "
        "them\n"
    )


@pytest.mark.parametrize("action", ["audit", "limits"])
@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none.json", "it cannot be read: No such file or directory"),
        ("cut.json", "it is no whole JSON: Input data was truncated"),
        ("other.json", "it is no report: --kwait-report FILE.json writes one, as kwait_report=1"),
        (
            "later.json",
            "it is a report of version 9, and this pytest-kwait reads version 1; use the "
            "pytest-kwait that wrote it",
        ),
        ("broken.json", "it is a broken report: Expected `array`, got `int` - at `$.waits`"),
    ],
)
def test_invalid_report_has_neither_audit_nor_limits(
    folder: Path, capsys: pytest.CaptureFixture[str], action: str, file: str, message: str
) -> None:
    (folder / "cut.json").write_bytes((folder / "1.json").read_bytes()[:-100])
    (folder / "broken.json").write_text('{"kwait_report": 1, "waits": 7}')
    (folder / "other.json").write_text('{"tests": []}')
    (folder / "later.json").write_text('{"kwait_report": 9}')
    assert main(["report", action, "1.json", file]) == 2
    assert capsys.readouterr().err == f"kwait report: FILE={file!r} is not valid: {message}\n"


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Reports of three nights in folders of their own, the second with a failure."""
    monkeypatch.chdir(tmp_path)
    for number, outcome in enumerate(("passed", "failed", "passed")):
        started = 1_780_000_000.0 + number * 86_400
        run = RunRecord(f"n{number}-a", f"n{number}", started, started + 9, commit="abc")
        test = TestRecord(f"n{number}-a.1", run.id, "test_a.py::test_web", outcome, started + 5)
        if outcome == "failed":
            test.headline = "AssertionError: assert 502 == 200"
        else:
            run.passed, run.tests = [test.test], {"passed": 1}
        place = tmp_path / "nights" / str(number)
        place.mkdir(parents=True)
        tests = [test] if outcome == "failed" else []
        write_report(RunReport(VERSION, [run], [], tests), place / "report.json")
        (place / "evidence.json").write_text('{"test": "test_a.py::test_web"}')
        (place / "report.html").write_text("<!doctype html>")
    return tmp_path


def test_flaky_tests_are_a_table(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "flakes", "nights"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines() == [
        "failed  runs   rate  verdict",
        "test_a.py::test_web",
        "     1     3    33%  flaky: failed and passed at commit abc",
        "  first bad  2026-05-29T20:26:40Z run n1, commit abc",
        "  last good  2026-05-28T20:26:40Z run n0, commit abc",
        "  1x AssertionError: assert 502 == 200",
        "1 flaky, of 1 test in 3 runs",
        "from 2026-05-28T20:26:40Z to 2026-05-30T20:26:40Z",
    ]


def test_flaky_tests_as_json(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [f"nights/{number}/report.json" for number in (2, 1, 0, 1)]
    assert main(["report", "flakes", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kwait_flakes"], found["tests"], len(found["runs"])) == (1, 1, 3)
    (flake,) = found["flakes"]
    assert (flake["verdict"], flake["runs"], flake["failed"], flake["rate"]) == (
        "flaky",
        3,
        1,
        0.3333,
    )
    assert (flake["first_bad"]["name"], flake["last_good"]["name"]) == ("n1", "n0")


def test_passed_tests_without_names_are_reported(
    nights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = read_report(nights / "nights/0/report.json", "PATH")
    old.runs[0].passed = []
    write_report(old, nights / "nights/0/report.json")
    assert main(["report", "flakes", "nights"]) == 0
    assert capsys.readouterr().err == (
        "kwait report: 1 passed tests are counted in these reports, but not named: an older "
        "pytest-kwait wrote them; they count as no run\n"
    )


@pytest.mark.parametrize(
    ("path", "named", "message"),
    [
        ("none", "none", "it cannot be read: No such file or directory"),
        (
            "empty",
            "empty",
            "no report is in this folder: --kwait-report FILE.json writes one",
        ),
        ("cut", "cut/report.json", "it is no whole JSON: Input data was truncated"),
        (
            "later",
            "later/report.json",
            "it is a report of version 9, and this pytest-kwait reads version 1; use the "
            "pytest-kwait that wrote it",
        ),
        (
            "nights/0/evidence.json",
            "nights/0/evidence.json",
            "it is no report: --kwait-report FILE.json writes one, as kwait_report=1",
        ),
        (
            "nights/0/report.html",
            "nights/0/report.html",
            "it is a page to look at; merge the .json that its run wrote with it",
        ),
    ],
)
def test_path_without_reports_is_refused(
    nights: Path, capsys: pytest.CaptureFixture[str], path: str, named: str, message: str
) -> None:
    for name in ("empty", "cut", "later"):
        (nights / name).mkdir()
    whole = (nights / "nights/0/report.json").read_bytes()
    (nights / "cut/report.json").write_bytes(whole[:-9])
    (nights / "later/report.json").write_text('{"kwait_report":9}')
    assert main(["report", "flakes", "nights", path]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"kwait report: PATH={named!r} is not valid: {message}\n")


def test_reports_without_tests_are_an_error(
    nights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunRecord("n-a", "n", 1.0, 2.0)
    write_report(RunReport(VERSION, [run], [], []), nights / "no-tests.json")
    assert main(["report", "flakes", "no-tests.json"]) == 1
    assert capsys.readouterr().err == "kwait report: no test of the reports has passed or failed\n"


def test_killed_run_counts(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partial = nights / "nights" / "report.json.partial"
    partial.mkdir()
    run = RunRecord("k-a", "killed", 1_790_000_000.0)
    test = TestRecord("k-a.1", "k-a", "test_a.py::test_web", "failed", 1_790_000_005.0)
    test.headline = "AssertionError: assert 502 == 200"
    lines = [encode_json(JournalEntry(run=run)), encode_json(JournalEntry(test=test)), b'{"te']
    (partial / "k-a-main.jsonl").write_bytes(b"\n".join(lines))
    (nights / "nights" / "lines.jsonl").write_text("{}\n")
    assert main(["report", "flakes", "nights"]) == 0
    assert "  last bad   2026-09-21T14:13:20Z run killed\n" in capsys.readouterr().out
    moved = partial.rename(nights / "killed")
    for path in (moved, moved / "k-a-main.jsonl"):
        assert main(["report", "flakes", str(path)]) == 0
        assert "broken: has not passed in these runs\n" in capsys.readouterr().out

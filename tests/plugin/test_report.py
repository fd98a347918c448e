from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SUITE = """
import os, signal, threading
import pytest
from pytest_kwait import ApiError, WaitFailed
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver

def pod(phase):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "status": {"phase": phase}}

def test_met(kwait, kwait_client, wait_for_pod_running):
    kwait.create(pod("Running"))
    busy = ApiError("busy", status=503, reason="ServiceUnavailable")
    transport = kwait_client._pytest_kwait_session.transport
    transport.refuse("GET", f"/api/v1/namespaces/{kwait.namespace}/pods", busy)
    wait_for_pod_running("p", timeout=5)

def test_failed_early(kwait, wait_for_pod_running):
    kwait.create(pod("Succeeded"))
    wait_for_pod_running("p", timeout=5)

def test_expected(kwait, wait_for_pod_running):
    kwait.create(pod("Succeeded"))
    with pytest.raises(WaitFailed):
        wait_for_pod_running("p", timeout=5)

def test_late(kwait, wait_for_pod_running):
    wait_for_pod_running("p", timeout=0.05)

def test_refused(kwait, kwait_client, wait_for_pod_running):
    kwait.create(pod("Running"))
    no = ApiError("no", status=403, reason="Forbidden")
    transport = kwait_client._pytest_kwait_session.transport
    transport.refuse("GET", f"/api/v1/namespaces/{kwait.namespace}/pods", no)
    wait_for_pod_running("p", timeout=5)
"""

_OUTCOMES = [
    ("test_expected", "failed early"),
    ("test_failed_early", "failed early"),
    ("test_late", "timed out"),
    ("test_met", "met"),
    ("test_refused", "error"),
]


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def ends(report: Any) -> list[tuple[str, str]]:
    """Return the outcomes of the tests' waits."""
    found = [wait for wait in report["waits"] if wait["subject"].startswith("pod ")]
    return sorted((wait["test"].rpartition("::")[2], wait["outcome"]) for wait in found)


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_a_report_has_the_waits_of_all_workers(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str], workers: list[str]
) -> None:
    pytester.makepyfile(test_it=_SUITE)
    result = pytester.runpytest(
        *workers, "--kwait-report=r.json", "--kwait-report=r.html", "--kwait-run-id=nightly"
    )
    result.assert_outcomes(passed=2, failed=3)
    folder = pytester.path
    result.stdout.fnmatch_lines(
        [f"kwait: report {folder}/r.json", f"kwait: report {folder}/r.html", "kwait: waited *"]
    )
    report = read(folder / "r.json")
    assert ends(report) == _OUTCOMES
    (run,) = report["runs"]
    assert (run["name"], run["exit_status"]) == ("nightly", 1)
    assert run["tests"] == {"passed": 2, "failed": 3}
    waits = {wait["test"].rpartition("::")[2]: wait for wait in report["waits"]}
    assert waits["test_failed_early"]["headline"].endswith(
        "/p can no longer get to phase Running: the pod has succeeded"
    )
    assert "kubectl" in waits["test_failed_early"]["text"]
    assert waits["test_failed_early"]["evidence"]["pods"][0]["name"] == "p"
    assert waits["test_met"]["retries"] == 1
    assert "503" in waits["test_met"]["trouble"]
    assert "403" in waits["test_refused"]["trouble"]
    assert {wait.get("worker", "") for wait in report["waits"]} == (
        {"gw0", "gw1"} if workers else {""}
    )
    tests = {test["test"].rpartition("::")[2]: test for test in report["tests"]}
    assert tests["test_late"]["outcome"] == "failed"
    assert "WaitTimeout" in tests["test_late"]["text"]
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in folder.glob("r.*")) == ["r.html", "r.json"]


_CAUGHT = """
import pytest
from pytest_kwait import ApiError, WaitFailed, WaitTimeout
from concurrent.futures import ThreadPoolExecutor

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
       "status": {"phase": "Succeeded"}}

@pytest.fixture(autouse=True)
def pod(kwait):
    kwait.create(POD)

def fail(kwait):
    kwait.wait_for_pod_running("p", timeout=5)

def test_raises(kwait):
    with pytest.raises(WaitFailed):
        fail(kwait)

def test_raises_twice(kwait):
    for _ in range(2):
        with pytest.raises(WaitFailed):
            fail(kwait)

def test_except(kwait):
    try:
        fail(kwait)
    except WaitFailed:
        pass

def test_except_timeout(kwait):
    with pytest.raises(WaitTimeout):
        kwait.wait_for_pod_ready("never", timeout=1)

def test_except_refusal(kwait, kwait_client):
    no = ApiError("no", status=403, reason="Forbidden")
    transport = kwait_client._pytest_kwait_session.transport
    transport.refuse("GET", f"/api/v1/namespaces/{kwait.namespace}/pods", no)
    with pytest.raises(ApiError):
        fail(kwait)

def test_user_code(kwait):
    def check(pod):
        raise RuntimeError("no")
    with pytest.raises(RuntimeError):
        kwait.wait_for("pod/p", check)

@pytest.mark.xfail(raises=WaitFailed, strict=True)
def test_xfail(kwait):
    fail(kwait)

def test_skip(kwait):
    try:
        fail(kwait)
    except WaitFailed:
        pytest.skip("not here")

@pytest.mark.xfail
def test_xpass(kwait):
    pass

def test_other_error(kwait):
    with pytest.raises(WaitFailed):
        fail(kwait)
    assert kwait.namespace == "other"

def test_late_check(kwait):
    with pytest.raises(WaitFailed):
        fail(kwait)
    kwait.wait_for_pod_ready("never", timeout=1)  # fails

def test_cause(kwait):
    try:
        fail(kwait)  # fails
    except WaitFailed as error:
        raise AssertionError("as it failed") from error

def test_handler(kwait):
    try:
        fail(kwait)  # fails
    except WaitFailed:
        assert not kwait.namespace

def test_plain(kwait):
    fail(kwait)  # fails

def test_thread(kwait):
    with ThreadPoolExecutor(1) as threads:
        threads.submit(fail, kwait).result()  # fails

def test_group(kwait):
    errors = []
    for _ in range(2):
        try:
            fail(kwait)  # fails
        except WaitFailed as error:
            errors.append(error)
    raise ExceptionGroup("both", errors)

@pytest.fixture
def broken(kwait):
    fail(kwait)  # fails

def test_setup(broken):
    pass

@pytest.fixture
def tolerant(kwait):
    with pytest.raises(WaitFailed):
        fail(kwait)
    yield
    fail(kwait)  # fails

def test_teardown(tolerant):
    pass
"""


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_waits_whose_errors_a_test_caught_did_not_fail_it(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str], workers: list[str]
) -> None:
    pytester.makepyfile(test_it=_CAUGHT)
    result = pytester.runpytest(*workers, "--kwait-report=r.json")
    counted = {"passed": 7, "failed": 7, "errors": 2, "xfailed": 1, "xpassed": 1, "skipped": 1}
    result.assert_outcomes(**counted)
    report = read(pytester.path / "r.json")
    outcomes: dict[str, list[bool]] = {}
    for wait in report["waits"]:
        if wait["subject"].startswith("pod "):
            name = wait["test"].rpartition("::test_")[2]
            outcomes.setdefault(name, []).append(wait.get("caught", False))
    assert outcomes == {
        "raises": [True],
        "raises_twice": [True, True],
        "except": [True],
        "except_timeout": [True],
        "except_refusal": [True],
        "user_code": [True],
        "xfail": [True],
        "skip": [True],
        "other_error": [True],
        "late_check": [True, False],
        "cause": [False],
        "handler": [False],
        "plain": [False],
        "thread": [False],
        "group": [False, False],
        "setup": [False],
        "teardown": [True, False],
    }
    assert report["runs"][0]["tests"] == {
        "passed": 6, "failed": 7, "error": 2, "xfailed": 1, "xpassed": 1, "skipped": 1
    }  # fmt: skip


def test_report_contains_records_of_a_killed_worker(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(
        test_it=_SUITE
        + """
class Killer(WaitObserver):
    # Told after what records has been: however slow the machine is, the wait has begun by then.
    def on_start(self, wait):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()

def test_zz_killed(kwait, wait_for_pod_running, wait_for_pod_ready):
    kwait.create(pod("Running"))
    wait_for_pod_running("p", timeout=5)
    ACTIVE_WAITS.add(Killer())
    wait_for_pod_ready("never", timeout=30)
"""
    )
    result = pytester.runpytest("-n1", "--max-worker-restart=0", "--kwait-report=r.json")
    assert result.ret == 1
    report = read(pytester.path / "r.json")
    assert ends(report) == sorted(
        [*_OUTCOMES, ("test_zz_killed", "met"), ("test_zz_killed", "unfinished")]
    )
    assert [test["outcome"] for test in report["tests"]].count("crashed") == 1
    (unfinished,) = [wait for wait in report["waits"] if wait["outcome"] == "unfinished"]
    assert 0.2 < unfinished["seconds"] < 30
    assert [
        bool(wait.get("text")) for wait in report["waits"] if wait["outcome"] == "timed out"
    ] == [True]


def test_records_of_a_killed_run_can_be_merged(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    from pytest_kwait.suite.report.files import read_report
    from pytest_kwait.suite.report.run_report import list_omissions

    pytester.makepyfile(test_it=_SUITE + "\ndef test_zz(): os.kill(os.getpid(), signal.SIGKILL)\n")
    result = pytester.runpytest_subprocess("--kwait-report=r.html", "--kwait-run-id=nightly")
    assert result.ret == -9
    assert not (pytester.path / "r.html").exists()
    report = read_report(pytester.path / "r.html.partial", "FILE")
    assert sum(wait.outcome == "met" and "pod" in wait.subject for wait in report.waits) == 1
    assert sum(wait.outcome == "failed early" and bool(wait.text) for wait in report.waits) == 2
    assert list_omissions(report) == ["run nightly was killed: here is what was over until then"]


def test_outcomes_of_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def bad():
            raise RuntimeError("token=abcdefgh123")

        @pytest.fixture
        def bad_end():
            yield
            raise RuntimeError("end")

        def test_setup(bad): pass
        def test_teardown(bad_end): pass
        def test_both(bad_end): assert 0
        def test_skipped(): pytest.skip("no")
        @pytest.mark.xfail
        def test_xfailed(): assert 0
        def test_passed(): pass
        """
    )
    pytester.runpytest("--kwait-report=r.json")
    report = read(pytester.path / "r.json")
    assert report["runs"][0]["tests"] == {
        "error": 2, "failed": 1, "skipped": 1, "xfailed": 1, "passed": 1,
    }  # fmt: skip
    texts = {test["test"].rpartition("::")[2]: test["text"] for test in report["tests"]}
    assert sorted(texts) == ["test_both", "test_setup", "test_teardown"]
    assert "token=(hidden)" in texts["test_setup"]
    assert "assert 0" in texts["test_both"]


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "worker"])
def test_collection_error_is_a_failure(pytester: pytest.Pytester, workers: list[str]) -> None:
    pytester.makepyfile(test_bad="import nothing_of_that_name", test_good="def test(): pass")
    pytester.runpytest(*workers, "--kwait-report=r.json")
    report = read(pytester.path / "r.json")
    assert [(test["test"], test["outcome"]) for test in report["tests"]] == [
        ("test_bad.py", "error")
    ]
    assert "nothing_of_that_name" in report["tests"][0]["text"]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("r.txt", "use the path of a file that ends with .html, .json or .md"),
        ("r", "use the path of a file that ends with .html, .json or .md"),
        ("no/r.html", "there is no folder {path}/no; make it first"),
        ("file/r.html", "there is no folder {path}/file; make it first"),
        ("folder.json", "it is a folder; use the path of a file"),
    ],
)
def test_a_report_that_cannot_be_written_ends_the_run_at_its_start(
    pytester: pytest.Pytester, file: str, message: str
) -> None:
    (pytester.path / "file").write_text("")
    (pytester.path / "folder.json").mkdir()
    pytester.makepyfile("def test(): pass")
    result = pytester.runpytest(f"--kwait-report={file}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    path = pytester.path / file
    said = message.replace("{path}", str(pytester.path))
    assert (
        f"ERROR: report={str(path)!r} (from option --kwait-report) is not valid: {said}"
        in result.stderr.str().splitlines()
    )
    assert "passed" not in result.stdout.str()


def test_a_folder_that_is_not_writable_ends_the_run_at_its_start(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path

    def refused(self: Path, data: bytes) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_bytes", refused)
    pytester.makepyfile("def test(): pass")
    result = pytester.runpytest("--kwait-report=r.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    path = pytester.path
    assert (
        f"ERROR: report='{path}/r.html' (from option --kwait-report) is not valid: "
        f"{path} cannot be written to: Permission denied"
    ) in result.stderr.str().splitlines()


def test_a_report_that_cannot_be_written_at_the_end_costs_no_result(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("import os\ndef test(): os.mkdir('r.json')")
    result = pytester.runpytest("--kwait-report=r.json", "--kwait-report=r.html")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    path = pytester.path
    assert (
        f"kwait: report {path}/r.json could not be written: Is a directory; what was recorded is "
        f"in {path}/r.json.partial, for kwait report merge"
    ) in result.stdout.str().splitlines()
    assert f"kwait: report {path}/r.html" in result.stdout.str().splitlines()
    assert list((path / "r.json.partial").glob("*.jsonl"))


def test_environment_and_ini_take_several_with_commas(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nkwait_report = a.json\n")
    pytester.makepyfile("def test(): pass")
    monkeypatch.setenv("KWAIT_REPORT", "b.json, c.html")
    result = pytester.runpytest()
    path = pytester.path
    assert (
        f"kwait: report={path}/b.json, {path}/c.html (env KWAIT_REPORT)"
        in result.stdout.str().splitlines()
    )
    assert sorted(each.name for each in path.glob("?.*")) == ["b.json", "c.html"]


def test_an_empty_name_in_the_list_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWAIT_REPORT", "b.json,,c.html")
    result = pytester.runpytest()
    assert (
        "ERROR: report='' (from env KWAIT_REPORT) is not valid: use the path of a file that ends "
        "with .html, .json or .md"
    ) in result.stderr.str().splitlines()


def test_no_records_without_the_option(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(
        """
        def test_it(kwait):
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS
            names = {type(each).__name__ for each in ACTIVE_WAITS._observers}
            assert "WaitRecorder" not in names
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_collecting_writes_no_report(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test(): pass")
    pytester.runpytest("--collect-only", "--kwait-report=r.json")
    assert not list(pytester.path.glob("r.json*"))


_LIMITS = """
import pytest
from pytest_kwait import wait_for_pod_running as wait_by_function

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}

@pytest.fixture(autouse=True)
def pod(kwait):
    kwait.create(POD)
    kwait.wait_for_pod_running("p")

def test_table(kwait):
    kwait.wait_for_pod_running("p")

def test_own(kwait):
    kwait.wait_for_pod_running("p", timeout=5)

@pytest.mark.kwait(timeout=6)
def test_own_of_marker(kwait):
    kwait.wait_for_pod_running("p")

@pytest.mark.timeout(20)
def test_table_cut(kwait):
    kwait.wait_for_pod_running("p")

def test_function(kwait, kwait_client):
    wait_by_function(kwait_client, kwait.namespace, "p")
"""


def test_report_names_calls_and_the_origin_of_limits(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(test_it=_LIMITS)
    result = pytester.runpytest("--kwait-report=r.json", "--kwait-timeout=pod=40s")
    result.assert_outcomes(passed=5)
    waits = [each for each in read(pytester.path / "r.json")["waits"] if each.get("name")]
    assert {each["name"] for each in waits} == {"wait_for_pod_running"}
    assert {each["first_look"] for each in waits} == {True}
    calls = {
        each["test"].rpartition("::")[2]: (each["site"], each["limit"], each.get("limit_name"))
        for each in waits
        if each["site"] != "test_it.py:9"
    }
    assert calls == {
        "test_table": ("test_it.py:12", 40.0, "pod"),
        "test_own": ("test_it.py:15", 5.0, None),
        "test_own_of_marker": ("test_it.py:19", 6.0, None),
        "test_table_cut": ("test_it.py:23", 40.0, "pod"),
        "test_function": ("test_it.py:26", 40.0, "pod"),
    }
    assert sum(each["site"] == "test_it.py:9" for each in waits) == 5
    assert not any("audit" in each for each in waits)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.plugin.outputs import list_lines

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "in a worker"])
def test_short_summary_shows_the_cause_in_80_columns(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    fake_cluster: Callable[[], str],
    workers: tuple[str, ...],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_kwait import InvalidArgument

        def test_wait(wait_for_job_complete):
            wait_for_job_complete("sleepers", timeout="100ms")

        @pytest.mark.wait_for_pod_ready("web", timeout="100ms")
        def test_mark(): pass

        def test_argument(kwait):
            raise InvalidArgument("count", -1, "use 0 or more")

        def test_own():
            assert 1 == 2
        """
    )
    result = pytester.runpytest("--junitxml=junit.xml", *workers)
    lines = result.stdout.str().splitlines()
    for line in (
        "FAILED test_it.py::test_wait - job/sleepers: not found yet (limit 100ms)",
        "ERROR test_it.py::test_mark - pod/web: not found yet (limit 100ms)",
        "FAILED test_it.py::test_argument - count=-1 is not valid: use 0 or more",
        "FAILED test_it.py::test_own - assert 1 == 2",
    ):
        assert line in lines
    junit = (pytester.path / "junit.xml").read_text()
    assert 'message="job/sleepers: not found yet (limit 100ms)"' in junit


def test_values_of_secrets_are_masked_in_names_of_awaited_objects(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, fake_cluster: Callable[[], str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makepyfile(
        test_it="""
        def test_it(kwait, wait_for_pod_ready):
            value = "gr8-passw" + "0rd"
            kwait.create({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
                "stringData": {"key": value},
            })
            wait_for_pod_ready("web-" + value, timeout="100ms")
        """
    )
    result = pytester.runpytest(
        "--junitxml=junit.xml", "--kwait-artifacts=kept", "--kwait-report=r.json"
    )
    shown = result.stdout.str()
    assert (
        "FAILED test_it.py::test_it - pod/web-(hidden): not found yet (limit 100ms)"
    ) in shown.splitlines()
    written = [
        path.read_text()
        for path in pytester.path.rglob("*")
        if path.suffix in {".xml", ".json", ".txt", ".yaml"}
    ]
    assert len(written) > 2
    for text in (shown, *written):
        assert "gr8-passw0rd" not in text


_JUNIT = ("-ojunit_logging=all", "-ojunit_family=xunit1")


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "in a worker"])
def test_values_of_secrets_are_masked_in_subtests_properties_and_reasons(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str], workers: tuple[str, ...]
) -> None:
    """A subtest's output is added to its report after that was made."""
    pytest.importorskip("_pytest.subtests")
    pytester.makepyfile(
        test_it="""
        import pytest

        def test_it(kwait, subtests, record_property):
            value = "gr8-passw" + "0rd"
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
            kwait.create({**secret, "stringData": {"key": value}})
            record_property("note", f"noted {value}")
            with subtests.test("part"):
                print(f"printed {value}")
                assert not value
            pytest.xfail(f"because of {value}")
        """
    )
    result = pytester.runpytest("--junitxml=j.xml", *_JUNIT, "-rA", *workers)
    shown, junit = result.stdout.str(), (pytester.path / "j.xml").read_text()
    assert "gr8-passw0rd" not in shown + junit
    assert "printed (hidden)" in shown
    assert "because of (hidden)" in shown
    assert "noted (hidden)" in junit


_MESSAGE = [
    "job t-{name}-########/pi did not become complete within 100ms: not found yet",
    "  limit     100ms, ended after 100ms (poll mode)",
]


def message(name: str, margin: str = "") -> list[str]:
    return [margin + line.format(name=name) for line in _MESSAGE]


def as_if_quick(line: str) -> str:
    """Return a line of a message without the delay of a busy machine."""
    return re.sub(r"ended after [0-9.]+m?s", "ended after 100ms", line)


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
    pytester: pytest.Pytester, fake_cluster: Callable[[], str], call: str
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
    lines = list_lines(result)
    assert f">       {call}" in lines
    assert sum("within 100ms" in line for line in lines) == 1
    assert sum("limit  " in line for line in lines) == 1
    assert "test_it.py:4: WaitTimeout" in lines
    # Not one line of ours, of the errors behind the error, or of how pytest came here.
    assert not any(re.match(r"\S+\.py:\d+:", line) for line in lines if "test_it.py" not in line)
    assert not any("direct cause" in line or "During handling" in line for line in lines)


def test_a_failed_precondition_is_a_setup_error_with_the_same_message(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
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
    lines = [as_if_quick(line) for line in list_lines(result)]
    start = next(i for i, line in enumerate(lines) if "ERROR at setup of test_mark" in line)
    assert lines[start + 1 : start + 3] == message("mark")
    body = [line.removeprefix("E       ") for line in lines if line.startswith("E       ")]
    headline, limit = message("body")
    # Wrapped by the width of the real name.
    assert " ".join(each.strip() for each in body[:2]) == f"WaitTimeout: {headline}"
    assert body[2] == limit
    assert max(map(len, body[:3])) <= 75


def test_an_error_in_a_users_fixture_shows_its_line(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
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
    lines = list_lines(result)
    assert '>       return kwait.get("job-pi")' in lines
    assert "test_it.py:5: InvalidArgument" in lines
    assert not any("suite/kwait.py" in line for line in lines)


def test_full_trace_shows_everything(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(test_it='def test_it(kwait): kwait.get("job/pi")')
    # On its own: the trace is parsed, which Python 3.11 may fail at where other threads parse too.
    assert "suite/kwait.py" in pytester.runpytest_subprocess("--full-trace").stdout.str()


_LOST = """
import pytest
from pytest_kwait.engine.failure.evidence import Evidence, LogTail
from pytest_kwait.engine.failure.wait_report import Timeline, WaitReport
from pytest_kwait.errors import WaitFailed

def test_it(kwait):
    timeline = Timeline()
    for at in range(3):
        timeline.record(float(at), f"{at} of 3 pods Running")
    logs = LogTail("web-a", "main", False, tuple(f"line {at}" for at in range(9)))
    error = WaitFailed(report=WaitReport(
        "job pi", "finish", True, "it is lost", 9.0, 1.0, "watch", timeline=timeline,
        findings=Evidence("ci-1", logs=(logs,)),
    ))
    error.add_note("a note")
    raise error
"""


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "in a worker"])
def test_the_terminal_shows_a_short_message_and_files_the_whole_one(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str], workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_it=_LOST)
    result = pytester.runpytest("--kwait-run-id=r1", "--kwait-artifacts=art", *workers)
    lines = list_lines(result)
    start = next(at for at, line in enumerate(lines) if line.startswith("E "))
    folder = next((pytester.path / "art").glob("test_it*"))
    name = re.sub("-[0-9a-f]{8}", "-########", folder.name)
    assert lines[start : start + 12] == [
        "E       WaitFailed: job pi can no longer finish: it is lost",
        "E         limit     9s, ended after 1s (watch mode)",
        "E         timeline  3 changes, at first: 0 of 3 pods Running",
        "E         log of web-a/main",
        "E           | line 6",
        "E           | line 7",
        "E           | line 8",
        "E         try: kubectl --namespace ci-1 get events",
        "E         more: -v shows the timeline and all logs; so does",
        f"E               art/{name}/failure.txt",
        "E       a note",
        "",
    ]
    # No line with the repr of a fixture of ours.
    assert not any(line.startswith("kwait = ") for line in lines)
    whole = (folder / "failure.txt").read_text()
    assert "E       pytest_kwait.errors.WaitFailed: job pi can no longer finish: it is" in whole
    assert "E           | line 0\n" in whole


def test_verbose_shows_the_whole_message(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(test_it=_LOST)
    lines = list_lines(pytester.runpytest("-v"))
    assert "E         awaited   job pi to finish" in lines
    assert "E           | line 0" in lines
    assert not any("more: -v" in line for line in lines)


def test_a_first_failure_takes_25_lines(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    long = _LOST.replace('"it is lost"', '"it is lost " * 90').replace("line {at}", "x " * 99)
    pytester.makepyfile(test_it=long.replace("    error.add_note", "    # error.add_note"))
    lines = list_lines(pytester.runpytest())
    message = [line for line in lines if line.startswith("E ")]
    assert 10 < len(message) <= 17
    assert max(map(len, message)) <= 80
    assert message[-1].lstrip("E ").startswith("more: -v shows the whole message, the timeline ")


def test_assertion_on_matches_shows_the_differences(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makefile(".yaml", expected="spec:\n  replicas: 3\n  paused: true\n")
    pytester.makepyfile(
        test_it="""
        from pytest_kwait import matches

        WEB = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}}

        def test_equal():
            assert WEB == matches("expected.yaml")

        def test_unequal():
            assert matches({"spec": {"replicas": 1}}) != WEB
        """
    )
    lines = pytester.runpytest("-p", "no:cacheprovider").stdout.str().splitlines()
    first = lines.index("E       assert deployment/web == matches(expected.yaml)")
    assert lines[first + 1 : first + 4] == [
        "E           difference       awaited  seen",
        "E             spec.replicas  3        1",
        "E             spec.paused    true     (not there)",
    ]
    assert 'E       assert deployment/web != matches({"spec": {"replicas": 1}})' in lines


def test_releases_of_a_failed_test_are_shown(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, fake_cluster: Callable[[], str]
) -> None:
    """Those of Helm that are ready, in the namespaces of the test."""
    program = pytester.mkdir("bin") / "helm"
    record = '{"version": 3, "info": {"status": "deployed", "notes": "Thanks."}}'
    chart = '{"chart": "shop", "version": "0.1.0"}'
    script = f"case $1 in status) echo '{record}';; get) echo '{chart}';; esac"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    pytester.makepyfile(
        test_it="""
        def test_it(kwait):
            kwait.helm_upgrade("shop", "alias/shop")
            assert 1 == 2
        """
    )
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(
        [
            "*- helm -*",
            "release shop in t-it-*: revision 3, deployed, chart shop-0.1.0",
            "  notes: Thanks.",
        ]
    )

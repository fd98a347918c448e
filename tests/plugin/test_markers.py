from __future__ import annotations

import pytest

_PASSED_BY = "use seconds (90), a timedelta, or a Go duration ('500ms', '90s', '1m30s')"
_OF_WAITS = "timeout, poll, mode, fail_fast, grace, stable_for"
_PER_TEST = "fail_fast, grace, keep, mode, poll, stable_for, timeout, timeouts"


def test_every_marker_is_registered(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = [pytest.mark.serial, pytest.mark.disruptive, pytest.mark.slow]

        @pytest.mark.kwait(timeout="5s", timeouts={"job": "1m"}, poll=1, mode="poll",
                           fail_fast=False, grace="2s", stable_for=0, keep="failed")
        def test(request):
            assert len(list(request.node.iter_markers())) == 4
        """
    )
    pytester.runpytest("--strict-markers").assert_outcomes(passed=1)
    shown = pytester.runpytest("--markers").stdout
    shown.fnmatch_lines(
        [
            "@pytest.mark.wait_for_job_pods_running(job, expected_count, [*][*]options): before "
            "the test starts, wait for a number of a job's pods in phase Running; options as for "
            "the fixture.",
        ]
    )


def test_function_wins_over_class_over_module_and_timeouts_merge_by_name(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_kwait.plugin.markers import settings_of

        pytestmark = pytest.mark.kwait(poll="1s", mode="poll", timeouts={"job": 1, "pod_start": 1})

        @pytest.mark.kwait(poll="2s", grace="2s", timeouts={"job": 2})
        class TestClass:
            @pytest.mark.kwait(poll="4s", timeouts={"deployment": 3})
            @pytest.mark.kwait(poll="3s", keep="always")
            def test(self, request, kwait_timeouts):
                settings = settings_of(request.node)
                assert [settings.poll, settings.mode, settings.grace] == [3.0, "poll", 2.0]
                assert settings.keep == "always"
                assert settings.source("poll") == "marker of test_it.py::TestClass::test"
                assert settings.source("mode") == "marker of test_it.py"
                assert settings.source("fail_fast") == "option --kwait-fail-fast"
                assert kwait_timeouts.job == 2 and kwait_timeouts["pod_start"] == 1
                assert kwait_timeouts.deployment == 3
        """
    ).rename(pytester.path / "test_it.py")
    pytester.runpytest("--kwait-fail-fast=false", "--kwait-poll=9s").assert_outcomes(passed=1)


BAD_MARKERS = [
    (
        "kwait(pol='2s')",
        f"there is no setting pol; did you mean poll? a test can set {_PER_TEST}",
    ),
    (
        "kwait(cluster='embedded')",
        "cluster belongs to the run, not to a test; use --kwait-cluster, KWAIT_CLUSTER or ini "
        "kwait_cluster",
    ),
    ("kwait('2s')", f"settings are given by name: {_PER_TEST}"),
    ("kwait(poll='5 min')", f"poll='5 min' is not valid: {_PASSED_BY}"),
    (
        "kwait(timeouts={'jobs': '5m'})",
        "timeout name='jobs' is not valid: the nearest names in the table are job",
    ),
    ("kwait(mode='look')", "mode='look' is not valid: use watch or poll"),
    (
        "wait_for_job_pods_running('sleepers')",
        "arguments of wait_for_job_pods_running=\"('sleepers')\" is not valid: missing a required "
        "argument: 'expected_count'; use wait_for_job_pods_running(job, expected_count) and the "
        f"options of every wait: {_OF_WAITS}",
    ),
    (
        "wait_for_job_pods_running('sleepers', -1)",
        "expected_count=-1 is not valid: use a whole number, 0 or more",
    ),
    (
        "wait_for_job_complete('pi', timeout='soon')",
        f"timeout='soon' is not valid: {_PASSED_BY}",
    ),
    (
        "wait_for_job_complete('Pi')",
        "job='Pi' is not valid: use a DNS name: up to 253 lower-case letters, digits, '-' and '.', "
        "with a letter or digit at both ends of each part",
    ),
    ("manifests()", "give files, for example manifests('job.yaml')"),
    ("manifests('nowhere.yaml')", "nowhere.yaml: there is no file {path}/nowhere.yaml"),
    (
        "manifests('bad.yaml')",
        "bad.yaml, document 1, line 2: is no YAML: mapping values are not allowed here",
    ),
]


@pytest.mark.parametrize(("mark", "problem"), BAD_MARKERS, ids=[mark for mark, _ in BAD_MARKERS])
def test_bad_marker_fails_the_collection_of_its_test(
    pytester: pytest.Pytester, mark: str, problem: str
) -> None:
    (pytester.path / "bad.yaml").write_text("a: b\nc: d: e\n")
    pytester.makepyfile(
        test_it=f"""
        import pytest

        @pytest.mark.{mark}
        def test_bad(): pass

        def test_good(): pass
        """
    )
    result = pytester.runpytest("--continue-on-collection-errors", "--strict-markers")
    result.assert_outcomes(passed=1, errors=1)
    lines = result.stdout.str().splitlines()
    problem = problem.replace("{path}", str(pytester.path))
    assert f"marker {mark} of test_it.py::test_bad: {problem}" in lines
    assert any(line.startswith("ERROR test_it.py::test_bad") for line in lines)
    assert "Traceback" not in result.stdout.str()


def test_bad_marker_stops_the_run_as_any_collection_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.kwait(pol=1)
        class TestClass:
            @pytest.mark.parametrize("x", [1, 2])
            def test_bad(self, x): pass

        def test_good(): pass
        """
    )
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=2)
    assert "marker kwait(pol=1) of test_it.py::TestClass: there is no setting pol" in (
        result.stdout.str()
    )


def test_bad_marker_under_xdist_is_no_internal_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.kwait(pol=1)
        def test_bad(): pass

        def test_good(): pass
        """
    )
    result = pytester.runpytest_subprocess("-n2")
    output = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in output
    assert "marker kwait(pol=1) of test_it.py::test_bad: there is no setting pol" in output
    assert result.ret in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.TESTS_FAILED)


def test_bad_marker_that_a_hook_adds_is_a_setup_error(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            items[0].add_marker(pytest.mark.wait_for_job_complete())
        """
    )
    pytester.makepyfile(test_it="def test_it(): pass")
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert (
        "marker wait_for_job_complete() of test_it.py::test_it: arguments of "
        "wait_for_job_complete='()' is not valid: missing a required argument: 'job'; use "
        "wait_for_job_complete(job, reason=None, completions=None) and the options of every wait: "
        f"{_OF_WAITS}"
    ) in result.stdout.str().splitlines()


def test_waits_are_for_test_functions(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        class Line(pytest.Item):
            def runtest(self): pass

        class Text(pytest.File):
            def collect(self):
                item = Line.from_parent(self, name="first")
                item.add_marker(pytest.mark.wait_for_job_complete("pi"))
                yield item

        def pytest_collect_file(parent, file_path):
            if file_path.suffix == ".txt":
                return Text.from_parent(parent, path=file_path)
        """
    )
    pytester.maketxtfile(lines="first")
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert (
        "marker wait_for_job_complete('pi') of lines.txt::first: it can be on test functions alone"
    ) in result.stdout.str().splitlines()

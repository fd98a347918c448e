from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.engine.options import TIMEOUTS
from pytest_kwait.plugin.startup import SKIP_MARKERS

if TYPE_CHECKING:
    from collections.abc import Callable

_PASSED_BY = "use seconds (90), a timedelta, or a Go duration ('500ms', '90s', '1m30s')"
_OF_WAITS = (
    "timeout, poll, mode, fail_fast, grace, stable_for, follow_name, stop; methods and fixtures "
    "also take namespace and as_model"
)
_PER_TEST = "fail_fast, grace, keep, mode, namespace_scope, poll, stable_for, timeout, timeouts"


def test_every_marker_is_registered(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        mark = pytest.mark
        pytestmark = [mark.kwait_serial, mark.kwait_disruptive, mark.kwait_slow]

        @pytest.mark.kwait(timeout="5s", timeouts={"job": "1m"}, poll=1, mode="poll",
                           fail_fast=False, grace="2s", stable_for=0, keep="failed")
        def test(request):
            assert len(list(request.node.iter_markers())) == 4
        """
    )
    pytester.runpytest("--strict-markers").assert_outcomes(passed=1)
    shown = pytester.runpytest("--markers", "-v").stdout
    shown.fnmatch_lines(
        [
            "@pytest.mark.wait_for_job_pods_running(name, count, [*][*]options): before "
            "the test starts, wait for an exact number of a job's pods in phase Running; options "
            "as for the fixture.",
        ]
    )


def test_markers_are_listed_in_a_few_lines(pytester: pytest.Pytester) -> None:
    lines = pytester.runpytest("--markers").stdout.lines
    ours = [line for line in lines if "kwait" in line or "wait_for" in line]
    assert ours == [
        "@pytest.mark.kwait(*, timeout, timeouts, poll, mode, fail_fast, grace, stable_for, "
        "namespace_scope, keep): settings of these tests; the marker nearest to the test wins, "
        "timeouts are merged name by name.",
        "@pytest.mark.kwait_manifests(*files, validate='strict', namespace=None, **variables): "
        "apply manifests in the test's namespace before it starts; paths are relative to the "
        "test's file, then to rootdir.",
        "@pytest.mark.kwait_serial: run alone on the cluster; the test waits until no other test "
        "uses it.",
        "@pytest.mark.kwait_disruptive: the test disturbs its cluster; implies serial.",
        "@pytest.mark.kwait_slow: the test takes long.",
        *(f"@pytest.mark.{line}" for line in SKIP_MARKERS),
        "@pytest.mark.wait_for_...(*args, **options): before the test starts, wait as the fixture "
        "of that name does; 121 markers: pytest --markers -v lists them.",
    ]


def test_fixtures_are_listed_in_a_few_lines(pytester: pytest.Pytester) -> None:
    lines = pytester.runpytest("--fixtures").stdout.lines
    waits = [at for at, line in enumerate(lines) if line.startswith("wait_for")]
    assert len(waits) == 1
    assert lines[waits[0] + 1 : waits[0] + 3] == [
        "    Wait for any condition on any kind of object: wait_for(target, condition, *, "
        "selector=None, count=None).",
        "    One of 121 fixtures wait_for...: pytest --fixtures -v lists them.",
    ]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("skip_if_provider", "kwait_skip_if_provider_is or kwait_skip_unless_provider_is"),
        ("serail", "kwait_serial"),
    ],
)
def test_unknown_marker_of_ours_is_an_error(
    pytester: pytest.Pytester, name: str, near: str
) -> None:
    pytester.makeini("[pytest]\nmarkers =\n    kwait_owned: of this suite\n")
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.kwait_{name}
        def test_unknown(): ...

        @pytest.mark.kwait_owned
        def test_registered(): ...
        """
    )
    result = pytester.runpytest("-W", "ignore", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)
    assert (
        f"marker kwait_{name}() of test_unknown_marker_of_ours_is_an_error.py::test_unknown: "
        f"there is no marker kwait_{name}; did you mean {near}? the markers are kwait, "
        "kwait_disruptive, kwait_manifests, kwait_owned, kwait_serial, "
        "kwait_skip_if_missing_resource, kwait_skip_if_provider_is, "
        "kwait_skip_unless_feature_gate_enabled, kwait_skip_unless_node_count_is_at_least, "
        "kwait_skip_unless_programs_isolated, kwait_skip_unless_provider_is, "
        "kwait_skip_unless_server_version_gte, kwait_slow and those of the waits"
    ) in result.stdout.str()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("pod_redy", "did you mean wait_for_pod_ready or "),
        ("xyzzy", "the waits are in "),
    ],
)
def test_an_unknown_marker_that_is_named_as_a_wait_is_an_error(
    pytester: pytest.Pytester, name: str, near: str
) -> None:
    pytester.makeini("[pytest]\nmarkers =\n    wait_for_owned: of this suite\n")
    pytester.makepyfile(
        test_it=f"""
        import pytest

        @pytest.mark.wait_for_{name}("web")
        def test_unknown(): ...

        @pytest.mark.wait_for_owned
        def test_registered(): ...
        """
    )
    result = pytester.runpytest("-W", "ignore", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)
    text = result.stdout.str()
    assert (
        f"marker wait_for_{name}('web') of test_it.py::test_unknown: there is no wait "
        f"wait_for_{name}; {near}"
    ) in text
    assert (
        "the waits are in `pytest --markers -v`; a marker of another name, or of the suite, is "
        "registered by the ini setting markers"
    ) in text


@pytest.mark.parametrize("plain", [False, True])
def test_plain_names_of_markers_are_known_by_choice(pytester: pytest.Pytester, plain: bool) -> None:
    (pytester.path / "pytest.ini").write_text(f"[pytest]\nkwait_plain_markers = {plain}\n")
    pytester.makepyfile(
        """
        import pytest
        from pytest_kwait.plugin.usage import has_marker

        @pytest.mark.serial
        def test_plain(request):
            assert has_marker(request.node, "serial", "slow")

        @pytest.mark.kwait_serial
        def test_ours(request):
            assert has_marker(request.node, "serial")
            assert not has_marker(request.node, "slow")
        """
    )
    result = pytester.runpytest("--strict-markers")
    if plain:
        result.assert_outcomes(passed=2)
        shown = pytester.runpytest("--markers").stdout
        shown.fnmatch_lines(["@pytest.mark.serial: the same as kwait_serial."])
    else:
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*'serial' not found in `markers` configuration option"])


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
                assert settings.source("fail_fast") == "option --kwait-no-fail-fast"
                assert kwait_timeouts.job == 2 and kwait_timeouts["pod_start"] == 1
                assert kwait_timeouts.deployment == 3
        """
    ).rename(pytester.path / "test_it.py")
    pytester.runpytest("--kwait-no-fail-fast", "--kwait-poll=9s").assert_outcomes(passed=1)


def test_a_named_timeout_wins_over_the_timeout_of_an_outer_marker(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        def limits(*waits):
            return [wait.defaults.options(wait.wait, {})["timeout"] for wait in waits]

        @pytest.mark.kwait(timeout="1s")
        class TestClass:
            @pytest.mark.kwait(timeouts={"job": "3s"})
            def test_nearer(self, wait_for_job_complete, wait_for_pod_ready):
                assert limits(wait_for_job_complete, wait_for_pod_ready) == [3.0, 1.0]

            @pytest.mark.kwait(timeout="2s", timeouts={"job": "4s"})
            def test_same_marker(self, wait_for_job_complete, wait_for_pod_ready):
                assert limits(wait_for_job_complete, wait_for_pod_ready) == [4.0, 2.0]

        @pytest.mark.kwait(timeouts={"job": "3s"})
        class TestNamed:
            @pytest.mark.kwait(timeout="1s")
            def test_farther(self, wait_for_job_complete):
                assert limits(wait_for_job_complete) == [1.0]
        """
    )
    pytester.runpytest("--kwait-timeout=job=9s").assert_outcomes(passed=3)


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
    (
        "kwait(timeouts={60: 'job'})",
        f"timeout name=60 is not valid: the table has {', '.join(TIMEOUTS)}",
    ),
    ("kwait(mode='look')", "mode='look' is not valid: use watch or poll"),
    (
        "wait_for_job_pods_running('sleepers')",
        "arguments of wait_for_job_pods_running=\"('sleepers')\" is not valid: missing a required "
        "argument: 'count'; use wait_for_job_pods_running(name, count) and the "
        f"options of every wait: {_OF_WAITS}",
    ),
    (
        "wait_for_job_pods_running('sleepers', -1)",
        "count=-1 is not valid: use a whole number, 0 or more",
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
    (
        "kwait_manifests()",
        "give files, for example kwait_manifests('job.yaml'), then variables",
    ),
    (
        "kwait_manifests('items.yaml', validate='no')",
        "validate='no' is not valid: use 'strict', 'warn' or 'ignore'",
    ),
    (
        "kwait_manifests('pi.yaml', dry_run=True)",
        "a marker applies what the test needs; use kwait.apply(…, dry_run=True) in the test",
    ),
    (
        "kwait_manifests('items.yaml')",
        "items.yaml, document 1, line 1: its items are a number, a list is needed",
    ),
    ("kwait_manifests('nowhere.yaml')", "nowhere.yaml: there is no file {path}/nowhere.yaml"),
    (
        "kwait_manifests('bad.yaml')",
        "bad.yaml, document 1, line 2: is no YAML: mapping values are not allowed here",
    ),
]


@pytest.mark.parametrize(("mark", "problem"), BAD_MARKERS, ids=[mark for mark, _ in BAD_MARKERS])
def test_bad_marker_fails_the_collection_of_its_test(
    pytester: pytest.Pytester, mark: str, problem: str
) -> None:
    (pytester.path / "bad.yaml").write_text("a: b\nc: d: e\n")
    (pytester.path / "items.yaml").write_text("apiVersion: v1\nkind: List\nitems: 3\n")
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


_FUZZED = """
import random
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pytest_kwait.framework.wait_names import WAIT_NAMES

class Rude:
    def __repr__(self): raise RuntimeError("no repr")
    __str__ = __eq__ = __bool__ = __len__ = __iter__ = __float__ = __repr__
    __hash__ = None

circle = []
circle.append(circle)
deep = []
for _ in range(3000):
    deep = [deep]

WORDS = [
    "", "web", "job/web", "pods", "a=b", "x" * 3000, "\\0", "\\ud800", "9" * 5000, "-1", "1e400",
    "5s", "apiVersion: v1\\nkind: List\\nitems: 3", "a: " + "[" * 3000, "{" * 3000, "a: &a [*a]",
    "a: !!timestamp x", "a: !!bool x", '{"kind": "\\\\ud800", "apiVersion": "v1"}',
    "jsonpath={..}=1",
]
VALUES = [
    *WORDS, 0, 1, -1, 10**5000, -(10**19), 1.5, float("nan"), float("inf"), None, True, b"web",
    timedelta.max, Decimal("NaN"), Rude(), Rude, circle, deep, Path("/nowhere"), object(),
    {"kind": "List", "apiVersion": "v1", "items": {"a": 1}}, {1: {2}}, {"job": Rude()},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": Rude()}}, lambda: 1,
]
OPTIONS = [
    "timeout", "timeouts", "poll", "mode", "fail_fast", "grace", "stable_for", "keep",
    "namespace", "selector", "count", "pods", "label", "condition", "cluster",
]
rng = random.Random(15)

def value():
    kind = rng.random()
    if kind < 0.1:
        return [value() for _ in range(rng.randrange(3))]
    if kind < 0.2:
        return {rng.choice(WORDS): value(), rng.randrange(9): value()}
    return rng.choice(VALUES)

def mark():
    name = rng.choice(["kwait_manifests", "kwait", *WAIT_NAMES])
    count = 0 if name == "kwait" and rng.random() < 0.8 else rng.randrange(4)
    args = [value() for _ in range(count)]
    given = {option: value() for option in rng.sample(OPTIONS, rng.randrange(3))}
    return getattr(pytest.mark, name).with_args(*args, **given)

@pytest.mark.parametrize("x", [pytest.param(each, marks=mark()) for each in range(COUNT)])
def test_marked(x): pass

def test_good(): pass
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_no_marker_ends_the_run_whatever_its_arguments(
    pytester: pytest.Pytester, workers: int
) -> None:
    count = 100 if workers else 600
    pytester.makepyfile(test_it=_FUZZED.replace("COUNT", str(count)))
    options = ["-n", "1", "-k", "test_good"] if workers else ["--collect-only"]
    result = pytester.runpytest("--continue-on-collection-errors", "-q", *options)
    shown = result.stdout.str()
    assert "INTERNALERROR" not in shown
    assert "Traceback" not in shown
    failed = [line for line in shown.splitlines() if line.startswith("ERROR test_it.py::test_mark")]
    assert len(failed) > count / 2
    assert len([line for line in shown.splitlines() if line.startswith("marker ")]) == len(failed)


def test_unexpected_error_of_a_check_is_the_error_of_its_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        class Rude:
            def __eq__(self, other):
                raise RuntimeError("cannot be compared")
            def __repr__(self):
                raise RuntimeError("cannot be shown")
            def __str__(self):
                return "rude"

        @pytest.mark.kwait(mode=Rude())
        def test_bad(): pass

        @pytest.mark.kwait_manifests("a: " + "b" * 1000)
        def test_long(): pass
        """
    )
    lines = pytester.runpytest().stdout.str().splitlines()
    assert (
        "marker kwait(mode=<Rude that cannot be shown>) of test_it.py::test_bad: cannot be "
        "checked: RuntimeError: cannot be compared"
    ) in lines
    assert (
        f"marker kwait_manifests('a: {'b' * 44}… (1005 characters) …{'b' * 11}') of "
        "test_it.py::test_long: manifest 1, document 1, line 1: has no apiVersion"
    ) in lines


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


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "in a worker"])
@pytest.mark.parametrize(
    ("mark", "shown"),
    [
        ("kwait(pol='2s')", "there is no setting pol; did you mean poll? a tes..."),
        ("kwait(mode='look')", "mode='look' is not valid: use watch or poll"),
        ("wait_for_job_complete()", "missing a required argument: 'name'; use wait_for..."),
        ("wait_for_pods_running([1] * 50)", "count: use a whole number, 0 or more"),
        ("kwait_manifests('items.yaml')", "items.yaml, document 1, line 1: its items are a n..."),
        ("kwait_manifests('bad.yaml')", "bad.yaml, document 1, line 2: is no YAML: mapping..."),
    ],
)
def test_short_summary_shows_the_reason_of_a_failed_collection_in_80_columns(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    mark: str,
    shown: str,
    workers: tuple[str, ...],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("CI", raising=False)
    (pytester.path / "bad.yaml").write_text("a: b\nc: d: e\n")
    (pytester.path / "items.yaml").write_text("apiVersion: v1\nkind: List\nitems: 3\n")
    pytester.makepyfile(
        test_a=f"""
        import pytest

        @pytest.mark.{mark}
        def test_bad(): pass
        """
    )
    lines = pytester.runpytest(*workers).stdout.str().splitlines()
    assert f"ERROR test_a.py::test_bad - {shown}" in lines
    assert [line.startswith("marker ") for line in lines].count(True) == 1


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
        "wait_for_job_complete='()' is not valid: missing a required argument: 'name'; use "
        "wait_for_job_complete(name, reason=None, completions=None) and the options of every wait: "
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
        "marker wait_for_job_complete('pi') of lines.txt::first: waits and "
        "manifests can be on test functions alone"
    ) in result.stdout.str().splitlines()


def test_bad_skip_markers_are_errors_of_their_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kwait_skip_unless_node_count_is_at_least("two")
        def test_bad(): ...
        """
    )

    result = pytester.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*count='two' is not valid: use a number of nodes, 1 or more*"])

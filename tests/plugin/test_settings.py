from __future__ import annotations

import fnmatch
import os
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.suite.config.options import OPTIONS, SETTING_DEFINITIONS, TIMEOUTS

if TYPE_CHECKING:
    from pathlib import Path

_DURATION = "use seconds (90), a timedelta, or a Go duration ('500ms', '90s', '1m30s')"
_LABEL = "use up to 63 lower-case letters, digits and '-', with a letter or digit at both ends"


def test_every_setting_of_the_run_is_an_option_of_the_help(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = pytester.runpytest("--help").stdout.lines
    shown = " ".join(" ".join(lines).split())
    for definition in (*SETTING_DEFINITIONS.values(), TIMEOUTS):
        if definition.option:
            is_switch = definition.kind == "bool"
            valued = f"{definition.flag}={definition.metavar}"
            assert (", ".join(definition.flags) if is_switch else valued) in shown
            assert f"{definition.ini} (string): the same as {definition.flag}" in shown
    assert "--kwait-stable-for" not in shown


def test_help_is_in_groups_and_an_option_takes_two_lines_at_most(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = pytester.runpytest("--help").stdout.lines
    assert [line for line in lines if line.startswith("pytest-kwait")] == [
        "pytest-kwait: cluster (each option is also KWAIT_... in the environment and kwait_... in "
        "ini files):",
        "pytest-kwait: embedded cluster:",
        "pytest-kwait: binaries, kind, k3d and minikube:",
        "pytest-kwait: waits (SECONDS: 90, 500ms, 2s or 1m30s):",
        "pytest-kwait: namespaces and cleanup:",
        "pytest-kwait: runs and reports:",
        "pytest-kwait: exploring:",
    ]
    at = lines.index("pytest-kwait: waits (SECONDS: 90, 500ms, 2s or 1m30s):")
    assert lines[at + 1 : at + 10] == [
        "  --kwait-poll=SECONDS  interval of poll mode, and of what cannot be watched [2]",
        "  --kwait-mode={watch,poll}",
        "                        list, then watch; or list at each interval [watch]",
        "  --kwait-fail-fast, --kwait-no-fail-fast",
        "                        whether a wait fails early once its condition can no",
        "                        longer come true [on]",
        "  --kwait-grace=SECONDS",
        "                        how long a problem that may pass must last before that",
        "                        (45s)",
    ]
    texts = [line.startswith(" " * 24) for line in lines]
    for number, line in enumerate(lines):
        if line.startswith("  --kwait-"):
            assert not all(texts[number + 1 : number + 4]), line


@pytest.mark.parametrize("source", ["option", "ini", "environment"])
def test_switch_takes_no_value(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    given = "--kwait-janitor=false"
    if source == "ini":
        pytester.makeini(f"[pytest]\naddopts = {given}\n")
    if source == "environment":
        monkeypatch.setenv("PYTEST_ADDOPTS", given)
    result = pytester.runpytest(*([given] if source == "option" else []))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: janitor='false' (from option --kwait-janitor) is not valid: the option takes "
            "no value: use --kwait-janitor or --kwait-no-janitor (KWAIT_JANITOR and ini "
            "kwait_janitor take true or false)"
        ]
    )


def test_switches_override_environment_and_ini(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nkwait_api_only = true\nkwait_janitor = false\n")
    monkeypatch.setenv("KWAIT_SESSION_WAITS", "true")
    result = pytester.runpytest(
        "--kwait-no-api-only", "--kwait-janitor", "--kwait-no-session-waits", "--kwait-fail-fast"
    )
    result.stdout.fnmatch_lines(
        [
            "kwait: session_waits=false (option --kwait-no-session-waits), "
            "api_only=false (option --kwait-no-api-only), "
            "fail_fast=true (option --kwait-fail-fast), janitor=true (option --kwait-janitor)"
        ]
    )


def test_only_providers_that_exist_are_choices() -> None:
    from pytest_kwait.clusters.provider import PROVIDERS

    names = ",".join(("auto", *PROVIDERS))
    assert SETTING_DEFINITIONS["cluster"].metavar == f"{{{names}}}"


def test_header_shows_what_differs_from_the_default_with_its_source(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nkwait_keep = failed\nkwait_poll = 9s\nkwait_timeout = job=1m\n")
    monkeypatch.setenv("KWAIT_POLL", "4s")
    monkeypatch.setenv("KWAIT_FAIL_FAST", "false")
    monkeypatch.setenv("KWAIT_GRACE", "")
    result = pytester.runpytest("--kwait-mode=poll", "--kwait-timeout=job=5m,pod_start=90")
    result.stdout.fnmatch_lines(
        [
            "kwait: poll=4s (env KWAIT_POLL), mode=poll (option --kwait-mode), "
            "fail_fast=false (env KWAIT_FAIL_FAST), keep=failed (ini kwait_keep), "
            "timeout job=5m0s (option --kwait-timeout), "
            "timeout pod_start=1m30s (option --kwait-timeout)"
        ]
    )


def test_header_is_empty_with_defaults(pytester: pytest.Pytester) -> None:
    assert "kwait:" not in pytester.runpytest().stdout.str()


_UNUSED = "kwait: KUBECONFIG is set and not used; --kwait-cluster=existing uses it"


@pytest.mark.parametrize(
    ("args", "said"),
    [((), True), (("--kwait-cluster=embedded",), True), (("--kwait-cluster=existing",), False)],
)
def test_header_warns_of_an_unused_kubeconfig(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], said: bool
) -> None:
    path = pytester.path / "kubeconfig"
    path.write_text(_KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert (_UNUSED in pytester.runpytest(*args).stdout.str()) is said


_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: lab, context: {cluster: here, user: me}}]
current-context: lab
"""


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (
            "cluster",
            "rancher",
            "cluster='rancher' (from {}) is not valid: use auto, existing, embedded, binaries, "
            "kind, k3d, minikube",
        ),
        (
            "load-image",
            "a:1,,b:1",
            "load_image='a:1,,b:1' (from {}) is not valid: use names with commas between them",
        ),
        (
            "cluster-args",
            "--driver 'docker",
            'cluster_args="--driver \'docker" (from {}) is not valid: use arguments as in a '
            "shell, quotes closed",
        ),
        (
            "keep-cluster",
            "on",
            "keep_cluster='on' (from {}) is not valid: use never, failed or always",
        ),
        ("poll", "0", f"poll='0' (from {{}}) is not valid: {_DURATION}, above zero"),
        (
            "mode",
            "polling",
            "mode='polling' (from {}) is not valid: did you mean poll? use watch or poll",
        ),
        ("fail-fast", "no", "fail_fast='no' (from {}) is not valid: use true or false"),
        ("grace", "5 min", f"grace='5 min' (from {{}}) is not valid: {_DURATION}"),
        (
            "timeout",
            "5m",
            "timeout='5m' (from {}) is not valid: use NAME=DURATION, for example job=5m",
        ),
        (
            "timeout",
            "jbo=5m",
            "timeout name='jbo' (from {}) is not valid: the nearest names in the table are job",
        ),
        ("timeout", "job=x", f"timeout job='x' (from {{}}) is not valid: {_DURATION}"),
        (
            "timeout-scale",
            "-1",
            "timeout_scale='-1' (from {}) is not valid: use a number above zero, for example 2 or "
            "0.5",
        ),
        ("namespace", "Team_A", f"namespace='Team_A' (from {{}}) is not valid: {_LABEL}"),
        (
            "namespace-scope",
            "tests",
            "namespace_scope='tests' (from {}) is not valid: did you mean test? "
            "use test, class, module or session",
        ),
        ("keep", "on", "keep='on' (from {}) is not valid: use never, failed or always"),
        ("run-id", "run 1", f"run_id='run 1' (from {{}}) is not valid: {_LABEL}"),
        (
            "shard",
            "3/2",
            "shard='3/2' (from {}) is not valid: use I/N with I from 1 to N, for example 2/4; or "
            "auto, or auto/N, to have I read from the CI system",
        ),
    ],
    ids=lambda value: None if len(value) < 20 else "",
)
@pytest.mark.parametrize("place", ["option", "env", "ini"])
def test_bad_value_is_one_line_with_value_source_and_what_is_valid(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    value: str,
    message: str,
    place: str,
) -> None:
    pytester.makepyfile("def test(): pass")
    name = option.replace("-", "_")
    if name == "fail_fast" and place == "option":
        message = (
            "fail_fast='no' (from {}) is not valid: the option takes no value: use "
            "--kwait-fail-fast or --kwait-no-fail-fast (KWAIT_FAIL_FAST and ini kwait_fail_fast "
            "take true or false)"
        )
    args = []
    if place == "option":
        args, source = [f"--kwait-{option}={value}"], f"option --kwait-{option}"
    elif place == "env":
        monkeypatch.setenv(f"KWAIT_{name.upper()}", value)
        source = f"env KWAIT_{name.upper()}"
    else:
        pytester.makeini(f"[pytest]\nkwait_{name} = {value}\n")
        source = f"ini kwait_{name}"
    result = pytester.runpytest(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message.format(source)}" in result.stderr.str().splitlines()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


def test_blank_value_is_refused_and_an_empty_one_is_none(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWAIT_CONTEXT", "")
    assert pytester.runpytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    monkeypatch.setenv("KWAIT_CONTEXT", " ")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        "ERROR: context=' ' (from env KWAIT_CONTEXT) is not valid: use a text that is not empty"
    ) in result.stderr.str().splitlines()


def test_unknown_environment_name_is_an_error_with_a_hint(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWAIT_POL", "2s")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        "ERROR: the environment has KWAIT_POL, which is no setting of pytest-kwait: "
        f"did you mean KWAIT_POLL? the names are {', '.join(each.env for each in OPTIONS)}"
    ) in result.stderr.str().splitlines()


def test_a_file_of_nodes_is_relative_to_the_ini_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nkwait_nodes = config/nodes.yaml\n")
    folder = pytester.mkdir("config")
    (folder / "nodes.yaml").write_text("nodes: [{name: a}]\n")
    monkeypatch.chdir(pytester.mkdir("tests"))
    result = pytester.runpytest("-c", "../tox.ini")
    result.stdout.fnmatch_lines(
        [
            "kwait: embedded cluster, a namespace for each test",
            "kwait: nodes a",
            f"kwait: nodes={folder}/nodes.yaml (ini kwait_nodes)",
        ]
    )


def test_a_table_of_nodes_in_an_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkwait_nodes =\n    name=gpu count=2\n    nam=a\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: nodes line 2='nam' (from ini kwait_nodes) is not valid: did you mean name? use "
            "the keys name, count, labels, taints, capacity, allocatable"
        ]
    )


_TABLES = (
    ["tool.pytest.ini_options"]
    if pytest.version_tuple < (9,)
    else ["tool.pytest.ini_options", "tool.pytest"]
)
"""Tables of pyproject.toml that pytest reads; in the second it checks types."""


@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize(
    "lines",
    [
        [
            ("kwait_audit = true", "audit=true"),
            ("kwait_fail_fast = false", "fail_fast=false"),
            ("kwait_timeout_scale = 2", "timeout_scale=2"),
            ("kwait_min_startup_pods = 0", "min_startup_pods=0"),
            ("kwait_namespace_limit = 7", "namespace_limit=7"),
            ("kwait_grace = 0", "grace=0"),
            ("kwait_explore = 3", "explore=3"),
            ("kwait_seed = 0", "seed=0"),
            ("kwait_nodes = 3", "nodes=3"),
            ('kwait_mode = "poll"', "mode=poll"),
            ('kwait_image = ["a=b", "c=d e"]', "image=a=b, c=d e"),
            ('kwait_egress = ["a.org:1", "b.org:2"]', "egress=a.org:1, b.org:2"),
            ('kwait_load_image = ["a:1", "b:2"]', "load_image=a:1, b:2"),
            ('kwait_allowed_contexts = ["kind-*", "any"]', "allowed_contexts=kind-*, any"),
            ('kwait_non_blocking_taints = ["a", "b/c"]', "non_blocking_taints=a, b/c"),
            ('kwait_readable_secrets = ["team", "db/*"]', "readable_secrets=team, db/*"),
            ('kwait_cluster_args = ["--a", "b c"]', "cluster_args=--a, b c"),
            (
                'kwait_perturbations = ["watch-cut", "watch-end"]',
                "perturbations=watch-cut, watch-end",
            ),
            (
                'kwait_timeout = {job = 300, pod_start = "90s"}',
                "timeout job=5m0s*timeout pod_start=1m30s",
            ),
        ],
        [
            ('kwait_audit = "true"', "audit=true"),
            ("kwait_timeout_scale = 0.5", "timeout_scale=0.5"),
            ('kwait_grace = "1m"', "grace=1m"),
            ('kwait_image = {"x/a:*" = "b", c = "d e"}', "image=x/a:*=b, c=d e"),
            ('kwait_nodes = [{name="a", count=2}, "name=b"]', "nodes={name=a, count=2}, name=b"),
            ("kwait_non_blocking_taints = []", "non_blocking_taints="),
            ('kwait_timeout = "job=5m"', "timeout job=5m0s"),
        ],
        [
            ('kwait_image = "a=b"', "image=a=b"),
            ('kwait_nodes = "name=a\\nname=b"', "nodes=name=a; name=b"),
            (
                'kwait_timeout = ["job=5m", "pod_start=90"]',
                "timeout job=5m0s*timeout pod_start=1m30s",
            ),
        ],
    ],
    ids=["first forms", "other forms", "lists"],
)
def test_settings_take_toml_types_and_text(
    pytester: pytest.Pytester, table: str, lines: list[tuple[str, str]]
) -> None:
    pytester.makepyprojecttoml("\n".join([f"[{table}]", *(line for line, _ in lines)]))
    result = pytester.runpytest("-Werror")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    header = [line for line in result.outlines if line.startswith("kwait: ")]
    for line, given in lines:
        name = line.partition(" ")[0]
        pattern = f"kwait: *{given.replace('[', '[[]')} (ini {name})*"
        assert fnmatch.filter(header, pattern), (line, header)


@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fail_fast = 1", "fail_fast=1 (from {}) is not valid: use true or false"),
        ("mode = true", "mode=True (from {}) is not valid: use watch or poll"),
        ("grace = true", f"grace=True (from {{}}) is not valid: {_DURATION}"),
        ("grace = []", f"grace=[] (from {{}}) is not valid: {_DURATION}"),
        (
            "timeout_scale = false",
            "timeout_scale=False (from {}) is not valid: use a number above zero, for example 2 or "
            "0.5",
        ),
        ("run_id = 7", f"run_id=7 (from {{}}) is not valid: {_LABEL}"),
        ("artifacts = 7", "artifacts=7 (from {}) is not valid: use the path of a file"),
        (
            "report = [7]",
            "report=7 (from {}) is not valid: use the path of a file that ends with .html, .json "
            "or .md",
        ),
        (
            "allowed_contexts = [1]",
            "allowed_contexts=[1] (from {}) is not valid: use names with commas between them and * "
            "for any part, for example kind-*,staging",
        ),
        (
            "readable_secrets = 7",
            "readable_secrets=7 (from {}) is not valid: use names with commas between them and * "
            "for any part, for example kind-*,staging",
        ),
        (
            "load_image = [1]",
            "load_image=1 (from {}) is not valid: use names with commas between them",
        ),
        (
            "cluster_args = [1]",
            "cluster_args=[1] (from {}) is not valid: use arguments as in a shell, quotes closed",
        ),
        (
            "image = {a = 1}",
            "image={{'a': 1}} (from {}) is not valid: use PATTERN=COMMAND, for example "
            "shop/web:*=python -m shop.web",
        ),
        (
            "perturbations = [1]",
            "perturbations=[1] (from {}) is not valid: use names of perturbations as texts",
        ),
        (
            "timeout = 5",
            'timeout=5 (from {}) is not valid: use a mapping, for example {{"job": "5m"}}',
        ),
        (
            "timeout = {job = true}",
            f"timeout job=True (from {{}}) is not valid: {_DURATION}",
        ),
    ],
)
def test_toml_value_of_a_wrong_type_is_one_line_with_value_source_and_what_is_valid(
    pytester: pytest.Pytester, table: str, line: str, message: str
) -> None:
    pytester.makepyprojecttoml(f"[{table}]\nkwait_{line}\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    source = f"ini kwait_{line.partition(' ')[0]}"
    assert f"ERROR: {message.format(source)}" in result.stderr.str().splitlines()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


@pytest.mark.parametrize("table", _TABLES)
def test_override_ini_comes_before_a_toml_value(pytester: pytest.Pytester, table: str) -> None:
    pytester.makepyprojecttoml(f'[{table}]\nkwait_audit = true\nkwait_image = ["a=b"]\n')
    result = pytester.runpytest("-okwait_audit=false", "-okwait_image=c=d", "-okwait_grace=3s")
    result.stdout.fnmatch_lines(
        [
            "kwait: image=c=d (ini kwait_image), grace=3s (ini kwait_grace), "
            "audit=false (ini kwait_audit)"
        ]
    )


def test_paths_in_toml_are_relative_to_the_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyprojecttoml(
        f'[{_TABLES[-1]}]\nkwait_artifacts = "art"\nkwait_report = ["a.html", "b.json"]\n'
    )
    monkeypatch.chdir(pytester.mkdir("below"))
    here = pytester.path
    pytester.runpytest().stdout.fnmatch_lines(
        [
            f"kwait: report={here}/a.html, {here}/b.json (ini kwait_report), "
            f"artifacts={here}/art (ini kwait_artifacts)"
        ]
    )


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 reads pytest.toml")
def test_pytest_toml_has_types(pytester: pytest.Pytester) -> None:
    (pytester.path / "pytest.toml").write_text("[pytest]\nkwait_audit = true\n")
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["kwait: audit=true (ini kwait_audit)"])


@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize("value", ["true", "false"])
def test_plain_markers_are_a_bool_of_toml(
    pytester: pytest.Pytester, table: str, value: str
) -> None:
    pytester.makepyprojecttoml(f"[{table}]\nkwait_plain_markers = {value}\n")
    shown = pytester.runpytest("--markers").stdout.str()
    assert ("@pytest.mark.serial: the same as kwait_serial." in shown) is (value == "true")


@pytest.mark.parametrize("table", _TABLES)
def test_plain_markers_of_another_type_are_a_usage_error(
    pytester: pytest.Pytester, table: str
) -> None:
    pytester.makepyprojecttoml(f'[{table}]\nkwait_plain_markers = "maybe"\n')
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *'maybe'*: kwait_plain_markers takes true or false"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--kwait-kubeconfig=nowhere.yaml"], "kubeconfig*nowhere.yaml*option --kwait-kubeconfig*"),
        (
            ["--kwait-kubeconfig=kubeconfig", "--kwait-context=lba"],
            "context*'lba'*option --kwait-context*lab*",
        ),
        (
            ["--kwait-cluster=embedded", "--kwait-kubeconfig=kubeconfig"],
            "kubeconfig=*kubeconfig' (from option --kwait-kubeconfig) is not valid: the embedded "
            "cluster brings its own; use --kwait-cluster=existing with it",
        ),
    ],
)
def test_invalid_cluster_ends_the_run_before_any_test(
    pytester: pytest.Pytester, args: list[str], message: str
) -> None:
    (pytester.path / "kubeconfig").write_text(_KUBECONFIG)
    pytester.makepyfile("def test(): pass")
    result = pytester.runpytest(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{message}"])


def test_relative_kubeconfig_is_relative_to_where_it_was_given(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nkwait_kubeconfig = from-ini\n")
    below = pytester.mkdir("below")
    monkeypatch.chdir(below)
    result = pytester.runpytest()
    result.stderr.fnmatch_lines([f"*{pytester.path / 'from-ini'}*ini kwait_kubeconfig*"])
    result = pytester.runpytest("--kwait-kubeconfig=from-flag")
    result.stderr.fnmatch_lines([f"*{below / 'from-flag'}*option --kwait-kubeconfig*"])


def test_unreachable_server_ends_the_run_before_any_test(
    pytester: pytest.Pytester,
) -> None:
    (pytester.path / "kubeconfig").write_text(_KUBECONFIG)
    pytester.makepyfile("def test(): pass\ndef test_e2e(kwait): pass")
    result = pytester.runpytest("--kwait-kubeconfig=kubeconfig")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: server http://127.0.0.1:1 of context 'lab' in kubeconfig *"]
    )
    # A suite that waits for nothing does not need the server.
    pytester.runpytest("--kwait-kubeconfig=kubeconfig", "-k", "not e2e").assert_outcomes(
        passed=1, deselected=1
    )


def test_unreachable_server_is_reported_once_by_all_workers(pytester: pytest.Pytester) -> None:
    (pytester.path / "kubeconfig").write_text(_KUBECONFIG)
    pytester.makepyfile(
        "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_e2e(kwait, n): pass"
    )
    result = pytester.runpytest("--kwait-kubeconfig=kubeconfig", "-n2")
    result.assert_outcomes()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    said = "server http://127.0.0.1:1 of context 'lab' in kubeconfig "
    assert [said in line for line in result.outlines].count(True) == 1
    result.stdout.fnmatch_lines([f"!* xdist.dsession.Interrupted: {said}*"])
    # A suite that waits for nothing does not need the server.
    pytester.makepyfile("def test(): pass\ndef test_too(): pass")
    pytester.runpytest("--kwait-kubeconfig=kubeconfig", "-n2").assert_outcomes(passed=2)


_REFUSED = (
    "ERROR: option {option}: pytest took its value {value} for the path of tests, so rootdir is "
    "{moved} (no ini file) instead of {root} (ini file tox.ini); write {option}={value}"
)


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the project, with a kubeconfig."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "kc").write_text(_KUBECONFIG)
    return folder


@pytest.fixture
def guarded(pytester: pytest.Pytester) -> Path:
    """A project that allows one context, and runs in `allowed` alone."""
    pytester.makeini("[pytest]\nkwait_allowed_contexts = allowed\n")
    pytester.makepyfile("def test_it(kwait_client):\n    pass\n")
    return pytester.path


@pytest.mark.parametrize("option", ["--kwait-kubeconfig", "--kwait-artifacts", "--kwait-report"])
@pytest.mark.parametrize("relative", [False, True])
def test_value_of_an_option_that_moves_rootdir_ends_the_run(
    pytester: pytest.Pytester, guarded: Path, elsewhere: Path, option: str, relative: bool
) -> None:
    value = str(elsewhere / "kc")
    if relative:
        value = os.path.relpath(value, guarded)
    result = pytester.runpytest(option, value)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    refused = _REFUSED.format(option=option, value=value, moved=elsewhere.parent, root=guarded)
    assert refused in result.stderr.str().splitlines()


@pytest.mark.parametrize("given_by", ["env", "file", "workers"])
def test_value_that_moves_rootdir_is_found_wherever_it_is_given(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    guarded: Path,
    elsewhere: Path,
    given_by: str,
) -> None:
    option, value = "--kwait-kubeconfig", str(elsewhere / "kc")
    args: tuple[str, ...] = ()
    if given_by == "env":
        monkeypatch.setenv("PYTEST_ADDOPTS", f"{option} {value}")
    elif given_by == "file":
        (guarded / "args").write_text(f"{option}\n{value}\n")
        args = ("@args",)
    else:
        args = ("-n1", option, value)
    result = pytester.runpytest_subprocess(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    refused = _REFUSED.format(option=option, value=value, moved=elsewhere.parent, root=guarded)
    assert refused in result.stderr.str().splitlines()


@pytest.mark.parametrize(
    "form", ["equals", "ini file", "rootdir", "addopts", "test path", "in the project"]
)
def test_guard_holds_where_rootdir_stays(
    pytester: pytest.Pytester, guarded: Path, elsewhere: Path, form: str
) -> None:
    option, value = "--kwait-kubeconfig", elsewhere / "kc"
    args: list[object] = [option, value]
    if form == "equals":
        args = [f"{option}={value}"]
    elif form == "ini file":
        args += ["-c", "tox.ini"]
    elif form == "rootdir":
        args = [f"--rootdir={guarded}", f"{option}={value}"]
    elif form == "addopts":
        ini = guarded / "tox.ini"
        ini.write_text(f"{ini.read_text()}\naddopts = {option} {value}\n")
        args = []
    elif form == "test path":
        args += [guarded]
    else:
        (guarded / "kc").write_text(_KUBECONFIG)
        args = [option, "kc"]
    result = pytester.runpytest(*map(str, args))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*(allowed_contexts from ini kwait_allowed_contexts)*"])


def test_a_folder_that_is_not_there_moves_nothing(
    pytester: pytest.Pytester, guarded: Path, elsewhere: Path
) -> None:
    result = pytester.runpytest("--collect-only", "--kwait-artifacts", str(elsewhere / "new"))
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"rootdir: {guarded}", "configfile: tox.ini"])


def test_an_option_of_another_plugin_is_refused_where_settings_are_lost(
    pytester: pytest.Pytester, guarded: Path, elsewhere: Path
) -> None:
    pytester.makepyfile(
        other="def pytest_addoption(parser):\n    parser.addoption('--other', default=None)\n"
    )
    (elsewhere / "other.cfg").touch()
    value = str(elsewhere / "other.cfg")
    pytester.syspathinsert()
    args = ("-p", "other", "--other", value)
    result = pytester.runpytest(*args)
    refused = _REFUSED.format(option="--other", value=value, moved=elsewhere.parent, root=guarded)
    assert refused in result.stderr.str().splitlines()
    (guarded / "tox.ini").write_text("[pytest]\n")
    assert pytester.runpytest(*args, "--collect-only").ret == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("assets", "~absent-user/bin"),
        ("artifacts", "~absent-user/bin"),
        ("kubeconfig", "~absent-user/bin"),
        ("cluster_config", "~absent-user/bin"),
        ("report", "~absent-user/bin"),
        ("perturbations", "@~absent-user/bin"),
    ],
)
def test_home_of_a_missing_user_is_a_usage_error(
    pytester: pytest.Pytester, name: str, value: str
) -> None:
    flag = SETTING_DEFINITIONS[name].flag
    result = pytester.runpytest(f"{flag}={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = (
        f"ERROR: {name}='~absent-user/bin' (from option {flag}) is not valid: there is no such user"
    )
    assert line in result.stderr.str().splitlines()

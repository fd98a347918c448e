from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.plugin import startup
from tests.forked_python import fork_processes

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def forked_processes() -> None:
    """None are: what a run loads shows in a process that has loaded nothing."""


def test_suite_without_waits_imports_little(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import sys

        def test_it():
            costly = {"aiohttp", "asyncio", "kubernetes", "msgspec", "multiprocessing", "ssl",
                      "urllib3", "yaml"}
            assert sorted(costly.intersection(sys.modules)) == []
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_run_without_spans_imports_no_tracing(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(
        """
        import os
        import sys

        def test_it(kwait):
            with kwait.step("look"):
                kwait.wait_for(f"namespace/{kwait.namespace}", "create")
            assert [name for name in sys.modules if name.startswith("opentelemetry")] == []
            assert "TRACEPARENT" not in os.environ
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_module_of_the_plugin_can_be_switched_off(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_kwait import WaitTimeout

        def test_it(wait_for_job_complete):
            with pytest.raises(WaitTimeout):
                wait_for_job_complete("pi", timeout="10ms")
        """
    )
    result = pytester.runpytest("-p", "no:pytest_kwait.plugin.summary", "--kwait-poll=1s")
    result.assert_outcomes(passed=1)
    assert "kwait: poll=1s" in result.stdout.str()
    assert "kwait: waited" not in result.stdout.str()


def test_fixtures_are_documented(pytester: pytest.Pytester) -> None:
    from pytest_kwait.framework.registry import WAITS

    result = pytester.runpytest("--fixtures", "-v")
    shown = result.stdout.str()
    for name in ("kwait", "kwait_cluster", "kwait_client", "kwait_factory", *WAITS):
        assert f"\n{name} " in shown
    assert "no docstring available" not in shown.partition("fixtures defined from pytest_kwait")[2]
    result.stdout.fnmatch_lines(
        ["    Wait for a job that is complete: wait_for_job_complete(name, *"]
    )


def test_suite_without_waits_registers_little(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    pytester.makepyfile(
        """
        import sys

        def test_it(pytestconfig):
            assert not pytestconfig.pluginmanager.hasplugin("pytest_kwait.plugin.failures")
            assert "pytest_kwait.plugin.settings" not in sys.modules
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


_CHECK = """
    for name in ("settings", "failures", "markers", "live_status", "cluster"):
        assert pytestconfig.pluginmanager.hasplugin(f"pytest_kwait.plugin.{name}")
"""


@pytest.mark.parametrize(
    ("conftest", "test"),
    [
        ("", "def test_it(pytestconfig, kwait_timeouts): {check}"),
        (
            "import pytest\n@pytest.fixture\ndef mine(kwait_timeouts): pass",
            "def test_it(pytestconfig, mine): {check}",
        ),
        (
            "import pytest\n@pytest.fixture\n"
            "def mine(request): return request.getfixturevalue('kwait_timeouts')",
            "def test_it(pytestconfig, mine): {check}",
        ),
        (
            "",
            "import pytest\n@pytest.mark.kwait(poll='3s')\ndef test_it(pytestconfig): {check}",
        ),
        (
            "import pytest\ndef pytest_collection_modifyitems(items):\n"
            "    items[0].add_marker(pytest.mark.kwait(poll='3s'))",
            "def test_it(pytestconfig): {check}",
        ),
    ],
    ids=["fixture", "below a fixture", "asked for late", "marker", "added marker"],
)
def test_first_use_registers_all_fixtures(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, conftest: str, test: str
) -> None:
    # It is loaded in this process, as where a test imports a wait.
    monkeypatch.setattr(startup, "_ENGINE", "pytest_kwait.not_loaded")
    pytester.makeconftest(conftest)
    pytester.makepyfile(test.replace("{check}", _CHECK))
    pytester.runpytest().assert_outcomes(passed=1)


def test_an_imported_wait_registers_all_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"from pytest_kwait import wait_for_pod_ready\ndef test_it(pytestconfig): {_CHECK}"
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ([], ""),
        (["--kwait-shard=1/1"], "shards"),
        (["--kwait-artifacts=art"], "artifacts"),
        (["--kwait-report=report.json"], "report"),
        (["--junitxml=junit.xml"], "junit"),
        (["-n1"], "lock"),
        (["-n1", "--kwait-shard=1/1", "--kwait-report=report.json"], "lock report shards"),
        (["--kwait-explore=1"], "explore.loop"),
        (["-n1", "--kwait-explore=1"], "explore.loop"),
    ],
    ids=[
        "nothing",
        "shard",
        "artifacts",
        "report",
        "JUnit",
        "worker",
        "worker with options",
        "exploring",
        "exploring worker",
    ],
)
def test_modules_of_options_are_registered_with_them(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: list[str], needed: str
) -> None:
    fork_processes(monkeypatch)  # workers: what is loaded in them is not looked at
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    pytester.makepyfile(
        f"""
        OPTIONAL = [
            "artifacts", "explore.loop", "github", "junit", "lock", "readiness", "report", "shards"
        ]

        def test_it(pytestconfig, kwait_timeouts):
            has = pytestconfig.pluginmanager.hasplugin
            registered = [each for each in OPTIONAL if has(f"pytest_kwait.plugin.{{each}}")]
            assert registered == {needed.split()}
        """
    )
    pytester.runpytest(*options).assert_outcomes(passed=1)


def test_late_imported_wait_registers_with_the_next_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    pytester.makepyfile(
        """
        def test_one():
            from pytest_kwait import wait_for_pod_ready

        def test_two(pytestconfig):
            assert pytestconfig.pluginmanager.hasplugin("pytest_kwait.plugin.live_status")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_loading_leaves_imports_to_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_finders(kwait_timeouts):
            packages = {type(each).__module__.partition(".")[0] for each in sys.meta_path}
            assert "pytest_kwait" not in packages
        """
    )
    pytester.runpytest_subprocess("--kwait-poll=1s").assert_outcomes(passed=1)

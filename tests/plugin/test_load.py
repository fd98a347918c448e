from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def test_a_suite_that_waits_for_nothing_imports_nothing_costly(pytester: pytest.Pytester) -> None:
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


def test_a_module_of_the_plugin_can_be_switched_off(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test(): pass")
    result = pytester.runpytest("-p", "no:pytest_kwait.plugin.header", "--kwait-poll=1s")
    result.assert_outcomes(passed=1)
    assert "kwait: poll" not in result.stdout.str()


def test_fixtures_are_documented(pytester: pytest.Pytester) -> None:
    from pytest_kwait.resources.catalogue import WAITS

    result = pytester.runpytest("--fixtures", "-v")
    shown = result.stdout.str()
    for name in ("kwait", "kwait_cluster", "kwait_client", "kwait_factory", *WAITS):
        assert f"\n{name} " in shown
    assert "no docstring available" not in shown.partition("fixtures defined from pytest_kwait")[2]
    result.stdout.fnmatch_lines(
        ["    Wait for a job that is complete: wait_for_job_complete(job, *"]
    )

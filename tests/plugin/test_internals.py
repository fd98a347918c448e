"""What pytest does not document, as this plugin reads it: a pytest that changes it fails here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def _run(pytester: pytest.Pytester, conftest: str, test: str) -> None:
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_it=test)
    pytester.runpytest("-p", "no:kwait").assert_outcomes(passed=1)


def test_fixtures_of_plugins_are_found_before_those_that_override_them(
    pytester: pytest.Pytester,
) -> None:
    _run(
        pytester,
        """
        import pytest
        from pytest_kwait.plugin.internals import find_fixtures, has_own_fixture

        class Plugin:
            @pytest.fixture
            def both(self): return "plugin"

            @pytest.fixture
            def once(self): return "plugin"

        def pytest_configure(config):
            config.pluginmanager.register(Plugin())

        @pytest.fixture
        def both(both): return "conftest"

        def pytest_collection_modifyitems(items):
            (item,) = items
            found = find_fixtures(item, "both")
            assert [each.argnames for each in found] == [(), ("both",)]
            assert list(find_fixtures(item, "none")) == []
            assert has_own_fixture(item, "once")
            assert not has_own_fixture(item, "both")
            assert not has_own_fixture(item, "none")
        """,
        "def test_it(both, once): assert both == 'conftest'",
    )


def test_finalizers_of_a_teardown_are_wrapped_and_torn_down_with_their_nodes(
    pytester: pytest.Pytester,
) -> None:
    _run(
        pytester,
        """
        import pytest
        from pytest_kwait.plugin.internals import tear_down, wrap_finalizers

        CALLS = []

        def wrap(finalizer):
            def wrapped():
                CALLS.append("wrapped")
                finalizer()
            return wrapped

        @pytest.fixture(scope="session")
        def of_session():
            yield
            CALLS.append("session")

        @pytest.fixture
        def of_test(of_session):
            yield
            CALLS.append("test")

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_teardown(item):
            wrap_finalizers(item.session, wrap)
            tear_down(item.session, item)
            assert CALLS == []
            tear_down(item.session, None)
            assert [each for each in CALLS if each != "wrapped"] == ["test", "session"]
            assert CALLS.index("wrapped") < CALLS.index("test")
            return (yield)
        """,
        "def test_it(of_test): pass",
    )


def test_a_test_runs_again_without_what_its_last_run_left(pytester: pytest.Pytester) -> None:
    _run(
        pytester,
        """
        from pytest_kwait.plugin.internals import prepare_rerun, run_phases

        def pytest_runtest_protocol(item, nextitem):
            for _ in range(2):
                prepare_rerun(item)
                reports = run_phases(item, nextitem)
                assert [each.when for each in reports] == ["setup", "call", "teardown"]
                assert reports[-1].sections == [("Captured stdout call", "printed\\n")]
            prepare_rerun(item)  # pytest's own run follows
        """,
        """
        import unittest

        class TestIt(unittest.TestCase):
            def test_it(self): print("printed")
        """,
    )


def test_rootdir_is_determined_with_known_arguments() -> None:
    from inspect import signature

    from _pytest.config.findpaths import determine_setup

    names = set(signature(determine_setup).parameters)
    assert names >= {"inifile", "args", "rootdir_cmd_arg", "invocation_dir"}
    # Of which a version that has it must get its value.
    assert names <= {"inifile", "override_ini", "args", "rootdir_cmd_arg", "invocation_dir"}

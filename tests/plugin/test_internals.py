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


def test_the_request_of_a_test_sets_up_its_fixtures(pytester: pytest.Pytester) -> None:
    _run(
        pytester,
        """
        import pytest
        from pytest_kwait.plugin.internals import request_of

        @pytest.fixture
        def table():
            return {"job": "5m"}

        # A fixture of the session, set up for the first test that needs it.
        @pytest.fixture(scope="session")
        def shared(request):
            return request_of(request.session.items[0]).getfixturevalue("table")
        """,
        "def test_it(shared, table): assert shared is table",
    )


def test_a_fixture_is_finished_by_a_finalizer_of_its_own(pytester: pytest.Pytester) -> None:
    _run(
        pytester,
        """
        import pytest
        from pytest_kwait.plugin.internals import finish_fixture, tear_down

        CALLS = []

        @pytest.hookimpl(wrapper=True)
        def pytest_fixture_setup(fixturedef, request):
            def finish():
                try:
                    finish_fixture(fixturedef, request)
                except ValueError as error:
                    CALLS.append(f"{fixturedef.argname}: {error}")
                    raise
            try:
                return (yield)
            finally:
                fixturedef.addfinalizer(finish)

        @pytest.fixture
        def outer():
            yield
            CALLS.append("outer")

        @pytest.fixture
        def inner(outer, request):
            request.addfinalizer(lambda: CALLS.append("added"))
            yield
            raise ValueError("no way out")

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_teardown(item):
            with pytest.raises(ValueError, match="^no way out$"):
                tear_down(item.session, None)
            # Each finalizer once, and the error is known before the outer fixture ends.
            assert CALLS == ["added", "inner: no way out", "outer"]
            return (yield)
        """,
        "def test_it(inner): pass",
    )


def test_no_documented_hook_tells_of_a_failed_fixture_before_the_next_one_ends(
    pytester: pytest.Pytester,
) -> None:
    """If this fails, that hook replaces `finish_fixture`."""
    _run(
        pytester,
        """
        import sys
        import pytest
        from inspect import signature
        from _pytest import hookspec

        CALLS = []

        @pytest.fixture
        def outer():
            yield
            CALLS.append(f"outer ends, handling {sys.exc_info()[1]}")

        @pytest.fixture
        def inner(outer):
            yield
            raise ValueError("no way out")

        def pytest_fixture_post_finalizer(fixturedef, request):
            if fixturedef.argname == "inner" and fixturedef.cached_result is not None:
                CALLS.append(f"inner has ended, handling {sys.exc_info()[1]}")

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_teardown(item):
            try:
                return (yield)
            except ValueError as error:
                CALLS.append(f"teardown: {error}")

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(call):
            if call.when == "teardown":
                assert CALLS == [
                    "inner has ended, handling None",
                    "outer ends, handling None",
                    "teardown: no way out",
                ]
            return (yield)

        def pytest_configure():
            hook = hookspec.pytest_fixture_post_finalizer
            assert list(signature(hook).parameters) == ["fixturedef", "request"]
        """,
        "def test_it(inner): pass",
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

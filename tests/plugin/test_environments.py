"""Environments in runs of pytest on a cluster that is a dictionary."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import environment
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.plugin.cluster_source import OwnedSource
from pytest_kwait.suite.environments import EnvironmentLease

if TYPE_CHECKING:
    from pytest_kwait.clock import Deadline

Log = Callable[[], str]
_MAP = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}'


def _deleted(log: str) -> list[str]:
    return re.findall(r"^DELETE /api/v1/namespaces/(t-[a-z-]+)-[b-z2-9]{5}$", log, re.M)


@pytest.mark.parametrize(
    ("scope", "made"), [("class", 2), ("module", 1), ("session", 1), ("run", 1)]
)
def test_an_environment_is_made_once_for_its_scope(
    pytester: pytest.Pytester, fake_cluster: Log, scope: str, made: int
) -> None:
    pytester.makepyfile(
        f"""
        import pytest_kwait
        made = []

        @pytest_kwait.environment(scope="{scope}")
        def database(kwait, tmp_path_factory):
            kwait.create({_MAP})
            made.append(kwait.namespace)
            yield kwait

        class TestOne:
            def test_first(self, database):
                assert database.get("configmap/x")
            def test_own(self, database, kwait):
                assert database.namespace != kwait.namespace

        class TestTwo:
            def test_second(self, database):
                assert database.namespace == made[-1]
                assert len(made) == {made}
        """
    )
    result = pytester.runpytest("--kwait-no-janitor")
    result.assert_outcomes(passed=3)
    assert sorted(_deleted(fake_cluster())) == ["t-database"] * made + ["t-own"]


def test_an_environment_may_be_a_method_have_a_name_a_value_and_a_teardown(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        """
        import pytest_kwait

        @pytest_kwait.environment
        def operator(kwait):
            yield

        class TestIt:
            @pytest_kwait.environment(scope="class", name="url")
            def make_url(self, kwait, operator):
                assert kwait.namespace != operator.namespace
                yield f"http://{type(self).__name__}"
                print("torn down", kwait.get(f"namespace/{kwait.namespace}")["metadata"]["name"])

            def test_it(self, url):
                assert url == "http://TestIt"
        """
    )
    result = pytester.runpytest("-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*torn down t-url-*"])


def test_a_failure_is_reported_in_full_once(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest_kwait

        @pytest_kwait.environment
        def database(kwait):
            kwait.wait_for("configmap/late", "create", timeout="50ms")
            yield

        def test_one(database): pass
        def test_two(database): pass
        def test_three(database): pass
        """
    )
    result = pytester.runpytest("--kwait-keep=failed")
    result.assert_outcomes(errors=3)
    text = result.stdout.str()
    assert len(re.findall(r"kwait.wait_for\(\"configmap/late\"", text)) == 1
    lines = [line for line in result.stdout.lines if line.startswith("environment database was")]
    assert len(lines) == 2
    assert lines[0].startswith(
        "environment database was not made; reported with test_it.py::test_one: WaitTimeout: "
    )
    result.stdout.fnmatch_lines(["namespace t-database-* is kept; look: *"])


@pytest.mark.parametrize(
    ("scope", "body"),
    [
        ("session", "kwait.wait_for('configmap/late', 'create', timeout='50ms')"),
        ("session", "assert kwait.namespace == 'other'"),
        ("run", "assert kwait.namespace == 'other'"),
    ],
)
def test_a_failure_begins_with_the_line_of_the_user(
    pytester: pytest.Pytester, fake_cluster: Log, scope: str, body: str
) -> None:
    lead = f"import pytest_kwait\n\n@pytest_kwait.environment(scope='{scope}')\n"
    pytester.makeconftest(f"{lead}def shop(kwait):\n    {body}\n    yield\n")
    pytester.makepyfile("def test_it(shop): pass")

    result = pytester.runpytest()

    result.assert_outcomes(errors=1)
    shown = [line for line in result.stdout.lines if line.startswith((">", "E "))]
    assert shown[0] == f">       {body}"
    assert re.findall(r"^\S+\.py:\d+: ", result.stdout.str(), re.MULTILINE) == ["conftest.py:5: "]


@pytest.mark.parametrize(
    ("scope", "body", "message"),
    [
        *(
            (scope, "return\n    yield", "environment database ended without a `yield`")
            for scope in ("module", "run")
        ),
        ("module", "yield\n    yield", "environment database has a second `yield`"),
    ],
)
def test_the_number_of_yields_is_checked(
    pytester: pytest.Pytester, fake_cluster: Log, scope: str, body: str, message: str
) -> None:
    suite = (
        "import pytest_kwait\n\n"
        f"@pytest_kwait.environment(scope='{scope}')\ndef database(kwait):\n    {body}\n\n"
        "def test_it(database): pass\n"
    )
    pytester.makepyfile(test_it=suite)
    result = pytester.runpytest()
    assert result.parseoutcomes()["errors"] == 1
    assert f"{message}: it must yield once" in result.stdout.str()


def test_settings_and_the_tests_timeout_hold(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        import pytest_kwait

        pytestmark = [pytest.mark.kwait(timeouts={"pod": "7s"}), pytest.mark.timeout(300)]

        @pytest_kwait.environment
        def database(kwait):
            assert kwait.timeouts["pod"] == 7
            with pytest.raises(pytest_kwait.WaitTimeout) as caught:
                kwait.wait_for("configmap/late", "create", timeout="50ms")
            yield kwait

        def test_it(database):
            assert database.timeouts["pod"] == 7
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("kwait", "database.namespace.startswith('t-database-')"),
        ("", "database.namespace.startswith('t-database-')"),
        ("{'port': (1, 2)}", "database == {'port': [1, 2]}"),
        ("kwait, {'port': 1}", "database[1] == {'port': 1} and database[0].namespace"),
    ],
)
def test_values_of_the_scope_run_are_as_json_has_them(
    pytester: pytest.Pytester, fake_cluster: Log, value: str, seen: str
) -> None:
    pytester.makepyfile(
        "import pytest_kwait\n\n@pytest_kwait.environment(scope='run')\n"
        f"def database(kwait):\n    yield {value}\n\ndef test_it(database):\n    assert {seen}\n"
    )
    pytester.runpytest("--kwait-no-janitor").assert_outcomes(passed=1)
    assert _deleted(fake_cluster()) == ["t-database"]


def test_the_limit_of_a_shared_environment_is_a_named_timeout(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpatched = EnvironmentLease.join

    def join(lease: EnvironmentLease, deadline: Deadline, *args: Any) -> Any:
        print(f"joins for {deadline.remaining:.0f} s")
        return unpatched(lease, deadline, *args)

    monkeypatch.setattr(EnvironmentLease, "join", join)
    pytester.makepyfile(
        "import pytest_kwait\n\n@pytest_kwait.environment(scope='run')\n"
        "def database(kwait):\n    yield\n\ndef test_it(database): pass\n"
    )
    pytester.runpytest("-s").stdout.fnmatch_lines(["*joins for 600 s*"])
    result = pytester.runpytest("-s", "--kwait-timeout=environment=20m")
    result.stdout.fnmatch_lines(["*joins for 1200 s*"])


def test_an_environment_of_the_run_is_made_for_each_parameter_that_it_needs(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        import pytest_kwait

        @pytest.fixture(scope="session", params=[1, object()], ids=["one", "other"])
        def version(request):
            return request.param

        @pytest.fixture(scope="session")
        def image(version):
            return "one" if version == 1 else "other"

        @pytest.fixture(scope="session", params=[1, 2])
        def unused(request):
            return request.param

        @pytest_kwait.environment(scope="run")
        def database(kwait, image):
            yield kwait, image

        def test_it(database, image, unused):
            kwait, value = database
            assert value == image
            namespace = kwait.get(f"namespace/{kwait.namespace}")
            print(namespace["metadata"]["annotations"]["pytest-kwait/test"])
        """
    )
    result = pytester.runpytest("-s", "--kwait-no-janitor")
    result.assert_outcomes(passed=4)
    name = "environment test_it.py::database"
    assert {line.strip(".") for line in result.stdout.lines if name in line} == {
        f"test_it.py {name}[version=1]",
        f"{name}[version=1]",
        f"{name}[version=#1]",
    }


@pytest.mark.parametrize("named", [True, False])
def test_environments_of_one_function_are_told_apart_by_their_fixtures(
    pytester: pytest.Pytester, fake_cluster: Log, named: bool
) -> None:
    name = "name=value" if named else ""
    pytester.makepyfile(
        f"""
        import pytest_kwait

        def make(value):
            @pytest_kwait.environment(scope="run", {name})
            def made(kwait):
                yield value
            return made

        db, cache = make("db"), make("cache")

        def test_it(db, cache):
            assert (db, cache) == ("db", "cache")
        """
    )
    pytester.runpytest("--kwait-no-janitor").assert_outcomes(passed=1)


def test_the_process_that_makes_an_environment_is_shown_while_others_wait(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = EnvironmentLease.join

    def join_late(lease: EnvironmentLease, deadline: Any, failed: int, report: Any) -> Any:
        report("environment x: gw0 is making it")
        return join(lease, deadline, failed, report)

    shown: list[str] = []
    monkeypatch.setattr(EnvironmentLease, "join", join_late)
    monkeypatch.setattr(OwnedSource, "show", lambda self, line: shown.append(line))
    pytester.makepyfile(
        "import pytest_kwait\n\n@pytest_kwait.environment(scope='run')\n"
        "def database(kwait):\n    yield\n\ndef test_it(database): pass\n"
    )
    pytester.runpytest("--kwait-no-janitor").assert_outcomes(passed=1)
    assert shown == ["environment x: gw0 is making it", ""]


def test_a_value_without_json_is_an_error(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    pytester.makepyfile(
        "import pytest_kwait\n\n@pytest_kwait.environment(scope='run')\n"
        "def database(kwait):\n    yield {1, 2}\n\ndef test_it(database): pass\n"
    )
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert (
        "other processes cannot be given the value {1, 2}: Object of type set is not JSON "
        "serializable; yield the Kwait, or what JSON can express: texts, numbers, booleans, None, "
        "lists and dicts of them"
    ) in " ".join(re.sub(r"^E +", "", line) for line in result.stdout.lines)


async def _asynchronous(kwait: Any) -> Any:
    yield kwait


def _plain(kwait: Any) -> Any:
    return kwait


def _without_kwait(cluster: Any) -> Any:
    yield cluster


def _with_teardown(kwait: Any) -> Any:
    yield kwait
    print("never")


@pytest.mark.parametrize(
    ("function", "scope", "message"),
    [
        (_asynchronous, "module", "it is async; use a generator, for example: def database("),
        (_plain, "module", "use a function with one `yield`, for example: def database("),
        ("text", "module", "use a function with one `yield`, for example: def database("),
        (_without_kwait, "module", "it needs the argument kwait, for example: def database("),
        (
            _with_teardown,
            "run",
            "with the scope run its last statement must be the `yield`: another process may be "
            "the last to use it; what was created in the cluster is removed by itself",
        ),
        (_plain, "function", "use one of class, module, session, run"),
    ],
)
def test_misuse_is_an_error_that_says_what_is_valid(
    function: Any, scope: Any, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        environment(scope=scope)(function)

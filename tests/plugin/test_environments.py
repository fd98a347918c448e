"""Environments in runs of pytest on a cluster that is a dictionary."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import environment
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.plugin.cluster_source import OwnedSource
from pytest_kwait.suite.environments import EnvironmentLease, EnvironmentState

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
    cause = "configmap/late: not found yet (limit 50ms) (environment database: see test_one)"
    assert result.stdout.lines.count(cause) == 2
    # Before pytest 9 a line has no text of a failure that is a text alone.
    has_text = pytest.version_tuple >= (9,)
    assert [line for line in result.stdout.lines if line.startswith("ERROR ")] == [
        f"ERROR test_it.py::test_{name} - configmap/late: not found yet (limit 50ms){more}"
        if has_text or name == "one"
        else f"ERROR test_it.py::test_{name}"
        for name, more in (
            ("one", ""),
            ("two", " (envi..."),
            ("three", " (en..."),
        )
    ]
    result.stdout.fnmatch_lines(["namespace t-database-* is kept; look: *"])


@pytest.mark.parametrize(
    ("options", "test", "shown"),
    [
        (
            (),
            "test_orders",
            [
                "ValueError: the orders of the database... (environment shop: see test_orders[a])",
                "ValueError: the orders of the database cannot be read from the file /etc/orders",
                "  (environment shop: see test_it.py::test_orders[a])",
            ],
        ),
        (
            (),
            f"test_{'long' * 5}",
            [
                "ValueError: the orders of the database cannot be read from the file /etc/orders",
                "  (environment shop: see test_longlonglonglonglong[a])",
                "ValueError: the orders of the database cannot be read from the file /etc/orders",
                "  (environment shop: see test_it.py::test_longlonglonglonglong[a])",
            ],
        ),
        (
            ("-v",),
            "test_orders",
            [
                "ValueError: the orders of the database cannot be read from the file /etc/orders "
                f"(environment shop: see {prefix}test_orders[a])"
                for prefix in ("", "test_it.py::")
            ],
        ),
    ],
    ids=["short", "long", "verbose"],
)
def test_a_repeated_failure_fits_80_columns_and_begins_with_its_cause(
    pytester: pytest.Pytester,
    fake_cluster: Log,
    options: tuple[str, ...],
    test: str,
    shown: list[str],
) -> None:
    pytester.makeconftest(
        """
        import pytest_kwait

        @pytest_kwait.environment(scope="session")
        def shop(kwait):
            raise ValueError(
                "the orders of the database cannot be read from the file /etc/orders"
            )
            yield
        """
    )
    suite = "import pytest\n\n@pytest.mark.parametrize('n', ['a', 'b'])\ndef {}(shop, n): pass\n"
    pytester.makepyfile(test_it=suite.format(test), test_other="def test_c(shop): pass")
    result = pytester.runpytest(*options)
    result.assert_outcomes(errors=3)
    text = result.stdout.str()
    assert text.count(">       raise ValueError(") == 1
    found = [
        line for line in result.stdout.lines if line.startswith(("ValueError: ", "  (environment"))
    ]
    assert found == shown
    assert options or max(map(len, found)) <= 80


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

    def join_late(
        lease: EnvironmentLease, deadline: Any, failed: int, report: Any, check: Any
    ) -> Any:
        report("environment x: gw0 is making it")
        return join(lease, deadline, failed, report, check)

    shown: list[str] = []
    monkeypatch.setattr(EnvironmentLease, "join", join_late)
    monkeypatch.setattr(OwnedSource, "show", lambda self, line: shown.append(line))
    pytester.makepyfile(
        "import pytest_kwait\n\n@pytest_kwait.environment(scope='run')\n"
        "def database(kwait):\n    yield\n\ndef test_it(database): pass\n"
    )
    pytester.runpytest("--kwait-no-janitor").assert_outcomes(passed=1)
    assert shown == ["environment x: gw0 is making it", ""]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            "pod/a: no image\ntest_other.py::test_a",
            "pod/a: no image (environment database of gw1: see test_other.py::test_a)",
        ),
        ("pod/a: no image\n", "pod/a: no image (environment database of gw1)"),
    ],
    ids=["test", "none"],
)
def test_a_failure_of_another_process_names_the_test_that_has_it_in_full(
    pytester: pytest.Pytester,
    fake_cluster: Log,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    shown: str,
) -> None:
    failed = EnvironmentState("failed", 1, "gw1", value=value)
    monkeypatch.setattr(EnvironmentLease, "join", lambda *_: failed)
    pytester.makepyfile(
        "import pytest_kwait\n\n@pytest_kwait.environment(scope='run')\n"
        "def database(kwait):\n    yield\n\n"
        "def test_a(database): pass\n\ndef test_b(database): pass\n"
    )
    result = pytester.runpytest("--kwait-no-janitor")
    result.assert_outcomes(errors=2)
    assert result.stdout.lines.count(shown) == 2


def test_the_maker_of_a_shared_environment_publishes_its_failure_and_test(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[str] = []
    monkeypatch.setattr(
        EnvironmentLease, "fail", lambda _, reason, **_options: published.append(reason)
    )
    pytester.makepyfile(
        test_it="import pytest_kwait\n\n@pytest_kwait.environment(scope='run')\n"
        "def database(kwait):\n    raise ValueError('no\\nroom')\n    yield\n\n"
        "def test_a(database): pass\n"
    )
    pytester.runpytest("--kwait-no-janitor").assert_outcomes(errors=1)
    assert published == ["ValueError: no\ntest_it.py::test_a"]


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


def _with_factory(kwait: Any, kwait_factory: Any) -> Any:
    yield kwait_factory


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
        (
            _with_teardown,
            "cluster",
            "with the scope cluster its last statement must be the `yield`: another process may be "
            "the last to use it; what was created in the cluster is removed by itself",
        ),
        (
            _with_factory,
            "cluster",
            "with the scope cluster it cannot use kwait_factory, whose objects end with the run; "
            "create them by kwait, or give it the scope run",
        ),
        (_plain, "function", "use one of class, module, session, run, cluster"),
    ],
)
def test_misuse_is_an_error_that_says_what_is_valid(
    function: Any, scope: Any, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        environment(scope=scope)(function)

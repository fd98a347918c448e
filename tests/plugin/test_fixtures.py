from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import pytest_kwait
from tests.examples import scaled
from tools import tables

FakeCluster = Callable[[], str]

_MADE = re.compile(r"POST /api/v1/namespaces\n")
_DELETED = re.compile(r"DELETE /api/v1/namespaces/(\S+)\n")


def test_each_test_has_a_ready_namespace_that_is_deleted(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        seen = set()

        def test_one(kwait, kwait_namespace, kwait_cluster, kwait_client, kwait_timeouts):
            assert kwait.namespace == kwait_namespace
            assert kwait_namespace.startswith("t-one-")
            assert kwait.cluster is kwait_cluster and kwait.client is kwait_client
            assert kwait.timeouts == kwait_timeouts and kwait.timeouts.job == 900
            assert kwait.settings.mode == "poll"
            assert kwait.get("serviceaccount/default") and kwait.get("cm/kube-root-ca.crt")
            seen.add(kwait_namespace)

        def test_two(kwait_namespace):
            assert kwait_namespace not in seen
        """
    )
    pytester.runpytest("--kwait-run-id=r1").assert_outcomes(passed=2)
    log = fake_cluster()
    assert len(_MADE.findall(log)) == 2
    assert len(_DELETED.findall(log)) == 2


def test_waits_are_fixtures_bound_to_the_test(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
               "status": {"phase": "Running"}}

        @pytest.mark.kwait(timeouts={"wait_for": "7s"}, grace="8s")
        def test_it(kwait, wait_for, wait_for_job_complete, wait_for_pods_on_minions):
            kwait.apply(POD)
            pod = wait_for("pod/web", lambda pod: pod["status"]["phase"] == "Running")
            assert pod["metadata"]["namespace"] == kwait.namespace
            options = wait_for.defaults.options(wait_for.wait, {})
            assert (options["timeout"], options["grace"], options["mode"]) == (7.0, 8.0, "poll")
            assert wait_for_job_complete.defaults.namespace == kwait.namespace
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_every_wait_is_a_fixture_and_a_marker() -> None:
    from pytest_kwait.framework.registry import WAITS
    from pytest_kwait.framework.wait_names import WAIT_NAMES
    from pytest_kwait.plugin.fixtures import make_wait_fixtures

    made = dir(make_wait_fixtures(WAIT_NAMES))
    lines = {name for name in made if name.startswith("wait_for")}
    assert lines == set(WAITS) == set(WAIT_NAMES)


@pytest.mark.parametrize(
    ("scope", "made"), [("test", 4), ("class", 3), ("module", 2), ("session", 1)]
)
def test_namespaces_are_shared_by_option(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, scope: str, made: int
) -> None:
    pytester.makepyfile(
        test_a="""
        class TestClass:
            def test_one(self, kwait_namespace): pass
            def test_two(self, kwait): assert kwait.namespace

        def test_three(kwait): pass
        """,
        test_b="def test_four(kwait): pass",
    )
    pytester.runpytest(f"--kwait-namespace-scope={scope}").assert_outcomes(passed=4)
    assert len(_MADE.findall(fake_cluster())) == made
    assert len(_DELETED.findall(fake_cluster())) == made


def test_function_outside_of_classes_has_its_own_namespace_at_class_scope(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}

        @pytest.mark.kwait_manifests(CONFIG_MAP)
        def test_it(kwait): pass
        """
    )
    pytester.runpytest("--kwait-namespace-scope=class").assert_outcomes(passed=1)
    assert fake_cluster().count("PATCH") == 1


def test_shared_kwait_uses_the_settings_of_the_running_test(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.kwait(timeouts={"job": 5})
        def test_one(kwait): assert kwait.timeouts["job"] == 5

        def test_two(kwait): assert kwait.timeouts["job"] == 900
        """
    )
    pytester.runpytest("--kwait-namespace-scope=module").assert_outcomes(passed=2)


def test_existing_namespace_is_used_and_only_our_objects_go(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}

        @pytest.fixture(scope="session", autouse=True)
        def team(kwait_cluster):
            kwait_cluster.transport.objects["/api/v1/namespaces/team-a"] = {
                "metadata": {"name": "team-a", "uid": "u"}}

        def test_one(kwait):
            assert kwait.namespace == "team-a"
            kwait.apply(CONFIG_MAP)

        def test_two(kwait):
            assert kwait.list("cm") == []
        """
    )
    pytester.runpytest("--kwait-namespace=team-a").assert_outcomes(passed=2)
    assert fake_cluster().splitlines() == [
        "PATCH /api/v1/namespaces/team-a/configmaps/mine",
        "DELETE /api/v1/namespaces/team-a/configmaps/mine",
    ]


def test_missing_given_namespace_is_an_error(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it="def test_it(kwait): pass")
    result = pytester.runpytest("--kwait-namespace=team-a")
    result.assert_outcomes(errors=1)
    assert (
        "namespace='team-a' (from option --kwait-namespace) "
        "is not in the cluster: create it, or leave the setting out to have a namespace made"
    ) in result.stdout.str().splitlines()


def test_factory_makes_further_benches(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture(scope="session")
        def shared(kwait_factory):
            with kwait_factory("shared things") as shared:
                shared.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}})
                yield shared

        def test_one(shared, kwait):
            assert shared.namespace.startswith("t-shared-things-")
            assert kwait.namespace != shared.namespace

        def test_two(shared): pass
        """
    )
    pytester.runpytest("--kwait-run-id=r1").assert_outcomes(passed=2)
    log = fake_cluster()
    assert len(_MADE.findall(log)) == 2
    assert len(_DELETED.findall(log)) == 2
    assert "DELETE /api/v1/nodes/extra" in log


def test_fixtures_can_be_overridden(pytester: pytest.Pytester, fake_cluster: FakeCluster) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def kwait_timeouts(kwait_timeouts):
            return kwait_timeouts.merged({"job": 3})

        @pytest.fixture
        def kwait_namespace():
            return "my-own"

        @pytest.fixture
        def wait_for_job_complete():
            return lambda job: f"{job} is done"

        def test_it(kwait, wait_for_job_failed, wait_for_job_complete):
            assert kwait.namespace == wait_for_job_failed.defaults.namespace == "my-own"
            assert kwait.timeouts["job"] == wait_for_job_failed.defaults.timeouts["job"] == 3
            assert wait_for_job_complete("pi") == "pi is done"
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    assert fake_cluster() == ""


def test_running_again_takes_a_new_name(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def again(request): pass

        def test_it(kwait, request):
            from pytest_kwait.plugin.namespaces import make_owner as _owner
            node = request.node
            before = _owner(request.config, kwait.cluster, node.nodeid, node.name, again=True)
            after = _owner(request.config, kwait.cluster, node.nodeid, node.name)
            assert (before.attempt, after.attempt) == (1, 2)
            assert before.name == kwait.namespace != after.name
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_failed_deletion_is_a_teardown_error(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        from pytest_kwait.errors import ApiError

        def test_it(kwait):
            kwait.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
            for path in ("/api/v1/nodes/n", f"/api/v1/namespaces/{kwait.namespace}"):
                kwait.cluster.transport.refuse("DELETE", path, ApiError("no", status=403))
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*namespace t-* could not be deleted: 403: no*",
        ]
    )
    assert "left in the cluster, as it could not be deleted:" in result.stdout.str()
    assert "node/n: 403: no" in result.stdout.str()


def test_failed_setup_leaves_no_namespace(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    (pytester.path / "bad.yaml").write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: extra}}\n---\n"
        "{apiVersion: v1, kind: Nood, metadata: {name: x}}\n"
    )
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.kwait_manifests("bad.yaml")
        def test_it(): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert (
        "bad.yaml, document 2, line 3: "
        "kind='Nood' is not valid: the server has no such kind in v1; near: nodes (v1)"
    ) in result.stdout.str().splitlines()
    log = fake_cluster().splitlines()
    assert [line.split()[0] for line in log] == ["POST", "PATCH", "DELETE", "DELETE"]
    assert log[2] == "DELETE /api/v1/nodes/extra"


def test_what_the_cluster_refuses_of_a_marker_names_the_marker(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    del fake_cluster
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.wait_for("nodez/a", "create")
        def test_it(): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert (
        "marker wait_for('nodez/a', 'create') of test_it.py::test_it: kind='nodez' is not valid: "
        "the server has no such kind; near: nodes (v1)"
    ) in result.stdout.str()


def test_a_conftest_overrides_fixtures_and_uses_them(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def kwait_timeouts(kwait_timeouts):
            return {**kwait_timeouts, "mine": 1.0}

        @pytest.fixture
        def wait_for_pod_ready(kwait_timeouts):
            return kwait_timeouts["mine"]
        """
    )
    pytester.makepyfile(
        """
        def test_it(request, wait_for_pod_ready):
            assert wait_for_pod_ready == 1.0
            assert request.getfixturevalue("kwait_timeouts")["job"] == 900.0
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_a_fixture_replaces_the_timeout_table_in_part(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def kwait_timeouts(request):
            return request.node.get_closest_marker("table").args[0]

        @pytest.mark.table({"job": "3s", "mine": 7})
        def test_mapping(kwait, wait_for_job_complete):
            assert kwait.timeouts.job == 3.0 and kwait.timeouts["mine"] == 7.0
            assert kwait.timeouts.poll == 0.01 and kwait.timeouts.pod_start == 300.0
            defaults = wait_for_job_complete.defaults
            assert defaults.options(wait_for_job_complete.wait, {})["timeout"] == 3.0

        @pytest.mark.table(90)
        def test_number(wait_for_job_complete): pass

        @pytest.mark.table({"job": "soon"})
        def test_text(wait_for_job_complete): pass
        """
    )
    result = pytester.runpytest("-o", "markers=table: timeouts", "--kwait-poll=10ms")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(
        [
            "fixture kwait_timeouts=90 is not valid: it returns a mapping of names to durations, "
            'for example {"job": "5m"}',
            "timeout job='soon' (from fixture kwait_timeouts) is not valid: use seconds (90), *",
        ]
    )


def test_pytest_looks_up_fixtures_itself(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(pytestconfig):
            manager = pytestconfig.pluginmanager.getplugin("funcmanage")
            assert vars(manager).keys().isdisjoint(dir(type(manager)))
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_a_name_that_is_nearly_right_is_shown_all_waits(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(wait_for_pod_redy): pass")
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert "wait_for_pod_ready" in result.stdout.str()


_FUNCTIONS = """
import pytest
import pytest_kwait.engine.waiter as waiter
from pytest_kwait import rolling_update, wait_for, wait_for_job_complete, wait_for_pod_ready

pytestmark = pytest.mark.kwait(grace="7s")
USED = []


@pytest.fixture(scope="session", autouse=True)
def record():
    def wait(session, condition, settings, deadline=None, name=""):
        USED.append(settings)
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiter, "wait_for_condition", wait)
        yield


def used(client, **options):
    wait_for_job_complete(client, "default", "pi", **options)
    found = USED.pop()
    return (found.timeout, found.poll, found.mode, found.fail_fast, found.grace, found.stable_for)


OF_RUN = (60.0, 0.01, "poll", False, None, 0.0)
OF_MODULE = (60.0, 0.01, "poll", False, 7.0, 0.0)
OF_TEST = (3.0, 5.0, "watch", False, 7.0, 2.0)


@pytest.fixture(scope="session")
def in_session(kwait_client):
    assert used(kwait_client) == OF_RUN
    yield
    assert used(kwait_client) == OF_RUN


@pytest.fixture(scope="module")
def in_module(kwait_client, in_session):
    assert used(kwait_client) == OF_MODULE
    assert used(kwait_client, grace="1s", timeout=4) == (4.0, 0.01, "poll", False, 1.0, 0.0)
    yield
    assert used(kwait_client) == OF_MODULE


@pytest.fixture
def in_function(kwait_client, in_module):
    assert used(kwait_client) == OF_TEST
    yield
    assert used(kwait_client) == OF_TEST


@pytest.mark.kwait(timeouts={"job": "3s"}, poll="5s", mode="watch", stable_for="2s")
def test_marked(kwait_client, in_function):
    assert used(kwait_client) == OF_TEST
    assert used(kwait_client, mode="poll")[2] == "poll"


def test_other(kwait_client, in_module):
    assert used(kwait_client) == OF_MODULE
"""


def test_functions_follow_the_settings_of_the_test_or_of_their_fixtures_scope(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(test_it=_FUNCTIONS)
    result = pytester.runpytest("--kwait-timeout=job=1m", "--kwait-no-fail-fast")
    result.assert_outcomes(passed=2)


def test_limits_and_pauses_of_functions_without_settings_are_their_own(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makeini("[pytest]")
    pytester.makepyfile(
        """
        import pytest
        from pytest_kwait.client.session import ApiSession

        def test_it(kwait_client):
            options = ApiSession.of(kwait_client).default_options
            assert options("job", "poll") == {}
            assert options("authorization", "authorization_poll") == {}

        @pytest.mark.kwait(timeouts={"authorization_poll": "1s"})
        def test_pause(kwait_client):
            options = ApiSession.of(kwait_client).default_options
            assert options("authorization", "authorization_poll") == {"poll": 1.0}
        """
    )
    pytester.runpytest().assert_outcomes(passed=2)


def test_types_of_fixtures_are_public() -> None:
    given = re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", tables.fixtures(), re.MULTILINE)
    assert len(given) > 10
    foreign = {"ApiClient", "Iterable[str]", "Mapping[str, object]", "str"}
    private = [name for name, kind in given if kind not in {*pytest_kwait.__all__, *foreign}]
    assert private == []


_SUITE_TIMEOUTS = """
import asyncio
import pytest
import pytest_kwait
import pytest_kwait.engine.waiter as waiter
from pytest_kwait import wait_for_job_complete as function

USED = []


@pytest.fixture(scope="session", autouse=True)
def record():
    def wait(session, condition, settings, deadline=None, name=""):
        USED.append(settings.timeout)
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiter, "wait_for_condition", wait)
        yield


@pytest.fixture(scope="SCOPE")
def kwait_timeouts(PARENT):
    return TABLE


@pytest.fixture(scope="module")
def in_module(kwait_client):
    function(kwait_client, "default", "pi")
    assert USED.pop() == OF_RUN
    yield
    function(kwait_client, "default", "pi")
    assert USED.pop() == OF_RUN


@pytest_kwait.environment(scope="module")
def shop(kwait):
    kwait.wait_for_job_complete("pi")
    assert USED.pop() == OF_RUN
    yield kwait
    kwait.wait_for_job_complete("pi")
    assert USED.pop() == OF_RUN


@pytest_kwait.environment(scope="run")
def run_wide(kwait):
    kwait.wait_for_job_complete("pi")
    assert USED.pop() == OF_RUN
    yield kwait


async def wait_async(kwait):
    await kwait.aio.wait_for_job_complete("pi")
    await kwait.aio.wait_for_job_complete("pi", timeout=4)


def check(limit, kwait, kwait_client, wait_for_job_complete):
    assert kwait.timeouts.job == limit
    asyncio.run(wait_async(kwait))
    assert USED == [limit, 4.0]
    USED.clear()
    for form in (wait_for_job_complete, kwait.wait_for_job_complete):
        form("pi")
        form("pi", timeout=4)
        assert USED == [limit, 4.0]
        USED.clear()
    function(kwait_client, "default", "pi")
    function(kwait_client, "default", "pi", timeout=4)
    assert USED == [limit, 4.0]
    USED.clear()


@pytest.mark.wait_for_job_complete("pi")
def test_of_run(in_module, shop, run_wide, kwait, kwait_client, wait_for_job_complete):
    assert USED.pop() == OF_RUN
    for environment in (shop, run_wide):
        check(OF_RUN, environment, kwait_client, wait_for_job_complete)
    check(OF_RUN, kwait, kwait_client, wait_for_job_complete)


@pytest.mark.kwait(timeouts={"job": 7})
def test_marker(in_module, shop, kwait, kwait_client, wait_for_job_complete):
    check(7.0 * SCALE, kwait, kwait_client, wait_for_job_complete)
    check(7.0 * SCALE, shop, kwait_client, wait_for_job_complete)


class TestClass:
    def test_of_run(self, in_module, shop, kwait, kwait_client, wait_for_job_complete):
        check(OF_RUN, kwait, kwait_client, wait_for_job_complete)

    @pytest.mark.kwait(timeouts={"job": 7})
    def test_marker(self, in_module, kwait, kwait_client, wait_for_job_complete):
        check(7.0 * SCALE, kwait, kwait_client, wait_for_job_complete)
"""


@pytest.mark.parametrize(
    ("scope", "parent", "table", "namespace_scope"),
    [
        *(
            (*fixture, namespace_scope)
            for fixture in (
                ("session", "", '{"job": 3}'),
                ("module", "", '{"job": "3s"}'),
                ("function", "", '{"job": 3}'),
                ("function", "kwait_timeouts", 'kwait_timeouts.merged({"job": 3})'),
                ("function", "kwait_timeouts", '{**kwait_timeouts, "job": 3}'),
            )
            for namespace_scope in (None, "module")
        ),
        *(
            (scope, "", '{"job": 3}', namespace_scope)
            for scope in ("session", "function")
            for namespace_scope in ("class", "session")
        ),
    ],
)
def test_a_suites_timeout_table_is_below_every_other_source(
    pytester: pytest.Pytester,
    fake_cluster: Callable[[], str],
    scope: str,
    parent: str,
    table: str,
    namespace_scope: str | None,
) -> None:
    text = _SUITE_TIMEOUTS.replace("SCOPE", scope).replace("PARENT", parent)
    text = text.replace("TABLE", table)
    shared = [] if namespace_scope is None else [f"--kwait-namespace-scope={namespace_scope}"]
    for options, limit in (([], 6.0), (["--kwait-timeout=job=5"], 10.0)):
        pytester.makepyfile(test_it=text.replace("OF_RUN", str(limit)).replace("SCALE", "2.0"))
        result = pytester.runpytest("--kwait-timeout-scale=2", *options, *shared)
        result.assert_outcomes(passed=4)


_PRECEDENCE = """
import asyncio
import pytest
import pytest_kwait
import pytest_kwait.engine.waiter as waiter
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_kwait import wait_for_job_complete as function
from pytest_kwait.engine.options import TIMEOUTS
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.plugin.markers import MarkerExecutor
from pytest_kwait.plugin.namespaces import bind_wait
from pytest_kwait.plugin.run import run_of
from pytest_kwait.suite.config.settings import read_suite_timeouts

LIMITS = st.one_of(st.none(), st.integers(1, 900))
SOURCES = ("ini", "env", "option", "marker")


@pytest_kwait.environment(scope="module")
def shop(kwait):
    yield kwait


@pytest.mark.parametrize("namespace_of", ["test", "environment"])
def test_precedence(request, monkeypatch, kwait, kwait_client, shop, namespace_of):
    kwait = kwait if namespace_of == "test" else shop
    run, item = run_of(request.config), request.node
    executor = run.get(MarkerExecutor)
    used, markers = [], list(item.own_markers)
    record = lambda session, condition, settings, *_, **__: used.append(settings.timeout) or {}
    monkeypatch.setattr(waiter, "wait_for_condition", record)
    monkeypatch.setattr(run, "settings", run.settings)
    monkeypatch.setattr(executor, "_suite_timeouts", {})

    def take(form, *args, **options):
        form(*args, **options)
        return used.pop()

    @settings(max_examples=EXAMPLES, database=None, deadline=None)
    @given(
        call=LIMITS,
        named=st.tuples(*[LIMITS] * len(SOURCES)),
        every=st.tuples(*[LIMITS] * len(SOURCES)),
        table=LIMITS,
        scale=st.sampled_from([1, 2, 5]),
    )
    def holds(call, named, every, table, scale):
        item.own_markers[:] = markers
        merged = run_settings.merged({"timeout_scale": str(scale)}, lambda _: "option")
        for source, limit, whole in zip(SOURCES, named, every, strict=True):
            given = {} if whole is None else {"timeout": whole}
            timeouts = None if limit is None else {"job": limit}
            if source != "marker":
                merged = merged.merged(given, lambda _, source=source: source, timeouts)
            elif given or timeouts:
                given = {**given, **({"timeouts": timeouts} if timeouts else {})}
                item.add_marker(pytest.mark.kwait(**given))
        run.settings = merged
        entries = {} if table is None else {"job": table}
        executor._suite_timeouts = read_suite_timeouts(entries, merged.unscaled_timeouts())
        # From the farthest source to the nearest one.
        expected = (table or TIMEOUTS["job"].seconds) * scale
        for limit, whole in zip(named, every, strict=True):
            if limit is not None:
                expected = limit * scale
            elif whole is not None:
                expected = whole
        own = {} if call is None else {"timeout": call}
        expected = expected if call is None else call

        fixture = bind_wait(WAITS["wait_for_job_complete"], request)
        assert take(fixture, "pi", **own) == expected
        assert take(kwait.wait_for_job_complete, "pi", **own) == expected
        assert take(function, kwait_client, "default", "pi", **own) == expected
        asyncio.run(kwait.aio.wait_for_job_complete("pi", **own))
        assert used.pop() == expected

    run_settings = run.settings
    holds()
    item.own_markers[:] = markers
"""


@pytest.mark.parametrize("namespace_scope", [None, "class", "module", "session"])
def test_limits_have_one_precedence_in_every_form_and_scope(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str], namespace_scope: str | None
) -> None:
    """Call, marker, option, environment, ini, the suite's table; the scale multiplies the table."""
    pytester.makepyfile(test_it=_PRECEDENCE.replace("EXAMPLES", str(scaled(100))))
    shared = [] if namespace_scope is None else [f"--kwait-namespace-scope={namespace_scope}"]
    pytester.runpytest(*shared).assert_outcomes(passed=2)

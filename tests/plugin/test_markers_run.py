from __future__ import annotations

from collections.abc import Callable

import pytest

FakeCluster = Callable[[], str]


def test_manifests_are_applied_and_waits_are_done_before_the_test_starts(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    (pytester.path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}}"
    )
    pytester.makepyfile(
        test_it="""
        import pytest

        order = []

        @pytest.fixture
        def mine(kwait):
            assert kwait.get("pod/web")
            kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}})
            order.append("fixture")

        def made(found):
            order.append("wait")
            return True

        @pytest.mark.kwait_manifests("pod.yaml")
        @pytest.mark.wait_for("cm/made", made, timeout="2s")
        def test_it(mine):
            assert order == ["fixture", "wait"]
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_a_test_needs_no_fixture_for_its_markers(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}

        @pytest.mark.parametrize("x", [1, 2])
        @pytest.mark.kwait_manifests(POD)
        @pytest.mark.wait_for("pod/web", "create")
        def test_marked(x): pass

        def test_not_marked(request):
            assert "kwait" not in request.fixturenames

        class TestClass:
            @pytest.mark.wait_for("sa/default", "create", namespace="other")
            def test_elsewhere(self): pass

        @pytest.fixture(autouse=True)
        def other(kwait_cluster):
            kwait_cluster.transport.objects["/api/v1/namespaces/other/serviceaccounts/default"] = {
                "metadata": {"name": "default", "uid": "u"}}
        """
    )
    pytester.runpytest().assert_outcomes(passed=4)
    assert fake_cluster().count("POST /api/v1/namespaces\n") == 3


def test_markers_of_module_class_and_function_apply_from_far_to_near(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        def config_map(name):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

        pytestmark = pytest.mark.kwait_manifests(config_map("of-module"))

        @pytest.mark.kwait_manifests(config_map("of-class"))
        class TestClass:
            @pytest.mark.kwait_manifests(config_map("of-function"))
            def test_it(self): pass
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    applied = [
        line.rsplit("/", 1)[1] for line in fake_cluster().splitlines() if line.startswith("PATCH")
    ]
    assert applied == ["of-module", "of-class", "of-function"]


def test_shared_manifests_are_applied_once_and_others_per_test(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        def config_map(name):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

        pytestmark = pytest.mark.kwait_manifests(config_map("shared"))

        @pytest.mark.kwait_manifests(config_map("first"))
        def test_one(kwait):
            assert [each["metadata"]["name"] for each in kwait.list("cm")] == [
                "first", "kube-root-ca.crt", "shared"]

        class TestClass:
            def test_two(self): pass
        """
    )
    pytester.runpytest("--kwait-namespace-scope=module").assert_outcomes(passed=2)
    applied = [
        line.rsplit("/", 1)[1] for line in fake_cluster().splitlines() if line.startswith("PATCH")
    ]
    assert applied == ["shared", "first"]


def test_files_are_found_beside_the_test_then_in_rootdir(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    below = pytester.mkdir("below")
    for folder, name in ((pytester.path, "root"), (below, "near")):
        text = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}"
        (folder / "both.yaml").write_text(text)
        (folder / f"{name}.yaml").write_text(text)
    (below / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.kwait_manifests('both.yaml', 'root.yaml')\n"
        "def test_it(kwait):\n"
        "    kwait.apply('near.yaml')\n"
    )
    pytester.runpytest().assert_outcomes(passed=1)
    applied = [
        line.rsplit("/", 1)[1] for line in fake_cluster().splitlines() if line.startswith("PATCH")
    ]
    assert applied == ["near", "root", "near"]


def test_a_wait_fixture_that_was_overridden_serves_its_marker(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        asked = []

        @pytest.fixture
        def wait_for_job_complete(wait_for_job_complete):
            return lambda *args, **kwargs: asked.append((args, kwargs))

        @pytest.mark.wait_for_job_complete("pi", timeout="1s")
        def test_it():
            assert asked == [(("pi",), {"timeout": "1s"})]
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


@pytest.mark.parametrize("used", ["", "wait_for, kwait, "])
def test_a_projects_own_fixtures_do_not_serve_markers(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, used: str
) -> None:
    pytester.makepyfile(
        test_it=f"""
        import pytest

        calls = []

        @pytest.fixture
        def wait_for():
            calls.append("wait_for")
            return lambda selector: selector

        @pytest.fixture(params=[1])
        def kwait(request):
            calls.append("kwait")
            return "mine"

        @pytest.fixture
        def manifests(): raise RuntimeError("not requested")

        POD = {{"kind": "Pod", "apiVersion": "v1", "metadata": {{"name": "web"}}}}

        @pytest.mark.kwait_manifests(POD)
        @pytest.mark.wait_for("pod/web", "create")
        @pytest.mark.wait_for_cache_sync("pods")
        def test_it({used}kwait_namespace):
            assert calls == {[name for name in used.split(", ") if name]!r}
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_a_parameter_named_as_a_wait_does_not_serve_its_marker(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}}

        @pytest.mark.kwait_manifests(POD)
        @pytest.mark.wait_for("pod/web", "create")
        @pytest.mark.parametrize("wait_for", [1])
        def test_it(wait_for):
            assert wait_for == 1
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_failed_fixture_skips_the_waits(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def broken():
            raise RuntimeError("mine")

        @pytest.mark.wait_for_job_complete("pi")
        def test_it(broken): pass

        def test_next(kwait): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["E*RuntimeError: mine"])


def test_methods_of_unittest_have_preconditions_as_well(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import unittest

        import pytest

        CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}

        class TestIt(unittest.TestCase):
            @pytest.mark.kwait_manifests(CONFIG_MAP)
            @pytest.mark.wait_for("cm/one", "create")
            def test_it(self): pass
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    assert fake_cluster().count("PATCH") == 1


def test_the_peers_can_be_switched_off(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it="def test_it(kwait): pass")
    pytester.runpytest("-p", "no:xdist", "-p", "no:timeout").assert_outcomes(passed=1)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clusters import provider
from pytest_kwait.plugin import cluster
from tests.plugin.given_cluster import given

if TYPE_CHECKING:
    from collections.abc import Callable

_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]
contexts:
- {name: lab, context: {cluster: here, user: me}}
- {name: prod, context: {cluster: here, user: me}}
current-context: prod
"""
_WORKERS = pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])


@pytest.fixture
def kubeconfig(pytester: pytest.Pytester) -> str:
    path = pytester.path / "kubeconfig"
    path.write_text(_KUBECONFIG)
    pytester.makeini("[pytest]\naddopts = --strict-markers\nkwait_allowed_contexts = lab, kind-*\n")
    pytester.makepyfile("def test_it(kwait): pass\ndef test_other(): pass")
    return f"--kwait-kubeconfig={path}"


def _refused(result: pytest.RunResult, message: str) -> None:
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.stderr.str()
    assert result.stderr.str().count("ERROR: ") == 1
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


@_WORKERS
def test_a_context_that_is_not_allowed_ends_the_run(
    pytester: pytest.Pytester, kubeconfig: str, workers: list[str]
) -> None:
    _refused(
        pytester.runpytest(kubeconfig, *workers),
        "context='prod' (from the kubeconfig's current context) is not valid: tests may run on "
        "lab, kind-* (allowed_contexts from ini kwait_allowed_contexts) and on the embedded "
        "cluster\n",
    )


def test_so_does_one_that_is_named(pytester: pytest.Pytester, kubeconfig: str) -> None:
    _refused(
        pytester.runpytest(kubeconfig, "--kwait-context=lab", "--kwait-allowed-contexts=kind-*"),
        "context='lab' (from option --kwait-context) is not valid: tests may run on kind-* "
        "(allowed_contexts from option --kwait-allowed-contexts) and on the embedded cluster\n",
    )


@pytest.mark.parametrize("allowed", ["lab", "staging,l*"])
def test_an_allowed_context_is_used(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    kubeconfig: str,
    allowed: str,
) -> None:
    monkeypatch.setenv("KWAIT_ALLOWED_CONTEXTS", allowed)
    result = pytester.runpytest(kubeconfig, "--kwait-context=lab", "-k", "other")
    result.assert_outcomes(passed=1, deselected=1)


def test_the_embedded_cluster_is_always_allowed(pytester: pytest.Pytester) -> None:
    from pytest_kwait.plugin.cluster_source import OwnedSource
    from pytest_kwait.suite.config.settings import Settings

    settings = Settings().merged({"allowed_contexts": "lab"}, lambda definition: "ini")
    OwnedSource(settings).check()


@_WORKERS
@pytest.mark.parametrize(
    ("option", "setting", "users"),
    [
        ("--kwait-controllers", "controllers=True", "binaries"),
        ("--kwait-node-image=node:1", "node_image='node:1'", "kind, k3d, minikube"),
        ("--kwait-load-image=a:1", "load_image=('a:1',)", "kind, k3d, minikube"),
    ],
)
def test_an_option_of_another_cluster_ends_the_run(
    pytester: pytest.Pytester, workers: list[str], option: str, setting: str, users: str
) -> None:
    pytester.makepyfile("def test_it(kwait): pass")
    flag = option.partition("=")[0]
    _refused(
        pytester.runpytest(option, *workers),
        f"{setting} (from option {flag}) is not valid: cluster embedded has no use for it, only "
        f"{users}\n",
    )


@_WORKERS
def test_an_option_of_another_cluster_is_none_of_a_suite_with_its_own(
    pytester: pytest.Pytester, workers: list[str]
) -> None:
    pytester.makepyfile("def test_it(kwait_cluster): pass")
    pytester.runpytest("--kwait-load-image=a:1", "--collect-only").assert_outcomes()
    pytester.makeconftest(
        "import pytest\n\n@pytest.fixture(scope='session')\n"
        "def kwait_cluster(request):\n"
        "    return request.config.getoption('kwait_load_image')\n"
    )
    pytester.runpytest("--kwait-load-image=a:1", *workers).assert_outcomes(passed=1)


def test_all_settings_of_other_clusters_are_checked_at_the_start() -> None:
    refused = {name for name, users in provider._USED.items() if "embedded" not in users}
    # An API server alone has no nodes.
    assert set(cluster._NOT_OF_EMBEDDED) == {*refused, "nodes"}


@pytest.mark.parametrize("value", [",", "lab,,prod", " "])
def test_no_name_is_no_context(pytester: pytest.Pytester, value: str) -> None:
    _refused(
        pytester.runpytest(f"--kwait-allowed-contexts={value}"),
        f"allowed_contexts={value!r} (from option --kwait-allowed-contexts) is not valid: use "
        "names with commas between them and * for any part, for example kind-*,staging\n",
    )


_PROVIDER = given("""
class Cluster(GivenCluster):
    provider = os.environ["FAKE_PROVIDER"]

    def send(self, method, path, **options):
        if "/selfsubject" not in path:
            return super().send(method, path, **options)
        with open(os.environ["FAKE_LOG"], "a") as file:
            file.write(path.rpartition("/")[2] + "\\n")
        body = json.loads(options["body"])
        what = body.get("spec", {}).get("resourceAttributes", {})
        denied = list(filter(None, os.environ["FAKE_DENIED"].split(",")))
        right = f"{what.get('verb')} {what.get('resource')}"
        body["status"] = {
            "allowed": not denied if right == "* *" else right not in denied,
            "userInfo": {"username": "ci"},
        }
        return Response(201, {}, json.dumps(body).encode())
""")
_MISSING = (
    "user 'ci' may not do on kubeconfig /fake/kubeconfig what pytest-kwait needs for itself:\n"
    "  create namespaces\n"
    "grant it that; or give --kwait-namespace NAME: tests then share the namespace of that name, "
    "which must exist, and what they make in it is removed one by one"
)


@pytest.fixture
def authorized(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Runs use a cluster that allows what it is told; returns what was written to it."""
    path = pytester.path / "log"
    pytester.makeconftest(_PROVIDER)
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers\nkwait_mode = poll\nkwait_poll = 10ms\n"
        "kwait_cluster = existing\n"
    )
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.parametrize("n", range(3))
        def test_it(kwait, n): pass

        def test_reader(kwait_client): pass

        @pytest.mark.wait_for_pods_running_ready(1)
        def test_late(): pass
        """
    )
    monkeypatch.setenv("FAKE_LOG", str(path))

    def allow(denied: str = "", provider: str = "existing") -> list[str]:
        monkeypatch.setenv("FAKE_DENIED", denied)
        monkeypatch.setenv("FAKE_PROVIDER", provider)
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    return allow


def test_missing_rights_are_reported_once_before_any_object(
    pytester: pytest.Pytester, authorized: Callable[..., list[str]]
) -> None:
    authorized("create namespaces")
    _refused(pytester.runpytest(), f"{_MISSING}\n")
    assert sorted(set(authorized())) == ["selfsubjectaccessreviews", "selfsubjectreviews"]


def test_workers_get_missing_rights_from_the_controller(
    pytester: pytest.Pytester, authorized: Callable[..., list[str]]
) -> None:
    authorized("create namespaces")
    result = pytester.runpytest("-n2")
    said = result.stdout.str() + result.stderr.str()
    assert result.ret != pytest.ExitCode.OK
    assert _MISSING.splitlines()[0] in said
    assert "INTERNALERROR" not in said
    log = authorized()
    assert log.count("selfsubjectaccessreviews") == 28
    assert not any(line.startswith("POST /api/v1/namespaces") for line in log)


def test_given_namespace_needs_no_right_to_create_namespaces(
    pytester: pytest.Pytester, authorized: Callable[..., list[str]]
) -> None:
    authorized("create namespaces")
    pytester.runpytest("-k", "reader").assert_outcomes(passed=1, deselected=4)


def test_test_that_needs_a_namespace_reports_the_missing_right(
    pytester: pytest.Pytester, authorized: Callable[..., list[str]]
) -> None:
    authorized("create namespaces")
    result = pytester.runpytest("-k", "reader or late")
    result.assert_outcomes(passed=1, errors=1, deselected=3)
    assert _MISSING in result.stdout.str()


def test_missing_right_advises_a_given_namespace(
    pytester: pytest.Pytester, authorized: Callable[..., list[str]]
) -> None:
    authorized("create namespaces,delete namespaces")
    result = pytester.runpytest("-k", "reader or late", "--kwait-namespace=team")
    # The fake has no such namespace; nobody missed the right to make one.
    said = result.stdout.str()
    assert "is not in the cluster: create it" in said
    assert "create namespaces" not in said


@_WORKERS
def test_optional_rights_are_reported_once_at_the_end(
    pytester: pytest.Pytester, authorized: Callable[..., list[str]], workers: list[str]
) -> None:
    authorized("list events,watch nodes")
    result = pytester.runpytest("-k", "0 or 1 or 2", *workers)
    assert result.parseoutcomes()["passed"] == 3
    lines = result.stdout.str().splitlines()
    start = lines.index(
        "kwait: user 'ci' may not do on kubeconfig /fake/kubeconfig what runs go on without:"
    )
    assert lines[start + 1 : start + 3] == [
        "  list events in every namespace: failures are told without them",
        "  watch nodes: not awaited before the first test",
    ]
    assert sum("what runs go on without" in line for line in lines) == 1


@_WORKERS
def test_rights_are_reviewed_once(
    pytester: pytest.Pytester, authorized: Callable[..., list[str]], workers: list[str]
) -> None:
    authorized("delete namespaces")
    result = pytester.runpytest("-k", "0 or 1 or 2", *workers)
    assert result.parseoutcomes()["passed"] == 3
    assert authorized().count("selfsubjectaccessreviews") == 28


def test_embedded_cluster_is_not_reviewed(
    pytester: pytest.Pytester, authorized: Callable[..., list[str]]
) -> None:
    authorized("create namespaces", "embedded")
    assert pytester.runpytest("-k", "0 or 1 or 2").parseoutcomes()["passed"] == 3
    assert "selfsubjectaccessreviews" not in authorized()

from __future__ import annotations

import pytest

from tests.plugin.test_cluster_providers import _CLUSTERS, _HOOK

_OPTIONS = (
    "-p", "lab_plugin", "--kwait-cluster=lab", "--kwait-clusters=b=lab --node-image=b:1",
    "--kwait-clusters=c=lab", "--kwait-no-session-waits",
)  # fmt: skip


@pytest.fixture
def lab(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite with a plugin that has a provider `lab`."""
    pytester.makepyfile(lab_plugin=f"{_CLUSTERS}\ndef {_HOOK}():\n    return {{'lab': Provider}}\n")
    pytester.syspathinsert()
    return pytester


def test_the_header_names_further_clusters(lab: pytest.Pytester) -> None:
    lab.makepyfile(test_it="def test_it():\n    pass\n")
    result = lab.runpytest(*_OPTIONS)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["kwait: further clusters, started when a test asks: b (lab), c (lab)"]
    )


def test_each_is_started_once_when_a_test_asks(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        test_it="""
        import pytest

        CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}

        @pytest.mark.parametrize("number", range(2))
        def test_it(kwait, kwait_factory, number):
            with kwait_factory("peer", cluster="b") as peer, kwait_factory("home") as home:
                assert home.cluster is kwait.cluster is not peer.cluster
                peer.create(CONFIG)
                assert [each["metadata"]["name"] for each in peer.list("configmaps")] == [
                    "a", "kube-root-ca.crt",
                ]
                assert len(home.list("configmaps")) == len(kwait.list("configmaps")) == 1
                with kwait_factory("same", cluster=peer.cluster) as same:
                    assert same.cluster is peer.cluster
                with kwait_factory("own", cluster=kwait.cluster) as own:
                    assert own.client is kwait.client
        """
    )
    result = lab.runpytest("-s", *_OPTIONS)
    result.assert_outcomes(passed=2)
    shown = result.stdout.str()
    # `c` was not asked for.
    assert shown.count("node image b:1 option --kwait-clusters, cluster b") == 1
    assert shown.count("node image None None") == 1
    assert shown.count("stopped") == 2


def test_a_failure_names_the_cluster(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        test_it="""
        def test_it(kwait_factory):
            with kwait_factory("peer", cluster="b") as peer:
                peer.create_namespace("further").wait_for(
                    "configmap/a", "create", timeout=0.01, mode="poll"
                )
        """
    )
    result = lab.runpytest(
        *_OPTIONS, "--kwait-artifacts=art", "--kwait-report=r.md", "--junitxml=junit.xml"
    )
    result.assert_outcomes(failed=1)
    assert '<property name="kwait_cluster" value="lab b"' in (lab.path / "junit.xml").read_text()
    result.stdout.fnmatch_lines(["E  *the wait was on cluster b"])
    for path in ("art/failures.md", "r.md"):
        text = (lab.path / path).read_text()
        assert "- cluster: `lab b`\n- namespace: `t-further-peer-" in text


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("'d'", "cluster='d' is not valid: the clusters are b, c; kwait_clusters names further"),
        ("''", "cluster='' is not valid: use the name of a further cluster, or a Cluster"),
        ("7", "cluster=7 is not valid: use the name of a further cluster, or a Cluster"),
    ],
)
def test_an_unknown_cluster_is_refused(lab: pytest.Pytester, cluster: str, message: str) -> None:
    lab.makepyfile(
        test_it=f"""
        def test_it(kwait_factory):
            with kwait_factory("peer", cluster={cluster}):
                pass
        """
    )
    result = lab.runpytest(*_OPTIONS)
    result.assert_outcomes(failed=1)
    assert message in result.stdout.str()


def test_without_further_clusters_there_are_none(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        test_it="""
        def test_it(kwait_factory):
            with kwait_factory("peer", cluster="b"):
                pass
        """
    )
    result = lab.runpytest(*_OPTIONS[:3], "--kwait-no-session-waits")
    assert (
        "cluster='b' is not valid: there are none; kwait_clusters names further ones"
        in result.stdout.str()
    )


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 reads [tool.pytest]")
def test_a_table_of_the_configuration_file(lab: pytest.Pytester) -> None:
    lab.makepyprojecttoml(
        """
        [tool.pytest.kwait_clusters]
        b = "lab --node-image=toml:1"
        """
    )
    lab.makepyfile(
        test_it="""
        def test_it(kwait_factory):
            with kwait_factory("peer", cluster="b") as peer:
                assert peer.list("pods") == []
        """
    )
    result = lab.runpytest("-s", *_OPTIONS[:3], "--kwait-no-session-waits")
    result.assert_outcomes(passed=1)
    assert "node image toml:1 ini kwait_clusters, cluster b" in result.stdout.str()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "b=labb",
            "cluster='labb' (from option --kwait-clusters, cluster b) is not valid: did you mean "
            "lab? use auto, existing, embedded, binaries, kind, k3d, minikube, lab",
        ),
        (
            "b=embedded --timing=slow",
            "timing='slow' (from option --kwait-clusters, cluster b) is not valid: use fast or "
            "real",
        ),
        (
            "b",
            "clusters='b' (from option --kwait-clusters) is not valid: use NAME = PROVIDER "
            "[OPTIONS], for example 'b = kind --node-image=kindest/node:v1.35.0'",
        ),
    ],
)
def test_a_declaration_that_cannot_be_used_ends_the_run(
    lab: pytest.Pytester, given: str, message: str
) -> None:
    lab.makepyfile(test_it="def test_it():\n    pass\n")
    result = lab.runpytest("-p", "lab_plugin", f"--kwait-clusters={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.stderr.str()

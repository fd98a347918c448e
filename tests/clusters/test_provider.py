from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kwait.client.session import ApiSession
from pytest_kwait.clusters import PROVIDERS, choose_provider, connect
from pytest_kwait.clusters.cluster import Cluster, ClusterRequest
from pytest_kwait.clusters.node_table import NodeTable, RequestedNodes
from pytest_kwait.clusters.provider import EmbeddedProvider
from pytest_kwait.errors import ClusterError, InvalidArgument
from pytest_kwait.simulator.protocol.nodes import EmbeddedNode
from pytest_kwait.simulator.runtimes.processes import runtime
from pytest_kwait.simulator.runtimes.processes.runtime import Isolation
from tests.clusters.kubeconfigs import contents, written


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


@pytest.fixture
def let_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Skip the check of every server; return the checked URLs."""
    asked: list[str] = []
    monkeypatch.setattr(Cluster, "check", lambda self: asked.append(self.server))
    return asked


def test_auto_ignores_default_kubeconfigs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(home / ".kube/config", contents("a"))
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert choose_provider().name == "embedded"
    assert choose_provider("auto").name == "embedded"


def test_auto_is_existing_where_a_kubeconfig_is_given(home: Path, let_in: list[str]) -> None:
    file = written(home / "mine", contents("a"))
    provider = choose_provider("auto", ClusterRequest(file))
    assert provider.name == "existing"
    assert let_in == [], "nobody is asked before the start"
    cluster = provider.start()
    assert (cluster.provider, cluster.kubeconfig, cluster.context) == ("existing", file, None)
    assert let_in == ["https://a.example:6443"]


def test_auto_is_existing_where_a_context_is_given(home: Path, let_in: list[str]) -> None:
    file = written(home / ".kube/config", contents("a", "b"))
    cluster = choose_provider("auto", ClusterRequest(context="b")).start()
    assert (cluster.kubeconfig, cluster.context) == (file, "b")


def test_a_bad_kubeconfig_is_refused_before_anything_is_started(home: Path) -> None:
    missing = home / "nowhere"
    with pytest.raises(ClusterError) as caught:
        choose_provider(
            "auto", ClusterRequest(missing, sources={"kubeconfig": "env KWAIT_KUBECONFIG"})
        )
    assert str(caught.value) == f"kubeconfig {missing} (from env KWAIT_KUBECONFIG) does not exist"


def test_a_bad_context_is_refused_with_its_source(home: Path) -> None:
    file = written(home / "mine", contents("a"))
    with pytest.raises(ClusterError) as caught:
        choose_provider(
            "existing", ClusterRequest(file, "b", sources={"context": "ini kwait_context"})
        )
    assert str(caught.value) == (
        f"context 'b' (from ini kwait_context) is not in kubeconfig {file}; it has a"
    )


def test_every_provider_can_be_named() -> None:
    assert list(PROVIDERS) == ["existing", "embedded", "binaries", "kind", "k3d", "minikube"]
    assert choose_provider("embedded").name == "embedded"


@pytest.mark.parametrize(
    ("name", "hint"), [("embeded", "did you mean embedded? "), ("rancher", ""), ("", "")]
)
def test_unknown_provider_error_lists_providers(name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        choose_provider(name, ClusterRequest(sources={"cluster": "option --kwait-cluster"}))
    assert str(caught.value) == (
        f"cluster={name!r} (from option --kwait-cluster) is not valid: "
        f"{hint}use auto, existing, embedded, binaries, kind, k3d, minikube"
    )


def test_embedded_refuses_kubeconfig_and_context() -> None:
    why = "the embedded cluster brings its own; use --kwait-cluster=existing with it"
    with pytest.raises(InvalidArgument) as caught:
        choose_provider(
            "embedded",
            ClusterRequest(Path("/a"), sources={"kubeconfig": "option --kwait-kubeconfig"}),
        )
    assert str(caught.value) == (
        f"kubeconfig='/a' (from option --kwait-kubeconfig) is not valid: {why}"
    )
    with pytest.raises(InvalidArgument) as caught:
        choose_provider("embedded", ClusterRequest(context="a"))
    assert str(caught.value) == f"context='a' is not valid: {why}"


def test_existing_refuses_timing(home: Path) -> None:
    file = written(home / "mine", contents("a"))
    real = {"timing": "ini kwait_timing"}
    assert choose_provider("embedded", ClusterRequest(timing="real", sources=real)).name
    assert choose_provider("auto", ClusterRequest(file, timing="real", sources=real)).name
    assert choose_provider("auto", ClusterRequest(file)).name == "existing", (
        "the default asks for nothing"
    )
    with pytest.raises(InvalidArgument) as caught:
        choose_provider("auto", ClusterRequest(file, sources={"timing": "option --kwait-timing"}))
    assert str(caught.value) == (
        "timing='fast' (from option --kwait-timing) is not valid: an existing cluster has its own "
        "time; leave it out, or use the embedded one"
    )


def test_an_api_server_alone_is_an_embedded_cluster(home: Path) -> None:
    file = written(home / "mine", contents("a"))
    sources = {"api_only": "option --kwait-api-only"}
    provider = choose_provider("auto", ClusterRequest(api_only=True, sources=sources))
    assert provider.name == "embedded"
    assert choose_provider("auto", ClusterRequest(file, api_only=False, sources=sources)).name
    with pytest.raises(InvalidArgument) as caught:
        choose_provider("auto", ClusterRequest(file, api_only=True, sources=sources))
    assert str(caught.value) == (
        "api_only=True (from option --kwait-api-only) is not valid: an existing cluster has its "
        "components; leave it out, or use the embedded one"
    )


@pytest.mark.parametrize(
    ("isolation", "addresses", "why"),
    [
        (
            runtime.IsolationRefusedError("no user namespaces"),
            "",
            "this machine refuses it (no user namespaces); use auto or none",
        ),
        (
            runtime.IsolationRefusedError("no user namespaces"),
            "/run/addresses",
            "this machine refuses it (no user namespaces); use auto, intercepted or none",
        ),
        (OSError("the launcher ended"), "", "no program can be run here: the launcher ended"),
        (Isolation(True, True, "none", "none", True), "", ""),
    ],
)
def test_an_isolation_that_the_machine_refuses(
    monkeypatch: pytest.MonkeyPatch, isolation: Isolation | OSError, addresses: str, why: str
) -> None:
    async def detect(requested: str) -> Isolation:
        if requested == "auto":
            return Isolation(False, False, "none", "none", True, addresses=addresses)
        assert requested == "namespaces"
        if isinstance(isolation, OSError):
            raise isolation
        return isolation

    monkeypatch.setattr(runtime, "detect_isolation", detect)
    sources = {"isolation": "env KWAIT_ISOLATION"}
    request = ClusterRequest(isolation="namespaces", sources=sources)
    if not why:
        assert choose_provider("embedded", request).name == "embedded"
        return
    with pytest.raises(InvalidArgument) as caught:
        choose_provider("embedded", request)
    text = f"isolation='namespaces' (from env KWAIT_ISOLATION) is not valid: {why}"
    assert str(caught.value) == text


def test_isolation_is_of_the_embedded_cluster(home: Path) -> None:
    file = written(home / "mine", contents("a"))
    request = ClusterRequest(
        file, isolation="none", sources={"isolation": "option --kwait-isolation"}
    )
    with pytest.raises(InvalidArgument) as caught:
        choose_provider("auto", request)
    assert str(caught.value) == (
        "isolation='none' (from option --kwait-isolation) is not valid: cluster existing has no "
        "use for it, only embedded"
    )


_TABLE = NodeTable((EmbeddedNode("a"), EmbeddedNode("b")))


@pytest.mark.parametrize(
    ("cluster", "nodes", "more", "why"),
    [
        ("kind", 3, {}, "nodes=3 {}cluster kind has no use for it, only embedded, binaries"),
        (
            "kind",
            _TABLE,
            {},
            "nodes='a, b' {}cluster kind has no use for it, only embedded, binaries",
        ),
        (
            "embedded",
            _TABLE,
            {"api_only": True},
            "nodes='a, b' {}with --kwait-api-only there are none; leave one of both out",
        ),
        ("binaries", 3, {}, "nodes=3 {}there are none without --kwait-controllers"),
    ],
)
def test_nodes_are_refused_where_there_are_none_of_ours(
    cluster: str, nodes: RequestedNodes, more: dict[str, bool], why: str
) -> None:
    sources = {"nodes": "option --kwait-nodes"}
    with pytest.raises(InvalidArgument) as caught:
        choose_provider(cluster, ClusterRequest(nodes=nodes, sources=sources, **more))  # type: ignore[arg-type]
    assert str(caught.value) == why.format("(from option --kwait-nodes) is not valid: ")


def test_nodes_of_environment_and_ini_serve_several_providers() -> None:
    sources = {"nodes": "ini kwait_nodes"}
    request = ClusterRequest(nodes=_TABLE, api_only=True, sources=sources)
    assert choose_provider("embedded", request).name == "embedded"
    assert choose_provider("kind", ClusterRequest(nodes=_TABLE, sources=sources)).name == "kind"


@pytest.mark.parametrize(
    ("cluster", "api_only", "why"),
    [
        ("kind", False, "cluster kind has no use for it, only embedded"),
        ("embedded", True, "with --kwait-api-only there are none; leave one of both out"),
    ],
)
def test_load_balancers_are_refused_where_no_controller_of_ours_makes_them(
    cluster: str, api_only: bool, why: str
) -> None:
    sources = {"load_balancers": "option --kwait-load-balancers"}
    request = ClusterRequest(load_balancers=True, api_only=api_only, sources=sources)
    with pytest.raises(InvalidArgument) as caught:
        choose_provider(cluster, request)
    option = "load_balancers=True (from option --kwait-load-balancers)"
    assert str(caught.value) == f"{option} is not valid: {why}"


def test_options_of_other_providers_are_refused_on_the_command_line_alone() -> None:
    request = ClusterRequest(node_image="a:1", sources={"node_image": "option --kwait-node-image"})
    with pytest.raises(InvalidArgument) as caught:
        choose_provider("embedded", request)
    assert str(caught.value) == (
        "node_image='a:1' (from option --kwait-node-image) is not valid: cluster embedded has no "
        "use for it, only kind, k3d, minikube"
    )
    in_ini = ClusterRequest(node_image="a:1", sources={"node_image": "ini kwait_node_image"})
    assert choose_provider("embedded", in_ini).name == "embedded"
    assert choose_provider("kind", request).name == "kind"


def test_providers_of_plugins_can_be_named() -> None:
    theirs = EmbeddedProvider()
    providers = {**PROVIDERS, "ours": lambda _request: theirs}
    assert choose_provider("ours", ClusterRequest(), providers) is theirs
    with pytest.raises(InvalidArgument, match=r"use auto, .*, minikube, ours$"):
        choose_provider("theirs", ClusterRequest(), providers)


def test_connect_returns_a_started_cluster(home: Path, let_in: list[str]) -> None:
    file = written(home / "theirs", contents("a"))
    cluster = connect(str(file), provider="embedded", time_scale=0.1, has_controllers=False)
    assert (cluster.provider, cluster.time_scale) == ("embedded", 0.1)
    assert not cluster.has_controllers
    assert (cluster.kubeconfig, cluster.context) == (file, None)
    assert ApiSession.of(cluster.client()).time_scale == 0.1
    assert let_in == ["https://a.example:6443"]
    cluster.stop()
    assert file.exists(), "it is not ours to end"


def test_connect_to_an_ended_cluster_is_an_error(home: Path) -> None:
    with pytest.raises(ClusterError, match=r"kubeconfig .*/gone does not exist$"):
        connect(home / "gone")

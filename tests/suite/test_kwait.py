from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from kubernetes.client import V1ObjectMeta, V1Pod

from pytest_kwait.client.responses import Response
from pytest_kwait.client.session import TimeBudget
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument
from pytest_kwait.suite.bound_wait import WaitDefaults
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.config.values import PodSecurityLevel
from pytest_kwait.suite.informers import Informers
from pytest_kwait.suite.kwait import (
    Kwait,
    NamespaceRequest,
    _attach_order,
    _logging_order,
    parse_namespace_request,
)
from pytest_kwait.suite.manifests import InvalidManifest
from tests.clusters.kubeconfigs import contents, written
from tests.objects import condition, config_map, node, pod
from tests.suite.fakes import FakeCluster, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_kwait.clusters.cluster import Cluster

_PREFIX = "/api/v1/namespaces/ci-1"
_SETTINGS = Settings().merged({"mode": "poll", "poll": 0.01}, lambda _: "option")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def transport(cluster: FakeCluster) -> FakeTransport:
    return cluster.transport


def make_kwait(cluster: FakeCluster, folder: Path, *, owned: bool, **changes: Any) -> Kwait:
    client = cluster.client()
    defaults = WaitDefaults(client, "ci-1", _SETTINGS, _SETTINGS.timeouts(), **changes)
    return Kwait(
        cast("Cluster", cluster),
        client,
        "ci-1",
        owner=Owner("r1", "tests/test_x.py::test_y", "test_y"),
        defaults=lambda: defaults,
        folders=lambda: [folder],
        owned=owned,
    )


@pytest.fixture
def kwait(cluster: FakeCluster, tmp_path: Path) -> Iterator[Kwait]:
    made = make_kwait(cluster, tmp_path, owned=True)
    yield made
    made.close()


def test_repr_and_properties(kwait: Kwait, cluster: FakeCluster) -> None:
    assert repr(kwait) == "<Kwait ci-1 on fake>"
    assert (kwait.namespace, kwait.settings.mode) == ("ci-1", "poll")
    assert kwait.cluster is cast("Cluster", cluster)
    assert kwait.timeouts["job"] == 900.0


def test_apply_puts_objects_into_the_namespace(
    kwait: Kwait, transport: FakeTransport, tmp_path: Path
) -> None:
    (tmp_path / "one.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")
    first, second = kwait.apply("one.yaml", config_map("two"))
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("one", "two")
    assert set(transport.objects) == {f"{_PREFIX}/configmaps/one", f"{_PREFIX}/configmaps/two"}
    assert "labels" not in first["metadata"]


def test_create_takes_generated_names_and_apply_does_not(kwait: Kwait) -> None:
    nameless = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}}
    (created,) = kwait.create(nameless)
    assert created["metadata"]["name"].startswith("web-")
    with pytest.raises(InvalidManifest) as caught:
        kwait.apply(nameless)
    assert str(caught.value) == "manifest 1: apply needs metadata.name; create does not"


def test_create_of_an_existing_object_fails_with_its_name(kwait: Kwait) -> None:
    kwait.create(config_map("one"))
    with pytest.raises(ApiError, match="AlreadyExists") as caught:
        kwait.create(config_map("zero"), config_map("one"))
    assert caught.value.__notes__ == ["configmap/one of manifest 2"]


def test_unknown_kind_error_names_source_and_similar_kinds(kwait: Kwait, tmp_path: Path) -> None:
    text = "---\napiVersion: v1\nkind: ConfigMpa\nmetadata: {name: one}\n"
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InvalidManifest) as caught:
        kwait.apply("x.yaml")
    assert str(caught.value) == (
        "x.yaml, document 1, line 2: kind='ConfigMpa' is not valid: the server has no such kind in "
        "v1; near: configmaps (v1)"
    )


def test_objects_elsewhere_are_labelled_and_deleted_in_reverse_order(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    transport = cluster.transport
    kwait = make_kwait(cluster, tmp_path, owned=True)
    kwait.apply(config_map("here"), node("node-9"))
    kwait.create(config_map("there", namespace="other", labels={"app": "x"}))
    labels = transport.objects["/api/v1/namespaces/other/configmaps/there"]["metadata"]["labels"]
    assert set(labels) == {"app", "pytest-kwait/run", "pytest-kwait/owner"}
    notes = transport.objects["/api/v1/nodes/node-9"]["metadata"]["annotations"]
    assert notes["pytest-kwait/test"] == "tests/test_x.py::test_y"
    transport.requests.clear()
    assert kwait.close() == []
    assert transport.requests == [
        "DELETE /api/v1/namespaces/other/configmaps/there",
        "DELETE /api/v1/nodes/node-9",
    ]
    assert set(transport.objects) == {f"{_PREFIX}/configmaps/here"}


def test_existing_objects_are_kept_and_unlabelled(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.transport.objects["/api/v1/nodes/old"] = {"metadata": {"name": "old", "uid": "u"}}
    kwait = make_kwait(cluster, tmp_path, owned=True)
    kwait.apply(node("old"))
    kwait.close()
    assert "labels" not in cluster.transport.objects["/api/v1/nodes/old"]["metadata"]


def test_objects_in_a_foreign_namespace_are_deleted(cluster: FakeCluster, tmp_path: Path) -> None:
    kwait = make_kwait(cluster, tmp_path, owned=False)
    kwait.apply(config_map("mine"))
    assert f"{_PREFIX}/configmaps/mine" in cluster.transport.objects
    kwait.close()
    assert cluster.transport.objects == {}


def test_kept_objects_are_not_deleted(cluster: FakeCluster, tmp_path: Path) -> None:
    kwait = make_kwait(cluster, tmp_path, owned=True)
    kwait.apply(node("node-9"))
    assert kwait.close(keep=True) == []
    assert "/api/v1/nodes/node-9" in cluster.transport.objects


def test_failed_deletions_are_reported(cluster: FakeCluster, tmp_path: Path) -> None:
    kwait = make_kwait(cluster, tmp_path, owned=True)
    kwait.apply(node("node-8"), node("node-9"))
    error = ApiError("no", status=403, reason="Forbidden", method="DELETE", path="/x")
    cluster.transport.refuse("DELETE", "/api/v1/nodes/node-9", error)
    assert kwait.close() == ["node/node-9: DELETE /x: 403 Forbidden: no"]
    assert "/api/v1/nodes/node-8" not in cluster.transport.objects


def test_get_list_and_delete(kwait: Kwait, transport: FakeTransport) -> None:
    kwait.apply(config_map("one"), config_map("two"))
    assert kwait.get("cm/one")["metadata"]["uid"] == "uid-1"
    assert [each["metadata"]["name"] for each in kwait.list("configmaps")] == ["one", "two"]
    assert kwait.list("configmap")[0]["kind"] == "ConfigMap"
    kwait.delete("ConfigMap/one")
    assert set(transport.objects) == {f"{_PREFIX}/configmaps/two"}
    with pytest.raises(ApiError, match="404 NotFound"):
        kwait.get("cm/one")
    assert kwait.list("cm", namespace="other") == []


def test_transient_errors_are_retried(kwait: Kwait, transport: FakeTransport) -> None:
    kwait.apply(config_map("one"))
    busy = ApiError("busy", status=503, reason="ServiceUnavailable")
    transport.refuse("GET", f"{_PREFIX}/configmaps/one", busy)
    assert kwait.get("cm/one")["metadata"]["name"] == "one"


@pytest.mark.parametrize("target", ["cm", "cm/", "/one", "cm/one/two", ""])
def test_targets_have_kind_and_name(kwait: Kwait, target: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kwait.get(target)
    assert str(caught.value) == (
        f"target={target!r} is not valid: use kind/name, for example 'job/pi'"
    )


def test_invalid_propagation_is_refused(kwait: Kwait) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kwait.delete("cm/one", propagation="foreground")  # type: ignore[arg-type] # what is tested
    assert str(caught.value) == (
        "propagation='foreground' is not valid: use Background, Foreground or Orphan"
    )


def test_logs_of_other_kinds_are_refused(kwait: Kwait, transport: FakeTransport) -> None:
    transport.objects[f"{_PREFIX}/pods/web/log"] = {"line": 1}
    assert kwait.logs("web") == kwait.logs("pod/web") == '{"line": 1}'
    assert kwait.logs({"kind": "Pod", "metadata": {"name": "web"}}) == '{"line": 1}'
    assert kwait.logs(V1Pod(metadata=V1ObjectMeta(name="web"))) == '{"line": 1}'
    with pytest.raises(InvalidArgument) as caught:
        kwait.logs("cm/web")
    assert str(caught.value) == (
        "target='cm/web' is not valid: use the name of a pod, 'pod/name', or what selects pods: "
        "'deployment/web'"
    )


def _web_pod(name: str, phase: str, ready: str = "", restarts: int = 0) -> dict[str, Any]:
    conditions = [condition("Ready", lastTransitionTime=ready)] if ready else []
    statuses = [{"restartCount": restarts}]
    labels = {"app": "web"}
    return pod(name, phase, labels=labels, conditions=conditions, containerStatuses=statuses)


@pytest.mark.parametrize(
    ("pods", "selected"),
    [
        ([_web_pod("a", "Pending"), _web_pod("b", "Running")], "b"),
        ([_web_pod("a", "Running"), _web_pod("b", "Running", "2026-01-01T00:00:00Z")], "b"),
        (
            [
                _web_pod("a", "Running", "2026-01-02T00:00:00Z"),
                _web_pod("b", "Running", "2026-01-01T00:00:00Z"),
            ],
            "b",
        ),
        ([_web_pod("a", "Running"), _web_pod("b", "Running", restarts=2)], "b"),
        ([_web_pod("a", "Running"), _web_pod("b", "Running")], "a"),
    ],
    ids=["Running", "ready", "ready for longer", "restarted", "by name"],
)
@pytest.mark.parametrize("target", ["deployment/web", "svc/web"])
def test_logs_of_a_controller_are_those_of_the_pod_that_kubectl_selects(
    kwait: Kwait,
    transport: FakeTransport,
    pods: list[dict[str, Any]],
    selected: str,
    target: str,
) -> None:
    service, deployment = {"app": "web"}, {"matchLabels": {"app": "web"}}
    for kind, version, selector in (
        ("Service", "v1", service),
        ("Deployment", "apps/v1", deployment),
    ):
        made = {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}}
        kwait.create({**made, "spec": {"selector": selector}})
    for web in pods:
        kwait.create(web)
        name = web["metadata"]["name"]
        transport.objects[f"{_PREFIX}/pods/{name}/log"] = {"log of": name}
    assert kwait.logs(target) == f'{{"log of": "{selected}"}}'


def test_logs_of_a_controller_without_pods(kwait: Kwait) -> None:
    selector = {"matchLabels": {"app": "web"}}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    kwait.create({**made, "spec": {"selector": selector}})
    with pytest.raises(ApiError) as caught:
        kwait.logs("deployment/web")
    assert str(caught.value) == "404 NotFound: deployment/web in ci-1 has no pods"


def test_exec_needs_a_command(kwait: Kwait) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kwait.exec("web")
    assert str(caught.value) == "command=() is not valid: name a program, for example 'true'"


def test_port_forward_needs_a_running_pod(kwait: Kwait) -> None:
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}})
    with pytest.raises(ApiError, match="only to one that runs"):
        kwait.port_forward("pod/web", 80)


def add_web(kwait: Kwait, *ports: dict[str, Any]) -> None:
    """Add a service and its running pod."""
    kwait.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
         "spec": {"selector": {"app": "web"}, "ports": list(ports)}},
        {"apiVersion": "v1", "kind": "Pod",
         "metadata": {"name": "web-1", "labels": {"app": "web"}},
         "spec": {"containers": [{"name": "main", "ports": [
             {"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090},
         ]}]},
         "status": {"phase": "Running"}},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "port", "forwarded"),
    [
        ("service/web", None, 8080),
        ("service/web", 80, 8080),
        ("service/web", "http", 8080),
        ("pod/web-1", 9090, 9090),
        ("web-1", "metrics", 9090),
    ],
)
def test_url_leads_to_the_port_of_a_pod(
    kwait: Kwait,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    port: int | str | None,
    forwarded: int,
) -> None:
    add_web(kwait, {"name": "http", "port": 80, "targetPort": "http"})
    calls: list[tuple[str, int]] = []

    def forward(pod: str, number: int, **_: Any) -> SimpleNamespace:
        calls.append((pod, number))
        return SimpleNamespace(port=40_001)

    monkeypatch.setattr(kwait, "port_forward", forward)
    found = kwait.url(target, port, path="/a?b=c", scheme="https")
    assert found == "https://127.0.0.1:40001/a?b=c"
    assert calls == [("web-1", forwarded)]


@pytest.mark.parametrize(
    ("target", "port", "forwarded"),
    [("service/web", 80, 8080), ("service/web", "http", 8080), ("pod/web-1", 9999, 9999)],
)
def test_a_forwarded_port_of_a_service_is_its_target_port(
    kwait: Kwait, monkeypatch: pytest.MonkeyPatch, target: str, port: int | str, forwarded: int
) -> None:
    add_web(kwait, {"name": "http", "port": 80, "targetPort": "http"})
    calls: list[tuple[str, int]] = []

    def forward(_namespace: str, pod: str, number: int, **_: Any) -> AbstractContextManager[None]:
        calls.append((pod, number))
        return nullcontext()

    monkeypatch.setattr(kwait._session, "port_forward", forward)
    kwait.port_forward(kwait.get(target), port)
    kwait.port_forward(target, port)
    assert calls == [("web-1", forwarded)] * 2


@pytest.mark.parametrize(
    ("target", "port", "text"),
    [
        (
            "service/web",
            None,
            "port=None is not valid: one of the ports of service/web: 80 (http), 443 (https)",
        ),
        (
            "service/web",
            8080,
            "port=8080 is not valid: one of the ports of service/web: 80 (http), 443 (https)",
        ),
        (
            "web-1",
            None,
            "port=None is not valid: one of the ports of web-1: 8080 (http), 9090 (metrics)",
        ),
    ],
)
def test_url_needs_one_port(kwait: Kwait, target: str, port: int | None, text: str) -> None:
    add_web(kwait, {"name": "http", "port": 80}, {"name": "https", "port": 443})
    with pytest.raises(InvalidArgument) as caught:
        kwait.url(target, port)
    assert str(caught.value) == text


def test_events_are_sorted_by_time(kwait: Kwait, transport: FakeTransport) -> None:
    events: dict[str, dict[str, Any]] = {
        "b": {"lastTimestamp": "2026-01-01T00:00:02Z"},
        "a": {"eventTime": "2026-01-01T00:00:03.000000Z", "lastTimestamp": None},
        "c": {"lastTimestamp": None, "firstTimestamp": "2026-01-01T00:00:01Z"},
    }
    for name, times in events.items():
        transport.objects[f"{_PREFIX}/events/{name}"] = {"metadata": {"name": name}, **times}
    assert [event["metadata"]["name"] for event in kwait.events()] == ["c", "b", "a"]
    assert {event["kind"] for event in kwait.events("pod/web")} == {"Event"}


def test_wait_for_uses_namespace_and_settings(kwait: Kwait) -> None:
    kwait.apply(config_map("one"))
    assert kwait.wait_for("cm/one", "create")["metadata"]["name"] == "one"


def test_requests_end_before_the_test_timeout(cluster: FakeCluster, tmp_path: Path) -> None:
    kwait = make_kwait(
        cluster, tmp_path, owned=True, time_budget=lambda: TimeBudget(0.0, "the test")
    )
    assert 0.5 < kwait._deadline().remaining <= 1.0
    assert make_kwait(cluster, tmp_path, owned=True)._deadline().remaining > 290


def test_unstarted_informer_is_an_error(kwait: Kwait) -> None:
    assert len(kwait.informers) == 0
    with pytest.raises(KeyError, match="no informer of 'pods' was started; there is none"):
        kwait.informers["pods"]


def test_informers_stop_with_the_test(kwait: Kwait, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[Informers] = []
    monkeypatch.setattr(Informers, "stop", lambda self: stopped.append(self))
    informers = kwait.informers

    assert kwait.close() == []
    assert stopped == [informers]


_MAPPING = 'use a mapping of label names to texts, for example {"team": "a"}'


def test_further_namespace_options() -> None:
    labels = {
        "team": "a",
        "example.com/Tier_1.x": "",
        "pod-security.kubernetes.io/warn": "baseline",
    }
    assert parse_namespace_request("peer", labels, "restricted:latest") == NamespaceRequest(
        "peer", labels, PodSecurityLevel("restricted", "latest")
    )
    assert parse_namespace_request("peer", None, None) == NamespaceRequest("peer", {}, None)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a=b"], f"labels=['a=b'] is not valid: {_MAPPING}"),
        ({"a b": "c"}, f"labels='a b' is not valid: not a label key; {_MAPPING}"),
        ({"x/": "c"}, f"labels='x/' is not valid: not a label key; {_MAPPING}"),
        ({1: "c"}, f"labels=1 is not valid: not a label key; {_MAPPING}"),
        ({"a": 1}, f"labels a=1 is not valid: not a label value; {_MAPPING}"),
        ({"a": "-b"}, f"labels a='-b' is not valid: not a label value; {_MAPPING}"),
        (
            {"pytest-kwait/run": "x"},
            "labels='pytest-kwait/run' is not valid: it says whose the namespace is; use another "
            "name",
        ),
    ],
)
def test_invalid_labels_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_namespace_request("peer", labels, None)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["", "Peer", "a_b", "-a", "a" * 64, None, 3])
def test_invalid_names_are_refused(name: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_namespace_request(name, None, None)
    assert str(caught.value) == (
        f"name={name!r} is not valid: use up to 63 lower-case letters, digits and '-', with a "
        "letter or digit at both ends"
    )


def test_further_namespaces_need_owned_ones(tmp_path: Any) -> None:
    kwait = make_kwait(FakeCluster(), tmp_path, owned=False)
    with pytest.raises(ClusterError) as caught:
        kwait.create_namespace("peer")
    assert str(caught.value) == (
        "namespace 'peer' cannot be created: the test runs in the given namespace ci-1, and a "
        "run with a given namespace creates none"
    )


@pytest.mark.parametrize(
    ("pods", "logging", "attached"),
    [
        ([_web_pod("a", "Failed", restarts=1), _web_pod("b", "Running")], "a", "b"),
        ([_web_pod("a", "Running", restarts=1), _web_pod("b", "Running")], "a", "b"),
        ([_web_pod("a", "Pending"), _web_pod("b", "Unknown")], "b", "b"),
        ([_web_pod("a", "Running"), _web_pod("b", "Running", "2026-01-01T00:00:00Z", 3)], "b", "b"),
    ],
)
def test_pods_are_selected_for_logs_and_for_commands_as_kubectl_does(
    pods: list[dict[str, Any]], logging: str, attached: str
) -> None:
    assert min(pods, key=_logging_order)["metadata"]["name"] == logging
    assert min(pods, key=_attach_order)["metadata"]["name"] == attached


@pytest.mark.parametrize("name", ["", " ", 3])
def test_a_step_needs_a_name(kwait: Kwait, name: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kwait.step(name)

    assert str(caught.value) == (
        f"name={name!r} is not valid: use a phrase, for example 'create the shop'"
    )


def test_models_are_checked(kwait: Kwait, transport: FakeTransport) -> None:
    transport.objects[f"{_PREFIX}/configmaps/a"] = config_map("a")

    with pytest.raises(InvalidArgument) as caught:
        kwait.get("cm/a", as_model=int)

    assert str(caught.value) == (
        "as_model=<class 'int'> is not valid: use a model of the official client, for example V1Pod"
    )


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_a_patch_that_removes_all_labels_or_annotations_is_restored(
    kwait: Kwait, transport: FakeTransport, part: str
) -> None:
    path = "/api/v1/nodes/n1"
    metadata = {"name": "n1", "uid": "u1", "labels": {"zone": "a"}, "annotations": {"note": "b"}}
    transport.objects[path] = {"kind": "Node", "metadata": metadata}
    patched = kwait.patch("node/n1", {"metadata": {part: None}}, type="merge")
    assert "zone" not in patched["metadata"][part]
    assert "note" not in patched["metadata"][part]
    kwait.close()
    restored = transport.objects[path]["metadata"]
    assert (restored["labels"], restored["annotations"]) == ({"zone": "a"}, {"note": "b"})


@pytest.fixture
def tokens(
    cluster: FakeCluster, transport: FakeTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, Any]]:
    """Answer requests for tokens; return their paths and bodies."""
    cluster.kubeconfig = written(tmp_path / "config", contents("ours", "other"))
    requests: list[tuple[str, Any]] = []
    send = transport.send

    def answer(method: str, path: str, *, body: bytes | None = None, **options: Any) -> Any:
        if not path.endswith("/token"):
            return send(method, path, body=body, **options)
        requests.append((path, json.loads(body or b"null")))
        return Response(201, {}, json.dumps({"status": {"token": "secret-token"}}).encode())

    monkeypatch.setattr(transport, "send", answer)
    return requests


@pytest.mark.parametrize(
    "account",
    [
        "builder",
        "sa/builder",
        "serviceaccount/builder",
        {"kind": "ServiceAccount", "metadata": {"name": "builder"}},
    ],
)
def test_a_kubeconfig_has_the_token_of_a_service_account(
    kwait: Kwait, tokens: list[tuple[str, Any]], account: Any
) -> None:
    path = kwait.kubeconfig_for(account)
    target = read_kubeconfig(path)

    ((requested, body),) = tokens
    assert requested == f"{_PREFIX}/serviceaccounts/builder/token"
    assert body["spec"] == {"expirationSeconds": 86400}
    assert target.contexts == ("ours",)
    assert target.target().server == "https://ours.example:6443"
    assert target.contents["users"] == [{"name": "ours", "user": {"token": "secret-token"}}]
    assert target.contents["contexts"][0]["context"]["namespace"] == "ci-1"
    assert path.parent.stat().st_mode & 0o077 == 0
    kwait.close()
    assert not path.parent.exists()


def test_a_kubeconfig_is_of_the_given_context_and_namespace(
    kwait: Kwait, cluster: FakeCluster, tokens: list[tuple[str, Any]]
) -> None:
    cluster.context = "other"
    target = read_kubeconfig(kwait.kubeconfig_for("builder", namespace="peer"))

    assert tokens[0][0] == "/api/v1/namespaces/peer/serviceaccounts/builder/token"
    assert target.target().server == "https://other.example:6443"
    assert target.contents["contexts"][0]["context"]["namespace"] == "peer"


@pytest.mark.parametrize("account", ["Builder!", "pod/web"])
def test_a_kubeconfig_of_an_invalid_name_is_refused(
    kwait: Kwait, tokens: list[tuple[str, Any]], account: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        kwait.kubeconfig_for(account)
    assert str(refused.value) == (
        f"service_account={account!r} is not valid: use a DNS name: up to 253 lower-case letters, "
        "digits, '-' and '.', with a letter or digit at both ends of each part"
    )
    assert not tokens

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument
from pytest_kwait.suite.bound_wait import TimeBudget, WaitDefaults
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.config.parsers import PodSecurity
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.kwait import Kwait, NamespaceRequest, parse_namespace_request
from pytest_kwait.suite.manifests import InvalidManifest
from tests.suite.fakes import FakeCluster, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PREFIX = "/api/v1/namespaces/ci-1"
_SETTINGS = Settings().merged({"mode": "poll", "poll": 0.01}, lambda _: "option")


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def transport(cluster: FakeCluster) -> FakeTransport:
    return cluster.transport


def make_bench(cluster: FakeCluster, folder: Path, *, owned: bool, **changes: Any) -> Kwait:
    client = cluster.client()
    defaults = WaitDefaults(client, "ci-1", _SETTINGS, _SETTINGS.timeouts(), **changes)
    return Kwait(
        cluster,
        client,
        "ci-1",
        owner=Owner("r1", "tests/test_x.py::test_y", "test_y"),
        defaults=lambda: defaults,
        folders=lambda: [folder],
        owned=owned,
    )


@pytest.fixture
def bench(cluster: FakeCluster, tmp_path: Path) -> Iterator[Kwait]:
    made = make_bench(cluster, tmp_path, owned=True)
    yield made
    made.close()


def test_shows_where_it_is_and_what_is_in_force(bench: Kwait, cluster: FakeCluster) -> None:
    assert repr(bench) == "<Kwait ci-1 on fake>"
    assert (bench.namespace, bench.cluster, bench.settings.mode) == ("ci-1", cluster, "poll")
    assert bench.timeouts["job"] == 900.0


def test_apply_puts_objects_into_the_namespace(
    bench: Kwait, transport: FakeTransport, tmp_path: Path
) -> None:
    (tmp_path / "one.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")
    first, second = bench.apply("one.yaml", config_map("two"))
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("one", "two")
    assert set(transport.objects) == {f"{_PREFIX}/configmaps/one", f"{_PREFIX}/configmaps/two"}
    assert "labels" not in first["metadata"]


def test_create_takes_generated_names_and_apply_does_not(bench: Kwait) -> None:
    nameless = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}}
    (created,) = bench.create(nameless)
    assert created["metadata"]["name"].startswith("web-")
    with pytest.raises(InvalidManifest) as caught:
        bench.apply(nameless)
    assert str(caught.value) == "manifest 1: apply needs metadata.name; create does not"


def test_create_of_what_is_there_fails_and_says_which(bench: Kwait) -> None:
    bench.create(config_map("one"))
    with pytest.raises(ApiError, match="AlreadyExists") as caught:
        bench.create(config_map("zero"), config_map("one"))
    assert caught.value.__notes__ == ["configmap/one of manifest 2"]


def test_unknown_kind_names_place_and_near_kinds(bench: Kwait, tmp_path: Path) -> None:
    text = "---\napiVersion: v1\nkind: ConfigMpa\nmetadata: {name: one}\n"
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InvalidManifest) as caught:
        bench.apply("x.yaml")
    assert str(caught.value) == (
        "x.yaml, document 1, line 2: kind='ConfigMpa' is not valid: a kind that the server has in "
        "v1; near: configmaps (v1)"
    )


def test_objects_elsewhere_are_marked_and_deleted_last_made_first(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    transport = cluster.transport
    bench = make_bench(cluster, tmp_path, owned=True)
    bench.apply(config_map("here"), node("node-9"))
    bench.create(config_map("there", namespace="other", labels={"app": "x"}))
    labels = transport.objects["/api/v1/namespaces/other/configmaps/there"]["metadata"]["labels"]
    assert set(labels) == {"app", "pytest-kwait/run", "pytest-kwait/owner"}
    notes = transport.objects["/api/v1/nodes/node-9"]["metadata"]["annotations"]
    assert notes["pytest-kwait/test"] == "tests/test_x.py::test_y"
    transport.requests.clear()
    assert bench.close() == []
    assert transport.requests == [
        "DELETE /api/v1/namespaces/other/configmaps/there",
        "DELETE /api/v1/nodes/node-9",
    ]
    assert set(transport.objects) == {f"{_PREFIX}/configmaps/here"}


def test_what_was_there_before_stays_and_stays_unmarked(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.transport.objects["/api/v1/nodes/old"] = {"metadata": {"name": "old", "uid": "u"}}
    bench = make_bench(cluster, tmp_path, owned=True)
    bench.apply(node("old"))
    bench.close()
    assert "labels" not in cluster.transport.objects["/api/v1/nodes/old"]["metadata"]


def test_in_a_namespace_of_others_everything_is_deleted(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    bench = make_bench(cluster, tmp_path, owned=False)
    bench.apply(config_map("mine"))
    assert f"{_PREFIX}/configmaps/mine" in cluster.transport.objects
    bench.close()
    assert cluster.transport.objects == {}


def test_kept_belongings_stay(cluster: FakeCluster, tmp_path: Path) -> None:
    bench = make_bench(cluster, tmp_path, owned=True)
    bench.apply(node("node-9"))
    assert bench.close(keep=True) == []
    assert "/api/v1/nodes/node-9" in cluster.transport.objects


def test_what_could_not_be_deleted_is_told(cluster: FakeCluster, tmp_path: Path) -> None:
    bench = make_bench(cluster, tmp_path, owned=True)
    bench.apply(node("node-8"), node("node-9"))
    error = ApiError("no", status=403, reason="Forbidden", method="DELETE", path="/x")
    cluster.transport.refuse("DELETE", "/api/v1/nodes/node-9", error)
    assert bench.close() == ["node/node-9: DELETE /x: 403 Forbidden: no"]
    assert "/api/v1/nodes/node-8" not in cluster.transport.objects


def test_get_list_and_delete(bench: Kwait, transport: FakeTransport) -> None:
    bench.apply(config_map("one"), config_map("two"))
    assert bench.get("cm/one")["metadata"]["uid"] == "uid-1"
    assert [each["metadata"]["name"] for each in bench.list("configmaps")] == ["one", "two"]
    assert bench.list("configmap")[0]["kind"] == "ConfigMap"
    bench.delete("ConfigMap/one")
    assert set(transport.objects) == {f"{_PREFIX}/configmaps/two"}
    with pytest.raises(ApiError, match="404 NotFound"):
        bench.get("cm/one")
    assert bench.list("cm", namespace="other") == []


def test_passing_troubles_are_passed_over(bench: Kwait, transport: FakeTransport) -> None:
    bench.apply(config_map("one"))
    busy = ApiError("busy", status=503, reason="ServiceUnavailable")
    transport.refuse("GET", f"{_PREFIX}/configmaps/one", busy)
    assert bench.get("cm/one")["metadata"]["name"] == "one"


@pytest.mark.parametrize("target", ["cm", "cm/", "/one", "cm/one/two", ""])
def test_targets_are_kind_and_name(bench: Kwait, target: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        bench.get(target)
    assert str(caught.value) == (
        f"target={target!r} is not valid: use kind/name, for example 'job/pi'"
    )


def test_propagation_is_one_of_three(bench: Kwait) -> None:
    with pytest.raises(InvalidArgument) as caught:
        bench.delete("cm/one", propagation="foreground")  # type: ignore[arg-type] # what is tested
    assert str(caught.value) == (
        "propagation='foreground' is not valid: use Background, Foreground or Orphan"
    )


def test_logs_are_of_pods(bench: Kwait, transport: FakeTransport) -> None:
    transport.objects[f"{_PREFIX}/pods/web/log"] = {"line": 1}
    assert bench.logs("web") == bench.logs("pod/web") == '{"line": 1}'
    with pytest.raises(InvalidArgument) as caught:
        bench.logs("job/web")
    assert str(caught.value) == ("pod='job/web' is not valid: use the name of a pod, or 'pod/name'")


def test_exec_needs_a_command(bench: Kwait) -> None:
    with pytest.raises(InvalidArgument) as caught:
        bench.exec("web")
    assert str(caught.value) == "command=() is not valid: name a program, for example 'true'"


def test_forwarding_needs_a_pod_that_runs(bench: Kwait) -> None:
    bench.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}})
    with pytest.raises(ApiError, match="only to one that runs"):
        bench.port_forward("pod/web", 80)


def test_events_come_oldest_first(bench: Kwait, transport: FakeTransport) -> None:
    events: dict[str, dict[str, Any]] = {
        "b": {"lastTimestamp": "2026-01-01T00:00:02Z"},
        "a": {"eventTime": "2026-01-01T00:00:03.000000Z", "lastTimestamp": None},
        "c": {"lastTimestamp": None, "firstTimestamp": "2026-01-01T00:00:01Z"},
    }
    for name, times in events.items():
        transport.objects[f"{_PREFIX}/events/{name}"] = {"metadata": {"name": name}, **times}
    assert [event["metadata"]["name"] for event in bench.events()] == ["c", "b", "a"]
    assert {event["kind"] for event in bench.events("pod/web")} == {"Event"}


def test_wait_for_waits_on_this_bench(bench: Kwait) -> None:
    bench.apply(config_map("one"))
    assert bench.wait_for("cm/one", "create")["metadata"]["name"] == "one"


def test_requests_end_with_the_tests_own_limit(cluster: FakeCluster, tmp_path: Path) -> None:
    bench = make_bench(
        cluster, tmp_path, owned=True, time_budget=lambda: TimeBudget(0.0, "the test")
    )
    assert 0.5 < bench._deadline().remaining <= 1.0
    assert make_bench(cluster, tmp_path, owned=True)._deadline().remaining > 290


def test_an_informer_that_was_not_started_is_not_there(bench: Kwait) -> None:
    assert len(bench.informers) == 0
    with pytest.raises(KeyError, match="no informer of 'pods' was started; there is none"):
        bench.informers["pods"]


_MAPPING = 'use a mapping of label names to texts, for example {"team": "a"}'


def test_what_may_be_asked_for() -> None:
    labels = {
        "team": "a",
        "example.com/Tier_1.x": "",
        "pod-security.kubernetes.io/warn": "baseline",
    }
    assert parse_namespace_request("peer", labels, "restricted:latest") == NamespaceRequest(
        "peer", labels, PodSecurity("restricted", "latest")
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
def test_labels_that_cannot_be(labels: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_namespace_request("peer", labels, None)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["", "Peer", "a_b", "-a", "a" * 64, None, 3])
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_namespace_request(name, None, None)
    assert str(caught.value) == (
        f"name={name!r} is not valid: use up to 63 lower-case letters, digits and '-', with a "
        "letter or digit at both ends"
    )


def test_where_none_are_made_none_can_be(tmp_path: Any) -> None:
    bench = make_bench(FakeCluster(), tmp_path, owned=False)
    with pytest.raises(ClusterError) as caught:
        bench.create_namespace("peer")
    assert str(caught.value) == (
        "namespace 'peer' cannot be made: this bench is in ci-1, which was there before, and the "
        "run makes none"
    )

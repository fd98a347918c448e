from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.controllers.endpoint import build_subsets, find_pod_port
from pytest_kwait.simulator.controllers.endpointslice import plan_slices
from pytest_kwait.simulator.objects import owner_of
from tests.simulator.cluster import Cluster, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_SLICES = "endpointslices.discovery.k8s.io"
_TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
_PORT = {"name": "http", "port": 80, "targetPort": 8080}


def _add_service(cluster: Cluster, name: str = "web", **spec: Any) -> None:
    labels = {"team": "a"}
    chosen = {"selector": {"app": "web"}, "ports": [_PORT], **spec}
    cluster.create("services", name, chosen, labels=labels)


def _add_pod(cluster: Cluster, name: str, **spec: Any) -> None:
    cluster.create("pods", name, pod_spec("sleep", "99", **spec), labels={"app": "web"})


def _slice(cluster: Cluster) -> Obj:
    (found,) = cluster.every(_SLICES)
    return found


def _told(obj: Obj) -> list[tuple[str, bool, bool, bool]]:
    return [
        (
            one["targetRef"]["name"],
            one["conditions"]["ready"],
            one["conditions"]["serving"],
            one["conditions"]["terminating"],
        )
        for one in obj.get("endpoints") or ()
    ]


def test_service_without_pods_has_an_empty_slice(cluster: Cluster) -> None:
    _add_service(cluster)
    cluster.run(1)
    empty = _slice(cluster)
    assert (empty["endpoints"], empty["ports"]) == (None, None)
    assert empty["metadata"]["generateName"] == "web-"
    assert empty["metadata"]["labels"] == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert empty["metadata"]["annotations"] == {_TRIGGER: "2026-01-01T00:00:00Z"}
    owner = owner_of(empty)
    assert owner is not None
    assert (owner["kind"], owner["blockOwnerDeletion"]) == ("Service", True)
    _add_pod(cluster, "a")
    cluster.run(3)
    name = empty["metadata"]["name"]
    assert cluster.states(_SLICES, name, _told) == [
        [],
        [("a", True, True, False)],
    ]
    filled = _slice(cluster)
    assert filled["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    pod = cluster.get("pods", "a")
    assert filled["endpoints"] == [
        {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "targetRef": {
                "kind": "Pod",
                "namespace": "t",
                "name": "a",
                "uid": pod["metadata"]["uid"],
            },
            "nodeName": pod["spec"]["nodeName"],
        }
    ]


def test_terminating_pod_serves_until_deleted(cluster: Cluster) -> None:
    _add_service(cluster)
    _add_pod(cluster, "a")
    cluster.run(3)
    cluster.delete("pods", "a")
    cluster.run(1)
    assert _told(_slice(cluster)) == [("a", False, True, True)]
    assert cluster.get("endpoints", "web").get("subsets") in (None, [])
    cluster.run(40)
    assert _told(_slice(cluster)) == []


def test_unready_pod_is_listed_as_not_ready(cluster: Cluster) -> None:
    never = {"readinessProbe": {"exec": {"command": ["false"]}}}
    _add_service(cluster)
    _add_service(cluster, "always", publishNotReadyAddresses=True)
    _add_pod(cluster, "a", container=never)
    cluster.run(3)
    ready = {
        one["metadata"]["labels"]["kubernetes.io/service-name"]: _told(one)
        for one in cluster.every(_SLICES)
    }
    assert ready == {"web": [("a", False, False, False)], "always": [("a", True, False, False)]}
    (subset,) = cluster.get("endpoints", "web")["subsets"]
    assert "addresses" not in subset
    assert subset["notReadyAddresses"][0]["targetRef"]["name"] == "a"
    (subset,) = cluster.get("endpoints", "always")["subsets"]
    assert subset["addresses"][0]["targetRef"]["name"] == "a"


def test_endpoints_match_slices_and_are_deleted_with_service(cluster: Cluster) -> None:
    _add_service(cluster)
    _add_pod(cluster, "a")
    cluster.run(3)
    pod, endpoints = cluster.get("pods", "a"), cluster.get("endpoints", "web")
    assert endpoints["metadata"]["labels"] == {
        "team": "a",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    }
    assert endpoints["metadata"]["annotations"] == {_TRIGGER: "2026-01-01T00:00:01Z"}
    assert endpoints["subsets"] == [
        {
            "addresses": [
                {
                    "ip": pod["status"]["podIP"],
                    "nodeName": pod["spec"]["nodeName"],
                    "targetRef": {
                        "kind": "Pod",
                        "namespace": "t",
                        "name": "a",
                        "uid": pod["metadata"]["uid"],
                    },
                }
            ],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }
    ]
    cluster.delete("services", "web")
    cluster.run(5)
    assert cluster.find("endpoints", "web") is None
    assert cluster.every(_SLICES) == []


def test_headless_service_needs_no_ports_and_names_its_pods(cluster: Cluster) -> None:
    _add_service(cluster, clusterIP="None", ports=[])
    _add_pod(cluster, "a", hostname="h", subdomain="web")
    cluster.run(3)
    found = _slice(cluster)
    assert found["ports"] is None
    assert found["endpoints"][0]["hostname"] == "h"
    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    endpoints = cluster.get("endpoints", "web")
    assert endpoints["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert endpoints["subsets"][0]["addresses"][0]["hostname"] == "h"


def test_services_without_selector_are_ignored(cluster: Cluster) -> None:
    _add_service(cluster, selector=None)
    _add_service(cluster, "elsewhere", type="ExternalName", externalName="x.example", ports=[])
    cluster.run(2)
    assert cluster.every(_SLICES) == []
    assert cluster.every("endpoints") == []


def test_labels_selectors_and_deleted_slices_are_followed(cluster: Cluster) -> None:
    _add_service(cluster)
    _add_pod(cluster, "a")
    cluster.create("pods", "b", pod_spec("sleep", "99"), labels={"app": "other"})
    cluster.run(3)
    cluster.change("pods", "b", lambda pod: pod["metadata"].update(labels={"app": "web"}))
    cluster.run(1)
    assert sorted(each[0] for each in _told(_slice(cluster))) == ["a", "b"]
    cluster.change("services", "web", lambda one: one["spec"].update(selector={"app": "none"}))
    cluster.change("services", "web", lambda one: one["metadata"].update(labels={"team": "b"}))
    cluster.run(1)
    assert _told(_slice(cluster)) == []
    assert _slice(cluster)["metadata"]["labels"]["team"] == "b"
    before = _slice(cluster)["metadata"]["name"]
    cluster.delete(_SLICES, before)
    cluster.delete("endpoints", "web")
    cluster.run(1)
    assert _slice(cluster)["metadata"]["name"] != before
    assert cluster.find("endpoints", "web") is not None


def test_endpoints_made_by_hand_are_copied_to_slices(cluster: Cluster) -> None:
    _add_service(cluster, selector=None)
    subset = {"addresses": [{"ip": "192.0.2.7"}], "notReadyAddresses": [{"ip": "192.0.2.8"}]}
    metadata = {"name": "web", "labels": {"l": "1"}, "annotations": {"k": "v"}}
    ports = [{"name": "http", "port": 8080}]
    made = {"metadata": metadata, "subsets": [{**subset, "ports": ports}]}
    cluster.api.create("endpoints", made, "t")
    cluster.run(1)
    found = _slice(cluster)
    assert [(one["addresses"], one["conditions"]) for one in found["endpoints"]] == [
        (["192.0.2.7"], {"ready": True}),
        (["192.0.2.8"], {"ready": False}),
    ]
    assert found["metadata"]["labels"] == {
        "l": "1",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    assert found["metadata"]["annotations"] == {"k": "v"}
    name = found["metadata"]["name"]
    cluster.change("endpoints", "web", lambda one: one["subsets"][0].pop("notReadyAddresses"))
    cluster.run(1)
    assert len(_slice(cluster)["endpoints"]) == 1
    assert _slice(cluster)["metadata"]["name"] == name
    cluster.change("services", "web", lambda one: one["spec"].update(selector={"app": "web"}))
    cluster.run(1)
    assert _slice(cluster)["metadata"]["name"] != name


def test_many_endpoints_need_many_slices_and_few_writes() -> None:
    cluster = Cluster(nodes=3)
    _add_service(cluster)
    for number in range(150):
        _add_pod(cluster, f"p{number}")
    cluster.run(5)
    sizes = sorted(len(one["endpoints"]) for one in cluster.every(_SLICES))
    assert sizes == [50, 100]
    (subset,) = cluster.get("endpoints", "web")["subsets"]
    assert len(subset["addresses"]) == 150
    writes = [1 for kind, _, _ in cluster.history if kind == "endpoints"]
    assert len(writes) < 50


def _endpoint(number: int) -> Obj:
    return {"addresses": [f"10.0.0.{number}"], "targetRef": {"uid": str(number)}}


def test_removed_endpoints_free_slots_and_full_slices_stay() -> None:
    labels: dict[str, str] = {}
    full = {
        "metadata": {"name": "full"},
        "endpoints": [_endpoint(1), _endpoint(2)],
        "ports": [],
    }
    other = {"metadata": {"name": "other"}, "endpoints": [_endpoint(3)], "ports": []}
    wanted = [_endpoint(1), _endpoint(2), _endpoint(3), _endpoint(4)]
    plan = plan_slices([([], wanted)], [full, other], labels, most=2)
    assert [(one["metadata"]["name"], one["endpoints"]) for one in plan.update] == [
        ("other", [_endpoint(3), _endpoint(4)])
    ]
    assert (plan.create, plan.delete) == ([], [])
    plan = plan_slices([([], [_endpoint(3)])], [full, other], labels, most=2)
    assert (plan.create, plan.update, plan.delete) == ([], [], [full])
    assert plan_slices([([], wanted[:3])], [full, other], labels, most=2).update == []


def test_ports_by_number_and_by_name() -> None:
    sidecar = {
        "restartPolicy": "Always",
        "ports": [{"name": "side", "containerPort": 7}],
    }
    first = {"ports": [{"name": "web", "containerPort": 9, "protocol": "UDP"}]}
    pod: Obj = {"spec": {"containers": [first], "initContainers": [sidecar, first]}}
    wanted: list[tuple[Obj, int | None]] = [
        ({"port": 80, "targetPort": 8080}, 8080),
        ({"port": 80}, 80),
        ({"port": 80, "targetPort": "side"}, 7),
        ({"port": 80, "targetPort": "web"}, None),
        ({"port": 80, "targetPort": "web", "protocol": "UDP"}, 9),
    ]
    assert [find_pod_port(pod, port) for port, _ in wanted] == [number for _, number in wanted]


def test_pods_with_different_ports_have_separate_subsets() -> None:
    def pod(ip: str, *names: str) -> Obj:
        ports = [{"name": name, "containerPort": 9} for name in names]
        return {
            "metadata": {"namespace": "t", "name": ip, "uid": ip},
            "spec": {"containers": [{"ports": ports}]},
            "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]},
        }

    ports = [{"name": "one", "port": 1}, {"name": "two", "port": 2, "targetPort": "two"}]
    service: Obj = {"metadata": {"name": "web"}, "spec": {"ports": ports, "clusterIP": "10.0.0.1"}}
    found = build_subsets(service, [pod("10.0.0.20", "two"), pod("10.0.0.3")])
    assert [
        ([one["ip"] for one in each["addresses"]], [one["name"] for one in each["ports"]])
        for each in found
    ] == [(["10.0.0.3", "10.0.0.20"], ["one"]), (["10.0.0.20"], ["two"])]

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import Caller
from tests.objects import config_map, pod
from tests.simulator.cluster import NAMESPACE, Cluster

Obj = dict[str, Any]


def hold(cluster: Cluster, name: str = "few", **spec: Any) -> None:
    cluster.create("resourcequotas", name, spec)
    cluster.run(0)


def refused(cluster: Cluster, resource: str, obj: Obj) -> str:
    with pytest.raises(StatusError) as error:
        cluster.api.create(resource, obj, NAMESPACE)
    assert (error.value.code, error.value.reason) == (403, "Forbidden")
    return error.value.message


def used(cluster: Cluster, name: str = "few") -> Obj:
    status: Obj = cluster.get("resourcequotas", name)["status"]
    return dict(status["used"])


def limited_pod(
    name: str, requests: Obj | None = None, limits: Obj | None = None, **spec: Any
) -> Obj:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return pod(name, schedulerName="none", container={"resources": resources}, **spec)


def test_existing_objects_count(cluster: Cluster) -> None:
    cluster.api.create("configmaps", config_map("a"), NAMESPACE)
    hold(cluster, hard={"configmaps": "3", "count/jobs.batch": "1"})
    assert used(cluster) == {"configmaps": "2", "count/jobs.batch": "0"}


def test_exceeded_quota_denies(cluster: Cluster) -> None:
    hold(cluster, hard={"configmaps": "2"})
    cluster.api.create("configmaps", config_map("a"), NAMESPACE)
    assert refused(cluster, "configmaps", config_map("b")) == (
        'configmaps "b" is forbidden: exceeded quota: few, requested: configmaps=1, '
        "used: configmaps=2, limited: configmaps=2"
    )
    assert used(cluster) == {"configmaps": "2"}


def test_denied_requests_charge_nothing(cluster: Cluster) -> None:
    hold(cluster, hard={"configmaps": "3"})
    cluster.api.create("configmaps", config_map("a"), NAMESPACE)
    with pytest.raises(StatusError, match="already exists"):
        cluster.api.create("configmaps", config_map("a"), NAMESPACE)
    cluster.api.create("configmaps", config_map("b"), NAMESPACE, caller=Caller(dry_run=True))
    assert used(cluster) == {"configmaps": "2"}


def test_deletions_reduce_usage(cluster: Cluster) -> None:
    hold(cluster, hard={"configmaps": "2"})
    cluster.api.create("configmaps", config_map("a"), NAMESPACE)
    cluster.delete("configmaps", "a")
    cluster.run(0)
    assert used(cluster) == {"configmaps": "1"}


def test_quotas_are_per_namespace(cluster: Cluster) -> None:
    hold(cluster, hard={"configmaps": "1"})
    cluster.api.create("configmaps", config_map("a"), "default")
    assert used(cluster) == {"configmaps": "1"}


def test_pods_must_set_counted_resources(cluster: Cluster) -> None:
    hold(cluster, hard={"limits.cpu": "1", "requests.memory": "1Gi"})
    start = {"name": "i", "image": "busybox:1", "resources": {"requests": {"memory": "1Mi"}}}
    message = refused(cluster, "pods", limited_pod("p", initContainers=[start]))
    assert message == (
        'pods "p" is forbidden: failed quota: few: must specify limits.cpu for: i,main; '
        "requests.memory for: main"
    )
    whole = limited_pod("p", resources={"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}})
    cluster.api.create("pods", whole, NAMESPACE)
    assert used(cluster) == {"limits.cpu": "1", "requests.memory": "1Gi"}


def test_messages_keep_the_notation_of_quantities(cluster: Cluster) -> None:
    hold(cluster, hard={"requests.cpu": "1", "requests.memory": "1Gi", "pods": "5"})
    cluster.api.create("pods", limited_pod("p", {"cpu": "400m", "memory": "512Mi"}), NAMESPACE)
    assert refused(cluster, "pods", limited_pod("q", {"cpu": "1500m", "memory": "600Mi"})) == (
        'pods "q" is forbidden: exceeded quota: few, requested: '
        "requests.cpu=1500m,requests.memory=600Mi, used: requests.cpu=400m,requests.memory=512Mi, "
        "limited: requests.cpu=1,requests.memory=1Gi"
    )


def test_init_containers_count_if_larger(cluster: Cluster) -> None:
    hold(cluster, hard={"requests.cpu": "9"})
    containers = [
        {"name": name, "image": "busybox:1", "resources": {"requests": {"cpu": cpu}}}
        for name, cpu in (("i", "2"), ("side", "250m"), ("big", "1"))
    ]
    containers[1]["restartPolicy"] = "Always"
    overhead = {"podFixed": {"cpu": "10m"}}
    runtime = {"metadata": {"name": "costly"}, "handler": "h", "overhead": overhead}
    cluster.api.create("runtimeclasses.node.k8s.io", runtime)
    made = limited_pod("p", {"cpu": "500m"}, initContainers=containers, runtimeClassName="costly")
    cluster.api.create("pods", made, NAMESPACE)
    assert used(cluster) == {"requests.cpu": "2010m"}


def test_finished_pod_counts_as_an_object_only(cluster: Cluster) -> None:
    hold(cluster, hard={"pods": "1", "count/pods": "9"})
    cluster.api.create("pods", limited_pod("p"), NAMESPACE)

    def end(changed: Obj) -> None:
        changed["status"]["phase"] = "Succeeded"

    cluster.api.modify("pods", "p", NAMESPACE, end, subresource="status")
    cluster.run(0)
    assert used(cluster) == {"pods": "0", "count/pods": "1"}


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, {}, {"requests": {"cpu": "1m"}}),
        ({"scopes": ["NotBestEffort"]}, {"requests": {"cpu": "1m"}}, {}),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 9}, {}),
        ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 9}),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {
                            "scopeName": "PriorityClass",
                            "operator": "In",
                            "values": ["system-cluster-critical"],
                        }
                    ]
                }
            },
            {"priorityClassName": "system-cluster-critical"},
            {"priorityClassName": "system-node-critical"},
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]
                }
            },
            {},
            {"priorityClassName": "system-node-critical"},
        ),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "a", "namespaces": ["other"]}
                        ]
                    }
                }
            },
            {},
        ),
    ],
)
def test_scoped_quota_counts_matching_objects(
    cluster: Cluster, scope: Obj, inside: Obj, outside: Obj
) -> None:
    hold(cluster, hard={"pods": "1"}, **scope)
    cluster.api.create("pods", limited_pod("out", **outside), NAMESPACE)
    cluster.api.create("pods", limited_pod("in", **inside), NAMESPACE)
    assert used(cluster) == {"pods": "1"}
    assert "exceeded quota" in refused(cluster, "pods", limited_pod("more", **inside))


def test_service_is_charged_when_its_type_changes(cluster: Cluster) -> None:
    hold(cluster, hard={"services": "1", "services.nodeports": "1", "services.loadbalancers": "0"})
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    cluster.create("services", "s", {"ports": ports})
    service = cluster.get("services", "s")
    with pytest.raises(StatusError) as error:
        cluster.api.update("services", {**service, "spec": {**service["spec"], "type": "NodePort"}})
    assert error.value.message == (
        'services "s" is forbidden: exceeded quota: few, requested: services.nodeports=2, '
        "used: services.nodeports=0, limited: services.nodeports=1"
    )


def test_claims_count_by_class_in_whole_bytes(cluster: Cluster) -> None:
    of_gold = "gold.storageclass.storage.k8s.io/requests.storage"
    hold(cluster, hard={"requests.storage": "1Gi", of_gold: "10Ki"})
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gold"}
    claim = {**spec, "resources": {"requests": {"storage": "1.0001k"}}}
    cluster.create("persistentvolumeclaims", "a", claim)
    assert used(cluster) == {"requests.storage": "1001", of_gold: "1001"}
    claim = {**spec, "resources": {"requests": {"storage": "10Ki"}}}
    assert f"requested: {of_gold}=10Ki" in refused(
        cluster, "persistentvolumeclaims", {"metadata": {"name": "b"}, "spec": claim}
    )


def test_extended_resources_count_as_requests(cluster: Cluster) -> None:
    hold(cluster, hard={"requests.example.com/gpu": "1"})
    message = refused(cluster, "pods", limited_pod("p", limits={"example.com/gpu": "2"}))
    assert "requested: requests.example.com/gpu=2" in message


def test_changed_quota_applies_immediately(cluster: Cluster) -> None:
    hold(cluster, hard={"configmaps": "5", "secrets": "5"})

    def tighten(changed: Obj) -> None:
        changed["spec"]["hard"] = {"configmaps": "1"}

    cluster.change("resourcequotas", "few", tighten)
    cluster.run(0)
    status = cluster.get("resourcequotas", "few")["status"]
    assert status == {"hard": {"configmaps": "1"}, "used": {"configmaps": "1"}}
    assert "limited: configmaps=1" in refused(cluster, "configmaps", config_map("a"))


def test_quota_without_usage_denies(cluster: Cluster) -> None:
    cluster.create("resourcequotas", "new", {"hard": {"configmaps": "5"}})
    cluster.api.create("configmaps", config_map("a"), NAMESPACE)

    def forget(changed: Obj) -> None:
        changed["status"] = {"hard": {"configmaps": "5"}}

    cluster.api.modify("resourcequotas", "new", NAMESPACE, forget, subresource="status")
    assert refused(cluster, "configmaps", config_map("b")) == (
        'configmaps "b" is forbidden: status unknown for quota: new, resources: configmaps'
    )


def test_replica_set_reports_denied_pods(cluster: Cluster) -> None:
    hold(cluster, hard={"pods": "0"})
    labels = {"app": "web"}
    container = {"name": "c", "image": "busybox:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    cluster.create("replicasets.apps", "web", spec)
    cluster.run(0.1)
    (failure,) = cluster.get("replicasets.apps", "web")["status"]["conditions"]
    assert (failure["type"], failure["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert failure["message"].startswith('pods "web-')
    assert failure["message"].endswith(
        "is forbidden: exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0"
    )
    cluster.delete("resourcequotas", "few")
    cluster.run(5)
    assert len(cluster.every("pods")) == 1

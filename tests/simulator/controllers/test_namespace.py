from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.namespace import make_deletion_conditions
from tests.simulator.cluster import NAMESPACE, Cluster, conditions, pod_spec

if TYPE_CHECKING:
    import pytest

    from pytest_kwait.simulator.objects import Obj

_FINE = {
    "NamespaceDeletionDiscoveryFailure": "False ResourcesDiscovered",
    "NamespaceDeletionGroupVersionParsingFailure": "False ParsedGroupVersions",
    "NamespaceDeletionContentFailure": "False ContentDeleted",
    "NamespaceContentRemaining": "False ContentRemoved",
    "NamespaceFinalizersRemaining": "False ContentHasNoFinalizers",
}


def test_namespace_has_default_objects_at_once(cluster: Cluster) -> None:
    for namespace in (NAMESPACE, "default", "kube-system"):
        assert cluster.api.get("serviceaccounts", "default", namespace)
        root = cluster.api.get("configmaps", "kube-root-ca.crt", namespace)
        assert root["data"] == {"ca.crt": "CERTIFICATE"}


def test_removed_or_changed_default_objects_are_restored(cluster: Cluster) -> None:
    cluster.delete("serviceaccounts", "default")
    cluster.delete("configmaps", "kube-root-ca.crt")
    cluster.run(1)
    assert cluster.find("serviceaccounts", "default") is not None
    cluster.change("configmaps", "kube-root-ca.crt", lambda one: one.update(data={"ca.crt": "x"}))
    cluster.run(1)
    assert cluster.get("configmaps", "kube-root-ca.crt")["data"] == {"ca.crt": "CERTIFICATE"}


def _delete(cluster: Cluster) -> None:
    cluster.api.delete("namespaces", NAMESPACE)


def test_empty_namespace_is_removed_after_five_seconds(cluster: Cluster) -> None:
    _delete(cluster)
    cluster.run(4.9)
    assert cluster.api.get("namespaces", NAMESPACE)["status"] == {"phase": "Terminating"}
    cluster.run(0.2)
    assert cluster.api.find("namespaces", NAMESPACE) is None
    assert cluster.every("configmaps") == []


def test_fast_time_shortens_the_delay() -> None:
    cluster = Cluster(scale=0.1)
    _delete(cluster)
    cluster.run(0.6)
    assert cluster.api.find("namespaces", NAMESPACE) is None


def test_pods_are_deleted_first(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "99", terminationGracePeriodSeconds=3))
    cluster.api.create("configmaps", {"metadata": {"name": "m"}}, NAMESPACE)
    cluster.run(5)
    _delete(cluster)
    cluster.run(6)
    assert cluster.find("configmaps", "m") is not None
    assert conditions(cluster.api.get("namespaces", NAMESPACE)) == _FINE
    cluster.run(6)
    assert cluster.api.find("namespaces", NAMESPACE) is None
    gone = [
        (kind, obj["metadata"]["name"])
        for kind, change, obj in cluster.history
        if change == "DELETED" and kind in ("pods", "configmaps", "namespaces")
    ]
    assert gone[0] == ("pods", "p")
    assert gone[-1] == ("namespaces", NAMESPACE)


def test_remaining_contents_are_reported(cluster: Cluster) -> None:
    metadata = {"name": "m", "finalizers": ["example.org/keep"]}
    cluster.api.create("configmaps", {"metadata": metadata}, NAMESPACE)
    _delete(cluster)
    cluster.run(6)
    told = cluster.api.get("namespaces", NAMESPACE)
    assert conditions(told) == {
        **_FINE,
        "NamespaceContentRemaining": "True SomeResourcesRemain",
        "NamespaceFinalizersRemaining": "True SomeFinalizersRemain",
    }
    messages = [one["message"] for one in told["status"]["conditions"][3:]]
    assert messages == [
        "Some resources are remaining: configmaps. has 1 resource instances",
        "Some content in the namespace has finalizers remaining: "
        "example.org/keep in 1 resource instances",
    ]
    cluster.change("configmaps", "m", lambda one: one["metadata"].update(finalizers=[]))
    cluster.run(10)
    assert cluster.api.find("namespaces", NAMESPACE) is None


def test_foreign_finalizer_keeps_the_namespace(cluster: Cluster) -> None:
    cluster.api.modify(
        "namespaces",
        NAMESPACE,
        "",
        lambda one: one["metadata"].update(finalizers=["example.org/x"]),
    )
    _delete(cluster)
    cluster.run(10)
    left = cluster.api.get("namespaces", NAMESPACE)
    assert (left["spec"].get("finalizers"), conditions(left)) == (None, _FINE)


def test_controllers_record_no_events_in_a_terminating_namespace(cluster: Cluster) -> None:
    spec: Obj = {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec("sleep", "9")},
    }
    cluster.create("replicasets.apps", "r", spec)
    cluster.run(3)
    _delete(cluster)
    cluster.run(60)
    assert cluster.api.find("namespaces", NAMESPACE) is None
    assert "FailedCreate" not in cluster.reasons("r")


def test_conditions_keep_their_time_while_their_status_stays() -> None:
    first = make_deletion_conditions((), {"NamespaceContentRemaining": ("A", "a")}, "then")
    second = make_deletion_conditions(first, {}, "now")
    times = [one["lastTransitionTime"] for one in second]
    assert times == ["then", "then", "then", "now", "then"]


def test_refused_default_objects_are_retried(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    create = cluster.api.create

    def refuse(resource: str, obj: Obj, namespace: str = "", **options: Any) -> Obj:
        if resource == "serviceaccounts" and len(refused) < 3:
            refused.append(namespace)
            raise StatusError(403, "Forbidden", "not on a Sunday")
        return create(resource, obj, namespace, **options)

    monkeypatch.setattr(cluster.api, "create", refuse)
    create("namespaces", {"metadata": {"name": "n"}})
    assert cluster.api.find("serviceaccounts", "default", "n") is None
    assert cluster.api.get("configmaps", "kube-root-ca.crt", "n")
    cluster.run(1)
    assert refused == ["n"] * 3
    assert cluster.api.get("serviceaccounts", "default", "n")

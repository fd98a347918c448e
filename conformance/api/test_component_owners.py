"""The fields that components of the cluster own in `managedFields`, as on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.kubelet_nodes import first_kubelet_node
from e2e.objects import (
    claim,
    container,
    deployment,
    job,
    pod,
    service,
    stateful_set,
    volume,
)

if TYPE_CHECKING:
    from pytest_kwait import Kwait

_CONTROLLERS, _SCHEDULER, _KUBELET = "kube-controller-manager", "kube-scheduler", "kubelet"
_REPLICAS = "replicas readyReplicas availableReplicas observedGeneration"
_POD_SPEC = (
    "containers dnsPolicy enableServiceLinks restartPolicy schedulerName securityContext"
    " terminationGracePeriodSeconds"
)
_POD_STATUS = "conditions containerStatuses hostIP hostIPs observedGeneration phase startTime"


def test_workloads(kwait: Kwait) -> None:
    """What their controllers write, and the pods that these make."""
    kwait.create(deployment("d"))
    kwait.create(service("d", selector={"app": "d"}, ports=[{"port": 80}]))
    kwait.create(stateful_set("s"))
    kwait.create(job("j", container(script="true")))
    kwait.wait_for_deployment_with_condition("d", "MinimumReplicasAvailable", "Available")
    kwait.wait_for_job_complete("j")
    kwait.wait_for("statefulset/s", "jsonpath={.status.availableReplicas}=1")
    kwait.wait_for("endpoints/d", lambda endpoints: bool(endpoints.get("subsets")))

    owned = _owned_by(kwait.get("deployment/d"), _CONTROLLERS, "status")
    assert owned["metadata"] == {"annotations"}
    assert owned["status"] >= {*_REPLICAS.split(), "conditions", "updatedReplicas"}
    (replica_set,) = kwait.list("replicasets", selector="app=d")
    made = _owned_by(replica_set, _CONTROLLERS)
    assert made["metadata"] == {"annotations", "labels", "ownerReferences"}
    assert made["spec"] == {"replicas", "selector", "template"}
    owned = _owned_by(replica_set, _CONTROLLERS, "status")
    assert owned["status"] >= {*_REPLICAS.split(), "fullyLabeledReplicas"}

    owned = _owned_by(kwait.get("statefulset/s"), _CONTROLLERS, "status")
    assert owned["status"] >= {*_REPLICAS.split(), "currentRevision", "updateRevision"}
    owned = _owned_by(kwait.get("job/j"), _CONTROLLERS, "status")
    assert owned["status"] >= {"completionTime", "conditions", "startTime", "succeeded"}

    for name, more in (("d", set()), ("s", {"hostname", "subdomain"})):
        (of_workload,) = kwait.list("pods", selector=f"app={name}")
        made = _owned_by(of_workload, _CONTROLLERS)
        assert made["metadata"] == {"generateName", "labels", "ownerReferences"}
        assert made["spec"] - {"subdomain"} == {*_POD_SPEC.split(), *more} - {"subdomain"}
        status = _owned_by(of_workload, _KUBELET, "status")
        assert status["status"] >= {*_POD_STATUS.split(), "podIP", "podIPs"}
        # A binding owns nothing.
        assert not _owned_by(of_workload, _SCHEDULER, "status")

    (slice_,) = kwait.list("endpointslices", selector="kubernetes.io/service-name=d")
    made = _owned_by(slice_, _CONTROLLERS)
    assert {*made} == {"addressType", "endpoints", "metadata", "ports"}
    assert made["metadata"] - {"annotations"} == {"generateName", "labels", "ownerReferences"}
    assert _owned_by(kwait.get("endpoints/d"), _CONTROLLERS)["subsets"] == set()
    (root,) = kwait.list("configmaps", field_selector="metadata.name=kube-root-ca.crt")
    assert _owned_by(root, _CONTROLLERS)["data"] == {"ca.crt"}


def test_scheduler_and_events(kwait: Kwait) -> None:
    """The condition of a pod that fits nowhere, and who wrote which event in which version."""
    kwait.create(pod("none", nodeSelector={"no": "where"}))
    kwait.create(pod("one", container(script="true")))
    kwait.wait_for_pod_unschedulable("none")
    kwait.wait_for_pod_success("one")
    owned = _owned_by(kwait.get("pod/none"), _SCHEDULER, "status")
    assert owned == {"status": {"conditions"}}

    for reason, name, manager, version in (
        ("FailedScheduling", "none", _SCHEDULER, "events.k8s.io/v1"),
        ("Scheduled", "one", _SCHEDULER, "events.k8s.io/v1"),
        ("Started", "one", _KUBELET, "v1"),
    ):
        fields = f"reason={reason},involvedObject.name={name}"
        event = kwait.list("events", field_selector=fields)[0]
        (entry,) = event["metadata"]["managedFields"]
        assert (entry["manager"], entry["apiVersion"]) == (manager, version)
        about = "f:regarding" if version.startswith("events") else "f:involvedObject"
        assert about in entry["fieldsV1"]


def test_volumes(kwait: Kwait) -> None:
    """What binds a claim to a volume."""
    name = f"v-{kwait.namespace}"
    kwait.create(volume(name, name))
    kwait.create(claim("c", name))
    kwait.wait_for_persistent_volume_claim_phase("c", "Bound")
    made = kwait.get("persistentvolumeclaim/c")
    owned = _owned_by(made, _CONTROLLERS)
    assert owned == {"metadata": {"annotations"}, "spec": {"volumeName"}}
    assert _owned_by(made, _CONTROLLERS, "status")["status"] == {
        "accessModes",
        "capacity",
        "phase",
    }
    owned = _owned_by(kwait.get(f"persistentvolume/{name}"), _CONTROLLERS)
    assert owned["spec"] == {"claimRef"}


def test_nodes(kwait: Kwait) -> None:
    """Of a kubelet: what it registers, and what it changes of its status afterwards."""
    node = kwait.get(f"node/{first_kubelet_node(kwait)}")
    owned = _owned_by(node, _KUBELET)
    assert owned["metadata"] == {"annotations", "labels"}
    assert (
        "f:node.alpha.kubernetes.io/ttl"
        in _fields(node, _CONTROLLERS)["f:metadata"]["f:annotations"]
    )
    assert _owned_by(node, _KUBELET, "status") == {"status": {"conditions"}}


def test_autoscaler(kwait: Kwait) -> None:
    """The replicas, which it sets by the Scale."""
    kwait.create(deployment("d"))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 2}
    kwait.create(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a"},
            "spec": spec,
        }
    )
    kwait.wait_for("deployment/d", "jsonpath={.spec.replicas}=2")
    scaled = kwait.get("deployment/d")
    assert _owned_by(scaled, _CONTROLLERS, "scale") == {"spec": {"replicas"}}


def test_appliers(kwait: Kwait) -> None:
    """Controllers that apply statuses, each by a manager of its own."""
    name = f"z-{kwait.namespace}"
    flow = {"priorityLevelConfiguration": {"name": "global-default"}, "matchingPrecedence": 9000}
    policy = {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"nope": "1"}},
            "resourceRules": [
                {
                    "operations": ["CREATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                }
            ],
        },
        "validations": [{"expression": "true"}],
    }
    for version, kind, spec, status, manager, owned in (
        (
            "flowcontrol.apiserver.k8s.io/v1",
            "FlowSchema",
            flow,
            "conditions",
            "api-priority-and-fairness-config-consumer-v1",
            {"conditions"},
        ),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            policy,
            "observedGeneration",
            "validatingadmissionpolicy-status",
            {"observedGeneration", "typeChecking"},
        ),
    ):
        kwait.create(
            {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        )

        def has_status(obj: dict[str, Any], field: str = status) -> bool:
            return bool((obj.get("status") or {}).get(field))

        kwait.wait_for(f"{kind.lower()}/{name}", has_status)
        found = _fields(kwait.get(f"{kind.lower()}/{name}"), manager, "status", "Apply")
        assert {field[2:] for field in found["f:status"]} == owned


def _fields(
    obj: dict[str, Any], manager: str, subresource: str = "", operation: str = "Update"
) -> dict[str, Any]:
    """Return the `fieldsV1` of a component's updates, or applies."""
    for entry in obj["metadata"].get("managedFields") or ():
        if (entry["manager"], entry.get("subresource", "")) == (manager, subresource):
            assert entry["operation"] == operation
            fields: dict[str, Any] = entry["fieldsV1"]
            return fields
    return {}


def _owned_by(obj: dict[str, Any], manager: str, subresource: str = "") -> dict[str, set[str]]:
    """Return the second part of the paths that a component owns, by the first."""
    fields = _fields(obj, manager, subresource)
    return {
        first[2:]: {name[2:] for name in below if name.startswith("f:")}
        for first, below in fields.items()
    }

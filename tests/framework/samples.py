"""Samples of each kind that waits read, with nearly every field that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_LABELS = {"app": "web", "batch.kubernetes.io/controller-uid": "uid-web"}
_OWNER = {"kind": "Job", "name": "web", "uid": "uid-web", "controller": True}
_CONTAINERS = [{"name": "web", "image": "app:1", "ports": [{"containerPort": 80}]}]
_STAMP = "2026-01-01T00:00:00Z"


def _condition(kind: str, status: str = "False") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": "Because",
        "message": "of this",
        "observedGeneration": 1,
        "lastHeartbeatTime": _STAMP,
        "lastTransitionTime": _STAMP,
    }


def _container(**state: Any) -> dict[str, Any]:
    return {
        "name": "web",
        "ready": False,
        "started": False,
        "restartCount": 4,
        "state": state,
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no"}},
    }


def _object(spec: Any = None, status: Any = None, **more: Any) -> dict[str, Any]:
    metadata = {
        "name": "web",
        "uid": "uid-web",
        "namespace": "ci-1",
        "generation": 2,
        "creationTimestamp": _STAMP,
        "labels": _LABELS,
        "annotations": {"deployment.kubernetes.io/revision": "1"},
        "ownerReferences": [_OWNER],
        "finalizers": ["example.com/hold"],
    }
    return {"metadata": metadata, "spec": spec or {}, "status": status or {}, **more}


_SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}],
}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": {"containers": _CONTAINERS}}
_COUNTS = {
    "replicas": 2,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "updatedReplicas": 1,
    "unavailableReplicas": 1,
    "currentReplicas": 1,
    "currentRevision": "web-1",
    "updateRevision": "web-2",
    "observedGeneration": 1,
}
_CONTROLLER = {
    "replicas": 2,
    "selector": _SELECTOR,
    "template": _TEMPLATE,
    "strategy": {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1},
    },
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    "podManagementPolicy": "OrderedReady",
    "paused": False,
}

SAMPLES: dict[str, dict[str, Any]] = {
    "pods": _object(
        {
            "nodeName": "web",
            "restartPolicy": "Always",
            "activeDeadlineSeconds": 600,
            "schedulingGates": [{"name": "example.com/quota"}],
            "initContainers": [{"name": "first", "restartPolicy": "Always"}],
            "containers": _CONTAINERS,
        },
        {
            "phase": "Pending",
            "reason": "Because",
            "message": "of this",
            "podIP": "10.0.0.1",
            "observedGeneration": 1,
            "conditions": [_condition("Ready"), _condition("PodScheduled")],
            "initContainerStatuses": [
                _container(terminated={"exitCode": 1, "reason": "Error", "message": "no"})
            ],
            "containerStatuses": [
                _container(waiting={"reason": "CrashLoopBackOff", "message": "no"})
            ],
        },
    ),
    "jobs": _object(
        {
            "parallelism": 2,
            "completions": 2,
            "suspend": False,
            "activeDeadlineSeconds": 600,
            "successPolicy": {"rules": []},
            "selector": _SELECTOR,
        },
        {"conditions": [_condition("Complete")], "succeeded": 1, "ready": 1, "active": 1},
    ),
    "nodes": _object(
        {
            "unschedulable": False,
            "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}],
        },
        {
            "conditions": [_condition("Ready"), _condition("NetworkUnavailable")],
            "allocatable": {"pods": "110"},
        },
    ),
    "deployments": _object(
        _CONTROLLER, {**_COUNTS, "conditions": [_condition("Progressing"), _condition("Available")]}
    ),
    "replicasets": _object(_CONTROLLER, {**_COUNTS, "conditions": [_condition("ReplicaFailure")]}),
    "statefulsets": _object(_CONTROLLER, {**_COUNTS, "conditions": [_condition("Any")]}),
    "daemonsets": _object(
        _CONTROLLER,
        {
            "desiredNumberScheduled": 2,
            "numberReady": 1,
            "numberAvailable": 1,
            "updatedNumberScheduled": 1,
            "observedGeneration": 1,
        },
    ),
    "replicationcontrollers": _object({**_CONTROLLER, "selector": {"app": "web"}}, _COUNTS),
    "services": _object(
        {
            "type": "LoadBalancer",
            "clusterIP": "10.0.0.2",
            "selector": {"app": "web"},
            "ports": [{"port": 80, "name": "http", "targetPort": 80}],
        },
        {
            "loadBalancer": {"ingress": [{"ip": "192.0.2.1", "hostname": "web.example"}]},
            "conditions": [_condition("Any")],
        },
    ),
    "endpointslices": {
        **_object(),
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.0.0.1"],
                "nodeName": "web",
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "targetRef": {"kind": "Pod", "name": "web", "uid": "uid-web"},
            }
        ],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    },
    "namespaces": _object(
        {"finalizers": ["kubernetes"]},
        {
            "phase": "Terminating",
            "conditions": [_condition("NamespaceContentRemaining", "True")],
        },
    ),
    "configmaps": {**_object(), "data": {"ca.crt": "certificate"}},
    "serviceaccounts": {**_object(), "secrets": [{"name": "web"}]},
    "customresourcedefinitions": _object(
        {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "webs", "kind": "Web", "singular": "web"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
        {
            "conditions": [_condition("Established"), _condition("NamesAccepted")],
            "acceptedNames": {"plural": "webs", "kind": "Web"},
            "storedVersions": ["v1"],
        },
    ),
    "apiservices": _object(
        {"group": "example.com", "version": "v1", "service": {"name": "web", "namespace": "ci-1"}},
        {"conditions": [_condition("Available")]},
    ),
    "events": {
        **_object(),
        "type": "Warning",
        "reason": "Because",
        "message": "of this",
        "count": 3,
        "series": {"count": 3, "lastObservedTime": _STAMP},
        "involvedObject": {
            "kind": "Pod",
            "name": "web",
            "uid": "uid-web",
            "namespace": "ci-1",
            "apiVersion": "v1",
        },
        "lastTimestamp": _STAMP,
        "eventTime": _STAMP,
        "source": {"component": "kubelet"},
    },
    "validatingwebhookconfigurations": {
        **_object(),
        "webhooks": [
            {
                "name": "web.example.com",
                "failurePolicy": "Fail",
                "clientConfig": {
                    "caBundle": "Y2VydGlmaWNhdGU=",
                    "service": {"name": "web", "namespace": "ci-1"},
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                        "scope": "*",
                    }
                ],
            }
        ],
    },
    "horizontalpodautoscalers": _object(
        {
            "minReplicas": 1,
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        },
        {
            "currentReplicas": 1,
            "desiredReplicas": 2,
            "observedGeneration": 1,
            "conditions": [_condition("AbleToScale"), _condition("ScalingActive")],
        },
    ),
}
"""By the plural of the kind."""

ANY = _object(
    {
        "replicas": 1,
        "selector": _SELECTOR,
        "template": _TEMPLATE,
        "volumeName": "web",
        "storageClassName": "web",
        "claimRef": {"name": "web", "namespace": "ci-1", "uid": "uid-web"},
        "source": {"persistentVolumeName": "web"},
        "nodeName": "web",
    },
    {
        "phase": "Pending",
        "reason": "Because",
        "message": "of this",
        "attached": False,
        "conditions": [_condition("Ready")],
        **_COUNTS,
    },
)
"""One of any other kind."""


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    parts = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        parts = enumerate(value)  # type: ignore[assignment]  # keys of another type
    for key, part in parts:
        yield from _paths(part, (*path, key))


def _without(value: Any, path: tuple[Any, ...], *, null: bool) -> Any:
    key, *rest = path
    copy = list(value) if isinstance(value, list) else dict(value)
    if rest:
        copy[key] = _without(value[key], tuple(rest), null=null)
    elif null and not isinstance(value, list):
        copy[key] = None
    else:
        del copy[key]
    return copy


def _with_unknown(value: Any) -> Any:
    if isinstance(value, dict):
        return {**{k: _with_unknown(v) for k, v in value.items()}, "unknown": {"to": ["us"]}}
    return [_with_unknown(part) for part in value] if isinstance(value, list) else value


def mangled(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the object itself, with unknown fields, and without each of its own.

    Each field is left out, and is null, in turn. What makes an object one it keeps: its name.
    """
    yield sample
    yield _with_unknown(sample)
    for path in _paths(sample):
        if path in {("metadata",), ("metadata", "name")}:
            continue
        yield _without(sample, path, null=True)
        yield _without(sample, path, null=False)

from __future__ import annotations

from typing import Any

from pytest_kwait.apimachinery.normalized import normalize_object

UID = "6d5f6a1e-0a3f-4a60-9a43-5b5f2d1c7a11"
OWNER_UID = "0c0c0f6e-11f1-4f8c-8f5e-6a1c2a6d3f22"
POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web-5d9c7b8f46-x2x8k",
        "generateName": "web-5d9c7b8f46-",
        "namespace": "t-1-web",
        "uid": UID,
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": "2026-11-29T12:00:00Z",
        "labels": {"app": "web", "pod-template-hash": "5d9c7b8f46"},
        "annotations": {
            "kwait.dev/run": "r",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d9c7b8f46", "uid": OWNER_UID}],
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "nodeName": "node-1",
        "containers": [
            {
                "name": "c",
                "env": [{"name": "HOST", "value": "db.t-1-web.svc"}],
                "args": [],
                "volumeMounts": [
                    {"name": "kube-api-access-7xk2z", "mountPath": "/v"},
                    {"name": "d"},
                ],
            }
        ],
        "volumes": [
            {"name": "kube-api-access-7xk2z", "projected": {}},
            {"name": "d", "emptyDir": {}},
        ],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "startTime": "2026-11-29T12:00:00Z",
        "message": f"pod web-5d9c7b8f46-x2x8k ({UID}) runs at noonTime",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-29T12:00:01Z"}
        ],
    },
}


def test_pod_of_a_deployment() -> None:
    assert normalize_object(POD, "t-1-web") == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "web-*-",
            "labels": {"app": "web"},
            "name": "web-*-*",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-*"}],
        },
        "spec": {
            "containers": [
                {
                    "args": [],
                    "env": [{"name": "HOST", "value": "db.NAMESPACE.svc"}],
                    "name": "c",
                    "volumeMounts": [{"name": "d"}],
                }
            ],
            "volumes": [{"emptyDir": {}, "name": "d"}],
        },
        "status": {
            "conditions": [{"status": "True", "type": "Ready"}],
            "message": "pod web-*-* (*) runs at noonTime",
            "phase": "Running",
        },
    }


def test_fields_are_sorted_and_the_object_is_as_before() -> None:
    before = repr(POD)
    plain = normalize_object(POD, "t-1-web")
    assert list(plain) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert list(plain["metadata"]) == sorted(plain["metadata"])
    assert repr(POD) == before


def test_values_that_only_look_generated_stay() -> None:
    obj = {
        "metadata": {"name": "web-x2x8k", "namespace": "other"},
        "data": {"startTime": "noon", "day": "2026-11-29T12:00:00Z", "empty": {}},
    }
    assert normalize_object(obj, "t-1-web") == {
        "data": {"day": "2026-11-29T12:00:00Z", "empty": {}, "startTime": "noon"},
        "metadata": {"name": "web-x2x8k", "namespace": "other"},
    }

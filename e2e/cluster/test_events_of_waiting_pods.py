"""Events of pods and claims that wait for objects that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

from e2e.objects import container, pod

if TYPE_CHECKING:
    from pytest_kwait import Kwait


CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: nowhere
  resources: {requests: {storage: 1Gi}}
"""
CONFIG_MAP, SECRET = {"name": "absent"}, {"secretName": "absent"}
MOUNT_FAILED = 'MountVolume.SetUp failed for volume "v" : '


def mounting(source: dict[str, Any]) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/v"}]
    return pod("p", container(volumeMounts=mounts), volumes=[{"name": "v", **source}])


@pytest.mark.parametrize(
    ("manifest", "reason", "message"),
    [
        (
            pod("p", container(envFrom=[{"configMapRef": CONFIG_MAP}])),
            "Failed",
            'Error: configmap "absent" not found',
        ),
        (
            pod("p", container(envFrom=[{"secretRef": {"name": "absent"}}])),
            "Failed",
            'Error: secret "absent" not found',
        ),
        (
            mounting({"configMap": CONFIG_MAP}),
            "FailedMount",
            f'{MOUNT_FAILED}configmap "absent" not found',
        ),
        (mounting({"secret": SECRET}), "FailedMount", f'{MOUNT_FAILED}secret "absent" not found'),
        (
            mounting({"persistentVolumeClaim": {"claimName": "absent"}}),
            "FailedScheduling",
            'persistentvolumeclaim "absent" not found. not found',
        ),
    ],
)
def test_a_pod_that_waits_for_a_missing_object(
    kwait: Kwait, manifest: dict[str, Any], reason: str, message: str
) -> None:
    kwait.create(manifest)
    # A kubelet that is busy may first say that it failed to sync its cache of these objects.
    event = kwait.wait_for_event(reason, message, about="pod/p", timeout="2m")
    assert event["type"] == "Warning"
    assert event["message"].endswith(message)


def test_a_claim_of_a_missing_class(kwait: Kwait) -> None:
    """The claim has the event of the volume controller, and the pod that of the scheduler."""
    kwait.create(CLAIM)
    about = "persistentvolumeclaim/data"
    event = kwait.wait_for_event("ProvisioningFailed", about=about, timeout="1m")
    assert event["message"] == 'storageclass.storage.k8s.io "nowhere" not found'
    # A scheduler that does not know the claim yet would say so, and never again anything else.
    kwait.create(mounting({"persistentVolumeClaim": {"claimName": "data"}}))
    event = kwait.wait_for_event("FailedScheduling", about="pod/p", timeout="1m")
    assert event["message"].endswith("pod has unbound immediate PersistentVolumeClaims. not found")


def test_a_pod_whose_service_account_was_deleted(kwait: Kwait) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gone"}}
    gate = [{"name": "example.org/wait"}]
    kwait.create(account, pod("p", serviceAccountName="gone", schedulingGates=gate))
    kwait.delete("serviceaccount/gone")
    kwait.wait_for("serviceaccount/gone", "delete")
    patch: Any = [{"op": "remove", "path": "/spec/schedulingGates"}]
    CoreV1Api(kwait.client).patch_namespaced_pod("p", kwait.namespace, patch)
    volume = kwait.get("pod/p")["spec"]["volumes"][0]["name"]
    # A real kubelet may first be refused: the authorizer learns of the pod's node a moment later.
    kwait.wait_for_event(
        "FailedMount",
        f'MountVolume.SetUp failed for volume "{volume}" : failed to fetch token: '
        'serviceaccounts "gone" not found',
        about="pod/p",
        timeout="1m",
    )

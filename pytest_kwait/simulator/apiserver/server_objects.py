"""Objects in `kube-system` by which an API server announces itself: ConfigMaps and its Lease."""

from __future__ import annotations

import base64
import hashlib
import socket
from typing import TYPE_CHECKING

from pytest_kwait.simulator.authentication.pki import FRONT_PROXY_USER
from pytest_kwait.simulator.objects import clone, new_uid
from pytest_kwait.simulator.request_info import server_caller

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster

_SYSTEM_NAMESPACE = "kube-system"
_IDENTITY_RENEW_SECONDS = 10.0


def create_config_maps(cluster: ApiServerCluster) -> None:
    """Create the ConfigMaps of client authentication and of the use of legacy tokens.

    Source: pkg/controlplane/controller/clusterauthenticationtrust,
    pkg/controlplane/controller/legacytokentracking.
    """
    for name, data in (
        (
            "extension-apiserver-authentication",
            {
                "client-ca-file": cluster.root_ca,
                "requestheader-allowed-names": f'["{FRONT_PROXY_USER}"]',
                "requestheader-client-ca-file": cluster.front_proxy.authority,
                "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
                "requestheader-group-headers": '["X-Remote-Group"]',
                "requestheader-uid-headers": '["X-Remote-Uid"]',
                "requestheader-username-headers": '["X-Remote-User"]',
            },
        ),
        (
            "kube-apiserver-legacy-service-account-token-tracking",
            {"since": cluster.clock.stamp().partition("T")[0]},
        ),
    ):
        obj = {"metadata": {"name": name}, "data": data}
        cluster.create("configmaps", obj, _SYSTEM_NAMESPACE, caller=server_caller())


def hold_identity_lease(cluster: ApiServerCluster) -> None:
    """Create the Lease of the API server and renew it.

    Source: k8s.io/apiserver pkg/server/config.go, pkg/controlplane/apiserver/server.go,
    k8s.io/component-helpers apimachinery/lease/controller.go.
    """
    host = socket.gethostname()
    parts = b"".join(
        len(part).to_bytes(2, "big") + part for part in (host.encode(), b"kube-apiserver")
    )
    digest = base64.b32encode(hashlib.sha256(parts).digest()[:16])
    name = f"apiserver-{digest.decode().rstrip('=').lower()}"
    labels = {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": host}
    spec = {
        "holderIdentity": f"{name}_{new_uid()}",
        "leaseDurationSeconds": 3600,
        "renewTime": cluster.clock.micro_stamp(),
    }
    lease = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    resource = "leases.coordination.k8s.io"
    cluster.create(resource, clone(lease), _SYSTEM_NAMESPACE, caller=server_caller())

    def renew() -> None:
        if not cluster.renew(_SYSTEM_NAMESPACE, name):
            again = clone(lease)
            again["spec"]["renewTime"] = cluster.clock.micro_stamp()
            cluster.create(resource, again, _SYSTEM_NAMESPACE, caller=server_caller())
        cluster.clock.call_later(_IDENTITY_RENEW_SECONDS, renew, scaled=False)

    cluster.clock.call_later(_IDENTITY_RENEW_SECONDS, renew, scaled=False)

"""Objects that clusters have from the start beside their components: a storage class, DNS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.volume_claims import STANDARD_CLASS
from pytest_kwait.simulator.network.cluster_names import is_kubernetes_service
from pytest_kwait.simulator.objects import clone, name_of, namespace_of
from pytest_kwait.simulator.protocol.addresses import CLUSTER_DNS_ADDRESS
from pytest_kwait.simulator.request_info import internal_caller

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_SYSTEM_NAMESPACE = "kube-system"

_DNS_SERVICE: Obj = {
    "metadata": {
        "name": "kube-dns",
        "labels": {
            "k8s-app": "kube-dns",
            "kubernetes.io/cluster-service": "true",
            "kubernetes.io/name": "CoreDNS",
        },
    },
    "spec": {
        "clusterIP": CLUSTER_DNS_ADDRESS,
        "selector": {"k8s-app": "kube-dns"},
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        ],
    },
}
"""The service of the DNS server, which runs in no pod. Source: kubeadm, addons/dns/manifests.go."""


def create_addons(cluster: Cluster) -> None:
    """Create the standard storage class and the service of the DNS server."""
    # No part of a server, but of every kind of cluster that people test on.
    unowned = internal_caller("")
    cluster.create("storageclasses.storage.k8s.io", clone(STANDARD_CLASS), caller=unowned)
    cluster.create("services", clone(_DNS_SERVICE), _SYSTEM_NAMESPACE, caller=unowned)


def is_system_service(obj: Obj) -> bool:
    """Return whether a service, or its endpoints, is there from the start."""
    is_dns = name_of(obj) == _DNS_SERVICE["metadata"]["name"]
    return is_kubernetes_service(obj) or (is_dns and namespace_of(obj) == _SYSTEM_NAMESPACE)

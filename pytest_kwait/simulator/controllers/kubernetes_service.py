"""The service `default/kubernetes` and the ranges of services.

In reading order: the API server's controller of its service, endpoints and ServiceCIDR
`kubernetes`; the IPAddress objects of services; the ServiceCIDR controller, which writes
finalizers and conditions of ranges.

Source: k8s.io/kubernetes pkg/controlplane/controller/kubernetesservice/controller.go,
pkg/controlplane/reconcilers, pkg/controlplane/controller/defaultservicecidr,
pkg/registry/core/service/ipallocator.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.network.cluster_names import KUBERNETES_SERVICE, is_kubernetes_service
from pytest_kwait.simulator.objects import Obj, clone, is_being_deleted, name_of, namespace_of
from pytest_kwait.simulator.request_info import applying_caller, server_caller

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    from pytest_kwait.simulator.cluster_protocol import Cluster

_NAMESPACE = "default"
_SERVICES, _ENDPOINTS, _SLICES = "services", "endpoints", "endpointslices.discovery.k8s.io"
_SERVICE_CIDRS = "servicecidrs.networking.k8s.io"
_FIELD_MANAGER = "service-cidr-controller"
_SERVER_FIELD_MANAGER = "kubernetes-service-cidr-controller"
# Source: pkg/controlplane/instance.go, `DefaultEndpointReconcilerInterval`.
_RECONCILE_SECONDS = 10.0
_READY_MESSAGE = "Kubernetes default Service CIDR is ready"
_ADDRESSES = "ipaddresses.networking.k8s.io"
_ADDRESS_LABELS = {
    "ipaddress.kubernetes.io/ip-family": "IPv4",
    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
}

_FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_RANGE_READY = ("True", "", "Kubernetes Service CIDR is ready")
_RANGE_IN_USE = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR",
)
# Source: `deletionGracePeriod`.
_DELETION_GRACE_SECONDS = 10.0


class KubernetesServiceController:
    """Keeps the service, endpoints and endpoint slice of the API server.

    Args:
        address: the address that endpoints have.
        port: the port of the server.
    """

    def __init__(self, cluster: Cluster, address: str, port: int) -> None:
        self._cluster = cluster
        self._address = address
        self._port = port
        self._planned = False
        self._create_service_cidr()
        self._reconcile()
        for resource in (_SERVICES, _ENDPOINTS, _SLICES):
            cluster.subscribe(resource, self._on_change)

    def _create_service_cidr(self) -> None:
        cluster, stamp = self._cluster, self._cluster.clock.stamp()
        metadata = {"name": KUBERNETES_SERVICE}
        spec = {"cidrs": list(cluster.addresses.cidrs)}
        obj = {"metadata": metadata, "spec": spec}
        created = cluster.create(_SERVICE_CIDRS, obj, caller=server_caller())
        condition = {
            "type": "Ready", "status": "True", "reason": "", "message": _READY_MESSAGE,
            "lastTransitionTime": stamp,
        }  # fmt: skip
        status = {"conditions": [condition]}
        caller = applying_caller(_SERVER_FIELD_MANAGER)
        cluster.update_status(_SERVICE_CIDRS, {**created, "status": status}, caller=caller)

    def _on_change(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "ADDED" and is_kubernetes_service(new) and not self._planned:
            self._planned = True
            self._cluster.clock.call_later(_RECONCILE_SECONDS, self._reconcile)

    def _reconcile(self) -> None:
        self._planned = False
        port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": self._port}
        labels = {"component": "apiserver", "provider": "kubernetes"}
        address = self._cluster.addresses.kubernetes_address
        spec: Obj = {
            "clusterIP": address, "ipFamilyPolicy": "SingleStack", "ports": [port],
            "sessionAffinity": "None", "type": "ClusterIP",
        }  # fmt: skip
        service = self._cluster.find(_SERVICES, KUBERNETES_SERVICE, _NAMESPACE)
        if service is None:
            metadata = {"name": KUBERNETES_SERVICE, "labels": labels}
            obj = {"metadata": metadata, "spec": spec}
            self._cluster.create(_SERVICES, obj, _NAMESPACE, caller=server_caller())
        elif service["spec"].get("ports") != [port]:
            # Other fields stay as they are, as upstream.
            changed = clone(service)
            changed["spec"]["ports"] = [port]
            self._cluster.update(_SERVICES, changed, caller=server_caller())
        self._keep(_ENDPOINTS, {"endpointslice.kubernetes.io/skip-mirror": "true"}, {
            "subsets": [{
                "addresses": [{"ip": self._address}],
                "ports": [{"name": "https", "port": self._port, "protocol": "TCP"}],
            }],
        })  # fmt: skip
        self._keep(_SLICES, {"kubernetes.io/service-name": KUBERNETES_SERVICE}, {
            "addressType": "IPv6" if ":" in self._address else "IPv4",
            "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": self._port, "protocol": "TCP"}],
        })  # fmt: skip

    def _keep(self, resource: str, labels: dict[str, str], content: Obj) -> None:
        """Create an object, or restore its contents."""
        stored_object = self._cluster.find(resource, KUBERNETES_SERVICE, _NAMESPACE)
        if stored_object is None:
            metadata = {"name": KUBERNETES_SERVICE, "labels": labels}
            obj = {"metadata": metadata, **clone(content)}
            self._cluster.create(resource, obj, _NAMESPACE, caller=server_caller())
        elif any(stored_object.get(field) != value for field, value in content.items()):
            obj = {**clone(stored_object), **clone(content)}
            self._cluster.update(resource, obj, caller=server_caller())


class IPAddressController:
    """Keeps one IPAddress for each cluster IP of a service.

    Upstream's allocator creates them before it stores the service, and a repair loop keeps them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._owners: dict[str, tuple[str, str]] = {}
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "ipallocator")
        cluster.subscribe(_SERVICES, self._service_changed)
        cluster.subscribe(_ADDRESSES, self._address_changed)

    def _service_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        owner = (namespace_of(new), name_of(new))
        addresses = set() if change == "DELETED" else _list_cluster_ips(new)
        for address in addresses:
            self._owners[address] = owner
        before = _list_cluster_ips(new if old is None else old)
        for address in before - addresses:
            if self._owners.get(address) == owner:
                del self._owners[address]
        for address in sorted(addresses ^ before if old is not None else addresses | before):
            self._queue.add(address)

    def _address_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED" and name_of(new) in self._owners:
            self._queue.add(name_of(new))

    def _sync(self, address: str) -> None:
        owner = self._owners.get(address)
        address_object = self._cluster.find(_ADDRESSES, address)
        if owner is not None and address_object is None:
            namespace, name = owner
            parent = {"resource": _SERVICES, "namespace": namespace, "name": name}
            metadata = {"name": address, "labels": dict(_ADDRESS_LABELS)}
            obj = {"metadata": metadata, "spec": {"parentRef": parent}}
            self._cluster.create(_ADDRESSES, obj, caller=server_caller())
        elif owner is None and address_object is not None and not is_being_deleted(address_object):
            labels = address_object["metadata"].get("labels") or {}
            if labels.items() >= _ADDRESS_LABELS.items():
                self._cluster.delete(_ADDRESSES, address)


def _list_cluster_ips(service: Obj) -> set[str]:
    return {address for address in service["spec"].get("clusterIPs") or () if address != "None"}


class ServiceCIDRController:
    """Marks ranges as ready, and keeps ranges with addresses in use from being deleted.

    Source: kube-controller-manager, servicecidrs/servicecidrs_controller.go.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "service-cidr-controller")
        cluster.subscribe(_SERVICE_CIDRS, lambda _change, new, _old: self._enqueue(new))
        for resource in ("services", _ADDRESSES):
            cluster.subscribe(resource, self._on_address_change)

    def _enqueue(self, obj: Obj) -> None:
        """Sync a range, and the others, which it may replace."""
        self._queue.add(name_of(obj))
        for service_cidr in self._cluster.list(_SERVICE_CIDRS):
            if is_being_deleted(service_cidr):
                self._queue.add(name_of(service_cidr))

    def _on_address_change(self, change: str, _new: Obj, _old: Obj | None) -> None:
        if change == "DELETED":
            for cidr in self._cluster.list(_SERVICE_CIDRS):
                if is_being_deleted(cidr):
                    self._queue.add(name_of(cidr))

    def _sync(self, name: str) -> None:
        service_cidr = self._cluster.find(_SERVICE_CIDRS, name)
        if service_cidr is None:
            return
        finalizers = service_cidr["metadata"].get("finalizers") or []
        if not is_being_deleted(service_cidr):
            if _FINALIZER not in finalizers:
                service_cidr = self._set_finalizers(service_cidr, [*finalizers, _FINALIZER])
            self._set_ready(service_cidr, *_RANGE_READY)
        elif _FINALIZER in finalizers:
            if self._is_in_use(service_cidr):
                self._set_ready(service_cidr, *_RANGE_IN_USE)
                return
            clock = self._cluster.clock
            deleted = parse_time(service_cidr["metadata"]["deletionTimestamp"])
            moment = deleted + _DELETION_GRACE_SECONDS * clock.scale
            if moment > clock.time():
                self._queue.add_at(name, moment)
            else:
                self._set_finalizers(
                    service_cidr, [finalizer for finalizer in finalizers if finalizer != _FINALIZER]
                )

    def _is_in_use(self, obj: Obj) -> bool:
        """Return whether addresses are in a range and in no other one.

        Source: `canDeleteCIDR`.
        """
        own = _list_networks(obj)
        other_networks = [
            network
            for service_cidr in self._cluster.list(_SERVICE_CIDRS)
            if not is_being_deleted(service_cidr)
            for network in _list_networks(service_cidr)
        ]
        return any(
            any(address in network for network in own)
            and not any(address in network for network in other_networks)
            for address in self._list_addresses()
        )

    def _list_addresses(self) -> Iterator[IPv4Address | IPv6Address]:
        for service in self._cluster.list("services"):
            for address in service["spec"].get("clusterIPs") or ():
                if address != "None":
                    yield ip_address(address)
        for address in self._cluster.list(_ADDRESSES):
            yield ip_address(name_of(address))

    def _set_finalizers(self, obj: Obj, finalizers: list[str]) -> Obj:
        changed = clone(obj)
        changed["metadata"]["finalizers"] = finalizers
        return self._cluster.update(_SERVICE_CIDRS, changed)

    def _set_ready(self, obj: Obj, status: str, reason: str, message: str) -> None:
        content = {"type": "Ready", "status": status, "reason": reason, "message": message}
        current_condition = get_condition(obj, "Ready") or {}
        if {key: value for key, value in current_condition.items() if key in content} == content:
            return
        condition = {**content, "lastTransitionTime": self._cluster.clock.stamp()}
        status_owner = applying_caller(_FIELD_MANAGER)
        changed = {**obj, "status": {"conditions": [condition]}}
        self._cluster.update_status(_SERVICE_CIDRS, changed, caller=status_owner)


def _list_networks(obj: Obj) -> list[IPv4Network | IPv6Network]:
    return [ip_network(cidr) for cidr in obj["spec"].get("cidrs") or ()]

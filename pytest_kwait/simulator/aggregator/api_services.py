"""Controllers of APIServices: auto-registration of local groups, availability of remote ones.

Source: k8s.io/kubernetes pkg/controlplane/apiserver/aggregator.go,
pkg/controlplane/controller/crdregistration; k8s.io/kube-aggregator
pkg/controllers/status/remote/remote_available_controller.go.
"""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import ignore_not_found
from pytest_kwait.simulator.authentication.pki import make_client_context
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.network.pod_network import get_pod_networks
from pytest_kwait.simulator.objects import Obj, clone, name_of
from pytest_kwait.simulator.request_info import internal_caller, server_caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.authentication.pki import FrontProxy
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster

_SERVICES = "apiservices.apiregistration.k8s.io"
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
MANAGED_LABEL = "kube-aggregator.kubernetes.io/automanaged"
LOCAL_AVAILABILITY = ("Local", "Local APIServices are always available")
Availability = tuple[str, str]

_CUSTOM_PRIORITIES = (1000, 100)
_AGGREGATOR_GROUP = "apiregistration.k8s.io"
# By group: its priority, and that of its only version.
_PRIORITIES = {
    "": (18000, 1),
    "apps": (17800, 15),
    "events.k8s.io": (17750, 15),
    "authentication.k8s.io": (17700, 15),
    "authorization.k8s.io": (17600, 15),
    "autoscaling": (17500, 15),
    "batch": (17400, 15),
    "certificates.k8s.io": (17300, 15),
    "networking.k8s.io": (17200, 15),
    "policy": (17100, 15),
    "rbac.authorization.k8s.io": (17000, 15),
    "storage.k8s.io": (16800, 15),
    "apiextensions.k8s.io": (16700, 15),
    "admissionregistration.k8s.io": (16700, 15),
    "scheduling.k8s.io": (16600, 15),
    "coordination.k8s.io": (16500, 15),
    "node.k8s.io": (16300, 15),
    "discovery.k8s.io": (16200, 15),
    "resource.k8s.io": (16200, 21),
    "flowcontrol.apiserver.k8s.io": (16100, 21),
}
_VERSIONS = {("autoscaling", "v2"): 30}
_SLICES = "endpointslices.discovery.k8s.io"
# Seconds between two looks at who does not answer.
_RETRY_SECONDS = 5.0


def local_condition(stamp: str) -> Obj:
    """Return the condition of a local group."""
    reason, message = LOCAL_AVAILABILITY
    return {
        "type": "Available", "status": "True", "lastTransitionTime": stamp,
        "reason": reason, "message": message,
    }  # fmt: skip


class AutoRegistrationController:
    """Creates and updates the APIServices of local groups."""

    def __init__(self, cluster: ApiServerCluster) -> None:
        self._cluster = cluster
        self._custom: dict[str, tuple[str, str]] = {}
        for group, version in [*cluster.kinds.group_versions()]:
            if group in _PRIORITIES:
                priority, order = _PRIORITIES[group]
                order = _VERSIONS.get((group, version), order)
                self._make(group, version, priority, order, "onstart")
        cluster.subscribe(_DEFINITIONS, self._definition_changed)

    def _definition_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        del change, new, old
        # The scheme is up to date once all handlers of definitions have run.
        self._cluster.clock.call_soon(self._renew_custom)

    def _renew_custom(self) -> None:
        served = {
            f"{version}.{group}": (group, version)
            for group, version in self._cluster.kinds.group_versions()
            if group not in _PRIORITIES and group != _AGGREGATOR_GROUP
        }
        for name in self._custom:
            if name not in served:
                with ignore_not_found():
                    self._cluster.delete(_SERVICES, name)
        for name, group_version in served.items():
            if name not in self._custom:
                self._make(*group_version, *_CUSTOM_PRIORITIES, "true")
        self._custom = served

    def _make(self, group: str, version: str, priority: int, order: int, managed: str) -> None:
        spec: Obj = {
            "version": version,
            "groupPriorityMinimum": priority,
            "versionPriority": order,
        }
        if group:
            spec["group"] = group
        name = f"{version}.{group}"
        if self._cluster.find(_SERVICES, name) is not None:
            return
        metadata = {"name": name, "labels": {MANAGED_LABEL: managed}}
        obj = {"metadata": metadata, "spec": spec}
        made = self._cluster.create(_SERVICES, obj, caller=server_caller())
        status = {"conditions": [local_condition(self._cluster.clock.stamp())]}
        self._cluster.update_status(
            _SERVICES, {**made, "status": status}, caller=internal_caller("")
        )


@dataclass(frozen=True, slots=True)
class AggregatedServer:
    """The server of a remote group.

    Args:
        host: its name or address.
        insecure: accept any certificate.
        authority: the trusted CA as PEM; empty for the system's.
        name: the name in its certificate.
        front_proxy: shows the server who forwards the requests.
        service_of: the cluster, if the host is the cluster IP of a service of it.
    """

    host: str
    port: int
    insecure: bool
    authority: str
    name: str
    front_proxy: FrontProxy
    service_of: ApiServerCluster | None = None

    @property
    def url(self) -> str:
        """The base URL."""
        return f"https://{self.host}:{self.port}"

    def trust(self) -> ssl.SSLContext:
        """Return the TLS context of connections.

        Raises:
            ValueError: `authority` is none.
            ssl.SSLError: the same.
        """
        context = make_client_context(self.authority)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self.front_proxy.identify(context)
        return context


def resolve_backend(cluster: ApiServerCluster, obj: Obj) -> AggregatedServer | None:
    """Return the server of an APIService, None without one."""
    spec = obj["spec"]
    reference = spec["service"]
    service = cluster.find("services", reference["name"], reference["namespace"])
    if service is None:
        return None
    is_external = service["spec"].get("type") == "ExternalName"
    if not is_external and get_pod_networks(cluster).current is None:
        # No program runs in the cluster, and no simulated one speaks TLS.
        return None
    return AggregatedServer(
        service["spec"].get("externalName" if is_external else "clusterIP", ""),
        reference.get("port", 443),
        bool(spec.get("insecureSkipTLSVerify")),
        base64.b64decode(spec.get("caBundle") or "").decode(errors="replace"),
        f"{reference['name']}.{reference['namespace']}.svc",
        cluster.front_proxy,
        None if is_external else cluster,
    )


def check_availability(cluster: ApiServerCluster, obj: Obj) -> Availability | None:
    """Return reason and message of an unavailable service; None for an available one."""
    reference = obj["spec"].get("service")
    if reference is None:
        return LOCAL_AVAILABILITY
    name, namespace = reference["name"], reference["namespace"]
    port = reference.get("port", 443)
    service_text = f'service/{name} in "{namespace}"'
    service = cluster.find("services", name, namespace)
    if service is None:
        return "ServiceNotFound", f"{service_text} is not present"
    if service["spec"].get("type") == "ExternalName":
        return None
    ports = [
        service_port
        for service_port in service["spec"].get("ports") or ()
        if service_port["port"] == port
    ]
    if not ports:
        return "ServicePortError", f"{service_text} is not listening on port {port}"
    slices = [
        slice_
        for slice_ in cluster.list(_SLICES, namespace)
        if (slice_["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name
    ]
    if not slices:
        return "EndpointsNotFound", f"cannot find endpointslices for {service_text}"
    port_name = ports[0].get("name") or ""
    if not any(
        (entry.get("name") or "") == port_name
        for slice_ in slices
        if any(
            (endpoint.get("conditions") or {}).get("ready")
            for endpoint in slice_.get("endpoints") or ()
        )
        for entry in slice_.get("ports") or ()
    ):
        why = f'endpointslices for {service_text} have no addresses with port name "{port_name}"'
        return "MissingEndpoints", why
    if get_pod_networks(cluster).current is not None:
        return None
    spec = obj["spec"]
    address = f"{service['spec'].get('clusterIP', '')}:{port}"
    url = f"https://{address}/apis/{spec['group']}/{spec['version']}"
    refused = f'Get "{url}": dial tcp {address}: connect: connection refused'
    return "FailedDiscoveryCheck", f"failing or missing response from {url}: {refused}"


class AvailabilityController:
    """Maintains the Available condition of remote APIServices and their discovery.

    Args:
        check: starts a check of a service, which reports condition and resources later.
    """

    def __init__(
        self,
        cluster: ApiServerCluster,
        check: Callable[
            [AggregatedServer, Obj, Callable[[Availability, list[Obj] | None], None]], None
        ],
    ) -> None:
        self._cluster = cluster
        self._check = check
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "apiservice-availability")
        cluster.subscribe(_SERVICES, self._changed)
        for resource in ("services", _SLICES):
            cluster.subscribe(resource, self._behind_changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        spec = new["spec"]
        key = (spec.get("group", ""), spec["version"])
        if change == "DELETED":
            self._cluster.kinds.elsewhere.pop(key, None)
            self._cluster.kinds.discovered.pop(key, None)
            self._queue.forget(name_of(new))
        elif spec.get("service") is not None:
            self._cluster.kinds.elsewhere[key] = new
            self._queue.add(name_of(new))
        elif "conditions" not in (new.get("status") or {}):
            self._queue.add(name_of(new))

    def _behind_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        del change
        space = new["metadata"]["namespace"]
        for obj in self._cluster.kinds.elsewhere.values():
            if obj["spec"]["service"]["namespace"] == space:
                self._queue.add(name_of(obj))

    def _sync(self, name: str) -> None:
        obj = self._cluster.find(_SERVICES, name)
        if obj is None:
            return
        availability = check_availability(self._cluster, obj)
        backend = resolve_backend(self._cluster, obj) if availability is None else None
        if availability is not None or backend is None:
            self._set_availability(name, availability or LOCAL_AVAILABILITY)
        else:
            self._check(backend, obj, lambda *answer: self._answered(name, *answer))

    def _answered(self, name: str, availability: Availability, resources: list[Obj] | None) -> None:
        obj = self._cluster.find(_SERVICES, name)
        if obj is not None:
            key = (obj["spec"].get("group", ""), obj["spec"]["version"])
            self._cluster.kinds.discovered.pop(key, None)
            if resources is not None:
                self._cluster.kinds.discovered[key] = resources
        self._set_availability(name, availability)
        if availability[0] != "Passed":
            self._queue.add_after(name, _RETRY_SECONDS)

    def _set_availability(self, name: str, availability: Availability) -> None:
        obj = self._cluster.find(_SERVICES, name)
        if obj is None:
            return
        reason, message = availability
        value = "True" if reason in ("Passed", LOCAL_AVAILABILITY[0]) else "False"
        status = clone(obj.get("status") or {})
        last: Obj = next(iter(status.get("conditions") or ()), {})
        if (last.get("status"), last.get("reason"), last.get("message")) == (
            value, reason, message
        ):  # fmt: skip
            return
        since = self._cluster.clock.stamp()
        if last.get("status") == value:
            since = last["lastTransitionTime"]
        status["conditions"] = [
            {
                "type": "Available", "status": value, "lastTransitionTime": since,
                "reason": reason, "message": message,
            }
        ]  # fmt: skip
        self._cluster.update_status(_SERVICES, {**obj, "status": status}, caller=server_caller())

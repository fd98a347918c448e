"""The Endpoints controller, and the service pods it shares with EndpointSlices.

In reading order: addresses and ports of pods for a service, the index of the pods that each
service selects, the controller of Endpoints.

Source: kube-controller-manager, endpoint/endpoints_controller.go; k8s.io/endpointslice/util.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.pod_control import is_namespace_terminating, is_ready
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    is_being_deleted,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster

TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
HEADLESS = "service.kubernetes.io/headless"
ENDPOINTS = "endpoints"
MANAGED_BY_LABEL = "endpoints.kubernetes.io/managed-by"

# Seconds of delay per pod of a service: one of 1,000 pods is synced at most once a second, so
# that the cost of a pod's change does not grow with their number.
_PAUSE_PER_POD = 0.001
_NAME = "endpoint-controller"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
# The maximum number of addresses per object; slices have the rest. Source:
# kube-controller-manager, endpoints_controller.go, `maxCapacity`.
_MAX_CAPACITY = 1000


def is_endpoint_pod(pod: Obj, *, terminating: bool) -> bool:
    """Return whether a pod is an endpoint.

    Args:
        pod: a selected pod.
        terminating: whether terminating pods count.

    Source: k8s.io/endpointslice util/controller_utils.go, `ShouldPodBeInEndpoints`.
    """
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return False
    if not status.get("podIP") and not status.get("podIPs"):
        return False
    return terminating or not is_being_deleted(pod)


def list_pod_addresses(pod: Obj, family: str) -> list[str]:
    """Return the pod's addresses of `IPv4` or `IPv6`."""
    status = pod.get("status") or {}
    texts = [pod_ip["ip"] for pod_ip in status.get("podIPs") or ()]
    texts = texts or ([status["podIP"]] if status.get("podIP") else [])
    return [text for text in texts if f"IPv{ipaddress.ip_address(text).version}" == family]


def has_cluster_ip(service: Obj) -> bool:
    """Return whether the service has a cluster IP; a service without one is headless."""
    return service["spec"].get("clusterIP") not in (None, "", "None")


def get_endpoint_hostname(pod: Obj, service: Obj) -> str | None:
    """Return the pod's host name below the service; None without one."""
    spec = pod["spec"]
    if spec.get("hostname") and spec.get("subdomain") == name_of(service):
        return str(spec["hostname"])
    return None


def find_pod_port(pod: Obj, port: Obj) -> int | None:
    """Return the pod's number of a service's port; None for an unknown name.

    Source: k8s.io/endpointslice utils.go, `FindPort`.
    """
    target = port.get("targetPort")
    if isinstance(target, int):
        return target or int(port["port"])
    if not target:
        return int(port["port"])
    sidecars = (
        container
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )
    for container in [*pod["spec"].get("containers", ()), *sidecars]:
        for container_port in container.get("ports") or ():
            same = container_port.get("protocol", "TCP") == port.get("protocol", "TCP")
            if container_port.get("name") == target and same:
                return int(container_port["containerPort"])
    return None


class TriggerTimeTracker:
    """Tracks the times of the changes behind an update.

    Source: k8s.io/endpointslice util/trigger_time_tracker.go.
    """

    def __init__(self) -> None:
        self._trigger_times_seen: dict[str, tuple[str, dict[str, str]]] = {}

    def next(self, key: str, service: Obj, pods: Iterable[Obj]) -> str | None:
        """Return the time of the first change since the last call; None without one."""
        service_before, pods_before = self._trigger_times_seen.get(key, ("", {}))
        times, changed = {}, []
        for pod in pods:
            ready = get_condition(pod, "Ready")
            since = ready.get("lastTransitionTime") if ready is not None else None
            if since:
                times[name_of(pod)] = since
                if since > pods_before.get(name_of(pod), ""):
                    changed.append(since)
        creation_timestamp = service["metadata"]["creationTimestamp"]
        if creation_timestamp > service_before:
            changed.append(creation_timestamp)
        self._trigger_times_seen[key] = (creation_timestamp, times)
        return min(changed, default=None)

    def forget(self, key: str) -> None:
        """Drop the state of a service."""
        self._trigger_times_seen.pop(key, None)


def _endpoint_fields(pod: Obj) -> tuple[object, ...]:
    """Return the fields of a pod that appear in endpoints.

    Source: k8s.io/endpointslice util/controller_utils.go, `podEndpointsChanged`.
    """
    status, spec = pod.get("status") or {}, pod["spec"]
    return (
        "deletionTimestamp" in pod["metadata"],
        status.get("phase") in ("Succeeded", "Failed"),
        status.get("podIPs"),
        status.get("podIP"),
        spec.get("nodeName"),
        is_ready(pod),
        labels_of(pod),
    )


class ServicePods:
    """The services of a cluster and their pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._selectors: dict[str, dict[str, Obj]] = {}
        self._pods: dict[str, dict[str, Obj]] = {}
        self._listeners: list[Callable[[str, float], None]] = []
        cluster.subscribe("services", self._service_changed)
        cluster.subscribe("pods", self._pod_changed)

    def listen(self, listener: Callable[[str, float], None]) -> None:
        """Call `listener(service key, seconds)` when a service or its selected pods change.

        The seconds are the maximum delay of the sync.
        """
        self._listeners.append(listener)
        for namespace, selectors in self._selectors.items():
            for name in selectors:
                listener(f"{namespace}/{name}", 0.0)

    def of(self, key: str) -> list[Obj]:
        """Return the pods of a service."""
        return list(self._pods.get(key, {}).values())

    def _notify(self, key: str, pause: float) -> None:
        for listener in self._listeners:
            listener(key, pause)

    def _service_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, namespace, name = key_of(new), namespace_of(new), name_of(new)
        selector = new["spec"].get("selector") or {}
        if change == "DELETED":
            selectors = self._selectors.get(namespace, {})
            selectors.pop(name, None)
            if not selectors:
                self._selectors.pop(namespace, None)
            self._pods.pop(key, None)
        elif not selector:
            self._selectors.get(namespace, {}).pop(name, None)
            self._pods.pop(key, None)
        elif old is None or (old["spec"].get("selector") or {}) != selector:
            self._selectors.setdefault(namespace, {})[name] = selector
            self._pods[key] = {
                uid_of(pod): pod
                for pod in self._cluster.list("pods", namespace)
                if selector.items() <= labels_of(pod).items()
            }
        self._notify(key, 0.0)

    def _pod_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        selectors = self._selectors.get(namespace_of(new))
        if not selectors:
            return
        matters = (
            change == "DELETED" or old is None or _endpoint_fields(new) != _endpoint_fields(old)
        )
        uid, labels = uid_of(new), labels_of(new).items()
        for name, selector in selectors.items():
            key = f"{namespace_of(new)}/{name}"
            pods = self._pods.setdefault(key, {})
            known = uid in pods
            if change != "DELETED" and selector.items() <= labels:
                pods[uid] = new
            elif known:
                del pods[uid]
            else:
                continue
            if matters:
                self._notify(key, len(pods) * _PAUSE_PER_POD)

    def service(self, key: str) -> Obj | None:
        """Return the service with this key; None if it does not exist."""
        namespace, name = split_key(key)
        return self._cluster.find("services", name, namespace)


def build_subsets(service: Obj, pods: Iterable[Obj]) -> list[Obj]:
    """Return the addresses of `pods`, grouping ports with equal addresses.

    The order of ports is the service's; upstream's is that of a hash.

    Source: kubernetes pkg/api/v1/endpoints/util.go, `RepackSubsets`.
    """
    spec = service["spec"]
    always = bool(spec.get("publishNotReadyAddresses"))
    family = (spec.get("ipFamilies") or ["IPv4"])[0]
    ports: list[Obj | None] = [*(spec.get("ports") or ())]
    if not ports and not has_cluster_ip(service):
        ports = [None]
    by_port: dict[str, tuple[Obj | None, list[tuple[bool, Obj]]]] = {}
    for pod in pods:
        addresses = list_pod_addresses(pod, family)
        if not addresses or not is_endpoint_pod(pod, terminating=always):
            continue
        address = _make_address(service, pod, addresses[0])
        for port in ports:
            endpoint_port = _make_port(pod, port) if port is not None else None
            if port is None or endpoint_port is not None:
                group = by_port.setdefault(repr(endpoint_port), (endpoint_port, []))
                group[1].append((always or is_ready(pod), address))
    merged: dict[str, tuple[list[Obj], list[tuple[bool, Obj]]]] = {}
    for endpoint_port, addresses_ in by_port.values():
        addresses_.sort(key=lambda pair: int(ipaddress.ip_address(pair[1]["ip"])))
        same = merged.setdefault(repr(addresses_), ([], addresses_))
        if endpoint_port is not None:
            same[0].append(endpoint_port)
    subsets = []
    for some_ports, addresses_ in merged.values():
        subset: Obj = {}
        for name, readiness in (("addresses", True), ("notReadyAddresses", False)):
            selected_addresses = [address for ready, address in addresses_ if ready is readiness]
            if selected_addresses:
                subset[name] = selected_addresses
        if some_ports:
            subset["ports"] = some_ports
        subsets.append(subset)
    return subsets


def _make_port(pod: Obj, port: Obj) -> Obj | None:
    number = find_pod_port(pod, port)
    if number is None:
        return None
    endpoint_port: Obj = {"port": number, "protocol": port.get("protocol", "TCP")}
    for name in ("name", "appProtocol"):
        if port.get(name):
            endpoint_port[name] = port[name]
    return endpoint_port


def _make_address(service: Obj, pod: Obj, ip: str) -> Obj:
    metadata = pod["metadata"]
    address: Obj = {
        "ip": ip,
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    if pod["spec"].get("nodeName"):
        address["nodeName"] = pod["spec"]["nodeName"]
    name = get_endpoint_hostname(pod, service)
    if name is not None:
        address["hostname"] = name
    return address


def _truncate_subsets(subsets: list[Obj]) -> bool:
    """Remove addresses beyond the maximum, ready ones last; return whether there were any."""
    names = ("addresses", "notReadyAddresses")
    if sum(len(subset.get(name, ())) for subset in subsets for name in names) <= _MAX_CAPACITY:
        return False
    capacity = _MAX_CAPACITY
    for name in names:
        for subset in subsets:
            addresses = subset.get(name, [])[:capacity]
            capacity -= len(addresses)
            if addresses:
                subset[name] = addresses
            else:
                subset.pop(name, None)
    return True


class EndpointsController:
    """Updates the Endpoints of services with a selector.

    Args:
        selected: its services and their pods.

    Source: kube-controller-manager, endpoints_controller.go.
    """

    def __init__(self, cluster: Cluster, selected: ServicePods) -> None:
        self._cluster = cluster
        self._selected = selected
        self._recorder = EventRecorder(cluster, _NAME)
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, _NAME)
        self._times = TriggerTimeTracker()
        selected.listen(lambda key, pause: self._queue.add_after(key, pause, scaled=False))
        cluster.subscribe(ENDPOINTS, self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            self._queue.add(key_of(new))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        service = self._selected.service(key)
        if service is None:
            self._times.forget(key)
            if self._cluster.find(ENDPOINTS, name, namespace) is not None:
                self._cluster.delete(ENDPOINTS, name, namespace)
            return
        spec = service["spec"]
        if spec.get("type") == "ExternalName" or not spec.get("selector"):
            return
        pods = self._selected.of(key)
        time = self._times.next(key, service, pods)
        subsets = build_subsets(service, pods)
        truncated = _truncate_subsets(subsets)
        labels = {**labels_of(service), MANAGED_BY_LABEL: _NAME}
        labels.pop(HEADLESS, None)
        if not has_cluster_ip(service):
            labels[HEADLESS] = ""
        endpoint = self._cluster.find(ENDPOINTS, name, namespace)
        if endpoint is not None:
            was_truncated = _OVER_CAPACITY in (endpoint["metadata"].get("annotations") or {})
            same = (endpoint.get("subsets") or []) == subsets and labels_of(endpoint) == labels
            if same and was_truncated == truncated:
                return
        metadata: Obj = {"name": name} if endpoint is None else dict(endpoint["metadata"])
        annotations = {**(metadata.get("annotations") or {})}
        for annotation, value in (
            (TRIGGER_TIME, time),
            (_OVER_CAPACITY, "truncated" if truncated else None),
        ):
            annotations.pop(annotation, None)
            if value is not None:
                annotations[annotation] = value
        metadata.update(namespace=namespace, labels=labels, annotations=annotations)
        self._write(endpoint, {"metadata": metadata, "subsets": subsets})

    def _write(self, stored_endpoints: Obj | None, obj: Obj) -> None:
        try:
            if stored_endpoints is None:
                self._cluster.create(ENDPOINTS, obj, namespace_of(obj))
            else:
                self._cluster.update(ENDPOINTS, {**stored_endpoints, **obj})
        except StatusError as error:
            if is_namespace_terminating(error):
                return
            verb, target_text = (
                ("create", "for service ") if stored_endpoints is None else ("update", "")
            )
            about = f"{namespace_of(obj)}/{name_of(obj)}"
            message = f"Failed to {verb} endpoint {target_text}{about}: {error.message}"
            reason = f"FailedTo{verb.capitalize()}Endpoint"
            self._recorder.event(obj, ("v1", "Endpoints"), WARNING, reason, message)
            raise

"""The controller of Endpoints, the form before slices."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.addresses import (
    HEADLESS,
    TRIGGER_TIME,
    TriggerTimeTracker,
    find_pod_port,
    get_endpoint_hostname,
    has_cluster_ip,
    is_endpoint_pod,
    list_pod_addresses,
)
from pytest_kwait.simulator.controllers.controller_refs import key_of, split_key
from pytest_kwait.simulator.controllers.pod_control import is_namespace_terminating, is_ready
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import WARNING, EventRecorder
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.selected_pods import ServicePods

__all__ = ["ENDPOINTS", "MANAGED_BY_LABEL", "EndpointsController", "build_subsets"]

ENDPOINTS = "endpoints"
MANAGED_BY_LABEL = "endpoints.kubernetes.io/managed-by"
_NAME = "endpoint-controller"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
# Addresses of one object; what is beyond is told in slices only.
# Source: kube-controller-manager, endpoints_controller.go, `maxCapacity`.
_MAX_CAPACITY = 1000


def build_subsets(service: Obj, pods: Iterable[Obj]) -> list[Obj]:
    """Return the addresses of `pods`, the ports with the same ones together.

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
            shown = _make_port(pod, port) if port is not None else None
            if port is None or shown is not None:
                group = by_port.setdefault(repr(shown), (shown, []))
                group[1].append((always or is_ready(pod), address))
    merged: dict[str, tuple[list[Obj], list[tuple[bool, Obj]]]] = {}
    for shown, addresses_ in by_port.values():
        addresses_.sort(key=lambda pair: int(ipaddress.ip_address(pair[1]["ip"])))
        same = merged.setdefault(repr(addresses_), ([], addresses_))
        if shown is not None:
            same[0].append(shown)
    subsets = []
    for some_ports, addresses_ in merged.values():
        subset: Obj = {}
        for name, wanted in (("addresses", True), ("notReadyAddresses", False)):
            found = [address for ready, address in addresses_ if ready is wanted]
            if found:
                subset[name] = found
        if some_ports:
            subset["ports"] = some_ports
        subsets.append(subset)
    return subsets


def _make_port(pod: Obj, port: Obj) -> Obj | None:
    number = find_pod_port(pod, port)
    if number is None:
        return None
    shown: Obj = {"port": number, "protocol": port.get("protocol", "TCP")}
    for name in ("name", "appProtocol"):
        if port.get(name):
            shown[name] = port[name]
    return shown


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
        address["get_endpoint_hostname"] = name
    return address


def _truncate_subsets(subsets: list[Obj]) -> bool:
    """Leave out what is beyond the most that fits, ready ones last; whether there was any."""
    names = ("addresses", "notReadyAddresses")
    if sum(len(one.get(name, ())) for one in subsets for name in names) <= _MAX_CAPACITY:
        return False
    room = _MAX_CAPACITY
    for name in names:
        for subset in subsets:
            kept = subset.get(name, [])[:room]
            room -= len(kept)
            if kept:
                subset[name] = kept
            else:
                subset.pop(name, None)
    return True


class EndpointsController:
    """Keeps the Endpoints of the services that select pods.

    Args:
        api: the cluster.
        selected: its services and their pods.

    Source: kube-controller-manager, endpoints_controller.go.
    """

    def __init__(self, api: SimulatedCluster, selected: ServicePods) -> None:
        self._api = api
        self._selected = selected
        self._recorder = EventRecorder(api, _NAME)
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, _NAME)
        self._times = TriggerTimeTracker()
        selected.listen(lambda key, pause: self._queue.add_after(key, pause, scaled=False))
        api.subscribe(ENDPOINTS, self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            self._queue.add(key_of(new))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        service = self._selected.service(key)
        if service is None:
            self._times.forget(key)
            if self._api.find(ENDPOINTS, name, namespace) is not None:
                self._api.delete(ENDPOINTS, name, namespace)
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
        present = self._api.find(ENDPOINTS, name, namespace)
        if present is not None:
            told = _OVER_CAPACITY in (present["metadata"].get("annotations") or {})
            same = (present.get("subsets") or []) == subsets and labels_of(present) == labels
            if same and told == truncated:
                return
        metadata: Obj = {"name": name} if present is None else dict(present["metadata"])
        annotations = {**(metadata.get("annotations") or {})}
        for annotation, value in (
            (TRIGGER_TIME, time),
            (_OVER_CAPACITY, "truncated" if truncated else None),
        ):
            annotations.pop(annotation, None)
            if value is not None:
                annotations[annotation] = value
        metadata.update(namespace=namespace, labels=labels, annotations=annotations)
        self._write(present, {"metadata": metadata, "subsets": subsets})

    def _write(self, present: Obj | None, obj: Obj) -> None:
        try:
            if present is None:
                self._api.create(ENDPOINTS, obj, namespace_of(obj))
            else:
                self._api.update(ENDPOINTS, {**present, **obj})
        except StatusError as error:
            if is_namespace_terminating(error):
                return
            verb, what = ("create", "for service ") if present is None else ("update", "")
            about = f"{namespace_of(obj)}/{name_of(obj)}"
            message = f"Failed to {verb} endpoint {what}{about}: {error.message}"
            reason = f"FailedTo{verb.capitalize()}Endpoint"
            self._recorder.event(obj, ("v1", "Endpoints"), WARNING, reason, message)
            raise

"""The EndpointSlice controller and the EndpointSlice mirroring controller.

In reading order: the distribution of endpoints over slices with few changes, the controller of
slices, the mirroring controller. They write only slices.

Source: k8s.io/endpointslice reconciler.go (`reconcileByPortMapping`, `finalize`);
kube-controller-manager, endpointslice, endpointslicemirroring.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError, ignore_not_found
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.endpoint import (
    ENDPOINTS,
    HEADLESS,
    TRIGGER_TIME,
    ServicePods,
    TriggerTimeTracker,
    find_pod_port,
    get_endpoint_hostname,
    has_cluster_ip,
    is_endpoint_pod,
    list_pod_addresses,
)
from pytest_kwait.simulator.controllers.pod_control import is_namespace_terminating, is_ready
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import WARNING, EventRecorder
from pytest_kwait.simulator.objects import Obj, is_being_deleted, labels_of, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
SLICE_MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"

MAX_ENDPOINTS_PER_SLICE = 100
"""The maximum number of endpoints per slice; upstream, `max-endpoints-per-slice`."""
SLICES = "endpointslices.discovery.k8s.io"

# Seconds between failed syncs. Source: kube-controller-manager, endpointslice_controller.go and
# endpointslicemirroring_controller.go, `defaultSyncBackOff`, `maxSyncBackOff`.
_BASE_DELAY = 1.0
_MIRRORING_MAX_DELAY = 100.0
_SLICE_CONTROLLER = "endpointslice-controller.k8s.io"
_ZONE = "topology.kubernetes.io/zone"

_MIRRORING_CONTROLLER = "endpointslicemirroring-controller.k8s.io"
_SKIP = "endpointslice.kubernetes.io/skip-mirror"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The maximum number of mirrored addresses per subset.
# Source: kube-controller-manager, `mirroring-max-endpoints-per-subset`.
_MAX_ENDPOINTS_PER_SUBSET = 1000


@dataclass(slots=True)
class SliceChanges:
    """The slices to create, update and delete."""

    create: list[Obj] = field(default_factory=list)
    update: list[Obj] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)


def _identity(endpoint: Obj) -> tuple[object, ...]:
    target = endpoint.get("targetRef") or {}
    return (target.get("uid") or target.get("name"), *sorted(endpoint["addresses"]))


def plan_slices(
    endpoint_groups: Sequence[tuple[list[Obj], list[Obj]]],
    slices: Sequence[Obj],
    labels: dict[str, str],
    *,
    most: int = MAX_ENDPOINTS_PER_SLICE,
    empty: bool = True,
) -> SliceChanges:
    """Return the changes that turn `slices` into `endpoint_groups`.

    Args:
        endpoint_groups: ports, each with its endpoints.
        slices: the slices of the service.
        labels: the labels of the slices.
        most: the maximum number of endpoints per slice.
        empty: whether a service without endpoints has an empty slice.
    """
    plan = SliceChanges()
    remaining_slices = list(slices)
    for ports, endpoints in endpoint_groups:
        same = [slice_ for slice_ in remaining_slices if (slice_.get("ports") or []) == ports]
        remaining_slices = [slice_ for slice_ in remaining_slices if slice_ not in same]
        _fill_slices(plan, ports, endpoints, same, labels, most)
    plan.delete += remaining_slices
    if empty and len(plan.delete) == len(slices) and not plan.create:
        if len(plan.delete) == 1 and _is_placeholder(plan.delete[0], labels):
            plan.delete.clear()
        else:
            plan.create.append({"endpoints": [], "ports": []})
    while plan.create and plan.delete:
        # A slice to delete is reused for other contents, which keeps its name.
        plan.update.append({**plan.delete.pop(0), **plan.create.pop(0)})
    return plan


def _is_placeholder(slice_: Obj, labels: dict[str, str]) -> bool:
    empty = not slice_.get("endpoints") and not slice_.get("ports")
    return empty and labels_of(slice_) == labels


def _fill_slices(
    plan: SliceChanges,
    ports: list[Obj],
    endpoints: list[Obj],
    slices: list[Obj],
    labels: dict[str, str],
    most: int,
) -> None:
    missing = {_identity(endpoint): endpoint for endpoint in endpoints}
    contents: dict[str, list[Obj]] = {}
    changed: dict[str, None] = {}
    for slice_ in slices:
        before = slice_.get("endpoints") or []
        kept_endpoints = [
            endpoint
            for previous_endpoint in before
            if (endpoint := missing.pop(_identity(previous_endpoint), None)) is not None
        ]
        contents[name_of(slice_)] = kept_endpoints
        if kept_endpoints != before or labels_of(slice_) != labels:
            changed[name_of(slice_)] = None
    remaining_endpoints = list(missing.values())
    for name in sorted(changed, key=lambda name: -len(contents[name])):
        if contents[name]:
            capacity = most - len(contents[name])
            contents[name] += remaining_endpoints[:capacity]
            remaining_endpoints = remaining_endpoints[capacity:]
    while remaining_endpoints:
        batch, remaining_endpoints = remaining_endpoints[:most], remaining_endpoints[most:]
        fitting = [
            name
            for name, slice_endpoints in contents.items()
            if slice_endpoints and name not in changed and len(slice_endpoints) + len(batch) <= most
        ]
        if fitting:
            fullest = max(fitting, key=lambda name: len(contents[name]))
            contents[fullest] += batch
            changed[fullest] = None
        else:
            plan.create.append({"endpoints": batch, "ports": ports})
    for slice_ in slices:
        name = name_of(slice_)
        if not contents[name]:
            plan.delete.append(slice_)
        elif name in changed:
            plan.update.append({**slice_, "endpoints": contents[name]})


class SliceIndex:
    """The slices of one controller by the key of their service.

    Args:
        writer: the value of their label `endpointslice.kubernetes.io/managed-by`.
        queue: receives the service of a slice that another writer changed.
    """

    def __init__(self, cluster: Cluster, writer: str, queue: Workqueue[str]) -> None:
        self._writer = writer
        self._queue = queue
        self._by_service: dict[str, dict[str, Obj]] = {}
        cluster.subscribe(SLICES, self._changed)

    def of(self, key: str) -> list[Obj]:
        """Return the slices of a service that are not being deleted."""
        slices = self._by_service.get(key, {}).values()
        return [slice_ for slice_ in slices if not is_being_deleted(slice_)]

    def _key(self, obj: Obj | None) -> str | None:
        if obj is None or labels_of(obj).get(SLICE_MANAGED_BY_LABEL) != self._writer:
            return None
        name = labels_of(obj).get(SERVICE_NAME_LABEL)
        return f"{namespace_of(obj)}/{name}" if name else None

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        before, after = self._key(old), self._key(new) if change != "DELETED" else None
        if change == "DELETED" and before is None:
            before = self._key(new)
        if before is not None and before != after:
            slices = self._by_service.get(before, {})
            slices.pop(name_of(new), None)
            if not slices:
                self._by_service.pop(before, None)
        if after is not None:
            self._by_service.setdefault(after, {})[name_of(new)] = new
        for key in dict.fromkeys((before, after)):
            if key is not None:
                self._queue.add(key)


class EndpointSliceController:
    """Updates the slices of services with a selector.

    Args:
        selected: its services and their pods.

    Source: k8s.io/endpointslice reconciler.go; kube-controller-manager,
    endpointslice_controller.go.
    """

    def __init__(self, cluster: Cluster, selected: ServicePods) -> None:
        self._cluster = cluster
        self._selected = selected
        self._recorder = EventRecorder(cluster, "endpoint-slice-controller")
        self._queue: Workqueue[str] = Workqueue(
            cluster, self._sync, "endpoint-slice-controller", base_delay=_BASE_DELAY
        )
        self._slices = SliceIndex(cluster, _SLICE_CONTROLLER, self._queue)
        self._times = TriggerTimeTracker()
        selected.listen(lambda key, pause: self._queue.add_after(key, pause, scaled=False))

    def _sync(self, key: str) -> None:
        service = self._selected.service(key)
        if service is None:
            # The garbage collector deletes its slices.
            self._times.forget(key)
            return
        spec = service["spec"]
        if spec.get("type") == "ExternalName" or not spec.get("selector"):
            return
        pods = self._selected.of(key)
        time = self._times.next(key, service, pods)
        try:
            self._reconcile(service, pods, self._slices.of(key), time)
        except StatusError as error:
            if is_namespace_terminating(error):
                return
            message = f"Error updating Endpoint Slices for Service {key}: {error.message}"
            kind = ("v1", "Service")
            self._recorder.event(service, kind, WARNING, "FailedToUpdateEndpointSlices", message)
            raise

    def _reconcile(
        self, service: Obj, pods: list[Obj], existing: list[Obj], time: str | None
    ) -> None:
        families = service["spec"].get("ipFamilies") or ["IPv4"]
        for stale in existing:
            if stale["addressType"] not in families:
                self._delete(stale)
        labels = self._labels(service)
        for family in families:
            endpoint_groups: dict[str, tuple[list[Obj], list[Obj]]] = {}
            for pod in pods:
                addresses = list_pod_addresses(pod, family)
                if addresses and is_endpoint_pod(pod, terminating=True):
                    ports = self._ports(service, pod)
                    group = endpoint_groups.setdefault(repr(ports), (ports, []))
                    group[1].append(self._endpoint(service, pod, addresses))
            slices = [slice_ for slice_ in existing if slice_["addressType"] == family]
            plan = plan_slices(list(endpoint_groups.values()), slices, labels)
            for content in plan.create:
                self._create(service, family, labels, content, time)
            for changed in plan.update:
                self._cluster.update(SLICES, _with_trigger_time({**changed, "metadata": {
                    **changed["metadata"], "labels": labels}}, time))  # fmt: skip
            for unwanted in plan.delete:
                self._delete(unwanted)

    def _create(
        self, service: Obj, family: str, labels: dict[str, str], content: Obj, time: str | None
    ) -> None:
        slice_ = {
            "metadata": {
                "generateName": f"{name_of(service)}-",
                "namespace": namespace_of(service),
                "labels": labels,
                "ownerReferences": [make_controller_ref(service, "v1", "Service")],
            },
            "addressType": family,
            **content,
        }
        self._cluster.create(SLICES, _with_trigger_time(slice_, time), namespace_of(service))

    def _delete(self, slice_: Obj) -> None:
        with ignore_not_found():
            self._cluster.delete(SLICES, name_of(slice_), namespace_of(slice_))

    def _labels(self, service: Obj) -> dict[str, str]:
        reserved = (SERVICE_NAME_LABEL, SLICE_MANAGED_BY_LABEL, HEADLESS)
        labels = {name: value for name, value in labels_of(service).items() if name not in reserved}
        if not has_cluster_ip(service):
            labels[HEADLESS] = ""
        return {
            **labels,
            SERVICE_NAME_LABEL: name_of(service),
            SLICE_MANAGED_BY_LABEL: _SLICE_CONTROLLER,
        }

    def _ports(self, service: Obj, pod: Obj) -> list[Obj]:
        ports = []
        for port in service["spec"].get("ports") or ():
            number = find_pod_port(pod, port)
            if number is not None:
                endpoint_port = {
                    "name": port.get("name", ""),
                    "port": number,
                    "protocol": port.get("protocol", "TCP"),
                }
                if port.get("appProtocol"):
                    endpoint_port["appProtocol"] = port["appProtocol"]
                ports.append(endpoint_port)
        return ports

    def _endpoint(self, service: Obj, pod: Obj, addresses: list[str]) -> Obj:
        serving, terminating = is_ready(pod), is_being_deleted(pod)
        always = bool(service["spec"].get("publishNotReadyAddresses"))
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        endpoint: Obj = {
            "addresses": addresses,
            "conditions": {
                "ready": always or (serving and not terminating),
                "serving": serving,
                "terminating": terminating,
            },
            "targetRef": {
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        }
        name = get_endpoint_hostname(pod, service)
        if name is not None:
            endpoint["hostname"] = name
        if node:
            endpoint["nodeName"] = node
            node_object = self._cluster.find("nodes", node)
            zone = labels_of(node_object).get(_ZONE) if node_object is not None else None
            if zone:
                endpoint["zone"] = zone
        return endpoint


def _with_trigger_time(slice_: Obj, time: str | None) -> Obj:
    metadata = slice_["metadata"]
    annotations = {**(metadata.get("annotations") or {})}
    annotations.pop(TRIGGER_TIME, None)
    if time is not None:
        annotations[TRIGGER_TIME] = time
    return {**slice_, "metadata": {**metadata, "annotations": annotations}}


def mirror_endpoints(endpoints: Obj) -> dict[str, list[tuple[list[Obj], list[Obj]]]]:
    """Return the ports and endpoints of `endpoints` by address family.

    Source: kube-controller-manager, endpointslicemirroring reconciler.go.
    """
    groups: dict[str, dict[str, tuple[list[Obj], list[Obj]]]] = {}
    for subset in endpoints.get("subsets") or ():
        ports = [{"name": "", "protocol": "TCP", **port} for port in subset.get("ports") or ()]
        capacity = _MAX_ENDPOINTS_PER_SUBSET
        for key, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in (subset.get(key) or ())[:capacity]:
                capacity -= 1
                family = f"IPv{ipaddress.ip_address(address['ip']).version}"
                endpoint = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
                for name in ("targetRef", "nodeName", "hostname"):
                    if address.get(name):
                        endpoint[name] = address[name]
                of_family = groups.setdefault(family, {})
                of_family.setdefault(repr(ports), (ports, []))[1].append(endpoint)
    return {family: list(of_family.values()) for family, of_family in groups.items()}


class EndpointSliceMirroringController:
    """Mirrors Endpoints of services without a selector to slices.

    Args:
        selected: its services.

    Source: kube-controller-manager, endpointslicemirroring_controller.go.
    """

    def __init__(self, cluster: Cluster, selected: ServicePods) -> None:
        self._cluster = cluster
        self._selected = selected
        self._queue: Workqueue[str] = Workqueue(
            cluster,
            self._sync,
            "endpoint-slice-mirroring-controller",
            base_delay=_BASE_DELAY,
            max_delay=_MIRRORING_MAX_DELAY,
        )
        self._slices = SliceIndex(cluster, _MIRRORING_CONTROLLER, self._queue)
        selected.listen(lambda key, pause: self._queue.add_after(key, pause, scaled=False))
        cluster.subscribe(ENDPOINTS, lambda _change, new, _old: self._queue.add(key_of(new)))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        existing = self._slices.of(key)
        service = self._selected.service(key)
        endpoints = self._cluster.find(ENDPOINTS, name, namespace)
        if (
            service is None
            or service["spec"].get("selector")
            or endpoints is None
            or labels_of(endpoints).get(_SKIP) == "true"
        ):
            for unwanted in existing:
                self._delete(unwanted)
            return
        labels = {
            **labels_of(endpoints),
            SERVICE_NAME_LABEL: name,
            SLICE_MANAGED_BY_LABEL: _MIRRORING_CONTROLLER,
        }
        present_annotations = endpoints["metadata"].get("annotations") or {}
        annotations = {
            key: value
            for key, value in present_annotations.items()
            if key not in (TRIGGER_TIME, _LAST_APPLIED)
        }
        groups = mirror_endpoints(endpoints)
        for family in sorted({*groups, *(slice_["addressType"] for slice_ in existing)}):
            slices = [slice_ for slice_ in existing if slice_["addressType"] == family]
            plan = plan_slices(
                groups.get(family, []), slices, labels, most=_MAX_ENDPOINTS_PER_SUBSET, empty=False
            )
            for content in plan.create:
                self._create(endpoints, labels, annotations, {"addressType": family, **content})
            for changed in plan.update:
                metadata = {**changed["metadata"], "labels": labels, "annotations": annotations}
                self._cluster.update(SLICES, {**changed, "metadata": metadata})
            for unwanted in plan.delete:
                self._delete(unwanted)

    def _create(
        self, endpoints: Obj, labels: dict[str, str], annotations: dict[str, str], content: Obj
    ) -> None:
        metadata = {
            "generateName": f"{name_of(endpoints)}-",
            "namespace": namespace_of(endpoints),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [make_controller_ref(endpoints, "v1", "Endpoints")],
        }
        try:
            self._cluster.create(SLICES, {"metadata": metadata, **content}, namespace_of(endpoints))
        except StatusError as error:
            if not is_namespace_terminating(error):
                raise

    def _delete(self, slice_: Obj) -> None:
        with ignore_not_found():
            self._cluster.delete(SLICES, name_of(slice_), namespace_of(slice_))

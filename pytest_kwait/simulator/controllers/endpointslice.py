"""The controller of EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.conditions import is_being_deleted
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
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.packing import (
    SERVICE_NAME_LABEL,
    SLICE_MANAGED_BY_LABEL,
    plan_slices,
)
from pytest_kwait.simulator.controllers.pod_control import is_namespace_terminating, is_ready
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import WARNING, EventRecorder
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.selected_pods import ServicePods

__all__ = ["SLICES", "EndpointSliceController", "SliceIndex"]

SLICES = "endpointslices.discovery.k8s.io"
_SLICE_CONTROLLER = "endpointslice-controller.k8s.io"
_ZONE = "topology.kubernetes.io/zone"


class SliceIndex:
    """The slices of one writer by the key of their service.

    Args:
        api: the cluster.
        writer: the value of their label `endpointslice.kubernetes.io/managed-by`.
        queue: where a service goes whose slices somebody changes.
    """

    def __init__(self, api: SimulatedCluster, writer: str, queue: Workqueue[str]) -> None:
        self._writer = writer
        self._queue = queue
        self._by_service: dict[str, dict[str, Obj]] = {}
        api.subscribe(SLICES, self._changed)

    def of(self, key: str) -> list[Obj]:
        """Return the slices of a service that are not being deleted."""
        found = self._by_service.get(key, {}).values()
        return [one for one in found if not is_being_deleted(one)]

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
        for key in {before, after} - {None}:
            if key is not None:
                self._queue.add(key)


class EndpointSliceController:
    """Keeps the slices of the services that select pods.

    Args:
        api: the cluster.
        selected: its services and their pods.

    Source: k8s.io/endpointslice reconciler.go; kube-controller-manager,
    endpointslice_controller.go.
    """

    def __init__(self, api: SimulatedCluster, selected: ServicePods) -> None:
        self._api = api
        self._selected = selected
        self._recorder = EventRecorder(api, "endpoint-slice-controller")
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "endpoint-slice-controller")
        self._slices = SliceIndex(api, _SLICE_CONTROLLER, self._queue)
        self._times = TriggerTimeTracker()
        selected.listen(lambda key, pause: self._queue.add_after(key, pause, scaled=False))

    def _sync(self, key: str) -> None:
        service = self._selected.service(key)
        if service is None:
            # Its slices go with it: it owns them.
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
            wanted: dict[str, tuple[list[Obj], list[Obj]]] = {}
            for pod in pods:
                addresses = list_pod_addresses(pod, family)
                if addresses and is_endpoint_pod(pod, terminating=True):
                    ports = self._ports(service, pod)
                    group = wanted.setdefault(repr(ports), (ports, []))
                    group[1].append(self._endpoint(service, pod, addresses))
            present = [one for one in existing if one["addressType"] == family]
            plan = plan_slices(list(wanted.values()), present, labels)
            for content in plan.create:
                self._create(service, family, labels, content, time)
            for changed in plan.update:
                self._api.update(SLICES, _with_trigger_time({**changed, "metadata": {
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
        self._api.create(SLICES, _with_trigger_time(slice_, time), namespace_of(service))

    def _delete(self, slice_: Obj) -> None:
        try:
            self._api.delete(SLICES, name_of(slice_), namespace_of(slice_))
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    def _labels(self, service: Obj) -> dict[str, str]:
        reserved = (SERVICE_NAME_LABEL, SLICE_MANAGED_BY_LABEL, HEADLESS)
        labels = {name: one for name, one in labels_of(service).items() if name not in reserved}
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
                shown = {
                    "name": port.get("name", ""),
                    "port": number,
                    "protocol": port.get("protocol", "TCP"),
                }
                if port.get("appProtocol"):
                    shown["appProtocol"] = port["appProtocol"]
                ports.append(shown)
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
            endpoint["get_endpoint_hostname"] = name
        if node:
            endpoint["nodeName"] = node
            found = self._api.find("nodes", node)
            zone = labels_of(found).get(_ZONE) if found is not None else None
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

"""The controller that copies Endpoints made by hand to slices."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.addresses import TRIGGER_TIME
from pytest_kwait.simulator.controllers.controller_refs import (
    key_of,
    make_controller_ref,
    split_key,
)
from pytest_kwait.simulator.controllers.endpoint import ENDPOINTS
from pytest_kwait.simulator.controllers.endpointslice import SLICES, SliceIndex
from pytest_kwait.simulator.controllers.packing import (
    SERVICE_NAME_LABEL,
    SLICE_MANAGED_BY_LABEL,
    plan_slices,
)
from pytest_kwait.simulator.controllers.pod_control import is_namespace_terminating
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.selected_pods import ServicePods

__all__ = ["EndpointSliceMirroringController", "mirror_endpoints"]

_MIRRORING_CONTROLLER = "endpointslicemirroring-controller.k8s.io"
_SKIP = "endpointslice.kubernetes.io/skip-mirror"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Addresses that are copied of one subset, at most.
# Source: kube-controller-manager, `mirroring-max-endpoints-per-subset`.
_MAX_ENDPOINTS_PER_SUBSET = 1000


def mirror_endpoints(endpoints: Obj) -> dict[str, list[tuple[list[Obj], list[Obj]]]]:
    """Return ports and endpoints by family of what `endpoints` tells.

    Source: kube-controller-manager, endpointslicemirroring reconciler.go.
    """
    groups: dict[str, dict[str, tuple[list[Obj], list[Obj]]]] = {}
    for subset in endpoints.get("subsets") or ():
        ports = [{"name": "", "protocol": "TCP", **port} for port in subset.get("ports") or ()]
        room = _MAX_ENDPOINTS_PER_SUBSET
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in (subset.get(field) or ())[:room]:
                room -= 1
                family = f"IPv{ipaddress.ip_address(address['ip']).version}"
                endpoint = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
                for name in ("targetRef", "nodeName", "hostname"):
                    if address.get(name):
                        endpoint[name] = address[name]
                of_family = groups.setdefault(family, {})
                of_family.setdefault(repr(ports), (ports, []))[1].append(endpoint)
    return {family: list(of_family.values()) for family, of_family in groups.items()}


class EndpointSliceMirroringController:
    """Keeps slices of Endpoints whose service selects no pods.

    Args:
        api: the cluster.
        selected: its services.

    Source: kube-controller-manager, endpointslicemirroring_controller.go.
    """

    def __init__(self, api: SimulatedCluster, selected: ServicePods) -> None:
        self._api = api
        self._selected = selected
        self._queue: Workqueue[str] = Workqueue(
            api.clock, self._sync, "endpoint-slice-mirroring-controller"
        )
        self._slices = SliceIndex(api, _MIRRORING_CONTROLLER, self._queue)
        selected.listen(lambda key, pause: self._queue.add_after(key, pause, scaled=False))
        api.subscribe(ENDPOINTS, lambda _change, new, _old: self._queue.add(key_of(new)))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        existing = self._slices.of(key)
        service = self._selected.service(key)
        endpoints = self._api.find(ENDPOINTS, name, namespace)
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
        told = endpoints["metadata"].get("annotations") or {}
        annotations = {
            key: value for key, value in told.items() if key not in (TRIGGER_TIME, _LAST_APPLIED)
        }
        groups = mirror_endpoints(endpoints)
        for family in sorted({*groups, *(one["addressType"] for one in existing)}):
            present = [one for one in existing if one["addressType"] == family]
            plan = plan_slices(
                groups.get(family, []), present, labels, most=_MAX_ENDPOINTS_PER_SUBSET, empty=False
            )
            for content in plan.create:
                self._create(endpoints, labels, annotations, {"addressType": family, **content})
            for changed in plan.update:
                metadata = {**changed["metadata"], "labels": labels, "annotations": annotations}
                self._api.update(SLICES, {**changed, "metadata": metadata})
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
            self._api.create(SLICES, {"metadata": metadata, **content}, namespace_of(endpoints))
        except StatusError as error:
            if not is_namespace_terminating(error):
                raise

    def _delete(self, slice_: Obj) -> None:
        try:
            self._api.delete(SLICES, name_of(slice_), namespace_of(slice_))
        except StatusError as error:
            if error.reason != "NotFound":
                raise

"""Endpoints of services: the addresses of the pods that a service selects, in both forms.

What may enter: the controllers of EndpointSlices and of Endpoints, and what they share. They read
services, pods and nodes, and write nothing but endpoints.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.endpoint import EndpointsController
from pytest_kwait.simulator.controllers.endpointslice import EndpointSliceController
from pytest_kwait.simulator.controllers.mirroring import EndpointSliceMirroringController
from pytest_kwait.simulator.controllers.selected_pods import ServicePods

__all__ = [
    "EndpointSliceController",
    "EndpointSliceMirroringController",
    "EndpointsController",
    "ServicePods",
]

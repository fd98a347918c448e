"""ComponentStatuses: computed, every component is healthy.

Source: k8s.io/kubernetes pkg/registry/core/componentstatus/rest.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import not_found
from pytest_kwait.simulator.store import Entry

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.handlers.listing import ListOptions
    from pytest_kwait.simulator.objects import Obj

COMPONENT_STATUSES = "componentstatuses"
_NAMES = ("scheduler", "controller-manager", "etcd-0")


def get_component_status(name: str) -> Obj:
    """Return the status of one component.

    Raises:
        StatusError: 404, it does not exist.
    """
    if name not in _NAMES:
        raise not_found("", "componentstatus", name)
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    }


def list_component_statuses(options: ListOptions) -> list[Entry]:
    """Return the component statuses that `options` select."""
    entries = [Entry(name, get_component_status(name), 0) for name in _NAMES]
    return [entry for entry in entries if options.selects(entry)]

"""The parts of the control plane, as `kubectl get componentstatuses` lists them: they run.

Source: k8s.io/kubernetes pkg/registry/core/componentstatus/rest.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import not_found
from pytest_kwait.simulator.store import Entry

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.handlers.list_options import ListOptions
    from pytest_kwait.simulator.objects import Obj

__all__ = ["COMPONENTS", "get_component_status", "list_component_statuses"]

COMPONENTS = "componentstatuses"
_COMPONENT_NAMES = ("scheduler", "controller-manager", "etcd-0")


def get_component_status(name: str) -> Obj:
    """One part.

    Raises:
        StatusError: 404, there is none of that name.
    """
    if name not in _COMPONENT_NAMES:
        raise not_found("", "componentstatus", name)
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    }


def list_component_statuses(options: ListOptions) -> list[Entry]:
    """The parts that `options` select."""
    entries = [Entry(name, get_component_status(name), 0) for name in _COMPONENT_NAMES]
    return [entry for entry in entries if options.selects(entry)]

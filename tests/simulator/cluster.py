"""A cluster without controllers: what each test of a room starts from."""

from __future__ import annotations

from typing import Any

from pytest_kwait.simulator.cluster import SimulatedCluster
from tests.simulator.manual_clock import ManualClock

Obj = dict[str, Any]


def new_cluster() -> SimulatedCluster:
    """A cluster with its namespaces and the service accounts that pods need."""
    api = SimulatedCluster(ManualClock())
    api.bootstrap()
    api.create("serviceaccounts", {"metadata": {"name": "default"}}, "default")
    return api


def pod(name: str = "p", **spec: Any) -> Obj:
    """A pod of one container."""
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}], **spec},
    }


def job(name: str = "j", **spec: Any) -> Obj:
    """A job of one container."""
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}
    }
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def config_map(name: str = "a", **data: str) -> Obj:
    """A config map."""
    return {"metadata": {"name": name}, "data": data}

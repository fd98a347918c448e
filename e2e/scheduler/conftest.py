"""Pods that name a scheduler, and nodes without a kubelet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import Obj, container, pod

if TYPE_CHECKING:
    from pytest_kwait import Kwait

NodeMaker = Callable[..., str]


@pytest.fixture
def fake_node(kwait: Kwait) -> NodeMaker:
    """Make a node that has room and a label of this test; others' pods are kept from it."""

    def make(name: str, *, cpu: str = "4", **labels: str) -> str:
        room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        (made,) = kwait.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": f"{name}.{kwait.namespace}",
                    "labels": {"e2e": kwait.namespace, **labels},
                },
                "spec": {"taints": [{"key": "e2e", "effect": "NoSchedule"}]},
                "status": {"capacity": room, "allocatable": room},
            }
        )
        return str(made["metadata"]["name"])

    return make


def scheduled_pod(name: str, scheduler: str, **spec: Any) -> Obj:
    """Return a pod that tolerates every node and asks for a scheduler."""
    tolerant: Obj = {"schedulerName": scheduler, "tolerations": [{"operator": "Exists"}]}
    return pod(name, container(script="sleep 60"), **{**tolerant, **spec})

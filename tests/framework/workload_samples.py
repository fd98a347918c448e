"""Sample workloads as JSON, and helpers that feed them to conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import DEPLOYMENTS, PODS, REPLICA_SETS
from tests.objects import owned_pod

if TYPE_CHECKING:
    from tests.engine.fake_session import FakeSession

Obj = dict[str, Any]

LABELS = {"app": "web"}


def stuck(owner: str, name: str, reason: str = "InvalidImageName") -> Obj:
    """Return a pod of which the only container waits for a reason."""
    return owned_pod(owner, name, "Pending", waiting=(reason, "nope"))


def show(session: FakeSession, made: Obj, sets: list[Obj], pods: list[Obj]) -> None:
    """Put a Deployment with what it owns on a server."""
    session.put(DEPLOYMENTS, made)
    for each in sets:
        session.put(REPLICA_SETS, each)
    for each in pods:
        session.put(PODS, each)
